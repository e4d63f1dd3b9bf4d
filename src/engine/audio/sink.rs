//! Where decoded frames go: mixed to mono, cleaned, resampled to 16 kHz as they come, and bounded.

use super::error::AudioError;
use super::pcm::SAMPLE_RATE;
use super::resample::Stage;

/// Sample rates that a header may claim.
const RATES: std::ops::RangeInclusive<u32> = 1_000..=768_000;
/// Fewer than one sample in so many beyond full scale are accidents, and are clipped; more are another scale.
const STRAYS: u64 = 1_000;
/// Lossy codings and resampling overshoot full scale by as much as a matter of course.
pub const OVERSHOOT: f32 = 1.5;
/// Samples beyond this are not sound; they are clipped before they can drown the rest.
const WILD: f32 = 65_536.0;
/// The mean of N channels that have nothing in common has an N-th of their power. One with less than this part of that
/// has lost it: one channel is another turned upside down.
const CANCELLED: f64 = 0.02;
/// Mean square of a channel that is as good as silent.
const SILENT: f64 = 1e-8;

/// How channels become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mix {
    /// The mean of all.
    Mean,
    /// One alone, counted from 0.
    Only(usize),
}

/// What became of samples beyond full scale.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Level {
    /// There were none.
    Within,
    /// They were few, and were clipped.
    Clipped { samples: u64, peak: f32 },
    /// They were many: everything was scaled down to fit. The peak is that of the mixed and resampled sound.
    Scaled { peak: f32 },
}

/// Sums of squares of what was mixed.
#[derive(Debug, Default)]
struct Power {
    channels: Vec<f64>,
    mean: f64,
    frames: u64,
}

/// Collects mono 16 kHz audio of at most a given length.
pub struct Sink {
    max_seconds: f64,
    mix: Mix,
    power: Power,
    out: Vec<f32>,
    rate: Option<Rate>,
    mono: Vec<f32>,
    /// What samples are held to as they come.
    ceiling: f32,
    taken: u64,
    /// How many of those taken were beyond full scale, and the furthest of them.
    beyond: u64,
    peak: f32,
    /// Samples that were not numbers and became silence.
    pub non_finite: u64,
}

/// The stretch of input at one sample rate.
struct Rate {
    hz: u32,
    frames: u64,
    out_start: usize,
    resampler: Option<Box<Stage>>,
}

impl Sink {
    pub fn new(max_seconds: f64, mix: Mix) -> Self {
        let power = Power::default();
        Sink {
            max_seconds,
            mix,
            power,
            out: Vec::new(),
            rate: None,
            mono: Vec::new(),
            ceiling: WILD,
            taken: 0,
            beyond: 0,
            peak: 0.0,
            non_finite: 0,
        }
    }

    /// Clips samples to full scale as they come, before they reach others through the mix and the resampler's filter.
    pub fn clipping(mut self) -> Self {
        self.ceiling = 1.0;
        self
    }

    /// Whether few samples, but wild ones, are among what was taken: taken again by a sink that is
    /// [`clipping`](Self::clipping), they leave the others as they are.
    pub fn has_wild_strays(&self) -> bool {
        self.peak > OVERSHOOT && self.has_strays()
    }

    fn has_strays(&self) -> bool {
        self.beyond > 0 && self.beyond * STRAYS < self.taken
    }

