//! DaemonSets, DNS and static pods: what is missing, and who says so.

use std::time::Duration;

use crate::checks::kubernetes::tests::{judge, lines, no, roots, said, status};
use crate::model::{Hint, Status};
use crate::snapshot::{GapKind, Pod, Snapshot, Workload};
use crate::testing::fixture::{CONTROL_PLANES, healthy};

const PROXY: &str = "k8s.kube-proxy";
const DNS: &str = "k8s.dns";
const RENDERED: &str = "k8s.staticpods.rendered";
const RUNNING: &str = "k8s.staticpods.running";

fn with(change: impl FnOnce(&mut Snapshot)) -> Snapshot {
    let mut snapshot = healthy();
    change(&mut snapshot);
    snapshot
}

fn proxy(snapshot: &mut Snapshot) -> &mut Workload {
    snapshot.kube().daemon_sets.as_mut().unwrap().iter_mut().find(|set| set.name == "kube-proxy").unwrap()
}

fn pod<'a>(snapshot: &'a mut Snapshot, name: &str) -> &'a mut Pod {
    snapshot.kube().pods.as_mut().unwrap().iter_mut().find(|pod| pod.name == name).unwrap()
}

fn not_ready(snapshot: &mut Snapshot, node: &str) {
    let conditions = &mut snapshot.kube_node_mut(node).conditions;
    conditions.iter_mut().filter(|it| it.kind == "Ready").for_each(|it| "False".clone_into(&mut it.status));
}

#[test]
fn a_daemon_set_has_a_label_or_a_name() {
    assert_eq!(said(&with(|it| "proxy".clone_into(&mut proxy(it).name)), PROXY), [""; 0]);
    assert_eq!(said(&with(|it| proxy(it).labels.clear()), PROXY), [""; 0]);
    let other = with(|it| {
        proxy(it).labels.clear();
        "proxy".clone_into(&mut proxy(it).name);
    });
    assert_eq!(said(&other, PROXY), ["fail daemonset-missing kube-system/kube-proxy"]);
}

#[test]
fn what_only_carries_the_label_hides_nothing() {
    let beside = |list: &mut Vec<Workload>, app: &str| {
        let mut other = list[0].clone();
        "exporter".clone_into(&mut other.name);
        other.labels.insert("k8s-app".to_owned(), app.to_owned());
        list.insert(0, other);
    };
    let incomplete = with(|snapshot| {
        proxy(snapshot).available = 0;
        beside(snapshot.kube().daemon_sets.as_mut().unwrap(), "kube-proxy");
    });
    assert_eq!(said(&incomplete, PROXY), ["fail daemonset-incomplete kube-system/kube-proxy"]);
    let windows = with(|snapshot| {
        let set = proxy(snapshot);
        "kube-proxy-windows".clone_into(&mut set.name);
        set.labels.insert("k8s-app".to_owned(), "kube-proxy".to_owned());
        (set.desired, set.available) = (0, 0);
    });
    assert_eq!(said(&windows, PROXY), ["fail daemonset-missing kube-system/kube-proxy"]);
    let dns = without_dns(|snapshot| {
        coredns(snapshot).desired = 0;
        beside(snapshot.kube().deployments.as_mut().unwrap(), "kube-dns");
    });
    assert_eq!(said(&dns, DNS), ["fail dns-scaled-to-zero kube-system/kube-dns"]);
}

/// During a change of the configuration the control planes differ.
#[test]
fn what_one_control_plane_wants_is_wanted() {
    for name in CONTROL_PLANES {
        let snapshot = with(|snapshot| {
            snapshot.kube().daemon_sets.as_mut().unwrap().retain(|set| set.name != "kube-proxy");
            for other in CONTROL_PLANES.into_iter().filter(|other| *other != name) {
                let manifests = snapshot.talos_of(other).bootstrap_manifests.as_mut().unwrap();
                manifests.as_mut().unwrap().proxy_enabled = false;
            }
        });
        assert_eq!(said(&snapshot, PROXY), ["fail daemonset-missing kube-system/kube-proxy"], "{name}");
    }
}

