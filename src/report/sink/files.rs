//! Report files: written at the start and replaced during the run, so that a valid document remains however the process ends. A growing
//! document is appended to instead: the work of rewriting it each time would grow with the square of time.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, mpsc};
use std::thread;
use std::time::Duration;

use anyhow::Context as _;
use jiff::Timestamp;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, fcntl_getfl, fcntl_setfl, openat, renameat, statat, unlinkat};
use rustix::io::Errno;

use crate::report::Report;
use crate::report::format::{self, Format, prometheus};
use crate::report::sink::wanted::Wanted;
use crate::report::view::style::TextStyle;

/// Maximum time that a pipe which is never read can delay the end of the process.
const PIPE_PATIENCE: Duration = Duration::from_millis(500);

/// Time that a thread gets, at the end of the process, to rename a finished report or to begin another one.
const ABANDON_PATIENCE: Duration = Duration::from_millis(100);
/// Stack size of the thread that writes to a pipe, regardless of the environment.
const STACK: usize = 256 << 10;

/// Buffer size of a write, in bytes.
const PIECE: usize = 64 << 10;

/// Temporary files that have not been renamed to a report yet, by number.
static UNFINISHED: Mutex<Unfinished> = Mutex::new(BTreeMap::new());

type Unfinished = BTreeMap<u64, (Folder, OsString)>;

/// Returns when an earlier run was healthy, as recorded in the files that are about to be replaced.
pub(crate) fn last_success(wanted: &[Wanted]) -> Option<Timestamp> {
    let metrics = wanted.iter().filter(|wanted| *wanted.format == format::PROMETHEUS);
    metrics.filter_map(|wanted| prometheus::last_success(&wanted.path)).max()
}

/// The identity of a file, which all of its names share, including hard links.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Identity {
    /// Device and inode.
    Is(u64, u64),
    /// A file that does not exist yet: device and inode of the last folder that does, and the path from there.
    WillBe(u64, u64, PathBuf),
}

/// Returns whether the run reads a file. Such a file is never replaced.
pub(crate) type IsRead = fn(&Identity) -> bool;

impl Identity {
    pub(crate) fn of(path: &Path) -> Self {
        match fs::metadata(path) {
            Ok(found) => Self::Is(found.dev(), found.ino()),
            Err(_) => future(path),
        }
    }
}

fn future(path: &Path) -> Identity {
    let mut existing = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut missing = Vec::new();
    // Links can form cycles.
    for _ in 0..4096 {
        if let Ok(found) = fs::metadata(&existing) {
            // A `..` below a directory that does not exist yet cannot be that of a link.
            let rest = missing.iter().rev().fold(PathBuf::new(), |mut rest, part: &OsString| {
                if part == ".." {
                    rest.pop();
                } else {
                    rest.push(part);
                }
                rest
            });
            return Identity::WillBe(found.dev(), found.ino(), rest);
        }
        // A link can point to a file that does not exist.
        if let Ok(target) = fs::read_link(&existing) {
            existing = parent_of(&existing).join(target);
            continue;
        }
        let Some(last) = existing.components().next_back() else { break };
        missing.push(last.as_os_str().to_owned());
        if !existing.pop() {
            break;
        }
    }
    Identity::WillBe(0, 0, path.to_owned())
}

/// The report files of a run.
#[derive(Debug)]
pub(crate) struct Files {
    all: Vec<Open>,
    /// Whether only their owner can read them.
    private: bool,
    is_read: IsRead,
}

#[derive(Debug)]
struct Open {
    format: &'static Format,
    /// The path as typed, for messages.
    shown: PathBuf,
    place: Place,
    /// State of a growing document that can be appended to.
    grown: Option<Grown>,
}

/// A file that has the beginning of a document, in the state in which it was written.
#[derive(Clone, Copy, Debug)]
struct Grown {
    /// Number of events in the document.
    told: usize,
    device: u64,
    inode: u64,
    /// Length in bytes.
    length: u64,
}

