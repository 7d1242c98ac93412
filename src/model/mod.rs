//! The words that all floors above share: stages, facts and rights, what a judge can say, reasons and what to do about them, and
//! how the process ends.

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
    About, Excuse, Finding, Hint, Kind, NO_NODE, Outcome, Problem, Severity, Status, Target, Verdict,
};