#[test]
fn numbers_of_a_form_that_is_past_are_no_numbers() {
    for (generation, observed, fine) in [(2, 1, false), (2, 2, true), (1, 2, true)] {
        let snapshot = with(|snapshot| {
            (proxy(snapshot).generation, proxy(snapshot).observed_generation) = (generation, Some(observed));
        });
        assert_eq!(status(&snapshot, PROXY).is_fine(), fine, "{generation} {observed}");
    }
}

#[test]
fn the_nodes_that_lack_a_pod_are_those_whose_pod_is_not_ready_first() {
    let short = |change: fn(&mut Snapshot)| {
        with(|snapshot| {
            proxy(snapshot).available = 3;
            change(snapshot);
        })
    };
    let unready = |snapshot: &mut Snapshot| pod(snapshot, "kube-proxy-abcd3").state.ready = Some(false);
    let remove = |snapshot: &mut Snapshot, name: &str| {
        snapshot.kube().pods.as_mut().unwrap().retain(|pod| pod.name != name);
    };
    let mut one = short(|_| {});
    unready(&mut one);
    assert_eq!(said(&one, PROXY), ["fail daemonset-incomplete w-1"]);
    // Whatever the numbers say, cp-1 has none.
    remove(&mut one, "kube-proxy-abcd0");
    assert_eq!(said(&one, PROXY), ["fail daemonset-incomplete cp-1", "fail daemonset-incomplete w-1"]);
    let mut narrowed = short(|snapshot| snapshot.node_mut("w-1").out_of_scope = true);
    unready(&mut narrowed);
    assert_eq!(said(&narrowed, PROXY), [""; 0], "nobody asked after this one");
    // A machine that Kubernetes does not know needs no pod, and that of another system counts for nothing.
    let whole = ["fail daemonset-incomplete kube-system/kube-proxy"];
    let mut outside = short(|snapshot| snapshot.node_mut("w-1").sources.kubernetes = false);
    remove(&mut outside, "kube-proxy-abcd3");
    assert_eq!(said(&outside, PROXY), whole);
    let mut guest = short(|snapshot| snapshot.node_mut("w-1").is_talos = false);
    remove(&mut guest, "kube-proxy-abcd3");
    assert_eq!(said(&guest, PROXY), [""; 0]);
    proxy(&mut guest).available = 2;
    assert_eq!(said(&guest, PROXY), whole);
}

/// By a selector or an affinity, it wants no pod on some machine that needs one.
#[test]
fn a_daemon_set_has_to_want_every_machine() {
    let fewer = |gone: &[&str]| {
        with(|snapshot| {
            let wanted = 4 - i32::try_from(gone.len()).unwrap();
            (proxy(snapshot).desired, proxy(snapshot).available) = (wanted, wanted);
            snapshot.kube().pods.as_mut().unwrap().retain(|pod| !gone.contains(&&*pod.name));
        })
    };
    let mut one = fewer(&["kube-proxy-abcd3"]);
    assert_eq!(said(&one, PROXY), ["fail daemonset-incomplete w-1"]);
    let two = ["fail daemonset-incomplete cp-1", "fail daemonset-incomplete w-1"];
    assert_eq!(said(&fewer(&["kube-proxy-abcd0", "kube-proxy-abcd3"]), PROXY), two);
    // Each has a pod of one DaemonSet or another.
    let numbers =
        |snapshot: &mut Snapshot, number| (proxy(snapshot).desired, proxy(snapshot).available) = (number, number);
    assert_eq!(said(&with(|it| numbers(it, 3)), PROXY), [""; 0]);
    // They show no label, and their controller tells.
    assert_eq!(
        said(&with(|it| it.kube().pods.iter_mut().flatten().for_each(|pod| pod.labels.clear())), PROXY),
        [""; 0]
    );
    // Its numbers are good, and no pod is there.
    let gone =
        with(|it| it.kube().pods.iter_mut().for_each(|pods| pods.retain(|pod| !pod.name.starts_with("kube-proxy"))));
    assert_eq!(
        said(&gone, PROXY),
        ["cp-1", "cp-2", "cp-3", "w-1"].map(|name| format!("fail daemonset-incomplete {name}"))
    );
    // Nobody tells where they are.
    one.kube().pods = no(GapKind::TimedOut);
    assert_eq!(said(&one, PROXY), ["error timed-out kube-system/kube-proxy < k8s.staticpods.running"]);
    // It needs none, or is on its way out.
    let mut guest = fewer(&["kube-proxy-abcd3"]);
    guest.node_mut("w-1").is_talos = false;
    assert_eq!(said(&guest, PROXY), [""; 0]);
    let mut leaving = fewer(&["kube-proxy-abcd3"]);
    leaving.node_mut("w-1").leaving = true;
    assert_eq!(said(&leaving, PROXY), [""; 0]);
    // As where the network plugin does its work everywhere.
    let all = ["kube-proxy-abcd0", "kube-proxy-abcd1", "kube-proxy-abcd2", "kube-proxy-abcd3"];
    assert_eq!(said(&fewer(&all), PROXY), [""; 0]);
}

