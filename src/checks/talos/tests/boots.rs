//! Obstacles to booting, and the checks that report them.

use crate::snapshot::{Snapshot, UnmetCondition};
use crate::testing::fixture::healthy;
use crate::testing::judged::wrong;

fn with(change: impl FnOnce(&mut Snapshot)) -> Snapshot {
    let mut snapshot = healthy();
    change(&mut snapshot);
    snapshot
}

#[test]
fn a_boot_is_explained_by_whoever_judges_all_that_hold_it_up() {
    let held_up = |ids: &[&str], state: &str| {
        with(|snapshot| {
            "booting".clone_into(&mut snapshot.machine_status_mut("cp-1").stage);
            for id in ids {
                state.clone_into(&mut snapshot.service_mut("cp-1", id).state);
            }
        })
    };
    let said = |ids: &[&str], state| wrong("talos.nodes.booted", &held_up(ids, state));
    let blocks = "cp-1: fail service-blocks-boot";
    assert_eq!(said(&["etcd"], "Preparing"), [format!("{blocks}, see etcd.service")]);
    assert_eq!(said(&["kubelet"], "Preparing"), [format!("{blocks}, see talos.nodes.kubelet")]);
    assert_eq!(said(&["cri", "trustd"], "Preparing"), [format!("{blocks}, see talos.nodes.services")]);
    assert_eq!(said(&["etcd", "cri"], "Preparing"), [format!("{blocks}, see talos.nodes.services")]);
    assert_eq!(said(&["etcd", "kubelet"], "Preparing"), [format!("{blocks}, see etcd.service")]);
    for state in ["Skipped", "Finished"] {
        assert_eq!(said(&["cri"], state), ["cp-1: fail stage-not-running, see talos.nodes.services"]);
    }
}

#[test]
fn a_node_that_is_not_ready_waits_for_etcd_or_kubernetes() {
    let unmet = |change: fn(&mut Snapshot)| {
        let mut snapshot = with(|snapshot| {
            let status = snapshot.machine_status_mut("w-1");
            (status.ready, status.unmet) =
                (false, vec![UnmetCondition { name: "nodeReady".to_owned(), reason: "not ready".to_owned() }]);
        });
        change(&mut snapshot);
        wrong("talos.nodes.ready", &snapshot)
    };
    let stop = |snapshot: &mut Snapshot, name: &str| snapshot.service_mut(name, "etcd").healthy = Some(false);
    assert_eq!(unmet(|_| {}), ["w-1: fail condition-unmet"]);
    assert_eq!(unmet(|it| it.kubernetes = None), ["w-1: fail condition-unmet"]);
    let unregistered = unmet(|it| it.kube().nodes.as_mut().unwrap().retain(|object| object.name != "w-1"));
    assert_eq!(unregistered, ["w-1: fail condition-unmet, see k8s.nodes.registered"]);
    let mut stopped = with(|snapshot| {
        let status = snapshot.machine_status_mut("w-1");
        (status.ready, status.unmet) =
            (false, vec![UnmetCondition { name: "nodeReady".to_owned(), reason: "not ready".to_owned() }]);
    });
    stop(&mut stopped, "cp-1");
    stop(&mut stopped, "cp-2");
    assert_eq!(wrong("talos.nodes.ready", &stopped), ["w-1: fail condition-unmet"]);
    stop(&mut stopped, "cp-3");
    assert_eq!(wrong("talos.nodes.ready", &stopped), ["w-1: fail condition-unmet"]);
}

#[test]
fn a_list_without_services_is_no_answer() {
    let empty = with(|snapshot| snapshot.talos_of("w-1").services = Ok(Vec::new()));
    assert_eq!(wrong("talos.nodes.services", &empty), ["w-1: error no-answer"]);
}
