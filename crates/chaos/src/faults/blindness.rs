//! Healthy components that cannot be observed.

use serde_json::json;

use super::{Does, Fault, On, fault};
use crate::plan::Plan;

/// Calls that are answered wrongly or not at all, and whether a verdict is possible without the answer.
pub(super) fn blindness() -> Vec<Fault> {
    let lists = [
        ("/api/v1/nodes", Does::Blinds),
        ("/api/v1/pods", Does::Blinds),
        ("/api/v1/namespaces/kube-system/pods", Does::Hides),
        ("/apis/coordination.k8s.io/v1/leases", Does::Hides),
        ("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases", Does::Blinds),
        ("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases", Does::Blinds),
        ("/apis/apps/v1/daemonsets", Does::Blinds),
        ("/apis/apps/v1/namespaces/kube-system/deployments", Does::Hides),
        ("/apis/discovery.k8s.io/v1/namespaces/kube-system/endpointslices", Does::Blinds),
        ("/apis/certificates.k8s.io/v1/certificatesigningrequests", Does::Hides),
        ("/apis/apps/v1/namespaces/kube-system/statefulsets", Does::Blinds),
        ("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", Does::Hides),
        ("/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations", Does::Blinds),
        ("/apis/apiregistration.k8s.io/v1/apiservices", Does::Hides),
        ("/api/v1/events", Does::Blinds),
    ];
    let ways = [
        ("forbidden", json!({"fail": {"code": 403, "text": "forbidden"}})),
        ("throttled", json!({"fail": {"code": 429, "text": "too many requests"}})),
        ("failing", json!({"fail": {"code": 500, "text": "internal error"}})),
        ("garbage", json!("garbage")),
        ("silent", json!("hang")),
        ("cut", json!("cut")),
    ];
    let mut all = Vec::new();
    for (list, does) in lists {
        for (way, misbehaves) in &ways {
            let name: &'static str = Box::leak(format!("{way}:{list}").into_boxed_str());
            let misbehaves = misbehaves.clone();
            // Without access to the DaemonSets of all namespaces, the program reads those of kube-system.
            let does = if name == "forbidden:/apis/apps/v1/daemonsets" { Does::Hides } else { does };
            all.push(Fault {
                does,
                ..fault(name, On::Cluster, move |plan, _| {
                    plan.change(json!({"do": "call-fault", "call": list, "does": misbehaves}));
                })
            });
        }
    }
    for list in ["/api/v1/nodes", "/api/v1/pods", "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"] {
        let name: &'static str = Box::leak(format!("forbidden-once:{list}").into_boxed_str());
        let once = move |plan: &mut Plan, _: &str| {
            plan.change(json!({"do": "call-fault", "call": list, "does": {"fail": {"code": 403, "text": "forbidden"}}, "times": 1}));
        };
        all.push(Fault { does: Does::Hides, passes: true, ..fault(name, On::Cluster, once) });
    }
    // Proxies between the program and the API server.
    for (name, does, misbehaves) in [
        ("cache-on-the-way", Does::Blinds, json!({"cached": "5m"})),
        ("selectors-dropped-on-the-way", Does::Hides, json!("without-query")),
        ("dates-dropped-on-the-way", Does::Hides, json!("without-date")),
    ] {
        all.push(Fault {
            does,
            ..fault(name, On::Cluster, move |plan, _| {
                plan.change(json!({"do": "call-fault", "call": "/api*", "does": misbehaves}));
            })
        });
    }
    let calls = [
        ("ServiceList", Does::Blinds),
        ("List MachineStatuses", Does::Hides),
        ("Get MachineStatuses", Does::Hides),
        ("EtcdStatus", Does::Hides),
        ("EtcdMemberList", Does::Hides),
        ("EtcdAlarmList", Does::Hides),
        ("Memory", Does::Hides),
        ("Mounts", Does::Hides),
    ];
    let ways = [
        ("refused", json!({"fail": {"code": 7, "text": "not authorized"}})),
        ("unavailable", json!({"fail": {"code": 14, "text": "connection error"}})),
        ("garbage", json!("garbage")),
        ("empty", json!("empty")),
        ("silent", json!("hang")),
    ];
    for (call, does) in calls {
        for (way, misbehaves) in &ways {
            let name: &'static str = Box::leak(format!("{way}:{}", call.replace(' ', "-")).into_boxed_str());
            let misbehaves = misbehaves.clone();
            all.push(Fault {
                does,
                ..fault(name, On::Machine, move |plan, node| {
                    plan.change(
                        json!({"do": "call-fault", "server": "apid", "node": node, "call": call, "does": misbehaves}),
                    );
                })
            });
        }
    }
    all
}
