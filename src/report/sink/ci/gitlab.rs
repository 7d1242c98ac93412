//! GitLab folds the lines between two marks in the log of a job.

use jiff::Timestamp;

/// A folded section. Its opener has to close it.
#[derive(Clone, Debug)]
pub(crate) struct Section {
    /// Letters, digits and `_`, different for each run in a job.
    name: String,
}

impl Section {
    /// Returns the section for the progress of the run that began then.
    pub(crate) fn of_progress(started: Timestamp) -> Self {
        Self { name: format!("cluster_health_{}", started.as_millisecond()) }
    }

    /// Returns the line that opens the section, which stays visible.
    pub(crate) fn open(&self, at: Timestamp) -> String {
        let name = &self.name;
        format!("\u{1b}[0Ksection_start:{}:{name}[collapsed=true]\r\u{1b}[0Kcluster-health: progress", at.as_second())
    }

    pub(crate) fn close(&self, at: Timestamp) -> String {
        format!("\u{1b}[0Ksection_end:{}:{}\r\u{1b}[0K", at.as_second(), self.name)
    }
}