/// The target of a report, resolved once at the start: a file that appears under the name later is neither followed nor written to.
#[derive(Debug)]
enum Place {
    /// A file that is replaced as a whole. The path has no links: a link that a user made stays, and its target is replaced.
    Regular(PathBuf),
    /// A pipe, terminal or device: written once, at the end.
    Special(Special),
}

/// A pipe, terminal or device, opened at the start or once it has a reader: a named pipe cannot be opened before.
#[derive(Debug)]
struct Special {
    path: PathBuf,
    identity: Identity,
    open: Option<File>,
}

impl Place {
    /// Resolves the path and creates missing parent directories.
    fn of(path: &Path) -> io::Result<Self> {
        if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            fs::create_dir_all(parent)?;
        }
        match fs::metadata(path) {
            Ok(found) if found.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
            Ok(found) if found.is_file() => path.canonicalize().map(Self::Regular),
            Ok(found) => Special::of(path, Identity::Is(found.dev(), found.ino())).map(Self::Special),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let path = resolve(path)?;
                let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
                Ok(Self::Regular(parent_of(&path).canonicalize()?.join(name)))
            }
            Err(error) => Err(error),
        }
    }
}

impl Special {
    /// Opens the path. `/dev/stdout` and `/dev/fd/N` are links, so links are followed, and the identity of their target is compared.
    fn of(path: &Path, identity: Identity) -> io::Result<Self> {
        let mut special = Self { path: path.to_owned(), identity, open: None };
        special.open = match special.opened(OFlags::NONBLOCK) {
            // A named pipe has no reader yet.
            Err(error) if error.raw_os_error() == Some(Errno::NXIO.raw_os_error()) => None,
            opened => {
                let file = opened?;
                // Only the opening must not block.
                let flags = fcntl_getfl(&file)?;
                fcntl_setfl(&file, flags - OFlags::NONBLOCK)?;
                Some(file)
            }
        };
        Ok(special)
    }

    fn opened(&self, flags: OFlags) -> io::Result<File> {
        let flags = (flags | OFlags::NOCTTY).bits().cast_signed();
        let file = OpenOptions::new().write(true).custom_flags(flags).open(&self.path)?;
        let found = file.metadata()?;
        if Identity::Is(found.dev(), found.ino()) != self.identity {
            return Err(io::Error::other("another file has taken its place"));
        }
        Ok(file)
    }

    /// Writes on a separate thread, which is left behind if it blocks: opening a named pipe waits for its reader.
    fn write(mut self, content: Vec<u8>) -> io::Result<()> {
        let (done, result) = mpsc::channel();
        thread::Builder::new().name("report".to_owned()).stack_size(STACK).spawn(move || {
            let open = self.open.take().map_or_else(|| self.opened(OFlags::empty()), Ok);
            let written = open.and_then(|mut file| file.write_all(&content));
            // If this fails, the receiver no longer waits.
            let _ = done.send(written);
        })?;
        match result.recv_timeout(PIPE_PATIENCE) {
            // A reader that has gone away has read enough, as for stdout.
            Ok(Err(error)) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            Ok(written) => written,
            Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "no process reads from it")),
        }
    }
}

/// A file other than a report that is written like a report: a reader sees the old document or the new one. Errors name the file.
#[derive(Debug)]
pub(crate) struct Beside {
    shown: PathBuf,
    place: Place,
    is_read: IsRead,
}

impl Beside {
    pub(crate) fn open(path: &Path, is_read: IsRead) -> anyhow::Result<Self> {
        let place = Place::of(path).with_context(|| failure(path))?;
        Ok(Self { shown: path.to_owned(), place, is_read })
    }

    /// Replaces the document. Pipes, terminals and devices get only the last one.
    pub(crate) fn write(&self, document: &[u8]) -> anyhow::Result<()> {
        let Place::Regular(path) = &self.place else { return Ok(()) };
        let written = replace(path, false, self.is_read, |file| file.write_all(document));
        written.map(drop).with_context(|| failure(&self.shown))
    }

