//! Renders chat templates.

use super::{json, pycompat};
use crate::control::{ErrorKind, Fault};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::Value;
use minijinja::{Environment, Error, ErrorKind as JinjaKind};
use serde::{Deserialize, Serialize};
use std::sync::LazyLock;

/// Instructions that one rendering may take: far beyond any honest template on a full context.
const FUEL: u64 = 20_000_000;

/// Used when a model brings no template of its own but has ChatML's tokens.
const CHATML: &str = "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + \
                      '<|im_end|>' + '\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

/// One message of a chat.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChatMessage {
    /// `system`, `user`, `assistant`, `tool`, …: what the template knows.
    pub role: String,
    /// Its text; parts are joined by the door.
    pub content: String,
}

impl ChatMessage {
    fn value(&self) -> Value {
        minijinja::context! { role => self.role.as_str(), content => self.content.as_str() }
    }
}

/// A checked template and the strings it may use.
#[derive(Debug, Clone)]
pub struct ChatTemplate {
    source: String,
    bos: String,
    eos: String,
}

impl ChatTemplate {
    /// Checks `source`; the error is the parser's.
    pub fn new(source: &str, bos: Option<&str>, eos: Option<&str>) -> Result<ChatTemplate, String> {
        environment().template_from_str(source).map_err(|e| describe(&e))?;
        Ok(ChatTemplate {
            source: source.to_string(),
            bos: bos.unwrap_or_default().to_string(),
            eos: eos.unwrap_or_default().to_string(),
        })
    }

    /// The ChatML template.
    pub fn chatml() -> ChatTemplate {
        ChatTemplate { source: CHATML.to_string(), bos: String::new(), eos: String::new() }
    }

    /// The prompt for `messages`, ending where the assistant's answer begins.
    pub fn render(&self, messages: &[ChatMessage]) -> Result<String, Fault> {
        let env = environment();
        let context = minijinja::context! {
            messages => messages.iter().map(ChatMessage::value).collect::<Vec<Value>>(),
            add_generation_prompt => true,
            bos_token => self.bos.as_str(),
            eos_token => self.eos.as_str(),
        };
        env.render_str(&self.source, context).map_err(|e| {
            let out_of_fuel = e.kind() == JinjaKind::OutOfFuel;
            let message = if out_of_fuel {
                "the model's chat template took too many steps on these messages".to_string()
            } else {
                format!("the model's chat template does not take these messages: {}", describe(&e))
            };
            Fault::new(ErrorKind::InvalidRequest, message)
                .param("messages")
                .code("chat_template")
                .hint("check the roles and their order, or send a raw prompt to /v1/completions")
        })
    }
}

/// The innermost reason, without the template's text.
fn describe(e: &Error) -> String {
    let mut inner: &dyn std::error::Error = e;
    while let Some(source) = inner.source() {
        inner = source;
    }
    match inner.downcast_ref::<Error>() {
        Some(e) => {
            let what = e.detail().map_or_else(|| e.kind().to_string(), str::to_string);
            e.line().map_or_else(|| what.clone(), |line| format!("{what} (template line {line})"))
        }
        None => inner.to_string(),
    }
}

fn environment() -> Environment<'static> {
    let mut env = Environment::new();
    env.set_fuel(Some(FUEL));
    env.set_syntax(SYNTAX.clone());
    env.set_unknown_method_callback(|_, value, method, args| pycompat::call(value, method, args));
    env.add_function("raise_exception", |message: String| -> Result<String, Error> {
        Err(Error::new(JinjaKind::InvalidOperation, message))
    });
    env.add_function("strftime_now", |format: String| -> Result<String, Error> {
        jiff::fmt::strtime::format(&format, &jiff::ZonedDateTime::now())
            .map_err(|e| Error::new(JinjaKind::InvalidOperation, format!("strftime_now: {e}")))
    });
    env.add_filter("tojson", json::to_json);
    env
}

/// The whitespace rules that chat templates are written for.
static SYNTAX: LazyLock<SyntaxConfig> = LazyLock::new(|| {
    let built = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
    built.expect("the default delimiters are distinct")
});

#[cfg(test)]
mod tests {
    use super::*;

    fn message(role: &str, content: &str) -> ChatMessage {
        ChatMessage { role: role.into(), content: content.into() }
    }

    fn render(source: &str, messages: &[ChatMessage]) -> Result<String, Fault> {
        ChatTemplate::new(source, Some("<s>"), Some("</s>")).expect("parses").render(messages)
    }

    #[test]
    fn chatml_is_what_it_should_be() {
        let text = ChatTemplate::chatml().render(&[message("user", "Hi")]).expect("renders");
        assert_eq!(text, "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
    }

    #[test]
    fn templates_in_the_wild_use_python_and_whitespace_rules() {
        let source = "{{ bos_token }}{% set ns = namespace(n=0) %}\n{% for m in messages %}\n  {% if m['role'] == 'user' %}\n[INST] {{ m['content'].strip() }} [/INST]{% set ns.n = ns.n + 1 %}\n  {% elif m.role.startswith('assist') %}\n {{ m.content.split('</think>')[-1] | trim }}{{ eos_token }}\n  {% endif %}\n{% endfor %}{{ ns.n }}";
        let text = render(source, &[message("user", "  a "), message("assistant", "<think>x</think> b")]);
        assert_eq!(text.expect("renders"), "<s>[INST] a [/INST] b</s>\n1");
    }

    #[test]
    fn a_template_that_refuses_is_the_requests_fault() {
        let source = "{% if messages[0].role != 'user' %}{{ raise_exception('roles must alternate') }}{% endif %}";
        let fault = render(source, &[message("system", "s")]).expect_err("refused");
        assert_eq!(fault.kind, ErrorKind::InvalidRequest);
        assert_eq!(fault.param.as_deref(), Some("messages"));
        assert!(fault.message.contains("roles must alternate"), "{}", fault.message);
    }

    #[test]
    fn a_template_that_never_ends_runs_out_of_fuel() {
        let source = "{% for a in range(9999) %}{% for b in range(9999) %}{% for c in range(9999) %}{{ a }}{% endfor %}{% endfor %}{% endfor %}";
        let fault = render(source, &[message("user", "x")]).expect_err("stopped");
        assert!(fault.message.contains("too many steps"), "{}", fault.message);
    }

    #[test]
    fn tojson_is_pythons() {
        let text = render("{{ messages | tojson }}", &[message("user", "a<b & 'é'")]).expect("renders");
        let expected = r#"[{"role": "user", "content": "a<b & 'é'"}]"#;
        let sorted = r#"[{"content": "a<b & 'é'", "role": "user"}]"#;
        assert!(text == expected || text == sorted, "{text}");
    }

    #[test]
    fn a_damaged_template_is_refused_when_loaded() {
        assert!(ChatTemplate::new("{% for x in %}", None, None).is_err());
    }
}
