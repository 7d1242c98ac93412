//! Missing answers behind a fact: which ones, why, and whether a verdict is possible without them.

use super::answers::{Answer, Need};
use super::{Gap, GapKind, Kubernetes, Node, Observed, RequestedApis, Snapshot};
use crate::model::{Fact, Role};

/// A missing answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Missing<'a> {
    pub(crate) by: Source<'a>,
    /// Name of the answer in its API.
    pub(crate) what: &'static str,
    pub(crate) gap: &'a Gap,
    /// Checks that use the answer cannot pass without it.
    pub(crate) is_needed: bool,
}

/// The source that should have given an answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Source<'a> {
    Machine(&'a Node),
    /// The members that the Talos API lists.
    Discovery,
    Server(&'a str),
    /// An API server, by the name of its machine.
    ApiServer(&'a str),
    Kubernetes,
    /// An endpoint of `--etcd-endpoints`.
    Etcd(&'a str),
}

impl<'a> Source<'a> {
    pub(crate) fn name(self) -> &'a str {
        match self {
            Self::Machine(node) => &node.name,
            Self::Discovery => "discovery",
            Self::Kubernetes => "Kubernetes API",
            Self::Server(name) | Self::ApiServer(name) | Self::Etcd(name) => name,
        }
    }
}

impl Snapshot {
    /// Returns the missing answers behind this fact. Sources that give no answer at all, for lack of credentials, of an endpoint or of
    /// power, are left out: that is reported once for the machine, not for each fact. Answers that are never requested, such as etcd's from
    /// a worker, are not missing.
    pub(crate) fn missing(&self, fact: Fact) -> Vec<Missing<'_>> {
        match fact {
            Fact::TalosNodes => self.of_population(),
            Fact::ServerReadyz => self.of_api_servers(),
            Fact::RequestedApis => self.of_metrics(),
            Fact::WebhookEndpoints => self.of_webhooks(),
            Fact::Required => self.of_required(),
            Fact::ServerCheck => self.of_server_check(),
            Fact::EtcdMembership | Fact::EtcdAlarms if self.external_etcd.is_some() => self.of_external_etcd(fact),
            Fact::ServerVersion if self.talos.is_some() => Vec::new(),
            _ => self.of_machines(fact).chain(self.of_kubernetes(fact)).collect(),
        }
    }

    fn of_population(&self) -> Vec<Missing<'_>> {
        let Some(talos) = &self.talos else { return Vec::new() };
        let mut missing: Vec<_> = self.of_machines(Fact::TalosNodes).collect();
        if talos.credentials.is_ok() {
            missing.extend(of(Source::Discovery, [Answer::new("Members", &talos.discovery)]));
        }
        missing
    }

    fn of_machines(&self, fact: Fact) -> impl Iterator<Item = Missing<'_>> {
        let answering = self.nodes.iter().filter(|node| node.is_talos && node.talos.contact.is_ok());
        answering
            .filter(move |node| node.role != Role::Worker || !fact.is_of_control_planes())
            .flat_map(move |node| of(Source::Machine(node), node.talos.answers(fact)))
    }

    fn of_external_etcd(&self, fact: Fact) -> Vec<Missing<'_>> {
        let endpoints = self.external_etcd.iter().flatten().flat_map(|it| {
            let answers = match fact {
                Fact::EtcdAlarms => vec![Answer::new("Alarm", &it.alarms)],
                _ => vec![Answer::new("Status", &it.status), Answer::new("MemberList", &it.members)],
            };
            of(Source::Etcd(&it.address), answers)
        });
        endpoints.collect()
    }

    fn of_kubernetes(&self, fact: Fact) -> impl Iterator<Item = Missing<'_>> {
        self.usable_kubernetes().flat_map(move |kubernetes| {
            // Without the list, what it leads to is missing as well.
            let is_whole = kubernetes.daemon_sets.is_ok();
            let is_own = move |answer: &Answer<'_>| is_whole || answer.what != "workloads of the network plugin";
            of(Source::Kubernetes, kubernetes.answers(fact).filter(is_own))
        })
    }

    fn of_api_servers(&self) -> Vec<Missing<'_>> {
        let servers = self.usable_kubernetes().flat_map(|it| &it.servers);
        servers
            .flat_map(|(node, it)| of(Source::ApiServer(node), [Answer::new("/readyz", it).needed(Need::Never)]))
            .collect()
    }

    fn of_metrics<'a>(&'a self) -> Vec<Missing<'a>> {
        let servers = || self.usable_kubernetes().flat_map(|it| &it.requested_apis);
        let is_a_machines = |name: &str| self.nodes.iter().any(|node| node.name == name);
        let has_answered =
            |of_machines: bool| servers().any(|(name, metrics)| metrics.is_ok() && is_a_machines(name) == of_machines);
        // No server can be queried at its own address, as behind Omni: one of them has answered through the endpoint instead.
        let by_endpoint = has_answered(false) && !has_answered(true);
        let of_server = |(name, metrics): (&'a String, &'a Observed<RequestedApis>)| {
            let metrics = Answer::new("/metrics", metrics);
            match is_a_machines(name) {
                true if by_endpoint => of(Source::ApiServer(name), [metrics.needed(Need::Never)]),
                true => of(Source::ApiServer(name), [metrics]),
                false => of(Source::Kubernetes, [metrics]),
            }
        };
        servers().flat_map(of_server).collect()
    }

    fn of_webhooks(&self) -> Vec<Missing<'_>> {
        let services = self.usable_kubernetes().flat_map(|it| it.webhook_endpoints.values());
        services.flat_map(|it| of(Source::Kubernetes, [Answer::new("endpointslices (of webhooks)", it)])).collect()
    }

    fn of_required(&self) -> Vec<Missing<'_>> {
        let lists = self.usable_kubernetes().flat_map(|it| it.required.values());
        lists.flat_map(|it| of(Source::Kubernetes, [Answer::new("objects that the policy requires", it)])).collect()
    }

    fn usable_kubernetes(&self) -> impl Iterator<Item = &Kubernetes> {
        self.kubernetes.iter().filter(|it| it.credentials.is_ok())
    }

    fn of_server_check(&self) -> Vec<Missing<'_>> {
        let Some(talos) = &self.talos else { return Vec::new() };
        match &talos.server {
            Err(gap) => vec![Missing { by: Source::Server("Talos API"), what: "HealthCheck", gap, is_needed: false }],
            Ok(check) => of(
                Source::Server(&check.endpoint),
                [Answer::new("HealthCheck", &check.end).needed(Need::UnlessRefused)],
            )
            .collect(),
        }
    }
}

