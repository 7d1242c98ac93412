//! The API servers, the endpoint in front of them, and the other components.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::symptoms::{Sign, first_names};
use super::{Cause, Recognized, Symptoms};
use crate::assess::components::Component;
use crate::assess::servers::is_ready;
use crate::assess::workloads::describe_unready;
use crate::checks::is_of_dns;
use crate::model::reason::sources::{
    KUBERNETES_CLUSTER, KUBERNETES_DNS, KUBERNETES_PODS, TALOS_TROUBLESHOOTING_CONTROL_PLANE,
    TALOS_TROUBLESHOOTING_KUBERNETES_API,
};
use crate::model::{CheckId, Hint, Kind, Reason, Severity, Step, Target};
use crate::snapshot::{Gap, GapKind, Kubernetes, Node, Pod, Snapshot};
use crate::text::{excerpt, host};

use Step::{Change, Do, Look};

pub(super) const BALANCER: Cause = Cause {
    id: "load-balancer-down",
    title: "the API servers are healthy, but the endpoint in front of them is not",
    impact: "clients of this endpoint have no Kubernetes API: kubectl, and kubelets without KubePrism; running pods keep running",
    explain: "API servers are ready at their own addresses. The common endpoint that kubelets and users connect to does not \
answer. A load balancer is down or has no backends, no node holds the virtual IP, or a DNS name resolves to another address.\n\n\
Kubernetes itself needs no repair, and nothing should be restarted. New nodes cannot join and clients see an outage until the \
endpoint is back.",
    source: TALOS_TROUBLESHOOTING_KUBERNETES_API,
    remedy: &[
        Look("kubectl get --raw '/readyz?verbose'"),
        Look("talosctl -n CP1,CP2,CP3 get addresses"),
        Do(
            "Check the backends and health checks of the load balancer, which node holds the virtual IP, and what the name resolves to.",
        ),
    ],
    recognize: |symptoms| {
        let signs = symptoms.of_check(CheckId::K8sApiEndpoint, Reason::ALL);
        let control_plane = symptoms.snapshot.control_planes().find(|node| node.talos.contact.is_ok());
        signs
            .filter_map(|sign| {
                let although = match sign.problem.reason {
                    Reason::EndpointDownServersReady => String::new(),
                    _ => closed_beside_servers(symptoms.snapshot)?,
                };
                let headline = format!("the endpoint {} is down{although}: {}", sign.target, sign.problem.observed);
                let diagnosis = Recognized::new(BALANCER.id, headline).rests_on(&sign);
                Some(match control_plane {
                    Some(node) => diagnosis.then(Hint::run("{talosctl} -n {} get addresses", [node.address.as_str()])),
                    None => diagnosis,
                })
            })
            .collect()
    },
};

/// Returns `, although 2 of 3 API servers are ready` if the endpoint refuses connections and its address is known to be no machine's. A balancer
/// without a working server closes connections that it has accepted, and a virtual IP leads to the machine that holds it.
fn closed_beside_servers(snapshot: &Snapshot) -> Option<String> {
    use GapKind::{ConnectTimedOut, ConnectionRefused, NoRoute};
    let kubernetes = snapshot.kubernetes.as_ref()?;
    let is_closed = |gap: &Gap| matches!(gap.kind, ConnectionRefused | NoRoute | ConnectTimedOut);
    // An endpoint without a name has one address.
    let server = host(&kubernetes.credentials.as_ref().ok()?.server).parse().ok();
    let addresses: Vec<IpAddr> = kubernetes.endpoint_addresses.iter().map(|(it, _)| it.ip()).chain(server).collect();
    // Only Talos reports who holds a virtual IP.
    let all_are_told = snapshot.control_planes().all(|node| node.talos.link_addresses.is_ok());
    let of_machines: BTreeSet<IpAddr> = snapshot.control_planes().flat_map(all_addresses).collect();
    let is_beside = all_are_told && !addresses.is_empty() && !addresses.iter().any(|it| of_machines.contains(it));
    let ready = kubernetes.servers.values().filter(|server| server.as_ref().is_ok_and(is_ready)).count();
    let are = if ready == 1 { "is" } else { "are" };
    (ready > 0 && is_beside && kubernetes.endpoint.as_ref().is_err_and(is_closed))
        .then(|| format!(", although {ready} of {} API servers {are} ready", kubernetes.servers.len()))
}

