//! Destination and appearance of the result.

use std::path::PathBuf;

use crate::cli::OutputOptions;
use crate::report::format::{self, Format};
use crate::report::sink::ci::CiChoice;
use crate::report::sink::terminal::Color;

#[derive(Clone, Debug)]
pub(crate) struct Output {
    /// Format of the result on stdout.
    pub(crate) format: &'static Format,
    /// `--report`, as typed: `FORMAT=PATH` or `FORMAT=URL`.
    pub(crate) reports: Vec<String>,
    /// `--report-headers-file`.
    pub(crate) report_headers: Option<PathBuf>,
    /// `--trace`.
    pub(crate) trace: Option<PathBuf>,
    pub(crate) termination_log: Option<PathBuf>,
    pub(crate) quiet: bool,
    pub(crate) verbose: bool,
    /// Whether to explain the verdict of each check.
    pub(crate) why: bool,
    pub(crate) color: Color,
    pub(crate) ci: CiChoice,
}

impl Output {
    /// Whether a document is written that `report` can read again.
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
            report_headers: args.report_headers_file.clone(),
            trace: args.trace.clone(),
            termination_log: args.termination_log.clone(),
            quiet: args.quiet,
            verbose: args.verbose > 0,
            why: args.verbose > 1,
            color: args.color,
            ci: args.ci,
        }
    }
}
