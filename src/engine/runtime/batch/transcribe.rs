//! A batch of transcriptions: sessions stepped window by window. Between two windows members may leave, and a recording
//! whose slice is over is put aside: its session is a value, and goes back to the dispatcher with its request.

use super::fault;
use super::job::{Job, Work};
use super::runner::Run;
use crate::control::{ErrorKind, Fault};
use crate::engine::models::{ModelError, TranscribeSession, Transcriber};
use crate::engine::runtime::Live;
use crate::engine::runtime::job::{TranscribeJob, TranscriptEvent};
use crate::engine::scheduler::{Item, Micros, audio_cost_ms};

/// How often a batch that does not fit into memory is halved.
const HALVINGS: usize = 4;

/// A transcription on its way: what has been heard so far, and where to send it.
pub(super) struct Transcription {
    pub live: Live<TranscriptEvent>,
    session: TranscribeSession,
    /// Segments already sent.
    sent: usize,
    /// Tries of the window that it stands at.
    tries: usize,
}

impl Transcription {
    pub fn new(live: Live<TranscriptEvent>, job: TranscribeJob) -> Transcription {
        Transcription { live, session: TranscribeSession::new(job.audio, job.options), sent: 0, tries: 0 }
    }

    /// Cost of the audio that is still to be heard.
    pub fn cost_left(&self) -> u64 {
        audio_cost_ms(self.session.audio.samples.len().saturating_sub(self.session.seek) as u64)
    }

    fn mark(&self) -> Mark {
        let s = &self.session;
        Mark {
            seek: s.seek,
            segments: s.segments.len(),
            context: s.context.clone(),
            language: s.language.clone(),
            done: s.done,
        }
    }

    fn restore(&mut self, mark: &Mark) {
        let s = &mut self.session;
        s.seek = mark.seek;
        s.segments.truncate(mark.segments);
        s.context.clone_from(&mark.context);
        s.language.clone_from(&mark.language);
        s.done = mark.done;
    }

    /// Sends the segments that the last window added.
    fn report(&mut self) -> Result<(), Fault> {
        for segment in self.session.segments.iter().skip(self.sent) {
            self.live.send(TranscriptEvent::Segment(segment.clone()))?;
            self.sent += 1;
        }
        self.live.progress(self.session.done_ratio());
        Ok(())
    }
}

/// What a failed step is undone to.
struct Mark {
    seek: usize,
    segments: usize,
    context: Vec<u32>,
    language: Option<String>,
    done: bool,
}

type Member = (Item, Transcription);

/// Runs the transcriptions to their ends, or for so many windows; returns those that are to go on later.
pub(super) fn run(
    model: &mut dyn Transcriber,
    mut members: Vec<Member>,
    windows: Option<usize>,
    run: &mut Run<'_>,
) -> Vec<Job> {
    let mut left = windows.unwrap_or(usize::MAX);
    loop {
        members = members.into_iter().filter_map(|member| keep_wanted(member, run)).collect();
        if members.is_empty() || left == 0 {
            return members.into_iter().map(|(item, t)| put_aside(item, t)).collect();
        }
        left -= 1;
        let before: Vec<u64> = members.iter().map(|(_, t)| t.cost_left()).collect();
        let began = run.time;
        let results = step(model, &mut members.iter_mut().map(|(_, t)| t).collect::<Vec<_>>(), run, HALVINGS);
        let each = Micros((run.time - began).0 / members.len() as u64);
        for (((_, t), before), result) in members.iter_mut().zip(before).zip(&results) {
            t.live.heard(each, result.is_ok());
            run.windows += u64::from(result.is_ok());
            let left = if t.session.done { 0 } else { t.cost_left() };
            run.computed = run.computed.saturating_add(before.saturating_sub(left));
        }
        members = members.into_iter().zip(results).filter_map(|(m, result)| after_step(m, result, run)).collect();
    }
}

/// The request with its session, at the cost of what is left.
fn put_aside(item: Item, transcription: Transcription) -> Job {
    Job { item: Item { cost: transcription.cost_left(), ..item }, work: Work::Transcribe(Box::new(transcription)) }
}

