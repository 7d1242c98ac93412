//! What a machine says of its clock, its network, its ways into the cluster, its memory and its disks.

use std::collections::BTreeSet;

use jiff::SignedDuration;
use serde::Deserialize;
use talos_api::google::protobuf::Empty;
use talos_api::machine::{MemoryResponse, MountsResponse};
use tonic::Request;

use super::call::{Caller, Failure, Route};
use super::machine::{client, malformed, only};
use super::node::given;
use super::resources::{Resource, Type};
use crate::checks::Fact;
use crate::observe::dial::cause::clean;
use crate::report::sanitise::without_secrets;
use crate::snapshot::{
    Adjtime, Diagnostic, Gap, GapKind, Mount, NetworkStatus, Observed, Peer, Role, TimeStatus, Volume,
};

const TIME_STATUSES: Type = Type { namespace: "runtime", name: "TimeStatuses.v1alpha1.talos.dev" };
const ADJTIME_STATUSES: Type = Type { namespace: "runtime", name: "AdjtimeStatuses.v1alpha1.talos.dev" };
const NETWORK_STATUSES: Type = Type { namespace: "network", name: "NetworkStatuses.net.talos.dev" };
const KUBE_PRISM_STATUSES: Type = Type { namespace: "k8s", name: "KubePrismStatuses.kubernetes.talos.dev" };
const KUBE_SPAN_PEERS: Type = Type { namespace: "kubespan", name: "KubeSpanPeerStatuses.kubespan.talos.dev" };
const VOLUME_STATUSES: Type = Type { namespace: "runtime", name: "VolumeStatuses.block.talos.dev" };
const DIAGNOSTICS: Type = Type { namespace: "runtime", name: "Diagnostics.runtime.talos.dev" };

/// The facts of a node that are read here.
pub(super) struct Condition {
    pub(super) time_status: Observed<Option<TimeStatus>>,
    pub(super) adjtime: Observed<Option<Adjtime>>,
    pub(super) network_status: Observed<Option<NetworkStatus>>,
    pub(super) kube_prism: Observed<Option<bool>>,
    pub(super) kube_span_peers: Observed<Vec<Peer>>,
    pub(super) memory: Observed<u64>,
    pub(super) volumes: Observed<Vec<Volume>>,
    pub(super) mounts: Observed<Vec<Mount>>,
    pub(super) diagnostics: Observed<Vec<Diagnostic>>,
}

impl Caller {
    pub(super) async fn condition(&self, to: &Route<'_>, facts: &BTreeSet<Fact>, role: Role) -> Condition {
        let wants = |fact: Fact| facts.contains(&fact);
        // A peer of everybody's on every machine would be as many answers as there are pairs of machines.
        let wants_peers = wants(Fact::KubeSpan) && role == Role::ControlPlane;
        let (time_status, adjtime, network_status, kube_prism, kube_span_peers, memory, volumes, mounts, diagnostics) = tokio::join!(
            given(wants(Fact::TimeStatus), self.time_status(to)),
            given(wants(Fact::TimeStatus), self.adjtime(to)),
            given(wants(Fact::NetworkStatus), self.network_status(to)),
            given(wants(Fact::KubePrism), self.kube_prism(to)),
            given(wants_peers, self.kube_span_peers(to)),
            given(wants(Fact::Memory), self.memory(to)),
            given(wants(Fact::Volumes), self.volumes(to)),
            given(wants(Fact::Volumes), self.mounts(to)),
            given(wants(Fact::Diagnostics), self.diagnostics(to)),
        );
        Condition {
            time_status,
            adjtime,
            network_status,
            kube_prism,
            kube_span_peers,
            memory,
            volumes,
            mounts,
            diagnostics,
        }
    }

    async fn time_status(&self, to: &Route<'_>) -> Observed<Option<TimeStatus>> {
        let found = self.get(to, TIME_STATUSES, "node").await?;
        found.map(|resource| time_status(&resource)).transpose()
    }

    async fn adjtime(&self, to: &Route<'_>) -> Observed<Option<Adjtime>> {
        let found = self.get(to, ADJTIME_STATUSES, "node").await?;
        found.map(|resource| adjtime(&resource)).transpose()
    }

    async fn network_status(&self, to: &Route<'_>) -> Observed<Option<NetworkStatus>> {
        let found = self.get(to, NETWORK_STATUSES, "status").await?;
        found.map(|resource| network_status(&resource)).transpose()
    }

    async fn kube_prism(&self, to: &Route<'_>) -> Observed<Option<bool>> {
        let found = self.get(to, KUBE_PRISM_STATUSES, "k8s-loadbalancer").await?;
        found.map(|resource| kube_prism(&resource)).transpose()
    }

    async fn kube_span_peers(&self, to: &Route<'_>) -> Observed<Vec<Peer>> {
        self.list(to, KUBE_SPAN_PEERS).await?.iter().map(kube_span_peer).collect()
    }

