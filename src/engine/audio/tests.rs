//! The whole room on small files of every kind: whole, cut, mislabelled, mutated.

use super::*;
use crate::control::{ErrorKind, Fault};
use proptest::prelude::*;

macro_rules! fixture {
    ($name:literal) => {
        ($name, &include_bytes!(concat!("../../../tests/fixtures/audio/", $name))[..])
    };
}

/// One second of a 440 Hz tone in every coding.
fn tones() -> Vec<(&'static str, &'static [u8])> {
    vec![
        fixture!("tone.flac"),
        fixture!("tone.mp3"),
        fixture!("tone.m4a"),
        fixture!("tone-faststart.m4a"),
        fixture!("tone.aac"),
        fixture!("tone.ogg"),
        fixture!("tone.webm"),
        fixture!("live.webm"),
        fixture!("ima.wav"),
        fixture!("ms.wav"),
        fixture!("mulaw.wav"),
        fixture!("alaw.wav"),
    ]
}

fn run(bytes: &[u8]) -> Result<(Pcm, AudioInfo), AudioError> {
    decode_with_info(bytes, DecodeLimits { max_seconds: 60.0 })
}

fn crossings_per_second(samples: &[f32]) -> f64 {
    let middle = &samples[samples.len() / 4..samples.len() * 3 / 4];
    let n = middle.windows(2).filter(|w| (w[0] < 0.0) != (w[1] < 0.0)).count();
    n as f64 * f64::from(SAMPLE_RATE) / middle.len() as f64
}

#[test]
fn every_coding_gives_the_tone_whatever_the_name() {
    for (name, bytes) in tones() {
        let (pcm, info) = run(bytes).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!((0.95..1.15).contains(&pcm.seconds()), "{name}: {} s", pcm.seconds());
        let crossings = crossings_per_second(&pcm.samples);
        assert!((870.0..890.0).contains(&crossings), "{name}: {crossings}");
        assert!(!pcm.truncated, "{name}: {info:?}");
    }
}

#[test]
fn an_m4a_that_was_cut_within_its_index_is_damaged_not_unsupported() {
    let (_, whole) = fixture!("tone-faststart.m4a");
    let index = whole.windows(4).position(|w| w == b"moov").unwrap();
    for length in [index, index + 4, index + 100] {
        let e = run(&whole[..length]).unwrap_err();
        assert!(matches!(e, AudioError::Damaged(_) | AudioError::NoAudio(_)), "{length}: {e}");
        assert_eq!(Fault::from(e).kind, ErrorKind::InvalidRequest);
    }
    for (head, name) in [(&[0x0b, 0x77, 1, 2][..], "AC-3"), (b"riff\x2e\x91\xcf\x11", "Wave64")] {
        assert!(run(head).unwrap_err().to_string().contains(name), "{name}");
    }
}

#[test]
fn opus_is_refused_by_name() {
    for (name, bytes) in [fixture!("opus.ogg"), fixture!("opus.webm")] {
        let e = run(bytes).unwrap_err();
        assert!(e.to_string().contains("Opus"), "{name}: {e}");
        let fault = Fault::from(e);
        assert_eq!((fault.kind, fault.param.as_deref()), (ErrorKind::UnsupportedMedia, Some("file")));
    }
}

#[test]
fn a_cut_file_is_never_plain_success() {
    // Raw streams (mp3 without its Xing header's size, ADTS) promise nothing that a cut could break.
    for (name, bytes) in tones().into_iter().filter(|(n, _)| *n != "tone.aac") {
        for share in [0.25, 0.5, 0.75] {
            let cut = &bytes[..(bytes.len() as f64 * share) as usize];
            match run(cut) {
                Ok((pcm, info)) => {
                    assert!(pcm.truncated, "{name} at {share}: {} s, {info:?}", pcm.seconds());
                    assert!(!info.warnings.is_empty(), "{name} at {share}");
                }
                Err(e) => {
                    let fault = Fault::from(e);
                    assert_eq!(fault.kind, ErrorKind::InvalidRequest, "{name} at {share}: {fault}");
                }
            }
        }
    }
}

#[test]
fn an_m4a_cut_before_its_index_says_what_is_missing() {
    let (_, bytes) = fixture!("tone.m4a");
    let e = run(&bytes[..bytes.len() / 2]).unwrap_err();
    assert!(e.to_string().contains("moov"), "{e}");
}

