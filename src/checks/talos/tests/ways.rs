//! Access to endpoints and nodes, and the findings if it is closed.

use crate::checks::talos::tests::access::ghost;
use crate::model::Hint;
use crate::snapshot::{GapKind, Snapshot, Sources, UnmetCondition};
use crate::testing::fixture::{condition, gap, healthy, kube_node};
use crate::testing::judged::{hints, observed, wrong};

fn with(change: impl FnOnce(&mut Snapshot)) -> Snapshot {
    let mut snapshot = healthy();
    change(&mut snapshot);
    snapshot
}

/// A snapshot in which the endpoint on `cp-3` fails in this way.
fn dead(kind: GapKind) -> Snapshot {
    with(|snapshot| snapshot.talos_mut().endpoints[2].version = gap(kind))
}

#[test]
fn each_death_of_an_endpoint_has_its_likely_cause() {
    let causes = [
        (GapKind::ConnectionRefused, "nothing listens on that port: apid is not up, or the address is wrong"),
        (GapKind::ConnectTimedOut, "a firewall drops packets to port 50000, or the machine is down"),
        (GapKind::NoRoute, "the machine is down, or this runner has no route to its network"),
        (GapKind::TimedOut, "it accepts connections and does not answer: its apid hangs, or it is out of memory"),
        (GapKind::NameNotFound, "`10.0.0.3` is misspelled, or the DNS of this runner cannot resolve it"),
        (GapKind::UnknownCa, "the machine is in maintenance mode, or the talosconfig belongs to another cluster"),
        (GapKind::NameNotInCertificate, "`10.0.0.3` is missing from `machine.certSANs`"),
        (GapKind::PeerCertificateExpired, "a clock is wrong: the machine's or this runner's"),
        (
            GapKind::ClientCertificateRefused,
            "the talosconfig belongs to another cluster, or the machine's clock is wrong",
        ),
        (GapKind::Broken, "something other than Talos answers at port 50000, or a firewall cuts the connection"),
    ];
    let version = Hint::run("{talosctl} -e {} -n {} version", ["10.0.0.3", "10.0.0.3"]);
    for (kind, likely) in causes {
        assert_eq!(hints("talos.endpoints", &dead(kind)), [Hint::likely(likely), version.clone()]);
    }
    assert_eq!(
        hints("talos.endpoints", &dead(GapKind::Maintenance)),
        [
            Hint::likely("the machine has no configuration: never applied, or wiped"),
            Hint::run("talosctl -n {} get machinestatus --insecure", ["10.0.0.3"]),
        ]
    );
    assert_eq!(hints("talos.endpoints", &dead(GapKind::ServerError)), [version]);
    assert_eq!(hints("talos.endpoints", &dead(GapKind::NotAsked)), [], "nobody asked, so asking shows nothing");
}

#[test]
fn a_lost_node_explains_the_endpoint_at_one_of_its_addresses_and_no_other() {
    let explained = "warn no-route, see talos.nodes.reachable";
    let off = |address: &str, own: &str, others: &[&str]| {
        with(|snapshot| {
            snapshot.power_off("cp-3");
            snapshot.talos_mut().endpoints[2].address = format!("{address}:50000");
            let node = snapshot.node_mut("cp-3");
            own.clone_into(&mut node.address);
            node.addresses = others.iter().map(|&it| it.to_owned()).collect();
        })
    };
    for (address, own, others, by) in [
        ("10.0.0.3", "10.0.0.3", &["10.0.0.3"][..], explained),
        ("10.1.0.3", "10.0.0.3", &["10.0.0.3", "10.1.0.3"], explained),
        ("198.51.100.3", "198.51.100.3", &["10.0.0.3"], explained),
        ("198.51.100.3", "10.0.0.3", &["10.0.0.3"], "warn no-route"),
    ] {
        assert_eq!(wrong("talos.endpoints", &off(address, own, others)), [format!("{address}:50000: {by}")]);
    }
    // This node is not known to be lost.
    let mut refused = off("10.0.0.3", "10.0.0.3", &["10.0.0.3"]);
    refused.talos_of("cp-2").contact = gap(GapKind::Forbidden);
    refused.talos_mut().endpoints[1].version = gap(GapKind::NoRoute);
    let said = ["10.0.0.2:50000: warn no-route".to_owned(), format!("10.0.0.3:50000: {explained}")];
    assert_eq!(wrong("talos.endpoints", &refused), said);
}