/// Its controller has not counted for a while.
#[test]
fn the_pods_count_more_than_what_their_daemon_set_says_of_them() {
    let since = |unready_for: Option<u64>| {
        with(|snapshot| {
            let pod = pod(snapshot, "kube-proxy-abcd3");
            pod.state.ready = Some(false);
            pod.unready_for = unready_for.map(Duration::from_secs);
        })
    };
    for (unready_for, expected) in [(Some(29), None), (Some(30), Some("w-1")), (None, Some("w-1"))] {
        let expected = expected.map(|node| format!("fail daemonset-incomplete {node}"));
        assert_eq!(said(&since(unready_for), PROXY), Vec::from_iter(expected), "{unready_for:?}");
    }
    let gone = with(|it| it.kube().pods.as_mut().unwrap().retain(|pod| pod.name != "kube-proxy-abcd3"));
    assert_eq!(said(&gone, PROXY), ["fail daemonset-incomplete w-1"]);
    // While it is replaced, there are two.
    let mut replaced = since(None);
    let mut other = pod(&mut replaced, "kube-proxy-abcd3").clone();
    (other.name, other.state.ready) = ("kube-proxy-new".to_owned(), Some(true));
    replaced.kube().pods.as_mut().unwrap().push(other);
    assert_eq!(said(&replaced, PROXY), [""; 0]);
}

/// Nobody has taken them away.
#[test]
fn endpoints_are_pods_that_are_there() {
    let missing = ["fail dns-no-endpoints kube-system/kube-dns"];
    let of_dns = |pod: &Pod| pod.name.starts_with("coredns-");
    let gone = with(|it| it.kube().pods.as_mut().unwrap().retain(|pod| !of_dns(pod)));
    assert_eq!(said(&gone, DNS), missing);
    let moved = |own: &[&str]| {
        with(|snapshot| {
            for pod in snapshot.kube().pods.iter_mut().flatten().filter(|pod| of_dns(pod)) {
                pod.addresses = own.iter().map(|&it| it.to_owned()).collect();
            }
        })
    };
    assert_eq!(said(&moved(&["10.244.0.9"]), DNS), missing);
    assert_eq!(said(&moved(&["10.244.0.1", "10.244.0.2", "2001:db8::9"]), DNS), [""; 0]);
    // Of the other family, nothing is told.
    assert_eq!(said(&moved(&["2001:db8::9"]), DNS), [""; 0]);
    let pending = with(|snapshot| {
        for pod in snapshot.kube().pods.iter_mut().flatten().filter(|pod| of_dns(pod)) {
            (pod.state.ready, pod.node) = (None, None);
            "Pending".clone_into(&mut pod.state.phase);
            pod.unready_for = Some(Duration::from_secs(30));
        }
    });
    assert_eq!(said(&pending, DNS), missing);
}

#[test]
fn the_pod_of_a_guest_counts_for_nothing() {
    let mut snapshot = with(|snapshot| {
        proxy(snapshot).available = 3;
        pod(snapshot, "kube-proxy-abcd3").state.ready = Some(false);
        not_ready(snapshot, "w-1");
    });
    assert_eq!(said(&snapshot, PROXY), ["fail daemonset-incomplete w-1 < k8s.nodes.ready"]);
    snapshot.node_mut("w-1").is_talos = false;
    assert_eq!(said(&snapshot, PROXY), [""; 0]);
}

