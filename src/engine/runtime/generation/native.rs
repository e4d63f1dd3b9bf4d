//! Drafts of the model's own head.

use super::draft::{DraftFor, DraftSource, NativeDraft, NativeWish};
use super::pass::of_panic;
use crate::engine::models::{CausalLm, DraftAfter};
use crate::engine::runtime::device::{DeviceGuard, DeviceSlot};
use crate::engine::runtime::handle::WorkerContext;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Has the model draft for those of `asked` that `drafter` wishes, which stand in `slots`. Gives back the device if it was
/// taken for that: the pass that verifies the drafts follows.
pub(super) fn draft<'d>(
    model: &mut dyn CausalLm,
    drafter: &mut dyn DraftSource,
    asked: &[DraftFor<'_>],
    slots: &[usize],
    context: &WorkerContext,
    device: &'d DeviceSlot,
) -> Option<DeviceGuard<'d>> {
    let NativeWish { whose, depth } = drafter.wish(asked);
    let mut after = Vec::with_capacity(whose.len());
    let mut drafts = Vec::with_capacity(whose.len());
    for &i in &whose {
        let Some((token, before)) = asked[i].history.split_last() else { continue };
        after.push(DraftAfter { slot: slots[i], at: before.len(), token: *token });
        drafts.push(NativeDraft { request: asked[i].request, at: asked[i].history.len(), tokens: Vec::new() });
    }
    if after.is_empty() || depth == 0 {
        return None;
    }
    let guard = device.acquire(&context.handle.name);
    let began = context.shared.clock.now();
    // Without drafts the pass is a plain one: whatever fails here is nobody's request.
    match catch_unwind(AssertUnwindSafe(|| model.draft(&after, depth))) {
        Ok(Ok(tokens)) => drafts.iter_mut().zip(tokens).for_each(|(draft, tokens)| draft.tokens = tokens),
        Ok(Err(error)) => {
            drafter.drafts_failed(format!("it failed: {error}"));
        }
        Err(panic) => {
            drop(of_panic(context, &*panic));
            drafter.drafts_failed("it panicked; the engine's log has the panic".to_string());
        }
    }
    let took = context.shared.clock.now() - began;
    drafter.drafted(drafts, depth, took);
    Some(guard)
}