/// Returns all addresses of a machine, with the virtual IPs that it holds now.
fn all_addresses(node: &Node) -> impl Iterator<Item = IpAddr> {
    let links = node.talos.link_addresses.iter().flatten().map(|link| &link.address);
    let all = node.addresses.iter().chain(&node.own_addresses).chain(links);
    all.filter_map(|address| address.parse().ok())
}

pub(super) const PATH: Cause = Cause {
    id: "api-path-blocked",
    title: "the API servers run, but this runner cannot reach the Kubernetes endpoint",
    impact: "nothing about Kubernetes could be determined from here; others may reach a working API",
    explain: "Talos reports kube-apiserver running and ready on every control plane, but this runner can connect to none of \
them, neither through the endpoint nor at the machines' own addresses. The cause is most likely in between: a firewall or \
security group that does not let this runner through to port 6443, a load balancer without targets, or a virtual IP that no \
machine holds.\n\n\
A refused connection points to a firewall that rejects, or to a load balancer without targets; a timeout points to a \
firewall that drops packets.",
    source: TALOS_TROUBLESHOOTING_KUBERNETES_API,
    remedy: &[
        Look("nc -vz -w 5 ENDPOINT 6443"),
        Look("nc -vz -w 5 CP 6443"),
        Look("talosctl -n CP containers --kubernetes"),
        Do("Check the targets and health checks of the load balancer, and which control plane holds the virtual IP."),
        Do(
            "Allow this runner to reach port 6443 in the firewall or security group of the endpoint and of the control planes.",
        ),
    ],
    recognize: |symptoms| {
        let Some(kubernetes) = &symptoms.snapshot.kubernetes else { return Vec::new() };
        let is_no_way = |gap: &Gap| {
            use GapKind::{ConnectTimedOut, ConnectionRefused, NoRoute};
            matches!(gap.kind, ConnectTimedOut | ConnectionRefused | NoRoute)
        };
        let servers: Vec<_> = symptoms.snapshot.control_planes().collect();
        // There may have been no time left to query them.
        let is_unseen = |gap: &Gap| is_no_way(gap) || gap.kind == GapKind::NotAsked;
        let is_closed = kubernetes.endpoint.as_ref().is_err_and(is_no_way)
            && kubernetes.servers.values().all(|server| server.as_ref().is_err_and(is_unseen));
        let runs = |node: &&Node| {
            let mut statuses = node.talos.static_pod_statuses.iter().flatten();
            statuses.any(|it| Component::ApiServer.is_of(it, node) && it.state.ready == Some(true))
        };
        let all_run = !servers.is_empty() && servers.iter().all(runs);
        let is_doubted = symptoms.of_check(CheckId::K8sControlplaneApiserver, Reason::ALL).next().is_some();
        let of_endpoint: Vec<_> = symptoms.of_check(CheckId::K8sApiEndpoint, Reason::ALL).collect();
        let Some(sign) = of_endpoint.first().filter(|_| is_closed && all_run && !is_doubted) else { return Vec::new() };
        let all =
            if servers.len() == 1 { "the API server".to_owned() } else { format!("all {} API servers", servers.len()) };
        let url = sign.target.name.trim_start_matches("https://");
        let observed = excerpt::of(&sign.problem.observed);
        let headline = format!("Talos reports {all} running; this runner cannot reach {url}: {observed}");
        let (name, port) = (host(&sign.target.name), port(url));
        let recognized = Recognized::new(PATH.id, headline).sees(sign.target.clone(), sign.problem.observed.as_str());
        let recognized = recognized
            .explains(of_endpoint.iter().copied())
            .explains(symptoms.of_check(CheckId::K8sApiServers, Reason::ALL))
            .then(Hint::run("nc -vz -w 5 {} {}", [name, port]));
        let own = servers.iter().filter(|node| node.address != name).take(1);
        vec![own.fold(recognized, |it, node| {
            it.then(Hint::run("nc -vz -w 5 {} {}", [node.address.as_str(), &node.api_port.to_string()]))
                .then(Hint::run("{talosctl} -n {} containers --kubernetes", [node.address.as_str()]))
        })]
    },
};

