//! Where an engine is: a unix socket or an HTTP address; and the key that opens it.

use super::ClientError;
use crate::control::ExitCode;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// An engine's address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// The engine's socket: the peer's user id is the credential.
    Unix(PathBuf),
    /// Plain HTTP, with a key where the engine asks for one.
    Tcp { host: String, port: u16 },
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Target::Unix(path) => write!(f, "{}", path.display()),
            Target::Tcp { host, port } => write!(f, "http://{host}:{port}"),
        }
    }
}

impl Target {
    /// Reads an address as people write it: `http://HOST:PORT` or `HOST:PORT`, a path (anything with a `/`, or `unix:PATH`), or the
    /// name of an engine whose socket is in `folder`.
    pub fn parse(spec: &str, folder: &Path) -> Result<Target, ClientError> {
        let bad = |what: &str, hint: &str| Err(ClientError::usage(format!("`{spec}` {what}"), hint));
        if spec.trim().is_empty() {
            return bad("is not an engine", "give a name, a socket path, or http://HOST:PORT");
        }
        if spec.starts_with("https://") {
            return bad(
                "asks for TLS, which this client does not speak",
                "use http:// on loopback or through an ssh tunnel, or put a TLS proxy on this side",
            );
        }
        if let Some(rest) = spec.strip_prefix("http://") {
            let rest = rest.trim_end_matches('/');
            if rest.contains('/') || rest.contains('@') {
                return bad("has more than a host and a port", "write http://HOST:PORT, with the key in --key-file");
            }
            let (host, port) = match rest.rsplit_once(':') {
                Some((host, port)) if !port.ends_with(']') => match port.parse() {
                    Ok(port) => (host, port),
                    Err(_) => return bad("has a port that is not a number", "write http://HOST:PORT"),
                },
                _ => (rest, 80),
            };
            if host.is_empty() {
                return bad("names no host", "write http://HOST:PORT");
            }
            return Ok(Target::Tcp { host: host.to_string(), port });
        }
        if spec.contains("://") {
            return bad("has a scheme that this client does not speak", "use http://HOST:PORT or a socket path");
        }
        if let Some(path) = spec.strip_prefix("unix:") {
            return Ok(Target::Unix(path.into()));
        }
        if spec.contains('/') {
            return Ok(Target::Unix(spec.into()));
        }
        // No name holds a colon: HOST:PORT, without the scheme.
        if let Some((host, port)) = spec.rsplit_once(':') {
            return match port.parse() {
                Ok(port) if !host.is_empty() => Ok(Target::Tcp { host: host.to_string(), port }),
                _ => bad("is neither a name nor HOST:PORT", "give a name, a socket path, or http://HOST:PORT"),
            };
        }
        Ok(Target::Unix(folder.join(format!("{spec}.sock"))))
    }

    /// The engine meant when none is named: the newest socket in `folder` that takes a connection.
    pub fn discover(folder: &Path) -> Result<Target, ClientError> {
        let nothing = |why: String| {
            ClientError::Unreachable {
            target: "a local engine".into(),
            why,
            hint: Some(
                "start one with `lanekeeper serve --profile demo`, or name one with --engine NAME|PATH|http://HOST:PORT"
                    .into(),
            ),
        }
        };
        let entries = match std::fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                return Err(nothing(format!("there is no socket folder {}", folder.display())));
            }
            Err(e) => return Err(nothing(format!("the socket folder {} cannot be read: {e}", folder.display()))),
        };
        let mut sockets: Vec<(SystemTime, PathBuf)> = entries
            .flatten()
            .filter_map(|e| {
                let meta = e.metadata().ok()?;
                let named = e.path().extension().is_some_and(|x| x == "sock");
                (named && meta.file_type().is_socket())
                    .then(|| (meta.modified().unwrap_or(SystemTime::UNIX_EPOCH), e.path()))
            })
            .collect();
        sockets.sort();
        // A socket file outlives an engine that was killed: the newest one with a listener behind it is meant.
        let live = sockets.iter().rev().find(|(_, path)| std::os::unix::net::UnixStream::connect(path).is_ok());
        match (live, sockets.len()) {
            (Some((_, path)), _) => Ok(Target::Unix(path.clone())),
            (None, 0) => Err(nothing(format!("no engine has a socket in {}", folder.display()))),
            (None, n) => Err(nothing(format!("none of the {n} sockets in {} answers", folder.display()))),
        }
    }
}

