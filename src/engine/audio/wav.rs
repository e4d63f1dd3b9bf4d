//! WAV, read here rather than by a library because real headers lie: sizes of 0 or 0xFFFFFFFF from writers that stream,
//! sizes past the end of a cut file, chunks in any order, chunks without padding, format blocks that contradict
//! themselves. What can be understood is decoded; what contradicts itself is refused, never played as noise.

use super::container;
use super::decode::{AudioInfo, Source};
use super::error::AudioError;
use super::sink::Sink;
use super::sniff::Container;
use std::ops::Range;

const PCM: u16 = 1;
const MS_ADPCM: u16 = 2;
const FLOAT: u16 = 3;
const A_LAW: u16 = 6;
const MU_LAW: u16 = 7;
const IMA_ADPCM: u16 = 0x11;
const MPEG_LAYER_3: u16 = 0x55;
const EXTENSIBLE: u16 = 0xfffe;

/// Data sizes from here on that the file does not hold are a streaming writer's "unknown", not a promise.
const STREAMED: u32 = 0x7fff_0000;

/// Bytes after the data chunk that are too few to be looked at.
const LITTER: usize = 512;
/// No chunk but the data is as large.
const LARGEST_CHUNK: u32 = 1 << 26;

/// Frames decoded at a time.
const BLOCK_FRAMES: usize = 16_384;

/// The format block, checked.
#[derive(Debug, PartialEq)]
struct Format {
    tag: u16,
    channels: u16,
    rate: u32,
    block_align: u16,
    bits: u16,
}

/// Where the sound is.
#[derive(Debug, PartialEq)]
struct Layout {
    fmt: Range<usize>,
    data: Range<usize>,
    truncated: bool,
    warnings: Vec<String>,
}

/// Decodes a WAV file into `sink`.
pub fn decode(bytes: &[u8], sink: &mut Sink) -> Result<AudioInfo, AudioError> {
    let layout = walk(bytes)?;
    let format = Format::parse(&bytes[layout.fmt.clone()])?;
    let data = &bytes[layout.data.clone()];
    let mut info = AudioInfo {
        source: Source {
            container: Container::Wav.name(),
            codec: format.codec(),
            rate: format.rate,
            channels: usize::from(format.channels),
            bits: Some(u32::from(format.bits)),
        },
        truncated: layout.truncated,
        warnings: layout.warnings,
    };
    match format.tag {
        PCM | FLOAT | A_LAW | MU_LAW => {
            format.refuse_false_8_bit(data)?;
            let frame = usize::from(format.block_align);
            if !data.len().is_multiple_of(frame) {
                info.warnings.push(format!("{} bytes of an unfinished frame at the end", data.len() % frame));
            }
            let mut samples =
                Vec::with_capacity(BLOCK_FRAMES.min(data.len() / frame + 1) * usize::from(format.channels));
            for block in data[..data.len() - data.len() % frame].chunks(BLOCK_FRAMES * frame) {
                samples.clear();
                format.convert(block, &mut samples);
                sink.push(format.rate, usize::from(format.channels), &samples)?;
            }
        }
        MS_ADPCM | IMA_ADPCM => {
            let clean = rebuild(&bytes[layout.fmt], data);
            let inner = container::decode(Container::Wav, &clean, sink)?;
            info.truncated |= inner.truncated;
            info.warnings.extend(inner.warnings);
        }
        MPEG_LAYER_3 => {
            let inner = container::decode(Container::Mp3, data, sink)?;
            info.source.bits = None;
            info.truncated |= inner.truncated;
            info.warnings.extend(inner.warnings);
        }
        _ => return Err(AudioError::Unsupported(format!("WAV with {}", format.codec()))),
    }
    Ok(info)
}

