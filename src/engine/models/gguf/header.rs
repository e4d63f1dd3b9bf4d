//! The header of a GGUF file, read within bounds.

use super::metadata::{Metadata, Value};
use super::reader::Reader;
use super::sniff::looks_like;
use crate::engine::models::ModelError;
use candle_core::quantized::GgmlDType;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

/// Most bytes that a header may take. The largest vocabularies in use (256 k tokens with merges) need about 20 MB.
pub const MAX_HEADER_BYTES: u64 = 64 << 20;
/// Most elements of one numeric array.
const MAX_NUMBERS: u64 = 4 << 20;
const MAX_DIMS: u32 = 4;
const DEFAULT_ALIGNMENT: u64 = 32;

/// Where a tensor lies and what it is.
#[derive(Debug, Clone, PartialEq)]
pub struct TensorInfo {
    /// Outermost first: `[out, in]` for a matrix.
    pub shape: Vec<usize>,
    pub dtype: GgmlDType,
    /// Absolute offset in the file.
    pub offset: u64,
    pub bytes: u64,
}

/// An opened file: its metadata and the places of its tensors, all of which lie inside the file.
#[derive(Debug)]
pub struct Gguf {
    pub path: PathBuf,
    pub metadata: Metadata,
    pub tensors: BTreeMap<String, TensorInfo>,
}

/// Opens `path` and reads its header; refuses anything that is not a whole GGUF file.
pub fn open(path: &Path) -> Result<Gguf, ModelError> {
    let file = File::open(path).map_err(|e| ModelError::BadFile(format!("{}: cannot open: {e}", path.display())))?;
    let meta = file.metadata().map_err(|e| ModelError::BadFile(format!("{}: {e}", path.display())))?;
    if !meta.is_file() {
        return Err(ModelError::BadFile(format!("{}: not a regular file", path.display())));
    }
    read(BufReader::with_capacity(1 << 16, file), path, meta.len())
}

/// Reads a header from `inner`, the start of a file of `file_bytes`.
pub(crate) fn read(inner: impl Read, path: &Path, file_bytes: u64) -> Result<Gguf, ModelError> {
    let mut r = Reader::new(inner, path, file_bytes, MAX_HEADER_BYTES);
    if file_bytes == 0 {
        return Err(ModelError::BadFile(format!("{}: the file is empty (0 bytes)", path.display())));
    }
    let head = r.bytes(file_bytes.min(16))?;
    if !head.starts_with(b"GGUF") {
        return Err(ModelError::BadFile(format!("{}: not a GGUF file: {}", path.display(), looks_like(&head))));
    }
    r.what = "the file header".into();
    if head.len() < 16 {
        return Err(r.bad(format!("needs 24 bytes, the file has {file_bytes}: it is cut short")));
    }
    let version = u32::from_le_bytes([head[4], head[5], head[6], head[7]]);
    if !(2..=3).contains(&version) {
        let hint = if version.swap_bytes() <= 3 { " (a big-endian file)" } else { "" };
        return Err(r.bad(format!("GGUF version {version}{hint}, expected 2 or 3")));
    }
    let tensor_count =
        u64::from_le_bytes([head[8], head[9], head[10], head[11], head[12], head[13], head[14], head[15]]);
    let pair_count = r.u64()?;
    // Smallest entry: an empty name (8), a type (4) and one byte; for a tensor no dimension, type and offset.
    let least = pair_count.saturating_mul(13).saturating_add(tensor_count.saturating_mul(24));
    if least > r.remaining() {
        return Err(r.bad(format!(
            "claims {pair_count} metadata entries and {tensor_count} tensors, which need at least {least} bytes; \
             {} are left in the file",
            r.remaining()
        )));
    }

    let mut values = BTreeMap::new();
    for i in 0..pair_count {
        r.what = format!("metadata entry {} of {pair_count}", i + 1);
        let key = r.string()?;
        r.what = format!("metadata key `{}`", shorten(&key));
        let kind = r.u32()?;
        let value = read_value(&mut r, kind)?;
        if values.insert(key, value).is_some() {
            return Err(r.bad("occurs twice"));
        }
    }
    let metadata = Metadata::new(path, values);

    let mut found = Vec::new();
    for i in 0..tensor_count {
        r.what = format!("tensor entry {} of {tensor_count}", i + 1);
        let name = r.string()?;
        r.what = format!("tensor `{}`", shorten(&name));
        let entry = read_tensor(&mut r)?;
        found.push((name, entry));
    }
    let alignment = match metadata.opt_count("general.alignment")? {
        None => DEFAULT_ALIGNMENT,
        Some(a) if a > 0 && a.is_power_of_two() && a <= 1 << 20 => a as u64,
        Some(a) => return Err(metadata.bad("general.alignment", format!("is {a}, expected a power of two"))),
    };
    let data_start = r.position().div_ceil(alignment).saturating_mul(alignment);
    let tensors = place(path, found, data_start, file_bytes)?;
    Ok(Gguf { path: path.to_path_buf(), metadata, tensors })
}

