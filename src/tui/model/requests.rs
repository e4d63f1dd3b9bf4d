//! The table of requests: which are shown, in what order, and which is selected.

use super::cursor::Cursor;
use crate::control::snapshot::Request;
use std::cmp::Ordering;

/// What the table is sorted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sort {
    /// As the engine lists them: running, then oldest waiting, then the last that ended.
    #[default]
    Engine,
    Waited,
    Ran,
    Cost,
    State,
    Model,
    Id,
}

impl Sort {
    pub const ALL: [Sort; 7] = [Sort::Engine, Sort::Waited, Sort::Ran, Sort::Cost, Sort::State, Sort::Model, Sort::Id];

    pub fn name(self) -> &'static str {
        match self {
            Sort::Engine => "engine",
            Sort::Waited => "waited",
            Sort::Ran => "ran",
            Sort::Cost => "cost",
            Sort::State => "state",
            Sort::Model => "model",
            Sort::Id => "id",
        }
    }

    /// The next one, round and round.
    pub fn next(self) -> Sort {
        Sort::ALL[(self as usize + 1) % Sort::ALL.len()]
    }

    /// What a person means by the order: the greatest numbers first, names from a to z.
    fn compare(self, a: &Request, b: &Request) -> Ordering {
        match self {
            Sort::Engine => Ordering::Equal,
            Sort::Waited => b.queued_ms.total_cmp(&a.queued_ms),
            Sort::Ran => b.running_ms.unwrap_or(-1.0).total_cmp(&a.running_ms.unwrap_or(-1.0)),
            Sort::Cost => b.cost.cmp(&a.cost),
            Sort::State => (a.state as u8).cmp(&(b.state as u8)),
            Sort::Model => a.model.cmp(&b.model),
            Sort::Id => a.id.cmp(&b.id),
        }
    }
}

/// The table's state. `rows` holds places in the snapshot's list of requests.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Table {
    pub cursor: Cursor<String>,
    pub sort: Sort,
    pub reverse: bool,
    pub filter: String,
    pub rows: Vec<usize>,
}

impl Table {
    /// Chooses and orders the rows anew and finds the selection again.
    pub fn refresh(&mut self, requests: &[Request]) {
        self.rows = arrange(requests, &self.filter, self.sort, self.reverse);
        let rows = &self.rows;
        self.cursor.settle(
            rows.len(),
            |id| rows.iter().position(|&row| requests[row].id == *id),
            |index| requests[rows[index]].id.clone(),
        );
    }

    /// Moves the selection by `by` rows.
    pub fn step(&mut self, by: isize, requests: &[Request]) {
        let rows = &self.rows;
        self.cursor.step(by, rows.len(), |index| requests[rows[index]].id.clone());
    }
}

/// The places of the requests that pass `filter`, sorted; equal ones keep the engine's order, reversed or not.
pub fn arrange(requests: &[Request], filter: &str, sort: Sort, reverse: bool) -> Vec<usize> {
    let terms: Vec<Term> = filter.split_whitespace().map(Term::parse).collect();
    let mut rows: Vec<usize> =
        (0..requests.len()).filter(|&row| terms.iter().all(|term| term.admits(&requests[row]))).collect();
    match (sort, reverse) {
        (Sort::Engine, false) => {}
        (Sort::Engine, true) => rows.reverse(),
        (_, false) => rows.sort_by(|&a, &b| sort.compare(&requests[a], &requests[b])),
        (_, true) => rows.sort_by(|&a, &b| sort.compare(&requests[b], &requests[a])),
    }
    rows
}

/// One word of a filter.
struct Term {
    field: Option<Field>,
    /// Lower case.
    text: String,
    negated: bool,
}

#[derive(Clone, Copy)]
enum Field {
    Id,
    Model,
    Op,
    Lane,
    State,
    Client,
    Wait,
}

impl Term {
    fn parse(word: &str) -> Term {
        let (negated, word) = match word.strip_prefix('!') {
            Some(rest) => (true, rest),
            None => (false, word),
        };
        let field = |name: &str| match name {
            "id" => Some(Field::Id),
            "model" => Some(Field::Model),
            "op" => Some(Field::Op),
            "lane" => Some(Field::Lane),
            "state" => Some(Field::State),
            "client" => Some(Field::Client),
            "wait" => Some(Field::Wait),
            _ => None,
        };
        let split = word.split_once(':').and_then(|(name, text)| Some((field(name)?, text)));
        match split {
            Some((field, text)) => Term { field: Some(field), text: text.to_lowercase(), negated },
            None => Term { field: None, text: word.to_lowercase(), negated },
        }
    }

    fn admits(&self, request: &Request) -> bool {
        let found = match self.field {
            Some(field) => self.found_in(request, field),
            None => [Field::Id, Field::Model, Field::Op, Field::Lane, Field::State, Field::Client, Field::Wait]
                .into_iter()
                .any(|field| self.found_in(request, field)),
        };
        found != self.negated
    }

    fn found_in(&self, request: &Request, field: Field) -> bool {
        let contains = |text: &str| {
            // Nearly all names are ASCII: no allocation for ten thousand rows on each key typed.
            if text.is_ascii() {
                let (text, sought) = (text.as_bytes(), self.text.as_bytes());
                sought.is_empty() || text.windows(sought.len()).any(|window| window.eq_ignore_ascii_case(sought))
            } else {
                text.to_lowercase().contains(&self.text)
            }
        };
        match field {
            Field::Id => contains(&request.id),
            Field::Model => contains(&request.model),
            Field::Op => contains(request.op.name()),
            Field::Lane => contains(request.lane_name()),
            Field::State => {
                contains(request.state.name()) || request.outcome.is_some_and(|outcome| contains(outcome.name()))
            }
            Field::Client => contains(&request.client),
            Field::Wait => request.wait.as_ref().is_some_and(|wait| contains(wait.code.sentence())),
        }
    }
}
