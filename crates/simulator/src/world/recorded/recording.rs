//! The format of a recording.

use std::net::IpAddr;

use anyhow::Context as _;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

/// The calls to a real cluster, with their answers.
#[derive(Deserialize)]
pub(super) struct Recording {
    pub(super) run: Run,
    pub(super) state: State,
    calls: Vec<Call>,
}

#[derive(Deserialize)]
pub(super) struct Run {
    pub(super) time: Timestamp,
}

#[derive(Deserialize)]
pub(super) struct State {
    /// `apid-frozen w1`
    #[serde(default)]
    pub(super) faults: Vec<String>,
}

#[derive(Deserialize)]
#[serde(tag = "source", rename_all = "lowercase")]
enum Call {
    Talos(TalosCall),
    Kubernetes(KubernetesCall),
}

#[derive(Deserialize)]
pub(super) struct TalosCall {
    /// `HOST:PORT`
    endpoint: String,
    node: Option<String>,
    /// `/package.Service/Method`; empty if only a connection was attempted.
    pub(super) method: String,
    #[serde(default)]
    pub(super) request: Value,
    #[serde(default)]
    pub(super) messages: Vec<Value>,
    pub(super) status: Option<Status>,
    pub(super) gap: Option<Gap>,
}

#[derive(Deserialize)]
pub(super) struct KubernetesCall {
    /// `https://HOST:PORT`
    server: String,
    path: String,
    pub(super) status: Option<u16>,
    pub(super) date: Option<Timestamp>,
    #[serde(default)]
    pub(super) body: Value,
    pub(super) gap: Option<Gap>,
}

#[derive(Deserialize)]
pub(super) struct Status {
    pub(super) code: String,
    pub(super) text: String,
}

/// The reason for a missing answer.
#[derive(Deserialize)]
pub(super) struct Gap {
    pub(super) kind: Silence,
}

/// Gaps without any answer, and `Other` for gaps that were derived from an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(super) enum Silence {
    TimedOut,
    ConnectTimedOut,
    ConnectionRefused,
    UnknownCa,
    #[serde(other)]
    Other,
}

impl Recording {
    pub(super) fn of(mut document: Value) -> anyhow::Result<Self> {
        if let Some(calls) = document.get_mut("calls").and_then(Value::as_array_mut) {
            // The program did not wait for the answers of the others.
            calls.retain(|call| call["abandoned"] != true);
        }
        serde_json::from_value(document).context("this is no recording")
    }

    pub(super) fn talos(&self) -> impl Iterator<Item = &TalosCall> {
        self.calls.iter().filter_map(|call| match call {
            Call::Talos(call) => Some(call),
            Call::Kubernetes(_) => None,
        })
    }

    pub(super) fn kubernetes(&self) -> impl Iterator<Item = &KubernetesCall> {
        self.calls.iter().filter_map(|call| match call {
            Call::Talos(_) => None,
            Call::Kubernetes(call) => Some(call),
        })
    }

    /// Requests through the kubeconfig's server. `/readyz` is excluded, because it is also requested from each API
    /// server.
    pub(super) fn through_kubeconfig(&self) -> impl Iterator<Item = &KubernetesCall> {
        self.kubernetes().filter(|call| call.path() != "/readyz")
    }

    /// Successful answers of one method, with the machines that they are from.
    pub(super) fn answers<'a>(&'a self, method: &'a str) -> impl Iterator<Item = (&'a TalosCall, IpAddr)> {
        let answered = move |call: &&TalosCall| call.is_ok() && call.short_method() == method;
        self.talos().filter(answered).filter_map(|call| Some((call, call.target()?)))
    }
}

impl TalosCall {
    /// The machine that the answer is about.
    pub(super) fn target(&self) -> Option<IpAddr> {
        self.node.as_deref().unwrap_or(self.dialed()).parse().ok()
    }

    fn dialed(&self) -> &str {
        host(&self.endpoint)
    }

    /// Whether the call was for the machine that was dialed.
    pub(super) fn asked_directly(&self) -> bool {
        self.node.as_deref().is_none_or(|node| node == self.dialed())
    }

    pub(super) fn is_ok(&self) -> bool {
        self.gap.is_none() && self.status.as_ref().is_some_and(|status| status.code == "Ok")
    }

    pub(super) fn silence(&self) -> Option<Silence> {
        self.gap.as_ref().map(|gap| gap.kind)
    }

    /// `ServiceList`
    pub(super) fn short_method(&self) -> &str {
        self.method.rsplit('/').next().unwrap_or(&self.method)
    }

    /// The type of the requested resources.
    pub(super) fn kind(&self) -> Option<&str> {
        self.request["type"].as_str().filter(|_| self.method.starts_with("/cosi."))
    }

    /// `Get MachineStatuses`: the name under which calls are counted.
    pub(super) fn name(&self) -> String {
        match self.kind() {
            Some(kind) => format!("{} {}", self.short_method(), kind.split('.').next().unwrap_or(kind)),
            None => self.short_method().to_owned(),
        }
    }

    /// The only part of the only message of a unary call, which is always for one machine here.
    pub(super) fn part(&self) -> &Value {
        self.messages.first().map_or(&Value::Null, |message| &message["messages"][0])
    }
}

impl KubernetesCall {
    pub(super) fn host(&self) -> &str {
        host(&self.server)
    }

    /// Whether the call asks for objects in a certain state. The answer says nothing about the others.
    pub(super) fn is_of_some(&self) -> bool {
        self.path.contains("fieldSelector=")
    }

    /// The path without its query.
    pub(super) fn path(&self) -> &str {
        self.path.split_once('?').map_or(&self.path, |(path, _)| path)
    }

    pub(super) fn silence(&self) -> Option<Silence> {
        self.gap.as_ref().map(|gap| gap.kind)
    }
}

/// Returns `10.55.0.2` for `https://10.55.0.2:6443`.
fn host(address: &str) -> &str {
    let address = address.strip_prefix("https://").unwrap_or(address);
    address.rsplit_once(':').map_or(address, |(host, _)| host)
}