/// Gives tensors their absolute places; refuses a file that does not hold one of them whole.
fn place(
    path: &Path,
    mut found: Vec<(String, TensorInfo)>,
    data_start: u64,
    file_bytes: u64,
) -> Result<BTreeMap<String, TensorInfo>, ModelError> {
    // In file order, so that the first tensor named is the first that is cut.
    found.sort_by_key(|(_, t)| t.offset);
    let whole = found.iter().map(|(_, t)| end_of(data_start, t)).max().unwrap_or(data_start);
    let mut tensors = BTreeMap::new();
    for (name, mut t) in found {
        let begin = data_start.saturating_add(t.offset);
        if end_of(data_start, &t) > file_bytes {
            return Err(ModelError::BadFile(format!(
                "{}: tensor `{}` needs {} bytes at offset {begin}, {} are present: the file is cut short ({file_bytes} \
                 of at least {whole} bytes); fetch it again",
                path.display(),
                shorten(&name),
                t.bytes,
                file_bytes.saturating_sub(begin).min(t.bytes),
            )));
        }
        t.offset = begin;
        let shown = shorten(&name);
        if tensors.insert(name, t).is_some() {
            return Err(ModelError::BadFile(format!("{}: tensor `{shown}` occurs twice", path.display())));
        }
    }
    Ok(tensors)
}

fn end_of(data_start: u64, t: &TensorInfo) -> u64 {
    data_start.saturating_add(t.offset).saturating_add(t.bytes)
}

fn read_tensor<R: Read>(r: &mut Reader<'_, R>) -> Result<TensorInfo, ModelError> {
    let dims = r.u32()?;
    if dims > MAX_DIMS {
        return Err(r.bad(format!("has {dims} dimensions, at most {MAX_DIMS} are possible")));
    }
    let mut shape = Vec::with_capacity(dims as usize);
    let mut elements: u64 = 1;
    for _ in 0..dims {
        let d = r.u64()?;
        elements = elements.checked_mul(d).ok_or_else(|| r.bad(format!("has a dimension of {d}")))?;
        shape.push(usize::try_from(d).map_err(|_| r.bad(format!("has a dimension of {d}")))?);
    }
    shape.reverse();
    let id = r.u32()?;
    let dtype = dtype_of(id).ok_or_else(|| {
        r.bad(format!("is of number type {id}, which is not known here (Q4_0 to Q8_1, K-quants and floats are)"))
    })?;
    let block = dtype.block_size() as u64;
    let row = shape.last().copied().unwrap_or(1) as u64;
    if !row.is_multiple_of(block) || !elements.is_multiple_of(block) {
        return Err(r.bad(format!("has rows of {row} values, not a multiple of its type's block of {block}")));
    }
    let bytes =
        (elements / block).checked_mul(dtype.type_size() as u64).ok_or_else(|| r.bad("is larger than any file"))?;
    let offset = r.u64()?;
    Ok(TensorInfo { shape, dtype, offset, bytes })
}

