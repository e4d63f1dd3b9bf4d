//! The console's task: events in, frames out.

use super::super::model::{Cmd, Link, Msg, Playback, State, update};
use super::super::view::{self, Hit, Look};
use super::guard::{Guard, holds_terminal};
use super::pace::{Haste, Pace};
use super::signals::{Asked, Signals, stop_here};
use super::surface::Surface;
use super::writer::Writer;
use super::{Actions, Exit, Options, TuiError, input, panics};
use crate::client::{Feed, FeedState, Tape};
use crate::control::Snapshot;
use crossterm::clipboard::CopyToClipboard;
use crossterm::event::EventStream;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use std::future::Future;
use std::io::Write;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::time::{MissedTickBehavior, interval, sleep_until};

/// What only time changes (ages, countdowns, messages) is looked at this often.
const TICK: Duration = Duration::from_secs(1);
/// Actions under way at once; more are refused with a message.
const ACTIONS: usize = 8;
/// How long the last frame may take to get out before the terminal is given back.
const LAST_FRAME: Duration = Duration::from_secs(2);

/// Something asked of the engine, and the message that tells of its end.
type Pending = Pin<Box<dyn Future<Output = Msg> + Send>>;

/// Runs the console until a person leaves it or a signal ends it. Must be called within a tokio runtime.
pub async fn run(feed: Feed, actions: impl Actions, options: Options) -> Result<Exit, TuiError> {
    run_until(feed, actions, options, std::future::pending()).await
}

/// Like [`run`], and ends by itself when `done` does.
pub async fn run_until(
    feed: Feed,
    actions: impl Actions,
    options: Options,
    done: impl Future<Output = ()>,
) -> Result<Exit, TuiError> {
    in_terminal(Some(feed), None, actions, options, done).await
}

/// Plays a recorded session, from `from_ms` after its beginning on.
pub async fn replay(tape: Arc<Tape>, from_ms: u64, actions: impl Actions, options: Options) -> Result<Exit, TuiError> {
    let mut playback = Playback::new(tape);
    if from_ms > playback.at_ms() {
        playback.seek(from_ms);
    }
    in_terminal(None, Some(playback), actions, options, std::future::pending()).await
}

async fn in_terminal(
    feed: Option<Feed>,
    playback: Option<Playback>,
    actions: impl Actions,
    options: Options,
    done: impl Future<Output = ()>,
) -> Result<Exit, TuiError> {
    if !options.facts.interactive {
        return Err(TuiError::NotATerminal);
    }
    panics::as_console(async move {
        let signals = Signals::listen()?;
        let guard = Guard::enter(options.mouse, options.inline.is_some())?;
        let writer = Writer::start(put).map_err(writing)?;
        let mut console = Console::new(actions, &options, guard, writer);
        if let Some(playback) = playback {
            console.state.play(playback);
        }
        let exit = console.work(feed, signals, done).await;
        console.writer.settle(LAST_FRAME);
        exit
    })
    .await
}

/// The next state of the feed; for ever none where nothing is watched.
async fn next(feed: &mut Option<Feed>) -> FeedState {
    let Some(lives) = feed else { return std::future::pending().await };
    if lives.states.changed().await.is_ok() {
        return lives.states.borrow_and_update().clone();
    }
    *feed = None;
    let why = "the feed has ended".to_string();
    FeedState::Reconnecting { attempt: 1, retry_in: Duration::MAX, why, last: None }
}

/// The terminal's size; a terminal that does not know it is taken for the classic one.
fn terminal_size() -> (u16, u16) {
    match crossterm::terminal::size() {
        Ok((width, height)) if width > 0 && height > 0 => (width, height),
        _ => (80, 24),
    }
}

struct Console<A> {
    actions: A,
    acting: FuturesUnordered<Pending>,
    look: Look,
    guard: Guard,
    state: State,
    surface: Surface,
    hits: Vec<Hit>,
    began: Instant,
    pace: Pace,
    writer: Writer,
    /// Bytes that go out with the next frame: what was copied.
    extra: Vec<u8>,
    /// Something changed since the last frame, and how much that matters.
    dirty: bool,
    haste: Haste,
    /// Bytes written since the last tick, and the running mean.
    written: u64,
    mean: f64,
    quit: bool,
    /// Stopped, or about to be: the terminal is not ours to draw on until SIGCONT comes.
    paused: bool,
}

