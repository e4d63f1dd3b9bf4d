//! CTranslate2's `model.bin`, version 6.
//!
//! Little-endian: `u32 version, str spec, u32 revision, u32 n`, then n variables `{str name, u8 rank, u32 dims[rank],
//! u8 dtype, u32 bytes, data}`, then aliases `{str, str}`; `str` is a u16 length (its NUL counted) and bytes. Fused
//! projections are split here, int8 tensors are scaled back to floats.

use super::weights::Weights;
use crate::engine::models::ModelError;
use candle_core::{DType, Device, Tensor};
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

const VERSION: u32 = 6;
const SPEC: &str = "WhisperSpec";

/// Whether the file starts as a CTranslate2 model does (a small version number, then a spec name).
pub fn is_ct2(head: &[u8]) -> bool {
    head.len() >= 6 && u32::from_le_bytes([head[0], head[1], head[2], head[3]]) < 100 && head[4] > 0 && head[5] == 0
}

/// Reads the model.
pub fn read(path: &Path) -> Result<Weights, ModelError> {
    let open = |e: std::io::Error| ModelError::BadFile(format!("{}: {e}", path.display()));
    let file = File::open(path).map_err(open)?;
    let len = file.metadata().map_err(open)?.len();
    let mut r = Reader { file: path.display().to_string(), inner: BufReader::new(file), at: 0, len };

    let version = r.u32("version")?;
    if version != VERSION {
        return Err(r.bad(format!("CTranslate2 format version {version}, expected {VERSION}")));
    }
    let spec = r.text("spec name")?;
    if spec != SPEC {
        return Err(r.bad(format!("a CTranslate2 model of kind `{spec}`, expected `{SPEC}`")));
    }
    r.u32("revision")?;
    let n = r.u32("number of variables")?;
    let mut raw: HashMap<String, Tensor> = HashMap::new();
    for i in 0..n {
        let (name, tensor) = r.variable(i, n)?;
        raw.insert(name, tensor);
    }
    let heads = |side: &str| -> Result<usize, ModelError> {
        let name = format!("{side}/num_heads");
        let t = raw.get(&name).ok_or_else(|| r.bad(format!("variable `{name}` is missing")))?;
        Ok(t.to_dtype(DType::U32)?.flatten_all()?.to_vec1::<u32>()?.first().copied().unwrap_or(0) as usize)
    };
    let heads = (heads("encoder")?, heads("decoder")?);

    let mut tensors = HashMap::new();
    for (name, t) in &raw {
        let Some((stem, parts, leaf)) = rename(name) else { continue };
        let t = match raw.get(&format!("{name}_scale")) {
            Some(scale) => unscale(t, scale)?,
            None => t.clone(),
        };
        if parts.is_empty() {
            tensors.insert(format!("{stem}.{leaf}"), t);
            continue;
        }
        let rows = t.dim(0)?;
        if rows % parts.len() != 0 {
            return Err(r.bad(format!("variable `{name}` has {rows} rows, not a multiple of {}", parts.len())));
        }
        let each = rows / parts.len();
        for (i, part) in parts.iter().enumerate() {
            // The key projection has no bias; the fused file carries zeros for it.
            if !(leaf == "bias" && *part == "k_proj") {
                tensors.insert(format!("{stem}.{part}.{leaf}"), t.narrow(0, i * each, each)?.contiguous()?);
            }
        }
    }
    Weights::new(path, tensors, heads)
}

