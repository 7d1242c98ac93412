//! Leases: which are read, how they have changed since earlier samples, and their conversion to facts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::elsewhere::elections;
use super::lists::{Item, Kept, Listed, list_in};
use super::wire::coordination;
use super::{KubeClient, SYSTEM, wanted};
use crate::model::Fact;
use crate::snapshot::{GapKind, KubernetesCredentials, Lease, Leases, Observed, Pod};

const NODE_LEASES: &str = "kube-node-lease";

/// Lease data from earlier samples. The caller keeps it from round to round.
#[derive(Clone, Debug, Default)]
pub(crate) struct KnownLeases {
    /// The source, context and server of the leases. Leases of the same names in another cluster are other leases.
    of: Option<(String, String, String)>,
    node: BTreeMap<String, PreviousRound>,
    system: BTreeMap<String, PreviousRound>,
}

#[derive(Clone, Debug)]
struct PreviousRound {
    resource_version: String,
    /// When the earliest sample with this version was requested, counting back to the last different version.
    first: Instant,
    /// When the newest sample with this version was requested.
    asked: Instant,
    /// When the newest sample with a different version was requested: the present version is more recent.
    other: Option<Instant>,
}

impl KnownLeases {
    /// Records a sample that was requested at `asked` or later. A list that could not be read changes nothing.
    pub(crate) fn remember(
        &mut self,
        of: &Observed<KubernetesCredentials>,
        asked: Instant,
        node: &Observed<Leases>,
        system: &Observed<Leases>,
    ) {
        let Ok(of) = of else { return };
        if !self.are_of(of) {
            *self = Self { of: Some(identity(of)), ..Self::default() };
        }
        for (known, seen) in [(&mut self.node, node), (&mut self.system, system)] {
            let leases = seen.iter().flat_map(|leases| &leases.by_name);
            for (name, lease) in leases.filter(|(_, lease)| [NODE_LEASES, SYSTEM].contains(&lease.namespace.as_str())) {
                let before = known.get(name);
                let (first, other) = match before {
                    Some(before) if before.resource_version == lease.resource_version => (before.first, before.other),
                    before => (asked, before.map(|before| before.asked)),
                };
                known.insert(
                    name.clone(),
                    PreviousRound { resource_version: lease.resource_version.clone(), first, asked, other },
                );
            }
        }
    }

    fn are_of(&self, credentials: &KubernetesCredentials) -> bool {
        self.of.as_ref().is_some_and(|of| *of == identity(credentials))
    }
}

fn identity(credentials: &KubernetesCredentials) -> (String, String, String) {
    (credentials.source.clone(), credentials.context.clone(), credentials.server.clone())
}

/// Compares a lease of this version with earlier samples: the maximum time since it was renewed, if an earlier sample had another version,
/// and how long it has been unchanged.
fn movement(known: &BTreeMap<String, PreviousRound>, name: &str, resource_version: &str) -> Movement {
    let Some(before) = known.get(name).filter(|_| !resource_version.is_empty()) else { return Movement::default() };
    let is_same = before.resource_version == resource_version;
    let other = if is_same { before.other } else { Some(before.asked) };
    Movement { moved_within: other.map(|other| other.elapsed()), still_for: is_same.then(|| before.first.elapsed()) }
}

impl KubeClient {
    /// Reads only the node leases and system leases in `facts`, for a second sample within a round.
    pub(crate) async fn leases(
        &self,
        facts: &BTreeSet<Fact>,
        known: &KnownLeases,
    ) -> (Observed<Leases>, Observed<Leases>) {
        let mirrors = Arc::clone(&self.mirrors());
        let mirrors = async { mirrors };
        self.leases_of(facts, known, mirrors).await
    }

