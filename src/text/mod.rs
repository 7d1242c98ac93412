//! Formatting and parsing of text and numbers, without any knowledge of clusters.

mod address;
pub(crate) mod clock;
pub(crate) mod duration;
pub(crate) mod excerpt;
#[cfg(test)]
mod fuzz;
mod glob;
mod invisible;
pub(crate) mod json_path;
pub(crate) mod lines;
mod names;
mod nearest;
pub(crate) mod sanitize;
mod secrets;
#[cfg(test)]
pub(crate) mod secrets_tests;
pub(crate) mod version;
mod wrap;
pub(crate) mod yaml;

pub(crate) use address::{bracketed, has_port, host};
pub(crate) use glob::fits;
pub(crate) use names::{is_label, joined, some};
pub(crate) use nearest::nearest;
pub(crate) use wrap::wrapped;

/// Formats an id as etcd's own tools do.
pub(crate) fn hex(id: u64) -> String {
    format!("{id:016x}")
}
