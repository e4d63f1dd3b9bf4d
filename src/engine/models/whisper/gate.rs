//! Is there anything to transcribe? Whisper invents words for silence and steady noise, and its own no-speech
//! probability misses many such windows, so a window is looked at before it is decoded.
//!
//! Two rules, both about the sound alone:
//!
//! - **silence**: no 30-ms stretch reaches −72 dBFS. Quiet real speech, even 40 dB under a normal recording level,
//!   peaks well above that; dither and idle converters stay below.
//! - **steady noise**: in no frequency band does the level, smoothed over 140 ms, ever rise 6.5 dB above that band's
//!   median. Hiss, hum, fans and tones are like that: in hundreds of draws white and pink noise of up to 30 s rose
//!   5.4 dB at most. Speech moves every band by tens of decibels several times a second: readings with white noise 5 dB
//!   louder than themselves still rose 9.7 dB and more. Applied to windows of at least 1.5 s: shorter ones may be one
//!   held vowel.

use crate::engine::audio::SAMPLE_RATE;
use rustfft::num_complex::Complex32;
use rustfft::{Fft, FftPlanner};
use std::sync::Arc;

/// Samples per frame: 32 ms, a power of two.
const FRAME: usize = 512;
/// Frames that a level is smoothed over.
const SMOOTH: usize = 8;
const HOP: usize = FRAME / 2;
/// Loudest frame below which there is silence, as RMS.
const SILENCE_RMS: f32 = 2.5e-4;
/// Rise over the median, in dB, that something other than steady noise must show.
const RISE_DB: f32 = 6.5;
/// Share of the loudest band's level (−60 dB) that other bands may hold of it by leakage.
const LEAKAGE: f32 = 1e-6;
/// Bands of about a third of an octave, as FFT bins (31.25 Hz each): 125 Hz to 7.5 kHz.
const EDGES: [usize; 17] = [4, 6, 8, 10, 13, 16, 20, 26, 32, 40, 51, 64, 81, 102, 128, 180, 240];
const STEADY_MIN_SAMPLES: usize = SAMPLE_RATE as usize * 3 / 2;

/// What a stretch of sound is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heard {
    Silence,
    SteadyNoise,
    /// Something that may be speech.
    Something,
}

/// Judges stretches of sound.
pub struct Gate {
    fft: Arc<dyn Fft<f32>>,
    hann: Vec<f32>,
}

impl Default for Gate {
    fn default() -> Self {
        let hann = (0..FRAME).map(|i| 0.5 - 0.5 * (std::f32::consts::TAU * i as f32 / FRAME as f32).cos()).collect();
        Gate { fft: FftPlanner::new().plan_fft_forward(FRAME), hann }
    }
}

impl Gate {
    /// Judges a window.
    pub fn judge(&self, samples: &[f32]) -> Heard {
        if is_silent(samples) {
            Heard::Silence
        } else if samples.len() >= STEADY_MIN_SAMPLES && self.largest_rise(samples) < RISE_DB {
            Heard::SteadyNoise
        } else {
            Heard::Something
        }
    }

    /// The largest rise of any band over its median level, in dB.
    fn largest_rise(&self, samples: &[f32]) -> f32 {
        const BANDS: usize = EDGES.len() - 1;
        let mut energies: Vec<[f32; BANDS]> = Vec::new();
        let mut buf = vec![Complex32::default(); FRAME];
        let mut scratch = vec![Complex32::default(); self.fft.get_inplace_scratch_len()];
        // Two frames per transform, as their real and imaginary parts.
        let frame = |start: usize| samples.get(start..start + FRAME);
        let mut start = 0;
        while let Some(a) = frame(start) {
            let b = frame(start + HOP);
            for (i, slot) in buf.iter_mut().enumerate() {
                *slot = Complex32::new(a[i] * self.hann[i], b.map_or(0.0, |b| b[i] * self.hann[i]));
            }
            self.fft.process_with_scratch(&mut buf, &mut scratch);
            let mut both = [[0f32; BANDS]; 2];
            for (band, edge) in EDGES.windows(2).enumerate() {
                for k in edge[0]..edge[1] {
                    let (z, mirror) = (buf[k], buf[FRAME - k].conj());
                    both[0][band] += (z + mirror).norm_sqr();
                    both[1][band] += (z - mirror).norm_sqr();
                }
            }
            energies.push(both[0]);
            if b.is_some() {
                energies.push(both[1]);
            }
            start += 2 * HOP;
        }
        // Top and median level of each band.
        let levels = (0..BANDS).filter_map(|band| {
            let mut levels: Vec<f32> =
                energies.windows(SMOOTH).map(|w| w.iter().map(|e| e[band]).sum::<f32>() / SMOOTH as f32).collect();
            levels.sort_unstable_by(f32::total_cmp);
            Some((*levels.last()?, *levels.get(levels.len() / 2)?))
        });
        let levels: Vec<(f32, f32)> = levels.collect();
        // What lies this far below the loudest band is its leakage and rounding, and has no rise of its own.
        let floor = 1e-7 + LEAKAGE * levels.iter().map(|(_, median)| *median).fold(0.0, f32::max);
        levels.iter().map(|(top, median)| 10.0 * ((top + floor) / (median + floor)).log10()).fold(0.0, f32::max)
    }
}