    async fn memory(&self, to: &Route<'_>) -> Observed<u64> {
        let reply = self.call(to, Empty {}, |live, request: Request<Empty>| async move {
            Ok::<_, Failure>(client(live).memory(request).await?.into_inner())
        });
        memory(reply.await?)
    }

    async fn volumes(&self, to: &Route<'_>) -> Observed<Vec<Volume>> {
        self.list(to, VOLUME_STATUSES).await?.iter().map(volume).collect()
    }

    async fn mounts(&self, to: &Route<'_>) -> Observed<Vec<Mount>> {
        let reply = self.call(to, Empty {}, |live, request: Request<Empty>| async move {
            Ok::<_, Failure>(client(live).mounts(request).await?.into_inner())
        });
        mounts(reply.await?)
    }

    async fn diagnostics(&self, to: &Route<'_>) -> Observed<Vec<Diagnostic>> {
        self.list(to, DIAGNOSTICS).await?.iter().map(diagnostic).collect()
    }
}

fn time_status(resource: &Resource) -> Observed<TimeStatus> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Spec {
        synced: bool,
        sync_disabled: bool,
    }
    let spec: Spec = resource.spec()?;
    Ok(TimeStatus { synced: spec.synced, sync_disabled: spec.sync_disabled })
}

fn adjtime(resource: &Resource) -> Observed<Adjtime> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Spec {
        offset: String,
        sync_status: bool,
    }
    let spec: Spec = resource.spec()?;
    // jiff reads what Go writes: `-44.014µs`.
    let offset: SignedDuration = spec.offset.parse().map_err(|_| {
        Gap::new(GapKind::Malformed, clean(&format!("AdjtimeStatuses `node`: `{}` is no duration", spec.offset)))
    })?;
    Ok(Adjtime { offset, synced: spec.sync_status })
}

fn network_status(resource: &Resource) -> Observed<NetworkStatus> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Spec {
        address_ready: bool,
        connectivity_ready: bool,
        hostname_ready: bool,
        etc_files_ready: bool,
    }
    let spec: Spec = resource.spec()?;
    Ok(NetworkStatus {
        address_ready: spec.address_ready,
        connectivity_ready: spec.connectivity_ready,
        hostname_ready: spec.hostname_ready,
        etc_files_ready: spec.etc_files_ready,
    })
}

fn kube_prism(resource: &Resource) -> Observed<bool> {
    #[derive(Deserialize)]
    struct Spec {
        healthy: bool,
    }
    Ok(resource.spec::<Spec>()?.healthy)
}

/// Its id is a public key; whose, the label says.
fn kube_span_peer(resource: &Resource) -> Observed<Peer> {
    #[derive(Deserialize)]
    struct Spec {
        label: String,
        state: String,
    }
    let spec: Spec = resource.spec()?;
    Ok(Peer { name: spec.label, state: spec.state })
}

fn memory(reply: MemoryResponse) -> Observed<u64> {
    let part = only("Memory", reply.messages, |it| it.metadata.as_ref())?;
    let total = part.meminfo.map_or(0, |info| info.memtotal);
    if total == 0 {
        return Err(malformed("Memory: an answer without the total"));
    }
    Ok(total.saturating_mul(1024))
}

fn volume(resource: &Resource) -> Observed<Volume> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Spec {
        phase: String,
        // Left out where it is 0, as for directories.
        #[serde(default)]
        size: u64,
        #[serde(default)]
        error_message: String,
    }
    let spec: Spec = resource.spec()?;
    Ok(Volume {
        id: resource.id.clone(),
        phase: spec.phase,
        size: Some(spec.size).filter(|size| *size > 0),
        error: without_secrets(&spec.error_message),
    })
}

fn mounts(reply: MountsResponse) -> Observed<Vec<Mount>> {
    let part = only("Mounts", reply.messages, |it| it.metadata.as_ref())?;
    if part.stats.is_empty() {
        // Even a machine that has just started has mounted its root.
        return Err(malformed("Mounts: an empty list"));
    }
    let mount = |stat: talos_api::machine::MountStat| Mount {
        path: stat.mounted_on,
        size: stat.size,
        available: stat.available,
    };
    Ok(part.stats.into_iter().map(mount).collect())
}

fn diagnostic(resource: &Resource) -> Observed<Diagnostic> {
    #[derive(Deserialize)]
    struct Spec {
        message: String,
        details: Option<Vec<String>>,
    }
    let spec: Spec = resource.spec()?;
    let details = spec.details.unwrap_or_default();
    Ok(Diagnostic {
        id: resource.id.clone(),
        message: without_secrets(&spec.message),
        details: details.iter().map(|detail| without_secrets(detail)).collect(),
    })
}

#[cfg(test)]
mod tests {
    use talos_api::machine::{MemInfo, Memory, MountStat, Mounts};

    use super::*;

    fn literal(yaml: &str) -> Resource {
        Resource::literal("Things", "node", yaml)
    }

