//! Terminal events as messages.

use super::super::keys::Key;
use super::super::model::{Msg, Target};
use super::super::view::Hit;
use crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use ratatui::layout::Position;

/// What an event means; `None` for what the console does not listen to.
pub fn message(event: Event, hits: &[Hit]) -> Option<Msg> {
    match event {
        Event::Key(event) if event.kind != KeyEventKind::Release => key(event).map(Msg::Key),
        Event::Paste(text) => Some(Msg::Paste(text)),
        Event::Resize(width, height) => Some(Msg::Resize { width, height }),
        Event::Mouse(event) => click(event, hits).map(Msg::Click),
        _ => None,
    }
}

fn key(event: KeyEvent) -> Option<Key> {
    let ctrl = event.modifiers.contains(KeyModifiers::CONTROL);
    if event.modifiers.intersects(KeyModifiers::ALT | KeyModifiers::SUPER | KeyModifiers::META) {
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
        let press = |code, modifiers| message(Event::Key(KeyEvent::new(code, modifiers)), &[]);
        let is = |msg: Option<Msg>, key| matches!(msg, Some(Msg::Key(k)) if k == key);
        assert!(is(press(KeyCode::Char('G'), KeyModifiers::SHIFT), Key::Char('G')));
        assert!(is(press(KeyCode::Char('D'), KeyModifiers::CONTROL), Key::Ctrl('d')));
        assert!(is(press(KeyCode::Tab, KeyModifiers::SHIFT), Key::BackTab));
        assert!(press(KeyCode::Char('x'), KeyModifiers::ALT).is_none());
        let release = KeyEvent::new_with_kind(KeyCode::Enter, KeyModifiers::NONE, KeyEventKind::Release);
        assert!(message(Event::Key(release), &[]).is_none());
    }
}
