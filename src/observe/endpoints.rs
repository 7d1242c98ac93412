//! The Talos endpoints: which ones answer, which ones forward, and the machines they report.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{LocalBoxFuture, Shared};
use futures::stream::{FuturesUnordered, StreamExt as _};
use tokio::time::{Instant, timeout_at};

use super::budget::Budget;
use super::join::Candidate;
use super::population;
use super::talos::{EndpointAnswer, TalosClient};
use super::{Observer, credentials};
use crate::model::Role;
use crate::snapshot::{Endpoint, Gap, GapKind, Observed, Part, ServerCheck, Talos, TalosCredentials};

/// Time that the remaining endpoints get after the first one has answered. Then the nodes are queried through those that have.
const LATE_ENDPOINTS: Duration = Duration::from_millis(500);

/// The Talos API, and the talosconfig's settings other than credentials.
pub(super) struct TalosSide {
    pub(super) credentials: Observed<TalosCredentials>,
    /// `None` if the credentials cannot be used.
    pub(super) client: Option<Arc<TalosClient>>,
    /// Hosts in the order of the client's endpoints.
    pub(super) hosts: Vec<String>,
    /// Set if the endpoints are Omni's and not machines.
    pub(super) through_omni: bool,
    pub(super) context_nodes: Vec<String>,
}

/// The answers of the endpoints.
#[derive(Clone, Default)]
pub(super) struct Endpoints {
    /// Answers in the order of the configuration; `None` if there is no answer yet.
    pub(super) answers: Vec<Option<EndpointAnswer>>,
    /// See [`TalosSide`].
    pub(super) through_omni: bool,
}

/// The machines known from the first endpoints: enough for all sides of a round to query the nodes and their API servers.
pub(super) struct Sighting {
    pub(super) endpoints: Endpoints,
    pub(super) population: Vec<Candidate>,
}

/// A running query of an endpoint, which several callers can wait for.
pub(super) type AskedEndpoint<'a> = Shared<LocalBoxFuture<'a, EndpointAnswer>>;

/// Collects the answers that arrive before the nodes are queried, at most a moment after the first endpoint that works.
pub(super) async fn first_endpoints(asking: Vec<AskedEndpoint<'_>>, through_omni: bool, until: Instant) -> Endpoints {
    let mut known = Endpoints { answers: vec![None; asking.len()], through_omni };
    let mut asking: FuturesUnordered<_> =
        asking.into_iter().enumerate().map(|(index, asked)| asked.map(move |answer| (index, answer))).collect();
    let mut limit = until;
    while let Ok(Some((index, answer))) = timeout_at(limit, asking.next()).await {
        if answer.endpoint.version.is_ok() {
            limit = limit.min(Instant::now() + LATE_ENDPOINTS);
        }
        known.answers[index] = Some(answer);
    }
    known
}

impl Observer<'_> {
    /// Queries all endpoints at once, independently, in the order of the configuration.
    pub(super) fn ask_endpoints(&self, until: Instant) -> Vec<AskedEndpoint<'_>> {
        let Some(TalosSide { client: Some(client), hosts, .. }) = &self.talos else { return Vec::new() };
        #[cfg(feature = "record")]
        if super::record::blind::hides(crate::model::Fact::TalosNodes) {
            return Vec::new();
        }
        let ask = |(index, host): (usize, &String)| {
            let has_answered = |answer: &EndpointAnswer| answer.endpoint.version.is_ok();
            let asked = client.endpoint(index, until);
            self.awaited.one(Part::Endpoints, host.clone(), has_answered, asked).boxed_local().shared()
        };
        hosts.iter().enumerate().map(ask).collect()
    }

    pub(super) fn talos_facts(
        &self,
        side: &TalosSide,
        known: &Endpoints,
        population: &[Candidate],
        server: Observed<ServerCheck>,
    ) -> Talos {
        let vip = population::endpoint_vip(self.kubernetes_host.as_deref(), population).filter(|_| !side.through_omni);
        let endpoints = side
            .hosts
            .iter()
            .zip(&known.answers)
            .filter_map(|(host, answer)| {
                let endpoint = answer.as_ref()?.endpoint.clone();
                Some(Endpoint { vip: vip.as_deref() == Some(host), ..endpoint })
            })
            .collect();
        let mut members = known.answers.iter().flatten().map(|answer| answer.members.as_ref());
        let read = members.clone().filter_map(Result::ok).map(|members| members.len()).max();
        let refused = members.find_map(Result::err).cloned();
        Talos {
            credentials: side.credentials.clone(),
            endpoints,
            discovery: match read {
                Some(_) if !known.discovery_tells_of_others() => Ok(0),
                Some(listed) => Ok(listed),
                None => Err(refused.unwrap_or_else(Gap::not_asked)),
            },
            server,
        }
    }
}

