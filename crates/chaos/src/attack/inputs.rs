//! Malicious answers, each of which has harmed a program that trusted it.

use crate::attack::server::Answer;

/// One malicious machine, proxy or file.
pub(super) struct Attack {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    /// Memory that the program may use, in MiB.
    pub(super) memory: u64,
}

pub(super) enum Kind {
    /// The API server of a kubeconfig gives this answer to requests whose path ends like this.
    Kubernetes(&'static str, fn() -> Vec<u8>),
    /// The API server lists this many nodes of this system, while Talos knows only one.
    Nodes(usize, &'static str),
    /// Talos gives this answer to every call of this method.
    Talos(&'static str, fn() -> Vec<u8>),
    /// A server without a certificate answers in place of Talos.
    Stranger(fn() -> Vec<u8>),
    /// Discovery reports a compromised worker as a control plane. It serves with a certificate of the cluster's CA that has this subject
    /// (organization, common name) and the names of an API server, and waits for a token.
    Worker(&'static str, &'static str),
    Talosconfig(fn() -> Vec<u8>),
    Kubeconfig(fn() -> Vec<u8>),
}

const MIB: usize = 1 << 20;
const TALOS: &str = "Talos (v1.13.0)";
/// A system whose nodes are not queried.
const OTHER: &str = "Ubuntu 24.04";

pub(super) fn all() -> Vec<Attack> {
    let of = |name, kind| Attack { name, kind, memory: 256 };
    vec![
        of("specification of 4 MB of `[`", Kind::Talos("/cosi.resource.State/", || spec("[", 4 * MIB))),
        of("specification of 60 kB of `[`", Kind::Talos("/cosi.resource.State/", || spec("[", 60 << 10))),
        of("specification of 16 MB of `- `", Kind::Talos("/cosi.resource.State/", || spec("- ", 16 * MIB))),
        of("a stranger's specification of `[`", Kind::Stranger(|| spec("[", 4 * MIB))),
        of("Version of 31 MB, all empty", Kind::Talos("/Version", || [0x0a, 0].repeat(31 * MIB / 2))),
        of("Version of 60 kB, all empty", Kind::Talos("/Version", || [0x0a, 0].repeat(30 << 10))),
        of("ServiceList of 31 MB, all empty", Kind::Talos("/ServiceList", || part(1, &[0x12, 0].repeat(31 * MIB / 2)))),
        of("ServiceList of 500 kB, all empty", Kind::Talos("/ServiceList", || part(1, &[0x12, 0].repeat(250 << 10)))),
        of("Memory of 31 MB, all empty", Kind::Talos("/Memory", || [0x0a, 0].repeat(31 * MIB / 2))),
        of("Mounts of 31 MB, all empty", Kind::Talos("/Mounts", || part(1, &[0x12, 0].repeat(31 * MIB / 2)))),
        of("pods of 4 MB of containers", Kind::Kubernetes("/pods", || pods("spec\":{\"containers", 4 * MIB))),
        of("pods of 15 MB of volumes", Kind::Kubernetes("/pods", || pods("spec\":{\"volumes", 15 * MIB))),
        of("pods of 15 MB of conditions", Kind::Kubernetes("/pods", || pods("status\":{\"conditions", 15 * MIB))),
        of("pods of 30 MB, one by one", Kind::Kubernetes("/pods", || many("Pod", "v1", 30 * MIB))),
        of("pods of 15 MB, one by one", Kind::Kubernetes("/pods", || many("Pod", "v1", 15 * MIB))),
        of("leases of 15 MB", Kind::Kubernetes("/leases", || many("Lease", "coordination.k8s.io/v1", 15 * MIB))),
        of(
            "DaemonSets of 15 MB of managed fields",
            Kind::Kubernetes("/daemonsets", || {
                list("DaemonSet", "apps/v1", &object("metadata2\":{\"managedFields", 15 * MIB))
            }),
        ),
        of("5,000 unknown nodes", Kind::Nodes(5000, OTHER)),
        of("5,000 unknown Talos nodes", Kind::Nodes(5000, TALOS)),
        of("10,000 unknown nodes", Kind::Nodes(10_000, OTHER)),
        Attack { name: "20,000 unknown nodes", kind: Kind::Nodes(20_000, OTHER), memory: 400 },
        of("a worker with a kubelet's certificate", Kind::Worker("system:nodes", "system:node:worker-1")),
        of("a k3s agent named like the API server", Kind::Worker("", "kubernetes.default.svc")),
        of("talosconfig of 4 MB of `[`", Kind::Talosconfig(|| b"[".repeat(4 * MIB - 1))),
        of("talosconfig of 4 MB of `- `", Kind::Talosconfig(|| b"- ".repeat(2 * MIB - 1))),
        of("kubeconfig of 4 MB of `? `", Kind::Kubeconfig(|| b"? ".repeat(2 * MIB - 1))),
        of("kubeconfig of 4 MB of `{a: `", Kind::Kubeconfig(|| b"{a: ".repeat(MIB - 1))),
    ]
}

/// Encodes a field of a protobuf message.
pub(super) fn part(field: u8, content: &[u8]) -> Vec<u8> {
    let mut message = vec![field << 3 | 2];
    let mut length = content.len();
    while length > 0x7f {
        message.push((length & 0x7f) as u8 | 0x80);
        length >>= 7;
    }
    message.push(length as u8);
    message.extend(content);
    message
}

/// Encodes a COSI answer with this text as its specification, repeated to the given size.
fn spec(bomb: &str, bytes: usize) -> Vec<u8> {
    resource("runtime", "MachineStatuses.runtime.talos.dev", "machine", &bomb.repeat(bytes / bomb.len()))
}

pub(super) fn resource(namespace: &str, kind: &str, id: &str, yaml: &str) -> Vec<u8> {
    let texts = [(1, namespace), (2, kind), (3, id), (4, "1"), (6, "running")];
    let metadata: Vec<u8> = texts.iter().flat_map(|(field, text)| part(*field, text.as_bytes())).collect();
    part(1, &[part(1, &metadata), part(2, &part(2, yaml.as_bytes()))].concat())
}

fn list(kind: &str, version: &str, items: &str) -> Vec<u8> {
    format!(r#"{{"kind":"{kind}List","apiVersion":"{version}","metadata":{{}},"items":[{items}]}}"#).into_bytes()
}

/// Returns an object with a list of empty elements of this size.
fn object(path: &str, bytes: usize) -> String {
    let crumbs = "{},".repeat(bytes / 3);
    format!(r#"{{"metadata":{{"name":"a","namespace":"kube-system"}},"{path}":[{crumbs}{{}}]}}}}"#)
        .replace(r#""},"metadata2":{"#, r#"","#)
}

fn pods(path: &str, bytes: usize) -> Vec<u8> {
    list("Pod", "v1", &object(path, bytes))
}

fn many(kind: &str, version: &str, bytes: usize) -> Vec<u8> {
    let one = |at: usize| format!(r#"{{"metadata":{{"name":"{at:x}","namespace":"kube-system"}}}}"#);
    let items: Vec<_> = (0..bytes / one(0).len()).map(one).collect();
    list(kind, version, &items.join(","))
}

/// Returns a page of five hundred out of this many realistic nodes.
pub(super) fn nodes(many: usize, from: usize, system: &str) -> Answer {
    let node = |at: usize| {
        let images =
            (0..20).map(|image| format!(r#"{{"names":["registry.example/image-{image}@sha256:0"],"sizeBytes":1}}"#));
        let (name, address, system) = match at {
            0 => ("cp-1".to_owned(), "127.0.0.1".to_owned(), TALOS),
            _ => (format!("x-{at}"), format!("127.{}.{}.{}", 1 + (at >> 16), at >> 8 & 255, at & 255), system),
        };
        format!(
            r#"{{"metadata":{{"name":"{name}","creationTimestamp":"2026-01-01T00:00:00Z"}},"spec":{{}},"status":{{
            "addresses":[{{"type":"InternalIP","address":"{address}"}},{{"type":"Hostname","address":"{name}"}}],
            "conditions":[{{"type":"Ready","status":"True","reason":"KubeletReady","message":"kubelet is posting ready status"}}],
            "nodeInfo":{{"machineID":"{at:032x}","osImage":"{system}","kubeletVersion":"v1.35.4"}},
            "images":[{}]}}}}"#,
            images.collect::<Vec<_>>().join(",")
        )
    };
    let until = many.min(from + 500);
    let next = if until < many { until.to_string() } else { String::new() };
    let items: Vec<_> = (from..until).map(node).collect();
    Answer::Json(
        format!(
            r#"{{"kind":"NodeList","apiVersion":"v1","metadata":{{"continue":"{next}"}},"items":[{}]}}"#,
            items.join(",")
        )
        .into(),
    )
}
