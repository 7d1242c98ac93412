//! Changes of a running world: immediately, at a time, or when a call arrives.

mod change;
mod check;
mod parse;
mod play;
mod states;
mod waiting;

#[cfg(test)]
mod tests;

use std::net::IpAddr;
use std::time::Duration;

use anyhow::Context as _;
use serde::Deserialize;

pub use self::change::Change;
pub(crate) use self::parse::from_toml;
pub use self::parse::{Span, from_text};
pub(crate) use self::play::Timeline;
use crate::world::{Machine, Server, World};

/// A change, and its time.
#[derive(Clone, Debug)]
pub struct Step {
    /// Position in its list, counted from 1, for messages.
    pub number: usize,
    pub when: When,
    pub change: Change,
}

/// The time of a change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum When {
    #[default]
    Now,
    /// Time after now.
    After(Duration),
    /// Before a call is answered.
    Asked(Asked),
}

/// The call that a change waits for.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Asked {
    /// `None`: all servers.
    pub server: Option<Kind>,
    /// Name of the machine that receives the call; `None`: all machines.
    pub node: Option<String>,
    /// The full name of the call (`Version`, `Get MachineStatuses`, `/api/v1/nodes`), or its beginning followed by `*`.
    pub call: String,
    /// The change comes with the call of this number.
    #[serde(default = "once")]
    pub times: u64,
}

const fn once() -> u64 {
    1
}

/// A server of a machine, the balancer, or Omni.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    Apid,
    ApiServer,
    Balancer,
    Etcd,
    Kubelet,
    Omni,
}

impl Step {
    /// Checks that the world has the machines and servers that the step names, regardless of their state, and that its values are valid.
    ///
    /// # Errors
    /// If not; the error contains the number of the step.
    pub fn check(&self, world: &World) -> anyhow::Result<()> {
        let asked = match &self.when {
            When::Asked(Asked { node: Some(node), .. }) => known(world, node).map(drop).context("`when-asked`"),
            _ => Ok(()),
        };
        asked.and_then(|()| self.change.check(world)).with_context(|| self.place())
    }

    /// Makes the change.
    ///
    /// # Errors
    /// If the step names something that the world does not have; the error contains the number of the step.
    pub(crate) fn make(&self, world: &mut World) -> anyhow::Result<()> {
        self.change.make(world).with_context(|| self.place())
    }

    fn place(&self) -> String {
        format!("change {}", self.number)
    }
}

impl Kind {
    /// Kind and machine of a server.
    fn of(server: &Server) -> (Self, Option<IpAddr>) {
        match server {
            Server::Apid(at) => (Self::Apid, Some(*at)),
            Server::ApiServer(at) => (Self::ApiServer, Some(*at)),
            Server::Balancer => (Self::Balancer, None),
            Server::Etcd(at) => (Self::Etcd, Some(*at)),
            Server::Kubelet(at) => (Self::Kubelet, Some(*at)),
            Server::Omni => (Self::Omni, None),
        }
    }

    /// The servers of this kind: that of one machine, or all.
    fn servers(self, world: &World, node: Option<&str>) -> Vec<Server> {
        let server: fn(IpAddr) -> Server = match self {
            Self::Balancer => return vec![Server::Balancer],
            Self::Omni => return vec![Server::Omni],
            Self::Apid => Server::Apid,
            Self::ApiServer => Server::ApiServer,
            Self::Etcd => Server::Etcd,
            Self::Kubelet => Server::Kubelet,
        };
        let has = |machine: &Machine| matches!(self, Self::Apid | Self::Kubelet) || machine.api_server.is_some();
        let machines = world.machines.iter().filter(|(_, machine)| node.is_none_or(|name| machine.name == name));
        machines.filter(|(_, machine)| has(machine)).map(|(at, _)| server(*at)).collect()
    }
}

/// The machine with a name from user input.
fn known<'a>(world: &'a World, node: &str) -> anyhow::Result<(IpAddr, &'a Machine)> {
    world.machine(node).with_context(|| format!("there is no machine `{node}`"))
}
