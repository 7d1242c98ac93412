//! Cluster DNS: endpoints that serve, and endpoints that only seem to.

use std::time::Duration;

use crate::checks::kubernetes::tests::{beside, judge, lines, no, not_ready, pod, said, status, with};
use crate::model::Status;
use crate::snapshot::{GapKind, Pod, ServiceEndpoint, Snapshot, Workload};
use crate::testing::fixture::{CONTROL_PLANES, healthy};

const DNS: &str = "k8s.dns";

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

/// A workload that only shares the label is not taken for the DNS Deployment.
#[test]
fn what_only_carries_the_label_hides_no_deployment() {
    let dns = without_dns(|snapshot| {
        coredns(snapshot).desired = 0;
        beside(snapshot.kube().deployments.as_mut().unwrap(), "kube-dns");
    });
    assert_eq!(said(&dns, DNS), ["fail dns-scaled-to-zero kube-system/kube-dns"]);
}

/// Endpoints stay listed although their pods are gone or have other addresses.
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
    // The pod's address of the other family is unknown.
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
fn ready_endpoints_of_dns_are_counted() {
    assert_eq!(lines(&healthy(), DNS), ["Cluster DNS: 2 ready endpoints"]);
    let one = with(|snapshot| {
        drop(snapshot.kube().dns_endpoints.as_mut().unwrap().pop());
        coredns(snapshot).desired = 1;
    });
    assert_eq!(lines(&one, DNS), ["Cluster DNS: 1 ready endpoint"]);
    // A replacement for CoreDNS may have any number of pods.
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
    assert_eq!(said(&leaving(true), DNS), ["fail dns-no-endpoints kube-system/kube-dns"]);
}

/// A different workload serves under the Service's name.
#[test]
fn a_deployment_of_dns_that_does_not_work_beside_endpoints_that_do_is_a_warning() {
    let snapshot = with(|snapshot| coredns(snapshot).available = 0);
    assert_eq!(said(&snapshot, DNS), ["warn dns-degraded kube-system/kube-dns"]);
}

/// Two DNS pods, one of them Running but not ready for this many seconds.
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
    // The pod's age decides, and is unknown.
    let untold = ["error dns-degraded kube-system/kube-dns"];
    assert_eq!(said(&degraded(0, |it| pod(it, "coredns-5d8c4cc7b-bbbbb").unready_for = None), DNS), untold);
    // An evicted pod remains listed, and so does one that is being deleted.
    let evicted = degraded(4000, |snapshot| {
        let mut new = pod(snapshot, "coredns-5d8c4cc7b-bbbbb").clone();
        new.unready_for = Some(Duration::from_secs(1));
        snapshot.kube().pods.as_mut().unwrap().push(new);
        "Failed".clone_into(&mut pod(snapshot, "coredns-5d8c4cc7b-bbbbb").state.phase);
    });
    assert_eq!(said(&evicted, DNS), warned);
    // There is no second pod at all: the Deployment shows how long nothing has changed.
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
    assert_eq!(lines(&leaving, DNS), ["Cluster DNS: 1 ready endpoint, 1 on nodes that are being removed or gone"]);
    let both = with(|snapshot| {
        not_ready(snapshot, "cp-1");
        not_ready(snapshot, "cp-2");
    });
    assert_eq!(said(&both, DNS), ["fail dns-no-endpoints kube-system/kube-dns < k8s.nodes.ready"]);
    let observed = judge(&both, DNS).problems().next().unwrap().1.observed.clone();
    assert!(observed.ends_with("stopped reporting (cp-1, cp-2)"), "{observed}");
    let gone = |names: &'static [&'static str]| {
        with(|snapshot| snapshot.kube().nodes.as_mut().unwrap().retain(|object| !names.contains(&object.name.as_str())))
    };
    assert_eq!(said(&gone(&["cp-2"]), DNS), [""; 0], "another one is made soon");
    let all = ["fail dns-no-endpoints kube-system/kube-dns < k8s.nodes.registered"];
    assert_eq!(said(&gone(&["cp-1", "cp-2"]), DNS), all);
    // The pod has been reported as unready since then, no matter how long ago.
    let told = degraded(4000, |snapshot| not_ready(snapshot, "cp-2"));
    assert_eq!(said(&told, DNS), explained);
}

