//! What bytes are, told from the bytes: never from a name or a declared type.

/// A container that is decoded here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Container {
    Wav,
    Flac,
    Mp3,
    /// Raw AAC frames with ADTS headers.
    Adts,
    /// m4a, mp4, mov.
    Mp4,
    Ogg,
    /// webm and mkv.
    Matroska,
}

impl Container {
    pub fn name(self) -> &'static str {
        match self {
            Container::Wav => "wav",
            Container::Flac => "flac",
            Container::Mp3 => "mp3",
            Container::Adts => "aac (ADTS)",
            Container::Mp4 => "mp4/m4a",
            Container::Ogg => "ogg",
            Container::Matroska => "webm/mkv",
        }
    }
}

/// What a file's first bytes say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sniffed {
    Audio(Container),
    /// Audio or video of a kind that is not decoded here.
    Unsupported(&'static str),
    /// Something that is no audio at all.
    Other(&'static str),
}

/// Bytes that may stand before the first MPEG frame (padding after a tag).
const MPEG_SEARCH: usize = 64 * 1024;

/// Packets that must follow each other in a transport stream of which no other byte is known.
const TS_PACKETS: usize = 4;

/// Names what `bytes` look like. `bytes` must not be empty.
pub fn sniff(bytes: &[u8]) -> Sniffed {
    let body = skip_id3(bytes);
    if let Some(s) = by_magic(body) {
        return s;
    }
    // Before frames are looked for: the packets of a transport stream hold pieces of them.
    if transport_stream(body) {
        return Sniffed::Unsupported("MPEG-TS (a transport stream)");
    }
    // A tag alone, or a tag before frames: only MPEG and ADTS start without a magic.
    if let Some((_, what)) = mpeg_frames(body) {
        return what;
    }
    if body.len() < bytes.len() {
        return Sniffed::Other("an ID3 tag with nothing playable after it");
    }
    Sniffed::Other(not_audio(bytes))
}

fn by_magic(b: &[u8]) -> Option<Sniffed> {
    use Container::{Flac, Matroska, Mp4, Ogg, Wav};
    let at = |i: usize, m: &[u8]| b.get(i..i + m.len()) == Some(m);
    Some(match b.first_chunk::<4>()? {
        b"RIFF" | b"RF64" | b"BW64" if at(8, b"WAVE") => Sniffed::Audio(Wav),
        b"RIFF" if at(8, b"AVI ") => Sniffed::Unsupported("AVI video"),
        b"RIFX" => Sniffed::Unsupported("big-endian RIFF (RIFX)"),
        b"fLaC" => Sniffed::Audio(Flac),
        b"OggS" => Sniffed::Audio(Ogg),
        [0x1a, 0x45, 0xdf, 0xa3] => Sniffed::Audio(Matroska),
        b"FORM" if at(8, b"AIFF") || at(8, b"AIFC") => Sniffed::Unsupported("AIFF"),
        b"caff" => Sniffed::Unsupported("Apple CAF"),
        b"#!AM" => Sniffed::Unsupported("AMR"),
        b"wvpk" => Sniffed::Unsupported("WavPack"),
        b"MAC " => Sniffed::Unsupported("Monkey's Audio"),
        b"MThd" => Sniffed::Unsupported("MIDI (notes, not sound)"),
        b".snd" => Sniffed::Unsupported("Sun .au"),
        [0, 0, 1, 0xba] => Sniffed::Unsupported("an MPEG program stream"),
        b".RMF" => Sniffed::Unsupported("RealMedia"),
        [0x0b, 0x77, _, _] => Sniffed::Unsupported("Dolby AC-3"),
        b"riff" if at(4, &[0x2e, 0x91, 0xcf, 0x11]) => Sniffed::Unsupported("Sony Wave64"),
        b"TTA1" => Sniffed::Unsupported("True Audio"),
        b"DSD " => Sniffed::Unsupported("DSD"),
        [0x30, 0x26, 0xb2, 0x75] => Sniffed::Unsupported("Windows Media (ASF, WMA)"),
        [b'F', b'L', b'V', 1] => Sniffed::Unsupported("Flash video"),
        b"PK\x03\x04" | b"PK\x05\x06" => Sniffed::Other("a zip archive (or an office document)"),
        b"%PDF" => Sniffed::Other("a PDF document"),
        [0x89, b'P', b'N', b'G'] => Sniffed::Other("a PNG image"),
        [0xff, 0xd8, 0xff, _] => Sniffed::Other("a JPEG image"),
        b"GIF8" => Sniffed::Other("a GIF image"),
        [0x1f, 0x8b, _, _] => Sniffed::Other("gzip data"),
        [0x28, 0xb5, 0x2f, 0xfd] => Sniffed::Other("zstd data"),
        [0x7f, b'E', b'L', b'F'] => Sniffed::Other("a program (ELF)"),
        b"GGUF" => Sniffed::Other("a GGUF model"),
        _ if [&b"ftyp"[..], b"moov", b"mdat", b"moof", b"wide"].iter().any(|m| at(4, m)) => Sniffed::Audio(Mp4),
        _ => return None,
    })
}

/// The bytes after any ID3v2 tags at the front.
fn skip_id3(mut b: &[u8]) -> &[u8] {
    while let Some(head) = b.first_chunk::<10>()
        && head.starts_with(b"ID3")
        && head[6..10].iter().all(|&s| s < 0x80)
    {
        let size = head[6..10].iter().fold(0usize, |n, &s| (n << 7) | usize::from(s));
        b = b.get(10 + size..).unwrap_or(&[]);
    }
    b
}

/// MPEG audio or ADTS: a frame header whose frame is followed by a second one of the same kind (or by the end of the
/// file, if it stands at the very front). One header alone is two bytes of luck, and is not believed.
fn mpeg_frames(b: &[u8]) -> Option<(usize, Sniffed)> {
    let end = b.len().min(MPEG_SEARCH);
    (0..end.saturating_sub(6)).filter(|&i| b[i] == 0xff && b[i + 1] & 0xe0 == 0xe0).find_map(|i| {
        let (what, len) = adts_frame(&b[i..]).or_else(|| mpeg_frame(&b[i..]))?;
        let next = &b[i + len.min(b.len() - i)..];
        let follows = match what {
            Sniffed::Audio(Container::Adts) => adts_frame(next).is_some(),
            _ => mpeg_frame(next).is_some_and(|(w, _)| w == what) && next[1] & 0xfe == b[i + 1] & 0xfe,
        };
        (follows || (i == 0 && b.len() <= len)).then_some((i, what))
    })
}

/// The bytes from the first MPEG frame on: after the tags, and what else stands before it.
pub fn mpeg_stream(bytes: &[u8]) -> Option<&[u8]> {
    let body = skip_id3(bytes);
    mpeg_frames(body).map(|(at, _)| &body[at..])
}

/// MPEG-TS: packets of 188 bytes, of 192 with a time stamp before each (M2TS) or of 204 with a checksum after each. Every
/// one of the first few must begin as one, wherever the recording was begun.
fn transport_stream(b: &[u8]) -> bool {
    // A sync byte, and payload, adaptation field or both (neither is reserved).
    let packet = |at: usize| b.get(at) == Some(&0x47) && b.get(at + 3).is_some_and(|flags| flags & 0x30 != 0);
    [188, 192, 204].into_iter().any(|stride| {
        (0..stride).any(|start| {
            let starts = (start..b.len().saturating_sub(3)).step_by(stride);
            starts.len() >= TS_PACKETS && starts.take(2 * TS_PACKETS).all(packet)
        })
    })
}

fn adts_frame(b: &[u8]) -> Option<(Sniffed, usize)> {
    let h = b.first_chunk::<7>()?;
    let rate_index = (h[2] >> 2) & 0x0f;
    let len = (usize::from(h[3] & 3) << 11) | (usize::from(h[4]) << 3) | usize::from(h[5] >> 5);
    (h[0] == 0xff && h[1] & 0xf6 == 0xf0 && rate_index < 13 && len > 7)
        .then_some((Sniffed::Audio(Container::Adts), len))
}

fn mpeg_frame(b: &[u8]) -> Option<(Sniffed, usize)> {
    // kbit/s by (MPEG 1, MPEG 2/2.5) for layer III.
    const V1: [usize; 16] = [0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 0];
    const V2: [usize; 16] = [0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160, 0];
    const RATES: [usize; 4] = [44_100, 48_000, 32_000, 0];
    let h = b.first_chunk::<4>()?;
    if h[0] != 0xff || h[1] & 0xe0 != 0xe0 {
        return None;
    }
    let version = (h[1] >> 3) & 3; // 0 = 2.5, 2 = 2, 3 = 1
    let layer = (h[1] >> 1) & 3; // 1 = III, 2 = II, 3 = I
    let index = usize::from(h[2] >> 4);
    let rate = RATES[usize::from((h[2] >> 2) & 3)] >> [2, 0, 1, 0][usize::from(version)];
    if version == 1 || layer == 0 || index == 0 || index == 15 || rate == 0 {
        return None;
    }
    if layer != 1 {
        // Layers I and II: lengths are not needed to name them, but a second header is; use layer II's MPEG 1 table.
        const L2: [usize; 16] = [0, 32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384, 0];
        let kbit = if version == 3 { L2[index] } else { V2[index] };
        let len = 144_000 * kbit / rate + usize::from((h[2] >> 1) & 1);
        return Some((Sniffed::Unsupported("MPEG audio layer I/II"), len));
    }
    let (kbit, per_frame) = if version == 3 { (V1[index], 144_000) } else { (V2[index], 72_000) };
    Some((Sniffed::Audio(Container::Mp3), per_frame * kbit / rate + usize::from((h[2] >> 1) & 1)))
}

/// Words for bytes that are no audio.
fn not_audio(bytes: &[u8]) -> &'static str {
    let head = &bytes[..bytes.len().min(4096)];
    // A cut at 4096 may fall inside a character: only what stands before it must be UTF-8.
    let text = match std::str::from_utf8(head) {
        Ok(t) => t,
        Err(e) if e.error_len().is_none() => std::str::from_utf8(&head[..e.valid_up_to()]).unwrap_or(""),
        Err(_) => "",
    };
    let text = text.trim_start_matches('\u{feff}').trim_start();
    if bytes.iter().all(|&b| b == 0) {
        return "nothing but zero bytes";
    }
    if text.is_empty() {
        return if text.len() == head.len() || head.iter().all(u8::is_ascii_whitespace) {
            "blank text"
        } else {
            "binary data of no known kind"
        };
    }
    let lower: String = text.chars().take(256).collect::<String>().to_ascii_lowercase();
    if lower.starts_with("<!doctype html") || lower.starts_with("<html") || lower.contains("<html") {
        "an HTML page"
    } else if lower.starts_with("<?xml") || lower.starts_with("<svg") || lower.starts_with('<') {
        "XML"
    } else if lower.starts_with('{') || lower.starts_with('[') {
        "JSON"
    } else if lower.starts_with("#extm3u") {
        "a playlist"
    } else if lower.starts_with("data:") {
        "a data URL (send the decoded bytes)"
    } else if text.chars().all(|c| !c.is_control() || c.is_whitespace()) {
        if text.lines().count() == 1 && (text.contains('/') || text.contains('\\')) {
            "a path or address as text (send the file's bytes)"
        } else {
            "plain text"
        }
    } else {
        "binary data of no known kind"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_what_is_not_audio() {
        for (bytes, what) in [
            (&b"<!DOCTYPE html><html><body>404</body></html>"[..], "an HTML page"),
            (b"\n  <html>", "an HTML page"),
            (b"{\"error\": 1}", "JSON"),
            (b"/home/me/a.wav", "a path or address as text (send the file's bytes)"),
            (b"hello there", "plain text"),
            (b"PK\x03\x04....", "a zip archive (or an office document)"),
            (&[0; 64], "nothing but zero bytes"),
            (&[1, 2, 3, 200, 201], "binary data of no known kind"),
        ] {
            assert_eq!(sniff(bytes), Sniffed::Other(what));
        }
    }

    #[test]
    fn believes_two_frames_not_one() {
        // MPEG 1 layer III, 128 kbit/s, 44.1 kHz: frames of 417 bytes.
        let mut b = vec![0u8; 417 * 2 + 50];
        for i in [0, 417] {
            b[i..i + 4].copy_from_slice(&[0xff, 0xfb, 0x90, 0x00]);
        }
        assert_eq!(sniff(&b), Sniffed::Audio(Container::Mp3));
        b[417] = 0;
        assert!(matches!(sniff(&b), Sniffed::Other(_)));
    }

    #[test]
    fn transport_streams_are_not_the_frames_within_them() {
        // ADTS frames of 100 bytes, in packets of every size and from the middle of one on.
        let frame = [&[0xff, 0xf1, 0x60, 0x40, 0x0c, 0x9f, 0xfc][..], &[7; 93]].concat();
        let frames = frame.repeat(40);
        assert_eq!(sniff(&frames), Sniffed::Audio(Container::Adts));
        for (before, after) in [(0, 0), (4, 0), (0, 16)] {
            let packets: Vec<u8> = frames
                .chunks_exact(184)
                .flat_map(|p| [&vec![0; before][..], &[0x47, 1, 0, 0x10], p, &vec![0; after]].concat())
                .collect();
            for start in [0, 1, 50, 187] {
                let says = sniff(&packets[start..]);
                assert!(matches!(says, Sniffed::Unsupported(w) if w.contains("MPEG-TS")), "{before} {after} {says:?}");
            }
        }
        assert_eq!(sniff(&b"G".repeat(2_000)), Sniffed::Other("plain text"));
    }

    proptest! {
        #[test]
        fn never_panics(b in proptest::collection::vec(any::<u8>(), 1..300)) {
            let _ = sniff(&b);
        }

        #[test]
        fn never_panics_on_sync_like_bytes(b in proptest::collection::vec(prop_oneof![Just(0xffu8), Just(0xfb), Just(0xf1), any::<u8>()], 1..300)) {
            let _ = sniff(&b);
        }
    }
}
