//! From any sample rate to 16 kHz, as the samples come.

use super::error::AudioError;
use super::pcm::SAMPLE_RATE;
use rubato::audioadapter_buffers::direct::InterleavedSlice;
use rubato::{Fft, FixedSync, Indexing, Resampler};

/// Input frames per transform of the resampler. Long blocks make a steep anti-alias filter.
const BLOCK: usize = 4_096;

/// A resampler with its pending input.
pub struct Stage {
    fft: Fft<f32>,
    pending: Vec<f32>,
    block: Vec<f32>,
    /// Output frames still to drop: the filter's delay.
    trim: usize,
}

impl Stage {
    pub fn new(hz: u32) -> Result<Self, AudioError> {
        // An even number of the smallest blocks: an odd output block would put the delay half a sample off.
        let smallest = hz as usize / gcd(hz as usize, SAMPLE_RATE as usize);
        let block = smallest * (BLOCK / smallest / 2 * 2).max(2);
        let fft = Fft::<f32>::new_custom(
            hz as usize,
            SAMPLE_RATE as usize,
            block,
            1,
            1,
            rubato::WindowFunction::BlackmanHarris2,
            FixedSync::Both,
        )
        .map_err(|e| AudioError::Damaged(format!("a sample rate of {hz} Hz cannot be resampled: {e}")))?;
        let block = vec![0.0; fft.output_frames_max()];
        let trim = fft.output_delay();
        Ok(Stage { fft, pending: Vec::new(), block, trim })
    }

    /// As much silence as the next transform lacks, so that what is pending comes out.
    pub fn push_silence(&mut self, out: &mut Vec<f32>) -> Result<(), AudioError> {
        let short = self.fft.input_frames_next().saturating_sub(self.pending.len());
        self.push(&vec![0.0; short.max(1)], out)
    }

    /// Takes samples at the old rate, and gives those at the new one as far as they are known.
    pub fn push(&mut self, mono: &[f32], out: &mut Vec<f32>) -> Result<(), AudioError> {
        self.pending.extend_from_slice(mono);
        let mut used = 0;
        loop {
            let need = self.fft.input_frames_next();
            if self.pending.len() - used < need {
                break;
            }
            let oops = |e: &dyn std::fmt::Display| AudioError::Damaged(format!("resampling failed: {e}"));
            let room = self.block.len();
            let input = InterleavedSlice::new(&self.pending, 1, self.pending.len()).map_err(|e| oops(&e))?;
            let mut output = InterleavedSlice::new_mut(&mut self.block, 1, room).map_err(|e| oops(&e))?;
            let at = Indexing::new().input_offset(used);
            let (taken, given) = self.fft.process_into_buffer(&input, &mut output, Some(&at)).map_err(|e| oops(&e))?;
            used += taken;
            let skip = self.trim.min(given);
            self.trim -= skip;
            out.extend_from_slice(&self.block[skip..given]);
        }
        self.pending.drain(..used);
        Ok(())
    }
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}