/// Returns the port of `host:port`, or the default port of `https`.
fn port(authority: &str) -> &str {
    let authority = authority.split('/').next().unwrap_or_default();
    let last = authority.rsplit(':').next().unwrap_or_default();
    if last.bytes().all(|byte| byte.is_ascii_digit()) { last } else { "443" }
}

/// Returns why the lists of nodes and of everything else that was asked for did not arrive; `None` if any of them did.
pub(super) fn no_list_arrives(kubernetes: &Kubernetes) -> Option<Vec<&Gap>> {
    let lists = [
        kubernetes.nodes.as_ref().err(),
        kubernetes.pods.as_ref().err(),
        kubernetes.node_leases.as_ref().err(),
        kubernetes.daemon_sets.as_ref().err(),
        kubernetes.deployments.as_ref().err(),
    ];
    let lists = lists.into_iter().collect::<Option<Vec<&Gap>>>()?;
    let does_not_arrive = |gap: &Gap| matches!(gap.kind, GapKind::TimedOut | GapKind::Broken | GapKind::ServerError);
    let is_missing = |gap: &&Gap| does_not_arrive(gap) || gap.kind == GapKind::NotAsked;
    (does_not_arrive(lists[0]) && lists.iter().all(is_missing)).then_some(lists)
}

pub(super) const NO_LISTS: Cause = Cause {
    id: "api-lists-unanswered",
    title: "the Kubernetes API reports that it is ready, but its lists do not arrive",
    impact: "the cluster's objects can be neither read nor changed; running pods keep running",
    explain: "The endpoint answers `/readyz`, but every list of objects ran out of time or ended in an error. API servers read \
lists from their storage: etcd, or a database that stands in for it. If that hangs, the API server notices only after a while \
and reports itself ready until then.\n\n\
It can also be overloaded: then requests wait in its queues, and `/readyz` is exempt from them.",
    source: KUBERNETES_CLUSTER,
    remedy: &[
        Look("kubectl get --raw '/readyz?verbose'"),
        Do("If `etcd` is not ok there, look at the storage: the service or pod that runs it, its log, and its disk."),
        Do("Otherwise look at the log of the API server: requests may take too long or be held up in a queue."),
    ],
    recognize: |symptoms| {
        let Some(kubernetes) = &symptoms.snapshot.kubernetes else { return Vec::new() };
        let Some(lists) = no_list_arrives(kubernetes) else { return Vec::new() };
        // Lists that follow from etcd, which was asked itself.
        let of_etcd = symptoms.of_check(CheckId::EtcdQuorum, &[Reason::QuorumLost, Reason::QuorumUnproven]).next();
        if kubernetes.endpoint.is_err() || of_etcd.is_some() {
            return Vec::new();
        }
        let is_list = |sign: &Sign<'_>| {
            let is_of_api = sign.check.is_of_kubernetes() || sign.problem.reason == Reason::StorageUnproven;
            let is_unseen = sign.target.kind != Kind::Node && sign.problem.severity == Severity::Error;
            let is_missing = lists.iter().any(|gap| *gap.text == sign.problem.observed);
            is_of_api && is_unseen && is_missing && symptoms.is_open(sign)
        };
        let signs: Vec<_> = symptoms.all().filter(is_list).collect();
        let Some(first) = signs.first() else { return Vec::new() };
        let headline =
            format!("the Kubernetes API is ready, but none of its lists arrives: {}", excerpt::of(&lists[0].text));
        let recognized = Recognized::new(NO_LISTS.id, headline)
            .sees(first.target.clone(), lists[0].text.to_string())
            .then(Hint::run("{kubectl} get --raw '/readyz?verbose'", []));
        vec![recognized.explains(signs)]
    },
};

