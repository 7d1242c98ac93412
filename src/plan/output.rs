//! Where the result goes, and how it looks.

use std::path::PathBuf;
use std::time::Duration;

use crate::cli::OutputOptions;
use crate::report::Granularity;
use crate::report::format::{self, Format};
use crate::report::sink::ci::CiChoice;
use crate::report::sink::terminal::Color;

#[derive(Clone, Debug)]
pub(crate) struct Output {
    /// On stdout.
    pub(crate) format: &'static Format,
    /// `--report`, as typed: `FORMAT=PATH` or `FORMAT=URL`.
    pub(crate) reports: Vec<String>,
    pub(crate) junit_file: Option<PathBuf>,
    /// `--report-headers-file`.
    pub(crate) report_headers: Option<PathBuf>,
    pub(crate) junit: Granularity,
    /// `--trace`.
    pub(crate) trace: Option<PathBuf>,
    pub(crate) termination_log: Option<PathBuf>,
    pub(crate) quiet: bool,
    pub(crate) verbose: bool,
    /// Say why each check came to its verdict.
    pub(crate) why: bool,
    pub(crate) color: Color,
    pub(crate) ci: CiChoice,
    pub(crate) ascii: bool,
    pub(crate) heartbeat: Duration,
}

impl Output {
    /// Whether there is a document that `report` can read again.
    pub(crate) fn is_kept(&self) -> bool {
        let has = |format: &Format| self.reports.iter().any(|report| report.split('=').next() == Some(format.name));
        format::ALL.into_iter().any(|format| format.is_kept() && (self.format == format || has(format)))
    }
}

impl From<&OutputOptions> for Output {
    fn from(args: &OutputOptions) -> Self {
        Self {
            format: args.output,
            reports: args.report.clone(),
            junit_file: args.junit_file.clone(),
            report_headers: args.report_headers_file.clone(),
            junit: args.junit_granularity,
            trace: args.trace.clone(),
            termination_log: args.termination_log.clone(),
            quiet: args.quiet,
            verbose: args.verbose > 0,
            why: args.verbose > 1,
            color: args.color,
            ci: args.ci,
            ascii: args.ascii,
            heartbeat: args.heartbeat.0,
        }
    }
}
