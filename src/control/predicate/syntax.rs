//! What a condition is made of, and how it is written.

use std::fmt;
use std::ops::Range;

/// A condition.
#[derive(Debug, Clone, PartialEq)]
pub enum Expression {
    /// Two or more, all of which must be so.
    All(Vec<Expression>),
    /// Two or more, one of which must be so.
    Any(Vec<Expression>),
    Not(Box<Expression>),
    /// A field that is true.
    Holds(Path),
    Compare(Comparison),
}

/// A field beside a value.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    pub path: Path,
    pub operator: Operator,
    pub value: Literal,
    /// Where the value stands.
    pub at: Spot,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Operator {
    /// The longer ones first: what is read from the left must not stop at half of one.
    pub const ALL: [Operator; 6] = [
        Operator::Equal,
        Operator::NotEqual,
        Operator::LessOrEqual,
        Operator::GreaterOrEqual,
        Operator::Less,
        Operator::Greater,
    ];

    pub fn sign(self) -> &'static str {
        match self {
            Operator::Equal => "==",
            Operator::NotEqual => "!=",
            Operator::Less => "<",
            Operator::LessOrEqual => "<=",
            Operator::Greater => ">",
            Operator::GreaterOrEqual => ">=",
        }
    }

    /// Whether it asks for more than being the same.
    pub fn orders(self) -> bool {
        !matches!(self, Operator::Equal | Operator::NotEqual)
    }
}

/// A field of a document.
#[derive(Debug, Clone, PartialEq)]
pub struct Path {
    /// Never empty.
    pub names: Vec<Name>,
}

/// A step of a path.
#[derive(Debug, Clone, PartialEq)]
pub struct Name {
    pub text: String,
    pub at: Spot,
}

/// Where something stands in the text, in bytes. Two conditions that differ in this alone are the same.
#[derive(Debug, Clone, Default)]
pub struct Spot(pub Range<usize>);

impl PartialEq for Spot {
    fn eq(&self, _: &Spot) -> bool {
        true
    }
}

/// What a field is held against.
#[derive(Debug, Clone, PartialEq)]
pub enum Literal {
    Number { value: f64, unit: Option<Unit> },
    Bool(bool),
    Text(String),
}

/// What may stand behind a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    Microseconds,
    Milliseconds,
    Seconds,
    Minutes,
    Hours,
    Kilo,
    Mega,
    Giga,
    Kibi,
    Mebi,
    Gibi,
}

impl Unit {
    pub const ALL: [Unit; 11] = [
        Unit::Microseconds,
        Unit::Milliseconds,
        Unit::Seconds,
        Unit::Minutes,
        Unit::Hours,
        Unit::Kilo,
        Unit::Mega,
        Unit::Giga,
        Unit::Kibi,
        Unit::Mebi,
        Unit::Gibi,
    ];

    pub fn sign(self) -> &'static str {
        match self {
            Unit::Microseconds => "us",
            Unit::Milliseconds => "ms",
            Unit::Seconds => "s",
            Unit::Minutes => "m",
            Unit::Hours => "h",
            Unit::Kilo => "k",
            Unit::Mega => "M",
            Unit::Giga => "G",
            Unit::Kibi => "Ki",
            Unit::Mebi => "Mi",
            Unit::Gibi => "Gi",
        }
    }

    /// Of its sign; a size may end in `B`, and a minute is `min` too.
    pub fn of(sign: &str) -> Option<Unit> {
        let found = |sign: &str| Unit::ALL.into_iter().find(|unit| unit.sign() == sign);
        match sign {
            "min" => Some(Unit::Minutes),
            _ => found(sign).or_else(|| found(sign.strip_suffix('B')?).filter(|unit| unit.seconds().is_none())),
        }
    }

    /// How many seconds it is; `None` for one that counts no time.
    pub fn seconds(self) -> Option<f64> {
        match self {
            Unit::Microseconds => Some(1e-6),
            Unit::Milliseconds => Some(1e-3),
            Unit::Seconds => Some(1.0),
            Unit::Minutes => Some(60.0),
            Unit::Hours => Some(3_600.0),
            _ => None,
        }
    }

    /// How many times its number it is.
    fn times(self) -> f64 {
        match self {
            Unit::Kilo => 1e3,
            Unit::Mega => 1e6,
            Unit::Giga => 1e9,
            Unit::Kibi => 1024.0,
            Unit::Mebi => 1_048_576.0,
            Unit::Gibi => 1_073_741_824.0,
            _ => 1.0,
        }
    }
}

