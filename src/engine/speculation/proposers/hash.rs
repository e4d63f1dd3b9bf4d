//! A hash of a few tokens. A collision costs a wrong proposal at worst.

/// FNV-1a over the tokens, finished so that close values fall far apart.
pub(super) fn hash(tokens: impl IntoIterator<Item = u32>) -> u64 {
    let mut h = 0xcbf2_9ce4_8422_2325u64;
    for t in tokens {
        h = (h ^ u64::from(t)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    (h ^ (h >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

/// The committed tokens and an uncommitted continuation as one text.
#[derive(Clone, Copy)]
pub(super) struct Context<'a> {
    pub committed: &'a [u32],
    pub continuation: &'a [u32],
}

impl Context<'_> {
    pub fn len(&self) -> usize {
        self.committed.len() + self.continuation.len()
    }

    /// The token at `i`, which is below the length.
    pub fn at(&self, i: usize) -> u32 {
        match i.checked_sub(self.committed.len()) {
            None => self.committed[i],
            Some(i) => self.continuation[i],
        }
    }

    /// How many tokens before `a` and before `b` are equal, at most `most`.
    pub fn shared_before(&self, a: usize, b: usize, most: usize) -> usize {
        let most = most.min(a).min(b);
        (1..=most).take_while(|&k| self.at(a - k) == self.at(b - k)).count()
    }

    /// The passage from `from`, continued into itself where it reaches the end of the text: a text of period `d` is
    /// continued with that period.
    pub fn copy(&self, from: usize, n: usize) -> Vec<u32> {
        let period = self.len() - from;
        (0..n).map(|i| self.at(from + i % period)).collect()
    }
}