/// The number types that candle holds, by their GGUF ids.
fn dtype_of(id: u32) -> Option<GgmlDType> {
    Some(match id {
        0 => GgmlDType::F32,
        1 => GgmlDType::F16,
        2 => GgmlDType::Q4_0,
        3 => GgmlDType::Q4_1,
        6 => GgmlDType::Q5_0,
        7 => GgmlDType::Q5_1,
        8 => GgmlDType::Q8_0,
        9 => GgmlDType::Q8_1,
        10 => GgmlDType::Q2K,
        11 => GgmlDType::Q3K,
        12 => GgmlDType::Q4K,
        13 => GgmlDType::Q5K,
        14 => GgmlDType::Q6K,
        15 => GgmlDType::Q8K,
        30 => GgmlDType::BF16,
        _ => return None,
    })
}

fn read_value<R: Read>(r: &mut Reader<'_, R>, kind: u32) -> Result<Value, ModelError> {
    Ok(match kind {
        0 | 2 | 4 | 10 => Value::Unsigned(read_integer(r, kind)? as u64),
        1 | 3 | 5 | 11 => Value::Signed(read_integer(r, kind)?),
        6 => Value::Float(f64::from(f32::from_le_bytes(r.array()?))),
        12 => Value::Float(f64::from_le_bytes(r.array()?)),
        7 => Value::Bool(read_bool(r)?),
        8 => Value::Text(r.string()?),
        9 => read_array(r)?,
        _ => return Err(r.bad(format!("is of value type {kind}, which GGUF does not have"))),
    })
}

/// An integer of any width; u64 values beyond i64 keep their bits.
fn read_integer<R: Read>(r: &mut Reader<'_, R>, kind: u32) -> Result<i64, ModelError> {
    Ok(match kind {
        0 => i64::from(r.array::<1>()?[0]),
        1 => i64::from(i8::from_le_bytes(r.array()?)),
        2 => i64::from(u16::from_le_bytes(r.array()?)),
        3 => i64::from(i16::from_le_bytes(r.array()?)),
        4 => i64::from(r.u32()?),
        5 => i64::from(i32::from_le_bytes(r.array()?)),
        _ => i64::from_le_bytes(r.array()?),
    })
}

fn read_bool<R: Read>(r: &mut Reader<'_, R>) -> Result<bool, ModelError> {
    match r.array::<1>()?[0] {
        0 => Ok(false),
        1 => Ok(true),
        b => Err(r.bad(format!("holds {b} where 0 or 1 is expected"))),
    }
}

fn read_array<R: Read>(r: &mut Reader<'_, R>) -> Result<Value, ModelError> {
    let kind = r.u32()?;
    let len = r.u64()?;
    let least = match kind {
        0 | 1 | 7 => 1,
        2 | 3 => 2,
        4..=6 => 4,
        8 | 10..=12 => 8,
        9 => return Err(r.bad("is a list of lists, which no known key needs")),
        _ => return Err(r.bad(format!("is a list of value type {kind}, which GGUF does not have"))),
    };
    r.need(len.saturating_mul(least))?;
    if kind != 8 && len > MAX_NUMBERS {
        return Err(r.bad(format!("is a list of {len} numbers, at most {MAX_NUMBERS} are accepted")));
    }
    let n = len as usize;
    Ok(match kind {
        6 => Value::Floats(collect(n, || Ok(f32::from_le_bytes(r.array()?)))?),
        12 => Value::Floats(collect(n, || Ok(f64::from_le_bytes(r.array()?) as f32))?),
        7 => Value::Bools(collect(n, || read_bool(r))?),
        8 => Value::Texts(collect(n, || r.string())?),
        _ => Value::Integers(collect(n, || read_integer(r, kind))?),
    })
}