impl<A: Actions> Console<A> {
    fn new(actions: A, options: &Options, guard: Guard, writer: Writer) -> Console<A> {
        let surface = Surface::new(options.inline);
        let mut state = State::new(options.view, options.read_only, surface.fit(terminal_size()));
        state.keys = Arc::clone(&options.keys);
        state.words = actions.words().into();
        Console {
            actions,
            acting: FuturesUnordered::new(),
            look: options.look(),
            guard,
            state,
            surface,
            hits: Vec::new(),
            began: Instant::now(),
            pace: Pace::default(),
            writer,
            extra: Vec::new(),
            dirty: true,
            haste: Haste::Soon,
            written: 0,
            mean: 0.0,
            quit: false,
            paused: false,
        }
    }

    async fn work(
        &mut self,
        mut feed: Option<Feed>,
        mut signals: Signals,
        done: impl Future<Output = ()>,
    ) -> Result<Exit, TuiError> {
        let mut done = std::pin::pin!(done);
        let mut events = EventStream::new();
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        if let Some(feed) = &mut feed {
            let first = feed.states.borrow_and_update().clone();
            self.take_feed(first)?;
        }
        while !self.quit {
            let due = self.pace.due(self.haste, self.look.reduced_motion).unwrap_or(self.began);
            let idle = self.writer.idle();
            let moment = self.next_moment();
            // In this order: ending comes before drawing, drawing before more data.
            tokio::select! {
                biased;
                asked = signals.next() => match asked {
                    Asked::End(number) => return Ok(Exit::Signal(number)),
                    Asked::Stop => self.suspend()?,
                    Asked::Continue => self.resume()?,
                    Asked::Resize => self.resized()?,
                },
                () = &mut done => return Ok(Exit::Done),
                () = sleep_until(due.into()), if self.dirty && !self.paused && idle => self.draw()?,
                () = self.writer.done(), if !idle => self.writer.check().map_err(writing)?,
                event = events.next() => match event {
                    None => return Ok(Exit::InputClosed),
                    Some(Err(source)) => return Err(TuiError::Terminal { doing: "reading the keyboard of", source }),
                    Some(Ok(event)) => for msg in input::messages(event, &self.hits) {
                        self.hurry(Haste::Key);
                        self.take(msg)?;
                    },
                },
                news = next(&mut feed) => self.take_feed(news)?,
                () = sleep_until(moment.unwrap_or(self.began).into()), if moment.is_some() => {
                    let now_ms = self.now_ms();
                    self.take(Msg::Tick { now_ms })?;
                },
                Some(news) = self.acting.next() => {
                    self.hurry(Haste::Soon);
                    self.take(news)?;
                },
                _ = ticks.tick() => self.tick()?,
            }
        }
        Ok(Exit::Quit)
    }

    fn now_ms(&self) -> u64 {
        self.began.elapsed().as_millis() as u64
    }

    fn hurry(&mut self, haste: Haste) {
        self.haste = self.haste.max(haste);
    }

    /// The size is read when it is told of: of several changes the last one counts.
    fn resized(&mut self) -> Result<(), TuiError> {
        self.surface.forget();
        self.hurry(Haste::Soon);
        let (width, height) = self.surface.fit(terminal_size());
        self.take(Msg::Resize { width, height })
    }

    /// When the recording has something new.
    fn next_moment(&self) -> Option<Instant> {
        let next_ms = self.state.playback.as_ref()?.next_ms()?;
        Some(self.began + Duration::from_millis(self.state.now_ms + next_ms))
    }

    fn take_feed(&mut self, news: FeedState) -> Result<(), TuiError> {
        let began = self.began;
        let since_began = |at: Instant| at.saturating_duration_since(began).as_millis() as u64;
        let msg = match news {
            FeedState::Live { snapshot, received, missed } => {
                if self.state.live.is_none() {
                    // The first one is what a person waits for, not one more of many.
                    self.hurry(Haste::Key);
                }
                Msg::Fresh { snapshot, received_ms: since_began(received), missed }
            }
            FeedState::Reconnecting { attempt, retry_in, why, last } => {
                let shown = self.state.live.as_ref().map(|seen| &seen.snapshot);
                if let Some((snapshot, received)) = unseen(last, shown) {
                    let missed = if let Link::Live { missed } = self.state.link { missed } else { 0 };
                    self.take(Msg::Fresh { snapshot, received_ms: since_began(received), missed })?;
                }
                Msg::Away { attempt, retry_in_ms: u64::try_from(retry_in.as_millis()).unwrap_or(u64::MAX), why }
            }
        };
        self.take(msg)
    }

    fn tick(&mut self) -> Result<(), TuiError> {
        // A mean over some seconds, so that one burst does not make the header flicker.
        self.mean = self.mean * 0.75 + self.written as f64 * 0.25;
        self.written = 0;
        self.take(Msg::Traffic { bytes_per_s: self.mean as u64 })
    }

