//! Which Node object is whose.

use super::{said, status};
use crate::checks::Status;
use crate::checks::fixture::{condition, healthy, kube_node};
use crate::snapshot::{GapKind, Snapshot, Sources};

fn set_ready(snapshot: &mut Snapshot, name: &str, state: &str, message: &str) {
    let conditions = &mut snapshot.kube_node_mut(name).conditions;
    conditions.retain(|condition| condition.kind != "Ready");
    conditions.push(condition("Ready", state, "KubeletNotReady", message));
}

#[test]
fn every_node_object_is_judged() {
    let id = "k8s.nodes.ready";
    let mut more = healthy();
    more.kube().nodes.as_mut().unwrap().push(kube_node(8, "w-9"));
    assert_eq!(said(&more, id), ["error node-unexpected w-9"]);
    // By one of its addresses or by its name it is one that is known.
    let mut moved = healthy();
    moved.kube_node_mut("w-1").addresses = vec!["10.5.5.5".to_owned()];
    assert_eq!(status(&moved, id), Status::Pass);
    let mut renamed = healthy();
    "worker".clone_into(&mut renamed.kube_node_mut("w-1").name);
    let leases = &mut renamed.kube().node_leases.as_mut().unwrap().by_name;
    let lease = leases.remove("w-1").unwrap();
    leases.insert("worker".to_owned(), lease);
    assert_eq!(said(&renamed, id), [""; 0]);
}

#[test]
fn where_discovery_tells_nothing_no_node_object_is_stale() {
    let mut snapshot = healthy();
    set_ready(&mut snapshot, "w-1", "Unknown", "");
    let node = snapshot.node_mut("w-1");
    node.sources = Sources { kubernetes: true, ..Default::default() };
    node.talos = crate::snapshot::TalosNode::unasked(&crate::snapshot::Gap::new(GapKind::NodeUnreachable, "no route"));
    assert_eq!(said(&snapshot, "k8s.nodes.registered"), ["fail stale-node-object w-1"]);
    snapshot.talos_mut().discovery = Ok(0);
    assert_eq!(said(&snapshot, "k8s.nodes.registered"), ["blocked w-1 < talos.nodes.reachable"]);
}