/// The Hugging Face stem, the parts that a fused tensor splits into (none: not fused), and `weight` or `bias`.
fn rename(name: &str) -> Option<(String, &'static [&'static str], &'static str)> {
    let leaf = match name.rsplit('/').next()? {
        "weight" | "gamma" | "encodings" => "weight",
        "bias" | "beta" => "bias",
        _ => return None,
    };
    let parts: Vec<&str> = name.split('/').collect();
    let side = *parts.first().filter(|s| matches!(**s, "encoder" | "decoder"))?;
    let none: &[&str] = &[];
    let (stem, split) = match parts.get(1..parts.len() - 1)? {
        ["position_encodings"] => (format!("{side}.embed_positions"), none),
        ["embeddings"] => (format!("{side}.embed_tokens"), none),
        [one @ ("conv1" | "conv2" | "layer_norm")] => (format!("{side}.{one}"), none),
        [layer, block, sub] => {
            let i: usize = layer.strip_prefix("layer_")?.parse().ok()?;
            let at = format!("{side}.layers.{i}");
            match (*block, *sub) {
                ("self_attention", "layer_norm") => (format!("{at}.self_attn_layer_norm"), none),
                ("self_attention", "linear_0") => (format!("{at}.self_attn"), &["q_proj", "k_proj", "v_proj"][..]),
                ("self_attention", "linear_1") => (format!("{at}.self_attn.out_proj"), none),
                ("attention", "layer_norm") => (format!("{at}.encoder_attn_layer_norm"), none),
                ("attention", "linear_0") => (format!("{at}.encoder_attn.q_proj"), none),
                ("attention", "linear_1") => (format!("{at}.encoder_attn"), &["k_proj", "v_proj"][..]),
                ("attention", "linear_2") => (format!("{at}.encoder_attn.out_proj"), none),
                ("ffn", "layer_norm") => (format!("{at}.final_layer_norm"), none),
                ("ffn", "linear_0") => (format!("{at}.fc1"), none),
                ("ffn", "linear_1") => (format!("{at}.fc2"), none),
                _ => return None,
            }
        }
        _ => return None,
    };
    Some((stem, split, leaf))
}

/// int8 rows back to floats: `w = q / scale[row]`.
fn unscale(t: &Tensor, scale: &Tensor) -> Result<Tensor, ModelError> {
    let rows = t.dim(0)?;
    let mut shape = vec![1; t.rank()];
    shape[0] = rows;
    Ok(t.to_dtype(DType::F32)?.broadcast_div(&scale.to_dtype(DType::F32)?.reshape(shape)?)?)
}

struct Reader {
    file: String,
    inner: BufReader<File>,
    at: u64,
    len: u64,
}

impl Reader {
    fn bad(&self, what: String) -> ModelError {
        ModelError::BadFile(format!("{}: {what} (at byte {} of {})", self.file, self.at, self.len))
    }

    /// `n` bytes of `what`; says how much is missing when the file ends before.
    fn bytes(&mut self, n: u64, what: &str) -> Result<Vec<u8>, ModelError> {
        let left = self.len - self.at;
        if n > left {
            return Err(self.bad(format!("the file is cut or damaged: {what} needs {n} bytes, {left} are there")));
        }
        let mut buf = vec![0; usize::try_from(n).map_err(|_| self.bad(format!("{what} of {n} bytes")))?];
        self.inner.read_exact(&mut buf).map_err(|e| self.bad(format!("reading {what}: {e}")))?;
        self.at += n;
        Ok(buf)
    }

    fn u8(&mut self, what: &str) -> Result<u8, ModelError> {
        Ok(self.bytes(1, what)?[0])
    }

    fn u32(&mut self, what: &str) -> Result<u32, ModelError> {
        let b = self.bytes(4, what)?;
        Ok(u32::from_le_bytes([b[0], b[1], b[2], b[3]]))
    }

    fn text(&mut self, what: &str) -> Result<String, ModelError> {
        let b = self.bytes(2, what)?;
        let mut s = self.bytes(u64::from(u16::from_le_bytes([b[0], b[1]])), what)?;
        s.pop_if(|last| *last == 0);
        String::from_utf8(s).map_err(|_| self.bad(format!("{what} is not text")))
    }

