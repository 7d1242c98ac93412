//! Flags and gates that the new Kubernetes no longer has.

use super::*;
use crate::snapshot::Flags;

const FLAGS: &str = "upgrade.flags";

fn with(pod: &str, change: impl FnOnce(&mut Flags)) -> Snapshot {
    let mut snapshot = before(None, Some("1.36.0"));
    let flags = &mut snapshot.talos_of("cp-2").component_flags;
    change(flags.iter_mut().find(|it| it.pod.starts_with(pod)).unwrap());
    snapshot
}

#[test]
fn kubelets_are_not_checked_without_the_role() {
    let mut snapshot = before(None, Some("1.36.0"));
    assert_eq!(
        lines(FLAGS, &snapshot),
        ["no component of the control plane and no kubelet has a flag that Kubernetes 1.36 refuses"]
    );
    assert_eq!(status(FLAGS, &snapshot), Status::Pass);
    for node in NODES {
        snapshot.talos_of(node).kubelet_flags = gap(GapKind::Forbidden);
    }
    assert_eq!(wrong(FLAGS, &snapshot), ["cluster: warn kubelet-flags-unseen, for ever"]);
    assert!(observed(FLAGS, &snapshot)[0].contains("cp-1, cp-2, cp-3 and 1 more"));
    assert_eq!(lines(FLAGS, &snapshot), ["no component of the control plane has a flag that Kubernetes 1.36 refuses"]);
    assert_eq!(status(FLAGS, &before(Some("1.14.1"), None)), Status::Skip);
}

/// `talosctl upgrade-k8s` upgrades the kubelet of every machine.
#[test]
fn kubelets_outside_of_the_scope_count() {
    let mut snapshot = before(None, Some("1.36.0"));
    snapshot.node_mut("w-1").out_of_scope = true;
    let left_out = |snapshot: &Snapshot| judge(FLAGS, snapshot).left_out;
    assert_eq!((wrong(FLAGS, &snapshot), left_out(&snapshot)), (Vec::new(), Vec::new()));
    let mut refused = snapshot.clone();
    let flags = refused.talos_of("w-1").kubelet_flags.as_mut().unwrap().as_mut().unwrap();
    flags.names.push("pod-infra-container-image".to_owned());
    assert_eq!(wrong(FLAGS, &refused), ["w-1: fail removed-flag, for ever"]);
    snapshot.talos_of("w-1").contact = gap(GapKind::NodeUnreachable);
    assert_eq!(wrong(FLAGS, &snapshot), [""; 0]);
    assert_eq!(left_out(&snapshot), ["the flags of the kubelets on 1 machine outside of --nodes"]);
}

#[test]
fn an_api_that_is_gone_may_not_be_configured() {
    let with_api = |api: &str| with("kube-apiserver", |flags| flags.apis.push(api.to_owned()));
    let gone = observed(FLAGS, &with_api("networking.k8s.io/v1alpha1"));
    assert_eq!(gone, ["kube-apiserver has --runtime-config networking.k8s.io/v1alpha1 (removed in 1.34)"]);
    assert_eq!(wrong(FLAGS, &with_api("scheduling.k8s.io/v1alpha2")), [""; 0], "not before 1.37");
}

