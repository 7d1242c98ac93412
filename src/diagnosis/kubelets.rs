//! Kubelets: problems that keep them from running, from registering, and from being queried.

use super::{Cause, Recognized, Symptoms, service};
use crate::model::reason::sources::{KUBERNETES_TLS, TALOS_TROUBLESHOOTING_KUBELET};
use crate::model::{CheckId, Hint, Reason, Step};
use crate::snapshot::{RequestState, SigningRequest};

use super::symptoms::Sign;
use Step::{Change, Do, Look};

pub(super) const KUBELET: Cause = Cause {
    id: "kubelet-not-running",
    title: "the kubelet of a machine is not running",
    impact: "no pod is started, stopped or reported on the machine; running containers keep running, and after 5 minutes Kubernetes replaces the pods that can run elsewhere",
    explain: "Talos on the machine reports that its kubelet is not running or not healthy. No pod is started or reported there \
any more; after about 50 seconds Kubernetes marks the node NotReady. On a control plane, a crashed API server is not restarted \
either.\n\n\
It crashes because of a wrong `extraArgs` or `extraConfig` in the machine configuration, cannot pull its image, or waits for \
something that its service status shows.",
    source: TALOS_TROUBLESHOOTING_KUBELET,
    remedy: &[
        Look("talosctl -n NODE service kubelet"),
        Look("talosctl -n NODE logs kubelet"),
        Look("talosctl -n NODE get kubeletspecs -o yaml"),
        Do("Fix what the log reports in the machine configuration; Talos then restarts the kubelet."),
        Change("talosctl -n NODE service kubelet restart"),
    ],
    recognize: |symptoms| {
        symptoms
            .of_check(CheckId::TalosNodesKubelet, &[Reason::KubeletUnhealthy])
            .filter(|sign| symptoms.is_open(sign) && sign.is_root())
            .map(|sign| {
                let words = service::of_problem(&sign.problem.observed, symptoms.service(sign.target, "kubelet"));
                let what = if words.starts_with("Running") { "does not work" } else { "is not running" };
                let headline = format!("the kubelet of {} {what}: {words}", sign.target);
                let follows = symptoms.about(sign.target).filter(|it| {
                    use Reason::{NodeLeaseStale, NodeNotReady, NodeNotRegistered, StatusStale};
                    matches!(it.problem.reason, NodeLeaseStale | NodeNotReady | NodeNotRegistered | StatusStale)
                });
                let diagnosis = Recognized::new(KUBELET.id, headline);
                let address = sign.target.address.as_deref();
                // The log would only repeat the headline; the setting that it rejects is in the configuration.
                let diagnosis = match address.filter(|_| rejects_a_setting(&words)) {
                    Some(address) => diagnosis.then(Hint::run("{talosctl} -n {} get kubeletspecs -o yaml", [address])),
                    None => diagnosis,
                };
                let diagnosis = diagnosis.rests_on(&sign).explains(follows);
                // A machine that is still booting starts its kubelet automatically.
                let status = symptoms.node(sign.target).and_then(|node| node.talos.machine_status.as_ref().ok());
                let boots = matches!(status, Some(Some(status)) if status.stage == "booting");
                // A restart does not help a kubelet that Talos keeps restarting.
                let restarts = symptoms.service(sign.target, "kubelet").is_some_and(service::keeps_exiting);
                match address {
                    Some(address) if !boots && !restarts => {
                        diagnosis.then(Hint::remedy("{talosctl} -n {} service kubelet restart", [address]))
                    }
                    _ => diagnosis,
                }
            })
            .collect()
    },
};

/// Returns whether the kubelet ended because of one of its flags or settings, and Talos's event quotes the error.
fn rejects_a_setting(words: &str) -> bool {
    words.contains("failed: ")
        && [" flag", "kubelet config", "feature gate"].iter().any(|setting| words.contains(setting))
}

pub(super) const UNCERTIFIED: Cause = Cause {
    id: "kubelet-without-certificate",
    title: "a kubelet cannot register: Kubernetes has not issued its client certificate",
    impact: "no pod can run on this machine; the rest of the cluster is not affected",
    explain: "A kubelet that starts on a new machine requests a client certificate with its bootstrap token, and registers the Node \
with it. The request has arrived, and the certificate was not issued.\n\n\
Pending: kube-controller-manager approves such requests automatically if ClusterRoleBindings, which Talos creates at \
bootstrap, allow it. Denied: an approver or a person refused it. Approved but not issued: kube-controller-manager should \
sign the certificate, but does not; its log shows why.",
    source: KUBERNETES_TLS,
    remedy: &[
        Look("kubectl describe csr NAME"),
        Look("kubectl get clusterrolebindings system-bootstrap-approve-node-client-csr"),
        Look("kubectl -n kube-system logs -l k8s-app=kube-controller-manager"),
        Change("kubectl certificate approve NAME"),
    ],
    recognize: |symptoms| {
        let open =
            symptoms.of_check(CheckId::K8sNodesCsrs, &[Reason::CsrPending, Reason::CsrDenied, Reason::CsrNotIssued]);
        let uncertified = |sign: Sign<'_>| {
            let missing: Vec<_> =
                symptoms.about(sign.target).filter(|it| it.problem.reason == Reason::NodeNotRegistered).collect();
            let first = missing.first()?;
            let headline = format!(
                "{} has no Node: Kubernetes did not issue its kubelet's certificate: {}",
                first.target, sign.problem.observed
            );
            Some(Recognized::new(UNCERTIFIED.id, headline).rests_on(&sign).explains(missing.iter().copied()))
        };
        open.filter(Sign::is_root).filter_map(uncertified).collect()
    },
};

