//! The review case: a closed loop of two recordings, one 30-s clip and many shorter ones at a cap of 180 000 ms. Without
//! the rule that a passed-over clip is owed, the 30-s clip is never served.

use super::{clip, former, recording};
use crate::control::Lane;
use crate::engine::scheduler::{FlushReason, Micros};

/// How often the 30-s clip is served in 300 batches beside `others` clips of `cost` ms.
fn served(others: u64, cost: u64) -> u32 {
    let mut former = former(180_000);
    let (mut id, mut now, mut served) = (0, 0, 0);
    let mut next = || {
        id += 1;
        id
    };
    for _ in 0..2 {
        former.push(recording(next(), 60_000, now));
    }
    former.push(clip(next(), 30_000, now));
    for _ in 0..others {
        former.push(clip(next(), cost, now));
    }
    for _ in 0..300 {
        now += 1_000;
        let formed = former.take(Micros(now), FlushReason::Timeout, usize::MAX).expect("the loop never empties");
        for item in formed.items {
            served += u32::from(item.cost == 30_000);
            let item = if item.lane == Lane::Recordings {
                recording(next(), item.cost, now)
            } else {
                clip(next(), item.cost, now)
            };
            former.push(item);
        }
    }
    served
}

#[test]
fn the_dearest_clip_is_served_as_often_as_published() {
    let table = [
        (11, 15_000, 75),
        (12, 15_000, 75),
        (15, 12_000, 50),
        (16, 11_000, 50),
        (16, 10_000, 50),
        (20, 9_000, 50),
        (24, 7_000, 50),
        (30, 6_000, 37),
        (36, 5_000, 37),
    ];
    for (others, cost, expected) in table {
        assert_eq!(served(others, cost), expected, "beside {others} clips of {cost} ms");
    }
}
