//! The termination message: what Kubernetes shows of a container that has ended, in `kubectl describe pod` and in whatever reads
//! the status of pods.

use std::fs;
use std::path::{Path, PathBuf};

use crate::report::Report;
use crate::report::view::termination;

/// Where the kubelet reads it.
const IN_POD: &str = "/dev/termination-log";
/// The kubelet sets it in every pod.
const POD: &str = "KUBERNETES_SERVICE_HOST";

/// Writes it if there is somebody to read it. Nothing depends on whether that works.
pub(super) fn write(named: Option<&Path>, report: &Report) {
    let in_pod = || std::env::var_os(POD).filter(|host| !host.is_empty()).map(|_| PathBuf::from(IN_POD));
    let Some(path) = named.map(Path::to_owned).or_else(in_pod) else { return };
    // Of whatever else may be there, a pipe would make us wait. A file that the kubelet has not made is nobody's.
    let is_file = fs::metadata(&path).map_or(named.is_some(), |found| found.is_file());
    if is_file {
        let _ = fs::write(path, termination::message(report));
    }
}
