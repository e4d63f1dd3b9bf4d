//! `/v1/rerank`, in the shape that Jina and Cohere share.

use super::embeddings::Usage;
use super::neutral;
use super::options::Extensions;
use super::texts::{self, Input, Reader, Tokenised};
use crate::control::{ErrorKind, Fault, Op};
use crate::engine::runtime::RerankJob;
use crate::engine::serve::access::Client;
use crate::engine::serve::app::App;
use crate::engine::serve::failure::Failure;
use crate::engine::serve::fields::{Fields, Unsupported, kind};
use crate::engine::serve::timing;
use axum::extract::{Extension, Request, State};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::Value;

/// Other servers' fields that would change the ranking or what is told of it.
const UNSUPPORTED: [Unsupported; 6] = [
    ("top_k", neutral::never),
    ("rank_fields", neutral::empty),
    ("max_tokens_per_doc", neutral::never),
    ("max_chunks_per_doc", neutral::one),
    ("raw_scores", neutral::no),
    ("truncation_direction", neutral::right),
];

struct Ask {
    model: String,
    query: String,
    documents: Vec<String>,
    top_n: Option<usize>,
    return_documents: bool,
    truncate: bool,
    extensions: Extensions,
}

impl Ask {
    fn read(fields: &Fields<'_>) -> Result<Ask, Fault> {
        fields.unsupported(&UNSUPPORTED)?;
        let extensions = Extensions::read(fields)?;
        Ok(Ask {
            model: fields.str("model")?.to_string(),
            query: fields.str("query")?.to_string(),
            documents: documents(fields)?,
            top_n: fields.opt_int("top_n", 1..=i64::MAX)?.map(|n| usize::try_from(n).unwrap_or(usize::MAX)),
            return_documents: fields.flag("return_documents")?,
            truncate: extensions.truncate.or(fields.opt_bool("truncate")?).unwrap_or(false),
            extensions,
        })
    }
}

/// Documents as strings or as objects with a `text`.
fn documents(fields: &Fields<'_>) -> Result<Vec<String>, Fault> {
    fields.value("documents")?;
    let items = fields.opt_array("documents")?.unwrap_or(&[]);
    if items.is_empty() {
        return Err(fields.refuse("documents", "is empty: there is nothing to rank").code("empty_input"));
    }
    let read = |(i, value): (usize, &Value)| {
        let name = format!("documents[{i}]");
        match value {
            Value::String(text) => Ok(text.clone()),
            Value::Object(map) => Ok(Fields::at(map, name).str("text")?.to_string()),
            other => {
                let message = format!("`{name}` must be a string or an object with a `text`, it is {}", kind(other));
                Err(Fault::invalid(name, message).code("invalid_type"))
            }
        }
    };
    items.iter().enumerate().map(read).collect()
}

pub(crate) async fn rerank(
    State(app): State<App>,
    Extension(client): Extension<Client>,
    request: Request,
) -> Result<Response, Failure> {
    let (map, bytes) = app.object(request).await?;
    let ask = Ask::read(&Fields::root(&map))?;
    texts::check_count(&app, "documents", ask.documents.len())?;
    let handle = app.engine.model_for(&ask.model, Op::Rerank)?;
    let reader = Reader::of(&handle, Op::Rerank)?;
    let cross_encoder = reader.text().cross_encoder;

    let (query, documents, truncate) = (ask.query.clone(), ask.documents.clone(), ask.truncate);
    let read = move || tokenise(&reader, query, documents, truncate, cross_encoder);
    let (query, documents) = app.tokenising(bytes, read).await?;
    let truncated: Vec<bool> = documents.iter().map(|document| document.truncated).collect();
    // The query is read once per document.
    let tokens = documents.iter().map(|document| query.ids.len() + document.ids.len()).sum();
    let job = RerankJob { query: query.ids, documents: documents.into_iter().map(|document| document.ids).collect() };

    let caller = app.caller(&client, ask.extensions.deadline_s);
    let mut ticket = app.engine.rerank(&ask.model, job, caller)?;
    let id = ticket.id;
    let reranked = match ticket.next().await {
        Some(answer) => answer.map_err(|fault| Failure::of(id, fault))?,
        None => return Err(Failure::of(id, Fault::new(ErrorKind::Internal, "the model's worker ended"))),
    };
    let answer = Answer {
        id: id.to_string(),
        object: "rerank",
        results: rank(&reranked.scores, ask.top_n, ask.return_documents.then_some(&ask.documents), &truncated),
        model: ask.model,
        method: if cross_encoder { "cross-encoder" } else { "cosine" },
        usage: Usage { prompt_tokens: tokens, total_tokens: tokens },
    };
    let mut response = axum::Json(answer).into_response();
    timing::set_times(response.headers_mut(), id, reranked.times);
    Ok(response)
}

