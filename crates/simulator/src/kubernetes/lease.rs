//! Leases, which are renewed whenever they are read.

use std::borrow::Cow;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::kinds::ResourceType;
use super::list::key;
use crate::world::{World, hash, revision};

/// Milliseconds between two renewals by kubelets and API servers.
const RENEWAL: i64 = 10_000;
/// Milliseconds between two renewals by leaders.
const LEADERSHIP: i64 = 2_000;

pub(super) fn is_lease(kind: &ResourceType) -> bool {
    kind.plural == "leases"
}

/// The current state of an object.
pub(super) fn present<'a>(world: &World, kind: &ResourceType, object: &'a Value) -> Cow<'a, Value> {
    if is_lease(kind) { Cow::Owned(renewed(world, object, Timestamp::now())) } else { Cow::Borrowed(object) }
}

/// A lease with the last renewal that its holder has made by `now`, which is a time of our clock.
fn renewed(world: &World, lease: &Value, now: Timestamp) -> Value {
    let mut lease = lease.clone();
    let (namespace, name) = key(&lease);
    let id = format!("{namespace}/{name}");
    let period = if matches!(name, "kube-scheduler" | "kube-controller-manager") { LEADERSHIP } else { RENEWAL };
    let ahead = SignedDuration::from_secs(world.clock_ahead);
    let alive_until = world.kubernetes.stalled_leases.get(&id).map_or(now, |since| *since - ahead).min(now);
    // Each holder has its own offset within the period.
    let moment = i64::try_from(hash(&id) % period.unsigned_abs()).unwrap_or_default();
    let since = (alive_until.as_millisecond() - moment).rem_euclid(period);
    let renewal = alive_until - SignedDuration::from_millis(since);
    let renewal = Timestamp::from_millisecond(renewal.as_millisecond()).unwrap_or(renewal);
    let resumed = world.kubernetes.resumed_leases.get(&id).map(|since| *since - ahead).filter(|it| *it <= alive_until);
    let renewal = resumed.map_or(renewal, |resumed| renewal.max(resumed));
    // A kubelet writes the time of its own machine's clock.
    let more = world.machine_clocks.get(name).filter(|_| namespace == "kube-node-lease");
    let written = renewal + ahead + SignedDuration::from_secs(more.copied().unwrap_or_default());
    lease["spec"]["renewTime"] = written.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string().into();
    let changed = lease["metadata"]["resourceVersion"].as_str().and_then(|version| version.parse().ok()).unwrap_or(0);
    lease["metadata"]["resourceVersion"] = revision(renewal).max(changed).to_string().into();
    lease
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::Network;
    use crate::world::Shape;

    fn world() -> World {
        World::healthy(&Network::claim().unwrap(), &Shape::default())
    }

    fn lease(name: &str) -> Value {
        json!({"metadata": {"name": name, "namespace": "kube-system", "resourceVersion": "5"}, "spec": {}})
    }

    fn sample(world: &World, name: &str, at: Timestamp) -> (Timestamp, u64) {
        let lease = renewed(world, &lease(name), at);
        let version = lease["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
        (lease["spec"]["renewTime"].as_str().unwrap().parse().unwrap(), version)
    }

    #[test]
    fn holders_renew_in_time() {
        let world = world();
        let at: Timestamp = "2026-11-21T14:00:00.5Z".parse().unwrap();
        for (name, period) in [("kube-scheduler", 2), ("apiserver-x", 10)] {
            let (first, version) = sample(&world, name, at);
            assert!(first <= at && at - SignedDuration::from_secs(period) < first, "{first}");
            let (next, later) = sample(&world, name, at + SignedDuration::from_secs(period));
            assert_eq!(next, first + SignedDuration::from_secs(period));
            assert!(later > version);
            assert_eq!(sample(&world, name, first), (first, version));
        }
    }

    #[test]
    fn a_stalled_lease_stays_and_clocks_may_differ() {
        let mut world = world();
        let at: Timestamp = "2026-11-21T14:00:00Z".parse().unwrap();
        world.clock_ahead = 3600;
        let ahead = SignedDuration::from_hours(1);
        let (renewal, _) = sample(&world, "kube-scheduler", at);
        assert!(renewal <= at + ahead && at + ahead - SignedDuration::from_secs(2) < renewal);
        world.kubernetes.stalled_leases.insert("kube-system/kube-scheduler".to_owned(), at + ahead);
        let day_after = at + SignedDuration::from_hours(24);
        assert_eq!(sample(&world, "kube-scheduler", day_after).0, renewal);
        assert!(sample(&world, "kube-controller-manager", day_after).0 > at + ahead);
        world.kubernetes.resume_lease("kube-system/kube-scheduler", day_after + ahead);
        assert_eq!(sample(&world, "kube-scheduler", day_after).0, day_after + ahead, "at once");
        world.machine_clocks.insert("worker-1".to_owned(), -60);
        let written = |namespace: &str| {
            let lease = json!({"metadata": {"name": "worker-1", "namespace": namespace}, "spec": {}});
            let renewed = renewed(&world, &lease, at)["spec"]["renewTime"].as_str().unwrap().parse().unwrap();
            (at + ahead).duration_since(renewed).as_secs()
        };
        assert!((60..70).contains(&written("kube-node-lease")) && (0..10).contains(&written("kube-system")));
    }
}