    pub(crate) fn finish(self, document: Vec<u8>) -> anyhow::Result<()> {
        if let Place::Special(special) = self.place {
            return special.write(document).with_context(|| failure(&self.shown));
        }
        self.write(&document)
    }
}

impl Files {
    /// Creates missing parent directories and writes the report of a run that has not begun, which proves that the files can be written.
    /// The error names the file.
    ///
    /// `private`: only their owner can read them. Otherwise they follow the umask.
    pub(crate) fn create(wanted: &[Wanted], report: &Report, private: bool, is_read: IsRead) -> anyhow::Result<Self> {
        let mut files = Vec::new();
        for Wanted { format, path } in wanted {
            let mut open = Open::new(format, path).with_context(|| failure(path))?;
            open.checkpoint(report, private, is_read).with_context(|| failure(path))?;
            files.push(open);
        }
        Ok(Self { all: files, private, is_read })
    }

    /// Updates the files during the run; called about once a second at most. A write that fails is repeated by the next call, or reported
    /// by [`Self::finish`].
    pub(crate) fn update(&mut self, report: &Report) {
        for open in &mut self.all {
            let _ = open.checkpoint(report, self.private, self.is_read);
        }
    }

    /// Writes the final report. The error names the first file that does not have it.
    pub(crate) fn finish(self, report: &Report) -> anyhow::Result<()> {
        let mut first = Ok(());
        for open in self.all {
            let shown = open.shown.clone();
            first = first.and(open.last(report, self.private, self.is_read).with_context(|| failure(&shown)));
        }
        first
    }
}

fn failure(path: &Path) -> String {
    format!("could not write `{}`", path.display())
}

impl Open {
    fn new(format: &'static Format, path: &Path) -> io::Result<Self> {
        Ok(Self { format, shown: path.to_owned(), place: Place::of(path)?, grown: None })
    }

    /// Replaces the file, without color, whatever the terminal supports. Writes piece by piece: the whole document is as large as the
    /// report itself.
    fn replace(&self, path: &Path, report: &Report, private: bool, is_read: IsRead) -> io::Result<fs::Metadata> {
        replace(path, private, is_read, |file| self.format.write(report, &TextStyle::default(), file))
    }

    fn checkpoint(&mut self, report: &Report, private: bool, is_read: IsRead) -> io::Result<()> {
        let Place::Regular(path) = &self.place else { return Ok(()) };
        if let Some(grown) = self.grown.take() {
            let mut rest = Vec::new();
            self.format.write_after(grown.told, report, &TextStyle::default(), &mut rest)?;
            // If this fails, whatever is there now is replaced.
            if let Ok(length) = grown.append(path, &rest) {
                self.grown = Some(Grown { told: report.events(), length, ..grown });
                return Ok(());
            }
        }
        let written = self.replace(path, report, private, is_read)?;
        if self.format.grows() {
            let (device, inode, length) = (written.dev(), written.ino(), written.len());
            self.grown = Some(Grown { told: report.events(), device, inode, length });
        }
        Ok(())
    }

    /// Writes the final document as a whole: the last event is a large one, and a part of it is not a document.
    fn last(self, report: &Report, private: bool, is_read: IsRead) -> io::Result<()> {
        match &self.place {
            Place::Regular(path) => self.replace(path, report, private, is_read).map(drop),
            Place::Special(_) => {
                let document = self.format.render(report, &TextStyle::default())?;
                let Place::Special(special) = self.place else { return Ok(()) };
                special.write(document)
            }
        }
    }
}