/// Finds the format and data chunks by walking to the end of the file, whatever the RIFF size claims.
fn walk(bytes: &[u8]) -> Result<Layout, AudioError> {
    let (mut fmt, mut data, mut long_data) = (None, None, None);
    let mut warnings = Vec::new();
    let mut truncated = false;
    let mut at = 12;
    while (fmt.is_none() || data.is_none()) && at + 8 <= bytes.len() {
        let id = &bytes[at..at + 4];
        let size = u32_at(bytes, at + 4);
        let body = at + 8;
        let left = bytes.len() - body;
        let mut end = body + (size as usize).min(left);
        match id {
            b"fmt " => fmt = Some(body..end),
            b"ds64" if end - body >= 16 => {
                long_data = Some(u64::from(u32_at(bytes, body + 8)) | (u64::from(u32_at(bytes, body + 12)) << 32));
            }
            b"data" => {
                let size = match long_data {
                    Some(n) if size == u32::MAX => n,
                    _ => u64::from(size),
                };
                if size == 0 && left > 0 && !is_chunk_chain(&bytes[body..]) {
                    warnings.push("the data size is 0: written by a stream, read to the end".to_string());
                    end = bytes.len();
                } else if size > left as u64 {
                    end = bytes.len();
                    if long_data.is_none() && size >= u64::from(STREAMED) {
                        warnings.push("the data size is unknown: written by a stream, read to the end".to_string());
                    } else {
                        truncated = true;
                        warnings.push(format!("the file was cut: {left} of {size} bytes of sound are there"));
                    }
                } else {
                    end = body + size as usize;
                    if sound_follows(bytes, next_chunk(bytes, end, (size % 2) as u32)) {
                        end = bytes.len();
                        warnings.push(format!(
                            "the data size is {size} bytes, but what follows is no chunk: read to the end ({left} bytes)"
                        ));
                    }
                }
                data = Some(body..end);
            }
            _ => {}
        }
        at = next_chunk(bytes, end, size);
    }
    let fmt = fmt.ok_or_else(|| match data {
        Some(_) => AudioError::Damaged("WAV without a format (`fmt `) chunk".to_string()),
        None => AudioError::NoAudio("a WAV header without a format and without data".to_string()),
    })?;
    match data {
        Some(data) if !data.is_empty() => Ok(Layout { fmt, data, truncated, warnings }),
        Some(_) => Err(AudioError::NoAudio("a WAV header with an empty data chunk".to_string())),
        None => Err(AudioError::NoAudio("a WAV header without a data chunk".to_string())),
    }
}

fn u32_at(b: &[u8], at: usize) -> u32 {
    b.get(at..at + 4).map_or(0, |s| u32::from_le_bytes([s[0], s[1], s[2], s[3]]))
}

fn u16_at(b: &[u8], at: usize) -> u16 {
    b.get(at..at + 2).map_or(0, |s| u16::from_le_bytes([s[0], s[1]]))
}

/// Chunks are padded to even sizes, but not every writer does it.
fn next_chunk(bytes: &[u8], end: usize, size: u32) -> usize {
    let named = |at: usize| bytes.get(at..at + 4).is_some_and(|id| id.iter().all(|b| (0x20..0x7f).contains(b)));
    if size % 2 == 1 && (named(end + 1) || !named(end)) { end + 1 } else { end }
}

/// Whether the bytes from `at` on, after a data chunk, are sound that its size left out: no chunk, no tag, no padding.
fn sound_follows(bytes: &[u8], at: usize) -> bool {
    let rest = bytes.get(at..).unwrap_or(&[]);
    if rest.len() < LITTER || [&b"TAG"[..], b"ID3", b"APETAGEX"].iter().any(|tag| rest.starts_with(tag)) {
        return false;
    }
    let (id, size) = (&rest[..4], u32_at(rest, 4));
    let fits = size as usize <= rest.len() - 8 && id.iter().all(|b| (0x20..0x7f).contains(b));
    // A chunk that was cut: its name is a word, and its size one that a chunk may have.
    let cut = size < LARGEST_CHUNK && id.iter().all(|b| b.is_ascii_alphanumeric() || b"_ ".contains(b));
    !fits && !cut && rest.iter().any(|&b| b != 0)
}

