//! GitLab folds what stands between two marks in the log of a job.

use jiff::Timestamp;

/// A folded section; whoever opens it closes it.
#[derive(Clone, Debug)]
pub(crate) struct Section {
    /// Letters, digits and `_`: one run in a job is not another.
    name: String,
}

impl Section {
    /// For the progress of the run that began then.
    pub(crate) fn of_progress(started: Timestamp) -> Self {
        Self { name: format!("cluster_health_{}", started.as_millisecond()) }
    }

    /// The line that opens it, which stays visible.
    pub(crate) fn open(&self, at: Timestamp) -> String {
        let name = &self.name;
        format!("\u{1b}[0Ksection_start:{}:{name}[collapsed=true]\r\u{1b}[0Kcluster-health: progress", at.as_second())
    }

    pub(crate) fn close(&self, at: Timestamp) -> String {
        format!("\u{1b}[0Ksection_end:{}:{}\r\u{1b}[0K", at.as_second(), self.name)
    }
}