/// Query and documents in tokens. A cross-encoder reads both as one sequence, so that its documents get what the query
/// leaves of the limit.
fn tokenise(
    reader: &Reader,
    query: String,
    documents: Vec<String>,
    truncate: bool,
    cross_encoder: bool,
) -> Result<(Tokenised, Vec<Tokenised>), Fault> {
    let query = reader.read(&Input::Text(query), "query", truncate)?;
    let mut rest = reader.clone();
    if cross_encoder {
        // The pair shares its leading special token.
        rest.limit = (reader.limit + 1).saturating_sub(query.ids.len());
        if rest.limit < reader.limit / 4 {
            return Err(Fault::new(
                ErrorKind::TooLong,
                format!("`query` has {} tokens of the {} that query and document share", query.ids.len(), reader.limit),
            )
            .param("query")
            .hint("shorten the query"));
        }
    }
    let read = |(i, text)| rest.read(&Input::Text(text), &format!("documents[{i}]"), truncate);
    let documents = documents.into_iter().enumerate().map(read).collect::<Result<_, _>>()?;
    Ok((query, documents))
}

#[derive(Serialize)]
struct Answer<'a> {
    id: String,
    object: &'static str,
    results: Vec<Ranked<'a>>,
    model: String,
    /// Where the scores come from: a cross-encoder, or the cosine of two embeddings.
    method: &'static str,
    usage: Usage,
}

#[derive(Debug, PartialEq, Serialize)]
struct Ranked<'a> {
    index: usize,
    relevance_score: f32,
    #[serde(skip_serializing_if = "Option::is_none")]
    document: Option<Document<'a>>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    truncated: bool,
}

#[derive(Debug, PartialEq, Serialize)]
struct Document<'a> {
    text: &'a str,
}

/// The best `top_n`, highest score first; equal scores in input order.
fn rank<'a>(
    scores: &[f32],
    top_n: Option<usize>,
    documents: Option<&'a Vec<String>>,
    truncated: &[bool],
) -> Vec<Ranked<'a>> {
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]));
    order.truncate(top_n.unwrap_or(usize::MAX));
    order
        .into_iter()
        .map(|index| Ranked {
            index,
            relevance_score: scores[index],
            document: documents.and_then(|all| all.get(index)).map(|text| Document { text }),
            truncated: truncated.get(index).copied().unwrap_or(false),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::models::ModelFront;
    use serde_json::json;

    fn ask(extra: Value) -> Result<Ask, Fault> {
        let mut body = json!({"model": "m", "query": "q", "documents": ["a", {"text": "b"}]});
        for (key, value) in extra.as_object().unwrap() {
            body[key] = value.clone();
        }
        Ask::read(&Fields::root(body.as_object().unwrap()))
    }

    #[test]
    fn documents_are_strings_or_objects() {
        assert_eq!(ask(json!({})).unwrap().documents, ["a", "b"]);
        for (documents, param) in [
            (json!([]), "documents"),
            (json!("a"), "documents"),
            (json!(null), "documents"),
            (json!(["a", 1]), "documents[1]"),
            (json!([{"title": "a"}]), "documents[0].text"),
        ] {
            let fault = ask(json!({"documents": documents})).err().unwrap();
            assert_eq!(fault.param.as_deref(), Some(param), "{fault}");
        }
    }

    #[test]
    fn top_n_is_at_least_one() {
        assert_eq!(ask(json!({"top_n": 0})).err().unwrap().param.as_deref(), Some("top_n"));
        assert_eq!(ask(json!({"top_n": 99})).unwrap().top_n, Some(99));
    }

    #[test]
    fn ranking_is_stable_and_bounded() {
        let scores = [0.2, 0.9, 0.5, 0.9, -0.1];
        let order = |top_n| rank(&scores, top_n, None, &[]).iter().map(|r| r.index).collect::<Vec<_>>();
        assert_eq!(order(Some(2)), [1, 3]);
        assert_eq!(order(Some(99)), [1, 3, 2, 0, 4]);
        assert_eq!(order(None).len(), 5);
    }

    #[test]
    fn documents_come_back_when_asked_for() {
        let documents = vec!["a".to_string(), "b".to_string()];
        let ranked = rank(&[0.1, 0.2], Some(1), Some(&documents), &[false, true]);
        assert_eq!(serde_json::to_value(&ranked).unwrap()[0]["document"], json!({"text": "b"}));
        assert!(ranked[0].truncated);
    }

    #[test]
    fn a_cross_encoder_shares_its_limit() {
        let front = std::sync::Arc::new(ModelFront::Text(super::super::tests::text_front(8)));
        let reader = Reader { front, model: "tiny".into(), limit: 8 };
        let of = |query: &str, cross| tokenise(&reader, query.into(), vec!["a b c d e f".into()], false, cross);
        assert!(of("a b", false).is_ok());
        let fault = of("a b", true).unwrap_err();
        assert_eq!(fault.param.as_deref(), Some("documents[0]"));
        assert!(fault.message.contains("takes 5"), "{fault}");
        assert_eq!(of("a b c d e f", true).unwrap_err().param.as_deref(), Some("query"));
    }
}
