//! `report`: stored reports, shown in another format, and those of several clusters as one.

use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rustix::fs::OFlags;

use super::CommandError;
use crate::cli::ReportArgs;
use crate::config::Environment;
use crate::model::Exit;
use crate::report::sink::terminal;
use crate::report::stored::{self, LARGEST};
use crate::report::{TextStyle, ledger};

/// Writes what is asked for. The exit code is that of the cluster, as far as the files show it.
pub(crate) fn show(args: &ReportArgs, out: &mut impl Write) -> Result<Exit, CommandError> {
    let ReportArgs { files, output } = args;
    if output.grows() {
        let error = format!("`{}` follows a run, and a stored report is over: choose another format", output.name);
        return Err(CommandError::Usage(error));
    }
    let environment = Environment::of_process();
    let style = TextStyle { ascii: terminal::ascii(false, |name| environment.get(name)), ..TextStyle::default() };
    let [file] = &files[..] else { return Err(CommandError::Usage("one file".to_owned())) };
    let report = match contents(file).and_then(|bytes| stored::read(&bytes)) {
        Ok(report) => report,
        Err(error) => return Err(CommandError::Usage(error)),
    };
    output.write(&report, &style, out)?;
    out.flush()?;
    Ok(ledger::gate(&report))
}

/// The bytes of a regular file, or of stdin.
fn contents(path: &Path) -> Result<Vec<u8>, String> {
    if path.as_os_str() == "-" {
        return bounded(io::stdin().lock());
    }
    let plain = |error: io::Error| error.kind().to_string();
    // Before it is opened, too: to open some devices already does something.
    is_file(&fs::metadata(path).map_err(plain)?)?;
    // What has become a pipe in the meantime does not hold up the process.
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
    from.take(LARGEST + 1).read_to_end(&mut bytes).map_err(|error| error.kind().to_string())?;
    let is_small = bytes.len() as u64 <= LARGEST;
    if is_small { Ok(bytes) } else { Err(format!("is larger than {} MiB", LARGEST >> 20)) }
}