fn keep_wanted((item, mut t): Member, run: &mut Run<'_>) -> Option<Member> {
    match t.live.wanted(run.now()) {
        Ok(()) => Some((item, t)),
        Err(fault) => {
            run.tally.fault(&fault);
            t.live.fail(fault, run.now());
            None
        }
    }
}

/// Sends what the window brought; `None` when the member has ended.
fn after_step((item, mut t): Member, result: Result<(), Fault>, run: &mut Run<'_>) -> Option<Member> {
    let now = run.now();
    if let Err(fault) = result.and_then(|()| t.report()) {
        run.tally.fault(&fault);
        t.live.fail(fault, now);
        return None;
    }
    if !t.session.done {
        return Some((item, t));
    }
    let times = t.live.times(now);
    run.tally.serve(&times);
    t.live.done(TranscriptEvent::Done { language: t.session.language.take(), times }, now);
    None
}

/// Advances every member by one window. One result per member, in order.
///
/// After a panic the members are restored and stepped one by one, so that only the one at fault fails; those that do not
/// fit into memory together are tried in halves. A member whose window was tried as often as the profile allows fails.
fn step(
    model: &mut dyn Transcriber,
    members: &mut [&mut Transcription],
    run: &mut Run<'_>,
    halvings: usize,
) -> Vec<Result<(), Fault>> {
    if let Some(most) = members.iter().map(|t| t.tries).max()
        && most >= run.max_attempts()
    {
        let fault = fault::of_attempts(run.model(), most);
        return members.iter().map(|_| Err(fault.clone())).collect();
    }
    members.iter_mut().for_each(|t| t.tries += 1);
    let marks: Vec<Mark> = members.iter().map(|member| member.mark()).collect();
    let mut sessions: Vec<&mut TranscribeSession> = members.iter_mut().map(|member| &mut member.session).collect();
    let reports = match run.step(|| model.step(&mut sessions)) {
        Ok(reports) => reports,
        Err(panic) => {
            let fault = fault::of_panic(run.model(), &*panic);
            restore(members, &marks);
            if members.len() == 1 {
                return vec![Err(fault)];
            }
            return members.chunks_mut(1).flat_map(|one| step(model, one, run, halvings)).collect();
        }
    };
    if reports.len() != members.len() {
        let message = format!("model `{}` answered {} of {} windows", run.model(), reports.len(), members.len());
        return members.iter().map(|_| Err(Fault::new(ErrorKind::Internal, message.clone()))).collect();
    }
    let out_of_memory = reports.iter().any(|r| matches!(r, Err(ModelError::OutOfMemory { .. })));
    if out_of_memory && members.len() > 1 && halvings > 0 {
        tracing::warn!(model = run.model(), items = members.len(), "out of memory: the batch is tried in halves");
        restore(members, &marks);
        let (left, right) = members.split_at_mut(members.len() / 2);
        let halves = [left, right];
        run.did_not_fit(halves.iter().map(|half| cost(half)).max().unwrap_or(0));
        return halves.into_iter().flat_map(|half| step(model, half, run, halvings - 1)).collect();
    }
    let result = |((report, t), mark): ((Result<_, ModelError>, &mut &mut Transcription), &Mark)| match report {
        // A model that neither ends nor moves on would keep its thread for ever.
        Ok(_) if !t.session.done && t.session.seek <= mark.seek => Err(Fault::new(
            ErrorKind::Internal,
            format!("model `{}` made no progress at sample {}", run.model(), mark.seek),
        )),
        Ok(_) => {
            t.tries = 0;
            Ok(())
        }
        Err(error) => Err(fault::of_error(run.model(), "file", &error)),
    };
    reports.into_iter().zip(members.iter_mut()).zip(&marks).map(result).collect()
}

fn cost(members: &[&mut Transcription]) -> u64 {
    members.iter().fold(0, |sum, t| sum.saturating_add(t.cost_left()))
}

fn restore(members: &mut [&mut Transcription], marks: &[Mark]) {
    members.iter_mut().zip(marks).for_each(|(member, mark)| member.restore(mark));
}
