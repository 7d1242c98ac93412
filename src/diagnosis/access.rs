//! Access problems: credentials, endpoints, roles, and machines without a configuration.

use super::symptoms::{Sign, names};
use super::{Cause, Recognized, Symptoms};
use crate::model::Role;
use crate::model::reason::sources::{
    ETCD_ACCESS, KUBERNETES_KUBECONFIG, KUBERNETES_RBAC, TALOS_ENDPOINTS, TALOS_GETTING_STARTED, TALOS_PKI, TALOS_RBAC,
    TALOS_TROUBLESHOOTING_API,
};
use crate::model::{About, CheckId, Hint, Kind, Reason, Step};
use crate::snapshot::{GapKind, Node, Talos, Upgrade, own_role};

use Step::{Change, Do, Look};

pub(super) const CREDENTIALS_EXPIRED: Cause = Cause {
    id: "credentials-expired",
    title: "the client certificate of this run has expired",
    impact: "nothing of the cluster was seen; it may be healthy",
    explain: "Client certificates of Talos and of `talosctl kubeconfig` are valid for a year by default, and nothing renews \
the copy that a pipeline keeps. Servers reject an expired certificate, so no request was sent to the cluster. The cluster \
itself may be healthy.\n\n\
The problem is the file, not the cluster, and waiting does not help.",
    source: TALOS_PKI,
    remedy: &[
        Look("talosctl config info"),
        Do("With an administrator's talosconfig, make a new one for this run:"),
        Change("talosctl -n CP config new --roles os:reader --crt-ttl 8760h new-talosconfig"),
        Do("Without one, generate an administrator's talosconfig from the secrets of the cluster:"),
        Change("talosctl gen config --with-secrets secrets.yaml --output-types talosconfig NAME ENDPOINT"),
        Do("An administrator can issue a new kubeconfig:"),
        Change("talosctl -n CP kubeconfig --force"),
    ],
    recognize: credentials_expired,
};

fn credentials_expired(symptoms: &Symptoms<'_>) -> Vec<Recognized> {
    let expired = symptoms
        .of(&[Reason::CertificateExpired, Reason::ServiceKeyExpired])
        .filter(|sign| sign.target.kind == Kind::Credentials);
    expired
        .map(|sign| {
            let talos = sign.check == CheckId::TalosCredentials;
            let unseen = if talos { "the cluster" } else { "Kubernetes" };
            let of_omni = sign.problem.reason == Reason::ServiceKeyExpired;
            let what = if of_omni { "the key" } else { "the client certificate" };
            let (name, observed) = (&sign.target.name, &sign.problem.observed);
            let whose = match sign.problem.about {
                Some(About::Authority) => format!("{name}:"),
                _ => format!("{what} in {name}"),
            };
            let headline = format!("{whose} {observed}; {unseen} was not queried");
            let look = match (of_omni, talos) {
                (true, _) => "omnictl serviceaccount list",
                (false, true) => "{talosctl} config info",
                (false, false) => "{kubectl} config view --minify",
            };
            Recognized::new(CREDENTIALS_EXPIRED.id, headline).rests_on(&sign).then(Hint::run(look, []))
        })
        .collect()
}

pub(super) const OTHER_TALOSCONFIG: Cause = Cause {
    id: "talosconfig-of-another-cluster",
    title: "the talosconfig and its endpoints belong to different clusters",
    impact: "nothing of this cluster was seen; it may be healthy",
    explain: "Every endpoint of the talosconfig answers with a certificate that is signed by another CA. Each cluster has its \
own CA, so these machines belong to a different cluster than the file, or the cluster was rebuilt with new secrets and the \
file is still the old one.\n\n\
Machines without a configuration also present a certificate of their own; they are recognized by a request without \
credentials.",
    source: TALOS_TROUBLESHOOTING_API,
    remedy: &[
        Look("talosctl config contexts"),
        Look("talosctl config info"),
        Do("Select the context that belongs to these endpoints with `--context`, or the file with `--talosconfig`."),
        Do("If the secrets were regenerated, have an administrator of the current cluster make a new talosconfig:"),
        Change("talosctl -n CP config new --roles os:reader --crt-ttl 8760h new-talosconfig"),
    ],
    recognize: other_talosconfig,
};

