//! The API over real TLS, read by independent clients.

mod access;
mod faults;
mod objects;
mod protocol;

use std::time::Duration;

use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig};
use reqwest::{Certificate, Identity, RequestBuilder};
use serde_json::Value;

use crate::pki::{Flaw, Leaf};
use crate::world::{Shape, World};
use crate::{Network, Simulator};

/// A healthy cluster with one worker.
fn simulator() -> Simulator {
    simulator_of(|_| {})
}

fn simulator_of(change: impl FnOnce(&mut World)) -> Simulator {
    // Only the first test of a process can install the provider; all tests install the same one.
    let _ = crate::pki::provider().as_ref().clone().install_default();
    let network = Network::claim().unwrap();
    let mut world = World::healthy(&network, &Shape::default());
    change(&mut world);
    Simulator::start(network, world).unwrap()
}

/// kube's client with the kubeconfig of a user.
async fn kube_as(simulator: &Simulator, user: &str) -> kube::Client {
    let kubeconfig = Kubeconfig::from_yaml(&simulator.kubeconfig(user, Flaw::None).unwrap()).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    kube::Client::try_from(config).unwrap()
}

/// A client for plain HTTP requests with one identity.
struct Http {
    client: reqwest::Client,
    base: String,
}

struct Seen {
    status: u16,
    headers: reqwest::header::HeaderMap,
    body: String,
}

impl Seen {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map(|value| value.to_str().unwrap()).unwrap_or_default()
    }
}

impl Http {
    /// Sends requests to the balancer.
    fn with(simulator: &Simulator, leaf: Option<&Leaf>) -> Self {
        Self::built(simulator, leaf, reqwest::Client::builder())
    }

    fn built(simulator: &Simulator, leaf: Option<&Leaf>, builder: reqwest::ClientBuilder) -> Self {
        let ca = Certificate::from_pem(simulator.pki().kubernetes.pem().as_bytes()).unwrap();
        let mut builder = builder.tls_certs_only([ca]).redirect(reqwest::redirect::Policy::none()).no_proxy();
        if let Some(leaf) = leaf {
            let pem = format!("{}{}", leaf.certificate, leaf.key);
            builder = builder.identity(Identity::from_pem(pem.as_bytes()).unwrap());
        }
        let base = format!("https://{}:6443", simulator.network().balancer());
        Self { client: builder.build().unwrap(), base }
    }

    fn admin(simulator: &Simulator) -> Self {
        let leaf = simulator.pki().kubernetes.client("admin", &["system:masters"], Flaw::None).unwrap();
        Self::with(simulator, Some(&leaf))
    }

    fn reader(simulator: &Simulator) -> Self {
        let leaf = simulator.pki().kubernetes.client("reader", &[], Flaw::None).unwrap();
        Self::with(simulator, Some(&leaf))
    }

    /// Sends requests to the API server of one machine instead.
    fn at(self, simulator: &Simulator, machine: usize) -> Self {
        Self { base: format!("https://{}:6443", simulator.network().machine(machine)), ..self }
    }

    async fn send(request: RequestBuilder) -> Seen {
        let response = request.send().await.unwrap();
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        Seen { status, headers, body: response.text().await.unwrap() }
    }

    fn request(&self, path: &str) -> RequestBuilder {
        self.client.get(format!("{}{path}", self.base))
    }

    async fn get(&self, path: &str) -> Seen {
        Self::send(self.request(path)).await
    }

    /// Whether there is no response within this time, which is the only way to notice a server that does not respond.
    async fn hangs(&self, path: &str) -> bool {
        let asked = self.request(path).timeout(Duration::from_millis(300)).send().await;
        asked.is_err_and(|error| error.is_timeout())
    }
}