/// Whether no frame of `samples` is louder than silence.
pub fn is_silent(samples: &[f32]) -> bool {
    let limit = SILENCE_RMS * SILENCE_RMS;
    samples.chunks(FRAME).all(|f| f.iter().map(|s| s * s).sum::<f32>() <= limit * f.len() as f32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::models::whisper::rules::SplitMix;

    fn noise(n: usize, rms: f32, seed: u64) -> Vec<f32> {
        let mut rng = SplitMix::new(seed);
        // Sum of four uniforms: close to Gaussian, unit variance at a width of √3.
        (0..n).map(|_| (0..4).map(|_| rng.unit() as f32 - 0.5).sum::<f32>() * 3f32.sqrt() * rms).collect()
    }

    /// Bursts like syllables: harmonics of 150 Hz, 4 bursts per second, some stressed and some nearly swallowed.
    fn babble(n: usize, level: f32) -> Vec<f32> {
        (0..n)
            .map(|i| {
                let t = i as f32 / SAMPLE_RATE as f32;
                let stress = 0.1 + 0.9 * (std::f32::consts::TAU * 0.6 * t).sin().powi(2);
                let syllable = stress * (std::f32::consts::TAU * 4.0 * t).sin().max(0.0);
                let voice: f32 = (1..20).map(|h| (std::f32::consts::TAU * 150.0 * h as f32 * t).sin() / h as f32).sum();
                level * syllable * voice
            })
            .collect()
    }

    #[test]
    fn silence_and_noise_are_told_from_speech() {
        let gate = Gate::default();
        assert_eq!(gate.judge(&[0.0; 160_000]), Heard::Silence);
        assert_eq!(gate.judge(&noise(160_000, 5e-5, 1)), Heard::Silence);
        for (seed, rms) in [(1, 0.01), (2, 0.1), (3, 0.001), (4, 0.3)] {
            for n in [STEADY_MIN_SAMPLES, 160_000, 480_000] {
                assert_eq!(gate.judge(&noise(n, rms, seed)), Heard::SteadyNoise, "{rms} {n}");
            }
        }
        let tone: Vec<f32> = (0..160_000).map(|i| 0.2 * (i as f32 * 0.3).sin()).collect();
        assert_eq!(gate.judge(&tone), Heard::SteadyNoise);
        for level in [0.1, 0.01, 0.002] {
            assert_eq!(gate.judge(&babble(160_000, level)), Heard::Something, "{level}");
        }
    }

    #[test]
    fn one_word_in_much_noise_is_something() {
        let gate = Gate::default();
        let mut window = noise(480_000, 0.01, 7);
        for (s, b) in window[200_000..205_000].iter_mut().zip(babble(5_000, 0.03)) {
            *s += b;
        }
        assert_eq!(gate.judge(&window), Heard::Something);
    }

    #[test]
    fn short_sounds_are_left_to_the_model() {
        let gate = Gate::default();
        assert_eq!(gate.judge(&noise(6_400, 0.1, 1)), Heard::Something);
        assert_eq!(gate.judge(&[0.5]), Heard::Something);
        assert_eq!(gate.judge(&[]), Heard::Silence);
    }
}
