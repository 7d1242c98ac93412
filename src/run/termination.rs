//! The termination message: the text that Kubernetes shows for a container that has ended, in `kubectl describe pod` and in any tool that
//! reads the status of pods.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use super::outputs::is_input_file;
use crate::report::Report;
use crate::report::view::termination;

/// Path that the kubelet reads.
const IN_POD: &str = "/dev/termination-log";
/// Variable that the kubelet sets in every pod.
const POD: &str = "KUBERNETES_SERVICE_HOST";

/// The file, opened at the start: a file that appears under its name later is not written to. It is written in place, because the kubelet
/// mounts it into the container, and a mount cannot be replaced.
pub(super) struct Message(File);

/// Returns the path of the message, if anything reads it.
pub(super) fn place(named: Option<&Path>) -> Option<PathBuf> {
    let in_pod = || std::env::var_os(POD).filter(|host| !host.is_empty()).map(|_| PathBuf::from(IN_POD));
    // A file that the kubelet has not created is never read.
    named.map(Path::to_owned).or_else(|| in_pod().filter(|path| path.is_file()))
}

impl Message {
    /// Opens the file. A failure is ignored, because nothing depends on the message.
    pub(super) fn open(path: &Path) -> Option<Self> {
        let options = || OpenOptions::new().write(true).to_owned();
        let file = match fs::metadata(path) {
            // Opening a pipe that nothing reads would block.
            Ok(found) if !found.is_file() => return None,
            Ok(_) => options().open(path).ok()?,
            Err(_) => options().create_new(true).open(path).ok()?,
        };
        let is_own = file.metadata().is_ok_and(|found| found.is_file()) && !is_input_file(&file);
        is_own.then_some(Self(file))
    }

    pub(super) fn write(mut self, report: &Report) {
        let _ = self.0.set_len(0).and_then(|()| self.0.write_all(termination::message(report).as_bytes()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_that_nothing_reads_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        assert!(Message::open(&path).is_none());
        assert!(Message::open(folder.path()).is_none());
    }
}
