//! `/v1/embeddings`.

use super::neutral;
use super::options::Extensions;
use super::texts::{self, Input, Reader, Tokenised};
use crate::control::{ErrorKind, Fault, Op};
use crate::engine::runtime::{EmbedJob, Embedded};
use crate::engine::serve::access::Client;
use crate::engine::serve::app::App;
use crate::engine::serve::failure::Failure;
use crate::engine::serve::fields::{Fields, Unsupported, kind};
use crate::engine::serve::timing;
use axum::extract::{Extension, Request, State};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use serde::Serialize;
use serde_json::Value;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Encoding {
    Float,
    Base64,
}

/// Other servers' fields that would change the vectors.
const UNSUPPORTED: [Unsupported; 6] = [
    ("normalize", neutral::yes),
    ("output_dimension", neutral::never),
    ("output_dtype", neutral::float),
    ("embedding_types", neutral::never),
    ("truncation_direction", neutral::right),
    ("prompt_name", neutral::never),
];

/// The request, checked as far as can be without the model.
struct Ask {
    model: String,
    inputs: Vec<(String, Input)>,
    encoding: Encoding,
    dimensions: Option<usize>,
    truncate: bool,
    extensions: Extensions,
}

impl Ask {
    fn read(fields: &Fields<'_>) -> Result<Ask, Fault> {
        fields.unsupported(&UNSUPPORTED)?;
        let extensions = Extensions::read(fields)?;
        let encodings = [("float", Encoding::Float), ("base64", Encoding::Base64)];
        Ok(Ask {
            model: fields.str("model")?.to_string(),
            inputs: inputs(fields)?,
            encoding: fields.opt_choice("encoding_format", &encodings)?.unwrap_or(Encoding::Float),
            dimensions: fields.opt_int("dimensions", 1..=i64::from(u32::MAX))?.map(|n| n as usize),
            truncate: extensions.truncate.or(fields.opt_bool("truncate")?).unwrap_or(false),
            extensions,
        })
    }
}

/// The `input` field: a text, texts, token ids, or arrays of token ids; each with its name.
fn inputs(fields: &Fields<'_>) -> Result<Vec<(String, Input)>, Fault> {
    let mistyped = |name: &str, value: &Value| {
        let wanted = "a string, an array of strings, or arrays of token ids";
        Fault::invalid(name, format!("`{name}` must be {wanted}, it is {}", kind(value))).code("invalid_type")
    };
    let items = match fields.value("input")? {
        Value::String(text) => return Ok(vec![("input".to_string(), Input::Text(text.clone()))]),
        Value::Array(items) => items,
        other => return Err(mistyped("input", other)),
    };
    match items.first() {
        None => Err(fields.refuse("input", "is an empty array: there is nothing to read in it").code("empty_input")),
        Some(Value::Number(_)) => Ok(vec![("input".to_string(), Input::Ids(texts::ids(items, "input")?))]),
        Some(first) => {
            // All items are of the first one's kind: a mixture is more likely a mistake than a wish.
            let texts_wanted = first.is_string();
            let read = |(i, value): (usize, &Value)| {
                let name = format!("input[{i}]");
                let input = match value {
                    Value::String(text) if texts_wanted => Input::Text(text.clone()),
                    Value::Array(ids) if !texts_wanted => Input::Ids(texts::ids(ids, &name)?),
                    other => return Err(mistyped(&name, other)),
                };
                Ok((name, input))
            };
            items.iter().enumerate().map(read).collect()
        }
    }
}

pub(crate) async fn embeddings(
    State(app): State<App>,
    Extension(client): Extension<Client>,
    request: Request,
) -> Result<Response, Failure> {
    let (map, bytes) = app.object(request).await?;
    let ask = Ask::read(&Fields::root(&map))?;
    texts::check_count(&app, "input", ask.inputs.len())?;
    let handle = app.engine.model_for(&ask.model, Op::Embed)?;
    let reader = Reader::of(&handle, Op::Embed)?;
    check_dimensions(&ask, reader.text().dimensions)?;

    let (inputs, truncate) = (ask.inputs, ask.truncate);
    let read = move || -> Result<Vec<Tokenised>, Fault> {
        inputs.iter().map(|(name, input)| reader.read(input, name, truncate)).collect()
    };
    let texts = app.tokenising(bytes, read).await?;
    let tokens = texts.iter().map(|text| text.ids.len()).sum();
    let (sequences, truncated): (Vec<_>, Vec<_>) = texts.into_iter().map(|t| (t.ids, t.truncated)).unzip();

    let caller = app.caller(&client, ask.extensions.deadline_s);
    let mut ticket = app.engine.embed(&ask.model, EmbedJob { sequences }, caller)?;
    let id = ticket.id;
    let embedded = match ticket.next().await {
        Some(answer) => answer.map_err(|fault| Failure::of(id, fault))?,
        None => return Err(Failure::of(id, Fault::new(ErrorKind::Internal, "the model's worker ended"))),
    };
    let times = embedded.times;
    let answer = shape(ask.model, embedded, &truncated, ask.encoding, ask.dimensions, tokens);
    let mut response = axum::Json(answer).into_response();
    timing::set_times(response.headers_mut(), id, times);
    Ok(response)
}

fn check_dimensions(ask: &Ask, model: usize) -> Result<(), Fault> {
    match ask.dimensions {
        Some(wanted) if wanted > model => {
            Err(Fault::invalid("dimensions", format!("`dimensions` is {wanted}, `{}` has {model}", ask.model)))
        }
        _ => Ok(()),
    }
}

#[derive(Serialize)]
struct Answer {
    object: &'static str,
    data: Vec<Item>,
    model: String,
    usage: Usage,
}

