//! A verify window: what goes into one span of a forward pass, and where.

/// Tokens to verify at absolute positions.
///
/// A window of width K has K + 1 inputs: the newest known token and K proposed ones behind it. Prediction `i` is the
/// token that the target emits after input `i`, so K + 1 predictions come back: K that judge the proposals and one that
/// is the target's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window {
    start: usize,
    inputs: Vec<u32>,
    native: usize,
}

impl Window {
    /// The window at `start`, whose first input is `current`; the first `native` proposals are the model's own drafts.
    pub fn new(start: usize, current: u32, proposals: &[u32], native: usize) -> Window {
        let mut inputs = Vec::with_capacity(proposals.len() + 1);
        inputs.push(current);
        inputs.extend_from_slice(proposals);
        Window { start, inputs, native: native.min(proposals.len()) }
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
        self.inputs[0]
    }

    pub fn proposals(&self) -> &[u32] {
        &self.inputs[1..]
    }

    /// Proposed tokens, K.
    pub fn width(&self) -> usize {
        self.inputs.len() - 1
    }

    /// How many of the proposals are the model's own drafts; the rest are copies from the text.
    pub fn native(&self) -> usize {
        self.native
    }

    /// Absolute position of the token that prediction `i` is for. Seeds of sampled tokens come from it.
    pub fn predicted_position(&self, i: usize) -> usize {
        self.start + 1 + i
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
    fn a_window_without_proposals_is_a_decode_row() {
        let w = Window::new(0, 7, &[], 3);
        assert_eq!((w.inputs(), w.width(), w.native(), w.end()), ([7].as_slice(), 0, 0, 1));
    }
}
