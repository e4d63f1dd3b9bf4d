//! Writes small GGUF files for tests.

/// Builds a file key by key and tensor by tensor.
#[derive(Default, Clone)]
pub(crate) struct FileBuilder {
    pairs: Vec<u8>,
    pair_count: u64,
    tensors: Vec<u8>,
    tensor_count: u64,
    data: Vec<u8>,
}

impl FileBuilder {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    fn string(out: &mut Vec<u8>, s: &str) {
        out.extend((s.len() as u64).to_le_bytes());
        out.extend(s.as_bytes());
    }

    /// A pair with a raw value of type `kind`.
    pub(crate) fn raw(mut self, key: &str, kind: u32, value: &[u8]) -> Self {
        Self::string(&mut self.pairs, key);
        self.pairs.extend(kind.to_le_bytes());
        self.pairs.extend(value);
        self.pair_count += 1;
        self
    }

    pub(crate) fn u32(self, key: &str, v: u32) -> Self {
        self.raw(key, 4, &v.to_le_bytes())
    }

    pub(crate) fn f32(self, key: &str, v: f32) -> Self {
        self.raw(key, 6, &v.to_le_bytes())
    }

    pub(crate) fn bool(self, key: &str, v: bool) -> Self {
        self.raw(key, 7, &[u8::from(v)])
    }

    pub(crate) fn text(self, key: &str, v: &str) -> Self {
        let mut value = Vec::new();
        Self::string(&mut value, v);
        self.raw(key, 8, &value)
    }

    pub(crate) fn texts<S: AsRef<str>>(self, key: &str, items: &[S]) -> Self {
        let mut value = 8u32.to_le_bytes().to_vec();
        value.extend((items.len() as u64).to_le_bytes());
        for s in items {
            Self::string(&mut value, s.as_ref());
        }
        self.raw(key, 9, &value)
    }

    pub(crate) fn i32s(self, key: &str, items: &[i32]) -> Self {
        let mut value = 5u32.to_le_bytes().to_vec();
        value.extend((items.len() as u64).to_le_bytes());
        for v in items {
            value.extend(v.to_le_bytes());
        }
        self.raw(key, 9, &value)
    }

    pub(crate) fn f32s(self, key: &str, items: &[f32]) -> Self {
        let mut value = 6u32.to_le_bytes().to_vec();
        value.extend((items.len() as u64).to_le_bytes());
        for v in items {
            value.extend(v.to_le_bytes());
        }
        self.raw(key, 9, &value)
    }

    /// A tensor; `shape` is outermost first, `kind` the number type (0 = f32).
    pub(crate) fn tensor(mut self, name: &str, shape: &[u64], kind: u32, data: &[u8]) -> Self {
        Self::string(&mut self.tensors, name);
        self.tensors.extend((shape.len() as u32).to_le_bytes());
        for d in shape.iter().rev() {
            self.tensors.extend(d.to_le_bytes());
        }
        self.tensors.extend(kind.to_le_bytes());
        while !self.data.len().is_multiple_of(32) {
            self.data.push(0);
        }
        self.tensors.extend((self.data.len() as u64).to_le_bytes());
        self.data.extend(data);
        self.tensor_count += 1;
        self
    }

    /// A tensor of f32 values.
    pub(crate) fn floats(self, name: &str, shape: &[u64], values: &[f32]) -> Self {
        let data: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        self.tensor(name, shape, 0, &data)
    }

    pub(crate) fn build(&self) -> Vec<u8> {
        let mut out = b"GGUF".to_vec();
        out.extend(3u32.to_le_bytes());
        out.extend(self.tensor_count.to_le_bytes());
        out.extend(self.pair_count.to_le_bytes());
        out.extend(&self.pairs);
        out.extend(&self.tensors);
        while !out.len().is_multiple_of(32) {
            out.push(0);
        }
        out.extend(&self.data);
        out
    }
}
