//! The Talos API.
//!
//! Every node is asked by calls of its own, each with its own deadline, through an endpoint that forwards (`node` metadata):
//! an aggregated call hangs as a whole when one node does, and hides failures. All calls go through [`call`], all connections
//! through [`dial::http2`](super::dial::http2), all causes through [`dial::cause`](super::dial::cause) and [`refusal`].

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
use std::sync::Arc;
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
use crate::model::Role;
use crate::snapshot::{Gap, GapKind, Observed};

pub(crate) use self::call::Lane;
pub(crate) use self::endpoint::EndpointAnswer;
pub(crate) use self::machine_id::machine_id;
pub(crate) use self::node::{NodeAsk, first_contact_takes};
pub(crate) use self::server::ServerAsk;
pub(crate) use super::dial::http2::EndpointAddress;

/// Machines at once: with all that they are asked, a fraction of what may be in flight.
const AHEAD: usize = 16;
/// Port of apid.
const APID: u16 = 50000;

/// Where and as whom to ask. Holds secrets, so it cannot be printed.
#[derive(Clone)]
pub(crate) struct Config {
    pub(crate) endpoints: Vec<EndpointAddress>,
    pub(crate) roots: Roots,
    pub(crate) client: Option<Identity>,
    /// The endpoints are Omni's, and this account signs every call.
    pub(crate) account: Option<Arc<ServiceAccount>>,
    /// Sent as metadata `context`.
    pub(crate) cluster: Option<String>,
    /// For one call, connecting included.
    pub(crate) timeout: Duration,
}

/// A machine as discovery (`Members`) tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    /// The Kubernetes node name.
    pub(crate) name: String,
    pub(crate) node_id: String,
    /// Fully qualified.
    pub(crate) hostname: String,
    pub(crate) addresses: Vec<String>,
    pub(crate) role: Role,
    /// `Talos (v1.13.0)`.
    pub(crate) operating_system: String,
    /// Port of its API server; control planes only, since Talos 1.5.
    pub(crate) api_port: Option<u16>,
}

impl Member {
    /// Its hostname, where that is its name and a domain. Any other would be a claim to the name or the address of another machine.
    pub(crate) fn qualified_name(&self) -> Option<&String> {
        let (label, _) = self.hostname.split_once('.')?;
        let is_address = self.hostname.parse::<IpAddr>().is_ok();
        (label.eq_ignore_ascii_case(&self.name) && !is_address).then_some(&self.hostname)
    }
}

/// A client of one cluster, kept for the whole run: connections are reused from round to round and opened anew when lost.
pub(crate) struct TalosClient {
    /// In the order of the configuration.
    links: Vec<Link>,
    /// The endpoints are no machines: what is not meant for one of them, any control plane answers.
    through_omni: bool,
    caller: Caller,
    budget: Arc<Budget>,
    unverified: Arc<ClientConfig>,
    /// Control planes whose facts are asked for beside the first contact.
    ahead: Semaphore,
}

/// apid of Talos 1.7.0 to 1.8.1 does not agree on HTTP/2, and speaks it all the same.
fn unproven(config: Arc<ClientConfig>) -> Security {
    Security::Tls { config, demands_h2: false }
}

impl TalosClient {
    /// Fails if the credentials cannot be used. Talks to nobody.
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
            unverified: tls::accepting_any()?,
            ahead: Semaphore::new(AHEAD),
        })
    }

    /// What it keeps is paid from `budget`.
    pub(crate) fn within(mut self, budget: &Arc<Budget>) -> Self {
        self.budget = Arc::clone(budget);
        self
    }

    /// A kubeconfig with administrator's rights, from the first of the endpoints `from` that gives one: it needs `os:admin` and a
    /// control plane.
    pub(crate) async fn kubeconfig(&self, from: &[usize], until: Instant) -> Observed<String> {
        let mut gaps = Vec::new();
        for link in from.iter().filter_map(|index| self.links.get(*index)) {
            match self.caller.kubeconfig(&Route { link, node: None, lane: Lane::Normal, until }).await {
                Ok(kubeconfig) => return Ok(kubeconfig),
                // Another endpoint knows the same certificate with the same role.
                Err(gap) if gap.kind == GapKind::Forbidden => return Err(gap),
                Err(gap) => gaps.push(gap),
            }
        }
        let gap = gaps.into_iter().rev().max_by_key(refusal::weight);
        Err(gap.unwrap_or_else(|| Gap::new(GapKind::NotAsked, "no endpoint works")))
    }
}
