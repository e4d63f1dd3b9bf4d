//! What a file that is not GGUF looks like, so that the refusal says so.

/// Words for the first bytes of a file that is not GGUF.
pub(super) fn looks_like(head: &[u8]) -> String {
    let text = String::from_utf8_lossy(head);
    let start = text.trim_start().to_ascii_lowercase();
    if start.starts_with("<!doctype") || start.starts_with("<html") || start.starts_with("<?xml") {
        return "it looks like a web page: the download was answered with an error or a login page".into();
    }
    if start.starts_with("version https://git-lfs") {
        return "it is a Git LFS pointer: fetch the file itself".into();
    }
    if head.starts_with(b"PK\x03\x04") {
        return "it looks like a zip archive (a wheel, or PyTorch weights)".into();
    }
    if head.len() > 9 && head[8] == b'{' {
        return "it looks like safetensors: a GGUF file is needed here".into();
    }
    if start.starts_with('{') {
        return "it looks like JSON".into();
    }
    if head.starts_with(b"tjgg") || head.starts_with(b"lmgg") || head.starts_with(b"fmgg") {
        return "it is a GGML file from before GGUF: convert it".into();
    }
    let shown: Vec<String> = head.iter().take(4).map(|b| format!("{b:02x}")).collect();
    format!("it starts with {} instead of 47 47 55 46 (`GGUF`)", shown.join(" "))
}

#[cfg(test)]
mod tests {
    use super::looks_like;

    #[test]
    fn names_common_strangers() {
        assert!(looks_like(b"<!DOCTYPE html><html>").contains("web page"));
        assert!(looks_like(b"version https://git-lfs.github.com/spec/v1").contains("LFS"));
        assert!(looks_like(b"PK\x03\x04rest").contains("zip"));
        assert!(looks_like(b"\x10\0\0\0\0\0\0\0{\"a\"").contains("safetensors"));
        assert!(looks_like(b"\x01\x02\x03\x04").contains("01 02 03 04"));
    }
}
