//! Translation of the recording's addresses and times to those of the simulation.

use std::net::IpAddr;

use jiff::{SignedDuration, Timestamp};
use regex::{Captures, Regex};
use serde_json::Value;

use super::machines::Found;
use super::recording::Recording;
use crate::address::Network;

pub(super) struct Translation {
    /// Each address of the recording, with its translation.
    addresses: Vec<(IpAddr, IpAddr)>,
    shift: SignedDuration,
    address: Option<Regex>,
    time: Option<Regex>,
}

impl Translation {
    pub(super) fn new(network: &Network, machines: &[Found], recording: &Recording) -> Self {
        let mut addresses: Vec<_> =
            machines.iter().enumerate().map(|(index, machine)| (machine.address, network.machine(index))).collect();
        // An API server outside the machines is that of another cluster, or a balancer.
        for server in recording.kubernetes().filter_map(|call| call.host().parse().ok()) {
            if addresses.iter().all(|(known, _)| *known != server) {
                addresses.push((server, network.balancer()));
            }
        }
        // Shifting by whole seconds preserves fractions.
        let shift = SignedDuration::from_secs(Timestamp::now().as_second() - recording.run.time.as_second());
        Self {
            addresses,
            shift,
            address: Regex::new(r"\b\d{1,3}(\.\d{1,3}){3}\b").ok(),
            time: Regex::new(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z").ok(),
        }
    }

    /// Translates the addresses and times in all texts.
    pub(super) fn document(&self, value: Value) -> Value {
        match value {
            Value::String(text) => self.text(&text).into(),
            Value::Array(items) => items.into_iter().map(|item| self.document(item)).collect(),
            Value::Object(entries) => entries.into_iter().map(|(key, entry)| (key, self.document(entry))).collect(),
            other => other,
        }
    }

    fn text(&self, text: &str) -> String {
        let (Some(address), Some(time)) = (&self.address, &self.time) else { return text.to_owned() };
        let here = address.replace_all(text, |found: &Captures<'_>| {
            let parsed: Option<IpAddr> = found[0].parse().ok();
            let known = parsed.and_then(|there| self.addresses.iter().find(|(known, _)| *known == there));
            known.map_or_else(|| found[0].to_owned(), |(_, here)| here.to_string())
        });
        let now = time.replace_all(&here, |found: &Captures<'_>| {
            let Ok(there) = found[0].parse::<Timestamp>() else { return found[0].to_owned() };
            let fraction = found.get(1).map_or("", |fraction| fraction.as_str());
            format!("{}{fraction}Z", self.time(there).strftime("%Y-%m-%dT%H:%M:%S"))
        });
        now.into_owned()
    }

    fn time(&self, there: Timestamp) -> Timestamp {
        there.checked_add(self.shift).unwrap_or(there)
    }

    /// Translates a `google.protobuf.Timestamp`. Go's zero remains unchanged.
    pub(super) fn timestamp(&self, there: &Value) -> Option<Timestamp> {
        let nanos = i32::try_from(there["nanos"].as_i64()?).ok()?;
        let there = Timestamp::new(there["seconds"].as_i64()?, nanos).ok()?;
        Some(if there < Timestamp::UNIX_EPOCH { there } else { self.time(there) })
    }
}
