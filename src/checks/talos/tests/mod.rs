//! The judges of Talos against the healthy fixture with one thing broken.

mod access;
mod boots;
mod clock;
mod connectivity;
mod gaps;
mod machine;
mod readiness;
mod server;
mod ways;