#[test]
fn words_in_a_tag_are_no_header_of_the_stream() {
    let (_, plain) = fixture!("tone.mp3");
    let frames = sniff::mpeg_stream(plain).unwrap();
    let title = b"TIT2\0\0\0\x1c\0\0\x03Info about Xing: the meeting";
    let tagged = [&b"ID3\x04\0\0\0\0\0\x26"[..], title, frames].concat();
    assert_eq!(sniff::mpeg_stream(&tagged), Some(frames));
    let (pcm, info) = run(&tagged).unwrap();
    assert!(!pcm.truncated && pcm.seconds() > 0.95, "{info:?}");
    // The tag does not count among the bytes that the header promises.
    assert!(run(&tagged[..tagged.len() - 10]).unwrap().0.truncated);
}

#[test]
fn damaged_packets_are_counted() {
    let (_, whole) = fixture!("tone.aac");
    let mut starts = vec![0];
    while let Some(h) = whole.get(starts[starts.len() - 1]..).filter(|h| h.len() > 7) {
        let size = (usize::from(h[3] & 3) << 11) | (usize::from(h[4]) << 3) | usize::from(h[5] >> 5);
        starts.push(starts[starts.len() - 1] + size);
    }
    starts.pop();
    let with_damage = |damaged: usize| {
        let mut bytes = whole.to_vec();
        // A coupling channel element, which is not decoded, instead of the sound.
        starts.iter().rev().take(damaged).for_each(|at| bytes[at + 7] = 0x40);
        run(&bytes)
    };
    let n = starts.len();
    assert!(n > 12, "{n}");
    for damaged in [1, n / 10] {
        let (pcm, info) = with_damage(damaged).unwrap();
        assert!(!pcm.truncated && info.warnings == [format!("{damaged} damaged packets were skipped")], "{info:?}");
    }
    for damaged in [n / 10 + 1, n / 2] {
        let (pcm, info) = with_damage(damaged).unwrap();
        assert!(pcm.truncated && info.warnings.len() == 1, "{damaged}: {info:?}");
    }
    let e = with_damage(n / 2 + 1).unwrap_err();
    let says = format!("{} of its {n} AAC packets", n / 2 + 1);
    assert!(matches!(&e, AudioError::Damaged(why) if why.contains(&says)), "{e}");
}

#[test]
fn aac_that_is_not_decoded_is_named_and_the_hint_is_another() {
    let (_, whole) = fixture!("tone.m4a");
    // The descriptor of the AudioSpecificConfig: LC, 22.05 kHz, mono.
    let at = whole.windows(7).position(|w| w == [5, 0x80, 0x80, 0x80, 5, 0x13, 0x88]).unwrap() + 5;
    for (config, name) in [
        ([0x13, 0xb0], "AAC with 6 channels"),
        ([0x2b, 0x88], "HE-AAC (SBR)"),
        ([0xeb, 0x88], "HE-AAC v2 (SBR and PS)"),
    ] {
        let mut bytes = whole.to_vec();
        bytes[at..at + 2].copy_from_slice(&config);
        let fault = Fault::from(run(&bytes).unwrap_err());
        assert_eq!(fault.kind, ErrorKind::UnsupportedMedia, "{name}");
        assert!(fault.message.contains(name), "{}", fault.message);
        assert!(!fault.hint.unwrap().contains("AAC"), "{name}");
    }
}

#[test]
fn one_wild_sample_of_a_float_file_harms_no_other() {
    let wav = |samples: &[f32]| {
        let size = (samples.len() * 4) as u32;
        let mut b = b"RIFF\0\0\0\0WAVEfmt \x10\0\0\0\x03\0\x01\0\x80\x3e\0\0\0\xfa\0\0\x04\0\x20\0data".to_vec();
        b.extend(size.to_le_bytes());
        b.extend(samples.iter().flat_map(|s| s.to_le_bytes()));
        b
    };
    let clear: Vec<f32> = (0..16_000).map(|i| 0.25 * (i as f32 * 0.1).sin()).collect();
    for (stray, says) in [(1e30, "1e30 times"), (1000.0, "1000.0 times")] {
        let mut samples = clear.clone();
        samples[5_000] = stray;
        let (pcm, info) = run(&wav(&samples)).unwrap();
        assert!(info.warnings.len() == 1 && info.warnings[0].contains(says), "{info:?}");
        assert!(info.warnings[0].contains("clipped"), "{info:?}");
        assert_eq!((pcm.samples[5_000], &pcm.samples[5_001..]), (1.0, &clear[5_001..]));
    }
    let integers: Vec<f32> = clear.iter().map(|s| s * 32_768.0).collect();
    let (pcm, info) = run(&wav(&integers)).unwrap();
    assert!(info.warnings[0].contains("scaled down"), "{info:?}");
    assert!(pcm.samples.iter().any(|s| s.abs() > 0.9));
}

