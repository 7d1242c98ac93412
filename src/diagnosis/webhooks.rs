//! Admission webhooks without a backend, as a cause and as a consequence.

use std::borrow::Cow;

use super::kubelets::KUBELET;
use super::nodes::{DOWN, HANGS};
use super::symptoms::Sign;
use super::{Cause, Explained, Recognized, Symptoms};
use crate::model::reason::sources::KUBERNETES_WEBHOOKS;
use crate::model::{About, CheckId, Reason, Severity, Step};

use Step::{Change, Do, Look};

pub(super) const WEBHOOK: Cause = Cause {
    id: "webhook-refuses-writes",
    title: "an admission webhook without a backend refuses what the cluster has to write",
    impact: "no new pod starts, or kubelets and leaders cannot report, on any node; running pods keep running",
    explain: "The webhook fails closed, so the API server refuses every request that the webhook would have to admit, and nothing serves it. It \
concerns pods, nodes, leases or tokens, which Kubernetes itself writes: pods that end are not replaced, not even the webhook's own.\n\n\
If its pods run, the Service or its endpoints are wrong. If they cannot start because of their own webhook, set its failurePolicy to \
Ignore, or delete its configuration; its controller creates it again.",
    source: KUBERNETES_WEBHOOKS,
    remedy: &[
        Look("kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations"),
        Look("kubectl -n NAMESPACE get pods,endpointslices -o wide"),
        Do("Repair the backend of the webhook."),
        Do("If it cannot start because of its own webhook, delete the configuration; its controller creates it again:"),
        Change("kubectl delete validatingwebhookconfiguration NAME"),
    ],
    recognize: |symptoms| {
        let signs = symptoms.of_check(CheckId::K8sWebhooks, &[Reason::WebhookUnavailable]);
        let stops =
            |sign: &Sign<'_>| sign.problem.severity == Severity::Fail && sign.is_root() && symptoms.is_open(sign);
        let recognized = |sign: Sign<'_>| {
            let headline = format!("{} refuses what the cluster has to write: {}", sign.target, sign.problem.observed);
            Recognized::new(WEBHOOK.id, headline).rests_on(&sign)
        };
        signs.filter(stops).map(recognized).collect()
    },
};

/// Names the webhooks that another cause leaves without a backend: until they are back or deleted, Kubernetes repairs nothing on its own.
pub(super) fn with_webhooks(symptoms: &Symptoms<'_>, recognized: Recognized, explains: &[Explained]) -> Recognized {
    let refuses = |it: &&Sign<'_>| matches!(it.problem.about, Some(About::Refuses(_)));
    let is_its = |it: &&Sign<'_>| explains.iter().any(|its| (its.check, &its.target) == (it.check, it.target));
    let all: Vec<Sign<'_>> = symptoms.of_check(CheckId::K8sWebhooks, &[Reason::WebhookUnavailable]).collect();
    let webhooks: Vec<&Sign<'_>> = all.iter().filter(refuses).filter(is_its).collect();
    let Some(first) = webhooks.first().filter(|_| recognized.id != WEBHOOK.id) else { return recognized };
    let others = webhooks.len() - 1;
    let more = if others == 0 { String::new() } else { format!(" (and {others} more)") };
    let headline = format!(
        "{}; {}{more} has no backend left and refuses what the cluster has to write",
        recognized.headline, first.target
    );
    let with_own = || format!("{}; {}", recognized.impact(), WEBHOOK.impact).into();
    let impact = while_pods_are_refused(recognized.id).map_or_else(with_own, Cow::Borrowed);
    let recognized = Recognized { headline, impact: Some(impact), ..recognized };
    webhooks.into_iter().fold(recognized, |it, sign| {
        let seen = it.sees(sign.target.clone(), sign.problem.observed.as_str());
        sign.problem.hints.iter().cloned().fold(seen, Recognized::then)
    })
}

/// Returns the impact of a cause that otherwise promises that Kubernetes replaces the pods.
pub(super) fn while_pods_are_refused(cause: &str) -> Option<&'static str> {
    Some(match cause {
        id if id == DOWN.id => {
            "if the machine is down, so are its pods; Kubernetes cannot replace them or any others while the webhook refuses its requests"
        }
        id if id == HANGS.id => {
            "Talos cannot manage the machine; if all of it hangs, its pods are down, and Kubernetes cannot replace them or any others while the webhook refuses its requests"
        }
        id if id == KUBELET.id => {
            "no pod is started, stopped or reported on the machine; running containers keep running, but Kubernetes cannot replace pods while the webhook refuses its requests"
        }
        _ => return None,
    })
}
