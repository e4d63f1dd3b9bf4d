//! The heads that this program carries.

/// Name, and the GGUF file.
pub(super) const HEADS: [(&str, &[u8]); 1] =
    [("smollm2-135m.mtp.gguf", include_bytes!("../../../../assets/heads/smollm2-135m.mtp.gguf"))];
