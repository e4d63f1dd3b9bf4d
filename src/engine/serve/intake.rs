//! Uploads on their way in: being decoded, and so not yet requests of the engine. They are shown beside the engine's
//! own, and can be cancelled like them.

use super::access::Client;
use crate::control::hands::{RequestChange, RequestPlace, Touch};
use crate::control::snapshot::{Request, RequestState};
use crate::control::{ErrorKind, Fault, Op, Snapshot};
use crate::engine::runtime::not_alive;
use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use tokio_util::sync::CancellationToken;

/// Before the number in an upload's id.
const PREFIX: &str = "upload-";

/// The uploads of one server.
#[derive(Default)]
pub(super) struct Intake {
    uploads: Mutex<Uploads>,
}

#[derive(Default)]
struct Uploads {
    next: u64,
    live: BTreeMap<u64, Upload>,
}

struct Upload {
    model: String,
    client: Arc<str>,
    since: Instant,
    cancel: CancellationToken,
}

impl Intake {
    fn lock(&self) -> MutexGuard<'_, Uploads> {
        // Nothing that can panic runs under this lock.
        self.uploads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Shows an upload until the returned place is dropped.
    pub(super) fn enter(&self, model: &str, client: &Client) -> Place<'_> {
        let cancel = CancellationToken::new();
        let upload = Upload {
            model: model.to_string(),
            client: client.label.clone(),
            since: Instant::now(),
            cancel: cancel.clone(),
        };
        let mut uploads = self.lock();
        uploads.next += 1;
        let number = uploads.next;
        uploads.live.insert(number, upload);
        Place { intake: self, number, cancel }
    }

    /// Cancels the upload of this id, or looks at it (`dry`); `None` when the id is not an upload's. It waits in no lane
    /// yet: nothing else can be done with it.
    pub(super) fn touch(&self, id: &str, touch: Touch, dry: bool) -> Option<Result<RequestChange, Fault>> {
        let number: u64 = id.strip_prefix(PREFIX)?.parse().ok()?;
        let uploads = self.lock();
        let Some(upload) = uploads.live.get(&number).filter(|upload| !upload.cancel.is_cancelled()) else {
            return Some(Err(not_alive(id)));
        };
        if touch != Touch::CANCEL {
            let fault = Fault::invalid("id", format!("{id} is being decoded and waits in no lane yet"));
            return Some(Err(fault.hint("try again when it is a request")));
        }
        if !dry {
            upload.cancel.cancel();
        }
        let from = RequestPlace { lane: None, held: false, cancelled: false };
        Some(Ok(RequestChange {
            request: id.to_string(),
            model: upload.model.clone(),
            op: Op::Transcribe,
            state: RequestState::Decoding,
            from,
            to: from.after(touch),
        }))
    }

    /// Adds the uploads to a snapshot: after the requests that run or wait, before those that ended.
    pub(super) fn show(&self, snapshot: &mut Arc<Snapshot>) {
        let uploads = self.lock();
        if uploads.live.is_empty() {
            return;
        }
        let snapshot = Arc::make_mut(snapshot);
        let shown = &mut snapshot.requests.shown;
        let at = shown.iter().position(|request| request.state == RequestState::Done).unwrap_or(shown.len());
        let rows = uploads.live.iter().map(|(number, upload)| Request {
            id: format!("{PREFIX}{number}"),
            model: upload.model.clone(),
            op: Op::Transcribe,
            // Lane and cost follow from the length of the audio, which decoding finds out.
            lane: None,
            state: RequestState::Decoding,
            client: upload.client.to_string(),
            cost: None,
            queued_ms: upload.since.elapsed().as_secs_f64() * 1000.0,
            running_ms: None,
            position: None,
            wait: None,
            held_left_ms: None,
            deadline_ms: None,
            done_ratio: None,
            outcome: None,
            ended_ago_ms: None,
        });
        shown.splice(at..at, rows.collect::<Vec<_>>());
        snapshot.requests.total += uploads.live.len() as u64;
    }
}

/// An upload that is being decoded.
pub(super) struct Place<'a> {
    intake: &'a Intake,
    number: u64,
    cancel: CancellationToken,
}

impl Place<'_> {
    /// `work`, unless the upload is cancelled first.
    pub(super) async fn during<T>(&self, work: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
        tokio::select! {
            done = work => done,
            () = self.cancel.cancelled() => {
                let message = format!("request {PREFIX}{} was cancelled while it was decoded", self.number);
                Err(Fault::new(ErrorKind::Cancelled, message))
            }
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.intake.lock().live.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::super::keys::Rights;
    use super::*;

    fn client() -> Client {
        Client { label: "app".into(), rights: Rights::ALL, actor: "key:app".into() }
    }

    #[tokio::test]
    async fn an_upload_can_be_cancelled_while_it_is_decoded() {
        let intake = Intake::default();
        let place = intake.enter("m", &client());
        let cancel = |id: &str, dry| intake.touch(id, Touch::CANCEL, dry).map(|done| done.map_err(|fault| fault.kind));
        assert_eq!(cancel("req-1", false), None);
        assert_eq!(cancel("upload-9", false), Some(Err(ErrorKind::NotFound)));
        assert!(intake.touch("upload-1", Touch::HOLD, false).is_some_and(|held| held.is_err()), "in no lane yet");
        for dry in [true, false] {
            let change = cancel("upload-1", dry).expect("an upload").expect("alive");
            assert_eq!((change.state, change.to.cancelled), (RequestState::Decoding, true));
        }
        assert_eq!(cancel("upload-1", true), Some(Err(ErrorKind::NotFound)), "once");
        let fault = place.during(std::future::pending::<Result<(), Fault>>()).await.unwrap_err();
        assert_eq!(fault.kind, ErrorKind::Cancelled);
        drop(place);
        assert_eq!(cancel("upload-1", false), Some(Err(ErrorKind::NotFound)), "it has left");
        let place = intake.enter("m", &client());
        assert_eq!(place.during(async { Ok(3) }).await.unwrap(), 3);
    }
}
