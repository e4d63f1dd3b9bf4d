//! The speculative path of one model, as the loop drives it: a speculator per sequence, a gate for all.

use super::draft::{DraftFor, DraftSource, NativeDraft, NativeWish, StepCost, Verified};
use super::draft_model::{DraftModel, Failed, History};
use crate::control::speculation::{
    DraftModelView, SelfCheckView, SpeculationChoice, SpeculationPolicy, SpeculationReport, SpeculationTotals,
    SpeculationView,
};
use crate::engine::runtime::RequestId;
use crate::engine::runtime::metrics::SpeculationMetrics;
use crate::engine::scheduler::Micros;
use crate::engine::speculation::assist::Wanting;
use crate::engine::speculation::costs::StepCosts;
use crate::engine::speculation::proposers::{Draft, copying, drafting};
use crate::engine::speculation::{Accepted, DEEPEST, Ending, Gate, Pass, Purpose, Recent, Settled, Speculator};
use crate::profile::SpeculationSettings;
use std::collections::HashMap;

/// What the model's own head is called where a draft model has its name.
const HEAD: &str = "mtp head";

fn drafts_by(name: &str) -> DraftModelView {
    DraftModelView { model: name.to_string(), on: true, why: None, passes: 0, tokens: 0, pass_ms: None, failures: 0 }
}

/// Proposes by copying from a sequence's own text and, where there is nothing better to copy, what the model's own head or
/// a draft model says; where the gate expects that to pay.
pub(in crate::engine::runtime) struct Speculation {
    model: String,
    settings: SpeculationSettings,
    metrics: SpeculationMetrics,
    gate: Gate,
    sequences: HashMap<RequestId, Speculator>,
    /// The model that drafts, while it does.
    drafter: Option<DraftModel>,
    /// What a token of the model's own head takes, by the sequences that it is for; while it drafts.
    head: Option<StepCosts>,
    /// What the one or the other did; absent where there is neither.
    drafts: Option<DraftModelView>,
    recent: Recent,
    totals: SpeculationTotals,
    turns: u64,
    /// What the rows of the iteration under way are for.
    purpose: Purpose,
}

impl Speculation {
    pub(in crate::engine::runtime) fn new(
        model: &str,
        settings: SpeculationSettings,
        metrics: SpeculationMetrics,
    ) -> Speculation {
        Speculation {
            model: model.to_string(),
            gate: Gate::new(&settings),
            settings,
            metrics,
            sequences: HashMap::new(),
            drafter: None,
            head: None,
            drafts: None,
            recent: Recent::default(),
            totals: SpeculationTotals::default(),
            turns: 0,
            purpose: Purpose::Plain,
        }
    }

