//! Leases that are not renewed, which only a second look shows.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use simulator::world::{CallFault, Misbehavior};

use super::{LEASES, NODE_LEASES, side_by_side};
use crate::cluster::{Cluster, cluster};

const NAMESPACE: &str = "kube-node-lease";

/// Makes the first list of node leases two minutes old; later lists are current.
fn once_stale(cluster: &Cluster) {
    let renewed = (Timestamp::now() - SignedDuration::from_mins(2)).strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string();
    let leases: Vec<_> = ["cp-1", "cp-2", "cp-3", "worker-1"]
        .iter()
        .map(|name| {
            json!({
                "metadata": {"name": name, "namespace": NAMESPACE, "resourceVersion": "1"},
                "spec": {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": renewed},
            })
        })
        .collect();
    let list = json!({"kind": "LeaseList", "apiVersion": "coordination.k8s.io/v1", "metadata": {}, "items": leases});
    let once = CallFault { times: Some(1), ..CallFault::all(NODE_LEASES, Misbehavior::Body(list.to_string())) };
    cluster.change(|world| world.call_faults.push(once));
}

/// Stops the renewal of the worker's lease.
fn stalled(cluster: &Cluster) {
    let since = Timestamp::now() - SignedDuration::from_mins(2);
    cluster.change(|world| world.kubernetes.stalled_leases.insert(format!("{NAMESPACE}/worker-1"), since));
}

fn missing(cluster: &Cluster) {
    cluster.change(|world| world.kubernetes.remove(LEASES, Some(NAMESPACE), "worker-1"));
}

/// Each of these waits for 11 s, the longest interval of a kubelet.
#[test]
fn a_lease_is_looked_at_again_before_it_counts() {
    let make: [fn(&Cluster); 3] = [once_stale, stalled, missing];
    let cases = make.into_iter().zip([true, false, false]);
    side_by_side(cases, 3, |(make, is_renewed)| {
        let cluster = cluster();
        make(&cluster);
        let judged = cluster.run(&[]);
        if is_renewed {
            judged.is(0, &[]);
        } else {
            // The other DNS pod still works.
            let of_dns = ("k8s.dns", "dns-degraded", "kube-system/kube-dns");
            judged.is(1, &[of_dns, ("k8s.nodes.ready", "node-lease-stale", "worker-1")]);
        }
        judged.within(Duration::from_secs(25));
        let asked = cluster.simulator().calls().counts().into_iter().filter(|count| count.call == NODE_LEASES);
        assert_eq!(asked.map(|count| count.times).sum::<u64>(), 2, "{judged}");
    });
}

/// A lease that is no longer renewed looks fresh for a while, and the node is Ready: only the machine itself shows the
/// fault.
#[test]
fn a_lease_that_is_still_fresh_is_believed() {
    let cluster = cluster();
    let since = Timestamp::now() - SignedDuration::from_secs(5);
    cluster.change(|world| world.kubernetes.stalled_leases.insert(format!("{NAMESPACE}/worker-1"), since));
    cluster.run(&["--no-talos"]).is(0, &[]).within(Duration::from_secs(10));
}