#[test]
fn only_a_machine_in_kubernetes_needs_a_name() {
    let mut nameless = with(|snapshot| snapshot.talos_of("w-1").nodename = Ok(None));
    assert_eq!(wrong("talos.nodes.reachable", &nameless), ["w-1: error no-answer"]);
    nameless.node_mut("w-1").sources.kubernetes = false;
    assert_eq!(
        wrong("talos.nodes.reachable", &nameless),
        ["w-1: error no-answer"],
        "every machine has one until Talos 1.14"
    );
    "v1.14.0".clone_into(&mut nameless.talos_of("w-1").contact.as_mut().unwrap().version.tag);
    assert_eq!(wrong("talos.nodes.reachable", &nameless), [""; 0]);
}

#[test]
fn what_is_lost_is_told_apart() {
    let lost = |kind| with(|snapshot| snapshot.talos_of("w-1").contact = gap(kind));
    let way = "the connection to the endpoint was lost: test: NoRoute";
    assert_eq!(observed("talos.nodes.reachable", &lost(GapKind::NoRoute)), [way]);
    let kinds = [GapKind::ConnectionRefused, GapKind::NameNotFound, GapKind::UnknownCa, GapKind::Broken];
    for kind in kinds {
        assert!(observed("talos.nodes.reachable", &lost(kind))[0].starts_with("the connection to the endpoint was"));
    }
    let mut bare = lost(GapKind::NotAsked);
    assert_eq!(wrong("talos.nodes.reachable", &bare), ["w-1: error no-answer"]);
    bare.node_mut("w-1").addresses.clear();
    assert_eq!(wrong("talos.nodes.reachable", &bare), ["w-1: fail no-answer"], "it has registered without an address");
}

#[test]
fn kubernetes_is_asked_since_when_a_machine_is_missing() {
    let describe = Hint::run("{kubectl} describe node {}", ["w-1"]);
    let lost = |kind| with(|snapshot| snapshot.talos_of("w-1").contact = gap(kind));
    let mut silent = lost(GapKind::NodeUnreachable);
    assert!(hints("talos.nodes.reachable", &silent).contains(&describe));
    silent.node_mut("w-1").sources.kubernetes = false;
    assert!(!hints("talos.nodes.reachable", &silent).contains(&describe));
    assert!(!hints("talos.nodes.reachable", &lost(GapKind::Maintenance)).contains(&describe));
}

#[test]
fn a_machine_of_which_only_etcd_knows_is_etcds_to_explain() {
    let etcd = Sources { etcd: true, ..Sources::default() };
    let said = |sources| wrong("talos.nodes.reachable", &ghost(sources));
    assert_eq!(said(etcd), ["w-9: fail node-unreachable"]);
    for sources in [
        Sources { discovery: true, ..etcd },
        Sources { kubernetes: true, ..etcd },
        Sources { flags: true, ..etcd },
        Sources { talosconfig: true, ..etcd },
        Sources { talosconfig: true, ..Sources::default() },
    ] {
        assert_eq!(said(sources), ["w-9: fail node-unreachable"], "{sources:?}");
    }
}

#[test]
fn a_network_without_connectivity_lacks_a_route_or_a_probe() {
    let network = |change: fn(&mut crate::snapshot::NetworkStatus)| {
        let status = |snapshot: &mut Snapshot| {
            change(snapshot.talos_of("w-1").network_status.as_mut().unwrap().as_mut().unwrap());
        };
        hints("talos.nodes.network", &with(status))
    };
    let likely = Hint::likely("there is no default route, or a configured probe fails");
    assert!(network(|it| it.connectivity_ready = false).contains(&likely));
    assert!(!network(|it| it.hostname_ready = false).contains(&likely));
}

#[test]
fn a_node_that_was_asked_for_has_to_be_known_by_somebody() {
    let asked = |sources: Sources| {
        let mut snapshot = ghost(Sources { flags: true, ..sources });
        for node in &mut snapshot.nodes {
            node.sources.flags = true;
        }
        snapshot.asked.worker_nodes = vec!["w-1".to_owned(), "w-9".to_owned()];
        snapshot
    };
    let id = "talos.nodes.expected";
    let unknown = asked(Sources::default());
    assert_eq!(wrong(id, &unknown), ["w-9: fail node-missing, see talos.nodes.reachable"]);
    assert_eq!(observed(id, &unknown), ["it does not answer, and no other source knows it"]);
    for sources in [
        Sources { discovery: true, ..Sources::default() },
        Sources { kubernetes: true, ..Sources::default() },
        Sources { etcd: true, ..Sources::default() },
    ] {
        assert_eq!(wrong(id, &asked(sources)), [""; 0], "{sources:?}");
    }
    let mut answers = unknown;
    answers.talos_of("w-9").contact = healthy().nodes[3].talos.contact.clone();
    answers.talos_mut().discovery = Ok(0);
    assert_eq!(wrong(id, &answers), [""; 0]);
}