impl Grown {
    /// Appends to the file if it is unchanged. Returns its new length in bytes.
    fn append(&self, path: &Path, rest: &[u8]) -> io::Result<u64> {
        if rest.is_empty() {
            return Ok(self.length);
        }
        let is_known =
            |found: fs::Metadata| (found.dev(), found.ino(), found.len()) == (self.device, self.inode, self.length);
        // Checked before the file is opened: opening a pipe that is never read would never end.
        if !is_known(fs::symlink_metadata(path)?) {
            return Err(io::Error::other("another process has changed it"));
        }
        let mut file = OpenOptions::new().append(true).open(path)?;
        if !is_known(file.metadata()?) {
            return Err(io::Error::other("another process has changed it"));
        }
        let written = file.write_all(rest).and_then(|()| file.sync_all());
        if let Err(error) = written {
            // Whole lines or nothing, and the earlier content stays.
            file.set_len(self.length)?;
            return Err(error);
        }
        Ok(self.length + rest.len() as u64)
    }
}

/// Resolves a path that does not exist yet: a link may point to a missing file.
fn resolve(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..40 {
        match fs::read_link(&path) {
            Ok(target) => path = parent_of(&path).join(target),
            Err(_) => return Ok(path),
        }
    }
    Err(io::Error::other("too many levels of symbolic links"))
}

fn parent_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// A folder that is held open, so that another one in its place is not written to.
#[derive(Clone, Debug)]
struct Folder(Arc<OwnedFd>);

impl Folder {
    /// Opens a path without links. A link that has appeared in it is not followed.
    fn open(path: &Path) -> io::Result<Self> {
        // Permission to search the folder is enough.
        #[cfg(target_os = "linux")]
        let search = OFlags::PATH;
        #[cfg(not(target_os = "linux"))]
        let search = OFlags::RDONLY;
        let flags = search | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut folder = openat(CWD, "/", flags, Mode::empty())?;
        for part in path.components().filter(|part| matches!(part, Component::Normal(_))) {
            folder = openat(&folder, part.as_os_str(), flags, Mode::empty())?;
        }
        Ok(Self(Arc::new(folder)))
    }

    #[allow(clippy::unnecessary_cast, clippy::cast_sign_loss, reason = "devices have other types on macOS")]
    fn identity(&self, name: &OsStr) -> Option<Identity> {
        let found = statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        Some(Identity::Is(found.st_dev as u64, found.st_ino as u64))
    }

    fn create(&self, name: &OsStr, private: bool) -> io::Result<File> {
        let mode = Mode::from_raw_mode(if private { 0o600 } else { 0o666 });
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        Ok(openat(&self.0, name, flags, mode).map(File::from)?)
    }
}

/// Replaces a file through a temporary one in the same directory: a reader sees the old document or the new one. Returns the metadata of
/// the new file.
fn replace(
    path: &Path,
    private: bool,
    is_read: IsRead,
    write: impl FnOnce(&mut dyn io::Write) -> io::Result<()>,
) -> io::Result<fs::Metadata> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let folder = Folder::open(parent_of(path))?;
    let (temporary, file) = Temporary::create(&folder, name, private)?;
    let mut file = BufWriter::with_capacity(PIECE, file);
    write(&mut file)?;
    let file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
    file.sync_all()?;
    let written = file.metadata()?;
    let mut unfinished = unfinished();
    // The file in this folder is known only now: another folder may have been at its path when names were compared.
    if folder.identity(name).is_some_and(|found| is_read(&found)) {
        drop(unfinished);
        return Err(io::Error::other("an input file has taken its place"));
    }
    renameat(&folder.0, &temporary.name, &folder.0, name)?;
    unfinished.remove(&temporary.number);
    Ok(written)
}

/// A document that is not complete yet. The file is removed unless it gets its name, whatever prevents that.
struct Temporary {
    number: u64,
    name: OsString,
}

impl Temporary {
    fn create(folder: &Folder, beside: &OsStr, private: bool) -> io::Result<(Self, File)> {
        let mut name = OsString::from(".");
        name.push(beside);
        name.push(format!(".{}.tmp", std::process::id()));
        let mut unfinished = unfinished();
        let file = match folder.create(&name, private) {
            // A process with the same ID that was killed has left this file; if it is a link, it is not followed.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                unlinkat(&folder.0, &name, AtFlags::empty())?;
                folder.create(&name, private)?
            }
            other => other?,
        };
        let number = unfinished.last_key_value().map_or(0, |(last, _)| last + 1);
        unfinished.insert(number, (folder.clone(), name.clone()));
        Ok((Self { number, name }, file))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let mut unfinished = unfinished();
        if let Some((folder, name)) = unfinished.remove(&self.number) {
            // The error of the report is the one to show.
            let _ = unlinkat(&folder.0, name, AtFlags::empty());
        }
    }
}

