//! The calls to the real cluster and its answers: `e2e/recordings`, in the format that `e2e/README.md` describes.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Value, json};
use simulator::world::TalosVersion;

/// One state of the real cluster.
#[derive(Deserialize)]
pub(crate) struct Recording {
    pub(crate) state: State,
    pub(crate) calls: Vec<Call>,
}

#[derive(Deserialize)]
pub(crate) struct State {
    /// The name of the scenario, and `-talos-1.13` after it if the release of Talos is not the usual one.
    pub(crate) name: String,
    /// Role of the talosconfig.
    pub(crate) talos: String,
    /// `rbac`, `foreign`, or `none`.
    pub(crate) kube: String,
}

#[derive(Deserialize)]
#[serde(tag = "source", rename_all = "lowercase")]
pub(crate) enum Call {
    Talos(TalosCall),
    Kubernetes(KubernetesCall),
}

#[derive(Deserialize)]
pub(crate) struct TalosCall {
    /// `HOST:PORT`
    pub(crate) endpoint: String,
    pub(crate) node: Option<String>,
    /// Empty if only a connection was attempted.
    pub(crate) method: String,
    pub(crate) request: Value,
    #[serde(default)]
    messages: Vec<Value>,
    status: Option<Status>,
    gap: Option<Gap>,
}

#[derive(Deserialize)]
pub(crate) struct KubernetesCall {
    /// `https://HOST:PORT`
    pub(crate) server: String,
    pub(crate) path: String,
    status: Option<u16>,
    body: Option<Value>,
    gap: Option<Gap>,
}

#[derive(Deserialize)]
struct Status {
    code: String,
    text: String,
}

#[derive(Deserialize)]
struct Gap {
    kind: String,
}

/// An answer, real or simulated.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Answer {
    /// `Ok`, `NotFound: …`, `200`, or the reason for a missing answer: `TimedOut`.
    pub(crate) outcome: String,
    /// Messages of Talos, or body of Kubernetes.
    pub(crate) content: Value,
}

/// Gaps without any answer; the program derived all other gaps from an answer.
const SILENCES: [&str; 5] = ["TimedOut", "ConnectTimedOut", "ConnectionRefused", "NoRoute", "UnknownCa"];

impl Answer {
    pub(crate) fn is_silence(&self) -> bool {
        SILENCES.contains(&self.outcome.as_str())
    }

    pub(crate) fn none(kind: &str) -> Self {
        Self { outcome: kind.to_owned(), content: Value::Null }
    }

    pub(crate) fn status(code: &str, text: &str) -> Self {
        Self::none(if text.is_empty() { code.to_owned() } else { format!("{code}: {text}") }.as_str())
    }
}

impl Recording {
    /// The release of Talos that the machines ran.
    pub(crate) fn talos(&self) -> Option<TalosVersion> {
        let tag = |call: &Call| match call {
            Call::Talos(call) if call.method.ends_with("/Version") => {
                Some(call.messages.first()?.pointer("/messages/0/version/tag")?.as_str()?.to_owned())
            }
            // A node says `Talos (v1.14.1)`.
            Call::Kubernetes(call) => {
                let image = call.body.as_ref()?.pointer("/items/0/status/nodeInfo/osImage")?.as_str()?;
                Some(image.strip_prefix("Talos (")?.trim_end_matches(')').to_owned())
            }
            Call::Talos(_) => None,
        };
        self.calls.iter().find_map(tag)?.trim_start_matches('v').parse().ok()
    }

    /// The directory of the recordings.
    pub(crate) fn directory() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../e2e/recordings")
    }

    /// All recordings, without calls whose answer the program did not wait for.
    pub(crate) fn all() -> Vec<Self> {
        let files = std::fs::read_dir(Self::directory()).unwrap().map(|file| file.unwrap().path());
        let mut files: Vec<_> = files.filter(|file| file.extension().is_some_and(|it| it == "json")).collect();
        files.sort();
        let read = |file: PathBuf| {
            let text = std::fs::read_to_string(&file).unwrap();
            let mut document: Value = serde_json::from_str(&text).unwrap();
            document["calls"].as_array_mut().unwrap().retain(|call| call["abandoned"] != true);
            serde_json::from_value(document).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
        };
        files.into_iter().map(read).collect()
    }
}

impl Call {
    /// `cp1: List StaticPods`, `cp1: /api/v1/nodes`
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Talos(call) => {
                let method = call.method.rsplit('/').next().unwrap_or_default();
                let method = if method.is_empty() { "Connection" } else { method };
                let kind = call.request["type"].as_str().and_then(|kind| kind.split('.').next());
                let whom = call.node.as_deref().unwrap_or(host(&call.endpoint));
                let kind = kind.map(|kind| format!(" {kind}")).unwrap_or_default();
                format!("{}: {method}{kind}", machine(whom))
            }
            Self::Kubernetes(call) => {
                let path = call.path.split_once('?').map_or(call.path.as_str(), |(path, _)| path);
                format!("{}: {path}", machine(host(&call.server)))
            }
        }
    }

    /// The answer of the real cluster.
    pub(crate) fn answer(&self) -> Answer {
        let gap = match self {
            Self::Talos(call) => &call.gap,
            Self::Kubernetes(call) => &call.gap,
        };
        if let Some(gap) = gap.as_ref().filter(|gap| SILENCES.contains(&gap.kind.as_str())) {
            return Answer::none(&gap.kind);
        }
        match self {
            Self::Talos(call) => {
                let status = call.status.as_ref().map_or(("Ok", ""), |status| (&status.code, &status.text));
                Answer { content: json!(call.messages), ..Answer::status(status.0, status.1) }
            }
            Self::Kubernetes(call) => Answer {
                outcome: call.status.unwrap_or_default().to_string(),
                content: call.body.clone().unwrap_or_default(),
            },
        }
    }
}

/// Returns `10.55.0.2` for `https://10.55.0.2:6443` and `10.55.0.2:50000`.
pub(crate) fn host(address: &str) -> &str {
    let address = address.strip_prefix("https://").unwrap_or(address);
    address.rsplit_once(':').map_or(address, |(host, _)| host)
}

/// The machines of the real cluster.
pub(crate) const MACHINES: [(&str, &str); 4] =
    [("10.55.0.2", "cp1"), ("10.55.0.3", "cp2"), ("10.55.0.4", "cp3"), ("10.55.0.5", "w1")];

/// Address of the API of `other-cluster`.
pub(crate) const FOREIGN: &str = "10.55.0.1";

fn machine(address: &str) -> &str {
    MACHINES.iter().find(|(at, _)| *at == address).map_or(address, |(_, name)| name)
}