#[test]
fn headers_without_sound_are_named_so() {
    let (_, webm) = fixture!("tone.webm");
    let (_, ogg) = fixture!("tone.ogg");
    assert_eq!(run(&[]).unwrap_err(), AudioError::Empty);
    for (what, bytes) in [("webm", &webm[..110]), ("ogg", &ogg[..60])] {
        let e = run(bytes).unwrap_err();
        assert!(matches!(e, AudioError::NoAudio(_)), "{what}: {e:?}");
    }
}

#[test]
fn what_is_not_audio_is_a_bad_request_that_says_what_it_is() {
    for (bytes, word) in
        [(&b"<html><body>no</body></html>"[..], "HTML"), (b"{\"a\":1}", "JSON"), (b"/tmp/a.wav", "path")]
    {
        let fault = Fault::from(run(bytes).unwrap_err());
        assert_eq!((fault.kind, fault.param.as_deref()), (ErrorKind::InvalidRequest, Some("file")));
        assert!(fault.message.contains(word), "{}", fault.message);
        assert!(!verdict(bytes, DecodeLimits::default()).accepted);
    }
}

#[test]
fn the_limit_holds_while_decoding() {
    for (name, bytes) in tones() {
        let e = decode(bytes, DecodeLimits { max_seconds: 0.5 }).unwrap_err();
        assert!(matches!(e, AudioError::TooLong { .. }), "{name}: {e:?}");
        assert_eq!(Fault::from(e).kind, ErrorKind::TooLong);
    }
}

#[test]
fn the_verdict_tells_clips_from_recordings_by_samples() {
    let wav = |n: usize| {
        let mut b = b"RIFF\0\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0\x80\x3e\0\0\0\x7d\0\0\x02\0\x10\0data".to_vec();
        b.extend(((n * 2) as u32).to_le_bytes());
        b.resize(b.len() + n * 2, 1);
        b
    };
    for (n, lane) in [(480_000, "clip"), (480_001, "recording"), (1, "clip")] {
        let v = verdict(&wav(n), DecodeLimits::default());
        assert_eq!((v.accepted, v.samples_16k, v.lane), (true, Some(n), Some(lane)));
    }
}

fn any_tone() -> impl Strategy<Value = Vec<u8>> {
    (0..tones().len()).prop_map(|i| tones()[i].1.to_vec())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Whatever is done to a file, the answer is a value: audio that is finite and in range, or an error.
    #[test]
    fn mutated_files_never_panic(
        mut bytes in any_tone(),
        edits in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..12),
        front in any::<bool>(),
        cut in any::<prop::sample::Index>(),
    ) {
        for (at, value) in edits {
            // Half of the time aim at the headers, where the lengths are.
            let span = if front { bytes.len().min(200) } else { bytes.len() };
            let i = at.index(span);
            bytes[i] = value;
        }
        bytes.truncate(cut.index(bytes.len()) + 1);
        if let Ok((pcm, _)) = run(&bytes) {
            prop_assert!(pcm.samples.iter().all(|s| s.abs() <= 1.0));
        }
    }

    #[test]
    fn garbage_after_a_magic_never_panics(
        magic in prop_oneof![
            Just(&b"RIFF\xff\xff\xff\xffWAVE"[..]), Just(&b"fLaC"[..]), Just(&b"OggS"[..]), Just(&b"\x1a\x45\xdf\xa3"[..]),
            Just(&b"\0\0\0\x20ftypM4A "[..]), Just(&b"ID3\x04\0\0\0\0\0\x0a"[..]),
        ],
        rest in proptest::collection::vec(any::<u8>(), 0..400),
    ) {
        let mut bytes = magic.to_vec();
        bytes.extend(rest);
        let _ = run(&bytes);
    }
}