    fn take(&mut self, msg: Msg) -> Result<(), TuiError> {
        let now = Msg::Tick { now_ms: self.now_ms() };
        self.dirty = true;
        for msg in [now, msg] {
            // The reducer takes the state by value: an empty one stands in for the time of the call.
            let stand_in = State::new(self.state.view, false, self.state.size);
            let (state, commands) = update(std::mem::replace(&mut self.state, stand_in), msg);
            self.state = state;
            for command in commands {
                self.obey(command)?;
            }
        }
        Ok(())
    }

    fn obey(&mut self, command: Cmd) -> Result<(), TuiError> {
        match command {
            Cmd::LoadKnobs => {
                let asking = self.actions.knobs();
                self.acting.push(Box::pin(async { Msg::Knobs(asking.await.map(Arc::new)) }));
            }
            Cmd::CancelRequest { .. } | Cmd::Interpret { .. } | Cmd::Run { .. } if self.acting.len() >= ACTIONS => {
                let text = format!("not done: {ACTIONS} things are under way already, try again");
                self.take(Msg::Acted(Err(text)))?;
            }
            Cmd::CancelRequest { request } => {
                let acting = self.actions.cancel(&request);
                self.acting.push(Box::pin(async { Msg::Acted(acting.await) }));
            }
            Cmd::Interpret { line } => {
                let interpreting = self.actions.interpret(&line);
                self.acting.push(Box::pin(async { Msg::Meant(interpreting.await) }));
            }
            Cmd::Run { line } => {
                let acting = self.actions.run(&line);
                self.acting.push(Box::pin(async { Msg::Acted(acting.await) }));
            }
            Cmd::Copy(text) => {
                let copy = CopyToClipboard::to_clipboard_from(text);
                crossterm::queue!(self.extra, copy).map_err(writing)?;
            }
            Cmd::Repaint => self.surface.forget(),
            Cmd::Suspend => self.suspend()?,
            Cmd::Quit => self.quit = true,
        }
        Ok(())
    }

    /// Gives the terminal back and stops; SIGCONT brings it on again.
    fn suspend(&mut self) -> Result<(), TuiError> {
        self.writer.settle(LAST_FRAME);
        self.guard.pause();
        self.paused = true;
        stop_here()
    }

    fn resume(&mut self) -> Result<(), TuiError> {
        self.guard.resume()?;
        self.paused = false;
        self.surface.begin_anew();
        self.hurry(Haste::Soon);
        let (width, height) = self.surface.fit(terminal_size());
        self.take(Msg::Resize { width, height })
    }

    fn draw(&mut self) -> Result<(), TuiError> {
        let (width, height) = self.state.size;
        let mut buffer = Buffer::empty(Rect::new(0, 0, width, height));
        let area = buffer.area;
        let drawn = view::draw(&self.state, &self.look, area, &mut buffer);
        self.hits = drawn.hits;
        let bytes = self.surface.frame(buffer, drawn.cursor);
        self.dirty = false;
        self.haste = Haste::Data;
        let mut bytes = bytes.into_bytes();
        bytes.append(&mut self.extra);
        self.pace.wrote(Instant::now(), bytes.len(), self.state.size);
        self.written += bytes.len() as u64;
        self.writer.write(bytes).map_err(writing)
    }
}

/// Puts bytes on the terminal, if it is ours still.
fn put(bytes: &[u8]) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    if !holds_terminal() {
        return Ok(());
    }
    out.write_all(bytes).and_then(|()| out.flush())
}

fn writing(source: std::io::Error) -> TuiError {
    TuiError::Terminal { doing: "writing to", source }
}

/// The last snapshot before a loss, unless it is on the screen already: the news of the loss may have overtaken it, and it
/// is the one that says that the engine drains.
fn unseen(last: Option<(Arc<Snapshot>, Instant)>, shown: Option<&Arc<Snapshot>>) -> Option<(Arc<Snapshot>, Instant)> {
    last.filter(|(snapshot, _)| shown.is_none_or(|shown| !Arc::ptr_eq(shown, snapshot)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_loss_overtook_is_shown_once() {
        let snapshot = |seq| Arc::new(crate::client::testing::snapshot(1, seq));
        let (shown, last) = (snapshot(4), snapshot(5));
        let of = |s: &Arc<Snapshot>| Some((s.clone(), Instant::now()));
        assert_eq!(unseen(of(&last), Some(&shown)).unwrap().0.seq, 5);
        assert_eq!(unseen(of(&last), None).unwrap().0.seq, 5, "lost before the console began");
        assert!(unseen(of(&shown), Some(&shown)).is_none() && unseen(None, Some(&shown)).is_none());
    }
}
