//! Terminal events as messages.

use super::super::keys::Key;
use super::super::model::{Msg, Target};
use super::super::view::Hit;
use crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use ratatui::layout::Position;

/// What an event means: nothing, for what the console does not listen to. A terminal sends Alt and a key as Esc and the key,
/// and over a slow line Esc and the next key come together: the two cannot be told apart, and are taken for the second.
pub fn messages(event: Event, hits: &[Hit]) -> Vec<Msg> {
    let one = match event {
        Event::Key(mut event) if event.kind != KeyEventKind::Release => {
            let escaped = event.modifiers.contains(KeyModifiers::ALT);
            event.modifiers.remove(KeyModifiers::ALT);
            let first = escaped.then_some(Msg::Key(Key::Esc));
            return first.into_iter().chain(key(event).map(Msg::Key)).collect();
        }
        Event::Paste(text) => Some(Msg::Paste(text)),
        // Sizes come with their signal: the reader of events hears of one only once it was first asked.
        Event::Mouse(event) => click(event, hits).map(Msg::Click),
        _ => None,
    };
    one.into_iter().collect()
}

fn key(event: KeyEvent) -> Option<Key> {
    let ctrl = event.modifiers.contains(KeyModifiers::CONTROL);
    if event.modifiers.intersects(KeyModifiers::SUPER | KeyModifiers::META) {
        return None;
    }
    match event.code {
        KeyCode::Char(c) if ctrl => Some(Key::Ctrl(c.to_ascii_lowercase())),
        KeyCode::Char(c) => Some(Key::Char(c)),
        KeyCode::Enter => Some(Key::Enter),
        KeyCode::Esc => Some(Key::Esc),
        KeyCode::Tab if event.modifiers.contains(KeyModifiers::SHIFT) => Some(Key::BackTab),
        KeyCode::Tab => Some(Key::Tab),
        KeyCode::BackTab => Some(Key::BackTab),
        KeyCode::Backspace => Some(Key::Backspace),
        KeyCode::Up => Some(Key::Up),
        KeyCode::Down => Some(Key::Down),
        KeyCode::Left => Some(Key::Left),
        KeyCode::Right => Some(Key::Right),
        KeyCode::PageUp => Some(Key::PageUp),
        KeyCode::PageDown => Some(Key::PageDown),
        KeyCode::Home => Some(Key::Home),
        KeyCode::End => Some(Key::End),
        _ => None,
    }
}

/// The topmost thing under a left click: what was drawn last lies on top.
fn click(event: MouseEvent, hits: &[Hit]) -> Option<Target> {
    if event.kind != MouseEventKind::Down(MouseButton::Left) {
        return None;
    }
    let at = Position { x: event.column, y: event.row };
    hits.iter().rev().find(|hit| hit.area.contains(at)).map(|hit| hit.target.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presses_become_keys_and_releases_do_not() {
        let press = |code, modifiers| {
            let keys = messages(Event::Key(KeyEvent::new(code, modifiers)), &[]).into_iter().map(|msg| match msg {
                Msg::Key(key) => key,
                other => panic!("{other:?} is no key"),
            });
            keys.collect::<Vec<_>>()
        };
        assert_eq!(press(KeyCode::Char('G'), KeyModifiers::SHIFT), [Key::Char('G')]);
        assert_eq!(press(KeyCode::Char('D'), KeyModifiers::CONTROL), [Key::Ctrl('d')]);
        assert_eq!(press(KeyCode::Tab, KeyModifiers::SHIFT), [Key::BackTab]);
        assert_eq!(press(KeyCode::Char('x'), KeyModifiers::SUPER), []);
        assert_eq!(press(KeyCode::Char('2'), KeyModifiers::ALT), [Key::Esc, Key::Char('2')], "read in one piece");
        let release = KeyEvent::new_with_kind(KeyCode::Enter, KeyModifiers::NONE, KeyEventKind::Release);
        assert!(messages(Event::Key(release), &[]).is_empty());
    }
}