#[test]
fn a_kubelet_has_flags_and_gates_of_its_own() {
    let with = |change: &dyn Fn(&mut Flags)| {
        let mut snapshot = before(None, Some("1.36.0"));
        change(snapshot.talos_of("w-1").kubelet_flags.as_mut().unwrap().as_mut().unwrap());
        snapshot
    };
    for (flag, expected) in [
        ("pod-infra-container-image", Some("kubelet has --pod-infra-container-image (removed in 1.35)")),
        ("concurrent-service-syncs", None),
    ] {
        let snapshot = with(&|it| it.names.push(flag.to_owned()));
        assert_eq!(observed(FLAGS, &snapshot).first().map(String::as_str), expected);
    }
    for (flag, target, fails) in [
        ("containerd", "1.37.1", true),
        ("storage-driver-buffer-duration", "1.37.0", true),
        ("global-housekeeping-interval", "1.36.4", false),
        ("housekeeping-interval", "1.37.1", false),
    ] {
        let mut snapshot = with(&|it| it.names.push(flag.to_owned()));
        snapshot.asked.upgrade.kubernetes = Some(target.to_owned());
        let expected = [format!("kubelet has --{flag} (removed in 1.37)")];
        assert_eq!(observed(FLAGS, &snapshot), expected[..usize::from(fails)], "{target}");
    }
    let options = |is_on| with(&move |it| it.gates.push(("TopologyManagerPolicyOptions".to_owned(), is_on)));
    assert_eq!(
        observed(FLAGS, &options(false)),
        ["kubelet has feature gate TopologyManagerPolicyOptions=false (locked since 1.36)"]
    );
    assert_eq!(wrong(FLAGS, &options(true)), [""; 0]);
    let gate = with(&|it| it.gates.push(("AppArmor".to_owned(), true)));
    assert_eq!(wrong(FLAGS, &gate), ["w-1: fail removed-flag, for ever"]);
    // Flags that are not reported are unknown.
    let mut silent = before(None, Some("1.36.0"));
    silent.talos_of("w-1").kubelet_flags = gap(GapKind::TimedOut);
    assert_eq!(wrong(FLAGS, &silent), ["w-1: error timed-out"]);
    silent.talos_of("w-1").kubelet_flags = Ok(None);
    assert_eq!(wrong(FLAGS, &silent), ["w-1: error no-answer"]);
}

#[test]
fn what_is_gone_is_named_with_its_version() {
    let gate = |gate: &str, is_on| {
        let gate = (gate.to_owned(), is_on);
        with("kube-scheduler", |it| it.gates.push(gate))
    };
    for (snapshot, expected) in [
        (with("kube-apiserver", |it| it.names.push("cloud-config".to_owned())), "--cloud-config (removed in 1.33)"),
        (gate("AppArmor", true), "feature gate AppArmor (removed in 1.33)"),
        (gate("AppArmor", false), "feature gate AppArmor (removed in 1.33)"),
        (gate("NodeSwap", false), "feature gate NodeSwap=false (locked since 1.34)"),
        (gate("SeparateCacheWatchRPC", true), "feature gate SeparateCacheWatchRPC=true (locked since 1.36)"),
    ] {
        assert_eq!(wrong(FLAGS, &snapshot), ["cp-2: fail removed-flag, for ever"], "{expected}");
        assert!(
            observed(FLAGS, &snapshot)[0].ends_with(&format!(" has {expected}")),
            "{:?}",
            observed(FLAGS, &snapshot)
        );
    }
    for snapshot in [
        gate("NodeSwap", true),
        gate("SidecarContainers", true),
        gate("MyOwn", false),
        with("kube-scheduler", |it| it.names.push("cloud-config".to_owned())),
        with("kube-controller-manager", |it| it.names.push("concurrent-service-syncs".to_owned())),
    ] {
        assert_eq!(wrong(FLAGS, &snapshot), [""; 0]);
    }
    for (pod, change) in [
        (
            "kube-controller-manager",
            &(|it: &mut Flags| it.names.push("concurrent-service-syncs".to_owned())) as &dyn Fn(&mut Flags),
        ),
        ("kube-apiserver", &|it| it.plugins.push("JobValidation".to_owned())),
    ] {
        let mut later = with(pod, change);
        later.asked.upgrade.kubernetes = Some("1.37.0".to_owned());
        assert_eq!(wrong(FLAGS, &later), ["cp-2: fail removed-flag, for ever"]);
    }
}

