//! The form that carries an audio upload. Pure.

use super::http::Body;
use bytes::Bytes;
use std::hash::{BuildHasher, Hasher};

/// A `multipart/form-data` body in the making.
pub(crate) struct Form {
    boundary: String,
    bytes: Vec<u8>,
}

impl Form {
    /// An empty form whose boundary does not occur in `content`, the largest part.
    pub(crate) fn around(content: &[u8]) -> Form {
        loop {
            let bits = std::hash::RandomState::new().build_hasher().finish();
            let boundary = format!("lanekeeper-{bits:016x}");
            if !content.windows(boundary.len()).any(|w| w == boundary.as_bytes()) {
                return Form { boundary, bytes: Vec::with_capacity(content.len() + 1024) };
            }
        }
    }

    /// Adds a text field.
    pub(crate) fn field(mut self, name: &str, value: &str) -> Form {
        self.bytes.extend_from_slice(
            format!("--{}\r\ncontent-disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n", self.boundary)
                .as_bytes(),
        );
        self
    }

    /// Adds a file. Its name is for logs only: the engine looks at the content.
    pub(crate) fn file(mut self, name: &str, file_name: &str, content: &[u8]) -> Form {
        let head = format!(
            "--{}\r\ncontent-disposition: form-data; name=\"{name}\"; filename=\"{}\"\r\n\
             content-type: application/octet-stream\r\n\r\n",
            self.boundary,
            quotable(file_name)
        );
        self.bytes.extend_from_slice(head.as_bytes());
        self.bytes.extend_from_slice(content);
        self.bytes.extend_from_slice(b"\r\n");
        self
    }

    /// The finished body.
    pub(crate) fn finish(mut self) -> Body {
        self.bytes.extend_from_slice(format!("--{}--\r\n", self.boundary).as_bytes());
        Body {
            content_type: format!("multipart/form-data; boundary={}", self.boundary),
            bytes: Bytes::from(self.bytes),
        }
    }
}

/// A file name that cannot end its quotes or its header line.
fn quotable(name: &str) -> String {
    name.chars().map(|c| if c.is_control() || c == '"' || c == '\\' { '_' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_is_what_the_standard_says() {
        let body = Form::around(b"RIFF").field("model", "w").file("file", "a\"\r\n.wav", b"RIFF").finish();
        let boundary = body.content_type.strip_prefix("multipart/form-data; boundary=").unwrap();
        let expected = format!(
            "--{boundary}\r\ncontent-disposition: form-data; name=\"model\"\r\n\r\nw\r\n--{boundary}\r\n\
             content-disposition: form-data; name=\"file\"; filename=\"a___.wav\"\r\n\
             content-type: application/octet-stream\r\n\r\nRIFF\r\n--{boundary}--\r\n"
        );
        assert_eq!(String::from_utf8(body.bytes.to_vec()).unwrap(), expected);
    }
}