fn unfinished() -> MutexGuard<'static, Unfinished> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Prepares a process that ends at once: no temporary file of a report remains, and no other one is begun.
pub(crate) fn abandon() {
    for _ in 0..10 {
        match UNFINISHED.try_lock() {
            Err(TryLockError::WouldBlock) => thread::sleep(ABANDON_PATIENCE / 10),
            Ok(unfinished) => return forget(unfinished),
            Err(TryLockError::Poisoned(unfinished)) => return forget(unfinished.into_inner()),
        }
    }
}

fn forget(unfinished: MutexGuard<'static, Unfinished>) {
    for (folder, name) in unfinished.values() {
        // There is no way left to report an error.
        let _ = unlinkat(&folder.0, name, AtFlags::empty());
    }
    // The lock is held until the process is gone.
    std::mem::forget(unfinished);
}

#[cfg(test)]
mod tests {
    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;
    use crate::report::fixture;

    #[test]
    fn a_file_is_itself_under_each_of_its_names() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::write(at("a"), "").unwrap();
        std::os::unix::fs::symlink(at("a"), at("link")).unwrap();
        fs::hard_link(at("a"), at("hard")).unwrap();
        std::os::unix::fs::symlink(dir.path(), at("folder")).unwrap();
        for name in ["link", "hard", "./a", "folder/a", "folder/./hard"] {
            assert_eq!(Identity::of(&at(name)), Identity::of(&at("a")), "{name}");
        }
        std::os::unix::fs::symlink("none/b", at("dangling")).unwrap();
        std::os::unix::fs::symlink("none", at("to-none")).unwrap();
        for (one, other) in [
            ("to-none/b", "none/b"),
            ("dangling", "none/b"),
            ("none/x/../b", "none/b"),
            ("folder/none/b", "none/b"),
            ("./none/b", "none/b"),
        ] {
            assert_eq!(Identity::of(&at(one)), Identity::of(&at(other)), "{one}");
        }
        assert_ne!(Identity::of(&at("none/b")), Identity::of(&at("none/c")));
    }

    fn wanted(path: &Path) -> Vec<Wanted> {
        vec![Wanted { format: &format::JSON, path: path.to_owned() }]
    }

    fn create(wanted: &[Wanted], report: &Report, private: bool) -> anyhow::Result<Files> {
        Files::create(wanted, report, private, |_| false)
    }

    fn complete(path: &Path) -> bool {
        let document: serde_json::Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
        document["complete"].as_bool().unwrap()
    }

    #[test]
    fn writes_an_incomplete_report_first() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("new/dir/report.json");
        let mut files = create(&wanted(&path), &fixture::nothing_judged(), false).unwrap();
        assert!(!complete(&path));
        files.update(&fixture::interrupted());
        assert!(!complete(&path));
        files.finish(&fixture::healthy()).unwrap();
        assert!(complete(&path));
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "temporary files are left");
    }

    #[test]
    fn keeps_a_link_and_replaces_what_it_points_to() {
        let dir = tempfile::tempdir().unwrap();
        let (file, link) = (dir.path().join("file"), dir.path().join("link"));
        for exists in [false, true] {
            if exists {
                fs::write(&file, "old").unwrap();
            } else {
                std::os::unix::fs::symlink("file", &link).unwrap();
            }
            create(&wanted(&link), &fixture::healthy(), false).unwrap();
            assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
            assert!(complete(&file));
        }
    }

    #[test]
    fn what_is_private_stays_so() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("r.json");
        let files = create(&wanted(&path), &fixture::nothing_judged(), true).unwrap();
        let mode = || fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(), 0o600);
        files.finish(&fixture::healthy()).unwrap();
        assert_eq!(mode(), 0o600);
    }

    #[test]
    fn a_left_over_temporary_file_is_no_obstacle() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("r.json");
        let elsewhere = dir.path().join("elsewhere");
        fs::write(&elsewhere, "kept").unwrap();
        std::os::unix::fs::symlink(&elsewhere, dir.path().join(format!(".r.json.{}.tmp", std::process::id()))).unwrap();
        create(&wanted(&path), &fixture::healthy(), false).unwrap();
        assert!(complete(&path));
        assert_eq!(fs::read(&elsewhere).unwrap(), b"kept");
    }

    #[test]
    fn what_cannot_be_written_is_found_at_the_start() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        for path in [dir.path().to_owned(), file.join("below")] {
            let error = create(&wanted(&path), &fixture::healthy(), false).unwrap_err();
            assert!(error.to_string().contains("could not write"), "{error}");
        }
    }

    #[test]
    fn a_later_failure_can_heal_before_the_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("sub/r.json");
        let mut files = create(&wanted(&path), &fixture::nothing_judged(), false).unwrap();
        fs::remove_dir_all(path.parent().unwrap()).unwrap();
        files.update(&fixture::healthy());
        assert!(!path.exists());
        fs::create_dir(path.parent().unwrap()).unwrap();
        files.finish(&fixture::healthy()).unwrap();

        let files = create(&wanted(&path), &fixture::nothing_judged(), false).unwrap();
        fs::remove_dir_all(path.parent().unwrap()).unwrap();
        assert!(files.finish(&fixture::healthy()).unwrap_err().to_string().contains("could not write"));
    }

    /// A reader can follow the document, and a day-long run writes each event once.
    #[test]
    fn what_grows_is_added_to_and_never_written_twice() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("r.ndjson");
        let wanted = [Wanted { format: &format::NDJSON, path: path.clone() }];
        let mut report = fixture::nothing_judged();
        let mut files = create(&wanted, &report, false).unwrap();
        let (begun, mut before) = (fs::metadata(&path).unwrap().ino(), fs::read(&path).unwrap());
        for n in 1..=100 {
            assert!(report.heartbeat(Duration::from_secs(30 * n), Duration::from_secs(30)));
            files.update(&report);
            // Not every checkpoint has news for a growing document.
            files.update(&report);
            let now = fs::read(&path).unwrap();
            assert_eq!(now, format::NDJSON.render(&report, &TextStyle::default()).unwrap());
            assert!(now.starts_with(&before) && now.len() > before.len());
            before = now;
        }
        assert_eq!(fs::metadata(&path).unwrap().ino(), begun, "it was replaced");
        files.finish(&fixture::followed()).unwrap();
        assert_eq!(
            fs::read(&path).unwrap(),
            format::NDJSON.render(&fixture::followed(), &TextStyle::default()).unwrap()
        );
    }

    #[test]
    fn what_others_have_made_of_a_growing_file_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("r.ndjson");
        let elsewhere = dir.path().join("elsewhere");
        let wanted = [Wanted { format: &format::NDJSON, path: path.clone() }];
        let mut report = fixture::nothing_judged();
        let mut files = create(&wanted, &report, false).unwrap();
        let spoilt: [&dyn Fn(); 4] = [
            &|| fs::remove_file(&path).unwrap(),
            &|| fs::write(&path, "").unwrap(),
            &|| fs::rename(&path, dir.path().join("r.ndjson.1")).unwrap(),
            &|| {
                fs::rename(&path, &elsewhere).unwrap();
                std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
                fs::write(&elsewhere, "kept").unwrap();
            },
        ];
        for (n, spoil) in (1..).zip(spoilt) {
            spoil();
            assert!(report.heartbeat(Duration::from_secs(30 * n), Duration::from_secs(30)));
            files.update(&report);
            assert_eq!(fs::read(&path).unwrap(), format::NDJSON.render(&report, &TextStyle::default()).unwrap());
        }
        assert_eq!(fs::read(&elsewhere).unwrap(), b"kept");
    }

    /// A user who can write to the folder may replace the pipe during a run.
    #[test]
    fn what_takes_the_place_of_a_pipe_is_not_written_to() {
        let dir = tempfile::tempdir().unwrap();
        let (pipe, kubeconfig) = (dir.path().join("pipe"), dir.path().join("kubeconfig"));
        fs::write(&kubeconfig, "the only copy").unwrap();
        for is_read in [true, false] {
            mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
            // Opened in both directions, so that opening does not wait.
            let reader = is_read.then(|| OpenOptions::new().read(true).write(true).open(&pipe).unwrap());
            let files = create(&wanted(&pipe), &fixture::nothing_judged(), false).unwrap();
            let beside = Beside::open(&pipe, |_| false).unwrap();
            fs::remove_file(&pipe).unwrap();
            std::os::unix::fs::symlink(&kubeconfig, &pipe).unwrap();
            assert_eq!(
                (files.finish(&fixture::healthy()).is_ok(), beside.finish(b"{}".to_vec()).is_ok()),
                (is_read, is_read)
            );
            assert_eq!(fs::read(&kubeconfig).unwrap(), b"the only copy");
            fs::remove_file(&pipe).unwrap();
            drop(reader);
        }
    }

    #[test]
    fn a_link_that_appears_is_replaced_and_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let (trace, kubeconfig) = (dir.path().join("trace"), dir.path().join("kubeconfig"));
        fs::write(&kubeconfig, "the only copy").unwrap();
        let beside = Beside::open(&trace, |_| false).unwrap();
        beside.write(b"begun").unwrap();
        fs::remove_file(&trace).unwrap();
        std::os::unix::fs::symlink(&kubeconfig, &trace).unwrap();
        beside.finish(b"{}".to_vec()).unwrap();
        assert_eq!(fs::read(&kubeconfig).unwrap(), b"the only copy");
        assert_eq!(fs::read(&trace).unwrap(), b"{}");
    }

    /// A user who can write above the folder may put another folder, or a link to one, in its place.
    #[test]
    fn what_takes_the_place_of_a_folder_is_not_written_to() {
        let dir = tempfile::tempdir().unwrap();
        let (out, home) = (dir.path().join("out"), dir.path().join("home"));
        let kubeconfig = home.join("config");
        fs::create_dir(&home).unwrap();
        fs::write(&kubeconfig, "the only copy").unwrap();
        let is_read: IsRead = |found| matches!(found, Identity::Is(..));
        for is_link in [true, false] {
            let path = out.join("config");
            let mut files = create(&wanted(&path), &fixture::nothing_judged(), false).unwrap();
            let beside = Beside::open(&path, is_read).unwrap();
            fs::rename(&out, dir.path().join("gone")).unwrap();
            if is_link {
                std::os::unix::fs::symlink(&home, &out).unwrap();
            } else {
                fs::rename(&home, &out).unwrap();
                files.is_read = is_read;
            }
            files.update(&fixture::healthy());
            assert!(files.finish(&fixture::healthy()).is_err());
            assert!(beside.finish(b"{}".to_vec()).is_err());
            let left = if is_link { &home } else { &out };
            assert_eq!(fs::read(left.join("config")).unwrap(), b"the only copy");
            assert_eq!(fs::read_dir(left).unwrap().count(), 1, "temporary files are left");
            if is_link {
                fs::remove_file(&out).unwrap();
            }
            fs::remove_dir_all(dir.path().join("gone")).unwrap();
        }
    }

    #[test]
    fn devices_are_written_directly() {
        let files = create(&wanted(Path::new("/dev/null")), &fixture::nothing_judged(), false).unwrap();
        files.finish(&fixture::healthy()).unwrap();
        let files = create(&wanted(Path::new("/dev/full")), &fixture::nothing_judged(), false).unwrap();
        assert!(files.finish(&fixture::healthy()).is_err());
    }
}