    fn is_malformed<T: std::fmt::Debug>(result: Observed<T>) {
        assert_eq!(result.unwrap_err().kind, GapKind::Malformed);
    }

    #[test]
    fn a_clock_has_no_defaults() {
        let status = time_status(&literal("synced: true\nepoch: 0\nsyncDisabled: true\n"));
        assert_eq!(status, Ok(TimeStatus { synced: true, sync_disabled: true }));
        is_malformed(time_status(&literal("epoch: 0\nsyncDisabled: true\n")));
        is_malformed(time_status(&literal("synced: true\n")));
        is_malformed(time_status(&literal("synced: maybe\nsyncDisabled: false\n")));
    }

    #[test]
    fn offsets_are_durations_as_go_writes_them() {
        let offset = |text: &str| adjtime(&literal(&format!("offset: {text}\nsyncStatus: true\n")));
        for (text, nanoseconds) in
            [("0s", 0), ("-44.014µs", -44_014), ("1.5s", 1_500_000_000), ("-1m0.25s", -60_250_000_000), ("17ns", 17)]
        {
            let expected = SignedDuration::from_nanos(nanoseconds);
            assert_eq!(offset(text), Ok(Adjtime { offset: expected, synced: true }), "{text}");
        }
        for text in ["", "5", "soon", "[]", "\"\""] {
            is_malformed(offset(text));
        }
        is_malformed(adjtime(&literal("offset: 0s\n")));
    }

    #[test]
    fn a_network_has_no_defaults() {
        let all = "addressReady: true\nconnectivityReady: false\nhostnameReady: true\netcFilesReady: true\n";
        let status = network_status(&literal(all)).unwrap();
        assert!(status.address_ready && !status.connectivity_ready && status.hostname_ready && status.etc_files_ready);
        for line in all.lines() {
            is_malformed(network_status(&literal(&all.replace(line, ""))));
        }
    }

    #[test]
    fn ways_into_the_cluster_have_no_defaults() {
        assert_eq!(kube_prism(&literal("host: 127.0.0.1:7445\nhealthy: false\n")), Ok(false));
        is_malformed(kube_prism(&literal("host: 127.0.0.1:7445\n")));
        let peer = "endpoint: 10.0.0.4:51820\nlabel: w-1\nstate: down\nlastHandshakeTime: 2026-11-21T13:33:57Z\n";
        assert_eq!(kube_span_peer(&literal(peer)), Ok(Peer { name: "w-1".into(), state: "down".into() }));
        is_malformed(kube_span_peer(&literal("label: w-1\n")));
        is_malformed(kube_span_peer(&literal("state: up\n")));
    }

    #[test]
    fn memory_without_a_total_is_no_memory() {
        let of = |memtotal| {
            let meminfo = Some(MemInfo { memtotal, memfree: 7, ..MemInfo::default() });
            memory(MemoryResponse { messages: vec![Memory { metadata: None, meminfo }] })
        };
        assert_eq!(of(2048), Ok(2 << 20));
        assert_eq!(of(u64::MAX), Ok(u64::MAX));
        is_malformed(of(0));
        is_malformed(memory(MemoryResponse { messages: vec![Memory::default()] }));
        is_malformed(memory(MemoryResponse { messages: vec![] }));
    }

    #[test]
    fn a_directory_is_a_volume_without_a_size() {
        let directory = volume(&literal("phase: ready\ntype: directory\n")).unwrap();
        assert_eq!((directory.phase.as_str(), directory.size), ("ready", None));
        let failed = "phase: failed\npreFailPhase: located\nsize: 0\nerrorMessage: no keys\n";
        let failed = volume(&literal(failed)).unwrap();
        assert_eq!((failed.size, failed.error.as_str()), (None, "no keys"));
        assert_eq!(volume(&literal("phase: ready\nsize: 4123000832\n")).unwrap().size, Some(4_123_000_832));
        is_malformed(volume(&literal("size: 4123000832\n")));
        is_malformed(volume(&literal("phase: ready\nsize: -1\n")));
    }

    #[test]
    fn no_mount_at_all_is_no_answer() {
        let of = |stats| mounts(MountsResponse { messages: vec![Mounts { metadata: None, stats }] });
        let var = MountStat { filesystem: "/dev/sda5".into(), size: 20, available: 10, mounted_on: "/var".into() };
        assert_eq!(of(vec![var]), Ok(vec![Mount { path: "/var".into(), size: 20, available: 10 }]));
        is_malformed(of(vec![]));
    }

    #[test]
    fn a_diagnostic_may_have_no_details() {
        let of = |yaml: &str| diagnostic(&literal(yaml));
        let some = of("message: pending CSRs\ndetails:\n    - csr-1\n    - csr-2\n").unwrap();
        assert_eq!((some.message.as_str(), some.details.len()), ("pending CSRs", 2));
        assert!(of("message: a\ndetails: []\n").unwrap().details.is_empty());
        assert!(of("message: a\n").unwrap().details.is_empty());
        is_malformed(of("details: []\n"));
    }
}
