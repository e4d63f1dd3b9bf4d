use super::super::sink::Mix;
use super::*;

/// A WAV with the given format fields around `data`; sizes as given.
fn wav(tag: u16, channels: u16, rate: u32, bits: u16, data: &[u8], data_size: u32) -> Vec<u8> {
    let align = channels * bits.div_ceil(8);
    let mut fmt = Vec::new();
    fmt.extend(tag.to_le_bytes());
    fmt.extend(channels.to_le_bytes());
    fmt.extend(rate.to_le_bytes());
    fmt.extend((rate * u32::from(align)).to_le_bytes());
    fmt.extend(align.to_le_bytes());
    fmt.extend(bits.to_le_bytes());
    let mut out = rebuild(&fmt, data);
    let at = out.len() - data.len() - 4;
    out[at..at + 4].copy_from_slice(&data_size.to_le_bytes());
    out
}

fn run(bytes: &[u8]) -> Result<(Vec<f32>, AudioInfo), AudioError> {
    let mut sink = Sink::new(100.0, Mix::Mean);
    let info = decode(bytes, &mut sink)?;
    Ok((sink.finish()?.0, info))
}

fn ramp(n: usize) -> Vec<i16> {
    (0..n).map(|i| ((i as f64 * 0.05).sin() * 8000.0) as i16).collect()
}

fn le(samples: &[i16]) -> Vec<u8> {
    samples.iter().flat_map(|s| s.to_le_bytes()).collect()
}

#[test]
fn every_sample_width_gives_the_same_sound() {
    let s = ramp(2000);
    let (want, _) = run(&wav(PCM, 1, 16_000, 16, &le(&s), 4000)).unwrap();
    assert_eq!(want.len(), 2000);
    let as_24: Vec<u8> = s.iter().flat_map(|&x| (i32::from(x) << 8).to_le_bytes()[..3].to_vec()).collect();
    let as_32: Vec<u8> = s.iter().flat_map(|&x| (i32::from(x) << 16).to_le_bytes()).collect();
    let as_f32: Vec<u8> = s.iter().flat_map(|&x| (f32::from(x) / 32768.0).to_le_bytes()).collect();
    let as_f64: Vec<u8> = s.iter().flat_map(|&x| (f64::from(x) / 32768.0).to_le_bytes()).collect();
    for (tag, bits, data) in [(PCM, 24, as_24), (PCM, 32, as_32), (FLOAT, 32, as_f32), (FLOAT, 64, as_f64)] {
        let (got, _) = run(&wav(tag, 1, 16_000, bits, &data, data.len() as u32)).unwrap();
        assert_eq!(got, want, "{tag} {bits}");
    }
    let as_8: Vec<u8> = s.iter().map(|&x| ((x >> 8) + 128) as u8).collect();
    let (got, _) = run(&wav(PCM, 1, 16_000, 8, &as_8, 2000)).unwrap();
    assert!(got.iter().zip(&want).all(|(a, b)| (a - b).abs() < 0.01));
}

#[test]
fn g711_decodes_to_its_published_values() {
    // Extremes and zeros of ITU-T G.711, scaled to 16 bits.
    for (b, want) in [(0x00u8, -32124), (0x80, 32124), (0xff, 0), (0x7f, 0)] {
        assert_eq!((mu_law(b) * 32768.0) as i32, want, "mu {b:#x}");
    }
    for (b, want) in [(0x2au8, -32256), (0xaa, 32256), (0x55, -8), (0xd5, 8)] {
        assert_eq!((a_law(b) * 32768.0) as i32, want, "a {b:#x}");
    }
}

#[test]
fn streamed_sizes_are_read_to_the_end() {
    let data = le(&ramp(1000));
    for size in [0, u32::MAX, 0x7fff_ffff] {
        let (got, info) = run(&wav(PCM, 1, 16_000, 16, &data, size)).unwrap();
        assert_eq!((got.len(), info.truncated, info.warnings.len()), (1000, false, 1), "{size:#x}");
    }
    // A RIFF size of 0 as well.
    let mut b = wav(PCM, 1, 16_000, 16, &data, 0);
    b[4..8].fill(0);
    assert_eq!(run(&b).unwrap().0.len(), 1000);
}

#[test]
fn a_cut_file_says_so() {
    let data = le(&ramp(1000));
    let whole = wav(PCM, 1, 16_000, 16, &data, 2000);
    let (got, info) = run(&whole[..whole.len() - 1000]).unwrap();
    assert_eq!((got.len(), info.truncated), (500, true));
}