    fn variable(&mut self, i: u32, n: u32) -> Result<(String, Tensor), ModelError> {
        let name = self.text(&format!("name of variable {i} of {n}"))?;
        let rank = self.u8(&format!("rank of `{name}`"))?;
        let mut shape = Vec::with_capacity(usize::from(rank));
        for _ in 0..rank {
            shape.push(self.u32(&format!("shape of `{name}`"))? as usize);
        }
        let dtype = self.u8(&format!("type of `{name}`"))?;
        let nbytes = u64::from(self.u32(&format!("size of `{name}`"))?);
        let (size, kind) = match dtype {
            0 => (4, Some(DType::F32)),
            1 => (1, None),
            2 => (2, Some(DType::I16)),
            3 => (4, Some(DType::I32)),
            4 => (2, Some(DType::F16)),
            5 => (2, Some(DType::BF16)),
            other => return Err(self.bad(format!("`{name}` has an unknown type id {other} (known: 0 to 5)"))),
        };
        let expected = shape.iter().try_fold(size as u64, |n, &d| n.checked_mul(d as u64));
        if expected != Some(nbytes) {
            let expected = expected.map_or("more than a file can hold".to_string(), |n| n.to_string());
            return Err(self.bad(format!("`{name}` of shape {shape:?} has {nbytes} bytes, expected {expected}")));
        }
        let data = self.bytes(nbytes, &format!("data of `{name}`"))?;
        let tensor = match kind {
            Some(dtype) => Tensor::from_raw_buffer(&data, dtype, &shape, &Device::Cpu)?,
            // int8: candle has no such type, i16 holds it.
            None => {
                let wide: Vec<i16> = data.iter().map(|&b| i16::from(b.cast_signed())).collect();
                Tensor::from_vec(wide, shape, &Device::Cpu)?
            }
        };
        Ok((name, tensor))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_translate() {
        for (ct2, hf, parts) in [
            ("encoder/conv1/weight", "encoder.conv1", 0),
            ("decoder/embeddings/weight", "decoder.embed_tokens", 0),
            ("decoder/position_encodings/encodings", "decoder.embed_positions", 0),
            ("encoder/layer_norm/gamma", "encoder.layer_norm", 0),
            ("encoder/layer_11/self_attention/linear_0/bias", "encoder.layers.11.self_attn", 3),
            ("decoder/layer_0/attention/linear_1/weight", "decoder.layers.0.encoder_attn", 2),
            ("decoder/layer_0/ffn/linear_1/weight", "decoder.layers.0.fc2", 0),
        ] {
            let (stem, split, _) = rename(ct2).unwrap();
            assert_eq!((stem.as_str(), split.len()), (hf, parts));
        }
        for other in ["encoder/num_heads", "decoder/projection", "decoder/embeddings/weight_scale", "x/conv1/weight"] {
            assert!(rename(other).is_none(), "{other}");
        }
    }

    fn file_of(bytes: &[u8]) -> (std::path::PathBuf, impl Drop) {
        struct Gone(std::path::PathBuf);
        impl Drop for Gone {
            fn drop(&mut self) {
                let _ = std::fs::remove_file(&self.0);
            }
        }
        use std::sync::atomic::{AtomicU32, Ordering};
        static N: AtomicU32 = AtomicU32::new(0);
        let n = N.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("lanekeeper-ct2-{}-{n}.bin", std::process::id()));
        std::fs::write(&path, bytes).unwrap();
        (path.clone(), Gone(path))
    }

    /// One f32 variable `x` of shape [2].
    fn small() -> Vec<u8> {
        let mut b = Vec::new();
        b.extend(6u32.to_le_bytes());
        b.extend(12u16.to_le_bytes());
        b.extend(b"WhisperSpec\0");
        b.extend(3u32.to_le_bytes());
        b.extend(1u32.to_le_bytes());
        b.extend(2u16.to_le_bytes());
        b.extend(b"x\0");
        b.push(1);
        b.extend(2u32.to_le_bytes());
        b.push(0);
        b.extend(8u32.to_le_bytes());
        b.extend([0; 8]);
        b
    }

    fn message(bytes: &[u8]) -> String {
        let (path, _gone) = file_of(bytes);
        match read(&path) {
            Err(ModelError::BadFile(m)) => m,
            Err(e) => panic!("another kind of error: {e}"),
            Ok(_) => panic!("accepted"),
        }
    }

    #[test]
    fn damage_is_located() {
        let whole = small();
        assert!(message(&whole).contains("`encoder/num_heads` is missing"));
        let m = message(&whole[..whole.len() - 3]);
        assert!(m.contains("data of `x` needs 8 bytes, 5 are there"), "{m}");
        let m = message(&[]);
        assert!(m.contains("version needs 4 bytes, 0 are there"), "{m}");
        let mut other = whole.clone();
        other[0] = 5;
        assert!(message(&other).contains("version 5, expected 6"));
        let mut sized = whole.clone();
        let at = whole.len() - 12;
        sized[at] = 9;
        assert!(message(&sized).contains("has 9 bytes, expected 8"));
        // Every cut is an error, never a panic.
        for n in 0..whole.len() {
            message(&whole[..n]);
        }
    }
}