#[derive(Serialize)]
pub(super) struct Usage {
    pub(super) prompt_tokens: usize,
    pub(super) total_tokens: usize,
}

#[derive(Serialize)]
struct Item {
    object: &'static str,
    index: usize,
    embedding: Vector,
    /// Said only where it is so: the OpenAI shape has no such field.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    truncated: bool,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Vector {
    Float(Vec<f32>),
    /// Little-endian f32.
    Base64(String),
}

fn shape(
    model: String,
    embedded: Embedded,
    truncated: &[bool],
    encoding: Encoding,
    dimensions: Option<usize>,
    tokens: usize,
) -> Answer {
    let item = |(index, mut vector): (usize, Vec<f32>)| {
        if let Some(dimensions) = dimensions {
            shorten(&mut vector, dimensions);
        }
        let embedding = match encoding {
            Encoding::Float => Vector::Float(vector),
            Encoding::Base64 => Vector::Base64(base64_le(&vector)),
        };
        Item { object: "embedding", index, embedding, truncated: truncated.get(index).copied().unwrap_or(false) }
    };
    Answer {
        object: "list",
        data: embedded.vectors.into_iter().enumerate().map(item).collect(),
        model,
        usage: Usage { prompt_tokens: tokens, total_tokens: tokens },
    }
}

/// Cuts a vector to its first `dimensions` and makes it a unit vector again.
fn shorten(vector: &mut Vec<f32>, dimensions: usize) {
    if dimensions >= vector.len() {
        return;
    }
    vector.truncate(dimensions);
    let norm = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
    if norm > 0.0 {
        vector.iter_mut().for_each(|x| *x /= norm);
    }
}

fn base64_le(vector: &[f32]) -> String {
    let bytes: Vec<u8> = vector.iter().flat_map(|x| x.to_le_bytes()).collect();
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::runtime::JobTimes;
    use serde_json::json;

    fn ask(value: Value) -> Result<Ask, Fault> {
        Ask::read(&Fields::root(value.as_object().unwrap()))
    }

    #[test]
    fn every_form_of_input_is_read() {
        let names = |value: Value| -> Vec<String> {
            ask(json!({"model": "m", "input": value})).unwrap().inputs.into_iter().map(|(name, _)| name).collect()
        };
        assert_eq!(names(json!("x")), ["input"]);
        assert_eq!(names(json!(["x", "y"])), ["input[0]", "input[1]"]);
        assert_eq!(names(json!([1, 2])), ["input"]);
        assert_eq!(names(json!([[1], [2, 3]])), ["input[0]", "input[1]"]);
    }

    #[test]
    fn refusals_name_the_item() {
        for (input, param) in [
            (json!([]), "input"),
            (json!(3), "input"),
            (json!(["x", 1]), "input[1]"),
            (json!([[1], "x"]), "input[1]"),
            (json!([[1], ["x"]]), "input[1][0]"),
            (json!([null]), "input[0]"),
            (json!(null), "input"),
        ] {
            let fault = ask(json!({"model": "m", "input": input})).err().unwrap();
            assert_eq!(fault.param.as_deref(), Some(param), "{fault}");
        }
    }

    #[test]
    fn encodings_are_closed_and_extras_tolerated() {
        let of = |value: Value| {
            let mut body = json!({"model": "m", "input": "x", "user": "u", "new_field": 1});
            body["encoding_format"] = value;
            ask(body).map(|ask| ask.encoding)
        };
        assert_eq!(of(json!(null)).unwrap(), Encoding::Float);
        assert_eq!(of(json!("base64")).unwrap(), Encoding::Base64);
        assert_eq!(of(json!("hex")).unwrap_err().param.as_deref(), Some("encoding_format"));
        assert!(ask(json!({"model": "m", "input": "x", "dimensions": 0})).is_err());
        assert!(ask(json!({"model": "m", "input": "x", "truncate": true})).unwrap().truncate);
        assert!(ask(json!({"model": "m", "input": "x", "lanekeeper": {"truncate": true}})).unwrap().truncate);
    }

    #[test]
    fn base64_is_the_same_vector() {
        let vectors = vec![vec![0.6f32, -0.8, 0.0]];
        let of = |encoding| {
            let embedded = Embedded { vectors: vectors.clone(), times: JobTimes::default() };
            serde_json::to_value(shape("m".into(), embedded, &[false], encoding, None, 3)).unwrap()
        };
        let float = of(Encoding::Float);
        assert_eq!(
            serde_json::to_string(&float["data"][0]["embedding"]).unwrap(),
            "[0.6000000238418579,-0.800000011920929,0.0]"
        );
        let text = of(Encoding::Base64)["data"][0]["embedding"].as_str().unwrap().to_string();
        let bytes = base64::engine::general_purpose::STANDARD.decode(text).unwrap();
        let back: Vec<f32> = bytes.chunks(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect();
        assert_eq!(back, vectors[0]);
        assert_eq!(float["usage"], json!({"prompt_tokens": 3, "total_tokens": 3}));
        assert!(float["data"][0].get("truncated").is_none());
    }

    #[test]
    fn shortened_vectors_are_unit_vectors() {
        let mut vector = vec![0.3f32, 0.4, 0.5, 0.7];
        shorten(&mut vector, 2);
        assert_eq!(vector.len(), 2);
        assert!((vector[0] - 0.6).abs() < 1e-6 && (vector[1] - 0.8).abs() < 1e-6);
        let mut zero = vec![0.0f32, 0.0, 1.0];
        shorten(&mut zero, 2);
        assert_eq!(zero, [0.0, 0.0], "never NaN");
    }
}
