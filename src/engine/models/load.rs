//! From a model's files to a loaded model, by family.

use super::{LoadedModel, ModelError};
use crate::profile::{Family, FileRole, ModelProfile};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Loads the model of `profile` from its files. Takes seconds and as much memory as the weights: call it on the thread
/// that will run the model.
pub fn load(profile: &ModelProfile, files: &BTreeMap<FileRole, PathBuf>) -> Result<LoadedModel, ModelError> {
    match profile.family {
        Family::Whisper | Family::Llama | Family::Bert => {
            let _ = files;
            Err(ModelError::Other(format!("family {} cannot be loaded by this build", profile.family.name())))
        }
    }
}