fn other_talosconfig(symptoms: &Symptoms<'_>) -> Vec<Recognized> {
    // Omni's CA is not evidence about a cluster.
    let of_machines = |talos: &&Talos| talos.credentials.as_ref().is_ok_and(|it| it.account.is_none());
    let Some(talos) = symptoms.snapshot.talos.as_ref().filter(of_machines) else { return Vec::new() };
    let foreign =
        talos.endpoints.iter().filter(|it| it.version.as_ref().is_err_and(|gap| gap.kind == GapKind::UnknownCa));
    let signs: Vec<_> = symptoms.of_check(CheckId::TalosEndpoints, &[Reason::UnknownCa]).collect();
    let endpoints = talos.endpoints.len();
    if signs.is_empty() || foreign.count() < endpoints {
        return Vec::new();
    }
    let context = talos.credentials.as_ref().map_or("", |credentials| credentials.context.as_str());
    let headline = format!(
        "context `{context}` belongs to another cluster: the certificates of all {endpoints} endpoints are signed by another CA"
    );
    let diagnosis = Recognized::new(OTHER_TALOSCONFIG.id, headline).then(Hint::run("{talosctl} config contexts", []));
    vec![diagnosis.rests_on_all(&signs)]
}

pub(super) const OTHER_KUBECONFIG: Cause = Cause {
    id: "kubeconfig-of-another-cluster",
    title: "the kubeconfig belongs to a different cluster than the talosconfig",
    impact: "everything that Kubernetes reported is about another cluster; this one may be healthy",
    explain: "The machines that answer the Talos API are not among the nodes that Kubernetes lists, so the two files belong to \
different clusters. What Kubernetes reported is about the other cluster and was ignored.\n\n\
This happens when a kubeconfig has several clusters and the current context is another one, or when a node was moved between \
clusters.",
    source: KUBERNETES_KUBECONFIG,
    remedy: &[
        Look("kubectl config get-contexts"),
        Look("talosctl config info"),
        Do("Select matching contexts with `--context` and `--kube-context`."),
        Do("An administrator can fetch the kubeconfig of the Talos cluster:"),
        Change("talosctl -n CP kubeconfig"),
    ],
    recognize: |symptoms| {
        let signs = symptoms.of(&[Reason::WrongCluster]);
        signs
            .map(|sign| {
                let headline =
                    format!("kubeconfig and talosconfig belong to different clusters ({})", sign.problem.observed);
                Recognized::new(OTHER_KUBECONFIG.id, headline)
                    .rests_on(&sign)
                    .then(Hint::run("{kubectl} get nodes -o wide", []))
                    .then(Hint::run("{talosctl} config info", []))
            })
            .collect()
    },
};

pub(super) const WORKER_ENDPOINT: Cause = Cause {
    id: "worker-as-endpoint",
    title: "the talosconfig names workers as endpoints",
    impact: "the machines behind these endpoints were not seen; they may be healthy",
    explain: "Clients send every request to an endpoint, which forwards it to the target node. Only control planes forward \
requests. With a worker among the endpoints, requests fail whenever a client happens to pick it; with only workers, always.\n\n\
The worker itself is healthy: change the list of endpoints.",
    source: TALOS_ENDPOINTS,
    remedy: &[
        Look("talosctl config info"),
        Do("Set the endpoints to the addresses of control planes, or to a load balancer in front of them:"),
        Change("talosctl config endpoint CP1 CP2 CP3"),
    ],
    recognize: worker_endpoint,
};

fn worker_endpoint(symptoms: &Symptoms<'_>) -> Vec<Recognized> {
    let signs: Vec<_> = symptoms.of_check(CheckId::TalosEndpoints, &[Reason::EndpointIsWorker]).collect();
    let Some(talos) = symptoms.snapshot.talos.as_ref().filter(|_| !signs.is_empty()) else { return Vec::new() };
    let headline = format!(
        "{} of {} Talos endpoints {} ({}), which cannot forward requests; use control planes",
        signs.len(),
        talos.endpoints.len(),
        if signs.len() == 1 { "is a worker" } else { "are workers" },
        names(signs.iter().map(|sign| sign.target))
    );
    let mut diagnosis = Recognized::new(WORKER_ENDPOINT.id, headline)
        .rests_on_all(&signs)
        .then(Hint::run("{talosctl} config info", []));
    // The proposed endpoints are all machines that proved to be control planes, because a single endpoint would be the next problem. The
    // command names the file and the context in use, which other remedies leave out.
    let is_control_plane = |node: &&Node| own_role(&node.talos.machine_type) == Role::ControlPlane && !node.leaving;
    let control_planes = symptoms.snapshot.nodes.iter().filter(is_control_plane);
    let addresses: Vec<String> = control_planes.map(|node| node.address.clone()).collect();
    if let Ok(used) = &talos.credentials
        && !addresses.is_empty()
    {
        diagnosis = diagnosis.then(Hint::Remedy {
            command: "talosctl --talosconfig {} --context {} config endpoint {*}",
            arguments: [vec![used.source.clone(), used.context.clone()], addresses].concat(),
        });
    }
    vec![diagnosis]
}

