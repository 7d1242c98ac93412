//! Machines that have not finished joining: each chain of steps that a new machine goes through, broken at one place.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{CertificateParams, DnType, KeyPair};
use serde_json::json;

use super::{ALL_OF_IT, Fault, On, Source, Touches, fault};
use crate::plan::Plan;

pub(super) fn joining() -> Vec<Fault> {
    vec![
        // Cluster endpoint → trustd → own certificate → Talos API of a worker.
        Fault {
            shown: &[Source::Reach],
            said: &["machine-not-joined"],
            silences: ALL_OF_IT,
            touches: Touches::Machine,
            ..fault("never-joined", On::Worker, |plan, node| {
                plan.change(json!({"do": "transport", "server": "apid", "node": node, "fault": "refuse"}));
                plan.remove_object("nodes", "", node);
            })
        },
        // Bootstrap token → certificate request → approval → client certificate → Node.
        Fault {
            shown: &[Source::Node],
            said: &["kubelet-not-registered"],
            touches: Touches::Node,
            ..fault("kubelet-without-node", On::Worker, |plan, node| plan.remove_object("nodes", "", node))
        },
        Fault {
            shown: &[Source::Node],
            said: &["kubelet-without-certificate"],
            touches: Touches::Node,
            ..fault("kubelet-unapproved", On::Worker, |plan, node| {
                plan.remove_object("nodes", "", node);
                request(plan, node);
            })
        },
        // The member has been added, but its etcd is not running yet.
        Fault {
            shown: &[Source::Ready],
            // The last one when only Talos is queried.
            said: &["etcd-joining", "etcd-starting", "condition-unmet"],
            silences: &[Source::Member],
            stops_member: true,
            spoils_endpoint: true,
            touches: Touches::Member,
            fits: |case| case.control_planes > 1,
            ..fault("etcd-still-joins", On::ControlPlane, |plan, node| {
                plan.change(json!({"do": "etcd-remove-member", "node": node}));
                plan.change(json!({"do": "service", "node": node, "service": "etcd", "state": "Preparing",
                    "healthy": false, "message": "", "event": "Running pre state"}));
            })
        },
    ]
}

/// Adds the certificate request that the kubelet of a new machine sends with a bootstrap token.
fn request(plan: &mut Plan, node: &str) {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::OrganizationName, "system:nodes");
    params.distinguished_name.push(DnType::CommonName, format!("system:node:{node}"));
    let pem = KeyPair::generate().and_then(|key| params.serialize_request(&key)).and_then(|request| request.pem());
    let request = STANDARD.encode(pem.unwrap_or_default());
    plan.object(
        "certificatesigningrequests.certificates.k8s.io",
        "",
        &format!("csr-{node}"),
        &json!({
        "metadata": {"creationTimestamp": "2026-11-21T19:00:00Z"},
        "spec": {"request": request, "signerName": "kubernetes.io/kube-apiserver-client-kubelet",
            "username": "system:bootstrap:q9pyzr", "usages": ["digital signature", "client auth"]},
        "status": {}}),
    );
}
