//! The facts of one round, as plain values.
//!
//! `observe` turns bytes into facts, and `checks` turns facts into verdicts. Nothing in this module depends on a client, a protobuf type or
//! a rule, so a judge can be tested with a literal, and a snapshot can be kept, compared and thrown away.

mod answers;
mod awaited;
mod etcd;
mod kube_nodes;
mod kubernetes;
pub(crate) mod logs;
mod memory;
mod missing;
mod observe;
mod policy;
mod require;
mod talos;

use std::borrow::Cow;
use std::collections::BTreeSet;

use jiff::Timestamp;

use crate::model::{CheckId, Kind, Role, Shared, Target};

#[cfg(test)]
pub(crate) use answers::Damage;
pub(crate) use awaited::{Awaited, Part, Progress};
pub(crate) use etcd::{AlarmKind, EtcdAlarm, EtcdEndpoint, EtcdMember, EtcdSpec, EtcdStatus, RaftProgress};
pub(crate) use kube_nodes::KubeNodes;
pub(crate) use kubernetes::*;
pub(crate) use memory::{Boot, Memory};
pub(crate) use missing::{Missing, Source};
pub(crate) use observe::{Observe, Patience, Suspects};
pub(crate) use policy::{Acceptance, Declared, ExcuseState, Policy, Thresholds};
pub(crate) use require::{
    Demand, FieldIs, Found, ObjectCondition, Objects, Place, Predicate, Replicas, Require, RequiredObject,
    RequiredObjects, Served,
};
pub(crate) use talos::*;

/// A requested fact: its value, or the reason why it is missing.
pub(crate) type Observed<T> = Result<T, Gap>;

/// Why a fact is missing. A gap is never evidence of health.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Gap {
    pub(crate) kind: GapKind,
    /// The cause in the words of its source, for people.
    pub(crate) text: Cow<'static, str>,
}

impl Gap {
    pub(crate) fn new(kind: GapKind, text: impl Into<Cow<'static, str>>) -> Self {
        Self { kind, text: text.into() }
    }

    /// Returns whether the endpoint reached the node but rejected its certificate. The text comes from Go's `crypto/tls`, relayed by apid.
    pub(crate) fn is_refused_certificate(&self) -> bool {
        self.kind == GapKind::NodeUnreachable && self.text.contains("tls: failed to verify certificate")
    }

    /// Returns whether the machine, or a firewall in front of it, refused the connection, so it is on. If an endpoint dialed the machine,
    /// the text comes from the kernel, relayed by apid.
    pub(crate) fn is_refused_connection(&self) -> bool {
        let by_endpoint = || self.kind == GapKind::NodeUnreachable && self.text.contains("connection refused");
        self.kind == GapKind::ConnectionRefused || by_endpoint()
    }

    /// Texts in which grpc-go, Go's resolver and Omni report that a name does not resolve to an address.
    pub(crate) const UNRESOLVED: [&str; 3] = ["name resolver error", "no such host", "resolve nodes"];

    /// Returns whether we or the endpoint could not resolve the name.
    pub(crate) fn is_unresolved_name(&self) -> bool {
        let by_endpoint = || Self::UNRESOLVED.iter().any(|words| self.text.contains(words));
        self.kind == GapKind::NameNotFound || self.kind == GapKind::NodeUnreachable && by_endpoint()
    }

    /// A gap for a fact that no selected check needs, or whose prerequisite was missing.
    pub(crate) fn not_asked() -> Self {
        Self::new(GapKind::NotAsked, "not requested")
    }
}

