//! The Talos API.
//!
//! Every node is queried with separate calls, each with its own deadline, through an endpoint that forwards (`node` metadata): an
//! aggregated call blocks as a whole when one node does, and hides failures. All calls go through [`call`], all connections through
//! [`dial::http2`](super::dial::http2), all causes through [`dial::cause`](super::dial::cause) and [`refusal`].

mod call;
mod condition;
mod endpoint;
mod etcd;
mod kubeconfig;
mod logs;
mod machine;
mod machine_id;
mod maintenance;
mod node;
mod refusal;
mod resources;
mod server;
mod specs;
#[cfg(test)]
mod tests;

use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use rustls::ClientConfig;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use self::call::{Caller, Route};
use super::budget::Budget;
use super::dial::http2::{Link, Security};
use super::dial::tls;
use crate::config::certificate::Identity;
use crate::config::omni::ServiceAccount;
use crate::config::roots::Roots;
use crate::model::{Role, Shared};
use crate::snapshot::{Gap, GapKind, Observed};

pub(crate) use self::call::Lane;
pub(crate) use self::endpoint::EndpointAnswer;
pub(crate) use self::machine_id::machine_id;
pub(crate) use self::node::{NodeAsk, first_contact_takes};
pub(crate) use self::server::ServerAsk;
pub(crate) use super::dial::http2::EndpointAddress;

/// Limit for machines whose facts are prefetched at once: all their calls are a fraction of those that may be in flight.
const AHEAD: usize = 16;
/// Port of apid.
const APID: u16 = 50000;

/// Endpoints and credentials. Contains secrets, so it has no `Debug`.
#[derive(Clone)]
pub(crate) struct Config {
    pub(crate) endpoints: Vec<EndpointAddress>,
    pub(crate) roots: Roots,
    pub(crate) client: Option<Identity>,
    /// Set if the endpoints are Omni's; this account signs every call.
    pub(crate) account: Option<Arc<ServiceAccount>>,
    /// Sent as metadata `context`.
    pub(crate) cluster: Option<String>,
    /// Time limit for one call, connecting included.
    pub(crate) timeout: Duration,
}

/// A machine reported by discovery (`Members`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    /// The Kubernetes node name.
    pub(crate) name: String,
    pub(crate) node_id: String,
    /// Fully qualified.
    pub(crate) hostname: String,
    pub(crate) addresses: Vec<String>,
    pub(crate) role: Role,
    /// Port of its API server; control planes only, since Talos 1.5.
    pub(crate) api_port: Option<u16>,
}

impl Member {
    /// Returns its hostname if that is its name and a domain. Any other hostname would be a claim to the name or the address of another
    /// machine.
    pub(crate) fn qualified_name(&self) -> Option<&String> {
        let (label, _) = self.hostname.split_once('.')?;
        let is_address = self.hostname.parse::<IpAddr>().is_ok();
        (label.eq_ignore_ascii_case(&self.name) && !is_address).then_some(&self.hostname)
    }
}

/// A client of one cluster, kept for the whole run: connections are reused from round to round and reopened when lost.
pub(crate) struct TalosClient {
    /// Connections in the order of the configuration.
    links: Vec<Link>,
    /// Set if the endpoints are not machines: any control plane answers calls that are not addressed to one machine.
    through_omni: bool,
    caller: Caller,
    budget: Arc<Budget>,
    /// The list of machines that an endpoint has sent last. The others usually send the same.
    listed: Mutex<Shared<Vec<Member>>>,
    unverified: Arc<ClientConfig>,
    /// Permits for control planes whose facts are read during the first contact.
    ahead: Semaphore,
}

/// Returns TLS settings that do not demand HTTP/2 in the handshake: apid of Talos 1.7.0 to 1.8.1 does not negotiate it, but uses it.
fn unproven(config: Arc<ClientConfig>) -> Security {
    Security::Tls { config, demands_h2: false }
}

impl TalosClient {
    /// Creates the client without connecting. Fails if the credentials cannot be used.
    pub(crate) fn new(config: Config) -> anyhow::Result<Self> {
        let tls = tls::verifying(config.roots.all(), config.client.as_ref())?;
        let through_omni = config.account.is_some();
        let security = match config.account {
            Some(account) => Security::Signed { config: tls, account },
            None => unproven(tls.into_inner()),
        };
        let cluster =
            config.cluster.map(|cluster| cluster.parse()).transpose().context("cannot send the cluster name")?;
        Ok(Self {
            links: config.endpoints.into_iter().map(|address| Link::new(address, security.clone())).collect(),
            through_omni,
            caller: Caller::new(config.timeout, cluster),
            budget: Arc::default(),
            listed: Mutex::default(),
            unverified: tls::accepting_any()?,
            ahead: Semaphore::new(AHEAD),
        })
    }

    /// Prepares for the calls to this many machines.
    pub(crate) fn expect(&self, machines: usize) {
        self.caller.expect(machines);
    }

    /// Charges the data that the client keeps to `budget`.
    pub(crate) fn within(mut self, budget: &Arc<Budget>) -> Self {
        self.budget = Arc::clone(budget);
        self
    }

    /// Charges a list of machines, and keeps lists that are equal once.
    fn keep(&self, members: Vec<Member>) -> Observed<Shared<Vec<Member>>> {
        self.budget.pay(&members)?;
        let mut last = self.listed.lock().unwrap_or_else(PoisonError::into_inner);
        if **last != members {
            *last = members.into();
        }
        Ok(last.clone())
    }

    /// Requests a kubeconfig with administrator rights from the endpoints `from`, until one of them returns it. This requires `os:admin`
    /// and a control plane.
    pub(crate) async fn kubeconfig(&self, from: &[usize], until: Instant) -> Observed<String> {
        let mut gaps = Vec::new();
        for link in from.iter().filter_map(|index| self.links.get(*index)) {
            match self.caller.kubeconfig(&Route { link, node: None, lane: Lane::Normal, until }).await {
                Ok(kubeconfig) => return Ok(kubeconfig),
                // Another endpoint would see the same certificate with the same role.
                Err(gap) if gap.kind == GapKind::Forbidden => return Err(gap),
                Err(gap) => gaps.push(gap),
            }
        }
        let gap = gaps.into_iter().rev().max_by_key(refusal::weight);
        Err(gap.unwrap_or_else(|| Gap::new(GapKind::NotAsked, "no endpoint works")))
    }
}