fn without_dns(change: impl FnOnce(&mut Snapshot)) -> Snapshot {
    with(|snapshot| {
        snapshot.kube().dns_endpoints = Ok(Vec::new());
        change(snapshot);
    })
}

fn coredns(snapshot: &mut Snapshot) -> &mut Workload {
    &mut snapshot.kube().deployments.as_mut().unwrap()[0]
}

fn no_dns_pods(snapshot: &mut Snapshot) {
    snapshot.kube().pods.as_mut().unwrap().retain(|pod| !pod.name.starts_with("coredns"));
}

#[test]
fn ready_endpoints_of_dns_are_counted() {
    assert_eq!(lines(&healthy(), DNS), ["Cluster DNS: 2 ready endpoints"]);
    let one = with(|snapshot| {
        drop(snapshot.kube().dns_endpoints.as_mut().unwrap().pop());
        coredns(snapshot).desired = 1;
    });
    assert_eq!(lines(&one, DNS), ["Cluster DNS: 1 ready endpoint"]);
    // A replaced one may be of any number.
    let replaced = with(|snapshot| {
        snapshot.kube().dns_endpoints.as_mut().unwrap().truncate(1);
        snapshot.kube().deployments = Ok(Vec::new());
        snapshot.kube().pods.as_mut().unwrap().retain(|pod| pod.name != "coredns-5d8c4cc7b-bbbbb");
    });
    assert_eq!(lines(&replaced, DNS), ["Cluster DNS: 1 ready endpoint"]);
    let unserved = with(|snapshot| {
        snapshot.kube().dns_endpoints.as_mut().unwrap().truncate(1);
        snapshot.kube().deployments = Ok(Vec::new());
    });
    assert_eq!(
        said(&unserved, DNS),
        ["error dns-degraded kube-system/kube-dns"],
        "a pod that is well and does not serve"
    );
    let both_families = with(|snapshot| {
        let endpoints = snapshot.kube().dns_endpoints.as_mut().unwrap();
        let mut second = endpoints.clone();
        for endpoint in &mut second {
            endpoint.addresses = vec!["fd00::1".to_owned()];
        }
        endpoints.extend(second);
    });
    assert_eq!(lines(&both_families, DNS), ["Cluster DNS: 2 ready endpoints"]);
}

#[test]
fn endpoints_on_nodes_that_are_being_removed_count_while_these_live() {
    let leaving = |is_silent: bool| {
        with(|snapshot| {
            for endpoint in snapshot.kube().dns_endpoints.iter_mut().flatten() {
                endpoint.node = Some("w-1".to_owned());
            }
            snapshot.node_mut("w-1").leaving = true;
            if is_silent {
                snapshot.kube().node_leases.as_mut().unwrap().by_name.remove("w-1");
            }
        })
    };
    assert_eq!(said(&leaving(false), DNS), [""; 0]);
    assert_eq!(said(&leaving(true), DNS), ["fail dns-no-endpoints kube-system/kube-dns < k8s.nodes.ready"]);
}

/// Something else serves under the name.
#[test]
fn a_deployment_of_dns_that_does_not_work_beside_endpoints_that_do_is_a_warning() {
    let snapshot = with(|snapshot| coredns(snapshot).available = 0);
    assert_eq!(said(&snapshot, DNS), ["warn dns-degraded kube-system/kube-dns"]);
}

/// One of the two pods is Running and not ready, since so many seconds.
fn degraded(seconds: u64, change: impl FnOnce(&mut Snapshot)) -> Snapshot {
    with(|snapshot| {
        snapshot.kube().dns_endpoints.as_mut().unwrap()[1].ready = false;
        let pod = pod(snapshot, "coredns-5d8c4cc7b-bbbbb");
        (pod.state.ready, pod.unready_for) = (Some(false), Some(Duration::from_secs(seconds)));
        change(snapshot);
    })
}

