//! The terminal guard: what it does to the terminal it undoes, once, whatever happens.

use super::TuiError;
use super::panics::{self, PanicHook};
use crossterm::terminal::{disable_raw_mode, enable_raw_mode};
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the terminal is ours. A process has one terminal, and the panic hook must reach this from anywhere.
static HELD: AtomicBool = AtomicBool::new(false);
static INLINE: AtomicBool = AtomicBool::new(false);
static MOUSE: AtomicBool = AtomicBool::new(false);

/// Alternate screen, no cursor, bracketed paste.
const ENTER: &str = "\x1b[?1049h\x1b[?25l\x1b[?2004h";
/// The reverse, ending a synchronized update that a panic may have left open, and plain text again.
const LEAVE: &str = "\x1b[?2026l\x1b[?2004l\x1b[0m\x1b[?25h\x1b[?1049l";
/// The same in the lines under the prompt: no other screen; lines that are too long are cut, not wrapped.
const ENTER_INLINE: &str = "\x1b[?25l\x1b[?7l\x1b[?2004h";
/// The cursor rests on the last line: what comes next begins under it.
const LEAVE_INLINE: &str = "\x1b[?2026l\x1b[?2004l\x1b[?7h\x1b[0m\x1b[?25h\r\n";
const MOUSE_ON: &str = "\x1b[?1000h\x1b[?1006h";
const MOUSE_OFF: &str = "\x1b[?1006l\x1b[?1000l";

/// Whether the console holds the terminal now.
pub fn holds_terminal() -> bool {
    HELD.load(Ordering::SeqCst)
}

/// Gives the terminal back, if we hold it. Errors are ignored: there may be no terminal left to restore.
pub fn restore() {
    if !HELD.swap(false, Ordering::SeqCst) {
        return;
    }
    let mut out = std::io::stdout().lock();
    if MOUSE.load(Ordering::SeqCst) {
        let _ = out.write_all(MOUSE_OFF.as_bytes());
    }
    let leave = if INLINE.load(Ordering::SeqCst) { LEAVE_INLINE } else { LEAVE };
    let _ = out.write_all(leave.as_bytes()).and_then(|()| out.flush());
    let _ = disable_raw_mode();
}

fn take() -> Result<(), TuiError> {
    let failed = |source| TuiError::Terminal { doing: "setting up", source };
    enable_raw_mode().map_err(failed)?;
    HELD.store(true, Ordering::SeqCst);
    let mut out = std::io::stdout().lock();
    let mouse = if MOUSE.load(Ordering::SeqCst) { MOUSE_ON } else { "" };
    let enter = if INLINE.load(Ordering::SeqCst) { ENTER_INLINE } else { ENTER };
    let written = out.write_all(enter.as_bytes()).and_then(|()| out.write_all(mouse.as_bytes()));
    written.and_then(|()| out.flush()).map_err(failed)
}

/// Holds the terminal while it lives.
pub struct Guard {
    _hook: PanicHook,
}

impl Guard {
    /// Takes the terminal, or `inline` some of its lines.
    pub fn enter(mouse: bool, inline: bool) -> Result<Guard, TuiError> {
        INLINE.store(inline, Ordering::SeqCst);
        MOUSE.store(mouse, Ordering::SeqCst);
        let guard = Guard { _hook: PanicHook::install() };
        take()?;
        Ok(guard)
    }

    /// Gives the terminal back for a while: before the process is stopped.
    pub fn pause(&self) {
        restore();
    }

    /// Takes the terminal again, whatever a shell has made of it meanwhile.
    pub fn resume(&self) -> Result<(), TuiError> {
        // Raw mode is remembered, not looked up: switching it off first makes switching it on do something.
        let _ = disable_raw_mode();
        take()
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        restore();
        for text in panics::take_held() {
            // The one place that may write to standard error: what happened while it was covered.
            let _ = writeln!(std::io::stderr(), "{text}");
        }
    }
}
