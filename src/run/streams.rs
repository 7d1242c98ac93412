//! What stdout and stderr are, and what is said on stderr beside the progress.

use std::fs::{self, File, Metadata};
use std::io::{self, IsTerminal, Write as _};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;

use crate::config::file;
use crate::plan::Output;
use crate::report::sink::files::Wanted;

/// The reports and the trace, by name.
fn outputs<'a>(wanted: &'a [Wanted], trace: Option<&'a Path>) -> impl Iterator<Item = (&'a str, &'a Path)> {
    let reports = wanted.iter().map(|Wanted { format, path }| (format.name, path.as_path()));
    reports.chain(trace.map(|path| ("trace", path)))
}

/// A report replaces its file, and with it whatever a stream has written there.
pub(super) fn apart_from_streams(wanted: Vec<Wanted>, trace: Option<&Path>) -> Result<Vec<Wanted>, String> {
    let (stdout, stderr) = (io::stdout(), io::stderr());
    let streams: [(&str, &dyn AsFd); 2] = [("stdout", &stdout), ("stderr", &stderr)];
    for (_, path) in outputs(&wanted, trace) {
        if let Some((name, _)) = streams.iter().find(|(_, stream)| is_file(stream) && is_at(stream, path)) {
            return Err(format!("{name} is redirected to the file of a report: `{}`", path.display()));
        }
    }
    Ok(wanted)
}

/// What is read is not written, under whatever name.
pub(super) fn apart_from_inputs(wanted: &[Wanted], output: &Output) -> Result<(), String> {
    let reports = outputs(wanted, output.trace.as_deref()).map(|(name, path)| (format!("the {name} report"), path));
    let message = output.termination_log.iter().map(|path| ("the termination message".to_owned(), path.as_path()));
    for (what, path) in reports.chain(message) {
        if is_input(path) {
            return Err(format!("{what} would overwrite an input file: `{}`", path.display()));
        }
    }
    let (stdout, stderr) = (io::stdout(), io::stderr());
    let streams: [(&str, &dyn AsFd); 2] = [("stdout", &stdout), ("stderr", &stderr)];
    for (name, stream) in streams {
        if metadata(&stream).is_ok_and(|found| found.is_file() && was_read(&found)) {
            return Err(format!("{name} is redirected to an input file"));
        }
    }
    Ok(())
}

/// Whether this is a file that was read, under whatever name.
pub(super) fn is_input(path: impl AsRef<Path>) -> bool {
    fs::metadata(path).is_ok_and(|found| (found.is_file() || found.file_type().is_fifo()) && was_read(&found))
}

fn was_read(found: &Metadata) -> bool {
    file::inputs().iter().any(|input| fs::metadata(input).is_ok_and(|input| identity(&input) == identity(found)))
}

/// Redirected into one, so that it is not what people watch.
pub(super) fn is_file(stream: &impl AsFd) -> bool {
    metadata(stream).is_ok_and(|found| found.is_file())
}

/// What is written there is on no screen and in no log: a file, or `/dev/null`.
pub(super) fn is_elsewhere(stream: &(impl AsFd + IsTerminal)) -> bool {
    let is_device = metadata(stream).is_ok_and(|found| found.file_type().is_char_device());
    is_file(stream) || (is_device && !stream.is_terminal())
}

/// Redirected into this one.
pub(super) fn is_at(stream: &impl AsFd, path: impl AsRef<Path>) -> bool {
    match (metadata(stream), fs::metadata(path)) {
        (Ok(stream), Ok(file)) => identity(&stream) == identity(&file),
        _ => false,
    }
}

fn identity(found: &Metadata) -> (u64, u64) {
    (found.dev(), found.ino())
}

fn metadata(stream: &impl AsFd) -> io::Result<Metadata> {
    File::from(stream.as_fd().try_clone_to_owned()?).metadata()
}

/// `error: …`, and what to do about it; in color if [`console`] has been told so, or finds that stderr shows it.
pub(crate) fn complain(message: &str, hint: Option<&str>) {
    let style = console::Style::new().for_stderr();
    let mut stderr = io::stderr().lock();
    let _ = writeln!(stderr, "{}: {message}", style.clone().red().bold().apply_to("error"));
    if let Some(hint) = hint {
        let _ = writeln!(stderr, "{}: {hint}", style.cyan().apply_to("hint"));
    }
}
