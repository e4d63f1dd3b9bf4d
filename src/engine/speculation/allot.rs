//! Which proposed tokens an iteration verifies.

use crate::control::speculation::SURVIVAL_DEPTHS;

/// What one sequence could have verified in the next pass.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Offer {
    /// Proposed tokens, at most [`SURVIVAL_DEPTHS`].
    pub width: usize,
    /// Whether the request wants its window whatever it gains.
    pub forced: bool,
    /// P(at least `i + 1` of the tokens hold); never rising.
    pub odds: [f64; SURVIVAL_DEPTHS],
}

/// The best choice of rows, by expected tokens per time.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Best {
    /// Width per offer.
    pub widths: Vec<usize>,
    /// Tokens per time over those of the pass without (but with what is forced).
    pub gain: f64,
}

/// Chooses, among the unforced offers, the tokens whose verification gives the most tokens per time.
///
/// A row pays when its chance to hold over its added cost exceeds the rate of the pass it joins; so the likeliest go
/// first, and every number of rows is tried, since costs may rise in steps. `cost` gives the time of a pass by rows;
/// `None` when a cost is not known. At least one row is chosen, even where none pays: the caller sees a gain below 1.
pub(super) fn best(offers: &[Option<Offer>], cost: impl Fn(usize) -> Option<f64>) -> Option<Best> {
    let mut widths: Vec<usize> = vec![0; offers.len()];
    let mut rows = offers.len();
    let mut tokens = offers.len() as f64;
    let mut likeliest: Vec<(f64, usize)> = Vec::new();
    for (i, offer) in offers.iter().enumerate() {
        let Some(offer) = offer else { continue };
        let odds = &offer.odds[..offer.width.min(SURVIVAL_DEPTHS)];
        if offer.forced {
            widths[i] = offer.width;
            rows += offer.width;
            tokens += odds.iter().sum::<f64>();
        } else {
            likeliest.extend(odds.iter().map(|p| (*p, i)));
        }
    }
    // Stable: of equals, a sequence's nearer token goes first, so that every choice is a window without holes.
    likeliest.sort_by(|a, b| b.0.total_cmp(&a.0));
    let plain = tokens / cost(rows)?;
    let mut chosen: Option<(usize, f64)> = None;
    for (n, (odds, _)) in likeliest.iter().enumerate() {
        tokens += odds;
        let gain = tokens / cost(rows + n + 1)? / plain;
        if chosen.is_none_or(|(_, best)| gain > best) {
            chosen = Some((n + 1, gain));
        }
    }
    let (n, gain) = chosen?;
    for (_, i) in &likeliest[..n] {
        widths[*i] += 1;
    }
    Some(Best { widths, gain })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    pub(super) fn offer(width: usize, step: f64) -> Option<Offer> {
        let mut odds = [0.0; SURVIVAL_DEPTHS];
        for (i, p) in odds.iter_mut().enumerate() {
            *p = step.powi(i as i32 + 1);
        }
        Some(Offer { width, forced: false, odds })
    }

    /// A pass costs 10 and 1 per row.
    fn cheap(rows: usize) -> Option<f64> {
        Some(10.0 + rows as f64)
    }

    #[test]
    fn likely_rows_are_taken_to_their_end() {
        let b = best(&[offer(4, 0.95)], cheap).expect("known");
        assert_eq!(b.widths, [4]);
        let expected = (1.0 + 0.95 + 0.9025 + 0.857_375 + 0.814_506_25) / 15.0 * 11.0;
        assert!((b.gain - expected).abs() < 1e-9, "{}", b.gain);
    }

    #[test]
    fn unlikely_rows_are_left() {
        // Behind the second, one more row's chance over its cost is below the rate of the pass.
        let b = best(&[offer(8, 0.5)], cheap).expect("known");
        assert_eq!(b.widths, [2]);
        let b = best(&[offer(4, 0.05)], cheap).expect("known");
        assert_eq!(b.widths, [1]);
        assert!(b.gain < 1.0);
    }

    #[test]
    fn sequences_that_repeat_get_the_rows() {
        let b = best(&[None, offer(4, 0.9), offer(4, 0.02)], cheap).expect("known");
        assert_eq!(b.widths, [0, 4, 0]);
    }

    #[test]
    fn what_is_forced_is_part_of_both_sides() {
        let forced = offer(3, 0.1).map(|o| Offer { forced: true, ..o });
        let b = best(&[forced, offer(2, 0.9)], cheap).expect("known");
        assert_eq!(b.widths, [3, 2]);
        assert_eq!(best(&[forced], cheap), None);
    }

    #[test]
    fn a_step_in_the_cost_is_jumped_over() {
        // Rows 2 to 5 cost the same: the first alone does not pay, four do.
        let steps = |rows: usize| Some(if rows == 1 { 10.0 } else { 20.0 });
        let b = best(&[offer(4, 0.95)], steps).expect("known");
        assert_eq!(b.widths, [4]);
        assert!(b.gain > 1.0);
    }

    #[test]
    fn without_costs_there_is_no_answer() {
        assert_eq!(best(&[offer(4, 0.9)], |rows| (rows < 3).then_some(1.0)), None);
        assert_eq!(best(&[None], cheap), None);
    }

    proptest! {
        /// No other choice of widths is better (the cost being a line).
        #[test]
        fn no_other_widths_are_better(
            steps in prop::collection::vec((0usize..4, 0.0f64..1.0), 1..4),
            base in 0.1f64..20.0,
            row in 0.0f64..5.0,
        ) {
            let offers: Vec<_> = steps.iter().map(|(w, p)| offer(*w, *p)).collect();
            let cost = |rows: usize| Some(base + row * rows as f64);
            let rate = |widths: &[usize]| {
                let tokens: f64 = widths.iter().zip(&offers).map(|(w, o)| 1.0 + o.expect("some").odds[..*w].iter().sum::<f64>()).sum();
                tokens / (base + row * (widths.len() + widths.iter().sum::<usize>()) as f64)
            };
            let plain = rate(&vec![0; offers.len()]);
            let Some(found) = best(&offers, cost) else {
                prop_assert!(steps.iter().all(|(w, _)| *w == 0));
                return Ok(());
            };
            prop_assert!((rate(&found.widths) / plain - found.gain).abs() < 1e-9);
            let mut all: Vec<Vec<usize>> = vec![vec![]];
            for (w, _) in &steps {
                all = all.into_iter().flat_map(|a| (0..=*w).map(move |w| [a.clone(), vec![w]].concat())).collect();
            }
            for widths in all.iter().filter(|w| w.iter().sum::<usize>() > 0) {
                prop_assert!(rate(widths) / plain <= found.gain + 1e-9, "{widths:?} beats {:?}", found.widths);
            }
        }
    }
}
