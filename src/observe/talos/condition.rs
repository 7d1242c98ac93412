//! Clock, network, cluster connectivity, memory and disks of a machine.

use std::collections::BTreeSet;
use std::net::IpAddr;

use serde::Deserialize;
use talos_api::block::VolumeStatusSpec;
use talos_api::google::protobuf::Empty;
use talos_api::machine::{MemoryResponse, MountsResponse};

use super::call::{Caller, LIST, Route, SMALL};
use super::machine::{malformed, only};
use super::resources::{ADDRESS_STATUSES, KUBE_SPAN_PEERS, Resource, Type, VOLUME_STATUSES, each};
use crate::observe::dial::cause::clean;
use crate::observe::exact;
use crate::snapshot::{Adjtime, DATA_MOUNTS, Diagnostic, LinkAddress, Mount, Observed, Peer, VOLUME_PHASES, Volume};
use crate::text::sanitize::without_secrets;

const ADJTIME_STATUSES: Type = Type { namespace: "runtime", name: "AdjtimeStatuses.v1alpha1.talos.dev" };
const LINK_STATUSES: Type = Type { namespace: "network", name: "LinkStatuses.net.talos.dev" };
const KUBE_PRISM_STATUSES: Type = Type { namespace: "k8s", name: "KubePrismStatuses.kubernetes.talos.dev" };
const DIAGNOSTICS: Type = Type { namespace: "runtime", name: "Diagnostics.runtime.talos.dev" };

/// Prefixes of overlay devices, whose single address belongs to the node's own pod range.
const OVERLAYS: [&str; 5] = ["flannel.", "flannel-", "cilium_", "vxlan.calico", "tunl0"];

impl Caller {
    pub(super) async fn adjtime(&self, to: &Route<'_>) -> Observed<Option<Adjtime>> {
        let status: Option<AdjtimeStatus> = self.one(to, ADJTIME_STATUSES, "node").await?;
        status.as_ref().map(adjtime).transpose()
    }

    /// Lists the addresses of links. The links themselves are read only if some link has a single address, since nothing else shows whether
    /// it is a dummy.
    pub(super) async fn link_addresses(&self, to: &Route<'_>) -> Observed<Vec<LinkAddress>> {
        let listed = self.list(to, ADDRESS_STATUSES).await?;
        if listed.is_empty() {
            // Every machine has the address of its loopback interface.
            return Err(malformed("AddressStatuses: an empty list"));
        }
        let listed: Vec<AddressStatus> = each(listed, Resource::spec).await?;
        let mut found: Vec<LinkAddress> = listed.iter().filter_map(link_address).collect();
        let is_of_overlay = |link: &str| OVERLAYS.iter().any(|name| link.starts_with(name));
        if found.iter().any(|it| it.is_single && !is_of_overlay(&it.link)) {
            let links = each(self.list(to, LINK_STATUSES).await?, |link| Ok((link.id.clone(), link.spec()?))).await?;
            let dummies: BTreeSet<String> = links
                .into_iter()
                .filter_map(|(id, link): (_, LinkStatus)| (link.kind == "dummy").then_some(id))
                .collect();
            found.retain(|it| !dummies.contains(&it.link));
        }
        Ok(found)
    }

    pub(super) async fn kube_prism(&self, to: &Route<'_>) -> Observed<Option<bool>> {
        let status: Option<KubePrismStatus> = self.one(to, KUBE_PRISM_STATUSES, "k8s-loadbalancer").await?;
        Ok(status.map(|status| status.healthy))
    }

    pub(super) async fn kube_span_peers(&self, to: &Route<'_>) -> Observed<Vec<Peer>> {
        each(self.list(to, KUBE_SPAN_PEERS).await?, Resource::spec).await
    }

    pub(super) async fn memory(&self, to: &Route<'_>) -> Observed<u64> {
        memory(self.ask(to, SMALL, Empty {}, |mut of, request| async move { of.memory(request).await }).await?)
    }

    pub(super) async fn volumes(&self, to: &Route<'_>) -> Observed<Vec<Volume>> {
        each(self.list(to, VOLUME_STATUSES).await?, volume).await
    }

    pub(super) async fn mounts(&self, to: &Route<'_>) -> Observed<Vec<Mount>> {
        mounts(self.ask(to, LIST, Empty {}, |mut of, request| async move { of.mounts(request).await }).await?)
    }

