//! Golden screens: recorded snapshots at four sizes, four palettes and in ASCII.

use super::super::facts::Depth;
use super::super::keys::Key;
use super::super::model::{Meaning, Msg, State, Target, View};
use super::super::term::Screen;
use super::super::testing::{crowd, look, playing, press, recorded, take, type_text, watching};
use super::super::theme::{Theme, ThemeName};
use super::{Drawn, Look, draw};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use std::collections::BTreeMap;
use std::sync::Arc;

const SIZES: [(u16, u16); 4] = [(40, 12), (80, 24), (120, 40), (250, 70)];

fn screen(state: &State, look: &Look) -> (Buffer, Drawn) {
    let mut terminal = Terminal::new(TestBackend::new(state.size.0, state.size.1)).unwrap();
    let mut drawn = Drawn::default();
    terminal.draw(|frame| drawn = draw(state, look, frame.area(), frame.buffer_mut())).unwrap();
    (terminal.backend().buffer().clone(), drawn)
}

/// The screen's text, without the blanks at the ends of lines.
fn text(buffer: &Buffer) -> String {
    let mut out = String::new();
    for y in 0..buffer.area.height {
        let mut line = String::new();
        let mut x = 0;
        while x < buffer.area.width {
            let symbol = buffer[(x, y)].symbol();
            line.push_str(symbol);
            x += (super::text::columns(symbol) as u16).max(1);
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

/// What styles a screen uses and how often: enough to see that a palette is kept to.
fn styles(buffer: &Buffer) -> String {
    let mut counts = BTreeMap::new();
    for cell in &buffer.content {
        *counts.entry(format!("{:?} on {:?} {:?}", cell.fg, cell.bg, cell.modifier)).or_insert(0) += 1;
    }
    counts.into_iter().map(|(style, cells)| format!("{cells:>6}  {style}\n")).collect()
}

fn golden(name: &str, state: &State, look: &Look) {
    insta::assert_snapshot!(name, text(&screen(state, look).0));
}

#[test]
fn every_view_at_every_size() {
    let look = look(Depth::True, false);
    for size in SIZES {
        for view in View::ALL {
            let state = watching(&recorded("busy"), view, size);
            golden(&format!("busy_{}_{}x{}", view.title().to_lowercase(), size.0, size.1), &state, &look);
        }
    }
}

#[test]
fn other_states_of_the_engine() {
    let look = look(Depth::True, false);
    for name in ["idle", "loading", "degraded"] {
        for view in View::ALL {
            let state = watching(&recorded(name), view, (80, 24));
            golden(&format!("{name}_{}_80x24", view.title().to_lowercase()), &state, &look);
        }
    }
    golden("degraded_overview_40x12", &watching(&recorded("degraded"), View::Overview, (40, 12)), &look);
}

#[test]
fn in_ascii_every_screen_is_ascii_only() {
    let look = look(Depth::None, true);
    for name in ["busy", "idle", "loading", "degraded"] {
        for view in View::ALL {
            for size in SIZES {
                let state = watching(&recorded(name), view, size);
                for state in [state.clone(), press(state.clone(), &[Key::Char('?')]), press(state, &[Key::Enter])] {
                    let drawn = text(&screen(&state, &look).0);
                    assert!(drawn.is_ascii(), "{name} {view:?} {size:?}:\n{drawn}");
                }
            }
            if name == "busy" {
                let state = watching(&recorded(name), view, (80, 24));
                golden(&format!("ascii_{}_80x24", view.title().to_lowercase()), &state, &look);
            }
        }
    }
}

#[test]
fn each_palette_uses_its_own_colours_and_never_changes_the_text() {
    let palettes = [("none", Depth::None), ("16", Depth::Ansi16), ("256", Depth::Ansi256), ("true", Depth::True)];
    for view in View::ALL {
        let state = watching(&recorded("busy"), view, (120, 40));
        let reference = text(&screen(&state, &look(Depth::True, false)).0);
        for (name, depth) in palettes {
            let (buffer, _) = screen(&state, &look(depth, false));
            assert_eq!(text(&buffer), reference);
            insta::assert_snapshot!(format!("styles_{}_{name}", view.title().to_lowercase()), styles(&buffer));
        }
    }
    let light = Look { theme: Theme::resolve(ThemeName::Light, Depth::True, false), ..look(Depth::True, false) };
    let state = watching(&recorded("busy"), View::Overview, (120, 40));
    insta::assert_snapshot!("styles_overview_light", styles(&screen(&state, &light).0));
}

#[test]
fn what_lies_over_a_view() {
    let look = look(Depth::True, false);
    for size in [(40, 12), (80, 24)] {
        let name = |what: &str| format!("over_{what}_{}x{}", size.0, size.1);
        let requests = watching(&recorded("busy"), View::Requests, size);
        let queued = type_text(press(requests.clone(), &[Key::Char('/')]), "state:queued");
        golden(&name("filter_typed"), &queued, &look);
        let queued = press(queued, &[Key::Enter]);
        golden(&name("detail"), &press(queued.clone(), &[Key::Enter]), &look);
        golden(&name("confirm"), &press(queued, &[Key::Char('x'), Key::Char('y')]), &look);
        golden(&name("help"), &press(requests.clone(), &[Key::Char('?')]), &look);
        golden(&name("help_searched"), &type_text(press(requests.clone(), &[Key::Char('?')]), "cancel"), &look);
        let output = |text: &str| Msg::Meant(Meaning::Output { title: "status".to_string(), text: text.to_string() });
        golden(&name("output"), &take(requests.clone(), [output(&"one line of output\n".repeat(40))]).0, &look);
        let about = ["engine.depth  1 -> 2", "takes effect from the next batch"].map(str::to_string).to_vec();
        let change = Msg::Meant(Meaning::Change { line: "set engine.depth=2 --ttl 10m".to_string(), about });
        golden(&name("change"), &take(requests.clone(), [change]).0, &look);
        let settings = watching(&recorded("busy"), View::Settings, size);
        golden(&name("knob"), &press(settings.clone(), &[Key::Enter]), &look);
        golden(&name("knob_edited"), &press(settings, &[Key::Char('j'), Key::Char('e')]), &look);
        golden(&name("entry"), &press(watching(&recorded("busy"), View::Journal, size), &[Key::Enter]), &look);
        let effect = [Key::Char('j'), Key::Char('j'), Key::Char('j'), Key::Enter];
        golden(&name("entry_effect"), &press(watching(&recorded("busy"), View::Journal, size), &effect), &look);
        golden(&name("looked_back"), &press(requests.clone(), &[Key::Left, Key::Left, Key::Left]), &look);
        let wrong = press(type_text(press(requests.clone(), &[Key::Char(':')]), "frob"), &[Key::Enter]);
        golden(&name("error"), &wrong, &look);
        let sorted = press(requests, &[Key::Char('s'), Key::Char('j'), Key::Char(' ')]);
        golden(&name("sorted_frozen"), &sorted, &look);
    }
}

/// A recorded session, looked at from its beginning to its end: with every second that time passes, and by walking.
#[test]
fn a_recorded_session() {
    let look = look(Depth::True, false);
    for view in View::ALL {
        let state = take(playing(view, (80, 24)), [Msg::Tick { now_ms: 13_000 }]).0;
        golden(&format!("replay_{}_80x24", view.title().to_lowercase()), &state, &look);
        let walked = press(playing(view, (80, 24)), &[Key::Right; 13]);
        let body =
            |state: &State| text(&screen(state, &look).0).lines().skip(2).map(str::to_string).collect::<Vec<_>>();
        let (played, walked) = (body(&state), body(&walked));
        assert_eq!(played, walked, "{view:?}: the way there does not matter");
    }
    let state = playing(View::Overview, (120, 40));
    golden("replay_begins_120x40", &state, &look);
    golden("replay_ends_120x40", &take(press(state, &[Key::Char('>')]), [Msg::Tick { now_ms: 60_000 }]).0, &look);
    golden("replay_stopped_40x12", &press(playing(View::Lanes, (40, 12)), &[Key::Char(']'), Key::Left]), &look);
}

#[test]
fn without_the_engine() {
    let look = look(Depth::None, false);
    let away = Msg::Away { attempt: 3, retry_in_ms: 4000, why: "connection refused".to_string() };
    let never = take(State::new(View::Overview, true, (80, 24)), [away.clone()]).0;
    golden("away_never_seen", &never, &look);
    let lost = watching(&recorded("busy"), View::Overview, (80, 24));
    let lost = take(lost, [away, Msg::Tick { now_ms: 42_000 }]).0;
    golden("away_lost", &lost, &look);
    let (buffer, _) = screen(&lost, &look);
    assert!(buffer[(4, 12)].modifier.contains(ratatui::style::Modifier::DIM), "old data are drawn as old");
}

#[test]
fn control_bytes_in_names_never_reach_the_screen() {
    for view in View::ALL {
        for size in SIZES {
            let state = watching(&recorded("degraded"), view, size);
            for state in [state.clone(), press(state, &[Key::Char('G'), Key::Enter])] {
                let (buffer, _) = screen(&state, &look(Depth::True, false));
                for cell in &buffer.content {
                    let bad = |c: char| c.is_control() || c == '\u{202e}';
                    assert!(!cell.symbol().chars().any(bad), "{:?} in {view:?} at {size:?}", cell.symbol());
                }
            }
        }
    }
}

#[test]
fn tiny_and_odd_sizes_are_drawn_without_a_panic() {
    let look = look(Depth::Ansi16, false);
    for name in ["busy", "degraded", "loading"] {
        for view in View::ALL {
            for width in [0, 1, 2, 5, 11, 23, 39, 81, 171] {
                for height in [0, 1, 2, 3, 4, 5, 7, 11, 25] {
                    let state = take(watching(&recorded(name), view, (80, 24)), [Msg::Resize { width, height }]).0;
                    let over = [&[][..], &[Key::Char('?')], &[Key::Enter], &[Key::Char('x')], &[Key::Char(':')]];
                    for keys in over {
                        screen(&press(state.clone(), keys), &look);
                    }
                }
            }
        }
    }
}

#[test]
fn clicks_find_what_was_drawn() {
    let state = watching(&recorded("busy"), View::Requests, (80, 24));
    let (buffer, drawn) = screen(&state, &look(Depth::None, false));
    let row = drawn.hits.iter().find(|hit| hit.target == Target::Request("req-1809".to_string())).unwrap();
    let line: String = (0..80).map(|x| buffer[(x, row.area.y)].symbol()).collect();
    assert!(line.contains("req-1809"), "{line}");
    assert!(drawn.hits.iter().any(|hit| hit.target == Target::Tab(View::Lanes)));
    let over = screen(&press(state, &[Key::Char('?')]), &look(Depth::None, false)).1;
    assert!(
        !over.hits.iter().any(|hit| matches!(hit.target, Target::Request(_)) && hit.area.x > 4),
        "nothing under help"
    );
}

#[test]
fn the_header_always_says_node_state_and_age() {
    for size in SIZES {
        let state = watching(&crowd(10_000), View::Requests, size);
        let (buffer, _) = screen(&state, &look(Depth::None, false));
        let header = text(&buffer).lines().next().map(str::to_string).unwrap_or_default();
        for part in ["demo", "ready", "age <1s"] {
            assert!(header.contains(part), "{part} is missing at {size:?}: {header}");
        }
    }
}

/// Four idle snapshots a second for forty seconds: what is written after the first frame.
#[test]
fn an_idle_console_writes_next_to_nothing() {
    const SECONDS: u64 = 40;
    let look = look(Depth::True, false);
    for view in View::ALL {
        let mut snapshot = recorded("idle");
        let mut state = watching(&snapshot, view, (120, 40));
        let mut terminal = Screen::new();
        let mut paint = |state: &State| {
            let mut buffer = Buffer::empty(Rect::new(0, 0, 120, 40));
            let area = buffer.area;
            draw(state, &look, area, &mut buffer);
            terminal.frame(buffer, None).len() as u64
        };
        assert!(paint(&state) > 1000);
        let (mut written, began) = (0, state.now_ms);
        for quarter in 1..=SECONDS * 4 {
            let now_ms = began + quarter * 250;
            snapshot.seq += 1;
            snapshot.uptime_ms += 250;
            snapshot.at_ms += 250;
            for request in &mut snapshot.requests.shown {
                request.ended_ago_ms = request.ended_ago_ms.map(|ms| ms + 250.0);
            }
            let fresh = Msg::Fresh { snapshot: Arc::new(snapshot.clone()), received_ms: now_ms, missed: 0 };
            state = take(state, [Msg::Tick { now_ms }, fresh]).0;
            written += paint(&state);
        }
        assert!(written < 200 * SECONDS, "{view:?} wrote {written} bytes in {SECONDS} s");
    }
}

/// The first frame of ten thousand requests draws what fits, and no more than with a hundred.
#[test]
fn a_crowd_takes_no_more_drawing_than_fits() {
    let look = look(Depth::True, false);
    for view in View::ALL {
        let bytes = |requests: usize| {
            let state = watching(&crowd(requests), view, (120, 40));
            let (buffer, drawn) = screen(&state, &look);
            (drawn.hits.len(), Screen::new().frame(buffer, drawn.cursor).len())
        };
        let (few, many) = (bytes(100), bytes(10_000));
        assert_eq!(few.0, many.0, "{view:?}");
        assert!(many.1 < few.1 + 500, "{view:?}: {} bytes, {} with a hundred", many.1, few.1);
    }
}

#[test]
fn every_theme_at_every_depth_keeps_the_text() {
    let state = watching(&recorded("busy"), View::Caps, (120, 40));
    let reference = text(&screen(&state, &look(Depth::True, false)).0);
    for name in ThemeName::ALL {
        for depth in [Depth::None, Depth::Ansi16, Depth::Ansi256, Depth::True] {
            for light in [false, true] {
                let look = Look { theme: Theme::resolve(name, depth, light), ..look(depth, false) };
                assert_eq!(text(&screen(&state, &look).0), reference, "{} at {depth:?}", name.name());
            }
        }
    }
    let safe = Look { theme: Theme::resolve(ThemeName::Safe, Depth::True, false), ..look(Depth::True, false) };
    insta::assert_snapshot!("styles_caps_safe", styles(&screen(&state, &safe).0));
}
