//! The console's first frame, and one after it, with ten thousand requests: each must stay well under 50 ms.

use criterion::{Criterion, criterion_group, criterion_main};
use lanekeeper::control::Snapshot;
use lanekeeper::tui::model::{Msg, State, View, update};
use lanekeeper::tui::term::Screen;
use lanekeeper::tui::view::draw;
use lanekeeper::tui::{Facts, Options};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use std::hint::black_box;
use std::sync::Arc;

const REQUESTS: usize = 10_000;
const SIZE: (u16, u16) = (250, 70);

fn crowd() -> Arc<Snapshot> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/snapshots/busy.json");
    let text = std::fs::read_to_string(path).expect("the recorded snapshot is committed");
    let mut snapshot: Snapshot = serde_json::from_str(&text).expect("the recorded snapshot is valid");
    let some = std::mem::take(&mut snapshot.requests.shown);
    snapshot.requests.shown = some.iter().cycle().take(REQUESTS).cloned().collect();
    for (i, request) in snapshot.requests.shown.iter_mut().enumerate() {
        request.id = format!("req-{i:05}");
    }
    Arc::new(snapshot)
}

fn fresh(state: State, snapshot: &Arc<Snapshot>) -> State {
    update(state, Msg::Fresh { snapshot: Arc::clone(snapshot), received_ms: 0, missed: 0 }).0
}

fn paint(state: &State, screen: &mut Screen, options: &Options) -> usize {
    let mut buffer = Buffer::empty(Rect::new(0, 0, SIZE.0, SIZE.1));
    let area = buffer.area;
    let drawn = draw(state, &options.look(), area, &mut buffer);
    screen.frame(buffer, drawn.cursor).len()
}

fn frames(criterion: &mut Criterion) {
    let options = Options::new(Facts::of(&[("COLORTERM", "truecolor"), ("LANG", "C.UTF-8")]));
    let snapshot = crowd();
    for view in View::ALL {
        let name = view.title().to_lowercase();
        criterion.bench_function(&format!("first frame, {REQUESTS} requests, {name}"), |bencher| {
            bencher.iter(|| {
                let state = fresh(State::new(view, false, SIZE), &snapshot);
                black_box(paint(&state, &mut Screen::new(), &options))
            });
        });
        criterion.bench_function(&format!("next frame, {REQUESTS} requests, {name}"), |bencher| {
            let mut screen = Screen::new();
            let mut state = Some(fresh(State::new(view, false, SIZE), &snapshot));
            bencher.iter(|| {
                // A frame that is drawn and changes nothing: what an idle console costs.
                let next = state.take().map(|state| fresh(state, &snapshot));
                let written = next.as_ref().map(|state| paint(state, &mut screen, &options));
                state = next;
                black_box(written)
            });
        });
    }
}

criterion_group!(benches, frames);
criterion_main!(benches);
