//! What ogg pages say without decoding: what codes their streams, and whether the end is missing.

use super::error::AudioError;

/// First bytes of a stream's first packet, and the coding that they announce. Vorbis, FLAC and Opus are the reader's.
const TAKEN: [&[u8]; 3] = [b"\x01vorbis", b"\x7fFLAC", b"OpusHead"];
const SOUND: [(&[u8], &str); 4] =
    [(b"Speex   ", "Speex"), (b"CELT    ", "CELT"), (b"PCM     ", "OggPCM"), (b"fLaC", "FLAC of the old mapping")];
const OTHERS: [(&[u8], &str); 9] = [
    (b"\x80theora", "Theora video"),
    (b"\x01video", "video"),
    (b"OVP80", "VP8 video"),
    (b"BBCD", "Dirac video"),
    (b"UVS ", "raw video"),
    (b"\x01text", "text"),
    (b"\x80kate", "subtitles"),
    (b"CMML", "text"),
    (b"fishead\0", "a skeleton"),
];

/// Why the file is not taken, where its streams' first pages say so: a coding that is not decoded here is no empty file.
pub fn refusal(bytes: &[u8]) -> Option<AudioError> {
    let firsts: Vec<&[u8]> = first_packets(bytes).collect();
    let has = |magic: &[u8]| firsts.iter().any(|p| p.starts_with(magic));
    if firsts.is_empty() || TAKEN.iter().any(|magic| has(magic)) {
        return None;
    }
    let named = |kinds: &[(&[u8], &'static str)]| kinds.iter().find(|(magic, _)| has(magic)).map(|(_, name)| *name);
    Some(AudioError::Unsupported(match (named(&SOUND), named(&OTHERS)) {
        (Some(name), _) => format!("{name} in ogg"),
        (None, Some(name)) => format!("ogg with {name} and no sound"),
        (None, None) => "a coding in ogg that is not known here".to_string(),
    }))
}

/// Whether the last page lacks the end-of-stream flag, which that of a whole stream carries.
pub fn is_cut(bytes: &[u8]) -> bool {
    let last = bytes.windows(4).rposition(|w| w == b"OggS");
    last.and_then(|at| bytes.get(at + 5)).is_none_or(|flags| flags & 4 == 0)
}

/// The first packets of the streams: their pages, marked so, come before all others.
fn first_packets(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let head = rest.get(..27).filter(|h| h.starts_with(b"OggS") && h[5] & 2 != 0)?;
        let table = rest.get(27..27 + usize::from(head[26]))?;
        let body = &rest[27 + table.len()..];
        let size = table.iter().map(|&n| usize::from(n)).sum();
        let page = body.get(..size).filter(|p| !p.is_empty())?;
        rest = &body[size..];
        Some(page)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(flags: u8, packet: &[u8]) -> Vec<u8> {
        let mut b = b"OggS\0".to_vec();
        b.push(flags);
        b.extend([0; 20]);
        b.extend([1, packet.len() as u8]);
        b.extend(packet);
        b
    }

    #[test]
    fn codings_that_are_not_taken_are_named() {
        let says = |pages: &[&[u8]]| {
            let mut bytes: Vec<u8> = pages.iter().flat_map(|p| page(2, p)).collect();
            bytes.extend(page(4, b"anything"));
            refusal(&bytes).map(|e| e.to_string())
        };
        let speex = b"Speex   1.2.1\0\0";
        for (pages, want) in [
            (vec![&speex[..]], "Speex in ogg is not supported"),
            (vec![b"\x80theora\x03\x02"], "ogg with Theora video and no sound is not supported"),
            (vec![b"\x80theora\x03\x02", speex], "Speex in ogg is not supported"),
            (vec![b"PCM     \0\0"], "OggPCM in ogg is not supported"),
            (vec![b"whatever"], "a coding in ogg that is not known here is not supported"),
        ] {
            assert_eq!(says(&pages).as_deref(), Some(want));
        }
        for taken in TAKEN {
            assert_eq!(says(&[taken]), None);
            assert_eq!(says(&[b"fishead\0\x03", b"\x80theora\x03", taken]), None);
        }
        // What begins in the middle, or is cut within its first page, is the reader's to judge.
        assert_eq!(refusal(&page(0, speex)), None);
        assert_eq!(refusal(&page(2, speex)[..30]), None);
    }
}
