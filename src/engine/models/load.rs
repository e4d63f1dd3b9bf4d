//! From a model's files to a loaded model, by family, on the device that its profile names.

use super::backend::candle::CandleBackend;
use super::backend::cpu::CpuBackend;
use super::backend::{Backend, Precision};
use super::kernels::Compute;
use super::mtp::HeadFile;
use super::{LoadedModel, ModelError, bert, llama, whisper};
use crate::profile::{DType, DeviceChoice, Family, FileRole, ModelProfile};
use crate::pull::sha256_of;
use candle_core::Device;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// The threads of CPU work: one set for all models of the process, so that two models never ask for more than the cores
/// there are.
static CPU: OnceLock<Compute> = OnceLock::new();

/// Sets the number of threads for CPU work. To be called before the first model is loaded; later calls change nothing.
pub fn set_cpu_threads(threads: usize) {
    CPU.get_or_init(|| Compute::new(threads.max(1)));
}

fn cpu_compute() -> Compute {
    let cores = || std::thread::available_parallelism().map_or(1, |n| n.get());
    CPU.get_or_init(|| Compute::new(cores())).clone()
}

/// What a device is, in words: the kernels in use on a CPU. `id` is `cpu`, `cuda:0`, `metal:0`.
pub fn describe_device(id: &str) -> String {
    if id == "cpu" { CpuBackend::with_compute(cpu_compute()).describe() } else { id.to_string() }
}

/// Loads the model of `profile` from its files. Takes seconds and as much memory as the weights: call it on the thread
/// that will run the model.
pub fn load(profile: &ModelProfile, files: &BTreeMap<FileRole, PathBuf>) -> Result<LoadedModel, ModelError> {
    load_telling(profile, files, &mut |_| {})
}

/// The same; `progress` is told how much of it is done, 0..=1, never less than before.
pub fn load_telling(
    profile: &ModelProfile,
    files: &BTreeMap<FileRole, PathBuf>,
    progress: &mut dyn FnMut(f64),
) -> Result<LoadedModel, ModelError> {
    match device(profile.device)? {
        Device::Cpu => load_on(profile, files, Arc::new(CpuBackend::with_compute(cpu_compute())), progress),
        device => load_on(profile, files, Arc::new(CandleBackend::new(device)), progress),
    }
}

fn load_on<B: Backend>(
    profile: &ModelProfile,
    files: &BTreeMap<FileRole, PathBuf>,
    backend: Arc<B>,
    progress: &mut dyn FnMut(f64),
) -> Result<LoadedModel, ModelError> {
    match profile.family {
        Family::Llama => {
            let settings = profile.generation.as_ref().ok_or_else(|| {
                ModelError::Other(format!("profile {}: a model that generates needs `generation`", profile.id))
            })?;
            let weights = file(profile, files, FileRole::Weights)?;
            let head = match &profile.draft_head {
                Some(named) => Some(HeadFile::open(named, &digest(profile, weights)?)?),
                None => None,
            };
            llama::load(weights, settings, head.as_ref(), backend, progress)
        }
        Family::Bert => bert::load(profile, files, backend, progress),
        Family::Whisper => whisper::load(
            file(profile, files, FileRole::Weights)?,
            file(profile, files, FileRole::Tokenizer)?,
            files.get(&FileRole::Config).map(PathBuf::as_path),
            precision(profile.dtype),
            backend,
            progress,
        ),
    }
}

/// The sha256 of the weights: what they were checked against when they were fetched, else of the file as it is.
fn digest(profile: &ModelProfile, weights: &Path) -> Result<String, ModelError> {
    match profile.files.get(&FileRole::Weights).and_then(|file| file.sha256.clone()) {
        Some(pinned) => Ok(pinned),
        None => sha256_of(weights).map_err(|e| ModelError::BadFile(format!("{}: {e}", weights.display()))),
    }
}

/// How a speech model's floats are held.
fn precision(dtype: DType) -> Precision {
    match dtype {
        DType::Int8 => Precision::Int8,
        _ => Precision::AsIs,
    }
}

fn file<'a>(
    profile: &ModelProfile,
    files: &'a BTreeMap<FileRole, PathBuf>,
    role: FileRole,
) -> Result<&'a Path, ModelError> {
    files
        .get(&role)
        .map(PathBuf::as_path)
        .ok_or_else(|| ModelError::Other(format!("profile {}: no file for its {role:?}", profile.id)))
}

/// The candle device of a choice; a GPU that is asked for by name and missing is an error.
fn device(choice: DeviceChoice) -> Result<Device, ModelError> {
    Ok(match choice {
        DeviceChoice::Cpu => Device::Cpu,
        DeviceChoice::Cuda(n) => Device::new_cuda(n)?,
        DeviceChoice::Metal(n) => Device::new_metal(n)?,
        DeviceChoice::Auto if candle_core::utils::cuda_is_available() => Device::new_cuda(0)?,
        DeviceChoice::Auto if candle_core::utils::metal_is_available() => Device::new_metal(0)?,
        DeviceChoice::Auto => Device::Cpu,
    })
}
