//! Log-mel features as Whisper was trained on them: 25-ms Hann windows every 10 ms, power spectrum, Slaney mel filters,
//! log10, floor at 80 dB below the loudest, scaled to about [-1, 1]. Same numbers as OpenAI's reference.

use super::pcm::SAMPLE_RATE;
use rustfft::num_complex::Complex32;
use rustfft::{Fft, FftPlanner};
use std::sync::Arc;

/// Samples per transform.
pub const N_FFT: usize = 400;
/// Samples between frames: one frame is 10 ms.
pub const HOP: usize = 160;
const BINS: usize = N_FFT / 2 + 1;

/// A bank of mel filters with its transform. Read-only after construction.
pub struct MelFilter {
    /// Per mel band: first spectrum bin, and weights from there on.
    bands: Vec<(usize, Vec<f32>)>,
    hann: Vec<f32>,
    fft: Arc<dyn Fft<f32>>,
}

impl MelFilter {
    /// Filters for `bands` mel bands (80, or 128 for the large models of the third generation).
    pub fn new(bands: usize) -> Self {
        let top = hz_to_mel(f64::from(SAMPLE_RATE) / 2.0);
        let edges: Vec<f64> = (0..bands + 2).map(|i| mel_to_hz(top * i as f64 / (bands + 1) as f64)).collect();
        let hz_per_bin = f64::from(SAMPLE_RATE) / N_FFT as f64;
        let bands = edges
            .windows(3)
            .map(|e| {
                let weight = |bin: usize| {
                    let f = bin as f64 * hz_per_bin;
                    let rise = (f - e[0]) / (e[1] - e[0]);
                    let fall = (e[2] - f) / (e[2] - e[1]);
                    rise.min(fall).max(0.0) * 2.0 / (e[2] - e[0])
                };
                let first = (0..BINS).find(|&b| weight(b) > 0.0).unwrap_or(0);
                let weights = (first..BINS).map(weight).take_while(|&w| w > 0.0).map(|w| w as f32).collect();
                (first, weights)
            })
            .collect();
        let hann =
            (0..N_FFT).map(|i| (0.5 - 0.5 * (std::f64::consts::TAU * i as f64 / N_FFT as f64).cos()) as f32).collect();
        MelFilter { bands, hann, fft: FftPlanner::new().plan_fft_forward(N_FFT) }
    }

    pub fn bands(&self) -> usize {
        self.bands.len()
    }

    /// Features of `frames` frames from sample `at` on, `[frames, bands]` row-major. The samples before `at` are the
    /// context of the first frames (the audio is mirrored at its start), silence follows its end, and frames that lie
    /// wholly beyond it are 0, as the reference pads them.
    pub fn features(&self, samples: &[f32], at: usize, frames: usize) -> Vec<f32> {
        let bands = self.bands.len();
        let mut out = vec![0f32; frames * bands];
        let content = samples.len().saturating_sub(at).div_ceil(HOP).min(frames);
        let mut spectrum = vec![Complex32::default(); N_FFT];
        let mut scratch = vec![Complex32::default(); self.fft.get_inplace_scratch_len()];
        let mut power = [[0f32; BINS]; 2];
        let mut loudest = f32::MIN;
        // Two real frames per complex transform: one in the real part, one in the imaginary part.
        for first in (0..content).step_by(2) {
            for (i, (slot, &w)) in spectrum.iter_mut().zip(&self.hann).enumerate() {
                let sample = |frame: usize| sample_at(samples, at + frame * HOP + i) * w;
                *slot = Complex32::new(sample(first), sample(first + 1));
            }
            self.fft.process_with_scratch(&mut spectrum, &mut scratch);
            let [even, odd] = &mut power;
            for (k, (even, odd)) in even.iter_mut().zip(odd).enumerate() {
                let z = spectrum[k];
                let mirror = spectrum[(N_FFT - k) % N_FFT].conj();
                *even = (z + mirror).norm_sqr() * 0.25;
                *odd = (z - mirror).norm_sqr() * 0.25;
            }
            for (frame, power) in (first..content.min(first + 2)).zip(&power) {
                for (slot, (start, weights)) in out[frame * bands..].iter_mut().zip(&self.bands) {
                    let energy: f32 = weights.iter().zip(&power[*start..]).map(|(w, p)| w * p).sum();
                    *slot = energy.max(1e-10).log10();
                    loudest = loudest.max(*slot);
                }
            }
        }
        let floor = loudest - 8.0;
        for slot in &mut out[..content * bands] {
            *slot = (slot.max(floor) + 4.0) / 4.0;
        }
        out
    }
}

/// The sample `index - N_FFT/2`, mirrored at the start and silent past the end: frames are centred.
fn sample_at(samples: &[f32], index: usize) -> f32 {
    let i = index.abs_diff(N_FFT / 2);
    samples.get(i).copied().unwrap_or(0.0)
}