impl TalosSide {
    /// Returns the hosts of the endpoints if they are machines: these are machines that the user has named.
    pub(super) fn machines(&self) -> &[String] {
        if self.through_omni { &[] } else { &self.hosts }
    }

    pub(super) fn unusable(gap: Gap) -> Self {
        let (hosts, context_nodes) = (Vec::new(), Vec::new());
        Self { credentials: Err(gap), client: None, hosts, through_omni: false, context_nodes }
    }

    pub(super) fn new(access: credentials::TalosAccess, call_timeout: Duration, budget: &Arc<Budget>) -> Self {
        let credentials = access.credentials.clone();
        let hosts = access.endpoints.iter().map(|endpoint| endpoint.host.clone()).collect();
        let context_nodes = access.nodes.clone();
        let through_omni = credentials.account.is_some();
        match TalosClient::new(access.into_client_config(call_timeout)) {
            Ok(client) => {
                let client = Some(Arc::new(client.within(budget)));
                Self { credentials: Ok(credentials), client, hosts, through_omni, context_nodes }
            }
            Err(error) if credentials.certificate.as_ref().is_some_and(|found| !found.matches_key) => {
                // The check describes the mismatch better, from the facts.
                drop(error);
                Self { credentials: Ok(credentials), client: None, hosts: Vec::new(), through_omni, context_nodes }
            }
            Err(error) => Self::unusable(Gap::new(GapKind::Malformed, format!("{error:#}"))),
        }
    }
}

impl Endpoints {
    /// Returns whether discovery lists other machines. Without a registry, each machine still lists itself, which proves nothing about the
    /// cluster. An answer through Omni does not include the machine's own name: there, a single listed machine is assumed to be that
    /// machine.
    pub(super) fn discovery_tells_of_others(&self) -> bool {
        self.answers.iter().flatten().any(|answer| {
            let own_name = answer.endpoint.nodename.as_ref().ok().and_then(Option::as_ref);
            let mut members = answer.members.iter().flatten();
            if self.through_omni { members.count() > 1 } else { members.any(|member| own_name != Some(&member.name)) }
        })
    }

    /// Returns the endpoints that answered and are control planes or of unknown role: workers do not forward.
    pub(super) fn forwarding(&self) -> Vec<usize> {
        let forwards = |answer: &EndpointAnswer| {
            answer.endpoint.version.is_ok() && !matches!(answer.endpoint.role, Ok(Some(Role::Worker)))
        };
        self.answers
            .iter()
            .enumerate()
            .filter(|(_, answer)| answer.as_ref().is_some_and(forwards))
            .map(|(index, _)| index)
            .collect()
    }

    /// Returns why no endpoint can be used.
    pub(super) fn no_way(&self) -> Gap {
        let workers = self.answers.iter().flatten().any(|answer| answer.endpoint.version.is_ok());
        if workers {
            Gap::new(GapKind::NoForwarding, "every endpoint that answers is a worker")
        } else {
            Gap::new(GapKind::NotAsked, "no endpoint answers")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::talos::Member;

    fn answer(name: Observed<Option<&str>>, members: Observed<&[&str]>) -> EndpointAnswer {
        let member = |name: &&str| Member {
            name: (*name).to_owned(),
            node_id: String::new(),
            hostname: String::new(),
            addresses: Vec::new(),
            role: Role::Unknown,
            api_port: None,
        };
        EndpointAnswer {
            endpoint: Endpoint {
                address: "10.0.0.1".to_owned(),
                version: Err(Gap::not_asked()),
                role: Err(Gap::not_asked()),
                nodename: name.map(|name| name.map(str::to_owned)),
                vip: false,
            },
            members: members.map(|members| members.iter().map(member).collect()),
            addresses: Err(Gap::not_asked()),
            machine_id: Err(Gap::not_asked()),
        }
    }

    #[test]
    fn discovery_is_a_source_once_one_machine_lists_another() {
        let tells = |answers: &[EndpointAnswer]| {
            let answers = answers.iter().cloned().map(Some).chain([None]).collect();
            Endpoints { answers, through_omni: false }.discovery_tells_of_others()
        };
        let own = |name| answer(Ok(Some(name)), Ok(&[name]));
        assert!(!tells(&[]));
        assert!(!tells(&[own("cp-1"), own("cp-2")]));
        assert!(!tells(&[own("cp-1"), answer(Ok(Some("cp-2")), Ok(&[]))]));
        assert!(!tells(&[own("cp-1"), answer(Ok(Some("cp-2")), Err(Gap::not_asked()))]));
        assert!(tells(&[own("cp-1"), answer(Ok(Some("cp-2")), Ok(&["cp-1", "cp-2"]))]));
        // An endpoint without a known name may be listing another machine.
        assert!(tells(&[answer(Ok(None), Ok(&["cp-1"]))]));
        assert!(tells(&[answer(Err(Gap::not_asked()), Ok(&["cp-1"]))]));
    }
}
