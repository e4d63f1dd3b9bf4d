//! Tensors out of an opened file.

use super::header::{Gguf, TensorInfo};
use crate::engine::models::ModelError;
use crate::engine::models::backend::HostWeight;
use candle_core::quantized::ggml_file::qtensor_from_ggml;
use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{Device, Tensor};
use std::fs::File;
use std::io::{Cursor, Read, Seek, SeekFrom};
use std::sync::Arc;

/// Where a file's bytes are.
trait Bytes: Read + Seek {}
impl<T: Read + Seek> Bytes for T {}

/// Reads tensors of one file, on the host.
pub struct TensorReader<'a> {
    gguf: &'a Gguf,
    file: Box<dyn Bytes + 'a>,
}

impl<'a> TensorReader<'a> {
    pub fn new(gguf: &'a Gguf) -> Result<Self, ModelError> {
        let file = File::open(&gguf.path)
            .map_err(|e| ModelError::BadFile(format!("{}: cannot open: {e}", gguf.path.display())))?;
        Ok(TensorReader { gguf, file: Box::new(file) })
    }

    /// The same of a file that is in memory as a whole.
    pub fn of_bytes(gguf: &'a Gguf, bytes: &'a [u8]) -> Self {
        TensorReader { gguf, file: Box::new(Cursor::new(bytes)) }
    }

    fn bad(&self, name: &str, why: impl std::fmt::Display) -> ModelError {
        ModelError::BadFile(format!("{}: tensor `{name}` {why}", self.gguf.path.display()))
    }

    /// Whether the file has `name`.
    pub fn has(&self, name: &str) -> bool {
        self.gguf.tensors.contains_key(name)
    }

    /// Shape of `name`, outermost first, if the file has it.
    pub fn shape(&self, name: &str) -> Option<&[usize]> {
        self.gguf.tensors.get(name).map(|t| t.shape.as_slice())
    }

    /// The tensor `name`, which must have `shape`.
    pub fn read(&mut self, name: &str, shape: &[usize]) -> Result<QTensor, ModelError> {
        let info: &TensorInfo = self
            .gguf
            .tensors
            .get(name)
            .ok_or_else(|| self.bad(name, "is missing: this model cannot be served without it"))?;
        if info.shape != shape {
            return Err(self.bad(name, format!("has shape {:?}, the metadata call for {shape:?}", info.shape)));
        }
        let mut data = vec![0u8; info.bytes as usize];
        self.file
            .seek(SeekFrom::Start(info.offset))
            .and_then(|_| self.file.read_exact(&mut data))
            .map_err(|e| self.bad(name, format!("cannot be read at offset {}: {e}", info.offset)))?;
        Ok(qtensor_from_ggml(info.dtype, &data, info.shape.clone(), &Device::Cpu)?)
    }

    /// A matrix `[out, in]` as a back end takes it: blocks stay blocks, floats become a plain tensor.
    pub fn weight(&mut self, name: &str, out: usize, input: usize) -> Result<HostWeight, ModelError> {
        host_weight(self.read(name, &[out, input])?)
    }

    /// A vector of `len` values as f32.
    pub fn vector(&mut self, name: &str, len: usize) -> Result<Tensor, ModelError> {
        Ok(self.read(name, &[len])?.dequantize(&Device::Cpu)?)
    }

    /// A vector of `len` values if the file has it.
    pub fn opt_vector(&mut self, name: &str, len: usize) -> Result<Option<Tensor>, ModelError> {
        if self.has(name) { self.vector(name, len).map(Some) } else { Ok(None) }
    }
}

/// A tensor as a back end takes it.
pub fn host_weight(tensor: QTensor) -> Result<HostWeight, ModelError> {
    Ok(match tensor.dtype() {
        GgmlDType::F32 | GgmlDType::F16 | GgmlDType::BF16 => HostWeight::Plain(tensor.dequantize(&Device::Cpu)?),
        _ => HostWeight::Quantized(Arc::new(tensor)),
    })
}