    pub(super) async fn leases_of(
        &self,
        facts: &BTreeSet<Fact>,
        known: &KnownLeases,
        mirrors: impl Future<Output = Arc<Vec<Pod>>>,
    ) -> (Observed<Leases>, Observed<Leases>) {
        let none = BTreeMap::new();
        let ours = |sights| if known.are_of(&self.credentials) { sights } else { &none };
        let read = async |namespace: String, known: &BTreeMap<String, PreviousRound>| {
            let listed = self.limited(list_in(&self.transport, &self.lists, &namespace, None)).await?;
            Ok(leases(listed, |name, version| movement(known, name, version)))
        };
        let system = async {
            let (leases, mirrors) = tokio::join!(read(SYSTEM.to_owned(), ours(&known.system)), mirrors);
            let mut leases: Leases = leases?;
            let api = if mirrors.is_empty() { Ok(Vec::new()) } else { self.api_endpoints().await };
            for (namespace, component) in elections(&mirrors, &leases, api.as_deref().unwrap_or_default()) {
                // The earlier samples are from kube-system.
                let others: Observed<Leases> = read(namespace, &none).await;
                let mut others = match others {
                    Err(gap) if gap.kind == GapKind::Forbidden && leases.by_name.contains_key(component) => continue,
                    others => others?,
                };
                // If there are several, the lease that was renewed last counts.
                let before = leases.by_name.get(component).and_then(|lease| lease.renewed);
                if let Some(lease) = others.by_name.remove(component).filter(|lease| lease.renewed > before) {
                    leases.by_name.insert(component.to_owned(), lease);
                }
            }
            Ok(leases)
        };
        tokio::join!(
            wanted(facts, Fact::NodeLeases, read(NODE_LEASES.to_owned(), ours(&known.node))),
            wanted(facts, Fact::SystemLeases, system),
        )
    }
}

impl Kept for Lease {
    type Object = coordination::Lease;

    fn of(lease: coordination::Lease) -> Self {
        let spec = lease.spec.unwrap_or_default();
        Self {
            namespace: lease.metadata.namespace.unwrap_or_default(),
            // Set later, by comparison with earlier samples.
            moved_within: None,
            still_for: None,
            renewed: spec.renew_time.map(|time| time.0),
            resource_version: lease.metadata.resource_version.unwrap_or_default(),
            hostname: lease.metadata.labels.and_then(|mut labels| labels.remove("kubernetes.io/hostname")),
            holder: spec.holder_identity.filter(|holder| !holder.is_empty()),
            lasts: spec
                .lease_duration_seconds
                .and_then(|seconds| u64::try_from(seconds).ok())
                .filter(|seconds| *seconds > 0)
                .map(Duration::from_secs),
        }
    }
}

/// The change of a lease since earlier samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Movement {
    moved_within: Option<Duration>,
    still_for: Option<Duration>,
}