pub(super) const SERVER: Cause = Cause {
    id: "api-server-down",
    title: "the API server of a control plane does not work",
    impact: "requests that reach this API server fail, including those that a load balancer sends to it",
    explain: "The machine is up, but its API server does not answer, is frozen, or reports that it is not ready. A load \
balancer hides this as long as another server works; upgrading that one then causes an outage.\n\n\
A frozen server accepts connections but never answers, so TCP health checks report it as up. A server that is not ready lists \
the checks that fail: `etcd` means that it cannot reach its etcd.",
    source: TALOS_TROUBLESHOOTING_CONTROL_PLANE,
    remedy: &[
        Look("talosctl -n NODE containers --kubernetes"),
        Look("talosctl -n NODE service etcd"),
        Look("talosctl -n NODE logs --kubernetes kube-system/kube-apiserver-NODENAME:kube-apiserver"),
        Do("Fix what the log reports: a wrong `extraArgs`, etcd, or too little memory."),
    ],
    recognize: |symptoms| {
        use Reason::{ApiFrozen, ApiNotReady, ApiUnreachable, ConnectionRefused, ServerNotDirectlyReachable};
        let signs = symptoms.of_check(
            CheckId::K8sApiServers,
            &[ApiFrozen, ApiNotReady, ApiUnreachable, ConnectionRefused, ServerNotDirectlyReachable],
        );
        signs
            .filter(Sign::is_root)
            .map(|sign| {
                let how = if sign.problem.reason == ApiFrozen { "hangs" } else { "does not work" };
                let headline =
                    format!("the API server of {} {how}: {}", sign.target, excerpt::of(&sign.problem.observed));
                // The endpoint may lead to this very server.
                let endpoint = symptoms.of_check(CheckId::K8sApiEndpoint, &[ApiNotReady]);
                let same = endpoint.filter(|it| it.problem.observed == sign.problem.observed);
                Recognized::new(SERVER.id, headline).rests_on(&sign).explains(same)
            })
            .collect()
    },
};

