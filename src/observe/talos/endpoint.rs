//! The answers of an endpoint about itself and about the cluster.

use tokio::time::Instant;

use super::call::{Lane, Route};
use super::{Member, TalosClient, maintenance};
use crate::model::{MachineType, Shared};
use crate::snapshot::{Contact, Endpoint, EtcdMember, Gap, GapKind, Observed};

/// Answers of one endpoint to calls without `node`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct EndpointAnswer {
    /// The endpoint. `vip` is determined elsewhere and `false` here.
    pub(crate) endpoint: Endpoint,
    /// Discovery as this node sees it. Empty if discovery is off. Contains only the node itself if discovery has no other members, or no
    /// registry.
    pub(crate) members: Observed<Shared<Vec<Member>>>,
    /// Addresses of the node that answered, without prefix length.
    pub(crate) addresses: Observed<Vec<String>>,
    /// The `machineID` that Kubernetes should report for the node that answered.
    pub(crate) machine_id: Observed<Option<String>>,
}

impl TalosClient {
    /// Queries endpoint `index` (in the order of the configuration). Finishes by `until`.
    pub(crate) async fn endpoint(&self, index: usize, until: Instant) -> EndpointAnswer {
        let link = &self.links[index];
        let to = Route { link, node: None, lane: Lane::Normal, until };
        if let Err(gap) = self.caller.connect(link, until).await {
            let gap = self.refined(index, gap, until).await;
            return unanswered(link.address.shown.clone(), &gap);
        }
        if self.through_omni {
            return self.through_omni(&to).await;
        }
        let (version, machine_type, nodename, members, addresses, machine_id) = tokio::join!(
            self.caller.version(&to),
            self.caller.machine_type(&to),
            self.caller.nodename(&to),
            self.caller.members(&to),
            self.caller.addresses(&to),
            self.caller.machine_id(&to),
        );
        let members = members.and_then(|members| self.keep(members));
        let nodename = nodename.map(|found| found.map(|found| found.name));
        let role = machine_type.map(|found| found.map(MachineType::role));
        let endpoint = Endpoint { address: link.address.shown.clone(), version, role, nodename, vip: false };
        EndpointAnswer { endpoint, members, addresses, machine_id }
    }

    /// Reads a node's own report of its addresses, through the endpoint and address at which it has answered.
    pub(crate) async fn own_addresses(&self, of: &Contact, until: Instant) -> Observed<Vec<String>> {
        match self.links.iter().find(|link| link.address.shown == of.endpoint) {
            Some(link) => {
                self.caller.addresses(&Route { link, node: Some(&of.address), lane: Lane::Normal, until }).await
            }
            None => Err(Gap::not_asked()),
        }
    }

    /// Reads the members that the etcd of endpoint `index` lists. The endpoint itself answers: nothing is forwarded.
    pub(crate) async fn members_listed_by(&self, index: usize, until: Instant) -> Observed<Vec<EtcdMember>> {
        let link = &self.links[index];
        self.caller.etcd_members(&Route { link, node: None, lane: Lane::Normal, until }).await
    }

    /// Queries Omni, which is not a machine. Any control plane may answer, and a different one the next call, so the machine is not
    /// identified.
    async fn through_omni(&self, to: &Route<'_>) -> EndpointAnswer {
        let (version, members) = tokio::join!(self.caller.version(to), self.caller.members(to));
        let members = members.and_then(|members| self.keep(members));
        let (address, addresses) = (to.link.address.shown.clone(), Ok(Vec::new()));
        let endpoint = Endpoint { address, version, role: Ok(None), nodename: Ok(None), vip: false };
        EndpointAnswer { endpoint, members, addresses, machine_id: Ok(None) }
    }

    async fn refined(&self, index: usize, gap: Gap, until: Instant) -> Gap {
        match gap.kind {
            GapKind::UnknownCa if !self.through_omni => {
                maintenance::refine(gap, &self.links[index].address, &self.unverified, until).await
            }
            _ => gap,
        }
    }
}

/// Returns the answer of an endpoint without a connection: every part has the same gap.
fn unanswered(address: String, gap: &Gap) -> EndpointAnswer {
    EndpointAnswer {
        endpoint: Endpoint {
            address,
            version: Err(gap.clone()),
            role: Err(gap.clone()),
            nodename: Err(gap.clone()),
            vip: false,
        },
        members: Err(gap.clone()),
        addresses: Err(gap.clone()),
        machine_id: Err(gap.clone()),
    }
}
