//! Typed access to a header's key-value pairs; every refusal names the key.

use crate::engine::models::ModelError;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A metadata value. Integers are widened; arrays keep one type.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Unsigned(u64),
    Signed(i64),
    Float(f64),
    Bool(bool),
    Text(String),
    Integers(Vec<i64>),
    Floats(Vec<f32>),
    Bools(Vec<bool>),
    Texts(Vec<String>),
}

impl Value {
    /// What it is, for messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Value::Unsigned(_) | Value::Signed(_) => "a whole number",
            Value::Float(_) => "a real number",
            Value::Bool(_) => "true/false",
            Value::Text(_) => "a string",
            Value::Integers(_) => "a list of whole numbers",
            Value::Floats(_) => "a list of real numbers",
            Value::Bools(_) => "a list of true/false",
            Value::Texts(_) => "a list of strings",
        }
    }
}

/// The key-value pairs of one file.
#[derive(Debug, Clone, PartialEq)]
pub struct Metadata {
    pub(super) path: PathBuf,
    pub(super) values: BTreeMap<String, Value>,
}

impl Metadata {
    /// The pairs of the file at `path` (the path is for messages).
    pub fn new(path: &Path, values: BTreeMap<String, Value>) -> Self {
        Metadata { path: path.to_path_buf(), values }
    }

    /// The file they came from.
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn get(&self, key: &str) -> Option<&Value> {
        self.values.get(key)
    }

    /// A refusal of the file because of `key`.
    pub fn bad(&self, key: &str, why: impl std::fmt::Display) -> ModelError {
        ModelError::BadFile(format!("{}: metadata key `{key}` {why}", self.path.display()))
    }

    fn need<T>(&self, key: &str, value: Option<T>) -> Result<T, ModelError> {
        value.ok_or_else(|| self.bad(key, "is missing: this model cannot be served without it"))
    }

    fn other<T>(&self, key: &str, expected: &str, found: &Value) -> Result<T, ModelError> {
        Err(self.bad(key, format!("is {}, expected {expected}", found.kind())))
    }

    /// A non-negative whole number, if the key is there.
    pub fn opt_count(&self, key: &str) -> Result<Option<usize>, ModelError> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Unsigned(n)) => {
                usize::try_from(*n).map(Some).map_err(|_| self.bad(key, format!("is {n}: too large")))
            }
            Some(Value::Signed(n)) => {
                usize::try_from(*n).map(Some).map_err(|_| self.bad(key, format!("is {n}, expected 0 or more")))
            }
            Some(v) => self.other(key, "a whole number", v),
        }
    }

    pub fn count(&self, key: &str) -> Result<usize, ModelError> {
        let value = self.opt_count(key)?;
        self.need(key, value)
    }

    /// A whole number within `1..=max`.
    pub fn count_within(&self, key: &str, max: usize) -> Result<usize, ModelError> {
        let n = self.count(key)?;
        if n == 0 || n > max {
            return Err(self.bad(key, format!("is {n}, expected 1 to {max}")));
        }
        Ok(n)
    }

    /// A finite real number, if the key is there.
    pub fn opt_float(&self, key: &str) -> Result<Option<f32>, ModelError> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Float(f)) if f.is_finite() => Ok(Some(*f as f32)),
            Some(Value::Float(f)) => Err(self.bad(key, format!("is {f}, expected a finite number"))),
            Some(v) => self.other(key, "a real number", v),
        }
    }

    pub fn float(&self, key: &str) -> Result<f32, ModelError> {
        let value = self.opt_float(key)?;
        self.need(key, value)
    }

    pub fn opt_bool(&self, key: &str) -> Result<Option<bool>, ModelError> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Bool(b)) => Ok(Some(*b)),
            Some(v) => self.other(key, "true/false", v),
        }
    }

    pub fn opt_text(&self, key: &str) -> Result<Option<&str>, ModelError> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Text(s)) => Ok(Some(s)),
            Some(v) => self.other(key, "a string", v),
        }
    }

    pub fn text(&self, key: &str) -> Result<&str, ModelError> {
        let value = self.opt_text(key)?;
        self.need(key, value)
    }

    pub fn opt_texts(&self, key: &str) -> Result<Option<&[String]>, ModelError> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Texts(v)) => Ok(Some(v)),
            Some(v) => self.other(key, "a list of strings", v),
        }
    }

    pub fn texts(&self, key: &str) -> Result<&[String], ModelError> {
        let value = self.opt_texts(key)?;
        self.need(key, value)
    }

    pub fn opt_integers(&self, key: &str) -> Result<Option<&[i64]>, ModelError> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Integers(v)) => Ok(Some(v)),
            Some(v) => self.other(key, "a list of whole numbers", v),
        }
    }

    pub fn opt_floats(&self, key: &str) -> Result<Option<&[f32]>, ModelError> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Floats(v)) => Ok(Some(v)),
            Some(v) => self.other(key, "a list of real numbers", v),
        }
    }

    /// A token id below `vocab`, if the key is there.
    pub fn opt_token(&self, key: &str, vocab: usize) -> Result<Option<u32>, ModelError> {
        match self.opt_count(key)? {
            None => Ok(None),
            Some(id) if id < vocab => Ok(Some(id as u32)),
            Some(id) => Err(self.bad(key, format!("is {id}, but the vocabulary has {vocab} tokens"))),
        }
    }
}
