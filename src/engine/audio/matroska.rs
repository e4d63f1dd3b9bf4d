//! What webm and mkv bytes say without decoding: whether their end is missing, and what codes their sound.

const SEGMENT: u32 = 0x1853_8067;
const CLUSTER: u32 = 0x1f43_b675;
/// Beginnings of the identifiers of codings that the reader hands on, decoded here or not.
const READ: [&[u8]; 6] = [b"A_VORBIS", b"A_OPUS", b"A_FLAC", b"A_AAC", b"A_MPEG", b"A_PCM"];
/// Where the track entries are looked for.
const HEAD: usize = 64 * 1024;

/// Whether the bytes end inside an element. A stream is written without sizes for its segment and clusters: those end
/// where the data end, and such a file is whole if its last block is.
pub fn is_cut(bytes: &[u8]) -> bool {
    let mut at = 0;
    while at < bytes.len() {
        let (id, size, body) = match element(bytes, at) {
            Header::Whole { id, size, body } => (id, size, body),
            Header::Cut => return true,
            // The reader says what is wrong with it.
            Header::Invalid => return false,
        };
        match size {
            Some(size) => {
                let end = (body as u64).saturating_add(size);
                if end > bytes.len() as u64 {
                    return true;
                }
                if id == SEGMENT {
                    return false;
                }
                at = body + size as usize;
            }
            None if id == SEGMENT || id == CLUSTER => at = body,
            None => return false,
        }
    }
    false
}

/// The identifier (`A_...`) of the first sound track, where it is none of those that the reader knows.
pub fn foreign_codec(bytes: &[u8]) -> Option<&str> {
    const CODEC_ID: u8 = 0x86;
    let head = &bytes[..bytes.len().min(HEAD)];
    let at = head.windows(4).position(|w| w[0] == CODEC_ID && w[1] > 0x82 && &w[2..] == b"A_")?;
    let name = head.get(at + 2..at + 2 + usize::from(head[at + 1] & 0x7f))?;
    let fit = |b: &u8| b.is_ascii_alphanumeric() || b"_/.".contains(b);
    let known = READ.iter().any(|known| name.starts_with(known));
    (!known && name.iter().all(fit)).then(|| std::str::from_utf8(name).ok())?
}

/// What stands before an element's body.
enum Header {
    /// `size` is none where it is not known.
    Whole {
        id: u32,
        size: Option<u64>,
        body: usize,
    },
    Cut,
    Invalid,
}

fn element(bytes: &[u8], at: usize) -> Header {
    // Both fields begin with as many zero bits as bytes follow the first; the identifier keeps its marker.
    let length = |at: usize| bytes.get(at).map(|b| b.leading_zeros() as usize + 1);
    let number =
        |at: usize, n: usize| bytes.get(at..at + n).map(|f| f.iter().fold(0u64, |n, &b| n << 8 | u64::from(b)));
    let Some(id_length) = length(at) else { return Header::Cut };
    if id_length > 4 {
        return Header::Invalid;
    }
    let Some(size_length) = length(at + id_length) else { return Header::Cut };
    if size_length > 8 {
        return Header::Invalid;
    }
    let body = at + id_length + size_length;
    let (Some(id), Some(size)) = (number(at, id_length), number(at + id_length, size_length)) else {
        return Header::Cut;
    };
    let mask = (1u64 << (7 * size_length)) - 1;
    // Four bytes at most.
    Header::Whole { id: id as u32, size: (size & mask != mask).then_some(size & mask), body }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A segment and a cluster with two blocks; sizes as given (8 bytes each, or unknown).
    fn file(segment: Option<u64>, cluster: Option<u64>) -> Vec<u8> {
        let size = |s: Option<u64>| s.map_or(0x01ff_ffff_ffff_ffff, |s| 0x0100_0000_0000_0000 | s).to_be_bytes();
        let mut b = vec![0x1a, 0x45, 0xdf, 0xa3, 0x82, 1, 2];
        b.extend(SEGMENT.to_be_bytes());
        b.extend(size(segment));
        b.extend([0xec, 0x81, 0]);
        b.extend(CLUSTER.to_be_bytes());
        b.extend(size(cluster));
        b.extend([0xe7, 0x81, 0, 0xa3, 0x84, 1, 2, 3, 4, 0xa3, 0x84, 1, 2, 3, 4]);
        b
    }

    #[test]
    fn a_stream_without_sizes_is_whole_where_its_last_block_is() {
        for (segment, cluster) in [(None, None), (None, Some(15)), (Some(30), Some(15)), (Some(30), None)] {
            let whole = file(segment, cluster);
            assert!(!is_cut(&whole), "{segment:?} {cluster:?}");
            let ends = (8..whole.len()).filter(|&n| !is_cut(&whole[..n])).collect::<Vec<_>>();
            // Where every size is unknown nothing tells an early end between two elements from the end.
            let between = match (segment, cluster) {
                (None, None) => vec![19, 22, 34, 37, 43],
                (None, Some(_)) => vec![19, 22],
                _ => vec![],
            };
            assert_eq!(ends, between, "{segment:?} {cluster:?}");
        }
    }

    #[test]
    fn a_foreign_coding_is_named() {
        assert_eq!(foreign_codec(b"\xae\x90\xd7\x81\x01\x86\x88A_MS/ACM"), Some("A_MS/ACM"));
        assert_eq!(foreign_codec(b"\xae\x90\xd7\x81\x01\x86\x88A_VORBIS"), None);
        assert_eq!(foreign_codec(b"\xae\x90\xd7\x81\x01\x86\x88V_MS/VFW"), None);
        assert_eq!(foreign_codec(b"\x86\x88A_MS"), None);
    }
}
