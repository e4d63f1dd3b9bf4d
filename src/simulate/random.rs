//! Random numbers that are the same for ever: a load's seed is part of its published result.

use crate::profile::Spread;

/// SplitMix64 (Steele, Lea, Flood 2014). Each client has its own stream, so that the n-th request of a client is the
/// same under every setting that is tried: settings are compared on the same load.
#[derive(Debug, Clone, Copy)]
pub(super) struct Random(u64);

impl Random {
    /// The stream of one client of one class.
    pub fn of(seed: u64, class: usize, client: u64) -> Random {
        let class = Random(seed).next_u64() ^ class as u64;
        Random(Random(class).next_u64() ^ client)
    }

    fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// In [0, 1).
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Exponentially distributed.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.unit()).ln()
    }

    /// Standard normal, by Box and Muller.
    fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }

    pub fn draw(&mut self, spread: &Spread) -> f64 {
        match spread {
            Spread::Constant(value) => *value,
            Spread::Uniform { from, to } => from + (to - from) * self.unit(),
            Spread::LogNormal { median, sigma } => median * (sigma * self.normal()).exp(),
            Spread::Exponential { mean } => self.exponential(*mean),
            Spread::OneOf(values) => {
                let index = (self.unit() * values.len() as f64) as usize;
                values.get(index).or(values.last()).copied().unwrap_or(0.0)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mean_and_median(spread: &Spread) -> (f64, f64) {
        let mut random = Random::of(7, 0, 0);
        let mut drawn: Vec<f64> = (0..20_001).map(|_| random.draw(spread)).collect();
        drawn.sort_unstable_by(f64::total_cmp);
        (drawn.iter().sum::<f64>() / drawn.len() as f64, drawn[drawn.len() / 2])
    }

    #[test]
    fn the_first_numbers_of_the_published_generator() {
        // Of SplitMix64 seeded with 1234567, as its reference implementation prints them.
        let mut random = Random(1_234_567);
        let first: Vec<u64> = (0..3).map(|_| random.next_u64()).collect();
        assert_eq!(first, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }

    #[test]
    fn draws_follow_their_spread() {
        let near = |(a, b): (f64, f64), (c, d): (f64, f64)| {
            assert!((a - c).abs() < 0.03 * c && (b - d).abs() < 0.03 * d, "{a} {b} against {c} {d}");
        };
        near(mean_and_median(&Spread::Uniform { from: 5.0, to: 15.0 }), (10.0, 10.0));
        near(mean_and_median(&Spread::Exponential { mean: 3.0 }), (3.0, 3.0 * 2f64.ln()));
        near(mean_and_median(&Spread::LogNormal { median: 12.0, sigma: 0.5 }), (12.0 * 0.125f64.exp(), 12.0));
        near(mean_and_median(&Spread::OneOf(vec![1.0, 2.0, 3.0])), (2.0, 2.0));
        assert_eq!(mean_and_median(&Spread::Constant(4.0)), (4.0, 4.0));
    }

    #[test]
    fn clients_have_streams_of_their_own() {
        let first = |class, client| Random::of(1, class, client).next_u64();
        let all = [first(0, 0), first(0, 1), first(1, 0), first(1, 1), Random::of(2, 0, 0).next_u64()];
        for (i, a) in all.iter().enumerate() {
            assert!(all[i + 1..].iter().all(|b| a != b));
        }
    }
}
