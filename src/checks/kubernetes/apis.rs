//! Aggregated APIs, which the API server forwards to a Service.

use crate::assess::Assessment;
use crate::checks::Check;
use crate::checks::gaps::{is_refused, listed, says_nothing};
use crate::model::{CheckId, Fact, Hint, Kind, Problem, Reason, Severity, Stage, Target, Verdict};

pub(in crate::checks) const APISERVICES: Check = Check {
    id: CheckId::K8sApiservices,
    stage: Stage::Nodes,
    summary: "every aggregated API is available",
    explain: "Reads the Available condition of each APIService that the API server forwards to a Service, such as \
v1beta1.metrics.k8s.io of metrics-server. APIServices without a Service are built into the API server and are skipped.\n\n\
An aggregated API that is not available fails every request to its group: `kubectl top`, the horizontal autoscaler. Discovery \
becomes slow or incomplete, and namespaces stay in Terminating because not everything in them can be listed. It is a warning, \
because nodes and control plane do not depend on it.\n\n\
The reason and the message of the condition name the cause. MissingEndpoints and ServiceNotFound point to the Service and its \
pods. FailedDiscoveryCheck means that the API server cannot connect to the Service, usually because of the pod network or a \
certificate.\n\n\
The check is skipped if the credentials cannot list apiservices.",
    severity: Severity::Warn,
    finds: &[Reason::ApiserviceUnavailable],
    facts: &[Fact::TalosNodes, Fact::KubeNodes, Fact::ApiServices],
    judge: apiservices,
};

fn apiservices(cluster: &Assessment<'_>) -> Verdict {
    let expected = "the list of APIServices";
    let services = match listed(cluster, |kubernetes| &kubernetes.api_services, expected) {
        // The API server registers its own APIs, so the list is never empty.
        Ok(services) if services.is_empty() => return Verdict::whole(says_nothing(expected, "an empty list")),
        Ok(services) => services,
        Err(outcome) if is_refused(cluster, &outcome, |kubernetes| &kubernetes.api_services) => {
            return Verdict::skipped("the credentials cannot list apiservices");
        }
        Err(outcome) => return Verdict::whole(outcome),
    };
    let mut verdict = Verdict::default();
    for service in services.iter().filter(|service| service.service.is_some()) {
        let target = Target::new(Kind::ApiService, service.name.as_str());
        let observed = match &service.available {
            Some(_) if service.is_available() => {
                verdict.ok(target);
                continue;
            }
            Some(available) => available.told_as(&available.status),
            None => "there is no such condition".to_owned(),
        };
        let problem = Problem::warn(Reason::ApiserviceUnavailable, "condition Available is True", observed)
            .hint(Hint::run("{kubectl} describe apiservice {}", [&service.name]));
        verdict.problem(target, problem);
    }
    if verdict.findings.is_empty() {
        verdict.ok(Target::cluster());
    }
    verdict
}
