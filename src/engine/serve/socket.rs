//! The control socket: where it lies, who may connect, and what to do about one that is already there.

use crate::control::{ErrorKind, Fault};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream as BlockingStream;
use std::path::{Path, PathBuf};
use tokio::net::{UnixListener, UnixStream};

/// Longest socket path that every unix takes (`sun_path` less its terminator, on the shortest system).
const MAX_PATH_BYTES: usize = 103;

/// Where the control socket of the engine `name` lies unless the profile says otherwise:
/// `$XDG_RUNTIME_DIR/lanekeeper/NAME.sock`, else `/tmp/lanekeeper-UID/NAME.sock`. The client looks in the same place.
pub fn default_path(name: &str, runtime_dir: Option<PathBuf>) -> PathBuf {
    let folder = match runtime_dir.filter(|dir| dir.is_absolute()) {
        Some(dir) => dir.join("lanekeeper"),
        None => PathBuf::from(format!("/tmp/lanekeeper-{}", own_uid().unwrap_or(0))),
    };
    folder.join(format!("{name}.sock"))
}

/// The user this process runs as: /proc/self belongs to it, which spares a call into libc.
fn own_uid() -> io::Result<u32> {
    Ok(std::fs::metadata("/proc/self")?.uid())
}

/// A bound control socket. Its file goes when this is dropped.
pub(super) struct ControlSocket {
    listener: UnixListener,
    path: PathBuf,
    /// Inode of our file: another engine may have put its own there since, and that one stays.
    inode: u64,
    uid: u32,
}

impl ControlSocket {
    /// Binds `path` with mode 0600. A file left by a dead engine is replaced; a live engine's is refused.
    pub(super) fn bind(path: &Path) -> Result<ControlSocket, Fault> {
        let fail =
            |what: &str, e: io::Error| Fault::invalid("listen.control", format!("{what} `{}`: {e}", path.display()));
        let length = path.as_os_str().len();
        if length > MAX_PATH_BYTES {
            return Err(Fault::invalid(
                "listen.control",
                format!(
                    "the control socket's path has {length} bytes, a socket takes {MAX_PATH_BYTES}: {}",
                    path.display()
                ),
            )
            .hint("set listen.control or XDG_RUNTIME_DIR to a shorter path"));
        }
        let uid = own_uid().map_err(|e| fail("cannot find out this process's user for", e))?;
        if let Some(folder) = path.parent() {
            private_folder(folder, uid)?;
        }
        clear_stale(path)?;
        let listener = UnixListener::bind(path).map_err(|e| fail("cannot bind the control socket", e))?;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))
            .map_err(|e| fail("cannot restrict the control socket", e))?;
        let inode = std::fs::metadata(path).map_err(|e| fail("cannot read back the control socket", e))?.ino();
        Ok(ControlSocket { listener, path: path.to_path_buf(), inode, uid })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The next connection, and its peer's user where that is this process's (or root).
    pub(super) async fn accept(&self) -> io::Result<(UnixStream, Option<u32>)> {
        let (stream, _) = self.listener.accept().await?;
        // A peer whose credentials cannot be read is a stranger.
        let uid = stream.peer_cred().ok().map(|cred| cred.uid()).filter(|uid| *uid == self.uid || *uid == 0);
        Ok((stream, uid))
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        if std::fs::symlink_metadata(&self.path).is_ok_and(|meta| meta.ino() == self.inode) {
            // Nothing to do about a failure: the next engine replaces a stale file.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Makes the socket's folder with mode 0700. One in a shared place (/tmp) that another user made is refused: he could
/// put his own socket there.
fn private_folder(folder: &Path, uid: u32) -> Result<(), Fault> {
    let fail = |what: String| Fault::invalid("listen.control", what);
    if let Err(e) = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder) {
        return Err(fail(format!("cannot make the folder of the control socket `{}`: {e}", folder.display())));
    }
    let meta = std::fs::metadata(folder)
        .map_err(|e| fail(format!("cannot read the folder of the control socket `{}`: {e}", folder.display())))?;
    // A sticky folder (such as /tmp itself) keeps users from replacing each other's files.
    let sticky = meta.mode() & 0o1000 != 0;
    if !sticky && meta.uid() != uid && meta.uid() != 0 {
        return Err(fail(format!(
            "the folder of the control socket `{}` belongs to another user (uid {}, this process runs as {uid})",
            folder.display(),
            meta.uid()
        ))
        .hint("set XDG_RUNTIME_DIR or listen.control to a folder of your own"));
    }
    Ok(())
}

/// Removes a socket file that nobody listens on.
fn clear_stale(path: &Path) -> Result<(), Fault> {
    let Ok(meta) = std::fs::symlink_metadata(path) else { return Ok(()) };
    if !meta.file_type().is_socket() {
        return Err(Fault::invalid(
            "listen.control",
            format!("`{}` is there and is not a socket: it is left alone", path.display()),
        )
        .hint("move it away, or set listen.control"));
    }
    match BlockingStream::connect(path) {
        Ok(_) => Err(Fault::new(
            ErrorKind::InvalidRequest,
            format!("another engine is serving the control socket `{}`", path.display()),
        )
        .param("listen.control")
        .hint("stop it, or give this one another name or listen.control")),
        Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => std::fs::remove_file(path).map_err(|e| {
            Fault::invalid(
                "listen.control",
                format!("cannot remove the stale control socket `{}`: {e}", path.display()),
            )
        }),
        Err(e) => Err(Fault::invalid(
            "listen.control",
            format!("cannot tell whether the control socket `{}` is live: {e}", path.display()),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("lk-{name}-{}", std::process::id()))
    }

    #[test]
    fn default_path_follows_the_runtime_folder() {
        assert_eq!(default_path("demo", Some("/run/user/7".into())), PathBuf::from("/run/user/7/lanekeeper/demo.sock"));
        let fallback = default_path("demo", Some("relative".into()));
        assert!(fallback.starts_with("/tmp") && fallback.ends_with("demo.sock"), "{}", fallback.display());
    }

    #[tokio::test]
    async fn a_stale_file_is_replaced_and_a_live_one_is_refused() {
        let dir = folder("stale");
        let path = dir.join("a.sock");
        std::fs::create_dir_all(&dir).unwrap();
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        let live = ControlSocket::bind(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let fault = ControlSocket::bind(&path).err().unwrap();
        assert!(fault.message.contains("another engine is serving"), "{fault}");
        drop(live);
        assert!(!path.exists(), "the file goes with its owner");
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[tokio::test]
    async fn a_plain_file_is_left_alone() {
        let dir = folder("plain");
        let path = dir.join("a.sock");
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(&path, "precious").unwrap();
        assert!(ControlSocket::bind(&path).err().unwrap().message.contains("not a socket"));
        assert_eq!(std::fs::read(&path).unwrap(), b"precious");
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[tokio::test]
    async fn a_path_too_long_for_a_socket_is_named() {
        let path = PathBuf::from(format!("/tmp/{}.sock", "x".repeat(120)));
        let fault = ControlSocket::bind(&path).err().unwrap();
        assert!(fault.message.contains("has 130 bytes, a socket takes 103"), "{fault}");
        assert!(!path.exists());
    }
}