/// One instance on a lost node excuses one: its endpoint and its pod are not two.
#[test]
fn an_instance_of_dns_that_is_lost_is_counted_once() {
    let of = |desired: i32| {
        let snapshot = with(|snapshot| {
            not_ready(snapshot, "cp-2");
            let pod = pod(snapshot, "coredns-5d8c4cc7b-bbbbb");
            // Endpoints follow within 30 seconds.
            (pod.state.ready, pod.unready_for) = (Some(false), Some(Duration::from_secs(10)));
            (coredns(snapshot).desired, coredns(snapshot).unchanged_for) = (desired, Some(Duration::from_secs(600)));
        });
        said(&snapshot, DNS)
    };
    assert_eq!(of(2), ["warn dns-degraded kube-system/kube-dns < k8s.nodes.ready"]);
    assert_eq!(of(3), ["fail dns-degraded kube-system/kube-dns"], "nothing shows where the third one is");
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

/// Endpoints of a stopped pod stay ready for a moment, or for as long as the endpoint controller is stuck.
#[test]
fn endpoints_of_dns_whose_pods_have_been_stopped_do_not_count() {
    let deleted = |names: &'static [&'static str]| {
        with(|snapshot| {
            for name in names {
                let pod = pod(snapshot, name);
                (pod.deleting, pod.state.ready, pod.unready_for) = (true, Some(false), Some(Duration::from_secs(1)));
            }
        })
    };
    let serves_yet = with(|snapshot| {
        for name in ["coredns-5d8c4cc7b-aaaaa", "coredns-5d8c4cc7b-bbbbb"] {
            pod(snapshot, name).controller = Some(("ReplicaSet".to_owned(), "coredns-5d8c4cc7b".to_owned()));
        }
        pod(snapshot, "coredns-5d8c4cc7b-bbbbb").deleting = true;
    });
    assert_eq!(lines(&serves_yet, DNS), ["Cluster DNS: 2 ready endpoints"]);
    let none_stays = with(|snapshot| {
        for name in ["coredns-5d8c4cc7b-aaaaa", "coredns-5d8c4cc7b-bbbbb"] {
            pod(snapshot, name).deleting = true;
        }
    });
    assert_eq!(said(&none_stays, DNS), ["fail dns-no-endpoints kube-system/kube-dns"]);
    let one = deleted(&["coredns-5d8c4cc7b-bbbbb"]);
    // No replacement is created, and the time since then is unknown.
    assert_eq!(said(&one, DNS), ["fail dns-degraded kube-system/kube-dns"]);
    let both = deleted(&["coredns-5d8c4cc7b-aaaaa", "coredns-5d8c4cc7b-bbbbb"]);
    assert_eq!(said(&both, DNS), ["fail dns-no-endpoints kube-system/kube-dns"]);
}

/// Ready endpoints of unready pods: the endpoint controller is stuck, or the Service publishes pods that are not ready.
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

/// The controller has not acted on the Deployment's newest generation.
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
    let by_pods = ["error timed-out kube-system/kube-dns < k8s.controlplane.apiserver"];
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

