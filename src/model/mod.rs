//! The vocabulary shared by all layers above: stages, facts and permissions, verdicts, reasons and their remedies, and exit codes.

mod exit;
mod fact;
mod id;
pub(crate) mod log_line;
mod page;
pub(crate) mod reason;
mod role;
mod shared;
mod stage;
mod verdict;

pub(crate) use exit::Exit;
pub(crate) use fact::{Fact, Right};
pub(crate) use id::CheckId;
pub(crate) use page::Page;
#[cfg(test)]
pub(crate) use page::SITE;
pub(crate) use reason::{Reason, Source, Step};
pub(crate) use role::{MachineType, Role};
pub(crate) use shared::Shared;
pub(crate) use stage::Stage;
pub(crate) use verdict::{
    About, Excuse, Finding, Hint, Kind, NO_NODE, Outcome, Problem, Severity, Status, Target, Verdict, Write,
};