#[test]
fn chunks_around_the_data_change_nothing() {
    let data = le(&ramp(1000));
    let plain = wav(PCM, 1, 16_000, 16, &data, 2000);
    let want = run(&plain).unwrap().0;
    let mut after = plain.clone();
    after.extend(b"LIST");
    after.extend(40_000u32.to_le_bytes());
    after.extend(vec![b'x'; 40_000]);
    let mut before = plain[..12].to_vec();
    before.extend(b"junk\x03\0\0\0abc"); // odd size, and no padding byte
    before.extend(&plain[12..]);
    let mut padded = plain[..12].to_vec();
    padded.extend(b"junk\x03\0\0\0abc\0");
    padded.extend(&plain[12..]);
    for b in [after, before, padded] {
        let (got, info) = run(&b).unwrap();
        assert_eq!(got, want);
        assert!(!info.truncated);
    }
}

#[test]
fn a_data_size_that_is_too_small_loses_nothing() {
    let data = le(&ramp(4000));
    for size in [1, 2, 2000, 7000, 7001] {
        let (got, info) = run(&wav(PCM, 1, 16_000, 16, &data, size)).unwrap();
        assert_eq!((got.len(), info.truncated, info.warnings.len()), (4000, false, 1), "{size}: {:?}", info.warnings);
        assert!(info.warnings[0].contains(&format!("{size} bytes")), "{:?}", info.warnings);
    }
    let plain = wav(PCM, 1, 16_000, 16, &data, 8000);
    let whole_chunk = [&b"LIST\x58\x02\0\0"[..], &[0xf0; 600]].concat();
    for after in [
        [&whole_chunk[..], &[0xf0; 600]].concat(),
        [&b"bext\0\x10\0\0"[..], &[0xf0; 600]].concat(), // a chunk that was cut
        [&b"TAG"[..], &[0xf0; 600]].concat(),
        [&b"ID3\x04\0\0\0\0\x10\0"[..], &[0xf0; 600]].concat(),
        vec![0; 5000],
        vec![0xf0; 100],
    ] {
        let (got, info) = run(&[&plain[..], &after].concat()).unwrap();
        assert_eq!((got.len(), info.warnings.len()), (4000, 0), "{:?} {:?}", &after[..8], info.warnings);
    }
}

#[test]
fn empty_ones_are_named_so() {
    let none = wav(PCM, 1, 16_000, 16, &[], 0);
    assert_eq!(none.len(), 44);
    let mut listed = none.clone();
    listed.extend(b"LIST\x04\0\0\0INFO");
    for b in [&none[..], &listed, &none[..36], &none[..12]] {
        assert!(matches!(run(b), Err(AudioError::NoAudio(_))), "{}", b.len());
    }
}

#[test]
fn contradictions_are_refused() {
    let data = le(&ramp(4000));
    // Only the bit field lies.
    let mut b = wav(PCM, 1, 16_000, 16, &data, 8000);
    b[34] = 8;
    let refused = |b: &[u8]| run(b).map(|_| ()).unwrap_err().to_string();
    let e = refused(&b);
    assert!(e.contains("contradicts itself") && e.contains("16 bits"), "{e}");
    // Everything but the byte rate lies.
    b[32] = 1;
    assert!(matches!(run(&b), Err(AudioError::Damaged(_))));
    // The whole header lies: the data give it away.
    let e = refused(&wav(PCM, 1, 16_000, 8, &data, 8000));
    assert!(e.contains("the data are 16-bit"), "{e}");
    let zero = wav(PCM, 0, 16_000, 16, &data, 8000);
    assert!(matches!(run(&zero), Err(AudioError::Damaged(_))));
}

#[test]
fn honest_8_bit_sound_is_not_suspected() {
    let tone = |a: f64| (0..4000).map(move |i| (128.0 + a * (f64::from(i) * 0.4).sin()) as u8);
    let noise = (0u32..4000).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8);
    let one_sided = noise.clone().flat_map(|b| [b, 128]);
    for data in [tone(1.0).collect::<Vec<u8>>(), tone(120.0).collect(), noise.collect(), one_sided.collect()] {
        assert!(run(&wav(PCM, 2, 16_000, 8, &data, data.len() as u32)).is_ok());
    }
}

#[test]
fn unknown_codings_are_named() {
    let e = run(&wav(0x31, 1, 8_000, 8, &[0; 650], 650)).unwrap_err();
    assert_eq!(e, AudioError::Unsupported("WAV with GSM 6.10".to_string()));
}