/// Kubernetes alone does not show whether DNS is disabled.
#[test]
fn without_talos_dns_that_is_nowhere_is_a_warning() {
    let mut snapshot = without_dns(|snapshot| {
        snapshot.kube().deployments = Ok(Vec::new());
        no_dns_pods(snapshot);
    });
    let first = |snapshot: &Snapshot| judge(snapshot, DNS).problems().next().unwrap().1.clone();
    for name in CONTROL_PLANES {
        snapshot.talos_of(name).bootstrap_manifests = no(GapKind::TimedOut);
    }
    assert_eq!(said(&snapshot, DNS), ["error dns-missing kube-system/kube-dns"]);
    assert!(first(&snapshot).observed.ends_with("and no control plane reported whether DNS is wanted"));
    let mut blind = snapshot.without_talos();
    assert_eq!(said(&blind, DNS), ["warn dns-missing kube-system/kube-dns"]);
    assert_eq!(judge(&blind, DNS).left_out, ["cluster DNS: nothing was found that serves it"]);
    // The DNS workload may be in the list that cannot be read.
    blind.kube().deployments = no(GapKind::Throttled);
    assert_eq!(said(&blind, DNS), ["error dns-missing kube-system/kube-dns"]);
    assert!(first(&blind).observed.ends_with("and without Talos it is unknown whether DNS is wanted"));
    let mut wanted = without_dns(no_dns_pods);
    wanted.kube().deployments = no(GapKind::Throttled);
    assert_eq!(said(&wanted, DNS), ["fail dns-no-endpoints kube-system/kube-dns"], "Talos says that it is wanted");
    // The Deployment was scaled down for an unknown reason.
    blind.kube().deployments = healthy().kube().deployments.clone();
    coredns(&mut blind).desired = 0;
    assert_eq!(said(&blind, DNS), ["fail dns-scaled-to-zero kube-system/kube-dns"]);
    // Skipping the check would also hide a total loss of DNS, so it is not proposed.
    assert!(!format!("{:?}", first(&blind).hints).contains("--skip"));
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

/// The nodes with DNS pods may no longer be alive.
#[test]
fn endpoints_of_dns_take_leases_to_count() {
    let blind = with(|snapshot| snapshot.kube().node_leases = no(GapKind::TimedOut));
    assert_eq!(said(&blind, DNS), ["error timed-out cluster < k8s.nodes.schedulable"]);
}

/// The controller of the pods reports why there are none.
#[test]
fn a_webhook_that_keeps_the_pods_of_dns_away_is_the_cause() {
    let refused = without_dns(|snapshot| {
        no_dns_pods(snapshot);
        let words = "Internal error occurred: failed calling webhook \"w.example.com\"";
        coredns(snapshot).refused = Some(words.to_owned());
    });
    assert_eq!(said(&refused, DNS), ["fail dns-no-endpoints kube-system/kube-dns"]);
}

/// DNS in another namespace, such as a virtual cluster's, does not serve this cluster.
#[test]
fn dns_of_another_namespace_counts_where_kube_system_has_none() {
    let elsewhere = |snapshot: &mut Snapshot| {
        let endpoint = healthy().kube().dns_endpoints.as_ref().unwrap()[0].clone();
        let other = ServiceEndpoint { namespace: "team-a".to_owned(), pod: None, node: None, ..endpoint };
        snapshot.kube().dns_endpoints.as_mut().unwrap().push(other);
    };
    let mut none_ready = healthy().without_talos();
    none_ready.kube().dns_endpoints.iter_mut().flatten().for_each(|it| it.ready = false);
    elsewhere(&mut none_ready);
    assert_eq!(said(&none_ready, DNS), ["fail dns-no-endpoints kube-system/kube-dns"]);
    let mut scaled = without_dns(no_dns_pods).without_talos();
    coredns(&mut scaled).desired = 0;
    elsewhere(&mut scaled);
    assert_eq!(said(&scaled, DNS), ["fail dns-scaled-to-zero kube-system/kube-dns"]);
    scaled.kube().deployments = Ok(Vec::new());
    assert_eq!(said(&scaled, DNS), [""; 0], "it is all that there is");
    // A Service without endpoints has no working backend.
    for endpoint in scaled.kube().dns_endpoints.iter_mut().flatten() {
        (endpoint.addresses, endpoint.ready) = (Vec::new(), false);
    }
    assert_eq!(said(&scaled, DNS), ["fail dns-no-endpoints team-a/kube-dns"]);
}

#[test]
fn dns_needs_one_ready_endpoint() {
    let id = "k8s.dns";
    let mut snapshot = healthy();
    for endpoint in snapshot.kube().dns_endpoints.as_mut().unwrap() {
        endpoint.ready = false;
    }
    assert_eq!(said(&snapshot, id), ["fail dns-no-endpoints kube-system/kube-dns"]);
    snapshot.kube().deployments.as_mut().unwrap()[0].desired = 0;
    assert_eq!(said(&snapshot, id), ["fail dns-scaled-to-zero kube-system/kube-dns"]);
    snapshot.kube().dns_endpoints = Ok(Vec::new());
    snapshot.kube().deployments = Ok(Vec::new());
    snapshot.kube().pods.as_mut().unwrap().retain(|pod| !pod.name.starts_with("coredns"));
    assert_eq!(said(&snapshot, id), ["fail dns-missing kube-system/kube-dns"]);
    for name in CONTROL_PLANES {
        snapshot.talos_of(name).bootstrap_manifests.as_mut().unwrap().as_mut().unwrap().dns_enabled = false;
    }
    assert_eq!(status(&snapshot, id), Status::Skip);
}