    /// Takes interleaved frames of `channels` channels at `hz`.
    pub fn push(&mut self, hz: u32, channels: usize, interleaved: &[f32]) -> Result<(), AudioError> {
        if channels == 0 || interleaved.is_empty() {
            return Ok(());
        }
        let mut mono = std::mem::take(&mut self.mono);
        mono.clear();
        let (mut bad, mut beyond, mut peak, ceiling) = (0, 0, self.peak, self.ceiling);
        let mut clean = |s: f32| {
            if s.is_finite() {
                if s.abs() > 1.0 {
                    beyond += 1;
                    peak = peak.max(s.abs());
                }
                s.clamp(-ceiling, ceiling)
            } else {
                bad += 1;
                0.0
            }
        };
        let frames = interleaved.chunks_exact(channels);
        match self.mix {
            Mix::Only(channel) => mono.extend(frames.map(|frame| clean(frame.get(channel).copied().unwrap_or(0.0)))),
            Mix::Mean if channels == 1 => mono.extend(interleaved.iter().map(|&s| clean(s))),
            Mix::Mean => mono.extend(frames.map(|frame| self.power.mix(frame, &mut clean))),
        }
        self.non_finite += bad;
        self.beyond += beyond;
        self.peak = peak;
        self.taken += match self.mix {
            Mix::Only(_) => mono.len(),
            Mix::Mean => interleaved.len(),
        } as u64;
        let pushed = self.push_mono(hz, &mono);
        self.mono = mono;
        pushed
    }

    fn push_mono(&mut self, hz: u32, mono: &[f32]) -> Result<(), AudioError> {
        if self.rate.as_ref().is_none_or(|r| r.hz != hz) {
            self.end_rate()?;
            self.rate = Some(Rate::new(hz, self.out.len())?);
        }
        let Some(rate) = &mut self.rate else { return Ok(()) };
        rate.frames += mono.len() as u64;
        let seconds = rate.out_start as f64 / f64::from(SAMPLE_RATE) + rate.frames as f64 / f64::from(hz);
        if seconds > self.max_seconds {
            return Err(AudioError::TooLong { seconds, max_seconds: self.max_seconds });
        }
        match &mut rate.resampler {
            None => self.out.extend_from_slice(mono),
            Some(stage) => stage.push(mono, &mut self.out)?,
        }
        Ok(())
    }

    /// The loudest channel, where the mean of all has cancelled what is in them: a recording whose channels are in
    /// antiphase (wired or edited wrongly) is silence when mixed.
    pub fn cancelled(&self) -> Option<usize> {
        let Power { channels, mean, frames } = &self.power;
        let (loudest, most) = channels.iter().copied().enumerate().max_by(|a, b| a.1.total_cmp(&b.1))?;
        let (n, heard) = (channels.len() as f64, channels.iter().sum::<f64>() / channels.len() as f64);
        (most > SILENT * *frames as f64 && *mean < heard / n * CANCELLED).then_some(loudest)
    }

    /// Flushes the resampler of the current rate and trims the result to its exact length.
    fn end_rate(&mut self) -> Result<(), AudioError> {
        let Some(rate) = self.rate.take() else { return Ok(()) };
        if let Some(mut stage) = rate.resampler {
            let exact = (rate.frames * u64::from(SAMPLE_RATE)).div_ceil(u64::from(rate.hz));
            let end = rate.out_start + usize::try_from(exact).unwrap_or(usize::MAX);
            while self.out.len() < end {
                stage.push_silence(&mut self.out)?;
            }
            self.out.truncate(end);
        }
        Ok(())
    }

    /// Samples collected so far (the resampler's delay not counted).
    pub fn is_empty(&self) -> bool {
        self.out.is_empty() && self.rate.as_ref().is_none_or(|r| r.frames == 0)
    }

    /// Seconds taken in so far.
    pub fn seconds(&self) -> f64 {
        match &self.rate {
            Some(r) => r.out_start as f64 / f64::from(SAMPLE_RATE) + r.frames as f64 / f64::from(r.hz),
            None => self.out.len() as f64 / f64::from(SAMPLE_RATE),
        }
    }

    /// The audio, in [-1, 1], and what was done to bring it there.
    pub fn finish(mut self) -> Result<(Vec<f32>, Level), AudioError> {
        self.end_rate()?;
        if self.ceiling <= 1.0 || self.has_strays() {
            self.out.iter_mut().for_each(|s| *s = s.clamp(-1.0, 1.0));
            let level = Level::Clipped { samples: self.beyond, peak: self.peak };
            return Ok((self.out, if self.beyond > 0 { level } else { Level::Within }));
        }
        let peak = self.out.iter().fold(0f32, |p, s| p.max(s.abs()));
        if peak > 1.0 {
            let scale = 1.0 / peak;
            self.out.iter_mut().for_each(|s| *s *= scale);
        }
        Ok((self.out, if peak > 1.0 { Level::Scaled { peak } } else { Level::Within }))
    }
}