/// The component runs with this flag, so it is not the one that the tables describe: the flag is named but not judged.
#[test]
fn what_no_version_has_is_not_judged_and_named() {
    let said = |snapshot: &Snapshot| judge(FLAGS, snapshot).left_out.clone();
    assert_eq!(said(&before(None, Some("1.36.0"))), [""; 0]);
    let own = with("kube-apiserver", |it| {
        it.names.push("my-own".to_owned());
        it.gates.push(("MyOwn".to_owned(), true));
        it.plugins.push("MyPlugin".to_owned());
        it.apis.push("my.example/v1".to_owned());
    });
    assert_eq!(wrong(FLAGS, &own), [""; 0]);
    assert_eq!(status(FLAGS, &own), Status::Pass);
    let [left_out] = &said(&own)[..] else { panic!("{:?}", said(&own)) };
    assert!(
        left_out.starts_with(
            "--my-own of kube-apiserver, admission plugin MyPlugin of kube-apiserver, feature gate MyOwn of kube-apiserver: \
             no Kubernetes that cluster-health knows ("
        ),
        "{left_out}"
    );
    // The gate is new in 1.37, so a component that already has it is not the 1.35 of the tables.
    let early = with("kube-apiserver", |it| it.gates.push(("CSIDriverInformer".to_owned(), true)));
    assert_eq!(wrong(FLAGS, &early), [""; 0]);
}

#[test]
fn kube_proxy_is_started_by_its_daemon_set() {
    let proxy = |change: &dyn Fn(&mut Flags)| {
        let mut snapshot = before(None, Some("1.37.0"));
        let sets = snapshot.kube().daemon_sets.as_mut().unwrap();
        sets.iter_mut().filter_map(|set| set.flags.as_mut()).for_each(change);
        snapshot
    };
    assert_eq!(wrong(FLAGS, &proxy(&|_| {})), [""; 0]);
    let gone = proxy(&|it| it.gates.push(("JobPodReplacementPolicy".to_owned(), true)));
    assert_eq!(wrong(FLAGS, &gone), ["kube-system/kube-proxy: fail removed-flag, for ever"]);
    assert_eq!(observed(FLAGS, &gone), ["kube-proxy has feature gate JobPodReplacementPolicy (removed in 1.37)"]);
    // A network plugin replaces kube-proxy.
    let mut without = before(None, Some("1.37.0"));
    without.kube().daemon_sets.as_mut().unwrap().retain(|set| set.name != "kube-proxy");
    assert_eq!(wrong(FLAGS, &without), [""; 0]);
    let mut unread = before(None, Some("1.37.0"));
    unread.kube().daemon_sets = gap(GapKind::Forbidden);
    assert!(!status(FLAGS, &unread).is_fine(), "{:?}", wrong(FLAGS, &unread));
}

#[test]
fn what_was_not_read_is_no_pass() {
    let mut unread = before(None, Some("1.36.0"));
    unread.talos_of("cp-2").static_pods = gap(GapKind::TimedOut);
    assert_eq!(wrong(FLAGS, &unread), ["cp-2: error timed-out, see k8s.staticpods.rendered"]);
    let mut empty = before(None, Some("1.36.0"));
    empty.talos_of("cp-2").component_flags.clear();
    assert_eq!(wrong(FLAGS, &empty), ["cp-2: error no-answer"]);
    assert_eq!(wrong(FLAGS, &with("kube-scheduler", |it| it.names.clear())), ["cp-2: error no-answer"]);
    for target in ["1.29.0", "1.38.0", "1.39.0"] {
        assert_eq!(wrong(FLAGS, &before(None, Some(target))), ["cluster: error target-unknown, for ever"], "{target}");
    }
    // The scheduler is disabled on this machine.
    let mut without = before(None, Some("1.36.0"));
    let talos = without.talos_of("cp-2");
    talos.static_pods.as_mut().unwrap().retain(|id| !id.starts_with("kube-scheduler"));
    talos.component_flags.retain(|it| !it.pod.starts_with("kube-scheduler"));
    assert_eq!(wrong(FLAGS, &without), [""; 0]);
}