/// The folder where engines of this user put their sockets: `$XDG_RUNTIME_DIR/lanekeeper`, else
/// `/tmp/lanekeeper-UID`.
pub fn socket_folder(runtime_dir: Option<PathBuf>) -> PathBuf {
    match runtime_dir.filter(|d| d.is_absolute()) {
        Some(dir) => dir.join("lanekeeper"),
        None => {
            // /proc/self belongs to the process's user: the uid without a call into libc.
            let uid = std::fs::metadata("/proc/self").map(|m| m.uid()).unwrap_or(0);
            PathBuf::from(format!("/tmp/lanekeeper-{uid}"))
        }
    }
}

/// A key, kept out of `Debug` output.
#[derive(Clone, PartialEq, Eq)]
pub struct Key(String);

impl Key {
    /// A key as found in the environment or the first line of a key file. Fails when it could not stand in a header.
    pub fn new(text: &str) -> Result<Key, ClientError> {
        let key = text.lines().next().unwrap_or("").trim();
        if key.is_empty() || !key.bytes().all(|b| b.is_ascii_graphic()) {
            return Err(ClientError::usage(
                "the key is empty or holds characters that no key has",
                "a key is one line of printable ASCII without blanks",
            ));
        }
        Ok(Key(key.to_string()))
    }

    /// The first line of the file at `path`.
    pub fn from_file(path: &Path) -> Result<Key, ClientError> {
        let text = std::fs::read_to_string(path).map_err(|e| ClientError::Local {
            message: format!("the key file {} cannot be read: {e}", path.display()),
            code: ExitCode::Usage,
        })?;
        Key::new(&text)
    }

    pub(crate) fn header(&self) -> String {
        format!("Bearer {}", self.0)
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(spec: &str) -> Result<Target, ClientError> {
        Target::parse(spec, Path::new("/run/user/1/lanekeeper"))
    }

    #[test]
    fn addresses_as_people_write_them() {
        assert_eq!(parse("demo").unwrap(), Target::Unix("/run/user/1/lanekeeper/demo.sock".into()));
        assert_eq!(parse("./a.sock").unwrap(), Target::Unix("./a.sock".into()));
        assert_eq!(parse("unix:b").unwrap(), Target::Unix("b".into()));
        assert_eq!(parse("http://h:8741/").unwrap(), Target::Tcp { host: "h".into(), port: 8741 });
        assert_eq!(parse("http://[::1]:8741").unwrap(), Target::Tcp { host: "[::1]".into(), port: 8741 });
        assert_eq!(parse("127.0.0.1:8741").unwrap(), Target::Tcp { host: "127.0.0.1".into(), port: 8741 });
        assert_eq!(parse("[::1]:8741").unwrap(), Target::Tcp { host: "[::1]".into(), port: 8741 });
        assert_eq!(parse("http://[::1]").unwrap(), Target::Tcp { host: "[::1]".into(), port: 80 });
    }

    #[test]
    fn wrong_addresses_are_usage_errors_with_a_way_out() {
        for spec in [
            "",
            " ",
            "https://h:1",
            "ftp://h",
            "http://h:port",
            "http://:1",
            "http://h:1/v1",
            "http://k@h:1",
            "h:port",
            ":1",
        ] {
            let e = parse(spec).unwrap_err();
            assert_eq!(e.exit_code(), ExitCode::Usage, "{spec}");
            assert!(e.hint().is_some(), "{spec}");
        }
    }

    #[test]
    fn discovery_prefers_the_newest_live_socket_and_skips_dead_ones() {
        let dir = std::env::temp_dir().join(format!("lanekeeper-discover-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        assert_eq!(Target::discover(&dir).unwrap_err().exit_code(), ExitCode::Unreachable);
        let live = std::os::unix::net::UnixListener::bind(dir.join("live.sock")).unwrap();
        drop(std::os::unix::net::UnixListener::bind(dir.join("dead.sock")).unwrap());
        std::fs::write(dir.join("file.sock"), "").unwrap();
        assert_eq!(Target::discover(&dir).unwrap(), Target::Unix(dir.join("live.sock")));
        drop(live);
        assert!(Target::discover(&dir).unwrap_err().to_string().contains("none of the 2 sockets"));
        std::fs::remove_dir_all(&dir).unwrap();
        assert!(Target::discover(&dir).unwrap_err().to_string().contains("no socket folder"));
    }

    #[test]
    fn keys_are_one_printable_line_and_never_shown() {
        assert!(Key::new("").is_err());
        assert!(Key::new("two words").is_err());
        assert!(Key::new("ctrl\u{7}").is_err());
        let key = Key::new("s3cret\nsecond line").unwrap();
        assert_eq!(key.header(), "Bearer s3cret");
        assert!(!format!("{key:?}").contains("s3cret"));
    }
}
