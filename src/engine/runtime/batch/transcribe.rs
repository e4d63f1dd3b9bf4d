//! A batch of transcriptions: sessions stepped window by window; between two windows members may leave.

use super::fault;
use super::runner::Run;
use crate::control::{ErrorKind, Fault};
use crate::engine::models::{ModelError, TranscribeSession, Transcriber};
use crate::engine::runtime::Live;
use crate::engine::runtime::job::{TranscribeJob, TranscriptEvent};

/// How often a batch that does not fit into memory is halved.
const HALVINGS: usize = 4;

struct Member {
    live: Live<TranscriptEvent>,
    session: TranscribeSession,
    /// Segments already sent.
    sent: usize,
}

/// What a failed step is undone to.
struct Mark {
    seek: usize,
    segments: usize,
    context: Vec<u32>,
    language: Option<String>,
    done: bool,
}

impl Member {
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

/// Runs the transcriptions to their ends.
pub(super) fn run(model: &mut dyn Transcriber, jobs: Vec<(Live<TranscriptEvent>, TranscribeJob)>, run: &mut Run<'_>) {
    let mut members: Vec<Member> = jobs
        .into_iter()
        .map(|(live, job)| Member { live, session: TranscribeSession::new(job.audio, job.options), sent: 0 })
        .collect();
    loop {
        members = members.into_iter().filter_map(|member| keep_wanted(member, run)).collect();
        if members.is_empty() {
            return;
        }
        let results = step(model, &mut members.iter_mut().collect::<Vec<_>>(), run, HALVINGS);
        members = members.into_iter().zip(results).filter_map(|(m, result)| after_step(m, result, run)).collect();
    }
}

fn keep_wanted(mut member: Member, run: &mut Run<'_>) -> Option<Member> {
    match member.live.wanted(run.now()) {
        Ok(()) => Some(member),
        Err(fault) => {
            run.tally.fault(&fault);
            member.live.fail(fault, run.now());
            None
        }
    }
}

/// Sends what the window brought; `None` when the member has ended.
fn after_step(mut member: Member, result: Result<(), Fault>, run: &mut Run<'_>) -> Option<Member> {
    let now = run.now();
    if let Err(fault) = result.and_then(|()| member.report()) {
        run.tally.fault(&fault);
        member.live.fail(fault, now);
        return None;
    }
    if !member.session.done {
        return Some(member);
    }
    run.tally.served += 1;
    let times = member.live.times(now);
    member.live.done(TranscriptEvent::Done { language: member.session.language.take(), times }, now);
    None
}

/// Advances every member by one window. One result per member, in order.
///
/// After a panic the members are restored and stepped one by one, so that only the one at fault fails; those that do not
/// fit into memory together are tried in halves.
fn step(
    model: &mut dyn Transcriber,
    members: &mut [&mut Member],
    run: &mut Run<'_>,
    halvings: usize,
) -> Vec<Result<(), Fault>> {
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
        let mut results = step(model, left, run, halvings - 1);
        results.extend(step(model, right, run, halvings - 1));
        return results;
    }
    let result = |((report, member), mark): ((Result<_, ModelError>, &&mut Member), &Mark)| match report {
        // A model that neither ends nor moves on would keep its thread for ever.
        Ok(_) if !member.session.done && member.session.seek <= mark.seek => Err(Fault::new(
            ErrorKind::Internal,
            format!("model `{}` made no progress at sample {}", run.model(), mark.seek),
        )),
        Ok(_) => Ok(()),
        Err(error) => Err(fault::of_error(run.model(), "file", &error)),
    };
    reports.into_iter().zip(members.iter()).zip(&marks).map(result).collect()
}

fn restore(members: &mut [&mut Member], marks: &[Mark]) {
    members.iter_mut().zip(marks).for_each(|(member, mark)| member.restore(mark));
}