#[test]
fn dns_with_a_pod_too_few_warns_until_it_is_late() {
    let warned = ["warn dns-degraded kube-system/kube-dns"];
    let failed = ["fail dns-degraded kube-system/kube-dns"];
    assert_eq!(said(&degraded(299, |_| {}), DNS), warned);
    assert_eq!(said(&degraded(300, |_| {}), DNS), failed);
    assert_eq!(said(&degraded(0, |it| coredns(it).given_up = Some("it timed out".to_owned())), DNS), failed);
    // Its age is what decides, and nobody tells it.
    let untold = ["error dns-degraded kube-system/kube-dns"];
    assert_eq!(said(&degraded(0, |it| pod(it, "coredns-5d8c4cc7b-bbbbb").unready_for = None), DNS), untold);
    // One that was evicted stays, and so does one that is on its way out.
    let evicted = degraded(4000, |snapshot| {
        let mut new = pod(snapshot, "coredns-5d8c4cc7b-bbbbb").clone();
        new.unready_for = Some(Duration::from_secs(1));
        snapshot.kube().pods.as_mut().unwrap().push(new);
        "Failed".clone_into(&mut pod(snapshot, "coredns-5d8c4cc7b-bbbbb").state.phase);
    });
    assert_eq!(said(&evicted, DNS), warned);
    // There is no second pod at all: the Deployment tells since when nothing happens.
    let absent = |seconds: Option<u64>| {
        let snapshot = degraded(0, |snapshot| {
            snapshot.kube().pods.as_mut().unwrap().retain(|pod| pod.name != "coredns-5d8c4cc7b-bbbbb");
            coredns(snapshot).unchanged_for = seconds.map(Duration::from_secs);
        });
        said(&snapshot, DNS)
    };
    assert_eq!([absent(Some(299)), absent(Some(300)), absent(None)].concat(), [warned, failed, untold].concat());
}

#[test]
fn endpoints_of_dns_on_a_lost_node_do_not_count() {
    let explained = ["warn dns-degraded kube-system/kube-dns < k8s.nodes.ready"];
    assert_eq!(said(&with(|it| not_ready(it, "cp-2")), DNS), explained);
    let silent = with(|snapshot| {
        let leases = snapshot.kube().node_leases.as_mut().unwrap();
        leases.by_name.get_mut("cp-2").unwrap().renewed = Some(crate::testing::fixture::ago(60));
    });
    assert_eq!(said(&silent, DNS), explained);
    assert!(judge(&silent, DNS).resample_after.is_some(), "it may be renewed this moment");
    assert!(judge(&with(|it| not_ready(it, "cp-2")), DNS).resample_after.is_none(), "its kubelet says so");
    let leaving = with(|snapshot| {
        not_ready(snapshot, "cp-2");
        snapshot.node_mut("cp-2").leaving = true;
    });
    assert_eq!(said(&leaving, DNS), [""; 0]);
    let both = with(|snapshot| {
        not_ready(snapshot, "cp-1");
        not_ready(snapshot, "cp-2");
    });
    assert_eq!(said(&both, DNS), ["fail dns-no-endpoints kube-system/kube-dns < k8s.nodes.ready"]);
    // Its pod has been called unready since, for however long.
    let told = degraded(4000, |snapshot| not_ready(snapshot, "cp-2"));
    assert_eq!(said(&told, DNS), explained);
}

#[test]
fn endpoints_of_dns_need_a_port_that_resolvers_use() {
    let mut snapshot = healthy();
    let endpoints = snapshot.kube().dns_endpoints.as_mut().unwrap();
    for endpoint in endpoints {
        endpoint.protocols = Some(vec!["TCP".to_owned()]);
    }
    assert_eq!(said(&snapshot, DNS), ["fail dns-no-endpoints kube-system/kube-dns"]);
}