/// Returns the leases. `movement` compares name and resource version with earlier samples.
fn leases(listed: Listed<Lease>, movement: impl Fn(&str, &str) -> Movement) -> Leases {
    let lease = |item: Item<Lease>| {
        let Movement { moved_within, still_for } = movement(&item.name, &item.kept.resource_version);
        (item.name, Lease { moved_within, still_for, ..item.kept })
    };
    let (date, last_date) = (listed.date, listed.last_date);
    Leases { date, last_date, by_name: listed.items.into_iter().map(lease).collect() }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::observe::kubernetes::objects::tests::read;
    use crate::observe::kubernetes::testing::credentials;
    use crate::snapshot::Gap;

    #[test]
    fn leases_keep_renewal_holder_and_the_clock_of_the_server() {
        let items = vec![read(json!({
            "metadata": {"name": "cp-1", "resourceVersion": "20", "labels": {"kubernetes.io/hostname": "cp-1"}},
            "spec": {"holderIdentity": "cp-1", "renewTime": "2026-11-21T13:52:13.123456Z"},
        }))];
        let date = Some("2026-11-21T13:52:14Z".parse().unwrap());
        let leases = leases(Listed { date, last_date: date, items }, |name, version| {
            let is_known = (name, version) == ("cp-1", "20");
            Movement { moved_within: is_known.then_some(Duration::from_secs(12)), still_for: None }
        });
        assert_eq!(leases.date, date);
        let lease = &leases.by_name["cp-1"];
        assert_eq!(lease.moved_within, Some(Duration::from_secs(12)));
        assert_eq!(lease.renewed, Some("2026-11-21T13:52:13.123456Z".parse().unwrap()));
        assert_eq!((lease.hostname.as_deref(), lease.holder.as_deref()), (Some("cp-1"), Some("cp-1")));
    }

    #[test]
    fn a_lease_says_how_long_it_lasts() {
        let lasts = |seconds: Value| {
            let spec = json!({"holderIdentity": "w-1", "leaseDurationSeconds": seconds});
            Lease::of(read(json!({"metadata": {"name": "w-1"}, "spec": spec}))).lasts
        };
        assert_eq!(lasts(json!(300)), Some(Duration::from_secs(300)));
        for none in [json!(null), json!(0), json!(-40)] {
            assert_eq!(lasts(none.clone()), None, "{none}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_is_as_old_as_the_last_sample_that_showed_another_version() {
        let sample_of = |namespace: &str, version: &str| {
            let lease = Lease {
                namespace: namespace.to_owned(),
                renewed: None,
                resource_version: version.to_owned(),
                hostname: None,
                holder: None,
                lasts: None,
                moved_within: None,
                still_for: None,
            };
            Ok(Leases { date: None, last_date: None, by_name: BTreeMap::from([("cp-1".to_owned(), lease)]) })
        };
        let sample = |version: &str| sample_of("kube-node-lease", version);
        let of_version = |known: &KnownLeases, version: &str| movement(&known.node, "cp-1", version);
        let moved = |known: &KnownLeases, version: &str| of_version(known, version).moved_within.map(|it| it.as_secs());
        let still = |known: &KnownLeases, version: &str| of_version(known, version).still_for.map(|it| it.as_secs());
        let (of, none) = (Ok(credentials("https://192.0.2.1:6443")), Err(Gap::not_asked()));
        let seconds = |seconds| tokio::time::advance(Duration::from_secs(seconds));
        let mut known = KnownLeases::default();
        assert_eq!((moved(&known, "1"), still(&known, "1")), (None, None), "the first sight of it");
        known.remember(&of, Instant::now(), &sample("1"), &none);
        assert_eq!((moved(&known, "1"), still(&known, "1")), (None, Some(0)));
        assert_eq!(moved(&known, ""), None, "no version is no evidence");
        // The lease may have been renewed right after the sample and not since.
        seconds(70).await;
        assert_eq!((moved(&known, "2"), still(&known, "2")), (Some(70), None));
        assert_eq!(still(&known, "1"), Some(70));
        // A sample that took long counts from the time it was requested.
        let asked = Instant::now();
        seconds(5).await;
        known.remember(&of, asked, &sample("2"), &none);
        assert_eq!(moved(&known, "2"), Some(75));
        assert_eq!(moved(&known, "3"), Some(5));
        // A lease of this name in another namespace is another lease.
        known.remember(&of, Instant::now(), &sample_of("elsewhere", "9"), &none);
        assert_eq!(moved(&known, "2"), Some(75));
        // A list that could not be read changes nothing.
        seconds(10).await;
        known.remember(&of, Instant::now(), &none, &none);
        known.remember(&Err(Gap::not_asked()), Instant::now(), &none, &none);
        assert_eq!((moved(&known, "2"), moved(&known, "3")), (Some(85), Some(15)));
        known.remember(&of, Instant::now(), &sample("2"), &none);
        assert_eq!((moved(&known, "2"), moved(&known, "3")), (Some(85), Some(0)));
        assert_eq!(still(&known, "2"), Some(15), "since its first sample");
    }
}