/// Whether `rest` is nothing but whole chunks: then an empty data chunk before it really is empty.
fn is_chunk_chain(rest: &[u8]) -> bool {
    let mut at = 0;
    while at + 8 <= rest.len() {
        let size = u32_at(rest, at + 4) as usize;
        if !rest[at..at + 4].iter().all(|b| (0x20..0x7f).contains(b)) || size > rest.len() - at - 8 {
            return false;
        }
        at += 8 + size + size % 2;
    }
    at >= rest.len()
}

impl Format {
    fn parse(b: &[u8]) -> Result<Self, AudioError> {
        if b.len() < 14 {
            return Err(AudioError::Damaged(format!("its WAV format chunk has {} bytes (at least 14)", b.len())));
        }
        let mut tag = u16_at(b, 0);
        let (channels, rate) = (u16_at(b, 2), u32_at(b, 4));
        let (mut block_align, mut bits) = (u16_at(b, 12), u16_at(b, 14));
        if channels == 0 {
            return Err(AudioError::Damaged("its WAV header claims 0 channels".to_string()));
        }
        if tag == EXTENSIBLE {
            if b.len() < 40 {
                return Err(AudioError::Damaged(format!("its extensible WAV format has {} bytes of 40", b.len())));
            }
            tag = u16_at(b, 24);
        }
        if matches!(tag, A_LAW | MU_LAW) {
            bits = 8;
        }
        if matches!(tag, PCM | FLOAT | A_LAW | MU_LAW) {
            let allowed: &[u16] = match tag {
                PCM => &[1, 2, 3, 4],
                FLOAT => &[4, 8],
                _ => &[1],
            };
            let bytes = bits.div_ceil(8);
            if block_align == 0 {
                block_align = bytes.saturating_mul(channels);
            }
            if block_align != bytes.saturating_mul(channels) {
                return Err(AudioError::Damaged(format!(
                    "its WAV header contradicts itself: {bits} bits per sample, but {block_align} bytes per frame of \
                     {channels} channel(s), which is {} bits",
                    u32::from(block_align) * 8 / u32::from(channels)
                )));
            }
            if !allowed.contains(&bytes) {
                return Err(AudioError::Unsupported(format!(
                    "WAV with {bits}-bit {}",
                    if tag == FLOAT { "floating-point samples" } else { "samples" }
                )));
            }
            // Writers that get one of the two wrong exist; the frame size is what is read by, the byte rate must agree.
            let byte_rate = u32_at(b, 8);
            let expected = u64::from(rate) * u64::from(block_align);
            if byte_rate != 0 && u64::from(byte_rate) == expected * 2 && bits == 8 {
                return Err(AudioError::Damaged(format!(
                    "its WAV header contradicts itself: 8 bits per sample, but {byte_rate} bytes per second at {rate} \
                     Hz, which is 16 bits"
                )));
            }
        }
        Ok(Format { tag, channels, rate, block_align, bits })
    }

    fn codec(&self) -> String {
        match self.tag {
            PCM => format!("PCM {}-bit", self.bits),
            FLOAT => format!("PCM {}-bit float", self.bits),
            A_LAW => "A-law".to_string(),
            MU_LAW => "mu-law".to_string(),
            MS_ADPCM => "Microsoft ADPCM".to_string(),
            IMA_ADPCM => "IMA ADPCM".to_string(),
            MPEG_LAYER_3 => "mp3".to_string(),
            0x31 => "GSM 6.10".to_string(),
            0x45 | 0x64 => "G.726 ADPCM".to_string(),
            0x65 => "G.722".to_string(),
            0x50 => "MPEG audio layer I/II".to_string(),
            0x160..=0x163 => "Windows Media Audio".to_string(),
            0xff => "AAC".to_string(),
            tag => format!("format {tag:#06x}"),
        }
    }

