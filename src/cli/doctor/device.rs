//! The compute devices: what the profile asks for, what this build can use, and the driver that is here.

use super::Finding;
use crate::profile::{BoxProfile, DeviceChoice};
use std::path::Path;

/// Where NVIDIA's kernel driver tells of itself.
const NVIDIA: &str = "/proc/driver/nvidia";

/// Each device that the profile's models ask for.
pub fn devices(profile: &BoxProfile) -> Vec<Finding> {
    let mut choices: Vec<DeviceChoice> = profile.models.iter().map(|model| model.device).collect();
    choices.dedup();
    let driver = driver(Path::new(NVIDIA));
    let (cuda, metal) = (candle_core::utils::cuda_is_available(), candle_core::utils::metal_is_available());
    choices.into_iter().map(|choice| device(choice, driver.as_deref(), cuda, metal)).collect()
}

fn device(choice: DeviceChoice, driver: Option<&str>, cuda: bool, metal: bool) -> Finding {
    const BUILD: &str = "build with `cargo build --release --features cuda`, or set device: cpu";
    match (choice, driver) {
        (DeviceChoice::Cuda(n), None) => {
            let detail = format!("cuda:{n} is asked for, and no NVIDIA driver is loaded here");
            Finding::fail("device", detail, "install the driver, or set device: cpu")
        }
        (DeviceChoice::Cuda(n), Some(driver)) if !cuda => {
            Finding::fail("device", format!("cuda:{n} is asked for; {driver}, but this build has no CUDA"), BUILD)
        }
        (DeviceChoice::Cuda(n), Some(driver)) => Finding::ok("device", format!("cuda:{n}; {driver}")),
        (DeviceChoice::Metal(n), _) if !metal => {
            let detail = format!("metal:{n} is asked for, and this build or machine has no Metal");
            Finding::fail("device", detail, "set device: cpu")
        }
        (DeviceChoice::Metal(n), _) => Finding::ok("device", format!("metal:{n}")),
        (DeviceChoice::Auto, Some(driver)) if cuda => Finding::ok("device", format!("cuda:0; {driver}")),
        (DeviceChoice::Auto, Some(driver)) => {
            Finding::warn("device", format!("cpu: {driver}, but this build has no CUDA"), BUILD)
        }
        (DeviceChoice::Auto, None) if metal => Finding::ok("device", "metal:0"),
        (DeviceChoice::Auto | DeviceChoice::Cpu, _) => Finding::ok("device", "cpu"),
    }
}

/// The NVIDIA driver and its GPUs, in words; `None` where none is loaded.
fn driver(folder: &Path) -> Option<String> {
    let version = std::fs::read_to_string(folder.join("version")).ok()?;
    let words = version.lines().next().unwrap_or("").split_whitespace();
    let number = words.into_iter().find(|word| word.contains('.') && word.starts_with(|c: char| c.is_ascii_digit()));
    let mut gpus: Vec<String> = std::fs::read_dir(folder.join("gpus"))
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|gpu| {
            let text = std::fs::read_to_string(gpu.path().join("information")).ok()?;
            text.lines().find_map(|line| line.strip_prefix("Model:")).map(|name| name.trim().to_string())
        })
        .collect();
    gpus.sort();
    let gpus = if gpus.is_empty() { "no GPU that it knows".to_string() } else { gpus.join(", ") };
    Some(format!("NVIDIA driver {} with {gpus}", number.unwrap_or("of an unknown version")))
}

#[cfg(test)]
mod tests {
    use super::super::Grade;
    use super::*;

    #[test]
    fn the_driver_is_read_from_its_own_words() {
        let folder = std::env::temp_dir().join(format!("lk-driver-{}", std::process::id()));
        assert_eq!(driver(&folder), None);
        let gpu = folder.join("gpus/0000:01:00.0");
        std::fs::create_dir_all(&gpu).unwrap();
        let version = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.14  Thu Feb 22\nGCC version: 12\n";
        std::fs::write(folder.join("version"), version).unwrap();
        std::fs::write(gpu.join("information"), "Model: \t\t NVIDIA H200\nIRQ: 5\n").unwrap();
        assert_eq!(driver(&folder).unwrap(), "NVIDIA driver 550.54.14 with NVIDIA H200");
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn what_is_asked_for_and_not_there_fails_and_what_lies_idle_is_a_warning() {
        let of = |choice, driver: bool, cuda| device(choice, driver.then_some("driver 1"), cuda, false).grade;
        assert_eq!(of(DeviceChoice::Cuda(0), false, false), Grade::Fail);
        assert_eq!(of(DeviceChoice::Cuda(0), true, false), Grade::Fail);
        assert_eq!(of(DeviceChoice::Cuda(0), true, true), Grade::Ok);
        assert_eq!(of(DeviceChoice::Auto, true, false), Grade::Warn);
        assert_eq!(of(DeviceChoice::Auto, false, false), Grade::Ok);
        assert_eq!(of(DeviceChoice::Cpu, true, false), Grade::Ok);
        assert_eq!(of(DeviceChoice::Metal(0), false, false), Grade::Fail);
    }
}