    pub(super) async fn diagnostics(&self, to: &Route<'_>) -> Observed<Vec<Diagnostic>> {
        each(self.list(to, DIAGNOSTICS).await?, diagnostic).await
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AddressStatus {
    /// The address, with its prefix length.
    address: String,
    link_name: String,
    scope: String,
    #[serde(default)]
    flags: String,
}

#[derive(Deserialize)]
struct LinkStatus {
    kind: String,
}

/// Returns the address; `None` if no other machine can reach it, or the kernel does not use it.
fn link_address(status: &AddressStatus) -> Option<LinkAddress> {
    let (address, length) = status.address.split_once('/')?;
    let address: IpAddr = address.parse().ok()?;
    let (is_link_local, most) = match address {
        IpAddr::V4(address) => (address.is_link_local(), "32"),
        IpAddr::V6(address) => (address.is_unicast_link_local(), "128"),
    };
    let is_unused = status.flags.contains("dadfailed") || status.flags.contains("tentative");
    let is_global = status.scope == "global" && !is_link_local;
    (is_global && !is_unused && status.link_name != "lo").then(|| LinkAddress {
        address: address.to_string(),
        link: clean(&status.link_name),
        is_single: length == most,
    })
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AdjtimeStatus {
    offset: String,
    sync_status: bool,
}

/// Parses the offset: jiff understands Go's format (`-44.014µs`).
fn adjtime(status: &AdjtimeStatus) -> Observed<Adjtime> {
    let AdjtimeStatus { offset, sync_status } = status;
    let malformed = |_| malformed(&clean(&format!("AdjtimeStatuses `node`: `{offset}` is not a duration")));
    Ok(Adjtime { offset: offset.parse().map_err(malformed)?, synced: *sync_status })
}

#[derive(Deserialize)]
struct KubePrismStatus {
    healthy: bool,
}

fn memory(reply: MemoryResponse) -> Observed<u64> {
    let part = only("Memory", reply.messages, |it| it.metadata.as_ref())?;
    let total = part.meminfo.map_or(0, |info| info.memtotal);
    if total == 0 {
        return Err(malformed("Memory: an answer without the total"));
    }
    Ok(total.saturating_mul(1024))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct VolumeStatus {
    phase: String,
    // Omitted if it is 0, as for directories.
    #[serde(default)]
    size: u64,
    #[serde(default)]
    error_message: String,
    #[serde(default)]
    encryption_failed_syncs: Option<Vec<String>>,
}

impl From<VolumeStatusSpec> for VolumeStatus {
    fn from(spec: VolumeStatusSpec) -> Self {
        let VolumeStatusSpec { phase, error_message, size, encryption_failed_syncs } = spec;
        let name = usize::try_from(phase).ok().and_then(|phase| VOLUME_PHASES.get(phase));
        // A phase from a later version of Talos keeps its number.
        let phase = name.map_or_else(|| phase.to_string(), |name| (*name).to_owned());
        Self { phase, size, error_message, encryption_failed_syncs: Some(encryption_failed_syncs) }
    }
}

/// Reads a volume from protobuf if possible. Each machine has about seven volumes, and parsing them as YAML would take a fifth of a run's
/// instructions. Protobuf is safe here because phase 0 is `waiting`, which is never good news.
fn volume(resource: &Resource) -> Observed<Volume> {
    let status = match resource.message::<VolumeStatusSpec>()? {
        Some(spec) => spec.into(),
        None => resource.spec::<VolumeStatus>()?,
    };
    Ok(Volume {
        id: resource.id.clone(),
        phase: status.phase,
        size: Some(status.size).filter(|size| *size > 0),
        error: without_secrets(&status.error_message),
        failed_syncs: status.encryption_failed_syncs.iter().flatten().map(|text| without_secrets(text)).collect(),
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
        device: stat.filesystem,
        size: stat.size,
        available: stat.available,
    };
    // A worker has up to a thousand mounts of pods, and a cluster has many workers.
    let of_data = part.stats.into_iter().filter(|stat| DATA_MOUNTS.contains(&stat.mounted_on.as_str()));
    Ok(exact(of_data.map(mount).collect()))
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
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use serde_json::Value;
    use talos_api::Message as _;
    use talos_api::machine::{MemInfo, Memory, MountStat, Mounts};

    use super::*;
    use crate::snapshot::GapKind;
    use crate::snapshot::{NetworkStatus, TimeStatus};

    fn literal(yaml: &str) -> Resource {
        Resource::literal("Things", "node", yaml)
    }

    fn is_malformed<T: std::fmt::Debug>(result: Observed<T>) {
        assert_eq!(result.unwrap_err().kind, GapKind::Malformed);
    }

    #[test]
    fn a_clock_has_no_defaults() {
        let time_status = |yaml| literal(yaml).spec::<TimeStatus>();
        let status = time_status("synced: true\nepoch: 0\nsyncDisabled: true\n");
        assert_eq!(status, Ok(TimeStatus { synced: true, sync_disabled: true }));
        is_malformed(time_status("epoch: 0\nsyncDisabled: true\n"));
        is_malformed(time_status("synced: true\n"));
        is_malformed(time_status("synced: maybe\nsyncDisabled: false\n"));
    }

    #[test]
    fn offsets_are_durations_as_go_writes_them() {
        let of = |yaml: &str| literal(yaml).spec().and_then(|status| adjtime(&status));
        let offset = |text: &str| of(&format!("offset: {text}\nsyncStatus: true\n"));
        for (text, nanoseconds) in
            [("0s", 0), ("-44.014µs", -44_014), ("1.5s", 1_500_000_000), ("-1m0.25s", -60_250_000_000), ("17ns", 17)]
        {
            let expected = jiff::SignedDuration::from_nanos(nanoseconds);
            assert_eq!(offset(text), Ok(Adjtime { offset: expected, synced: true }), "{text}");
        }
        for text in ["", "5", "soon", "[]", "\"\""] {
            is_malformed(offset(text));
        }
        is_malformed(of("offset: 0s\n"));
    }

    #[test]
    fn a_network_has_no_defaults() {
        let all = "addressReady: true\nconnectivityReady: false\nhostnameReady: true\netcFilesReady: true\n";
        let network_status = |yaml: &str| literal(yaml).spec::<NetworkStatus>();
        let status = network_status(all).unwrap();
        assert!(status.address_ready && !status.connectivity_ready && status.hostname_ready && status.etc_files_ready);
        for line in all.lines() {
            is_malformed(network_status(&all.replace(line, "")));
        }
    }

    #[test]
    fn ways_into_the_cluster_have_no_defaults() {
        let kube_prism = |yaml| literal(yaml).spec().map(|status: KubePrismStatus| status.healthy);
        assert_eq!(kube_prism("host: 127.0.0.1:7445\nhealthy: false\n"), Ok(false));
        is_malformed(kube_prism("host: 127.0.0.1:7445\n"));
        let peer = "endpoint: 10.0.0.4:51820\nlabel: w-1\nstate: down\nlastHandshakeTime: 2026-11-21T13:33:57Z\n";
        let last_handshake = Some("2026-11-21T13:33:57Z".parse().unwrap());
        assert_eq!(literal(peer).spec(), Ok(Peer { name: "w-1".into(), state: "down".into(), last_handshake }));
        is_malformed(literal("label: w-1\n").spec::<Peer>());
        is_malformed(literal("state: up\n").spec::<Peer>());
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
        let unsynced = volume(&literal("phase: ready\nencryptionFailedSyncs:\n    - no KMS\n")).unwrap();
        assert_eq!(unsynced.failed_syncs, ["no KMS"]);
        assert_eq!(volume(&literal("phase: ready\nsize: 4123000832\n")).unwrap().size, Some(4_123_000_832));
        is_malformed(volume(&literal("size: 4123000832\n")));
        is_malformed(volume(&literal("phase: ready\nsize: -1\n")));
    }

    #[test]
    fn a_volume_is_read_from_protobuf_and_from_yaml_where_there_is_none() {
        let yaml = "phase: failed\nerrorMessage: from YAML\n";
        let of = |spec: VolumeStatusSpec| volume(&literal(yaml).encoded(&spec.encode_to_vec())).unwrap();
        let spec = |phase: i32, size: u64| VolumeStatusSpec { phase, size, ..Default::default() };
        for (number, name) in (0..).zip(VOLUME_PHASES) {
            assert_eq!(of(spec(number, 7)), Volume { phase: name.into(), ..of(spec(6, 7)) });
        }
        assert_eq!((of(spec(6, 0)).size, of(spec(6, 7)).size), (None, Some(7)));
        assert_eq!((of(spec(8, 0)).phase, of(spec(-1, 0)).phase), ("8".into(), "-1".into()));
        // An empty protobuf form is either a waiting volume or a Talos that does not send protobuf.
        assert_eq!((of(spec(0, 0)).phase, of(spec(0, 0)).error), ("failed".into(), "from YAML".into()));
        // Protobuf alone is not accepted either: every real resource has both forms.
        is_malformed(volume(&literal("").encoded(&[])));
        for bytes in [&[0x08][..], &[0x1a, 5, b'a'], &[0x1a, 1, 0xff], &[0x0f]] {
            is_malformed(volume(&literal(yaml).encoded(bytes)));
        }
    }

    /// Real machines send both forms, so they can be compared: all volumes of a control plane and a worker of Talos 1.13.0.
    #[test]
    fn the_volumes_of_real_machines_are_the_same_in_both_encodings() {
        let volumes: Vec<Value> = serde_json::from_str(include_str!("tests/volumes.json")).unwrap();
        let mut without_bytes = Vec::new();
        for recorded in &volumes {
            let [id, proto, yaml] = ["id", "proto_spec", "yaml_spec"].map(|key| recorded[key].as_str().unwrap());
            let yaml = Resource::literal("VolumeStatuses", id, yaml);
            let proto = yaml.clone().encoded(&STANDARD.decode(proto).unwrap());
            assert_eq!(volume(&proto), volume(&yaml), "{id}");
            if proto.message::<VolumeStatusSpec>() == Ok(None) {
                without_bytes.push(id);
            }
        }
        // In a container, this volume is waiting and has no other fields.
        assert_eq!((volumes.len(), without_bytes), (18, vec!["META"]));
    }

    #[test]
    fn addresses_that_others_can_reach_are_kept() {
        let of = |address: &str, link: &str, scope: &str, flags: &str| {
            let yaml = format!("address: {address}\nlinkName: {link}\nscope: {scope}\nflags: {flags}\n");
            let status: AddressStatus = Resource::literal("AddressStatuses", "id", &yaml).spec().unwrap();
            link_address(&status).map(|it| (it.address, it.is_single))
        };
        let kept = |address: &str, is_single: bool| Some((address.to_owned(), is_single));
        assert_eq!(of("192.0.2.10/32", "eth0", "global", "permanent"), kept("192.0.2.10", true));
        assert_eq!(of("192.0.2.10/24", "eth0", "global", "permanent"), kept("192.0.2.10", false));
        assert_eq!(of("2001:DB8:0::1/128", "eth0", "global", "permanent"), kept("2001:db8::1", true));
        assert_eq!(of("2001:db8::1/64", "bond0.7", "global", "''"), kept("2001:db8::1", false));
        for (address, link, scope, flags) in [
            ("192.0.2.10/32", "lo", "global", "permanent"),
            ("127.0.0.1/8", "lo", "host", "permanent"),
            ("fe80::1/128", "eth0", "link", "permanent"),
            ("169.254.20.10/32", "eth0", "global", "permanent"),
            ("fe80::1/64", "eth0", "global", "permanent"),
            ("2001:db8::1/128", "eth0", "global", "permanent,dadfailed"),
            ("2001:db8::1/128", "eth0", "global", "tentative"),
            ("192.0.2.10", "eth0", "global", "permanent"),
            ("soon/32", "eth0", "global", "permanent"),
        ] {
            assert_eq!(of(address, link, scope, flags), None, "{address} on {link}");
        }
        let incomplete = Resource::literal("AddressStatuses", "id", "address: 192.0.2.10/32\n");
        assert!(incomplete.spec::<AddressStatus>().is_err());
    }

    #[test]
    fn no_mount_at_all_is_no_answer() {
        let of = |stats| mounts(MountsResponse { messages: vec![Mounts { metadata: None, stats }] });
        let var = MountStat { filesystem: "/dev/sda5".into(), size: 20, available: 10, mounted_on: "/var".into() };
        let kept = |path: &str| Mount { path: path.into(), device: "/dev/sda5".into(), size: 20, available: 10 };
        assert_eq!(of(vec![var.clone()]), Ok(vec![kept("/var")]));
        let at = |path: &str| MountStat { mounted_on: path.into(), ..var.clone() };
        let many = ["/", "/var/lib/etcd", "/var/lib/kubelet/pods/1/volumes/x", "/var/log", "/var/lib"].map(at);
        assert_eq!(of(many.to_vec()), Ok(vec![kept("/var/lib/etcd"), kept("/var/log")]));
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
