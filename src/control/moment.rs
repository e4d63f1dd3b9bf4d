//! Moments, as people read them.

use jiff::Timestamp;

/// A moment of Unix time as `2026-11-30T01:02:03Z`; one that no calendar has, as its milliseconds.
pub fn utc(at_ms: u64) -> String {
    let moment = i64::try_from(at_ms / 1_000).ok().and_then(|seconds| Timestamp::from_second(seconds).ok());
    moment.map_or_else(|| format!("{at_ms} ms"), |moment| moment.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_told_in_utc() {
        assert_eq!(utc(0), "1970-01-01T00:00:00Z");
        assert_eq!(utc(951_782_400_000), "2000-02-29T00:00:00Z");
        assert_eq!(utc(1_735_689_599_999), "2024-12-31T23:59:59Z");
        assert_eq!(utc(u64::MAX), format!("{} ms", u64::MAX));
    }
}
