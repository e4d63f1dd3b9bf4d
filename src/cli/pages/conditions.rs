//! The page on the language of waits, guards and filters.

use super::Page;
use super::topics::{begin, end, see_also};
use crate::control::predicate::{MEMBERS, Operator, Unit};
use clap_mangen::roff::{Roff, bold, roman};

/// Conditions that are shown as examples; a test reads them all.
pub(super) const EXAMPLES: [(&str, &str); 8] = [
    ("models.whisper-tiny-en.lanes.clips.pending==0", "no clip waits for its start"),
    ("models.whisper-tiny-en.lanes.clips.p95_ms<2s", "19 of 20 clips of the last minute took less than 2 seconds"),
    ("models.minilm-l6.queues.rerank.lanes.clips.oldest_wait_ms<500", "where a model has several queues, say which"),
    ("generation.smollm2-135m.queued==0 && requests.total<3", "both"),
    ("state==ready || state==degraded", "either"),
    ("!models.whisper-tiny-en.lanes.clips.paused", "not"),
    ("requests.req-17.state==done", "one request, by its name"),
    ("overrides.\"models.minilm-l6.wait_ms\".left_ms<1m", "a name with dots may stand in quotes"),
];

pub(super) fn page() -> Page {
    let name = "lanekeeper-conditions";
    let mut roff = begin(name, 7, "the language of waits, guards and filters");
    let text = |roff: &mut Roff, text: &str| {
        roff.control("PP", []);
        roff.text([roman(text)]);
    };
    roff.control("SH", ["DESCRIPTION"]);
    roff.text([roman(
        "A condition says something about the engine's snapshot (lanekeeper status -o json): lanekeeper wait --for waits \
         until it holds, lanekeeper try --guard undoes a change when it does not hold any more. In lanekeeper requests \
         --filter it says something about single requests, and its paths begin there: state==queued && queued_ms>5s.",
    )]);
    text(
        &mut roff,
        "It is a path, an operator and a value; && (and), || (or), ! (not) and brackets put several together, && before \
         ||. A path alone is a field that is true or false. Names and values are checked before anything is waited for: \
         a mistake is told with its column and the nearest known name.",
    );
    roff.control("SH", ["PATHS"]);
    roff.text([roman(
        "Fields are parted by dots. The members of a list are called by one of their fields, and its count is how many \
         there are:",
    )]);
    for (list, key, _) in MEMBERS {
        roff.control("TP", []);
        roff.text([bold(*list)]);
        roff.text([roman(format!("by {key}"))]);
    }
    text(
        &mut roff,
        "The names queues and shown may be left out: models.ID.lanes is models.ID.queues.OP.lanes where the model has one \
         queue, and requests.req-17 is requests.shown.req-17. Where a value is wanted and an object stands, its field of \
         the same name is meant: models.ID.state is models.ID.state.state.",
    );
    roff.control("SH", ["VALUES"]);
    let operators: Vec<&str> = Operator::ALL.iter().map(|operator| operator.sign()).collect();
    roff.text([roman(format!(
        "Operators are {}. Texts and what is true or false have no order: of these, == and != alone. A number may have a \
         unit:",
        operators.join(", ")
    ))]);
    let units = |times: bool| {
        let of_kind = Unit::ALL.iter().filter(|unit| unit.seconds().is_some() == times);
        of_kind.map(|unit| unit.sign()).collect::<Vec<_>>().join(", ")
    };
    roff.control("TP", []);
    roff.text([bold(units(true))]);
    roff.text([roman("for a field that counts time (_ms, _s, _us), whichever of these it is in")]);
    roff.control("TP", []);
    roff.text([bold(units(false))]);
    roff.text([roman("times 1000 or 1024; a B may follow. Digits may be parted: 720_000")]);
    text(&mut roff, "A text is a word, or stands in double quotes, where \\\" and \\\\ are a quote and a backslash.");
    roff.control("SH", ["WHAT IS UNKNOWN"]);
    roff.text([roman(
        "What the snapshot does not say is unknown, never zero: a lane that has served nothing in the last minute has no \
         p95_ms. A comparison with it is unknown, and so is its opposite; && of it is false where another term is false, \
         || is true where another is true, and else they are unknown. A wait goes on while its condition is unknown, a guard \
         holds, and a filter leaves out.",
    )]);
    roff.control("SH", ["EXAMPLES"]);
    for (condition, meaning) in EXAMPLES {
        roff.control("TP", []);
        roff.text([bold(condition)]);
        roff.text([roman(meaning)]);
    }
    see_also(&mut roff, &["lanekeeper-wait", "lanekeeper-try", "lanekeeper-requests", "lanekeeper-status"]);
    end(name, 7, &roff)
}

#[cfg(test)]
mod tests {
    use super::EXAMPLES;
    use crate::control::{Predicate, Snapshot};

    #[test]
    fn the_examples_mean_something() {
        let document = include_str!("../../../tests/fixtures/predicates.json");
        let document = serde_json::from_str(document).expect("a snapshot");
        for (condition, _) in EXAMPLES {
            let read = Predicate::parse(condition).unwrap_or_else(|error| panic!("{error}"));
            read.check::<Snapshot>(&document).unwrap_or_else(|error| panic!("{error}"));
        }
    }
}
