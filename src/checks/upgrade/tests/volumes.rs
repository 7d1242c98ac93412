//! Volumes that stay on the machine.

use super::*;

const VOLUMES: &str = "upgrade.volumes";

/// cp-1 has a volume and is drained; w-1 is next.
fn drained() -> Snapshot {
    let mut snapshot = before(None, None);
    snapshot.asked.upgrade.drain = Some("w-1".to_owned());
    snapshot.kube_node_mut("cp-1").unschedulable = true;
    snapshot.kube().bound_pods.as_mut().unwrap().retain(|pod| pod.name != "web-cp-1");
    snapshot
}

fn with(change: impl FnOnce(&mut Snapshot)) -> Snapshot {
    let mut snapshot = drained();
    change(&mut snapshot);
    snapshot
}

#[test]
fn a_machine_that_was_drained_keeps_no_volume() {
    assert_eq!(wrong(VOLUMES, &drained()), ["cp-1: warn volume-attached"]);
    assert_eq!(observed(VOLUMES, &drained()), ["still attached: volume pv-1"]);
    let stuck = with(|it| {
        it.kube().volume_attachments.as_mut().unwrap()[0].detach_error = Some("the volume is busy".to_owned());
    });
    assert_eq!(wrong(VOLUMES, &stuck), ["cp-1: fail volume-attached"]);
    assert_eq!(observed(VOLUMES, &stuck), ["still attached: volume pv-1; pv-1 cannot be detached: the volume is busy"]);
    let none = with(|it| it.kube().volume_attachments.as_mut().unwrap().clear());
    assert_eq!(lines(VOLUMES, &none), ["no volume is attached to a machine that was drained"]);
    assert_eq!(status(VOLUMES, &before(None, Some("1.36.0"))), Status::Skip);
}

#[test]
fn volumes_in_use_are_where_they_belong() {
    let schedulable = with(|it| it.kube_node_mut("cp-1").unschedulable = false);
    let running = with(|it| {
        let pod = crate::testing::fixture::bound_pod("default", "web", "cp-1", Some(("ReplicaSet", "web-6f7")));
        it.kube().bound_pods.as_mut().unwrap().push(pod);
    });
    let elsewhere = with(|it| it.kube().volume_attachments.as_mut().unwrap()[0].node = "gone".to_owned());
    for snapshot in [schedulable, running, elsewhere] {
        assert_eq!(wrong(VOLUMES, &snapshot), [""; 0]);
    }
}

#[test]
fn no_list_is_no_pass() {
    for kind in [GapKind::Forbidden, GapKind::TimedOut, GapKind::NotAsked] {
        assert_eq!(status(VOLUMES, &with(|it| it.kube().volume_attachments = gap(kind))), Status::Error, "{kind:?}");
        assert_eq!(status(VOLUMES, &with(|it| it.kube().bound_pods = gap(kind))), Status::Error, "{kind:?}");
    }
    let unregistered = with(|it| it.kube().nodes.as_mut().unwrap().retain(|node| node.name != "cp-1"));
    assert!(!status(VOLUMES, &unregistered).is_fine());
}