/// As where the controller of endpoints hangs, or the Service publishes pods that are not ready.
#[test]
fn endpoints_of_dns_whose_pods_are_not_ready_do_not_count() {
    let lagging =
        |seconds: u64| degraded(seconds, |snapshot| snapshot.kube().dns_endpoints.as_mut().unwrap()[1].ready = true);
    assert_eq!(said(&lagging(29), DNS), [""; 0], "it is told in a moment");
    assert_eq!(said(&lagging(30), DNS), ["warn dns-degraded kube-system/kube-dns"]);
    assert_eq!(said(&lagging(300), DNS), ["fail dns-degraded kube-system/kube-dns"]);
}

#[test]
fn a_rollout_of_dns_that_was_given_up_fails_though_the_former_pods_serve() {
    let stuck = with(|snapshot| coredns(snapshot).given_up = Some("it timed out".to_owned()));
    assert_eq!(said(&stuck, DNS), ["fail dns-degraded kube-system/kube-dns"]);
}

/// Nobody acts on its new form.
#[test]
fn a_deployment_of_dns_that_its_controller_does_not_observe_is_degraded() {
    let unobserved = |seconds: u64| {
        with(|snapshot| {
            let dns = coredns(snapshot);
            (dns.generation, dns.unchanged_for) = (dns.generation + 1, Some(Duration::from_secs(seconds)));
        })
    };
    assert_eq!(said(&unobserved(1), DNS), ["warn dns-degraded kube-system/kube-dns"]);
    assert_eq!(said(&unobserved(300), DNS), ["fail dns-degraded kube-system/kube-dns"]);
}

#[test]
fn whether_dns_is_complete_takes_lists_to_know() {
    let without = |change: fn(&mut Snapshot)| said(&degraded(0, change), DNS);
    let by_pods = ["error timed-out kube-system/kube-dns < k8s.staticpods.running"];
    assert_eq!(without(|it| it.kube().pods = no(GapKind::TimedOut)), by_pods);
    let untold = ["error timed-out kube-system/kube-dns"];
    assert_eq!(without(|it| it.kube().deployments = no(GapKind::TimedOut)), untold);
}

#[test]
fn the_deployment_of_dns_has_a_label_or_a_name() {
    let scaled = |change: fn(&mut Workload)| {
        let snapshot = without_dns(|snapshot| {
            coredns(snapshot).desired = 0;
            change(coredns(snapshot));
        });
        said(&snapshot, DNS)
    };
    let zero = ["fail dns-scaled-to-zero kube-system/kube-dns"];
    assert_eq!(scaled(|_| {}), zero);
    assert_eq!(scaled(|it| "dns".clone_into(&mut it.name)), zero);
    assert_eq!(scaled(|it| it.labels.clear()), zero);
    let other = |it: &mut Workload| {
        it.labels.clear();
        "other".clone_into(&mut it.name);
    };
    assert_eq!(scaled(other), ["fail dns-no-endpoints kube-system/kube-dns"]);
}

#[test]
fn dns_is_missing_only_where_no_part_of_it_is_there() {
    let no_deployment = |change: fn(&mut Snapshot)| {
        let snapshot = without_dns(|snapshot| {
            snapshot.kube().deployments = Ok(Vec::new());
            change(snapshot);
        });
        said(&snapshot, DNS)
    };
    let silent = ["fail dns-no-endpoints kube-system/kube-dns"];
    assert_eq!(no_deployment(no_dns_pods), ["fail dns-missing kube-system/kube-dns"]);
    assert_eq!(no_deployment(|_| {}), silent, "its pods are there");
    let endpoints = no_deployment(|snapshot| {
        no_dns_pods(snapshot);
        snapshot.kube().dns_endpoints = healthy().kube().dns_endpoints.clone();
        snapshot.kube().dns_endpoints.iter_mut().flatten().for_each(|endpoint| endpoint.ready = false);
    });
    assert_eq!(endpoints, silent, "its endpoints are there");
}