/// Units in which fields count time, by how their names end, and how many there are in a second.
const TIMES: [(&str, f64); 3] = [("_us", 1e6), ("_ms", 1e3), ("_s", 1.0)];

impl Path {
    /// The last name, which is the field.
    pub fn field(&self) -> &str {
        self.names.last().map_or("", |name| name.text.as_str())
    }

    /// How many of what it counts there are in a second; `None` where it counts no time. What ends in `_per_s` is a rate.
    pub fn per_second(&self) -> Option<f64> {
        let field = self.field();
        let ends = |(end, _): &&(&str, f64)| field.ends_with(end) && !field.ends_with("_per_s");
        TIMES.iter().find(ends).map(|(_, per_second)| *per_second)
    }
}

impl Comparison {
    /// The number that the field is held against, in the field's own unit; `None` for what is no number, or a time where
    /// the field counts none.
    pub fn number(&self) -> Option<f64> {
        let Literal::Number { value, unit } = &self.value else { return None };
        match unit.map(|unit| (unit, unit.seconds())) {
            None => Some(*value),
            Some((_, Some(seconds))) => Some(value * (seconds * self.path.per_second()?)),
            Some((unit, None)) => Some(value * unit.times()),
        }
    }
}

/// Whether a name can stand in a path as it is.
pub(super) fn in_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '-'
}

/// Whether a word can go on with it.
pub(super) fn in_word(c: char) -> bool {
    in_name(c) || matches!(c, '.' | '/' | ':')
}

/// Whether a word can begin with it.
pub(super) fn begins_word(c: char) -> bool {
    c.is_ascii_alphabetic() || c == '_'
}

fn quoted(text: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(f, "\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, Name { text, .. }) in self.names.iter().enumerate() {
            if i > 0 {
                f.write_str(".")?;
            }
            match !text.is_empty() && text.chars().all(in_name) {
                true => f.write_str(text)?,
                false => quoted(text, f)?,
            }
        }
        Ok(())
    }
}

impl fmt::Display for Literal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Literal::Number { value, unit } => write!(f, "{value}{}", unit.map_or("", Unit::sign)),
            Literal::Bool(value) => write!(f, "{value}"),
            Literal::Text(text) => {
                let word = text.starts_with(begins_word) && text.chars().all(in_word);
                if word && text != "true" && text != "false" { f.write_str(text) } else { quoted(text, f) }
            }
        }
    }
}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let terms = |f: &mut fmt::Formatter<'_>, terms: &[Expression], between: &str, bare: fn(&Expression) -> bool| {
            for (i, term) in terms.iter().enumerate() {
                if i > 0 {
                    f.write_str(between)?;
                }
                if bare(term) { write!(f, "{term}")? } else { write!(f, "({term})")? }
            }
            Ok(())
        };
        match self {
            Expression::Any(any) => terms(f, any, " || ", |term| !matches!(term, Expression::Any(_))),
            Expression::All(all) => {
                terms(f, all, " && ", |term| !matches!(term, Expression::Any(_) | Expression::All(_)))
            }
            Expression::Not(inner) => match **inner {
                Expression::Holds(_) | Expression::Not(_) => write!(f, "!{inner}"),
                _ => write!(f, "!({inner})"),
            },
            Expression::Holds(path) => path.fmt(f),
            Expression::Compare(Comparison { path, operator, value, .. }) => {
                write!(f, "{path}{}{value}", operator.sign())
            }
        }
    }
}
