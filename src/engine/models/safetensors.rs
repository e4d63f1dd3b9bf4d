//! Reads safetensors files one tensor at a time: the header is checked against the file's length first, and memory never
//! holds more than the tensor that is being read.
//!
//! Layout: `u64 n` (little-endian), `n` bytes of JSON `{"name": {"dtype", "shape", "data_offsets": [from, to]}, …}`, data.

use super::ModelError;
use candle_core::{DType, Device, Tensor};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// Longest accepted header; the format's own limit.
const MAX_HEADER: u64 = 100_000_000;

#[derive(Debug, Deserialize)]
struct Entry {
    dtype: String,
    shape: Vec<usize>,
    data_offsets: [u64; 2],
}

/// An open safetensors file.
pub struct Safetensors {
    path: PathBuf,
    file: File,
    data_start: u64,
    entries: BTreeMap<String, Entry>,
}

impl Safetensors {
    /// Opens `path` and checks that every tensor lies inside the file and has as many bytes as its shape needs.
    pub fn open(path: &Path) -> Result<Self, ModelError> {
        let bad = |what: String| ModelError::BadFile(format!("{}: {what}", path.display()));
        let mut file = File::open(path).map_err(|error| bad(error.to_string()))?;
        let length = file.metadata().map_err(|error| bad(error.to_string()))?.len();
        let mut prefix = [0u8; 8];
        if length < 8 || file.read_exact(&mut prefix).is_err() {
            return Err(bad(format!("{length} bytes are too few for a safetensors file")));
        }
        let header_length = u64::from_le_bytes(prefix);
        if header_length > MAX_HEADER || header_length > length - 8 {
            return Err(bad(format!(
                "not a safetensors file, or cut: its header would have {header_length} bytes, the file has {length}"
            )));
        }
        let mut header = vec![0u8; header_length as usize];
        file.read_exact(&mut header).map_err(|error| bad(error.to_string()))?;
        let entries = read_header(&header).map_err(|why| bad(format!("not a safetensors file: {why}")))?;
        let data_start = 8 + header_length;
        for (name, entry) in &entries {
            check(name, entry, data_start, length).map_err(bad)?;
        }
        Ok(Safetensors { path: path.to_path_buf(), file, data_start, entries })
    }

    pub fn contains(&self, name: &str) -> bool {
        self.entries.contains_key(name)
    }

    /// The shape of a tensor, if the file has it.
    pub fn shape(&self, name: &str) -> Option<&[usize]> {
        self.entries.get(name).map(|entry| entry.shape.as_slice())
    }

    /// Reads a tensor to the host, in the file's own number format.
    pub fn load(&mut self, name: &str) -> Result<Tensor, ModelError> {
        let bad = |what: String| ModelError::BadFile(format!("{}: {what}", self.path.display()));
        let entry = self.entries.get(name).ok_or_else(|| bad(format!("there is no tensor `{name}`")))?;
        let (dtype, _) = number_format(&entry.dtype)
            .ok_or_else(|| bad(format!("tensor `{name}` is {}, which is not supported", entry.dtype)))?;
        let [from, to] = entry.data_offsets;
        let mut bytes = vec![0u8; (to - from) as usize];
        let read =
            self.file.seek(SeekFrom::Start(self.data_start + from)).and_then(|_| self.file.read_exact(&mut bytes));
        read.map_err(|error| bad(format!("tensor `{name}`: {error}")))?;
        Ok(Tensor::from_raw_buffer(&bytes, dtype, &entry.shape, &Device::Cpu)?)
    }
}

fn read_header(bytes: &[u8]) -> Result<BTreeMap<String, Entry>, String> {
    let raw: BTreeMap<String, serde_json::Value> = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    let tensors = raw.into_iter().filter(|(name, _)| name != "__metadata__");
    tensors
        .map(|(name, value)| match serde_json::from_value(value) {
            Ok(entry) => Ok((name, entry)),
            Err(error) => Err(format!("tensor `{name}`: {error}")),
        })
        .collect()
}

