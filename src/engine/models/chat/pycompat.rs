//! Python methods that chat templates call on strings, maps and lists and that Jinja here does not have by itself.

use minijinja::value::{Value, ValueKind, from_args};
use minijinja::{Error, ErrorKind};

/// Called for a method that a value does not have.
pub(super) fn call(value: &Value, method: &str, args: &[Value]) -> Result<Value, Error> {
    match value.kind() {
        ValueKind::String => on_string(value.as_str().unwrap_or_default(), method, args),
        ValueKind::Map => on_map(value, method, args),
        ValueKind::Seq | ValueKind::Iterable => on_list(value, method, args),
        _ => Err(unknown(method)),
    }
}

fn unknown(method: &str) -> Error {
    Error::new(ErrorKind::UnknownMethod, format!("there is no method `{method}` here"))
}

fn on_string(s: &str, method: &str, args: &[Value]) -> Result<Value, Error> {
    Ok(match method {
        "strip" | "lstrip" | "rstrip" => {
            let (chars,): (Option<&str>,) = from_args(args)?;
            let cut = |c: char| chars.map_or(c.is_whitespace(), |set| set.contains(c));
            Value::from(match method {
                "strip" => s.trim_matches(cut),
                "lstrip" => s.trim_start_matches(cut),
                _ => s.trim_end_matches(cut),
            })
        }
        "split" | "rsplit" => {
            let (by, most): (Option<&str>, Option<i64>) = from_args(args)?;
            split(s, by, most.and_then(|n| usize::try_from(n).ok()), method == "rsplit")?
        }
        "splitlines" => {
            let () = from_args(args)?;
            s.lines().map(Value::from).collect()
        }
        "startswith" | "endswith" => {
            let (what,): (&Value,) = from_args(args)?;
            let test = |x: &str| if method == "startswith" { s.starts_with(x) } else { s.ends_with(x) };
            match what.as_str() {
                Some(x) => Value::from(test(x)),
                None => Value::from(what.try_iter()?.any(|v| v.as_str().is_some_and(test))),
            }
        }
        "replace" => {
            let (from, to, most): (&str, &str, Option<i64>) = from_args(args)?;
            match most.and_then(|n| usize::try_from(n).ok()) {
                Some(n) => Value::from(s.replacen(from, to, n)),
                None => Value::from(s.replace(from, to)),
            }
        }
        "find" => {
            let (what,): (&str,) = from_args(args)?;
            Value::from(s.find(what).map_or(-1, |at| s[..at].chars().count() as i64))
        }
        "count" => {
            let (what,): (&str,) = from_args(args)?;
            Value::from(if what.is_empty() { s.chars().count() + 1 } else { s.matches(what).count() })
        }
        "join" => {
            let (items,): (&Value,) = from_args(args)?;
            let parts: Vec<String> = items.try_iter()?.map(|v| v.to_string()).collect();
            Value::from(parts.join(s))
        }
        "removeprefix" => {
            let (what,): (&str,) = from_args(args)?;
            Value::from(s.strip_prefix(what).unwrap_or(s))
        }
        "removesuffix" => {
            let (what,): (&str,) = from_args(args)?;
            Value::from(s.strip_suffix(what).unwrap_or(s))
        }
        "upper" => Value::from(s.to_uppercase()),
        "lower" => Value::from(s.to_lowercase()),
        "title" | "capitalize" => Value::from(capitalise(s, method == "title")),
        "isdigit" => Value::from(!s.is_empty() && s.chars().all(|c| c.is_ascii_digit())),
        "isspace" => Value::from(!s.is_empty() && s.chars().all(char::is_whitespace)),
        _ => return Err(unknown(method)),
    })
}

