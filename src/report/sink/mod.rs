//! Where a report goes: files, receivers, the terminal while the run goes on, and what CI systems are told beside it.

pub(crate) mod ci;
pub(crate) mod files;
pub(crate) mod live;
pub(crate) mod terminal;
pub(crate) mod wanted;
mod why;