pub(super) const NONE_WORKS: Cause = Cause {
    id: "no-api-server-works",
    title: "no API server works",
    impact: "the Kubernetes API is down: kubectl, kubelets and controllers get no answer; running pods keep running",
    explain: "The API server of every control plane crashes, hangs, or reports that it is not ready, although the machines \
answer and etcd is not the reason. Without a Kubernetes API nothing is scheduled and no controller acts; \
kube-controller-manager and kube-scheduler exit and are restarted until they reach one. Containers that run keep running.\n\n\
Settings that all API servers share come from the machine configuration of all control planes: `extraArgs`, certificates, an \
authentication or audit file, the address of etcd. The log of one API server shows which setting is wrong. Undo the last \
change on one control \
plane first.",
    source: TALOS_TROUBLESHOOTING_CONTROL_PLANE,
    remedy: &[
        Look("talosctl -n CP containers --kubernetes"),
        Look("talosctl -n CP logs --kubernetes kube-system/kube-apiserver-NODENAME:kube-apiserver"),
        Look("talosctl -n CP service etcd"),
        Do(
            "Fix what the log reports, on one control plane first: a wrong `extraArgs`, a certificate, too little memory.",
        ),
    ],
    recognize: |symptoms| {
        use Reason::{
            ApiFrozen, ApiNotReady, ApiUnreachable, ComponentMissing, ComponentNotReady, ConnectionRefused,
            CrashLooping, NoRoute, TimedOut,
        };
        let pods: &[Reason] = &[CrashLooping, ComponentNotReady, ComponentMissing];
        let servers: &[Reason] = &[ApiFrozen, ApiNotReady, ApiUnreachable, ConnectionRefused, NoRoute, TimedOut];
        let failing = symptoms.of_check(CheckId::K8sControlplaneApiserver, pods);
        let failing = failing.chain(symptoms.of_check(CheckId::K8sApiServers, servers));
        let failing = failing.filter(|it| it.problem.severity == Severity::Fail && it.target.kind == Kind::Node);
        let is_own = |it: &Sign<'_>| {
            let tells = match it.check {
                CheckId::K8sApiServers => matches!(it.problem.reason, ApiFrozen | ApiNotReady),
                _ => matches!(it.problem.reason, CrashLooping | ComponentNotReady),
            };
            tells && it.is_root() && symptoms.is_open(it)
        };
        // A server may also fail because its machine or its etcd does.
        let mut of_machines = symptoms.by_subject(failing);
        let mut signs: Vec<_> = of_machines.iter().flatten().copied().filter(is_own).collect();
        let is_reached = symptoms.of_check(CheckId::K8sApiEndpoint, Reason::ALL).next().is_none();
        // If no control plane is known, there is no evidence that all of them fail.
        if is_reached || signs.is_empty() || of_machines.len() != symptoms.snapshot.control_planes().count() {
            return Vec::new();
        }
        for signs in &mut of_machines {
            signs.sort_by_key(|sign| !is_own(sign));
        }
        let parts = of_machines.iter().map(|signs| (signs[0].target, how(&signs[0])));
        let mut alike: Vec<(Vec<&Target>, String)> = Vec::new();
        for (target, how) in parts {
            match alike.iter_mut().find(|(_, known)| *known == how) {
                Some((targets, _)) => targets.push(target),
                None => alike.push((vec![target], how)),
            }
        }
        let alike: Vec<_> =
            alike.into_iter().map(|(targets, how)| format!("{}: {how}", first_names(&targets, NAMES))).collect();
        // These components exit if they have no server to renew their lease with.
        signs.extend(symptoms.of_check(CheckId::K8sApiEndpoint, Reason::ALL));
        let clients = [CheckId::K8sControlplaneControllerManager, CheckId::K8sControlplaneScheduler];
        let clients = clients.into_iter().flat_map(|it| symptoms.of_check(it, &[CrashLooping, ComponentNotReady]));
        let headline = format!("no API server works: {}", alike.join("; "));
        let (own, others): (Vec<_>, Vec<_>) = of_machines.iter().map(|signs| signs[0]).partition(is_own);
        let recognized = Recognized::new(NONE_WORKS.id, headline).rests_on_all(&own);
        let recognized = others.iter().fold(recognized, |it, sign| {
            it.sees(sign.target.clone(), format!("{}: {}", sign.check, sign.problem.observed))
        });
        vec![recognized.explains(signs).explains(clients)]
    },
};

/// Maximum number of machines that a headline names for the same problem.
const NAMES: usize = 3;

/// Describes the problem of an API server, to be appended to its name.
fn how(sign: &Sign<'_>) -> String {
    let observed = &sign.problem.observed;
    match sign.problem.reason {
        Reason::CrashLooping => {
            format!("crash-looping, {}", excerpt::of(after_name(observed, Some("kube-apiserver"))))
        }
        _ => excerpt::of(observed),
    }
}

