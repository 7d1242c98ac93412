//! `report`: stored reports, shown in another format, and those of several clusters as one.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rustix::fs::OFlags;

use super::CommandError;
use crate::cli::ReportArgs;
use crate::config::Environment;
use crate::config::file::plain;
use crate::model::Exit;
use crate::report::TextStyle;
use crate::report::merged::{Member, Merged};
use crate::report::sink::terminal;
use crate::report::stored::{self, LARGEST, Stored};
use crate::text::clock;
use crate::text::sanitize::clean;

/// Writes the requested report. The exit code is that of the clusters, as far as the files show it.
pub(crate) fn show(args: &ReportArgs, out: &mut impl Write) -> Result<Exit, CommandError> {
    let output = args.output;
    let refused = || {
        let error = format!(
            "`{}` streams a run as it happens, and a stored report has ended: choose another format",
            output.name
        );
        CommandError::Usage(error)
    };
    if output.grows() {
        return Err(refused());
    }
    let (expected, now) = (expected(args)?, clock::now());
    let environment = Environment::of_process();
    let style = TextStyle { ascii: terminal::ascii(|name| environment.get(name)), ..TextStyle::default() };
    let all = args.files.iter().map(|file| {
        let name = file.to_string_lossy();
        let stored = contents(file).and_then(|bytes| stored::read(&bytes, now));
        (name, stored)
    });
    let mut only = None;
    let merged = all.fold(Merged::default(), |merged, (name, stored)| {
        merged.with(match stored {
            Ok(Stored::One(report)) => {
                only = (args.files.len() == 1).then(|| report.clone());
                Merged::of(Member::new(&name, *report, now))
            }
            Ok(Stored::Several(several)) => several,
            Err(why) => Merged::unusable(&name, &why),
        })
    });
    let merged = merged.expecting(expected, args.max_age.map(|age| age.0));
    let overview = merged.overview(now);
    let written = match only.filter(|_| overview.is_of_one()) {
        Some(report) => Some(output.write(&report, &style, out)),
        None => output.write_merged(&overview, &style, out),
    };
    match written.ok_or_else(refused)?.and_then(|()| out.flush()) {
        // A reader that closes the pipe has read enough, and the exit code is still to come.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
        written => written?,
    }
    Ok(overview.exit)
}

/// Returns the names of `--expect` and `--expect-file`, or `None` if neither was given.
fn expected(args: &ReportArgs) -> Result<Option<BTreeSet<String>>, CommandError> {
    let mut names: BTreeSet<String> = args.expect.iter().map(|name| clean(name)).collect();
    if let Some(path) = &args.expect_file {
        let unusable = |why: String| CommandError::Usage(format!("`--expect-file {}`: {why}", path.display()));
        let text = contents(path).and_then(|bytes| String::from_utf8(bytes).map_err(|_| "is not UTF-8".to_owned()));
        let text = text.map_err(unusable)?;
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        names.extend(lines.map(clean));
        if names.is_empty() {
            return Err(unusable("names no cluster".to_owned()));
        }
    }
    Ok((!names.is_empty()).then_some(names))
}

/// Returns the bytes of a regular file, or of stdin.
fn contents(path: &Path) -> Result<Vec<u8>, String> {
    if path.as_os_str() == "-" {
        return bounded(io::stdin().lock());
    }
    let plain = |error: io::Error| plain(&error);
    // The file is checked before it is opened, too: opening some devices already has an effect.
    is_file(&fs::metadata(path).map_err(plain)?)?;
    // A file that has become a pipe in the meantime must not block the process.
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(plain)?;
    is_file(&file.metadata().map_err(plain)?)?;
    bounded(file)
}

fn is_file(found: &fs::Metadata) -> Result<(), String> {
    if found.is_file() { Ok(()) } else { Err("is not a regular file".to_owned()) }
}

fn bounded(from: impl Read) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    from.take(LARGEST + 1).read_to_end(&mut bytes).map_err(|error| plain(&error))?;
    let is_small = bytes.len() as u64 <= LARGEST;
    // Editors of some systems begin a text with a byte order mark.
    if bytes.starts_with(b"\xEF\xBB\xBF") {
        bytes.drain(..3);
    }
    if is_small { Ok(bytes) } else { Err(format!("is larger than {} MiB", LARGEST >> 20)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::format::ALL;

    struct Closed;

    impl Write for Closed {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn whoever_stops_reading_makes_nothing_healthy() {
        for output in ALL.iter().filter(|output| !output.grows()) {
            let files = vec!["/there/is/none".into()];
            let args = ReportArgs { files, output, expect: Vec::new(), expect_file: None, max_age: None };
            match show(&args, &mut Closed) {
                Ok(exit) => assert_eq!(exit, Exit::Undetermined),
                Err(error) => panic!("{}: {error:?}", output.name),
            }
        }
    }
}
