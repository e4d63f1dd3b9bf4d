//! The language against its own printer, a tiny oracle, and any text whatever.

use super::syntax::{in_name, in_word};
use super::*;
use crate::control::snapshot::Request;
use proptest::prelude::*;
use serde_json::json;

fn read(text: &str) -> Predicate {
    Predicate::parse(text).unwrap_or_else(|error| panic!("{error}"))
}

fn snapshot() -> Value {
    let text = include_str!("../../../tests/fixtures/predicates.json");
    serde_json::from_str(text).expect("a snapshot")
}

fn fault(text: &str) -> PredicateError {
    match Predicate::parse(text) {
        Err(error) => error,
        Ok(predicate) => predicate.check::<Snapshot>(&snapshot()).expect_err(text),
    }
}

#[test]
fn what_operators_write_is_understood() {
    let document = snapshot();
    for (text, so) in [
        ("models.whisper-tiny-en.lanes.clips.pending==2", Some(true)),
        ("models.whisper-tiny-en.lanes.clips.p95_ms<2000", Some(true)),
        ("models.whisper-tiny-en.lanes.clips.p95_ms < 1s", Some(false)),
        ("models.whisper-tiny-en.queues.transcribe.lanes.clips.oldest_wait_ms>=0.5s", Some(true)),
        ("models.minilm-l6.queues.rerank.lanes.clips.pending==0", Some(true)),
        // Never measured: unknown, and so is the opposite.
        ("models.whisper-tiny-en.lanes.recordings.p95_ms<2000", None),
        ("!(models.whisper-tiny-en.lanes.recordings.p95_ms<2000)", None),
        ("models.whisper-tiny-en.lanes.recordings.p95_ms<2000 || state==ready", Some(true)),
        ("models.whisper-tiny-en.lanes.recordings.p95_ms<2000 && state==draining", Some(false)),
        ("models.whisper-tiny-en.lanes.recordings.p95_ms<2000 && state==ready", None),
        ("models.whisper-tiny-en.state==ready", Some(true)),
        ("models.whisper-tiny-en.state!=failed", Some(true)),
        ("models.whisper-tiny-en.weights_bytes>20Mi", Some(true)),
        ("models.whisper-tiny-en.weights_bytes>1GiB", Some(false)),
        ("generation.smollm2-135m.queued==0 && requests.total<3", Some(true)),
        ("generation.smollm2-135m.decode_tokens_per_s>1_0.5", Some(true)),
        ("models.whisper-tiny-en.lanes.clips.paused", Some(false)),
        ("!models.whisper-tiny-en.lanes.clips.paused", Some(true)),
        ("models.whisper-tiny-en.lanes.clips.paused==false", Some(true)),
        ("requests.req-7.state==queued", Some(true)),
        ("requests.shown.req-7.wait.code==slot_busy", Some(true)),
        ("requests.req-99.state==queued", None),
        ("reasons.count==0 && devices.count==1", Some(true)),
        ("overrides.models.minilm-l6.wait_ms.value==\"40ms\"", Some(true)),
        ("overrides.\"models.minilm-l6.wait_ms\".left_ms<10m", Some(true)),
        ("overrides.models.minilm-l6.depth.left_ms<10m", None),
        ("uptime_ms > 1h", Some(false)),
        ("node == demo", Some(true)),
    ] {
        let predicate = read(text);
        predicate.check::<Snapshot>(&document).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(predicate.judge(&document), so, "{text}");
    }
}