pub(super) const ROLE_INSUFFICIENT: Cause = Cause {
    id: "talos-role-insufficient",
    title: "the role in the talosconfig does not allow these requests",
    impact: "some checks could not run; the cluster may be healthy",
    explain: "Talos has refused requests because of the role in the client certificate. With Talos 1.9.6, 1.10.1 and later, \
the role os:reader is enough for everything except `--server`. Before that, the status and alarms of etcd need os:operator.\n\n\
What was refused could not be determined; it is not a failure.",
    source: TALOS_RBAC,
    remedy: &[
        Look("talosctl config info"),
        Do("Have an administrator make a talosconfig with the required role:"),
        Change("talosctl -n CP config new --roles os:reader --crt-ttl 8760h new-talosconfig"),
        Do("For Talos before 1.9.6, and for 1.10.0, with os:operator:"),
        Change("talosctl -n CP config new --roles os:operator --crt-ttl 8760h new-talosconfig"),
    ],
    recognize: role_insufficient,
};

fn role_insufficient(symptoms: &Symptoms<'_>) -> Vec<Recognized> {
    let signs: Vec<_> = symptoms.of(&[Reason::RoleTooLow, Reason::RoleTooLowForThisVersion]).collect();
    if signs.is_empty() {
        return Vec::new();
    }
    let credentials = symptoms.snapshot.talos.as_ref().and_then(|talos| talos.credentials.as_ref().ok());
    let roles =
        credentials.and_then(|it| it.certificate.as_ref()).map_or(String::new(), |it| it.organizations.join(", "));
    let role = if roles.is_empty() { "the talosconfig's role".to_owned() } else { format!("role {roles}") };
    let headline = format!("{role} is too low for {}: refused {} times", checks_of(&signs), signs.len());
    let needed = signs.iter().any(|sign| sign.problem.reason == Reason::RoleTooLowForThisVersion);
    let needed = if needed { "os:operator" } else { "os:reader" };
    let diagnosis = Recognized::new(ROLE_INSUFFICIENT.id, headline)
        .rests_on_all(&signs)
        .then(Hint::run("{talosctl} config info", []));
    vec![match symptoms.snapshot.control_planes().find(|node| node.talos.contact.is_ok()) {
        Some(node) => diagnosis.then(Hint::remedy(
            "{talosctl} -n {} config new --roles {} --crt-ttl 8760h {}",
            [node.address.as_str(), needed, "ci.yaml"],
        )),
        None => diagnosis,
    }]
}

pub(super) const KUBERNETES_RIGHTS: Cause = Cause {
    id: "kubernetes-rights-missing",
    title: "Kubernetes RBAC does not allow the kubeconfig's user these requests",
    impact: "some checks could not run; the cluster may be healthy",
    explain: "The API server has authenticated the user, but RBAC does not allow the request (403). What was refused could not \
be determined; it is not a failure. An API server that has just started may refuse every request for a minute; that is \
reported as such.\n\n\
`cluster-health rbac` prints a ClusterRole that is sufficient for every check.",
    source: KUBERNETES_RBAC,
    remedy: &[
        Look("kubectl auth can-i --list"),
        Do("Have an administrator apply the ClusterRole and bind it to this user:"),
        Change("cluster-health rbac | kubectl apply -f -"),
    ],
    recognize: |symptoms| {
        let signs: Vec<_> = symptoms.of(&[Reason::Forbidden]).collect();
        if signs.is_empty() {
            return Vec::new();
        }
        let headline = format!("Kubernetes RBAC does not allow this user what {} needs", checks_of(&signs));
        let look = Hint::run("{kubectl} auth can-i --list", []);
        // A role without the rights that only an upgrade needs would be refused again.
        let asked = &symptoms.snapshot.asked;
        let grant = match (asked.upgrade != Upgrade::default(), !asked.policy.require.is_empty()) {
            (false, false) => "cluster-health rbac | {kubectl} apply -f -",
            (true, false) => "cluster-health rbac --upgrade | {kubectl} apply -f -",
            (false, true) => "cluster-health rbac --policy FILE | {kubectl} apply -f -",
            (true, true) => "cluster-health rbac --upgrade --policy FILE | {kubectl} apply -f -",
        };
        vec![
            Recognized::new(KUBERNETES_RIGHTS.id, headline)
                .rests_on_all(&signs)
                .then(look)
                .then(Hint::remedy(grant, [])),
        ]
    },
};

