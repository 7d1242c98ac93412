//! Bounded reading of files whose paths come from options, the environment or other files.

use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError, mpsc};
use std::time::Duration;

use zeroize::Zeroizing;

use super::{ConfigError, Environment, shown_path};
use crate::text::sanitize::shell_quote;

/// The size limit. Real files have some 10 KiB; a kubeconfig with a hundred clusters has one MiB.
pub(super) const LARGEST: u64 = 4 << 20;

/// Time limit for reading a file: enough for a decrypting process substitution or a slow network mount.
const PATIENCE: Duration = Duration::from_secs(10);

/// Stack size of the reader thread, regardless of the environment.
const STACK: usize = 256 << 10;

/// The files that were read, or that may be read later.
static NAMED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Returns the files recorded so far; nothing may be written over them.
pub(crate) fn inputs() -> Vec<PathBuf> {
    NAMED.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Records a file that another part of the program, or another program, will read or run.
pub(super) fn is_input(path: &Path) {
    let mut named = NAMED.lock().unwrap_or_else(PoisonError::into_inner);
    // Token files are read repeatedly.
    if !named.iter().any(|known| known == path) {
        named.push(path.to_owned());
    }
}

/// Reads a regular file or pipe, up to [`LARGEST`] bytes and for at most [`PATIENCE`].
///
/// Pipes are allowed because careful people keep keys off the disk with `--talosconfig <(sops -d …)`. Devices, sockets and directories are
/// not. A read that blocks (a silent FIFO, a dead NFS server) is abandoned on its own thread, which ends with the process.
pub(crate) fn read(path: &Path, what: &str) -> Result<Zeroizing<Vec<u8>>, ConfigError> {
    contents(path).map_err(|problem| named(path, what, &problem))
}

/// Reads like [`read`], for a path that comes from a file. The error does not repeat the path, since a user may have put the key or the
/// token in its place.
pub(super) fn contents(path: &Path) -> Result<Zeroizing<Vec<u8>>, String> {
    contents_within(path, PATIENCE)
}

fn contents_within(path: &Path, patience: Duration) -> Result<Zeroizing<Vec<u8>>, String> {
    is_input(path);
    let (sender, receiver) = mpsc::sync_channel(1);
    let owned: PathBuf = path.to_owned();
    std::thread::Builder::new()
        .name("config-file".to_owned())
        .stack_size(STACK)
        .spawn(move || drop(sender.send(read_now(&owned))))
        .map_err(|error| error.kind().to_string())?;
    receiver.recv_timeout(patience).map_err(|_| format!("reading did not finish within {} s", patience.as_secs()))?
}

/// Builds the error for a problem with the file at `path`.
pub(super) fn named(path: &Path, what: &str, problem: &str) -> ConfigError {
    ConfigError::unreadable(format!("{what} {}: {problem}", shown_path(path)))
}

fn read_now(path: &Path) -> Result<Zeroizing<Vec<u8>>, String> {
    // Checked before opening as well, because opening some devices already has an effect.
    refuse(&std::fs::metadata(path).map_err(|error| plain(&error))?)?;
    let file = File::open(path).map_err(|error| plain(&error))?;
    let metadata = file.metadata().map_err(|error| plain(&error))?;
    refuse(&metadata)?;
    let size = metadata.len().min(LARGEST) as usize + 1;
    // Allocated in full at once: a growing buffer would leave copies of secrets in freed memory.
    let mut bytes = Zeroizing::new(Vec::with_capacity(size));
    file.take(LARGEST + 1).read_to_end(&mut bytes).map_err(|error| plain(&error))?;
    if bytes.len() as u64 > LARGEST { Err(too_large()) } else { Ok(bytes) }
}

fn refuse(metadata: &std::fs::Metadata) -> Result<(), String> {
    use std::os::unix::fs::FileTypeExt as _;

    let kind = metadata.file_type();
    if kind.is_dir() {
        Err("is a directory".to_owned())
    } else if !kind.is_file() && !kind.is_fifo() {
        Err("is neither a file nor a pipe".to_owned())
    } else if metadata.len() > LARGEST {
        Err(too_large())
    } else {
        Ok(())
    }
}

/// Returns a warning about a file of the user's own that everyone on this host may read or write. In CI and in pods, the system determines
/// the modes of files, so nothing is reported there.
pub(crate) fn open_to_all(path: &Path, environment: &Environment) -> Option<String> {
    use std::os::unix::fs::MetadataExt as _;

    let is_given = ["CI", "KUBERNETES_SERVICE_HOST"].iter().any(|name| environment.get(name).is_some());
    let metadata = std::fs::metadata(path).ok().filter(|_| !is_given)?;
    let is_own = metadata.is_file() && metadata.uid() == rustix::process::geteuid().as_raw();
    let mode = metadata.mode() & 0o777;
    let command = format!("chmod go= {}", shell_quote(&path.to_string_lossy())?);
    (is_own && mode & 0o006 != 0).then(|| {
        format!("every user on this host can read or write {} (mode {mode:04o}): `{command}`", shown_path(path))
    })
}

fn too_large() -> String {
    format!("is larger than {} MiB", LARGEST >> 20)
}

/// Describes why a file cannot be read or written.
pub(crate) fn plain(error: &std::io::Error) -> String {
    match error.kind() {
        ErrorKind::NotFound => "no such file".to_owned(),
        // Longer than a name may be.
        ErrorKind::InvalidFilename => {
            "not a path; if it is the content, write it to a file (in GitLab, make it a variable of type File)"
                .to_owned()
        }
        ErrorKind::PermissionDenied => "permission denied".to_owned(),
        kind => kind.to_string(),
    }
}

/// Reads the text of a file that should be YAML.
pub(super) fn read_text(path: &Path, what: &str) -> Result<String, ConfigError> {
    text(std::mem::take(&mut *read(path, what)?)).map_err(|problem| named(path, what, &problem))
}

/// Decodes UTF-8 text. Input that cannot be a configuration is refused with an error that names what it is instead.
pub(super) fn text(bytes: Vec<u8>) -> Result<String, String> {
    if bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]) {
        return Err("is UTF-16 instead of UTF-8".to_owned());
    }
    if bytes.contains(&0) {
        return Err("is a binary file, not YAML".to_owned());
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let valid = error.utf8_error().valid_up_to();
        let line = error.as_bytes()[..valid].split(|byte| *byte == b'\n').count();
        format!("is not UTF-8 (line {line})")
    })?;
    let text = text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text);
    if text.trim().is_empty() {
        return Err("is empty".to_owned());
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn problem(bytes: &[u8]) -> String {
        text(bytes.to_vec()).unwrap_err()
    }

    #[test]
    fn says_what_a_file_is_instead_of_text() {
        assert_eq!(problem(b""), "is empty");
        assert_eq!(problem(b" \n\t\n"), "is empty");
        assert_eq!(problem(b"\xef\xbb\xbf"), "is empty");
        assert_eq!(problem(b"a\0b"), "is a binary file, not YAML");
        assert_eq!(problem(b"a: 1\nb: \xff\n"), "is not UTF-8 (line 2)");
        assert_eq!(problem(b"\xff\xfea\0"), "is UTF-16 instead of UTF-8");
        assert_eq!(text(b"\xef\xbb\xbfa: 1".to_vec()).unwrap(), "a: 1");
    }

    #[test]
    fn what_is_not_a_file_is_refused_without_reading() {
        let folder = tempfile::tempdir().unwrap();
        let message = |path: &Path| read(path, "talosconfig").unwrap_err().message;
        assert!(message(folder.path()).ends_with(": is a directory"));
        assert!(message(&folder.path().join("none")).ends_with("none`: no such file"));
        assert!(message(Path::new("/dev/zero")).ends_with("is neither a file nor a pipe"));
        let _listener = std::os::unix::net::UnixListener::bind(folder.path().join("socket")).unwrap();
        assert!(message(&folder.path().join("socket")).ends_with("is neither a file nor a pipe"));
        assert!(message(&folder.path().join("a").join("..").join("socket")).ends_with("no such file"));
    }

    #[test]
    fn size_is_bounded_before_and_while_reading() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("large");
        File::create(&path).unwrap().set_len(100 << 20).unwrap();
        assert!(read(&path, "talosconfig").unwrap_err().message.ends_with("is larger than 4 MiB"));
        File::create(&path).unwrap().write_all(&vec![b'x'; 4 << 20]).unwrap();
        assert_eq!(read(&path, "talosconfig").unwrap().len(), 4 << 20);
    }

    #[test]
    fn a_pipe_is_read_and_a_silent_or_endless_one_does_not_hold_us() {
        use std::os::fd::AsRawFd as _;

        // Both ends stay open to the end of the test. The abandoned thread may open the path late, and would find the next pipe under a
        // descriptor that was reused.
        let (silent, mut silent_writer) = std::io::pipe().unwrap();
        let path = PathBuf::from(format!("/dev/fd/{}", silent.as_raw_fd()));
        silent_writer.write_all(b"context: a\n").unwrap();
        let error = contents_within(&path, Duration::from_millis(20)).unwrap_err();
        assert!(error.contains("reading did not finish"), "{error}");

        let (reader, mut writer) = std::io::pipe().unwrap();
        let path = PathBuf::from(format!("/dev/fd/{}", reader.as_raw_fd()));
        writer.write_all(b"context: a\n").unwrap();
        drop(writer);
        assert_eq!(**read(&path, "talosconfig").unwrap(), *b"context: a\n");

        let (reader, mut writer) = std::io::pipe().unwrap();
        let path = PathBuf::from(format!("/dev/fd/{}", reader.as_raw_fd()));
        let endless = std::thread::spawn(move || while writer.write_all(&[b'x'; 4096]).is_ok() {});
        assert!(read(&path, "talosconfig").unwrap_err().message.ends_with("is larger than 4 MiB"));
        drop(reader);
        endless.join().unwrap();
        drop((silent, silent_writer));
    }
}
