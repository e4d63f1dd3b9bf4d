//! Text to condition. The grammar stands in the room's own page.

use super::syntax::{Comparison, Expression, Literal, Name, Operator, Path, Spot, Unit, begins_word, in_name, in_word};
use super::{LONGEST, PredicateError};
use winnow::ascii::multispace0;
use winnow::combinator::{alt, cut_err, delimited, fail, opt, peek, preceded, repeat, terminated};
use winnow::error::{ContextError, ParseError, StrContext, StrContextValue};
use winnow::stream::{LocatingSlice, Stateful};
use winnow::token::{any, literal, none_of, take_while};
use winnow::{ModalResult, Parser};

/// How deep brackets and negations may lie in each other: what is read by recursion ends somewhere.
const DEEPEST: usize = 32;

/// The text that is left, and how deep the reader is.
type Input<'t> = Stateful<LocatingSlice<&'t str>, usize>;

pub(super) fn parse(text: &str) -> Result<Expression, PredicateError> {
    if text.chars().count() > LONGEST {
        let at = Spot(text.char_indices().nth(LONGEST).map_or(0..0, |(i, _)| i..i));
        return Err(PredicateError::new(text, &at, format!("a condition has at most {LONGEST} characters")));
    }
    let input = Stateful { input: LocatingSlice::new(text), state: 0 };
    let end = preceded(
        multispace0,
        winnow::combinator::eof.context(expected("an operator (== != < <= > >=), &&, || or the end")),
    );
    terminated(any_of, end).parse(input).map_err(|error| told(text, &error))
}

fn told(text: &str, error: &ParseError<Input<'_>, ContextError>) -> PredicateError {
    let at = error.offset().min(text.len());
    let found = text[at..].trim_start();
    let start = text.len() - found.len();
    let wanted = error.inner().context().find_map(|context| match context {
        StrContext::Expected(StrContextValue::Description(what)) => Some(*what),
        _ => None,
    });
    let wanted = wanted.unwrap_or("a condition");
    let what = match found.chars().next() {
        None => "the end".to_string(),
        Some(c) => format!("`{}`", c.escape_debug()),
    };
    let width = found.chars().next().map_or(0, char::len_utf8);
    PredicateError::new(text, &Spot(start..start + width), format!("expected {wanted}, found {what}"))
}

fn expected(what: &'static str) -> StrContext {
    StrContext::Expected(StrContextValue::Description(what))
}

/// A sign, whatever blanks stand before it.
fn sign<'t>(sign: &'static str) -> impl Parser<Input<'t>, (), winnow::error::ErrMode<ContextError>> {
    preceded(multispace0, literal(sign)).void()
}

fn any_of(input: &mut Input<'_>) -> ModalResult<Expression> {
    let mut terms = vec![all_of(input)?];
    while opt(sign("||")).parse_next(input)?.is_some() {
        terms.push(cut_err(all_of).parse_next(input)?);
    }
    Ok(if terms.len() == 1 { terms.remove(0) } else { Expression::Any(terms) })
}

fn all_of(input: &mut Input<'_>) -> ModalResult<Expression> {
    let mut terms = vec![one(input)?];
    while opt(sign("&&")).parse_next(input)?.is_some() {
        terms.push(cut_err(one).parse_next(input)?);
    }
    Ok(if terms.len() == 1 { terms.remove(0) } else { Expression::All(terms) })
}

fn one(input: &mut Input<'_>) -> ModalResult<Expression> {
    multispace0.parse_next(input)?;
    if input.state >= DEEPEST {
        return cut_err(fail.context(expected("no more brackets in brackets than 32"))).parse_next(input);
    }
    input.state += 1;
    let read = if opt(literal("!")).parse_next(input)?.is_some() {
        cut_err(one).parse_next(input).map(|inner| Expression::Not(Box::new(inner)))
    } else if opt(literal("(")).parse_next(input)?.is_some() {
        cut_err(terminated(any_of, sign(")").context(expected("an operator, &&, || or a closing bracket"))))
            .parse_next(input)
    } else {
        comparison(input)
    };
    input.state -= 1;
    read
}

fn comparison(input: &mut Input<'_>) -> ModalResult<Expression> {
    let path = path(input)?;
    let mut operator = opt(preceded(multispace0, alt(Operator::ALL.map(|o| literal(o.sign()).value(o)))));
    let Some(operator) = operator.parse_next(input)? else {
        return Ok(Expression::Holds(path));
    };
    multispace0.parse_next(input)?;
    let wanted = expected("a value: a number such as 3, 250ms or 16k, a word, a \"text\", true or false");
    let (value, at) = cut_err(value.context(wanted)).with_span().parse_next(input)?;
    Ok(Expression::Compare(Comparison { path, operator, value, at: Spot(at) }))
}

fn path(input: &mut Input<'_>) -> ModalResult<Path> {
    let mut names = vec![name.context(expected("a field, such as models.ID.lanes.clips.pending")).parse_next(input)?];
    while opt(literal(".")).parse_next(input)?.is_some() {
        names.push(cut_err(name.context(expected("the name of a field"))).parse_next(input)?);
    }
    Ok(Path { names })
}

fn name(input: &mut Input<'_>) -> ModalResult<Name> {
    let plain = take_while(1.., in_name).map(str::to_string);
    let (text, at) = alt((plain, quoted)).with_span().parse_next(input)?;
    Ok(Name { text, at: Spot(at) })
}

fn value(input: &mut Input<'_>) -> ModalResult<Literal> {
    alt((quoted.map(Literal::Text), number, word)).parse_next(input)
}

fn quoted(input: &mut Input<'_>) -> ModalResult<String> {
    let escaped = preceded('\\', cut_err(alt(('"', '\\')).context(expected("`\\\"` or `\\\\`"))));
    let inside = repeat(0.., alt((escaped, none_of(['"', '\\']))));
    let close = cut_err(literal("\"").context(expected("a closing `\"`")));
    delimited(literal("\""), inside, close).parse_next(input)
}

fn number(input: &mut Input<'_>) -> ModalResult<Literal> {
    let digits = |c: char| c.is_ascii_digit();
    let more = |c: char| c.is_ascii_digit() || c == '_';
    let whole = (peek(any.verify(move |c| digits(*c))), take_while(1.., more));
    let part = opt((literal("."), peek(any.verify(move |c| digits(*c))), take_while(1.., more)));
    let text = (opt(literal("-")), whole, part).take().parse_next(input)?;
    let value = text.replace('_', "").parse::<f64>().ok().filter(|value| value.is_finite());
    let Some(value) = value else {
        return cut_err(fail.context(expected("a smaller number"))).parse_next(input);
    };
    let unit = take_while(0.., |c: char| c.is_ascii_alphanumeric());
    let unit = unit.verify_map(|sign: &str| if sign.is_empty() { Some(None) } else { Unit::of(sign).map(Some) });
    let unit = cut_err(unit.context(expected("a unit: us, ms, s, m, h, k, M, G, Ki, Mi or Gi"))).parse_next(input)?;
    Ok(Literal::Number { value, unit })
}

fn word(input: &mut Input<'_>) -> ModalResult<Literal> {
    let text = (any.verify(|c| begins_word(*c)), take_while(0.., in_word)).take().parse_next(input)?;
    Ok(match text {
        "true" => Literal::Bool(true),
        "false" => Literal::Bool(false),
        text => Literal::Text(text.to_string()),
    })
}
