//! What is said when a change is refused.

use crate::control::ledger::Moved;
use crate::control::{ErrorKind, Fault};
use std::collections::BTreeSet;

pub(super) fn refused(name: &str, all: &[String]) -> Fault {
    let distinct: BTreeSet<&String> = all.iter().collect();
    let lines: Vec<&str> = distinct.into_iter().map(String::as_str).collect();
    Fault::invalid(name, lines.join("\n")).code("invalid_setting")
}

pub(super) fn read_only() -> Fault {
    Fault::new(ErrorKind::Forbidden, "this engine is read-only: nothing of it can be changed while it runs")
        .code("read_only")
        .hint("it was started with control.read_only")
}

pub(super) fn conflict(moved: Moved) -> Fault {
    match moved {
        Moved::Revision { .. } => Fault::new(ErrorKind::Conflict, moved.to_string())
            .code("revision_moved")
            .param("if_revision")
            .hint("look at the settings as they are now, and decide anew"),
        Moved::Knob { .. } => Fault::new(ErrorKind::Conflict, moved.to_string())
            .code("knob_moved")
            .param("revert")
            .hint("revert the later change first, or set the knob"),
        Moved::Request { .. } => Fault::new(ErrorKind::Conflict, moved.to_string())
            .code("request_moved")
            .param("revert")
            .hint("revert the later entry first, or say what the request is to do"),
        Moved::Unknown { .. } | Moved::Start { .. } | Moved::Cancelled { .. } | Moved::Gone { .. } => {
            Fault::invalid("revert", moved.to_string())
        }
    }
}