pub(super) const NO_CONTROLLER_MANAGER: Cause = Cause {
    id: "no-controller-manager-left",
    title: "no kube-controller-manager works",
    impact: "no instance is left to take over: nothing creates or replaces pods, and no certificate request is signed",
    explain: "kube-controller-manager fails on every control plane. Running pods keep running, but nothing else happens: \
pods that end are not replaced, endpoints are not updated, dead nodes keep their pods, and machines cannot join, because the \
certificate requests \
of their kubelets are neither approved nor signed.\n\n\
Settings that all instances share come from the machine configuration of all control planes: `extraArgs`, a certificate, a \
feature gate. The log of one instance shows which setting is wrong. Undo the last change on one control plane first.",
    source: TALOS_TROUBLESHOOTING_CONTROL_PLANE,
    remedy: &[
        Look("talosctl -n CP containers --kubernetes"),
        Look("kubectl -n kube-system logs POD --previous"),
        Do("Fix the arguments or the configuration that the log reports, on one control plane first."),
    ],
    recognize: |symptoms| {
        let ids = (NO_CONTROLLER_MANAGER.id, CheckId::K8sControlplaneControllerManager);
        let joins = |it: &Sign<'_>| it.problem.observed.contains("system:bootstrap:");
        let waiting: Vec<_> = symptoms.of(&[Reason::CsrPending]).filter(joins).collect();
        let is_waiting = !waiting.is_empty();
        let unregistered = symptoms.of(&[Reason::NodeNotRegistered]).filter(|_| is_waiting);
        let left = none_left(symptoms, ids, "kube-controller-manager");
        let unsigned = || symptoms.of(&[Reason::CsrNotIssued]);
        left.map(|it| it.explains(waiting).explains(unregistered).explains(unsigned())).into_iter().collect()
    },
};

pub(super) const NO_SCHEDULER: Cause = Cause {
    id: "no-scheduler-left",
    title: "no kube-scheduler works",
    impact: "no instance is left to take over: new pods get no node; running pods keep running",
    explain: "kube-scheduler fails on every control plane. Pods that have a node keep running; a new or replaced pod stays Pending \
without one.\n\n\
Settings that all instances share come from the machine configuration of all control planes: `extraArgs`, a scheduler \
configuration, a feature gate. The log of one instance shows which setting is wrong. Undo the last change on one control \
plane first.",
    recognize: |symptoms| {
        let ids = (NO_SCHEDULER.id, CheckId::K8sControlplaneScheduler);
        none_left(symptoms, ids, "kube-scheduler").into_iter().collect()
    },
    ..NO_CONTROLLER_MANAGER
};

/// Recognizes a component that fails on every control plane. If no control plane is known, there is no evidence for
/// that.
fn none_left(symptoms: &Symptoms<'_>, (cause, check): (&'static str, CheckId), component: &str) -> Option<Recognized> {
    let fails = symptoms.of_check(check, &[Reason::CrashLooping, Reason::ComponentNotReady]);
    let signs: Vec<_> = fails.filter(|it| it.is_root() && symptoms.is_open(it)).collect();
    let of_machines = symptoms.by_subject(signs.iter().copied());
    let led: Vec<_> = symptoms.of(&[Reason::NotLeading]).filter(|it| it.target.name.ends_with(component)).collect();
    let all = symptoms.snapshot.control_planes().count();
    // On other control planes its state is unknown, but none of them leads.
    let is_nowhere = !led.is_empty() && !symptoms.passed_somewhere(check);
    if signs.is_empty() || (of_machines.len() != all && !is_nowhere) {
        return None;
    }
    let crash = of_machines.iter().all(|signs| signs[0].problem.reason == Reason::CrashLooping);
    let how = if crash { "is crash-looping" } else { "does not work" };
    let whom = match of_machines.len() {
        1 if all == 1 => "on the only control plane".to_owned(),
        number if number == all => format!("on all {number} control planes"),
        number => format!("on {number} of {all} control planes, and no other instance leads"),
    };
    let words = excerpt::of(after_name(&of_machines[0][0].problem.observed, Some(component)));
    let headline = format!("{component} {how} {whom}: {words}");
    let evidence: Vec<_> = of_machines.iter().map(|signs| signs[0]).collect();
    let recognized = Recognized::new(cause, headline).rests_on_all(&evidence).explains(signs).explains(led);
    // The reason for the failure is in the component's log, which an API server has to provide.
    let pod = format!("{component}-{}", evidence[0].target.name);
    Some(logs(symptoms, &pod).into_iter().fold(recognized, Recognized::then))
}