#[test]
fn mistakes_are_told_with_their_column_and_the_nearest_name() {
    for (text, column, says) in [
        ("models.whisper-tiny-en.lanes.clips.p85_ms<2000", 36, "did you mean `p95_ms`?"),
        ("models.whisper.lanes.clips.pending==0", 8, "whisper-tiny-en"),
        ("models.whisper-tiny-en.lanes.clip.pending==0", 30, "did you mean `clips`?"),
        ("model.whisper-tiny-en.state==ready", 1, "did you mean `models`?"),
        ("models.minilm-l6.lanes.clips.pending==0", 18, "say which: embed, rerank"),
        ("models.minilm-l6.lans.clips.pending==0", 18, "did you mean `lanes`?"),
        ("state==redy", 8, "did you mean `ready`?"),
        ("state<ready", 7, "has no order"),
        ("state==3", 8, "put it in quotes"),
        ("models.whisper-tiny-en.lanes.clips.pending==3s", 45, "counts no time"),
        ("models.whisper-tiny-en.lanes.clips.pending", 36, "compare it"),
        ("models.whisper-tiny-en.lanes==3", 24, "name a member, or `count`"),
        ("models.whisper-tiny-en.lanes.clips.paused==3", 44, "is true or false"),
        ("reasons.first==3", 9, "have no names"),
        ("uptime_ms.more==3", 11, "is a single value"),
        ("requests.req-7.sate==queued", 16, "did you mean `state`?"),
        ("requests.totla<5", 10, "did you mean `total`?"),
        ("uptime_ms=3", 10, "expected an operator (== != < <= > >=), &&, || or the end, found `=`"),
        ("uptime_ms==", 12, "expected a value"),
        ("uptime_ms==3x", 13, "expected a unit"),
        ("uptime_ms>1 &&", 15, "expected a field"),
        ("uptime_ms>1 & uptime_ms<2", 13, "found `&`"),
        ("(uptime_ms>1", 13, "closing bracket"),
        ("uptime_ms>1)", 12, "found `)`"),
        ("node==\"demo", 12, "closing `\"`"),
        ("", 1, "expected a field"),
        ("models..x", 8, "the name of a field"),
        ("é==1", 1, "expected a field"),
    ] {
        let fault = fault(text);
        assert_eq!(fault.column, column, "{fault}");
        let told = fault.to_string();
        assert!(told.contains(says), "{told}");
        let lines: Vec<&str> = told.lines().collect();
        assert_eq!((lines.len(), lines[1].trim_end()), (3, format!("  {text}").trim_end()), "{told}");
        assert_eq!(lines[2].find('^'), Some(column + 1), "{told}");
    }
}

#[test]
fn requests_are_filtered_by_what_is_known_of_them() {
    let shown = &snapshot()["requests"]["shown"];
    let all: Vec<Request> = serde_json::from_value(shown.clone()).expect("requests");
    let wanted = |text: &str| {
        let predicate = Predicate::of_requests(text).unwrap_or_else(|error| panic!("{error}"));
        all.iter().filter(|r| predicate.wants(r)).map(|r| r.id.as_str()).collect::<Vec<_>>()
    };
    assert_eq!(wanted("state==queued"), ["req-7"]);
    assert_eq!(wanted("model==whisper-tiny-en && cost>10k && lane==clips"), ["req-5"]);
    assert_eq!(wanted("queued_ms>=500ms || running_ms>0"), ["req-5", "req-7"]);
    assert_eq!(wanted("running_ms<1h"), ["req-5"], "what has not started has no such time");
    assert!(Predicate::of_requests("sate==queued").unwrap_err().to_string().contains("did you mean `state`?"));
}

#[test]
fn depth_and_length_are_bounded() {
    let deep = |n: usize| format!("{}state==ready{}", "(".repeat(n), ")".repeat(n));
    assert!(Predicate::parse(&deep(31)).is_ok());
    assert!(Predicate::parse(&deep(32)).unwrap_err().to_string().contains("brackets"));
    assert!(Predicate::parse(&"!".repeat(900)).is_err());
    assert!(Predicate::parse(&"a".repeat(1_001)).unwrap_err().to_string().contains("1000 characters"));
}

#[test]
fn readings_name_each_field_once_with_its_last_value() {
    let text = "models.whisper-tiny-en.lanes.clips.p95_ms<2s && !(models.whisper-tiny-en.lanes.clips.p95_ms<1s || requests.req-9.queued_ms>1s)";
    let found: Vec<String> = read(text).readings(&snapshot()).iter().map(ToString::to_string).collect();
    let wanted = ["models.whisper-tiny-en.lanes.clips.p95_ms is 1240.5", "requests.req-9.queued_ms is unknown"];
    assert_eq!(found, wanted);
}

fn literal() -> impl Strategy<Value = Literal> {
    let unit = prop::option::of(prop::sample::select(Unit::ALL.to_vec()));
    prop_oneof![
        (any::<f64>().prop_filter("finite", |v| v.is_finite()), unit)
            .prop_map(|(v, unit)| Literal::Number { value: v, unit }),
        any::<bool>().prop_map(Literal::Bool),
        any::<String>().prop_map(Literal::Text),
    ]
}

