//! The top line, which is always there, and the tabs under it.

use super::super::model::{Link, State, Target, View};
use super::super::text::{self, coarse, count};
use super::super::theme::Label;
use super::{Canvas, words};
use ratatui::layout::Rect;

/// A piece of the header. The highest rank is dropped first when there is no room.
struct Piece {
    text: String,
    label: Label,
    rank: u8,
}

fn piece(text: impl Into<String>, label: Label, rank: u8) -> Piece {
    Piece { text: text.into(), label, rank }
}

/// Draws node, state, age of the data, what was missed, bytes a second, and read-only.
pub fn draw(state: &State, canvas: &mut Canvas<'_>, row: Rect) {
    let mut left = vec![piece("lanekeeper", Label::Title, 6)];
    let mut right = Vec::new();
    if let Some(seen) = state.shown() {
        let snapshot = &seen.snapshot;
        let (sign, word, label) = words::engine(snapshot.state, canvas.glyphs());
        // What the engine was is not what it is: while it is away, the old state is not shown as if it held.
        let label = if state.stale() { Label::Stale } else { label };
        left.push(piece(snapshot.node.as_str(), Label::Strong, 0));
        left.push(piece(format!("{sign} {word}"), label, 0));
        right.push(piece(format!("up {}", coarse(snapshot.uptime_ms as f64)), Label::Dim, 7));
        right.push(piece(format!("v{}", snapshot.version), Label::Dim, 8));
        let dropped = snapshot.dropped.events + snapshot.dropped.frames;
        if dropped > 0 {
            right.push(piece(format!("dropped {}", count(dropped)), Label::Bad, 2));
        }
    }
    if let Some(bytes) = state.traffic {
        right.push(piece(traffic(bytes), Label::Dim, 5));
    }
    match &state.link {
        Link::Live { .. } if state.playback.is_some() => {}
        Link::Live { missed: 0 } => right.push(piece("missed 0", Label::Dim, 6)),
        Link::Live { missed } => right.push(piece(format!("missed {}", count(*missed)), Label::Warn, 2)),
        Link::Away { .. } if state.playback.is_some() => right.push(piece("ENGINE AWAY", Label::Bad, 0)),
        Link::Away { attempt, .. } if state.live.is_some() => {
            right.push(piece(format!("RECONNECTING {attempt}"), Label::Bad, 0));
        }
        Link::Away { .. } => right.push(piece("connecting", Label::Busy, 0)),
    }
    if let Some(age) = state.age_ms() {
        let label = if state.stale() { Label::Bad } else { Label::Dim };
        right.push(piece(format!("age {}", coarse(age as f64)), label, 1));
    }
    if let Some(left) = state.next_expiry_ms() {
        right.push(piece(format!("lease {}", coarse(left)), Label::Warn, 1));
    }
    if let Some(playback) = &state.playback {
        let place = format!("{}/{}", clock(playback.at_ms()), clock(playback.length_ms()));
        let (how, label) = match playback.paused {
            true if playback.at_end() => (format!("REPLAY ended {place}"), Label::Warn),
            true => (format!("REPLAY paused {place}"), Label::Warn),
            false => (format!("REPLAY {} {place}", playback.pace()), Label::Busy),
        };
        right.push(piece(how, label, 0));
    }
    if let Some(ago) = state.looked_at_ms() {
        right.push(piece(format!("FROZEN {} ago", coarse(ago as f64)), Label::Warn, 0));
    }
    if state.read_only.on && state.playback.is_none() {
        right.push(piece("read-only", Label::Warn, 1));
    }
    lay_out(left, right, canvas, row);
}

/// A place on a recording: minutes and seconds.
fn clock(ms: u64) -> String {
    format!("{}:{:02}", ms / 60_000, ms / 1000 % 60)
}