pub(super) const ETCD_RIGHTS: Cause = Cause {
    id: "etcd-rights-missing",
    title: "etcd's own access control rejects the certificate of `--etcd-cert`",
    impact: "etcd was not seen; it may be healthy",
    explain: "The etcd of `--etcd-endpoints` was reached through TLS and then refused the request. Its authentication is \
enabled. The common name of the client certificate is the user, and that user does not exist in etcd or lacks the permission. \
Talos roles and Kubernetes RBAC are not involved.\n\n\
What was refused could not be determined; it is not a failure. Permission to read keys is not enough for requests about the \
cluster itself; the role `root` allows all of them.",
    source: ETCD_ACCESS,
    remedy: &[
        Look("openssl x509 -noout -subject -in CLIENT.crt"),
        Do("As an administrator of that etcd:"),
        Look("etcdctl user list"),
        Look("etcdctl user get USER"),
        Do("Pass `--etcd-cert` and `--etcd-key` of a user with this permission, such as one with the role `root`."),
    ],
    recognize: |symptoms| {
        let signs: Vec<_> = symptoms.of(&[Reason::EtcdAccessDenied]).collect();
        let Some(first) = signs.first() else { return Vec::new() };
        let observed = &first.problem.observed;
        let headline = format!("etcd's own access control does not allow what {} needs: {observed}", checks_of(&signs));
        vec![Recognized::new(ETCD_RIGHTS.id, headline).rests_on_all(&signs).then(Hint::run("{etcdctl} user list", []))]
    },
};

/// Lists the checks: `etcd.leader, etcd.alarms`
fn checks_of(signs: &[Sign<'_>]) -> String {
    let mut checks: Vec<&str> = signs.iter().map(|sign| sign.check.name()).collect();
    checks.dedup();
    checks.join(", ")
}

pub(super) const UNCONFIGURED: Cause = Cause {
    id: "machine-unconfigured",
    title: "a machine waits for its configuration (maintenance mode)",
    impact: "the machine takes no part in the cluster",
    explain: "The machine has booted Talos but has no machine configuration: it was never applied, or the machine was reset or \
reinstalled. It cannot join the cluster until it gets one.\n\n\
If it used to be a control plane, its old etcd member is still counted as a voter: remove that member before the machine joins \
again.",
    source: TALOS_GETTING_STARTED,
    remedy: &[
        Look("talosctl -n NODE get machinestatus --insecure"),
        Look("talosctl -n CP etcd members"),
        Do("If it was a control plane, and the list still has its member, remove that member first, by its ID."),
        Do("Apply the machine configuration for its role, generated from the secrets of this cluster:"),
        Change("talosctl apply-config --insecure -n NODE -f machine-config.yaml"),
    ],
    recognize: |symptoms| {
        let groups = symptoms.by_subject(symptoms.of(&[Reason::MaintenanceMode]));
        groups
            .iter()
            .map(|signs| {
                let target = signs.iter().find(|it| it.target.kind == Kind::Node).unwrap_or(&signs[0]).target;
                let headline = format!("{target} is in maintenance mode: it has no machine configuration");
                let diagnosis = Recognized::new(UNCONFIGURED.id, headline).rests_on_all(signs);
                let diagnosis = diagnosis.explains(super::nodes::consequences(symptoms, target));
                // The new machine would be mistaken for its own former etcd member, so that member has to be removed first.
                let voter = symptoms.machine(target).filter(|node| super::nodes::is_voter(symptoms, node));
                if voter.is_some() {
                    let others = symptoms.snapshot.control_planes().find(|node| node.talos.etcd_members.is_ok());
                    return match others {
                        Some(node) => {
                            diagnosis.then(Hint::run("{talosctl} -n {} etcd members", [node.address.as_str()]))
                        }
                        None => diagnosis,
                    };
                }
                match target.address.as_deref() {
                    Some(address) => diagnosis.then(Hint::remedy(
                        "talosctl apply-config --insecure -n {} -f {}",
                        [address, "machine-config.yaml"],
                    )),
                    None => diagnosis,
                }
            })
            .collect()
    },
};