#[test]
fn the_only_source_of_nodes_is_named() {
    let named = |discovery: bool, kubernetes: bool, etcd: bool| {
        let snapshot = with(|snapshot| {
            for node in &mut snapshot.nodes {
                node.sources = Sources { discovery, kubernetes, etcd, talosconfig: true, flags: false };
            }
            if !discovery {
                snapshot.talos_mut().discovery = Ok(0);
            }
        });
        observed("talos.nodes.expected", &snapshot)
    };
    for two in [(true, true, false), (true, false, true), (false, true, true), (true, true, true)] {
        assert_eq!(named(two.0, two.1, two.2), [""; 0], "{two:?}");
    }
    let discovery = "only discovery names the nodes; neither Kubernetes nor etcd confirms them";
    assert_eq!(named(true, false, false), [discovery]);
    let kubernetes = "only Kubernetes names the nodes; neither discovery nor etcd confirms them";
    assert_eq!(named(false, true, false), [kubernetes]);
    assert_eq!(named(false, false, true), ["only etcd names nodes, and it knows no workers"]);
    let none = "only the talosconfig names nodes; neither discovery nor Kubernetes lists any";
    assert_eq!(named(false, false, false), [none]);
}

/// A Node object whose address another machine has now.
#[test]
fn a_node_object_at_anothers_address_is_stale_only_with_proof() {
    let taken_over = |change: fn(&mut Snapshot)| {
        let mut snapshot = ghost(Sources { kubernetes: true, ..Sources::default() });
        let mut contact = healthy().nodes[3].talos.contact.clone();
        contact.as_mut().unwrap().answered_by_other = Some("cp-1".to_owned());
        snapshot.talos_of("w-9").contact = contact;
        let mut object = kube_node(8, "w-9");
        object.conditions = vec![condition("Ready", "Unknown", "NodeStatusUnknown", "")];
        snapshot.kube().nodes.as_mut().unwrap().push(object);
        change(&mut snapshot);
        wrong("talos.nodes.expected", &snapshot)
    };
    let stale = ["w-9: fail stale-node-object"];
    assert_eq!(taken_over(|_| {}), stale);
    assert_eq!(taken_over(|it| it.node_mut("w-9").sources.talosconfig = true), stale, "that address is the other's");
    let alive: [fn(&mut Snapshot); 4] = [
        |it| it.kube_node_mut("w-9").conditions = vec![condition("Ready", "True", "KubeletReady", "")],
        |it| it.node_mut("cp-1").sources.discovery = false,
        |it| it.talos_of("w-9").contact.as_mut().unwrap().answered_by_other = Some("nobody".to_owned()),
        |it| it.node_mut("w-9").sources.flags = true,
    ];
    for (case, change) in alive.into_iter().enumerate() {
        assert!(!taken_over(change).contains(&stale[0].to_owned()), "{case}");
    }
}

#[test]
fn what_only_warns_stops_nobody_whose_role_does_not_tell_it() {
    let prism = |kind| wrong("talos.nodes.kubelet", &with(|it| it.talos_of("w-1").kube_prism = gap(kind)));
    let peers = |kind| wrong("talos.nodes.network", &with(|it| it.talos_of("cp-1").kube_span_peers = gap(kind)));
    assert_eq!((prism(GapKind::Forbidden), peers(GapKind::Forbidden)), (Vec::new(), Vec::new()));
    assert_eq!(prism(GapKind::TimedOut), ["w-1: error timed-out"]);
    assert_eq!(peers(GapKind::TimedOut), ["cp-1: error timed-out"]);
}

#[test]
fn a_node_under_a_former_name_explains_that_its_machine_waits() {
    let snapshot = with(|snapshot| {
        snapshot.node_mut("w-1").machine_id = Some("m".to_owned());
        let object = snapshot.kube_node_mut("w-1");
        (object.name, object.machine_id) = ("former".to_owned(), "m".to_owned());
        let status = snapshot.machine_status_mut("w-1");
        status.ready = false;
        status.unmet = vec![UnmetCondition { name: "nodeReady".to_owned(), reason: "not ready".to_owned() }];
    });
    assert_eq!(wrong("talos.nodes.ready", &snapshot), ["w-1: fail condition-unmet, see k8s.nodes.registered"]);
}
