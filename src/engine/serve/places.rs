//! Places for the connections of one door. They are bounded, and what is open without doing anything does not shut others
//! out: when all are taken, the connection that has been idle longest is closed for the one that comes. When all are at
//! work, a few more are let in for the probes alone, so that an engine under load can still be told from a dead one.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
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

impl Places {
    pub(super) fn new(most: usize, spare: usize) -> Arc<Places> {
        Arc::new(Places { most, spare, seats: Mutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, Seats> {
        // Nothing that can panic runs under this lock.
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for a connection that has come; `None` when even those for probes are at work.
    pub(super) fn take(self: &Arc<Places>) -> Option<Place> {
        let mut seats = self.lock();
        let taken = seats.taken.len();
        let room = if taken < self.most {
            seats.told = false;
            Room::Any
        } else {
            let idle = seats.taken.iter().filter(|(_, seat)| seat.working == 0);
            let longest = idle.min_by_key(|(_, seat)| seat.idle_since).map(|(number, _)| *number);
            match longest.and_then(|number| seats.taken.remove(&number)) {
                Some(seat) => {
                    seat.leave.cancel();
                    seat.room
                }
                None if taken < self.most + self.spare => {
                    if !std::mem::replace(&mut seats.told, true) {
                        let most = self.most;
                        tracing::warn!(most, "every connection is at work: further ones may only ask the probes");
                    }
                    Room::Probes
                }
                None => return None,
            }
        };
        seats.turn += 1;
        let (number, leave) = (seats.turn, CancellationToken::new());
        seats.taken.insert(number, Seat { room, working: 0, idle_since: number, leave: leave.clone() });
        Some(Place { places: Arc::clone(self), number, room, leave })
    }
}

impl Place {
    /// Notes that a request is under way, until what this returns is dropped.
    pub(super) fn work(self: &Arc<Place>) -> Working {
        if let Some(seat) = self.places.lock().taken.get_mut(&self.number) {
            seat.working += 1;
        }
        Working(Arc::clone(self))
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

    #[test]
    fn who_has_been_idle_longest_makes_room() {
        let places = Places::new(2, 1);
        let (a, b) = (Arc::new(places.take().unwrap()), Arc::new(places.take().unwrap()));
        drop(a.work());
        let c = places.take().unwrap();
        assert!(b.leave.is_cancelled() && !a.leave.is_cancelled(), "it has done nothing since it came before that");
        let working = a.work();
        let d = places.take().unwrap();
        assert!(c.leave.is_cancelled() && !a.leave.is_cancelled(), "who works stays");
        drop((b, c));
        assert_eq!((places.lock().taken.len(), d.room), (2, Room::Any));
        drop((working, a, d));
        assert!(places.lock().taken.is_empty());
    }

    #[test]
    fn when_all_work_the_probes_still_get_in() {
        let places = Places::new(2, 1);
        let open: Vec<Arc<Place>> = (0..2).map(|_| Arc::new(places.take().unwrap())).collect();
        let mut working: Vec<Working> = open.iter().map(Place::work).collect();
        let probe = Arc::new(places.take().unwrap());
        assert_eq!(probe.room, Room::Probes);
        let asking = probe.work();
        assert!(places.take().is_none(), "and no more than that");
        drop(asking);
        assert_eq!(places.take().unwrap().room, Room::Probes, "a probe makes room for a probe");
        assert!(probe.leave.is_cancelled());
        working.pop();
        assert_eq!(places.take().unwrap().room, Room::Any);
        assert!(open[1].leave.is_cancelled() && !open[0].leave.is_cancelled());
    }

    #[test]
    fn a_connection_may_have_several_requests_under_way() {
        let places = Places::new(1, 0);
        let place = Arc::new(places.take().unwrap());
        let (one, other) = (place.work(), place.work());
        drop(one);
        assert!(places.take().is_none());
        drop(other);
        assert!(places.take().is_some() && place.leave.is_cancelled());
    }
}
