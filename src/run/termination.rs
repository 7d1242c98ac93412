//! The termination message: what Kubernetes shows of a container that has ended, in `kubectl describe pod` and in whatever reads
//! the status of pods.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use super::outputs::is_input_file;
use crate::report::Report;
use crate::report::view::termination;

/// Where the kubelet reads it.
const IN_POD: &str = "/dev/termination-log";
/// The kubelet sets it in every pod.
const POD: &str = "KUBERNETES_SERVICE_HOST";

/// The file, opened at the start: what appears under its name later is not written to. It is written in place, because the kubelet mounts
/// it into the container, and a mount cannot be replaced.
pub(super) struct Message(File);

/// Where it goes, if there is somebody to read it.
pub(super) fn place(named: Option<&Path>) -> Option<PathBuf> {
    let in_pod = || std::env::var_os(POD).filter(|host| !host.is_empty()).map(|_| PathBuf::from(IN_POD));
    // A file that the kubelet has not made is nobody's.
    named.map(Path::to_owned).or_else(|| in_pod().filter(|path| path.is_file()))
}

impl Message {
    /// Nothing depends on whether that works.
    pub(super) fn open(path: &Path) -> Option<Self> {
        let options = || OpenOptions::new().write(true).to_owned();
        let file = match fs::metadata(path) {
            // A pipe would make us wait.
            Ok(found) => options().open(path).ok().filter(|_| found.is_file())?,
            Err(_) => options().create_new(true).open(path).ok()?,
        };
        let is_own = file.metadata().is_ok_and(|found| found.is_file()) && !is_input_file(&file);
        is_own.then_some(Self(file))
    }

    pub(super) fn write(mut self, report: &Report) {
        let _ = self.0.set_len(0).and_then(|()| self.0.write_all(termination::message(report).as_bytes()));
    }
}
