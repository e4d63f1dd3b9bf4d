//! Which of a model's formers gives the next batch: rounds of a primary batch and a drain.
//!
//! A model has one former per operation. When a slot is free, the former whose oldest item is oldest gives the primary
//! batch, once one is due there; then further batches follow from the same former, due or not, until as many items have
//! gone as were left in it when the drain began. What comes in meanwhile waits for the next round, so that a stream of
//! one operation never shuts out another.

use super::{FlushReason, Formed, Former, Micros};
use crate::control::Op;

/// The memory of rounds between extractions. Whoever forms batches owns it beside the formers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rounds {
    /// The operation whose backlog is being worked off, and how much of it is left.
    backlog: Option<(Op, usize)>,
    /// When the last batch ended.
    idle_since: Micros,
}

impl Rounds {
    /// The next batch, if one may go now. Ask only with a free slot: slot first, extraction second. `busy`: a batch is
    /// in flight, so that the worker has not rested.
    pub fn next(
        &mut self,
        formers: &mut [(Op, &mut Former)],
        now: Micros,
        busy: bool,
        max_items: usize,
    ) -> Option<(Op, Formed)> {
        if let Some((op, left)) = self.backlog.take()
            && left > 0
            && let Some(former) = of(formers, op)
            && let Some(formed) = former.take(now, FlushReason::Drain, max_items)
        {
            self.backlog = Some((op, left.saturating_sub(formed.items.len())));
            return Some((op, formed));
        }
        let idle_since = self.idle_since;
        let rested = |former: &Former| !busy && now - idle_since >= former.caps().wait;
        let due = formers.iter().filter(|(_, former)| former.due(now, rested(former)).is_some());
        let op = due.min_by_key(|(_, former)| former.oldest())?.0;
        let former = of(formers, op)?;
        let formed = former.poll(now, rested(former), max_items)?;
        self.backlog = Some((op, former.len()));
        Some((op, formed))
    }

    /// A batch ended.
    pub fn ran(&mut self, now: Micros) {
        self.idle_since = now;
    }

    /// The queues were emptied from outside: no drain is under way.
    pub fn forget_backlog(&mut self) {
        self.backlog = None;
    }
}

fn of<'f>(formers: &'f mut [(Op, &mut Former)], op: Op) -> Option<&'f mut Former> {
    formers.iter_mut().find(|(known, _)| *known == op).map(|(_, former)| &mut **former)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::scheduler::{BatchCaps, Item, ItemId};

    const NOW: Micros = Micros(1_000_000);

    fn former(max_requests: usize) -> Former {
        Former::new(BatchCaps { max_requests, ..BatchCaps::default() })
    }

    fn ids(formed: &Formed) -> Vec<u64> {
        formed.items.iter().map(|item| item.id.0).collect()
    }

    #[test]
    fn the_oldest_head_goes_first_and_its_backlog_with_it() {
        let (mut embed, mut rerank) = (former(2), former(2));
        for id in [2, 3, 4, 5] {
            embed.push(Item::embed(ItemId(id), [7], Micros(id)));
        }
        rerank.push(Item::rerank(ItemId(1), 3, [4], Micros(1)));
        let mut rounds = Rounds::default();
        let mut next = |embed: &mut Former, rerank: &mut Former| {
            rounds.next(&mut [(Op::Embed, embed), (Op::Rerank, rerank)], NOW, false, usize::MAX)
        };
        let (op, formed) = next(&mut embed, &mut rerank).expect("both are due");
        assert_eq!((op, ids(&formed)), (Op::Rerank, vec![1]), "the oldest item is a rerank");
        let (op, formed) = next(&mut embed, &mut rerank).expect("embeds are due");
        assert_eq!((op, formed.why, ids(&formed)), (Op::Embed, FlushReason::CountCap, vec![2, 3]));
        // Older than the backlog, but it came after the drain began.
        rerank.push(Item::rerank(ItemId(6), 3, [4], Micros::ZERO));
        let (op, formed) = next(&mut embed, &mut rerank).expect("the backlog is not gone");
        assert_eq!((op, formed.why, ids(&formed)), (Op::Embed, FlushReason::Drain, vec![4, 5]));
        let (op, formed) = next(&mut embed, &mut rerank).expect("a rerank waits");
        assert_eq!((op, ids(&formed)), (Op::Rerank, vec![6]));
        assert!(next(&mut embed, &mut rerank).is_none(), "nothing is left");
    }

    #[test]
    fn a_drain_takes_what_was_there_and_no_more() {
        let mut embed = former(1);
        embed.push(Item::embed(ItemId(1), [7], NOW));
        embed.push(Item::embed(ItemId(2), [7], NOW));
        let mut rounds = Rounds::default();
        let mut next = |embed: &mut Former| rounds.next(&mut [(Op::Embed, embed)], NOW, true, usize::MAX);
        assert!(next(&mut embed).is_some_and(|(_, formed)| formed.why == FlushReason::CountCap));
        // Now one is left to drain; a third comes in and is not part of it.
        embed.push(Item::embed(ItemId(3), [7], NOW));
        assert!(next(&mut embed).is_some_and(|(_, formed)| formed.why == FlushReason::Drain));
        assert!(next(&mut embed).is_some_and(|(_, formed)| formed.why == FlushReason::CountCap));
    }

    #[test]
    fn an_idle_worker_bypasses_the_window_only_when_it_rested() {
        let caps = BatchCaps { idle_bypass: true, ..BatchCaps::default() };
        let mut embed = Former::new(caps);
        let mut rounds = Rounds::default();
        rounds.ran(NOW);
        let soon = NOW + Micros(1_000);
        embed.push(Item::embed(ItemId(1), [7], soon));
        assert!(rounds.next(&mut [(Op::Embed, &mut embed)], soon, false, usize::MAX).is_none(), "it just worked");
        let later = NOW + caps.wait;
        let mut embed = Former::new(caps);
        embed.push(Item::embed(ItemId(1), [7], later));
        assert!(rounds.next(&mut [(Op::Embed, &mut embed)], later, true, usize::MAX).is_none(), "a batch is in flight");
        let (_, formed) = rounds.next(&mut [(Op::Embed, &mut embed)], later, false, usize::MAX).expect("it rested");
        assert_eq!(formed.why, FlushReason::IdleBypass);
    }
}