fn check(name: &str, entry: &Entry, data_start: u64, length: u64) -> Result<(), String> {
    let [from, to] = entry.data_offsets;
    let end = data_start.checked_add(to);
    if from > to || end.is_none_or(|end| end > length) {
        let expected = end.map_or_else(|| "more".to_string(), |end| end.to_string());
        return Err(format!("tensor `{name}` ends at byte {expected}, the file has {length}: it is damaged or cut"));
    }
    // Formats that we do not read are let by: the file may hold more than the model needs.
    let Some((_, width)) = number_format(&entry.dtype) else { return Ok(()) };
    let elements = entry.shape.iter().try_fold(1u64, |product, dim| product.checked_mul(*dim as u64));
    let needed = elements.and_then(|elements| elements.checked_mul(width));
    if needed != Some(to - from) {
        return Err(format!(
            "tensor `{name}` has {} bytes, its shape {:?} of {} needs {}",
            to - from,
            entry.shape,
            entry.dtype,
            needed.map_or_else(|| "more than there can be".to_string(), |n| n.to_string())
        ));
    }
    Ok(())
}

/// The number format and its bytes per element.
fn number_format(name: &str) -> Option<(DType, u64)> {
    Some(match name {
        "F32" => (DType::F32, 4),
        "F16" => (DType::F16, 2),
        "BF16" => (DType::BF16, 2),
        "F64" => (DType::F64, 8),
        "I64" => (DType::I64, 8),
        "U32" => (DType::U32, 4),
        "U8" => (DType::U8, 1),
        _ => return None,
    })
}

#[cfg(test)]
pub(crate) mod testing {
    //! Writes small safetensors files for tests.

    use std::path::Path;

    /// Writes f32 tensors.
    pub(crate) fn write(path: &Path, tensors: &[(&str, &[usize], Vec<f32>)]) {
        let (mut header, mut data) = (serde_json::Map::new(), Vec::new());
        for (name, shape, values) in tensors {
            let from = data.len();
            data.extend(values.iter().flat_map(|value| value.to_le_bytes()));
            let entry = serde_json::json!({ "dtype": "F32", "shape": shape, "data_offsets": [from, data.len()] });
            header.insert(name.to_string(), entry);
        }
        let header = serde_json::to_vec(&header).unwrap();
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend(header);
        bytes.extend(data);
        std::fs::write(path, bytes).unwrap();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("lanekeeper-safetensors-{}-{name}", std::process::id()))
    }

    fn opened(name: &str, bytes: &[u8]) -> String {
        let path = file(name);
        std::fs::write(&path, bytes).unwrap();
        let result = Safetensors::open(&path).map(drop);
        std::fs::remove_file(&path).unwrap();
        result.unwrap_err().to_string()
    }

    #[test]
    fn what_is_written_is_read() {
        let path = file("round");
        testing::write(&path, &[("a", &[2, 2], vec![1.0, 2.0, 3.0, 4.0]), ("b", &[1], vec![5.0])]);
        let mut tensors = Safetensors::open(&path).unwrap();
        assert_eq!(tensors.shape("a"), Some(&[2, 2][..]));
        assert_eq!(tensors.load("a").unwrap().to_vec2::<f32>().unwrap(), [[1.0, 2.0], [3.0, 4.0]]);
        assert_eq!(tensors.load("b").unwrap().to_vec1::<f32>().unwrap(), [5.0]);
        assert!(tensors.load("c").unwrap_err().to_string().contains("no tensor `c`"));
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn damaged_files_say_what_is_wrong() {
        assert!(opened("empty", b"").contains("0 bytes are too few"));
        assert!(opened("html", b"<!doctype html><html>").contains("not a safetensors file"));
        assert!(opened("json", b"\x04\0\0\0\0\0\0\0nope").contains("not a safetensors file"));
        let header = br#"{"w":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}}"#;
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend(header);
        bytes.extend([0u8; 15]);
        let end = 8 + header.len() + 16;
        let message = opened("cut", &bytes);
        assert!(message.contains(&format!("tensor `w` ends at byte {end}, the file has {}", end - 1)), "{message}");
        let wrong = br#"{"w":{"dtype":"F32","shape":[5],"data_offsets":[0,16]}}"#;
        let mut bytes = (wrong.len() as u64).to_le_bytes().to_vec();
        bytes.extend(wrong);
        bytes.extend([0u8; 16]);
        assert!(opened("shape", &bytes).contains("tensor `w` has 16 bytes, its shape [5] of F32 needs 20"));
    }
}