fn split(s: &str, by: Option<&str>, most: Option<usize>, from_end: bool) -> Result<Value, Error> {
    if by == Some("") {
        return Err(Error::new(ErrorKind::InvalidOperation, "split by an empty string"));
    }
    let pieces = most.map_or(usize::MAX, |n| n.saturating_add(1));
    Ok(match (by, from_end) {
        (Some(by), false) => s.splitn(pieces, by).map(Value::from).collect(),
        (Some(by), true) => {
            let mut parts: Vec<&str> = s.rsplitn(pieces, by).collect();
            parts.reverse();
            parts.into_iter().map(Value::from).collect()
        }
        (None, _) => {
            let mut parts = Vec::new();
            let mut rest = s.trim();
            while !rest.is_empty() {
                let end = if parts.len() + 1 == pieces { None } else { rest.find(char::is_whitespace) };
                let (word, after) = rest.split_at(end.unwrap_or(rest.len()));
                parts.push(Value::from(word));
                rest = after.trim_start();
            }
            Value::from(parts)
        }
    })
}

fn capitalise(s: &str, every_word: bool) -> String {
    let mut start = true;
    s.chars()
        .flat_map(|c| {
            let upper = start;
            start = every_word && !c.is_alphabetic();
            let mapped: Vec<char> = if upper { c.to_uppercase().collect() } else { c.to_lowercase().collect() };
            mapped
        })
        .collect()
}

fn on_map(value: &Value, method: &str, args: &[Value]) -> Result<Value, Error> {
    Ok(match method {
        "keys" => value.try_iter()?.collect(),
        "values" => value.try_iter()?.map(|k| value.get_item(&k)).collect::<Result<Value, _>>()?,
        "items" => value
            .try_iter()?
            .map(|k| value.get_item(&k).map(|v| Value::from(vec![k, v])))
            .collect::<Result<Value, _>>()?,
        "get" => {
            let (key, default): (&Value, Option<Value>) = from_args(args)?;
            let found = value.get_item(key)?;
            if found.is_undefined() { default.unwrap_or_else(|| Value::from(())) } else { found }
        }
        _ => return Err(unknown(method)),
    })
}

fn on_list(value: &Value, method: &str, args: &[Value]) -> Result<Value, Error> {
    let (what,): (&Value,) = from_args(args)?;
    match method {
        "count" => Ok(Value::from(value.try_iter()?.filter(|v| v == what).count())),
        "index" => value
            .try_iter()?
            .position(|v| v == *what)
            .map(Value::from)
            .ok_or_else(|| Error::new(ErrorKind::InvalidOperation, "the value is not in the list")),
        _ => Err(unknown(method)),
    }
}

#[cfg(test)]
mod tests {
    use minijinja::Environment;

    fn eval(expression: &str) -> String {
        let mut env = Environment::new();
        env.set_unknown_method_callback(|_, value, method, args| super::call(value, method, args));
        let e = env.compile_expression(expression).expect("parses");
        e.eval(()).expect("evaluates").to_string()
    }

    #[test]
    fn string_methods_do_as_python_does() {
        assert_eq!(eval("'  a b '.strip()"), "a b");
        assert_eq!(eval("'xxaxx'.rstrip('x')"), "xxa");
        assert_eq!(eval("'a  b c'.split()"), "['a', 'b', 'c']");
        assert_eq!(eval("'a  b c'.split(none, 1)"), "['a', 'b c']");
        assert_eq!(eval("'a,b,c'.rsplit(',', 1)"), "['a,b', 'c']");
        assert_eq!(eval("'abc'.startswith(('x', 'a'))"), "True");
        assert_eq!(eval("'abc'.find('c')"), "2");
        assert_eq!(eval("'hello world'.title()"), "Hello World");
        assert_eq!(eval("'hELLO world'.capitalize()"), "Hello world");
        assert_eq!(eval("', '.join(['a', 'b'])"), "a, b");
        assert_eq!(eval("'aXbX'.replace('X', '-', 1)"), "a-bX");
    }

    #[test]
    fn map_methods_do_as_python_does() {
        assert_eq!(eval("{'a': 1}.get('a')"), "1");
        assert_eq!(eval("{'a': 1}.get('b', 'none')"), "none");
        assert_eq!(eval("{'a': 1}.items()|length"), "1");
        assert_eq!(eval("[1, 2, 1].count(1)"), "2");
    }

    #[test]
    fn unknown_methods_are_errors() {
        let mut env = Environment::new();
        env.set_unknown_method_callback(|_, value, method, args| super::call(value, method, args));
        let e = env.compile_expression("'a'.system()").expect("parses");
        assert!(e.eval(()).is_err());
    }
}
