//! Destinations of a report: files, receivers, the terminal during the run, and CI systems.

pub(crate) mod ci;
pub(crate) mod files;
pub(crate) mod live;
pub(crate) mod terminal;
pub(crate) mod wanted;
mod why;
