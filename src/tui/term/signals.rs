//! Signals as a stream of values.

use super::TuiError;
use signal_hook::SigId;
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGTERM, SIGTSTP, SIGWINCH};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// What a signal asks of the console.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// End: SIGINT, SIGTERM or SIGHUP, by number.
    End(i32),
    /// Give the terminal back and stop.
    Stop,
    /// The process goes on after a stop.
    Continue,
    /// The terminal has another size.
    Resize,
}

/// Listens while it lives.
pub struct Signals {
    int: Signal,
    term: Signal,
    hup: Signal,
    tstp: Signal,
    cont: Signal,
    winch: Signal,
    /// Set by the first ending signal: a second one then has its usual effect, even if the console is stuck on a
    /// terminal that takes no more output.
    ending: Arc<AtomicBool>,
    again: Vec<SigId>,
}

impl Signals {
    pub fn listen() -> Result<Signals, TuiError> {
        let failed = |source| TuiError::Terminal { doing: "listening for signals of", source };
        let on = |number| signal(SignalKind::from_raw(number)).map_err(failed);
        let ending = Arc::new(AtomicBool::new(false));
        let mut again = Vec::new();
        for number in [SIGINT, SIGTERM, SIGHUP] {
            let id = signal_hook::flag::register_conditional_default(number, Arc::clone(&ending)).map_err(failed)?;
            again.push(id);
        }
        let (int, term, hup) = (on(SIGINT)?, on(SIGTERM)?, on(SIGHUP)?);
        Ok(Signals { int, term, hup, tstp: on(SIGTSTP)?, cont: on(SIGCONT)?, winch: on(SIGWINCH)?, ending, again })
    }

    /// The next one.
    pub async fn next(&mut self) -> Asked {
        let asked = tokio::select! {
            _ = self.int.recv() => Asked::End(SIGINT),
            _ = self.term.recv() => Asked::End(SIGTERM),
            _ = self.hup.recv() => Asked::End(SIGHUP),
            _ = self.tstp.recv() => Asked::Stop,
            _ = self.cont.recv() => Asked::Continue,
            _ = self.winch.recv() => Asked::Resize,
        };
        if matches!(asked, Asked::End(_)) {
            self.ending.store(true, Ordering::SeqCst);
        }
        asked
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        for id in self.again.drain(..) {
            signal_hook::low_level::unregister(id);
        }
    }
}

/// Stops this process as SIGTSTP would; returns when it is continued.
pub fn stop_here() -> Result<(), TuiError> {
    signal_hook::low_level::emulate_default_handler(SIGTSTP)
        .map_err(|source| TuiError::Terminal { doing: "suspending", source })
}
