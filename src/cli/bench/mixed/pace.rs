//! How often requests of a kind are sent. Pure.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// The most that one kind may be asked for.
const MOST_PER_SECOND: f64 = 1000.0;
const MOST_CLIENTS: u16 = 256;

/// How often requests of a kind are sent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pace {
    /// So many requests per second on average, at random moments, whatever becomes of those before (an open load).
    PerSecond(f64),
    /// So many clients, each of which sends again when it has its answer (a closed load).
    Clients(u16),
}

impl Pace {
    /// Whether nothing is sent.
    pub fn is_none(self) -> bool {
        matches!(self, Pace::Clients(0))
    }
}

impl FromStr for Pace {
    type Err = String;

    fn from_str(text: &str) -> Result<Pace, String> {
        let wrong = || {
            format!(
                "`{text}` is no pace: say 2/s, 30/m or 5/h for requests at random moments, up to {MOST_PER_SECOND} a \
                 second, or 4 for four clients that wait for their answers, up to {MOST_CLIENTS}"
            )
        };
        let Some((number, unit)) = text.split_once('/') else {
            return text.trim().parse().ok().filter(|n| *n <= MOST_CLIENTS).map(Pace::Clients).ok_or_else(wrong);
        };
        let seconds = match unit.trim() {
            "s" => 1.0,
            "m" | "min" => 60.0,
            "h" => 3600.0,
            _ => return Err(wrong()),
        };
        let rate = number.trim().parse::<f64>().map_err(|_| wrong())? / seconds;
        match rate {
            0.0 => Ok(Pace::Clients(0)),
            rate if rate > 0.0 && rate <= MOST_PER_SECOND => Ok(Pace::PerSecond(rate)),
            _ => Err(wrong()),
        }
    }
}

impl fmt::Display for Pace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Pace::PerSecond(rate) if rate >= 1.0 => write!(f, "{rate}/s"),
            Pace::PerSecond(rate) if rate * 60.0 >= 1.0 => write!(f, "{}/m", rate * 60.0),
            Pace::PerSecond(rate) => write!(f, "{}/h", rate * 3600.0),
            Pace::Clients(1) => f.write_str("1 client"),
            Pace::Clients(n) => write!(f, "{n} clients"),
        }
    }
}

/// Moments of an open load: a Poisson process, the same for the same seed.
pub struct Moments {
    rng: StdRng,
    rate: f64,
    next: Duration,
}

impl Moments {
    pub fn new(rate: f64, seed: u64) -> Moments {
        Moments { rng: StdRng::seed_from_u64(seed), rate, next: Duration::ZERO }
    }
}

impl Iterator for Moments {
    type Item = Duration;

    /// The next moment, from the beginning of the load.
    fn next(&mut self) -> Option<Duration> {
        let gap = -(1.0 - self.rng.random::<f64>()).ln() / self.rate;
        self.next += Duration::from_secs_f64(gap);
        Some(self.next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paces_are_read_and_shown() {
        for (text, pace, shown) in [
            ("2/s", Pace::PerSecond(2.0), "2/s"),
            ("30/m", Pace::PerSecond(0.5), "30/m"),
            ("18 / h", Pace::PerSecond(0.005), "18/h"),
            ("4", Pace::Clients(4), "4 clients"),
            ("1", Pace::Clients(1), "1 client"),
        ] {
            let read: Pace = text.parse().unwrap();
            assert_eq!((read, read.to_string().as_str()), (pace, shown));
        }
        for none in ["0", "0/s"] {
            assert!(none.parse::<Pace>().unwrap().is_none(), "{none}");
        }
        for wrong in ["", "x", "-1/s", "1/d", "2000/s", "NaN/s", "inf/s", "300", "1.5", "/s"] {
            assert!(wrong.parse::<Pace>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn moments_come_at_their_rate_and_again_for_the_same_seed() {
        let some = |seed| Moments::new(5.0, seed).take(4000).collect::<Vec<_>>();
        let moments = some(1);
        assert!(moments.is_sorted());
        let rate = moments.len() as f64 / moments.last().unwrap().as_secs_f64();
        assert!((4.7..5.3).contains(&rate), "{rate}");
        assert_eq!(moments, some(1));
        assert_ne!(moments, some(2));
    }
}