/// Of Kubernetes alone nobody learns what is switched off.
#[test]
fn without_talos_dns_that_is_nowhere_is_undetermined_and_can_be_left_out() {
    let mut snapshot = without_dns(|snapshot| {
        snapshot.kube().deployments = Ok(Vec::new());
        no_dns_pods(snapshot);
    });
    let first = |snapshot: &Snapshot| judge(snapshot, DNS).problems().next().unwrap().1.clone();
    let left_out = Hint::likely("if the cluster has no DNS on purpose: `--skip k8s.dns`");
    assert!(!first(&snapshot).hints.contains(&left_out), "Talos says that it is wanted");
    for name in CONTROL_PLANES {
        snapshot.talos_of(name).bootstrap_manifests = no(GapKind::TimedOut);
    }
    assert_eq!(said(&snapshot, DNS), ["error dns-missing kube-system/kube-dns"]);
    assert!(first(&snapshot).observed.ends_with("and no control plane reported whether DNS is wanted"));
    assert!(!first(&snapshot).hints.contains(&left_out), "Talos will say");
    let mut blind = snapshot.without_talos();
    assert_eq!(said(&blind, DNS), ["error dns-missing kube-system/kube-dns"]);
    assert!(first(&blind).observed.ends_with("and without Talos it is unknown whether DNS is wanted"));
    assert!(first(&blind).hints.contains(&left_out));
    // Nor does a list that cannot be read.
    blind.kube().deployments = no(GapKind::Throttled);
    assert_eq!(said(&blind, DNS), ["error dns-missing kube-system/kube-dns"]);
    let mut wanted = without_dns(no_dns_pods);
    wanted.kube().deployments = no(GapKind::Throttled);
    assert_eq!(said(&wanted, DNS), ["fail dns-no-endpoints kube-system/kube-dns"], "Talos says that it is wanted");
    // Somebody did that, and nobody says why.
    blind.kube().deployments = healthy().kube().deployments.clone();
    coredns(&mut blind).desired = 0;
    assert_eq!(said(&blind, DNS), ["fail dns-scaled-to-zero kube-system/kube-dns"]);
    assert!(first(&blind).hints.contains(&left_out));
}

#[test]
fn dns_that_has_nowhere_to_run_waits_for_nodes() {
    let names = ["cp-1", "cp-2", "cp-3", "w-1"];
    let on = |nodes: &[&str], pods: bool| {
        let snapshot = without_dns(|snapshot| {
            for node in nodes {
                not_ready(snapshot, node);
            }
            if !pods {
                no_dns_pods(snapshot);
            }
        });
        said(&snapshot, DNS)
    };
    let silent = "fail dns-no-endpoints kube-system/kube-dns";
    let waits = "fail dns-no-endpoints kube-system/kube-dns < k8s.nodes.ready";
    assert_eq!(on(&[], true), [silent]);
    assert_eq!(on(&["cp-1"], true), [silent], "one of its pods runs on a ready node");
    assert_eq!(on(&["cp-1", "cp-2"], true), [waits]);
    assert_eq!(on(&["cp-1", "cp-2"], false), [silent], "others could take it");
    assert_eq!(on(&names, false), [waits]);
}

#[test]
fn what_is_not_rendered_is_known_from_the_configuration() {
    let without_scheduler = |change: fn(&mut Snapshot)| {
        let snapshot = with(|snapshot| {
            let talos = snapshot.talos_of("cp-2");
            talos.static_pods.as_mut().unwrap().retain(|id| id != "kube-scheduler");
            talos.scheduler_enabled = Ok(None);
            change(snapshot);
        });
        said(&snapshot, RENDERED)
    };
    assert_eq!(without_scheduler(|_| {}), ["error no-answer cp-2"], "nobody knows whether it is wanted");
    assert_eq!(
        without_scheduler(|it| it.service_mut("cp-2", "etcd").healthy = Some(false)),
        ["fail static-pod-not-rendered cp-2 < etcd.service"]
    );
    let config = |id: &str| {
        let snapshot = with(|snapshot| {
            let statuses = snapshot.talos_of("cp-2").config_statuses.as_mut().unwrap();
            statuses.iter_mut().find(|status| status.id == id).unwrap().ready = false;
        });
        said(&snapshot, RENDERED)
    };
    assert_eq!(config("static-pods"), ["fail static-pod-not-rendered cp-2"]);
    assert_eq!(config("static-pods-secrets"), [""; 0], "the first follows it");
}