    /// 16-bit data behind a header that claims 8 bits throughout. In 8-bit sound neighbouring bytes are alike; in 16-bit
    /// sound every second byte is a high byte (signed, small, slowly changing) and the others are all but random.
    fn refuse_false_8_bit(&self, data: &[u8]) -> Result<(), AudioError> {
        if self.tag != PCM || self.bits != 8 || data.len() < 512 {
            return Ok(());
        }
        let pairs: Vec<(u8, u8)> = data[..data.len().min(1 << 20)].chunks_exact(2).map(|p| (p[0], p[1])).collect();
        let n = pairs.len() as u64;
        // Distances on the circle of byte values: 0x00 and 0xFF are neighbours.
        let apart = |a: u8, b: u8| u64::from(a.wrapping_sub(b).min(b.wrapping_sub(a)));
        let step = |of: fn(&(u8, u8)) -> u8| pairs.windows(2).map(|w| apart(of(&w[0]), of(&w[1]))).sum::<u64>() / n;
        let size = |of: fn(&(u8, u8)) -> u8| pairs.iter().map(|p| apart(of(p), 0)).sum::<u64>() / n;
        let (low_step, high_step) = (step(|p| p.0), step(|p| p.1));
        if size(|p| p.1) < 64 && high_step < 16 && low_step > 2 * high_step + 16 {
            return Err(AudioError::Damaged(
                "its WAV header claims 8-bit samples, but the data are 16-bit".to_string(),
            ));
        }
        Ok(())
    }

    /// Appends the samples of whole frames.
    fn convert(&self, data: &[u8], out: &mut Vec<f32>) {
        match (self.tag, self.bits.div_ceil(8)) {
            (PCM, 1) => out.extend(data.iter().map(|&b| (f32::from(b) - 128.0) / 128.0)),
            (PCM, 2) => {
                out.extend(data.chunks_exact(2).map(|b| f32::from(i16::from_le_bytes([b[0], b[1]])) / 32_768.0))
            }
            (PCM, 3) => out.extend(
                data.chunks_exact(3).map(|b| (i32::from_le_bytes([0, b[0], b[1], b[2]]) >> 8) as f32 / 8_388_608.0),
            ),
            (PCM, _) => out.extend(
                data.chunks_exact(4).map(|b| i32::from_le_bytes([b[0], b[1], b[2], b[3]]) as f32 / 2_147_483_648.0),
            ),
            (FLOAT, 4) => out.extend(data.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]))),
            (FLOAT, _) => out.extend(
                data.chunks_exact(8)
                    .map(|b| f64::from_le_bytes([b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]]) as f32),
            ),
            (A_LAW, _) => out.extend(data.iter().map(|&b| a_law(b))),
            _ => out.extend(data.iter().map(|&b| mu_law(b))),
        }
    }
}

/// G.711 mu-law.
fn mu_law(b: u8) -> f32 {
    let b = !b;
    let magnitude = ((i32::from(b & 0x0f) << 3) + 0x84) << ((b >> 4) & 7);
    let value = magnitude - 0x84;
    (if b & 0x80 != 0 { -value } else { value }) as f32 / 32_768.0
}

/// G.711 A-law.
fn a_law(b: u8) -> f32 {
    let b = b ^ 0x55;
    let mantissa = i32::from(b & 0x0f) << 4;
    let value = match (b >> 4) & 7 {
        0 => mantissa + 8,
        exponent => (mantissa + 0x108) << (exponent - 1),
    };
    (if b & 0x80 != 0 { value } else { -value }) as f32 / 32_768.0
}

/// A plain WAV around the same format and data, for codings that the library decodes.
fn rebuild(fmt: &[u8], data: &[u8]) -> Vec<u8> {
    let size = |n: usize| u32::try_from(n).unwrap_or(u32::MAX).to_le_bytes();
    let mut out = Vec::with_capacity(data.len() + fmt.len() + 28);
    out.extend_from_slice(b"RIFF");
    out.extend_from_slice(&size(4 + 8 + fmt.len() + fmt.len() % 2 + 8 + data.len()));
    out.extend_from_slice(b"WAVEfmt ");
    out.extend_from_slice(&size(fmt.len()));
    out.extend_from_slice(fmt);
    out.resize(out.len() + fmt.len() % 2, 0);
    out.extend_from_slice(b"data");
    out.extend_from_slice(&size(data.len()));
    out.extend_from_slice(data);
    out
}

#[cfg(test)]
mod tests;