/// Kinds of gaps that at least one judge distinguishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum GapKind {
    /// Not requested in this round: the fact is not needed, or its source was already known to be unreachable.
    NotAsked,
    /// TCP connection refused (RST).
    ConnectionRefused,
    /// No route to host, network unreachable.
    NoRoute,
    /// Neither a connection nor a refusal within the call's deadline.
    ConnectTimedOut,
    /// Connected, but neither the TLS handshake nor the request was answered within the call's deadline, as with a frozen process.
    TimedOut,
    /// The hostname does not resolve.
    NameNotFound,
    /// The peer's certificate is not signed by the CA in our configuration.
    UnknownCa,
    /// The peer's certificate is not valid for the name or address that was dialed.
    NameNotInCertificate,
    /// The peer's certificate has expired or is not valid yet.
    PeerCertificateExpired,
    /// The peer refused our client certificate during or right after the TLS handshake.
    ClientCertificateRefused,
    /// The peer answered as a Talos node without a configuration (maintenance mode).
    Maintenance,
    /// No request was sent to the peer: its address comes from no source that a worker cannot forge and the request would carry credentials
    /// that the peer could use, or no source vouches for the peer.
    Untrusted,
    /// A proxy between us and the peer refused or failed.
    Proxy,
    /// The connection was closed or reset, or the peer spoke something other than TLS or HTTP/2.
    Broken,
    /// The endpoint works, but could not reach the node that the request is for.
    NodeUnreachable,
    /// A worker was used as an endpoint; workers do not forward requests.
    NoForwarding,
    /// The role of the credentials does not allow the call (Talos), or RBAC forbids it (Kubernetes 403).
    Forbidden,
    /// The credentials were not accepted (Kubernetes 401, gRPC Unauthenticated).
    Unauthenticated,
    /// Omni did not accept the signature of the service account.
    SignatureRefused,
    /// This version of Talos supports neither the call nor the resource type.
    Unsupported,
    /// Kubernetes answered 429.
    Throttled,
    /// The server answered with an error of its own (HTTP 5xx, gRPC Internal, Unknown, …).
    ServerError,
    /// The answer or the file could not be parsed.
    Malformed,
    /// The exec plugin of the kubeconfig failed, or its answer cannot be used.
    PluginFailed,
    /// The file does not contain this context.
    ContextUnknown,
    /// The file disables verification of the server, or would send credentials unencrypted.
    Insecure,
    /// The answer is longer than the limit.
    TooLarge,
}

/// Everything that one round observed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Snapshot {
    /// The runner's wall clock when the round began.
    pub(crate) taken: Timestamp,
    /// The user's request, as far as judges need it.
    pub(crate) asked: Asked,
    /// `None` with `--no-talos`.
    pub(crate) talos: Option<Talos>,
    /// `None` with `--no-kubernetes`.
    pub(crate) kubernetes: Option<Kubernetes>,
    /// etcd as seen through its own API, by endpoint; `None` without `--etcd-endpoints`.
    pub(crate) external_etcd: Option<Vec<EtcdEndpoint>>,
    /// The population: every machine that any source names, sorted by name.
    pub(crate) nodes: Vec<Node>,
    /// Observations of earlier rounds of this run.
    pub(crate) memory: Memory,
}

/// The part of the plan that judges read.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Asked {
    /// `--nodes` as given: addresses or names.
    pub(crate) nodes: Vec<String>,
    /// `--control-plane-nodes` and `--worker-nodes` as given: addresses or names.
    pub(crate) control_plane_nodes: Vec<String>,
    pub(crate) worker_nodes: Vec<String>,
    /// `--expect-control-planes`, `--expect-workers`.
    pub(crate) expect_control_planes: Option<usize>,
    pub(crate) expect_workers: Option<usize>,
    /// `--expect-talos`, without the `v`: `1.13.0`.
    pub(crate) expect_talos: Option<String>,
    /// `--expect-kubernetes`, without `v`: `1.35.4`, or `1.35` for any patch of it.
    pub(crate) expect_kubernetes: Option<String>,
    /// System extensions that a policy expects on every machine, named as in the policy.
    pub(crate) expect_extensions: Vec<String>,
    /// Limits at which warnings begin.
    pub(crate) thresholds: Thresholds,
    /// Excuses and requirements of the policy file.
    pub(crate) policy: Shared<Policy>,
    /// The planned change to the cluster.
    pub(crate) upgrade: Upgrade,
    /// The upgrade order; only `upgrade-plan` has one.
    pub(crate) order: Option<Order>,
    /// `--max-unready-workers`.
    pub(crate) max_unready_workers: Allowance,
    /// `--require-quorum-margin`.
    pub(crate) require_quorum_margin: Option<usize>,
    /// `--fail-on node-condition=TYPE`
    pub(crate) fail_on_node_condition: Vec<String>,
    /// `--k8s-endpoint`, if it differs from the kubeconfig's endpoint, so certificates may differ too.
    pub(crate) k8s_endpoint: Option<String>,
    /// The end of the run on the wall clock; credentials must be valid until then.
    pub(crate) deadline: Option<Timestamp>,
    /// `--level` ends before the Nodes are judged, so their readiness is not requested.
    pub(crate) nodes_may_wait: bool,
    /// Checks that the user disabled. They satisfy the checks that require them.
    pub(crate) skipped: BTreeSet<CheckId>,
}