fn collect<T>(n: usize, mut next: impl FnMut() -> Result<T, ModelError>) -> Result<Vec<T>, ModelError> {
    let mut out = Vec::with_capacity(n);
    for _ in 0..n {
        out.push(next()?);
    }
    Ok(out)
}

/// A name from a file that may be damaged, cut to what a message can bear.
fn shorten(name: &str) -> String {
    if name.chars().count() <= 80 { name.to_string() } else { name.chars().take(80).chain(['…']).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::models::gguf::testing::FileBuilder;
    use proptest::prelude::*;

    fn whole() -> Vec<u8> {
        FileBuilder::new()
            .text("general.architecture", "llama")
            .u32("llama.block_count", 2)
            .f32("llama.rope.freq_base", 1e4)
            .texts("tokenizer.ggml.tokens", &["a", "b"])
            .tensor("one", &[2, 4], 0, &[0u8; 32])
            .tensor("two", &[4], 0, &[0u8; 16])
            .build()
    }

    fn parse(data: &[u8]) -> Result<Gguf, ModelError> {
        read(data, Path::new("m.gguf"), data.len() as u64)
    }

    fn refusal(data: &[u8]) -> String {
        parse(data).expect_err("must be refused").to_string()
    }

    #[test]
    fn reads_what_was_written() {
        let g = parse(&whole()).expect("whole file");
        assert_eq!(g.metadata.count("llama.block_count").expect("count"), 2);
        assert_eq!(g.metadata.texts("tokenizer.ggml.tokens").expect("tokens"), ["a", "b"]);
        assert_eq!(g.tensors["one"].shape, [2, 4]);
        assert_eq!(g.tensors["one"].bytes, 32);
        assert_eq!(g.tensors["two"].offset, g.tensors["one"].offset + 32);
    }

    #[test]
    fn empty_and_foreign_files_are_named() {
        assert!(refusal(b"").contains("empty (0 bytes)"));
        assert!(refusal(b"<html><body>404</body></html>").contains("web page"));
        assert!(refusal(b"GGUF").contains("cut short"));
    }

    #[test]
    fn one_byte_short_names_the_tensor_and_both_numbers() {
        let data = whole();
        let text = refusal(&data[..data.len() - 1]);
        assert!(text.contains("`two`") && text.contains("needs 16 bytes") && text.contains("15 are present"), "{text}");
    }

    #[test]
    fn absurd_counts_are_refused_before_allocation() {
        let mut data = whole();
        data[16..24].copy_from_slice(&(1u64 << 60).to_le_bytes());
        assert!(refusal(&data).contains("claims 1152921504606846976 metadata entries"));
        let list = FileBuilder::new().raw("k", 9, &[&8u32.to_le_bytes()[..], &(1u64 << 59).to_le_bytes()].concat());
        assert!(refusal(&list.build()).contains("metadata key `k`"));
    }

    #[test]
    fn alignment_zero_is_refused() {
        let data = FileBuilder::new().u32("general.alignment", 0).build();
        assert!(refusal(&data).contains("`general.alignment` is 0"));
    }

    #[test]
    fn duplicate_keys_and_unknown_types_are_refused() {
        assert!(refusal(&FileBuilder::new().u32("k", 1).u32("k", 2).build()).contains("occurs twice"));
        assert!(refusal(&FileBuilder::new().raw("k", 77, &[0; 8]).build()).contains("value type 77"));
        assert!(refusal(&FileBuilder::new().tensor("t", &[32], 999, &[0; 32]).build()).contains("number type 999"));
    }

    proptest! {
        /// Any damage to any byte, and any cut, is an answer and never a panic.
        #[test]
        fn damage_never_panics(at in 0usize..400, byte: u8, cut in 0usize..400) {
            let mut data = whole();
            let at = at % data.len();
            data[at] = byte;
            data.truncate(cut.min(data.len()));
            if let Err(e) = parse(&data) {
                prop_assert!(matches!(e, ModelError::BadFile(_)));
            }
        }
    }
}
