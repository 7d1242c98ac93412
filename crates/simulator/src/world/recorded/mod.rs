//! Worlds that reproduce a recording of a real cluster: its calls and answers.
//!
//! Facts that were not recorded are those of a healthy cluster with the same machines. Successful answers become part of the world; missing
//! answers become machines that are off, processes that do not respond, or calls that fail. Times have the same distance from now that they
//! had from the time of the recording.

mod etcd;
mod failures;
mod kubernetes;
mod machines;
mod recording;
mod talos;
mod translate;

use serde_json::Value;

use self::recording::Recording;
use self::translate::Translation;
use super::{Shape, World};
use crate::address::Network;

impl World {
    /// The world of a recording (`e2e/recordings`, format in `e2e/README.md`). Machines have the names of the real ones; their addresses
    /// are those of the network, in the order of the real ones. Kubeconfigs contain the machine that the recorded one contained, or the
    /// balancer if that was not a machine.
    ///
    /// # Errors
    /// If the text is not a recording, or contains no machine.
    pub fn from_recording(network: &Network, text: &str) -> anyhow::Result<Self> {
        let document: Value = serde_json::from_str(text)?;
        let original = Recording::of(document.clone())?;
        let machines = machines::find(&original)?;
        let translation = Translation::new(network, &machines, &original);
        let recording = Recording::of(translation.document(document))?;
        let shape = Shape::default();
        let versions = machines::versions(&recording, shape.versions);
        let named = machines.into_iter().map(|machine| (machine.role, machine.name)).collect();
        let mut world = Self::of_machines(network, &shape.cluster, &versions, named, shape.api_port);
        talos::tell(&mut world, &recording, &translation);
        etcd::tell(&mut world, &recording);
        kubernetes::tell(&mut world, &recording);
        failures::tell(&mut world, &recording);
        Ok(world)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_recording_is_none() {
        let error = |text: &str| {
            let world = World::from_recording(&Network::claim().unwrap(), text);
            format!("{:#}", world.err().unwrap())
        };
        assert!(error("{}").starts_with("this is no recording: missing field `run`"), "{}", error("{}"));
        let empty = r#"{"run": {"time": "2026-11-21T19:21:21.9Z"}, "state": {}, "calls": []}"#;
        assert_eq!(error(empty), "it tells of no machine");
    }
}