#[test]
fn etcd_beside_the_static_pods_is_as_its_service_says() {
    let services = |kind| with(|snapshot| snapshot.talos_of("cp-2").services = no(kind));
    let blocked = "blocked etcd-cp-2 < talos.nodes.kubelet".to_owned();
    assert!(said(&services(GapKind::TimedOut), RUNNING).contains(&blocked));
    assert!(said(&services(GapKind::NotAsked), RUNNING).contains(&"error no-answer etcd-cp-2".to_owned()));
}

#[test]
fn without_talos_each_component_has_a_mirror_pod() {
    let missing = with(|snapshot| {
        snapshot.kube().pods.as_mut().unwrap().retain(|pod| pod.name != "kube-scheduler-cp-2");
    });
    assert_eq!(said(&missing.without_talos(), RUNNING), [""; 0], "it may be switched off there");
    let nowhere = with(|snapshot| {
        snapshot.kube().pods.as_mut().unwrap().retain(|pod| !pod.name.starts_with("kube-scheduler"));
    });
    let fails = CONTROL_PLANES
        .map(|node| format!("fail static-pod-missing kube-scheduler-{node} < k8s.controlplane.scheduler"));
    assert_eq!(said(&nowhere.without_talos(), RUNNING), fails);
    let renamed = with(|snapshot| "renamed".clone_into(&mut pod(snapshot, "kube-scheduler-cp-2").name));
    assert_eq!(said(&renamed.without_talos(), RUNNING), [""; 0], "its label tells");
    let broken = with(|snapshot| pod(snapshot, "kube-scheduler-cp-2").state.ready = Some(false));
    assert_eq!(
        said(&broken.without_talos(), RUNNING),
        ["fail static-pod-failed kube-scheduler-cp-2 < k8s.controlplane.scheduler"]
    );
}

#[test]
fn a_static_pod_of_a_silent_node_is_the_nodes() {
    let own = |change: fn(&mut Snapshot)| {
        let mut snapshot = with(|snapshot| {
            let mut own = pod(snapshot, "kube-scheduler-cp-2").clone();
            (own.name, own.node) = ("own-w-1".to_owned(), Some("w-1".to_owned()));
            own.labels.clear();
            own.state.ready = Some(false);
            snapshot.kube().pods.as_mut().unwrap().push(own);
        });
        change(&mut snapshot);
        said(&snapshot.without_talos(), RUNNING)
    };
    assert_eq!(own(|_| {}), ["fail static-pod-failed own-w-1"]);
    assert_eq!(own(|it| not_ready(it, "w-1")), ["fail static-pod-failed own-w-1 < k8s.nodes.ready"]);
}

#[test]
fn a_component_that_crashes_without_etcd_or_a_node_is_no_root() {
    let id = "k8s.controlplane.scheduler";
    let mut lost = with(|snapshot| {
        let statuses = snapshot.talos_of("cp-3").static_pod_statuses.as_mut().unwrap();
        statuses.iter_mut().find(|it| it.name == "kube-scheduler-cp-3").unwrap().state.ready = Some(false);
    });
    assert_eq!(said(&lost, id), ["fail component-not-ready cp-3"]);
    for name in CONTROL_PLANES {
        lost.etcd_status_mut(name).leader = 0;
        lost.talos_of(name).etcd_members = no(GapKind::ServerError);
    }
    assert_eq!(said(&lost, id), ["fail component-not-ready cp-3 < etcd.quorum"]);
    let mut silent = with(|snapshot| pod(snapshot, "kube-scheduler-cp-3").state.ready = Some(false)).without_talos();
    assert_eq!(said(&silent, id), ["fail component-not-ready cp-3"]);
    not_ready(&mut silent, "cp-3");
    assert_eq!(said(&silent, id), ["fail component-not-ready cp-3 < k8s.nodes.ready"]);
    assert!(roots(&silent).contains(&"k8s.nodes.ready node-not-ready cp-3".to_owned()));
    assert_eq!(status(&silent, id), Status::Fail);
    let look = Hint::run("{kubectl} -n kube-system describe pod {}", ["kube-scheduler-cp-3"]);
    assert!(judge(&silent, id).problems().next().unwrap().1.hints.contains(&look));
}
