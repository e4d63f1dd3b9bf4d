//! Times as people write them: `250ms`, `90s`, `10m`, `2h`. Pure.

use std::time::Duration;

/// Reads a span of time; a bare number is seconds.
pub fn parse(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    let cut = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(cut);
    let scale = match unit.trim() {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        other => return Err(format!("`{other}` is not a unit of time: use ms, s, m or h")),
    };
    let value: f64 = number.parse().map_err(|_| format!("`{text}` is not a time such as 250ms, 90s, 10m or 2h"))?;
    Duration::try_from_secs_f64(value * scale).map_err(|_| format!("`{text}` is too long a time"))
}

/// What an engine takes as the time between two snapshots.
const INTERVAL: std::ops::RangeInclusive<Duration> = Duration::from_millis(50)..=Duration::from_secs(5);

/// Reads the time between snapshots: refused here, or a watch would knock with it again and again.
pub fn interval(text: &str) -> Result<Duration, String> {
    let time = parse(text)?;
    if INTERVAL.contains(&time) { Ok(time) } else { Err("the time between snapshots is from 50ms to 5s".to_string()) }
}

#[cfg(test)]
mod tests {
    use super::{interval, parse};

    #[test]
    fn intervals_are_what_engines_take() {
        for text in ["50ms", "1s", "5"] {
            assert!(interval(text).is_ok(), "{text}");
        }
        for text in ["49ms", "0", "5001ms", "1h", "x"] {
            assert!(interval(text).is_err(), "{text}");
        }
    }

    #[test]
    fn units_and_refusals() {
        for (text, ms) in [("250ms", 250), ("90s", 90_000), ("1.5", 1500), ("10m", 600_000), ("2h", 7_200_000)] {
            assert_eq!(parse(text).unwrap().as_millis(), ms, "{text}");
        }
        for text in ["", "s", "1d", "1.2.3s", "-1s", "99999999999999999999999999h"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
