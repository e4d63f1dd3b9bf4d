//! Places for the connections of one door. They are bounded, and what is open without doing anything does not shut others
//! out: when all are taken, the connection that has been idle longest is closed for the one that comes. When all are at
//! work, a few more are let in for the probes alone, so that an engine under load can still be told from a dead one.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// What a connection may be used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Room {
    Any,
    /// For /livez, /readyz, /progressz and /metrics.
    Probes,
}

/// The places of one door.
#[derive(Debug)]
pub(super) struct Places {
    /// Connections for anything, and how many more for probes.
    most: usize,
    spare: usize,
    /// For so long a connection that has just come may take to send its first request.
    grace: Duration,
    seats: Mutex<Seats>,
}

#[derive(Debug, Default)]
struct Seats {
    /// Rises with each seat that is taken or becomes idle: of two idle ones, the lower has been so for longer.
    turn: u64,
    taken: BTreeMap<u64, Seat>,
    /// It was told that all places are at work, and none has been free since.
    told: bool,
}

#[derive(Debug)]
struct Seat {
    room: Room,
    /// Requests under way.
    working: usize,
    idle_since: u64,
    /// When it was taken; `None` once a request has come.
    new_since: Option<Instant>,
    /// Cancelled when the place is wanted by another. The connection ends soon, and counts for nothing but the whole.
    leave: CancellationToken,
}

/// A connection's place, free again when this is dropped.
#[derive(Debug)]
pub(super) struct Place {
    places: Arc<Places>,
    number: u64,
    pub room: Room,
    /// Cancelled when the place is wanted by another.
    pub leave: CancellationToken,
}

/// A request under way. While one is, its connection is not idle.
#[derive(Debug)]
pub(super) struct Working(Arc<Place>);

impl Seats {
    fn count(&self, room: Room) -> usize {
        self.taken.values().filter(|seat| seat.room == room && !seat.leave.is_cancelled()).count()
    }

    /// Asks the connection of this room that has been idle longest to leave; false where none is idle.
    fn make_room(&self, room: Room, grace: Duration) -> bool {
        let idle = |seat: &&Seat| {
            let new = seat.new_since.is_some_and(|since| since.elapsed() < grace);
            seat.room == room && seat.working == 0 && !new && !seat.leave.is_cancelled()
        };
        let longest = self.taken.values().filter(idle).min_by_key(|seat| seat.idle_since);
        longest.inspect(|seat| seat.leave.cancel()).is_some()
    }
}

impl Places {
    pub(super) fn new(most: usize, spare: usize, grace: Duration) -> Arc<Places> {
        Arc::new(Places { most, spare, grace, seats: Mutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, Seats> {
        // Nothing that can panic runs under this lock.
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for a connection that has come; `None` when even those for probes are at work, or when too many that were
    /// asked to leave are still there.
    pub(super) fn take(self: &Arc<Places>) -> Option<Place> {
        let mut seats = self.lock();
        if seats.taken.len() >= 2 * (self.most + self.spare) {
            return None;
        }
        let free = seats.count(Room::Any) < self.most;
        let room = if free || seats.make_room(Room::Any, self.grace) {
            seats.told &= !free;
            Room::Any
        } else if seats.count(Room::Probes) < self.spare || seats.make_room(Room::Probes, self.grace) {
            if !std::mem::replace(&mut seats.told, true) {
                let most = self.most;
                tracing::warn!(most, "every connection is at work: further ones may only ask the probes");
            }
            Room::Probes
        } else {
            return None;
        };
        seats.turn += 1;
        let (number, leave) = (seats.turn, CancellationToken::new());
        let new_since = Some(Instant::now());
        seats.taken.insert(number, Seat { room, working: 0, idle_since: number, new_since, leave: leave.clone() });
        Some(Place { places: Arc::clone(self), number, room, leave })
    }
}

impl Place {
    /// Notes that a request is under way, until what this returns is dropped.
    pub(super) fn work(self: &Arc<Place>) -> Working {
        if let Some(seat) = self.places.lock().taken.get_mut(&self.number) {
            seat.working += 1;
            seat.new_since = None;
        }
        Working(Arc::clone(self))
    }

    /// Whether no request is under way.
    pub(super) fn is_idle(&self) -> bool {
        self.places.lock().taken.get(&self.number).is_none_or(|seat| seat.working == 0)
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        let Working(place) = self;
        let mut seats = place.places.lock();
        seats.turn += 1;
        let now = seats.turn;
        if let Some(seat) = seats.taken.get_mut(&place.number) {
            seat.working -= 1;
            seat.idle_since = now;
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.lock().taken.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT_ONCE: Duration = Duration::ZERO;

    fn take(places: &Arc<Places>) -> Arc<Place> {
        Arc::new(places.take().unwrap())
    }

    #[test]
    fn who_has_been_idle_longest_makes_room() {
        let places = Places::new(2, 1, AT_ONCE);
        let (a, b) = (take(&places), take(&places));
        drop(a.work());
        let c = take(&places);
        assert!(b.leave.is_cancelled() && !a.leave.is_cancelled(), "it has done nothing since it came before that");
        let working = a.work();
        let d = take(&places);
        assert!(c.leave.is_cancelled() && !a.leave.is_cancelled(), "who works stays");
        assert_eq!((d.room, d.is_idle(), a.is_idle()), (Room::Any, true, false));
        drop((working, a, b, c, d));
        assert!(places.lock().taken.is_empty());
    }

    #[test]
    fn when_all_work_the_probes_still_get_in() {
        let places = Places::new(2, 1, AT_ONCE);
        let open = [take(&places), take(&places)];
        let mut working: Vec<Working> = open.iter().map(Place::work).collect();
        let probe = take(&places);
        assert_eq!(probe.room, Room::Probes);
        let asking = probe.work();
        assert!(places.take().is_none(), "and no more than that");
        drop(asking);
        let next = take(&places);
        assert!(next.room == Room::Probes && probe.leave.is_cancelled(), "a probe makes room for a probe");
        working.pop();
        let anything = take(&places);
        assert!(anything.room == Room::Any && open[1].leave.is_cancelled(), "and the idle for the rest");
        assert!(!open[0].leave.is_cancelled() && !next.leave.is_cancelled(), "although the probe was idle for longer");
        let its = anything.work();
        drop((working, open));
        let free = take(&places);
        assert_eq!(free.room, Room::Any, "probes take nobody's place");
        drop(its);
    }

    #[test]
    fn a_connection_may_have_several_requests_under_way() {
        let places = Places::new(1, 0, AT_ONCE);
        let place = take(&places);
        let (one, other) = (place.work(), place.work());
        drop(one);
        assert!(places.take().is_none());
        drop(other);
        let next = places.take();
        assert!(next.is_some() && place.leave.is_cancelled());
        assert!(places.take().is_none(), "not without bounds while the other still leaves");
    }

    #[test]
    fn who_has_just_come_may_send_its_request() {
        let places = Places::new(1, 1, Duration::from_secs(3_600));
        let new = take(&places);
        assert_eq!(take(&places).room, Room::Probes);
        drop(new.work());
        assert!(take(&places).room == Room::Any && new.leave.is_cancelled());
    }
}
