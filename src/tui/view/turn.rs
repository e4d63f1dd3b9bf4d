//! A queue's turn: whose it is, its members as a row of signs, and who is owed.

use super::super::text::{columns, count, duration, percent};
use super::super::theme::Label;
use super::{Canvas, cards, words};
use crate::control::Lane;
use crate::control::snapshot::{Queue, Turn};
use ratatui::layout::Rect;

/// Owed clips that a card lists: the others are counted.
const OWED: usize = 3;
/// Signs in the row of members at most.
const SIGNS: u64 = 48;

/// The rows that the turn takes: the turn, its members (of a turn of clips), and who is owed.
pub fn height(queue: &Queue) -> u16 {
    if queue.lanes.len() < 2 {
        return 0;
    }
    let Some(turn) = &queue.turn else { return 1 };
    1 + u16::from(Members::of(queue, turn).is_some()) + turn.owed.len().min(OWED) as u16
}

/// Draws it; returns the row after it.
pub fn draw(queue: &Queue, canvas: &mut Canvas<'_>, area: Rect) -> u16 {
    let mut y = area.y;
    if queue.lanes.len() < 2 {
        return y;
    }
    whose(queue, canvas, area, y);
    y += 1;
    let Some(turn) = &queue.turn else { return y };
    if let Some(members) = Members::of(queue, turn) {
        members.draw(canvas, area, y);
        y += 1;
    }
    for (i, owed) in turn.owed.iter().take(OWED).enumerate() {
        let more = match turn.owed_total - (OWED as u64).min(turn.owed_total) {
            n if n > 0 && i + 1 == OWED => format!("  and {} more", count(n)),
            _ => String::new(),
        };
        let within = match owed.turns_left {
            Some(1) => "  within 1 turn".to_string(),
            Some(n) => format!("  within {} turns", count(n)),
            None => String::new(),
        };
        let cost = format!("  {} long, waited {}", words::cost(queue.op, owed.cost), duration(owed.waited_ms));
        let head = if i == 0 { "owed" } else { "" };
        let pieces =
            [(&*owed.request, Label::Text), (&*cost, Label::Text), (&*within, Label::Warn), (&*more, Label::Dim)];
        cards::row(head, &pieces, canvas, area, y);
        y += 1;
    }
    y
}

/// Whose turn it is, how far it is, what is owed, and how the lanes share the engine.
fn whose(queue: &Queue, canvas: &mut Canvas<'_>, area: Rect, y: u16) {
    let share = queue.lanes.iter().rev().find_map(|lane| lane.share);
    let share = match (queue.slice_windows, share) {
        (Some(n), Some(share)) => format!("  recordings: {} each, share {}", words::windows(n), percent(share)),
        _ => "  recordings run to their end".to_string(),
    };
    let Some(turn) = &queue.turn else {
        cards::row("turn", &[("none", Label::Dim), (&share, Label::Dim)], canvas, area, y);
        return;
    };
    let mut text = format!("{} {}", turn.kind, turn.number);
    if let Some(ms) = turn.began_ago_ms {
        text.push_str(&format!(" for {}", duration(ms)));
    }
    if let Some(limit) = turn.limit {
        let (served, limit) = (words::cost(queue.op, turn.served_cost), words::cost(queue.op, limit));
        text.push_str(&format!(", {served} of {limit}"));
    }
    let owed = match turn.owed_total {
        0 => String::new(),
        n => format!("  {} owed", words::requests(n)),
    };
    cards::row("turn", &[(&text, Label::Text), (&owed, Label::Warn), (&share, Label::Dim)], canvas, area, y);
}

/// The members of a turn of clips: served and running ones are known from its batches.
struct Members {
    served: u64,
    running: u64,
    left: u64,
}

impl Members {
    fn of(queue: &Queue, turn: &Turn) -> Option<Members> {
        if turn.kind != Lane::Clips.name() {
            return None;
        }
        let here = |of: Option<u64>| of == Some(turn.number);
        let served = queue.recent.iter().filter(|batch| here(batch.turn)).map(|batch| batch.items).sum();
        let running = queue.inflight.iter().filter(|batch| here(batch.turn)).map(|batch| batch.items).sum();
        let members = Members { served, running, left: turn.members_left };
        (members.all() > 0).then_some(members)
    }

    fn all(&self) -> u64 {
        self.served + self.running + self.left
    }

    fn draw(&self, canvas: &mut Canvas<'_>, area: Rect, y: u16) {
        let glyphs = canvas.glyphs();
        let (served, running, left) = (count(self.served), count(self.running), count(self.left));
        let words = format!("  {served} served, {running} running, {left} left");
        let room = u64::from(area.width.saturating_sub(cards::HEAD + columns(&words) as u16)).clamp(8, SIGNS);
        // With more members than room, a sign stands for several; who is there at all is seen.
        let each = self.all().div_ceil(room).max(1);
        let signs = |n: u64, sign: &str| sign.repeat(n.div_ceil(each) as usize);
        let pieces = [
            (&*signs(self.served, glyphs.good), Label::Good),
            (&*signs(self.running, glyphs.busy), Label::Busy),
            (&*signs(self.left, glyphs.off), Label::Dim),
            (&*words, Label::Dim),
        ];
        cards::row("members", &pieces, canvas, area, y);
    }
}
