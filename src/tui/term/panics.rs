//! Panics while the console holds the terminal.
//!
//! A panic of the console itself restores the terminal before anything is printed. A panic of another thread (the
//! engine beside it in `demo` contains those) must neither tear the screen down nor write across it: its text is held
//! until the terminal is given back.

use super::guard;
use std::cell::Cell;
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;

/// Texts held at most; what comes after the first ones rarely tells more.
const HELD_LIMIT: usize = 16;

static HELD: Mutex<Vec<String>> = Mutex::new(Vec::new());

thread_local! {
    /// Whether this thread is in the console's task now.
    static IN_CONSOLE: Cell<bool> = const { Cell::new(false) };
}

/// Runs the console's future so that a panic in it can be told from others on the same threads.
pub async fn as_console<F: Future>(future: F) -> F::Output {
    /// Unmarks the thread on the way out of a poll, by return or by panic.
    struct Mark(bool);
    impl Drop for Mark {
        fn drop(&mut self) {
            IN_CONSOLE.with(|flag| flag.set(self.0));
        }
    }
    let mut future = pin!(future);
    std::future::poll_fn(move |context| -> Poll<F::Output> {
        let _mark = Mark(IN_CONSOLE.with(|flag| flag.replace(true)));
        future.as_mut().poll(context)
    })
    .await
}

type Hook = Box<dyn Fn(&std::panic::PanicHookInfo<'_>) + Send + Sync>;

/// The hook that was there before; put back when dropped.
pub struct PanicHook {
    before: Arc<Hook>,
}

impl PanicHook {
    /// Takes the hook's place until dropped.
    pub fn install() -> PanicHook {
        let before: Arc<Hook> = Arc::new(std::panic::take_hook());
        let next = Arc::clone(&before);
        std::panic::set_hook(Box::new(move |info| {
            let in_console = IN_CONSOLE.try_with(Cell::get).unwrap_or(false);
            if in_console {
                guard::restore();
            }
            if guard::holds_terminal() {
                hold(info);
            } else {
                next(info);
            }
        }));
        PanicHook { before }
    }
}

impl Drop for PanicHook {
    fn drop(&mut self) {
        // A hook must not be changed while unwinding; ours then stays, and hands on to the one before.
        if !std::thread::panicking() {
            let before = Arc::clone(&self.before);
            std::panic::set_hook(Box::new(move |info| before(info)));
        }
    }
}

fn hold(info: &std::panic::PanicHookInfo<'_>) {
    let thread = std::thread::current();
    let text = format!("thread '{}' {info}", thread.name().unwrap_or("unnamed"));
    let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    if held.len() < HELD_LIMIT {
        held.push(text);
    }
}

/// The texts held so far.
pub fn take_held() -> Vec<String> {
    std::mem::take(&mut *HELD.lock().unwrap_or_else(PoisonError::into_inner))
}