fn path() -> impl Strategy<Value = Path> {
    let name = prop_oneof!["[a-z][a-z0-9_-]{0,6}", any::<String>()];
    prop::collection::vec(name, 1..4)
        .prop_map(|names| Path { names: names.into_iter().map(|text| Name { text, at: Spot::default() }).collect() })
}

fn expression() -> impl Strategy<Value = Expression> {
    let compare = (path(), prop::sample::select(Operator::ALL.to_vec()), literal());
    let compare = compare.prop_map(|(path, operator, value)| {
        Expression::Compare(Comparison { path, operator, value, at: Spot::default() })
    });
    let leaf = prop_oneof![path().prop_map(Expression::Holds), compare];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 2..4).prop_map(Expression::All),
            prop::collection::vec(inner.clone(), 2..4).prop_map(Expression::Any),
            inner.prop_map(|inner| Expression::Not(Box::new(inner))),
        ]
    })
}

/// The three values as numbers, as Kleene has them: false 0, unknown 1, true 2.
fn oracle(expression: &Expression, facts: [u8; 3]) -> u8 {
    match expression {
        Expression::All(terms) => terms.iter().map(|t| oracle(t, facts)).min().unwrap_or(2),
        Expression::Any(terms) => terms.iter().map(|t| oracle(t, facts)).max().unwrap_or(0),
        Expression::Not(inner) => 2 - oracle(inner, facts),
        Expression::Holds(path) => facts[["a", "b", "c"].iter().position(|n| path.field() == *n).expect("one of them")],
        Expression::Compare(_) => unreachable!("this oracle knows none"),
    }
}

fn logic() -> impl Strategy<Value = Expression> {
    let name = prop::sample::select(vec!["a", "b", "c"]);
    let leaf = name.prop_map(|n| Expression::Holds(Path { names: vec![Name { text: n.into(), at: Spot::default() }] }));
    leaf.prop_recursive(5, 32, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 2..4).prop_map(Expression::All),
            prop::collection::vec(inner.clone(), 2..4).prop_map(Expression::Any),
            inner.prop_map(|inner| Expression::Not(Box::new(inner))),
        ]
    })
}

proptest! {
    #[test]
    fn what_is_printed_reads_as_it_was(expression in expression()) {
        let text = expression.to_string();
        prop_assume!(text.chars().count() <= LONGEST);
        prop_assert_eq!(&Predicate::parse(&text).expect(&text).expression, &expression, "{}", text);
    }

    #[test]
    fn no_text_is_too_strange(text in "[ -~é\n]{0,60}|([a-c.]{1,4}|==|<|&&|\\|\\||!|\\(|\\)|\"|[0-9_.a-zA-Z]{1,5}| ){0,14}") {
        match Predicate::parse(&text) {
            Err(error) => prop_assert!(error.to_string().contains("column")),
            Ok(predicate) => {
                let _ = predicate.judge(&snapshot());
                let _ = predicate.check::<Snapshot>(&snapshot());
            }
        }
    }

    #[test]
    fn logic_is_kleenes(expression in logic(), facts in prop::array::uniform3(0u8..3)) {
        let mut document = serde_json::Map::new();
        for (name, fact) in ["a", "b", "c"].iter().zip(facts) {
            if fact != 1 {
                document.insert(name.to_string(), json!(fact == 2));
            }
        }
        let judged = match judge::judge(&expression, &Value::Object(document)) { Some(false) => 0, None => 1, Some(true) => 2 };
        prop_assert_eq!(judged, oracle(&expression, facts));
    }

    #[test]
    fn numbers_compare_as_numbers_do(field in -1e6f64..1e6, value in -1e6f64..1e6, same in any::<bool>()) {
        let value = if same { field } else { value };
        let document = json!({"x_ms": field});
        for (sign, so) in [("==", field == value), ("!=", field != value), ("<", field < value), ("<=", field <= value),
            (">", field > value), (">=", field >= value)] {
            prop_assert_eq!(read(&format!("x_ms {sign} {value}")).judge(&document), Some(so));
        }
    }

    #[test]
    fn names_and_words_are_what_the_printer_takes_them_for(text in "[a-z0-9_.:/-]{1,9}") {
        prop_assert!(!text.chars().all(in_name) || text.chars().all(in_word));
    }
}