pub(super) const UNREGISTERED: Cause = Cause {
    id: "kubelet-not-registered",
    title: "a kubelet runs, but Kubernetes has no Node for its machine",
    impact: "no pod can run on this machine; the rest of the cluster is not affected",
    explain: "A kubelet that starts on a new machine shows Kubernetes its bootstrap token, requests a certificate with it, and registers \
the Node with that. Talos reports that the kubelet runs, but there is no Node.\n\n\
If no request for a certificate has arrived either, Kubernetes does not accept the token (`Unauthorized` in the log of the kubelet): \
`cluster.token` of the machine configuration is that of another cluster, or its Secret in kube-system is gone. Or the \
kubelet cannot reach the API server. A kubelet that keeps running after its Node was deleted looks the same: it registers \
only when it starts.",
    source: TALOS_TROUBLESHOOTING_KUBELET,
    remedy: &[
        Look("talosctl -n NODE logs kubelet"),
        Look("talosctl -n NODE get kubeprismendpoints"),
        Do("Compare `cluster.token` of its machine configuration with that of a machine that has joined."),
        Change("talosctl -n NODE service kubelet restart"),
    ],
    recognize: |symptoms| {
        let signs = symptoms.of_check(CheckId::K8sNodesRegistered, &[Reason::NodeNotRegistered]);
        let signs = signs.filter(|sign| symptoms.is_open(sign) && sign.is_root());
        signs.filter_map(|sign| unregistered(symptoms, &sign)).collect()
    },
};

fn unregistered(symptoms: &Symptoms<'_>, sign: &Sign<'_>) -> Option<Recognized> {
    let node = symptoms.node(sign.target)?;
    let kubelet = symptoms.service(sign.target, "kubelet")?;
    // If the machine uses another machine's name, the Node belongs to that machine.
    let own_name = node.talos.nodename.as_ref().ok()?.as_ref().is_none_or(|own| *own == node.name);
    if kubelet.state != "Running" || kubelet.healthy == Some(false) || !own_name {
        return None;
    }
    let requests = symptoms.snapshot.kubernetes.as_ref()?.signing_requests.as_ref();
    // An issued request may predate the machine's reinstallation, because Kubernetes keeps it for an hour.
    let is_its = |it: &SigningRequest| it.state != RequestState::Settled && it.node_name() == Some(&node.name);
    let (has, likely) = match requests.map(|all| all.iter().any(is_its)) {
        Ok(false) => (
            "neither a Node nor an open certificate request",
            "Kubernetes does not accept its bootstrap token, it cannot reach the API server, or its Node was deleted while it ran; its \
             log shows which",
        ),
        Ok(true) => ("no Node", "its Node was deleted while it ran, or it was refused; its log shows which"),
        Err(_) => (
            "no Node",
            "Kubernetes does not accept its bootstrap token, it cannot reach the API server, or its certificate request is pending \
             (as an administrator: `kubectl get csr`)",
        ),
    };
    let headline = format!("the kubelet of {} runs, but Kubernetes has {has} for it", sign.target);
    let mut recognized = Recognized::new(UNREGISTERED.id, headline).rests_on(sign);
    recognized.next.push(Hint::likely(likely));
    Some(recognized)
}

pub(super) const UNAPPROVED: Cause = Cause {
    id: "kubelet-certificate-unapproved",
    title: "a kubelet waits for its serving certificate, so it accepts no connections",
    impact: "no logs, exec or metrics for pods of the machine; the pods keep running",
    explain: "With `rotate-server-certificates` a kubelet requests the certificate of its own API from Kubernetes, which \
does not approve the request automatically. Until it is approved, Talos cannot read the static pods from the kubelet, and \
logs and \
metrics of the node's pods are not available. Everything else keeps running.\n\n\
Approve the request if you know this kubelet, and install an approver so that the next renewal is not missed.",
    source: KUBERNETES_TLS,
    remedy: &[
        Look("kubectl get csr"),
        Look("kubectl describe csr NAME"),
        Change("kubectl certificate approve NAME"),
        Do("Install an approver for kubelet serving certificates, or disable `rotate-server-certificates`."),
    ],
    recognize: |symptoms| {
        let pending = symptoms.of_check(CheckId::K8sNodesCsrs, &[Reason::CsrPending]);
        pending
            .filter_map(|sign| {
                // Without this consequence, a pending request is a warning that needs no explanation.
                let stale: Vec<_> =
                    symptoms.about(sign.target).filter(|it| it.problem.reason == Reason::StatusStale).collect();
                let first = stale.first()?;
                let headline = format!(
                    "{} waits for approval of its serving certificate, so its static pods cannot be read: {}",
                    first.target, sign.problem.observed
                );
                let diagnosis = Recognized::new(UNAPPROVED.id, headline).rests_on(&sign);
                let seen = diagnosis.sees(first.target.clone(), first.problem.observed.clone());
                // Talos reports the same problem about its kubelet, a minute later.
                let repeated = symptoms.about(sign.target).filter(|it| {
                    it.problem.reason == Reason::Diagnostic && it.problem.observed.starts_with("kubelet-csr:")
                });
                Some(seen.explains(stale.iter().copied()).explains(repeated))
            })
            .collect()
    },
};