/// Returns the command for the log of a static pod's last run. An API server has to provide it.
fn logs(symptoms: &Symptoms<'_>, pod: &str) -> Option<Hint> {
    let pods = symptoms.snapshot.kubernetes.as_ref()?.pods.as_ref().ok()?;
    let namespace = pods.iter().find(|it| it.name == pod).map_or("kube-system", |it| &it.namespace);
    Some(Hint::run("{kubectl} -n {} logs {} --previous", [namespace, pod]))
}

pub(super) const CRASHES: Cause = Cause {
    id: "component-crash-looping",
    title: "a component is crash-looping",
    impact: "this instance does no work",
    explain: "A container exits with an error, is restarted, and exits again. Kubernetes shows its pod as Running most of the \
time. The exit code and the last log lines show why. 137 means that it was killed: by the kernel for lack of memory, or by the kubelet after a failed probe. 1 \
and 2 usually mean invalid arguments or files.\n\n\
For a control plane component on one node alone, compare its `extraArgs` in the machine configuration with those of the \
others.",
    source: KUBERNETES_PODS,
    remedy: &[
        Look("talosctl -n NODE containers --kubernetes"),
        Look("talosctl -n NODE logs --kubernetes CONTAINER-ID"),
        Look("kubectl -n kube-system logs POD --previous"),
        Do("Fix the arguments or the configuration that the log reports."),
    ],
    recognize: |symptoms| {
        let signs = symptoms.of(&[Reason::CrashLooping]).filter(Sign::is_root);
        signs
            .map(|sign| {
                let component = match sign.check {
                    CheckId::K8sControlplaneApiserver => Some("kube-apiserver"),
                    CheckId::K8sControlplaneControllerManager => Some("kube-controller-manager"),
                    CheckId::K8sControlplaneScheduler => Some("kube-scheduler"),
                    _ => None,
                };
                let impact = component.map(|component| match component {
                    "kube-apiserver" => SERVER.impact,
                    _ => "this instance does no work; one on another control plane takes over",
                });
                let on_node = |component| format!("{component} on {}", sign.target);
                let what = component.map_or_else(|| sign.target.to_string(), on_node);
                let words = after_name(&sign.problem.observed, component);
                let headline = format!("{what} is crash-looping: {}", excerpt::of(words));
                // The reason for the crash is in the component's log.
                let logs = |diagnosis: Recognized, pod: &str| {
                    logs(symptoms, pod).into_iter().fold(diagnosis, Recognized::then)
                };
                let is_server = sign.check == CheckId::K8sControlplaneApiserver;
                let endpoint =
                    symptoms.about(sign.target).filter(|it| is_server && it.check == CheckId::K8sApiEndpoint);
                let diagnosis = Recognized::new(CRASHES.id, headline).with_impact(impact).explains(endpoint);
                match symptoms.machine(sign.target) {
                    Some(node) if node.talos.contact.is_ok() => {
                        let pods = component.map(|component| format!("{component}-{}", sign.target.name));
                        let containers = Hint::run("{talosctl} -n {} containers --kubernetes", [node.address.as_str()]);
                        let diagnosis = pods.iter().fold(diagnosis, |diagnosis, pod| logs(diagnosis, pod));
                        diagnosis.rests_on(&sign).then(containers)
                    }
                    _ if sign.target.kind == Kind::Pod => logs(diagnosis, &sign.target.name).rests_on(&sign),
                    _ => diagnosis.rests_on(&sign),
                }
            })
            .collect()
    },
};