/// Finds the `answers` that were requested and are missing.
fn of<'a>(by: Source<'a>, answers: impl IntoIterator<Item = Answer<'a>>) -> impl Iterator<Item = Missing<'a>> {
    let was_asked = |gap: &Gap| gap.kind != GapKind::NotAsked || *gap != Gap::not_asked();
    answers.into_iter().filter_map(move |Answer { what, gap, need, .. }| {
        let gap = gap.filter(|gap| was_asked(gap))?;
        Some(Missing { by, what, gap, is_needed: need.holds_for(gap.kind) })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::fixture::{Shape, gap, healthy};

    fn missing(snapshot: &Snapshot, fact: Fact) -> Vec<(&str, &str, GapKind)> {
        snapshot.missing(fact).into_iter().map(|it| (it.by.name(), it.what, it.gap.kind)).collect()
    }

    #[test]
    fn whoever_gives_no_answer_at_all_misses_none() {
        let mut lost = healthy();
        lost.talos_of("w-1").volumes = gap(GapKind::TimedOut);
        assert_eq!(missing(&lost, Fact::Volumes), [("w-1", "VolumeStatuses", GapKind::TimedOut)]);
        lost.power_off("w-1");
        assert_eq!(missing(&lost, Fact::Volumes), []);
        lost.kube().pods = gap(GapKind::Forbidden);
        assert_eq!(missing(&lost, Fact::Pods), [("Kubernetes API", "pods (kube-system)", GapKind::Forbidden)]);
        lost.kube().credentials = gap(GapKind::NotAsked);
        for fact in [Fact::Pods, Fact::EndpointReadyz, Fact::ServerReadyz] {
            assert_eq!(missing(&lost, fact), [], "{fact:?}");
        }
    }

    #[test]
    fn what_is_not_asked_is_not_missing() {
        for world in [healthy().without_talos(), healthy().without_kubernetes()] {
            for fact in [Fact::TalosNodes, Fact::ServerCheck, Fact::EtcdData, Fact::KubeSpan, Fact::Pods] {
                assert_eq!(missing(&world, fact), [], "{fact:?}");
            }
        }
        let mut external = Shape { external_etcd: 3, ..Shape::default() }.world();
        external.external_etcd.as_mut().unwrap()[0].alarms = gap(GapKind::TimedOut);
        let [(_, "Alarm", GapKind::TimedOut)] = missing(&external, Fact::EtcdAlarms)[..] else { panic!() };
    }
}
