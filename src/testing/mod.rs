//! Test support: healthy clusters as values, ways to break them, and the laws that hold for all of them.

mod catalog;
pub(crate) mod fixture;
pub(crate) mod judged;
pub(crate) mod laws;
pub(crate) mod work;