/// Removes the parts of `container kube-scheduler: CrashLoopBackOff, exit code 1` that the headline already contains.
fn after_name<'a>(observed: &'a str, container: Option<&str>) -> &'a str {
    let words = observed
        .strip_prefix("container ")
        .and_then(|it| it.split_once(": "))
        .filter(|(name, _)| Some(*name) == container);
    let words = words.map_or(observed, |(_, words)| words);
    words.strip_prefix("CrashLoopBackOff, ").unwrap_or(words)
}

pub(super) const DNS_OFF: Cause = Cause {
    id: "dns-switched-off",
    title: "cluster DNS is scaled to zero",
    impact: "no pod can resolve names",
    explain: "DNS is enabled in the machine configuration, but its Deployment has 0 replicas. It was scaled down, for \
maintenance or by a script, and not scaled up again. Until then, no pod can resolve names.\n\n\
If another DNS server replaces it, disable CoreDNS in the machine configuration; the check then passes.",
    source: KUBERNETES_DNS,
    remedy: &[
        Look("kubectl -n kube-system get deployments -l k8s-app=kube-dns"),
        Change("kubectl -n kube-system scale deployment coredns --replicas=2"),
    ],
    recognize: |symptoms| {
        let signs = symptoms.of(&[Reason::DnsScaledToZero]);
        signs
            .map(|sign| {
                let headline = format!("cluster DNS is scaled to zero: {}", sign.problem.observed);
                Recognized::new(DNS_OFF.id, headline)
                    .rests_on(&sign)
                    .then(Hint::run("{kubectl} -n kube-system get deployments -l k8s-app=kube-dns", []))
            })
            .collect()
    },
};

pub(super) const DNS_CRASHES: Cause = Cause {
    id: "dns-crash-looping",
    title: "cluster DNS is crash-looping",
    impact: "no pod can resolve names",
    explain: "No pod of cluster DNS is ready, and the existing ones exit with an error soon after each start. Until one of \
them stays up, no pod in the cluster can resolve names.\n\n\
The last log lines show why: an invalid Corefile (ConfigMap `coredns`), a forwarding loop through the node's resolver, or an \
API server that it cannot reach. Exit code 137 means that it was killed: by the kernel for lack of memory, or by the kubelet after a failed probe.",
    source: KUBERNETES_DNS,
    remedy: &[
        Look("kubectl -n kube-system logs -l k8s-app=kube-dns --previous"),
        Look("kubectl -n kube-system get configmap coredns -o yaml"),
        Do("Fix what the log reports, then restart the pods:"),
        Change("kubectl -n kube-system rollout restart deployment coredns"),
    ],
    recognize: |symptoms| {
        let signs = symptoms.of_check(CheckId::K8sDns, &[Reason::DnsNoEndpoints]);
        let pods = crashing_dns(symptoms.snapshot);
        let Some((first, words)) = pods.first() else { return Vec::new() };
        let more = match pods.len() - 1 {
            0 => String::new(),
            more => format!(", and {more} more"),
        };
        signs
            .filter(|sign| sign.is_root() && symptoms.is_open(sign))
            .map(|sign| {
                let headline = format!(
                    "cluster DNS is crash-looping: {}: {}{more}",
                    first.name,
                    excerpt::of(after_name(words, Some("coredns")))
                );
                Recognized::new(DNS_CRASHES.id, headline)
                    .then(Hint::run("{kubectl} -n {} logs {} --previous", [&first.namespace, &first.name]))
                    .rests_on(&sign)
            })
            .collect()
    },
};

/// Returns the crash-looping pods of cluster DNS, each with a description.
fn crashing_dns(snapshot: &Snapshot) -> Vec<(&Pod, String)> {
    let pods = snapshot.kubernetes.iter().flat_map(Kubernetes::all_pods);
    let crashes =
        |pod: &Pod| describe_unready(&pod.state, snapshot.server_time()).filter(|trouble| trouble.crash_looping);
    pods.filter(|pod| is_of_dns(pod)).filter_map(|pod| Some((pod, crashes(pod)?.words))).collect()
}