impl Power {
    /// The mean of a frame, taken note of.
    fn mix(&mut self, frame: &[f32], clean: &mut impl FnMut(f32) -> f32) -> f32 {
        if self.channels.len() < frame.len() {
            self.channels.resize(frame.len(), 0.0);
        }
        let mut sum = 0.0;
        for (power, &sample) in self.channels.iter_mut().zip(frame) {
            let sample = clean(sample);
            *power += f64::from(sample * sample);
            sum += sample;
        }
        let mean = sum / frame.len() as f32;
        self.mean += f64::from(mean * mean);
        self.frames += 1;
        mean
    }
}

impl Rate {
    fn new(hz: u32, out_start: usize) -> Result<Self, AudioError> {
        if !RATES.contains(&hz) {
            return Err(AudioError::Damaged(format!(
                "its header claims a sample rate of {hz} Hz (accepted: {} to {} Hz)",
                RATES.start(),
                RATES.end()
            )));
        }
        let resampler = if hz == SAMPLE_RATE { None } else { Some(Box::new(Stage::new(hz)?)) };
        Ok(Rate { hz, frames: 0, out_start, resampler })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tone(hz: u32, seconds: f64, freq: f64) -> Vec<f32> {
        let n = (seconds * f64::from(hz)) as usize;
        (0..n).map(|i| (0.5 * (std::f64::consts::TAU * freq * i as f64 / f64::from(hz)).sin()) as f32).collect()
    }

    #[test]
    fn resampling_keeps_length_place_and_shape() {
        for hz in [8_000, 11_025, 22_050, 44_100, 48_000, 96_000] {
            let mut sink = Sink::new(10.0, Mix::Mean);
            for chunk in tone(hz, 1.0, 440.0).chunks(777) {
                sink.push(hz, 1, chunk).unwrap();
            }
            let (out, level) = sink.finish().unwrap();
            assert_eq!(out.len(), 16_000, "{hz}");
            assert_eq!(level, Level::Within);
            let want = tone(16_000, 1.0, 440.0);
            let worst = out.iter().zip(&want).skip(400).take(15_200).fold(0f32, |w, (a, b)| w.max((a - b).abs()));
            assert!(worst < 2e-3, "{hz} Hz: off by {worst}");
        }
    }

    #[test]
    fn what_cannot_be_heard_at_16_khz_does_not_fold_back() {
        let mut sink = Sink::new(10.0, Mix::Mean);
        sink.push(48_000, 1, &tone(48_000, 1.0, 11_000.0)).unwrap();
        let (out, _) = sink.finish().unwrap();
        let rms = (out[800..15_200].iter().map(|s| s * s).sum::<f32>() / 14_400.0).sqrt();
        assert!(rms < 1e-3, "{rms}");
    }

    #[test]
    fn single_samples_survive_every_rate() {
        for hz in [1_000, 8_000, 16_000, 44_100, 44_101, 768_000] {
            let mut sink = Sink::new(1.0, Mix::Mean);
            sink.push(hz, 2, &[0.5, 0.5]).unwrap();
            let exact = 16_000u32.div_ceil(hz) as usize;
            assert_eq!(sink.finish().unwrap().0.len(), exact, "{hz}");
        }
    }

    #[test]
    fn wild_samples_are_tamed() {
        let mut sink = Sink::new(1.0, Mix::Mean);
        sink.push(16_000, 1, &[f32::NAN, f32::INFINITY, 2.0, -4.0, 1.0]).unwrap();
        assert_eq!(sink.non_finite, 2);
        assert!(!sink.has_wild_strays(), "two of five are not few");
        let (out, level) = sink.finish().unwrap();
        assert_eq!(out, vec![0.0, 0.0, 0.5, -1.0, 0.25]);
        assert_eq!(level, Level::Scaled { peak: 4.0 });
    }

    #[test]
    fn one_wild_sample_among_many_is_clipped_and_leaves_the_rest() {
        let clear = tone(16_000, 1.0, 440.0);
        for (stray, wild) in [(1e30f32, true), (-1_000.0, true), (1.2, false)] {
            let mut samples = clear.clone();
            samples[8_000] = stray;
            let fed = |mut sink: Sink| {
                sink.push(16_000, 1, &samples).unwrap();
                sink
            };
            let first = fed(Sink::new(2.0, Mix::Mean));
            assert_eq!(first.has_wild_strays(), wild, "{stray}");
            for sink in [first, fed(Sink::new(2.0, Mix::Mean).clipping())] {
                let (out, level) = sink.finish().unwrap();
                assert_eq!(level, Level::Clipped { samples: 1, peak: stray.abs() });
                assert_eq!(out[8_000], stray.signum());
                assert!(out.iter().zip(&clear).enumerate().all(|(i, (a, b))| i == 8_000 || a == b), "{stray}");
            }
        }
        // Integers written as floats: all are scaled.
        let mut sink = Sink::new(2.0, Mix::Mean);
        sink.push(16_000, 1, &clear.iter().map(|s| s * 32_768.0).collect::<Vec<_>>()).unwrap();
        assert!(!sink.has_wild_strays());
        assert!(matches!(sink.finish().unwrap().1, Level::Scaled { .. }));
    }

    #[test]
    fn a_wild_sample_does_not_ring_through_the_resampler() {
        let clear = tone(48_000, 1.0, 440.0);
        let out = |samples: &[f32]| {
            let mut sink = Sink::new(2.0, Mix::Mean).clipping();
            sink.push(48_000, 1, samples).unwrap();
            sink.finish().unwrap().0
        };
        let mut wild = clear.clone();
        wild[24_000] = 1e30;
        let off = out(&wild).iter().zip(out(&clear)).map(|(a, b)| (a - b).abs()).fold(0f32, f32::max);
        assert!(off < 0.5, "{off}");
    }

    #[test]
    fn stops_at_the_limit() {
        let mut sink = Sink::new(1.0, Mix::Mean);
        sink.push(16_000, 1, &vec![0.0; 16_000]).unwrap();
        assert!(matches!(sink.push(16_000, 1, &[0.0]), Err(AudioError::TooLong { .. })));
    }

    #[test]
    fn rates_out_of_range_are_refused() {
        for hz in [0, 999, 4_000_000_000] {
            assert!(matches!(Sink::new(1.0, Mix::Mean).push(hz, 1, &[0.0]), Err(AudioError::Damaged(_))));
        }
    }

    #[test]
    fn channels_in_antiphase_are_noticed_and_others_are_not() {
        let (low, high) = (tone(16_000, 0.5, 300.0), tone(16_000, 0.5, 440.0));
        let of = |channels: &[&dyn Fn(usize) -> f32]| {
            let mut sink = Sink::new(1.0, Mix::Mean);
            let frames: Vec<f32> = (0..low.len()).flat_map(|i| channels.iter().map(move |c| c(i))).collect();
            sink.push(16_000, channels.len(), &frames).unwrap();
            sink.cancelled()
        };
        let silent = |_: usize| 0.0;
        assert_eq!(of(&[&|i| low[i], &|i| -low[i]]), Some(1));
        assert_eq!(of(&[&|i| low[i], &|i| -0.95 * low[i]]), Some(0), "the louder one");
        assert_eq!(of(&[&|i| low[i], &|i| low[i]]), None);
        assert_eq!(of(&[&|i| low[i], &|i| high[i]]), None);
        assert_eq!(of(&[&|i| low[i], &silent]), None);
        assert_eq!(of(&[&silent, &silent]), None);
        assert_eq!(of(&[&|i| low[i]]), None);
        let mut one = Sink::new(1.0, Mix::Only(1));
        one.push(16_000, 2, &[0.5, -0.25, 0.5, -0.75]).unwrap();
        assert_eq!((one.cancelled(), one.finish().unwrap().0), (None, vec![-0.25, -0.75]));
    }
}
