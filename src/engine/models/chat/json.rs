//! The `tojson` filter as templates expect it: Python's `json.dumps`, with `, ` and `: ` between items, no HTML escapes,
//! and `indent` on request.

use minijinja::value::{Kwargs, Value, ValueKind};
use minijinja::{Error, ErrorKind};

/// Deepest nesting written.
const MAX_DEPTH: usize = 64;

pub(super) fn to_json(value: &Value, options: Kwargs) -> Result<Value, Error> {
    let indent: Option<usize> = options.get("indent")?;
    // Accepted and without effect: text is never escaped to ASCII.
    let _: Option<bool> = options.get("ensure_ascii")?;
    options.assert_all_used()?;
    let mut out = String::new();
    write(&mut out, value, indent.map(|n| n.min(16)), 0)?;
    Ok(Value::from_safe_string(out))
}

fn write(out: &mut String, value: &Value, indent: Option<usize>, depth: usize) -> Result<(), Error> {
    if depth > MAX_DEPTH {
        return Err(Error::new(ErrorKind::BadSerialization, format!("nested deeper than {MAX_DEPTH}")));
    }
    match value.kind() {
        ValueKind::Undefined | ValueKind::None => out.push_str("null"),
        ValueKind::Bool => out.push_str(if value.is_true() { "true" } else { "false" }),
        ValueKind::Number => out.push_str(&value.to_string()),
        ValueKind::Seq | ValueKind::Iterable => {
            let items: Vec<Value> = value.try_iter()?.collect();
            list(out, ('[', ']'), items.len(), indent, depth, |out, i| write(out, &items[i], indent, depth + 1))?;
        }
        ValueKind::Map => {
            let keys: Vec<Value> = value.try_iter()?.collect();
            list(out, ('{', '}'), keys.len(), indent, depth, |out, i| {
                quote(out, &keys[i].to_string())?;
                out.push_str(": ");
                write(out, &value.get_item(&keys[i])?, indent, depth + 1)
            })?;
        }
        _ => quote(out, &value.to_string())?,
    }
    Ok(())
}

fn list(
    out: &mut String,
    (open, close): (char, char),
    len: usize,
    indent: Option<usize>,
    depth: usize,
    mut item: impl FnMut(&mut String, usize) -> Result<(), Error>,
) -> Result<(), Error> {
    let line = |out: &mut String, depth: usize| {
        if let (Some(n), true) = (indent, len > 0) {
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', n * depth));
        }
    };
    out.push(open);
    for i in 0..len {
        if i > 0 {
            out.push_str(if indent.is_some() { "," } else { ", " });
        }
        line(out, depth + 1);
        item(out, i)?;
    }
    line(out, depth);
    out.push(close);
    Ok(())
}

fn quote(out: &mut String, text: &str) -> Result<(), Error> {
    let quoted = serde_json::to_string(text).map_err(|e| Error::new(ErrorKind::BadSerialization, e.to_string()))?;
    out.push_str(&quoted);
    Ok(())
}

#[cfg(test)]
mod tests {
    use minijinja::Environment;

    fn eval(expression: &str) -> String {
        let mut env = Environment::new();
        env.add_filter("tojson", super::to_json);
        env.compile_expression(expression).expect("parses").eval(()).expect("evaluates").to_string()
    }

    #[test]
    fn writes_as_python_does() {
        assert_eq!(
            eval("{'a': [1, 2.5, true, none], 'b': '<é\"'}|tojson"),
            r#"{"a": [1, 2.5, true, null], "b": "<é\""}"#
        );
        assert_eq!(eval("{'a': [1]}|tojson(indent=2)"), "{\n  \"a\": [\n    1\n  ]\n}");
        assert_eq!(eval("[]|tojson(indent=2)"), "[]");
    }
}