/// Slaney's mel scale: linear below 1 kHz, logarithmic above.
fn hz_to_mel(hz: f64) -> f64 {
    if hz < 1000.0 { hz * 3.0 / 200.0 } else { 15.0 + (hz / 1000.0).ln() * 27.0 / 6.4f64.ln() }
}

fn mel_to_hz(mel: f64) -> f64 {
    if mel < 15.0 { mel * 200.0 / 3.0 } else { 1000.0 * ((mel - 15.0) * 6.4f64.ln() / 27.0).exp() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A rising tone that any language can compute the same way.
    fn chirp() -> Vec<f32> {
        (0..16_000)
            .map(|i| {
                let t = f64::from(i) / 16_000.0;
                (0.3 * (std::f64::consts::TAU * (200.0 * t + 1500.0 * t * t)).sin()) as f32
            })
            .collect()
    }

    /// Straight from the definition, in f64: one frame's power spectrum by a plain DFT.
    fn slow_frame(samples: &[f32], frame: usize, bank: &MelFilter) -> Vec<f64> {
        let x: Vec<f64> = (0..N_FFT)
            .map(|i| {
                let w = 0.5 - 0.5 * (std::f64::consts::TAU * i as f64 / N_FFT as f64).cos();
                f64::from(sample_at(samples, frame * HOP + i)) * w
            })
            .collect();
        let power: Vec<f64> = (0..BINS)
            .map(|k| {
                let (mut re, mut im) = (0.0, 0.0);
                for (i, v) in x.iter().enumerate() {
                    let a = -std::f64::consts::TAU * (k * i % N_FFT) as f64 / N_FFT as f64;
                    re += v * a.cos();
                    im += v * a.sin();
                }
                re * re + im * im
            })
            .collect();
        bank.bands
            .iter()
            .map(|(start, w)| w.iter().zip(&power[*start..]).map(|(w, p)| f64::from(*w) * p).sum::<f64>())
            .map(|e| e.max(1e-10).log10())
            .collect()
    }

    #[test]
    fn agrees_with_the_definition() {
        let audio = chirp();
        for bands in [80, 128] {
            let bank = MelFilter::new(bands);
            let got = bank.features(&audio, 0, 100);
            let slow: Vec<Vec<f64>> = (0..100).map(|f| slow_frame(&audio, f, &bank)).collect();
            let floor = slow.iter().flatten().fold(f64::MIN, |m, &v| m.max(v)) - 8.0;
            for (f, row) in slow.iter().enumerate() {
                for (b, v) in row.iter().enumerate() {
                    let want = (v.max(floor) + 4.0) / 4.0;
                    assert!((f64::from(got[f * bands + b]) - want).abs() < 2e-3, "{bands}: frame {f} band {b}");
                }
            }
        }
    }

    #[test]
    fn agrees_with_the_reference_filters() {
        let bank = MelFilter::new(80);
        let weight = |band: usize, bin: usize| {
            let (start, w) = &bank.bands[band];
            bin.checked_sub(*start).and_then(|i| w.get(i)).copied().unwrap_or(0.0)
        };
        for (band, bin, want) in REFERENCE {
            assert!((weight(*band, *bin) - want).abs() < 1e-6, "band {band} bin {bin}: {}", weight(*band, *bin));
        }
    }

    /// (band, bin, weight) of the published 80-band filter file.
    const REFERENCE: &[(usize, usize, f32)] = &[
        (0, 1, 0.024862595),
        (1, 1, 0.001990822),
        (1, 2, 0.022871772),
        (10, 10, 0.019_908_22),
        (10, 11, 0.004954375),
        (40, 42, 0.005411105),
        (40, 43, 0.014735566),
        (40, 44, 0.006_518_19),
        (41, 44, 0.008278413),
        (41, 45, 0.012277561),
        (41, 46, 0.003967813),
        (79, 186, 0.000366742),
        (79, 187, 0.000833070),
        (79, 188, 0.001299398),
    ];

    #[test]
    fn a_window_inside_equals_the_same_frames_of_the_whole() {
        // Loudest in the middle, so that both have the same floor.
        let audio: Vec<f32> =
            chirp().iter().enumerate().map(|(i, s)| if (9_000..10_000).contains(&i) { *s } else { s * 1e-3 }).collect();
        let bank = MelFilter::new(80);
        let whole = bank.features(&audio, 0, 100);
        let part = bank.features(&audio, 40 * HOP, 60);
        assert!(whole[40 * 80..].iter().zip(&part).all(|(a, b)| (a - b).abs() < 1e-5));
    }

    #[test]
    fn short_and_silent_audio_is_finite() {
        let bank = MelFilter::new(80);
        for audio in [&[0.5f32][..], &[0.0; 100], &[0.0; 1000]] {
            assert!(bank.features(audio, 0, 3000).iter().all(|v| v.is_finite()));
        }
        assert!(bank.features(&[0.1; 10], 500, 10).iter().all(|&v| v == 0.0));
    }
}