impl Asked {
    /// Returns whether `--nodes` includes this machine.
    pub(crate) fn names(&self, node: &Node) -> bool {
        self.nodes.iter().any(|named| node.is_called(named))
    }

    /// Returns whether the user disabled this check.
    pub(crate) fn skips(&self, check: CheckId) -> bool {
        self.skipped.contains(&check)
    }
}

/// The planned change to the cluster; stage 8 reports whether it can begin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Upgrade {
    /// `--upgrade-talos`, without the `v`: `1.14.1`.
    pub(crate) talos: Option<String>,
    /// `--upgrade-kubernetes`, without `v`: `1.36.4`.
    pub(crate) kubernetes: Option<String>,
    /// `--drain`: name or address of a machine.
    pub(crate) drain: Option<String>,
    /// `--image`: the installer image, with `{schematic}` as a placeholder for the schematic that each machine runs.
    pub(crate) image: Option<String>,
}

impl Upgrade {
    /// Returns whether machines will be drained and rebooted. `talosctl upgrade-k8s` takes none down.
    pub(crate) fn takes_down_machines(&self) -> bool {
        self.talos.is_some() || self.drain.is_some()
    }

    /// Returns whether `--drain` names this machine.
    pub(crate) fn drains(&self, node: &Node) -> bool {
        self.drain.as_deref().is_some_and(|named| node.is_called(named))
    }
}

/// Arguments of `upgrade-plan` other than the versions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Order {
    pub(crate) first: First,
    /// `--upgraded`: machines whose upgrade was carried out, by name or address, each with its boot ID from before the upgrade.
    pub(crate) upgraded: Vec<(String, String)>,
}

/// The role whose machines are upgraded first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum First {
    Workers,
    #[default]
    ControlPlanes,
}

/// The number of workers that are allowed to be missing.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) enum Allowance {
    #[default]
    None,
    Count(usize),
    Percent(u8),
}

/// Properties of a certificate that are known without a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Certificate {
    pub(crate) not_before: Timestamp,
    pub(crate) not_after: Timestamp,
    /// Extended key usage clientAuth is present.
    pub(crate) client_auth: bool,
    /// The certificate matches the private key.
    pub(crate) matches_key: bool,
    /// Subject organizations: Talos roles (`os:reader`), Kubernetes groups.
    pub(crate) organizations: Vec<String>,
}

/// The validity period of a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Validity {
    pub(crate) not_before: Timestamp,
    pub(crate) not_after: Timestamp,
}

impl Node {
    /// The machine as findings name it.
    pub(crate) fn target(&self) -> Target {
        Target { address: Some(self.address.clone()), ..Target::new(Kind::Node, self.name.as_str()) }
    }
}

impl Snapshot {
    /// A round without requests or facts, for tests that are about something else.
    #[cfg(test)]
    pub(crate) fn empty() -> Self {
        Self {
            taken: Timestamp::UNIX_EPOCH,
            asked: Asked::default(),
            talos: None,
            kubernetes: None,
            external_etcd: None,
            nodes: Vec::new(),
            memory: Memory::default(),
        }
    }

    /// Control planes of the population, except those that are leaving.
    pub(crate) fn control_planes(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter().filter(|node| node.role == Role::ControlPlane && !node.leaving)
    }

    /// The clock of an API server, which is a better reference for its nodes' clocks than the runner's.
    pub(crate) fn server_time(&self) -> Timestamp {
        let mut leases = self.kubernetes.iter().flat_map(|it| [&it.node_leases, &it.system_leases]).flatten();
        leases.find_map(|leases| leases.date).unwrap_or(self.taken)
    }

    pub(crate) fn node(&self, name: &str) -> Option<&Node> {
        self.nodes.iter().find(|node| node.name == name)
    }
}