    /// Has tokens drafted for the sequences that nothing better is proposed for, if that pays.
    fn have_drafted(&mut self, of: &[DraftFor<'_>], room: usize) {
        let Some(drafter) = &mut self.drafter else { return };
        let mut wanting: Vec<(&DraftFor<'_>, Wanting)> = Vec::new();
        for s in of.iter().filter(|s| s.most > 0) {
            let Some(speculator) = self.sequences.get_mut(&s.request) else { continue };
            let wants = speculator.wants_draft(s.history, s.most + 1, self.gate.survival());
            let unread = drafter.unread(s.request, s.history.len());
            wanting.extend(wants.map(|wants| (s, Wanting { unread, ..wants })));
        }
        // Each sequence that drafts takes at least one row.
        wanting.truncate(room);
        let wants: Vec<Wanting> = wanting.iter().map(|(_, wants)| *wants).collect();
        let depths = self.gate.drafts(of.len(), &wants, |sequences| drafter.pass(sequences));
        let histories: Vec<History<'_>> = wanting
            .iter()
            .zip(depths)
            .filter(|(_, depth)| *depth > 0)
            .map(|((s, _), most)| History { request: s.request, tokens: s.history, most })
            .collect();
        let Some(deepest) = histories.iter().map(|h| h.most).max() else { return };
        match drafter.draft(&histories) {
            Ok(drafted) => {
                let expected = drafter.pass(histories.len()).map(|pass| pass * deepest as f64);
                self.gate.note_assisting(drafted.took, expected);
                self.metrics.drafted(drafted.passes, drafted.took + drafted.reading);
                if let Some(view) = &mut self.drafts {
                    view.passes += drafted.passes;
                    view.tokens += drafted.tokens.iter().map(Vec::len).sum::<usize>() as u64;
                    view.pass_ms = drafter.pass(histories.len()).map(|us| us / 1_000.0);
                }
                for (history, tokens) in histories.iter().zip(drafted.tokens) {
                    if let Some(speculator) = self.sequences.get_mut(&history.request).filter(|_| !tokens.is_empty()) {
                        let at = history.tokens.len();
                        speculator.feed(Draft::new(at, tokens, speculator.origin(at)));
                    }
                }
            }
            Err(Failed(why)) => self.undrafted(why),
        }
    }

    /// Who drafted has failed: it is gone, and what it held is free.
    fn undrafted(&mut self, why: String) {
        (self.drafter, self.head) = (None, None);
        let draft = self.drafts.as_ref().map(|view| view.model.as_str());
        tracing::error!(model = %self.model, draft, why, "what drafted is turned off; answers go on");
        self.metrics.draft_failed();
        if let Some(view) = &mut self.drafts {
            (view.on, view.why) = (false, Some(why));
            view.failures += 1;
        }
    }

    /// Makes a speculator for each sequence that has none.
    fn begin(&mut self, of: &[DraftFor<'_>]) {
        let (settings, drafted) = (&self.settings, self.drafter.is_some() || self.head.is_some());
        for s in of {
            let proposer = || if drafted { drafting(settings) } else { copying(settings) };
            let begin = || Speculator::new(settings, s.choice, proposer());
            self.sequences.entry(s.request).or_insert_with(begin);
        }
    }

    fn learn(&mut self, settled: &Settled) {
        for evidence in settled.evidence() {
            self.gate.note_evidence(evidence);
        }
        let Some(window) = settled.verified else { return };
        self.recent.note(window);
        self.metrics.window(&window);
        self.totals.windows += 1;
        self.totals.drafted += window.proposed() as u64;
        self.totals.accepted += window.accepted as u64;
    }
}

impl DraftSource for Speculation {
    fn draft(&mut self, of: &[DraftFor<'_>], room: usize) -> Vec<Vec<u32>> {
        self.purpose = Purpose::Plain;
        if self.settings.policy == SpeculationPolicy::Off {
            return Vec::new();
        }
        self.begin(of);
        self.have_drafted(of, room);
        let mut offers = Vec::with_capacity(of.len());
        for s in of {
            let Some(speculator) = self.sequences.get_mut(&s.request) else { continue };
            // The target adds a token of its own behind what may be drafted.
            offers.push(speculator.offer(s.history, s.most + 1, self.gate.survival()));
        }
        let allotment = self.gate.allot(&offers);
        self.purpose = allotment.purpose;
        let mut left = room;
        let open = |(s, width): (&DraftFor<'_>, &usize)| {
            let width = (*width).min(left);
            left -= width;
            let window = self.sequences.get_mut(&s.request)?.open(s.history, width)?;
            Some(window.proposals().to_vec())
        };
        of.iter().zip(&allotment.widths).map(open).map(Option::unwrap_or_default).collect()
    }

    fn wish(&mut self, of: &[DraftFor<'_>]) -> NativeWish {
        if self.head.is_none() || self.settings.policy == SpeculationPolicy::Off {
            return NativeWish::default();
        }
        self.begin(of);
        let Some(costs) = &self.head else { return NativeWish::default() };
        let (mut whose, mut wanting) = (Vec::new(), Vec::new());
        for (i, s) in of.iter().enumerate().filter(|(_, s)| s.most > 0) {
            let Some(speculator) = self.sequences.get_mut(&s.request) else { continue };
            let Some(wants) = speculator.wants_draft(s.history, s.most + 1, self.gate.survival()) else { continue };
            whose.push(i);
            // It starts from the model's own state, so that it has nothing to read.
            wanting.push(Wanting { unread: 0, room: wants.room.min(DEEPEST), ..wants });
        }
        let depths = self.gate.drafts(of.len(), &wanting, |sequences| costs.estimate(sequences, sequences));
        let depth = depths.iter().copied().max().unwrap_or(0);
        let chosen = whose.into_iter().zip(depths).filter(|(_, depth)| *depth > 0);
        NativeWish { whose: chosen.map(|(i, _)| i).collect(), depth }
    }

    fn drafted(&mut self, drafts: Vec<NativeDraft>, depth: usize, took: Micros) {
        let made = drafts.iter().filter(|d| !d.tokens.is_empty()).count();
        let each = self.head.as_ref().and_then(|costs| costs.estimate(made, made));
        self.gate.note_assisting(took, each.map(|each| each * depth as f64));
        if made == 0 {
            return;
        }
        if let Some(costs) = &mut self.head {
            costs.note(made, made, Micros(took.0 / depth.max(1) as u64));
        }
        self.metrics.drafted(depth as u64, took);
        if let Some(view) = &mut self.drafts {
            view.passes += depth as u64;
            view.tokens += drafts.iter().map(|d| d.tokens.len()).sum::<usize>() as u64;
            view.pass_ms = each.map(|us| us / 1_000.0);
        }
        for NativeDraft { request, at, tokens } in drafts {
            if let Some(speculator) = self.sequences.get_mut(&request).filter(|_| !tokens.is_empty()) {
                speculator.feed(Draft::new(at, tokens, speculator.origin(at)));
            }
        }
    }

    fn drafts_failed(&mut self, why: String) {
        self.undrafted(why);
    }

    fn verified(&mut self, request: RequestId, outcome: Verified, tokens: &[u32]) {
        let Some(speculator) = self.sequences.get_mut(&request) else { return };
        let ending = if outcome.accepted == outcome.committed && outcome.stopped {
            Ending::AcceptedStop
        } else if outcome.accepted == outcome.drafted {
            Ending::AllAccepted
        } else {
            Ending::Rejected
        };
        let (accepted, proposed) = (outcome.accepted, outcome.drafted);
        let settled = speculator.settle(&Accepted { commit: tokens.to_vec(), accepted, proposed, ending });
        self.learn(&settled);
    }

    fn stepped(&mut self, cost: StepCost) {
        self.gate.note_pass(&Pass {
            sequences: cost.decode_rows,
            rows: cost.decode_rows + cost.draft_rows,
            prompt_rows: cost.prefill_rows,
            committed: cost.committed,
            took: cost.took,
            purpose: self.purpose,
        });
        if let Some(verdict) = self.gate.take_turn() {
            self.turns += 1;
            self.metrics.turned();
            let (state, because) = (verdict.state(), verdict.because.name());
            tracing::info!(
                model = %self.model, state, because, predicted = verdict.predicted_gain, measured = verdict.measured_gain,
                "the speculation gate turned"
            );
        }
    }

    fn loaded(&mut self, rows_are_independent: bool, drafts: bool) {
        // One drafts at most; a draft model takes the device itself, which a head's run and its pass hold.
        if drafts && self.drafter.is_none() {
            self.head = Some(StepCosts::default());
            self.drafts = Some(drafts_by(HEAD));
        }
        if !rows_are_independent {
            self.gate.rows_depend();
        }
    }

    /// Windows of the new widths from the next pass on. Sequences that are under way keep their proposers: what those know
    /// of a text is not made anew in the middle of it.
    fn configure(&mut self, settings: &SpeculationSettings) {
        if *settings == self.settings {
            return;
        }
        self.settings = *settings;
        self.gate.configure(settings);
        self.sequences.values_mut().for_each(|speculator| speculator.configure(settings));
    }

    fn assisted(&mut self, by: DraftModel) {
        self.drafts = Some(drafts_by(&by.name));
        self.drafter = Some(by);
    }

    fn report(&self, request: RequestId, choice: SpeculationChoice) -> Option<SpeculationReport> {
        let tally = self.sequences.get(&request).map(|s| *s.tally()).unwrap_or_default();
        Some(SpeculationReport { tally, policy: self.settings.policy, gate: self.gate.verdict_for(choice) })
    }

    fn ended(&mut self, request: RequestId) {
        self.sequences.remove(&request);
        if let Some(drafter) = &mut self.drafter {
            drafter.forget(request);
        }
    }

    fn view(&self) -> Option<SpeculationView> {
        let count = |choice| self.sequences.values().filter(|s| s.choice() == choice).count() as u64;
        let recent = self.recent.tally();
        Some(SpeculationView {
            policy: self.settings.policy,
            proposer: self.settings.proposer.name().to_string(),
            draft: self.drafts.clone(),
            gate: self.gate.verdict(),
            width_min: self.settings.width_min as u64,
            width_max: self.settings.width_max as u64,
            depth: 1,
            forced: count(SpeculationChoice::Force),
            opted_out: count(SpeculationChoice::Off),
            width_mean: recent.width_mean(),
            accept_ratio: recent.accept_ratio(),
            recent,
            totals: self.totals,
            turns: self.turns,
            self_check: SelfCheckView::default(),
        })
    }
}
