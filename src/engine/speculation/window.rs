//! A verify window: what goes into one span of a forward pass, and where.

/// Tokens to verify at absolute positions.
///
/// A window of width K has K + 1 inputs: the newest known token and K proposed ones behind it. Prediction `i` is the
/// token that the target emits after the newest known token and `i` proposals, so K + 1 predictions come back: K that
/// judge the proposals and one that is the target's own. Where the target's cache lacks more than the newest token, the
/// known tokens that it lacks come first, and nothing is predicted for them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window {
    start: usize,
    inputs: Vec<u32>,
    /// Inputs that are known to be right; at least one.
    known: usize,
    native: usize,
}

impl Window {
    /// The window at `start`, whose first input is `current`; the first `native` proposals are the model's own drafts.
    pub fn new(start: usize, current: u32, proposals: &[u32], native: usize) -> Window {
        Window::behind(start, &[], current, proposals, native)
    }

    /// A window that first tells the target the known tokens `missing`, which end just before `current`.
    pub fn behind(start: usize, missing: &[u32], current: u32, proposals: &[u32], native: usize) -> Window {
        let mut inputs = Vec::with_capacity(missing.len() + 1 + proposals.len());
        inputs.extend_from_slice(missing);
        inputs.push(current);
        inputs.extend_from_slice(proposals);
        Window { start, inputs, known: missing.len() + 1, native: native.min(proposals.len()) }
    }

    /// Absolute position of the first input. Writing there forgets what the cache held at and beyond it.
    pub fn start(&self) -> usize {
        self.start
    }

    /// One past the position of the last input.
    pub fn end(&self) -> usize {
        self.start + self.inputs.len()
    }

    /// The tokens of the span.
    pub fn inputs(&self) -> &[u32] {
        &self.inputs
    }

    /// The newest known token.
    pub fn current(&self) -> u32 {
        self.inputs[self.known - 1]
    }

    /// Inputs before the first whose prediction counts.
    pub fn unpredicted(&self) -> usize {
        self.known - 1
    }

    pub fn proposals(&self) -> &[u32] {
        &self.inputs[self.known..]
    }

    /// Proposed tokens, K.
    pub fn width(&self) -> usize {
        self.inputs.len() - self.known
    }

    /// How many of the proposals are the model's own drafts; the rest are copies from the text.
    pub fn native(&self) -> usize {
        self.native
    }

    /// Absolute position of the token that prediction `i` is for. Seeds of sampled tokens come from it.
    pub fn predicted_position(&self, i: usize) -> usize {
        self.start + self.known + i
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_absolute() {
        let w = Window::new(41, 7, &[8, 9, 10], 1);
        assert_eq!((w.start(), w.end(), w.width(), w.native()), (41, 45, 3, 1));
        assert_eq!((w.current(), w.proposals(), w.inputs()), (7, [8, 9, 10].as_slice(), [7, 8, 9, 10].as_slice()));
        // The prediction after input 0, which stands at 41, is for position 42.
        assert_eq!((w.predicted_position(0), w.predicted_position(3)), (42, 45));
    }

    #[test]
    fn tokens_that_the_cache_lacks_come_first_and_are_not_judged() {
        let w = Window::behind(0, &[5, 6], 7, &[8, 9], 0);
        assert_eq!((w.inputs(), w.current(), w.proposals()), ([5, 6, 7, 8, 9].as_slice(), 7, [8, 9].as_slice()));
        assert_eq!((w.width(), w.unpredicted(), w.predicted_position(0), w.end()), (2, 2, 3, 5));
    }

    #[test]
    fn a_window_without_proposals_is_a_decode_row() {
        let w = Window::new(0, 7, &[], 3);
        assert_eq!((w.inputs(), w.width(), w.native(), w.end()), ([7].as_slice(), 0, 0, 1));
    }
}