/// Bytes a second in words coarse enough that showing them costs next to nothing.
fn traffic(bytes_per_s: u64) -> String {
    match bytes_per_s {
        0..200 => "quiet".to_string(),
        200..10_000 => format!("{:.1} kB/s", bytes_per_s as f64 / 1000.0),
        _ => format!("{:.0} kB/s", bytes_per_s as f64 / 1000.0),
    }
}

fn lay_out(mut left: Vec<Piece>, mut right: Vec<Piece>, canvas: &mut Canvas<'_>, row: Rect) {
    let width = |pieces: &[Piece]| pieces.iter().map(|piece| text::columns(&piece.text) + 2).sum::<usize>();
    let room = usize::from(row.width);
    while width(&left) + width(&right) > room {
        let Some(rank) = left.iter().chain(&right).map(|piece| piece.rank).max().filter(|&rank| rank > 0) else {
            break;
        };
        left.retain(|piece| piece.rank < rank);
        right.retain(|piece| piece.rank < rank);
    }
    // The node's name gives way when even the essentials are too wide.
    let over = (width(&left) + width(&right)).saturating_sub(room);
    let mut x = row.x + 1;
    for (i, piece) in left.iter().enumerate() {
        let columns = text::columns(&piece.text);
        let columns = if i == 0 { columns.saturating_sub(over).max(4) } else { columns };
        x += canvas.put(x, row.y, columns as u16, &piece.text, piece.label) + 2;
    }
    let mut x = row.right().saturating_sub(width(&right) as u16).max(x) + 1;
    for piece in right {
        x += canvas.put(x, row.y, row.width, &piece.text, piece.label) + 2;
    }
}

/// Draws the names of the views, with a sign beside the one that is shown: in full where they fit, else cut short, else
/// as digits beside the one that is shown.
pub fn tabs(state: &State, canvas: &mut Canvas<'_>, row: Rect) {
    let rule = canvas.glyphs().rule.repeat(usize::from(row.width));
    canvas.put(row.x, row.y, row.width, &rule, Label::Rule);
    let mut x = row.x + 1;
    for (view, title) in titles(state, canvas, row.width.saturating_sub(1)) {
        let label = if view == state.view { Label::Tab } else { Label::Dim };
        let used = canvas.put(x, row.y, row.right().saturating_sub(x), &title, label);
        canvas.hit(Rect { x, width: used, ..row }, Target::Tab(view));
        x += used + 1;
    }
    if let (Link::Away { why, .. }, Some(_)) = (&state.link, &state.live) {
        let why = if state.playback.is_some() { why.clone() } else { words::absence(state).0 };
        let room = row.right().saturating_sub(x + 2);
        if usize::from(room) > 24 {
            canvas.put_right(x + 1, row.y, room, &format!(" {why} "), Label::Bad);
        }
    }
}

fn titles(state: &State, canvas: &Canvas<'_>, room: u16) -> Vec<(View, String)> {
    let requests = state.shown().map(|seen| {
        let total = seen.snapshot.requests.shown.len();
        match state.table.filter.is_empty() {
            true => total.to_string(),
            false => format!("{}/{total}", state.table.rows.len()),
        }
    });
    let titled = |form: u8| -> Vec<(View, String)> {
        let title = |(i, view): (usize, View)| {
            let here = view == state.view;
            let sign = if here { canvas.glyphs().pointer } else { " " };
            let name = match form {
                0 => view.title(),
                _ if form == 1 || here => view.short_title(),
                _ => "",
            };
            let mut title = format!("{sign}{} {name}", i + 1).trim_end().to_string();
            if let (View::Requests, Some(count)) = (view, requests.as_ref().filter(|_| form == 0 || here)) {
                title = format!("{title} {count}");
            }
            title.push(' ');
            (view, title)
        };
        View::ALL.into_iter().enumerate().map(title).collect()
    };
    let width = |titles: &[(View, String)]| titles.iter().map(|(_, title)| text::columns(title) + 1).sum::<usize>();
    (0..2).map(titled).find(|titles| width(titles) <= usize::from(room)).unwrap_or_else(|| titled(2))
}
