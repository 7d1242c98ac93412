//! COSI resources: get one, list all of a type.

use serde::de::DeserializeOwned;
use talos_api::Message;
use talos_api::cosi::resource::state_client::StateClient;
use talos_api::cosi::resource::{GetOptions, GetRequest, ListOptions, ListRequest, Resource as Sent, Spec};
use tonic::{Code, Request};

use super::call::{Caller, Failure, Route, SMALL};
use crate::observe::dial::cause::clean;
use crate::observe::dial::http2::Http2;
use crate::snapshot::{Gap, GapKind, Observed};
use crate::text::yaml::{self, Bounds};

/// Limits for a list of one machine's resources, and for a list that covers all machines.
const OF_MACHINE: Most = Most { resources: 1000, bytes: 2 << 20 };
const OF_CLUSTER: Most = Most { resources: 20_000, bytes: 16 << 20 };
/// The fixed size that is counted for each resource in addition to its specification, in bytes.
const OVERHEAD: usize = 256;
/// Bytes of specifications that are parsed before other tasks get their turn.
const AT_ONCE: usize = 64 << 10;
/// Limits for a specification that is given to the parser. Static pods have the longest: some five hundred values.
const BOUNDS: Bounds = Bounds { bytes: SMALL, events: 1 << 14, steps: 4 << 20 };

#[derive(Clone, Copy)]
struct Most {
    resources: usize,
    bytes: usize,
}

/// The namespace and name of a resource type.
#[derive(Clone, Copy)]
pub(super) struct Type {
    pub(super) namespace: &'static str,
    /// Case-sensitive: a name in another case finds nothing, without an error.
    pub(super) name: &'static str,
}

/// Has one resource for each machine of the cluster.
pub(super) const MEMBERS: Type = Type { namespace: "cluster", name: "Members.cluster.talos.dev" };
pub(super) const KUBE_SPAN_PEERS: Type =
    Type { namespace: "kubespan", name: "KubeSpanPeerStatuses.kubespan.talos.dev" };

/// The only type that is read from protobuf.
pub(super) const VOLUME_STATUSES: Type = Type { namespace: "runtime", name: "VolumeStatuses.block.talos.dev" };

/// On a machine whose kube-proxy uses IPVS, it has one resource for each Service of the cluster.
pub(super) const ADDRESS_STATUSES: Type = Type { namespace: "network", name: "AddressStatuses.net.talos.dev" };

impl Type {
    /// Returns `Members` for `Members.cluster.talos.dev`.
    fn short(self) -> &'static str {
        self.name.split('.').next().unwrap_or(self.name)
    }

    fn is_read_from_protobuf(self) -> bool {
        self.name == VOLUME_STATUSES.name
    }

    fn most(self) -> Most {
        if [MEMBERS.name, KUBE_SPAN_PEERS.name, ADDRESS_STATUSES.name].contains(&self.name) {
            OF_CLUSTER
        } else {
            OF_MACHINE
        }
    }
}

/// A resource as received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Resource {
    kind: &'static str,
    pub(super) id: String,
    yaml: String,
    /// The specification in protobuf, for types that are read from it. Empty in Talos before 1.9.6, and if every field is zero.
    proto: Vec<u8>,
}

impl Resource {
    /// Parses the specification. A missing field or one of another type makes it malformed: a default would be an invented fact.
    pub(super) fn spec<T: DeserializeOwned>(&self) -> Observed<T> {
        // Talos writes no aliases.
        if !BOUNDS.hold(&self.yaml) || yaml::may_unfold(&self.yaml) {
            let text = format!("{} `{}`: nested too deeply, or too many values", self.kind, self.id);
            return Err(Gap::new(GapKind::TooLarge, clean(&text)));
        }
        serde_yaml::from_str(&self.yaml).map_err(|error| malformed(&format!("{} `{}`: {error}", self.kind, self.id)))
    }

    /// Decodes the specification from protobuf, which costs a fraction of the YAML. `None` if there are no bytes: either every field is
    /// zero, or this Talos does not send protobuf; the YAML has the answer.
    ///
    /// In protobuf, a missing field looks like one that is zero. This is therefore only for types where zero is never good news.
    pub(super) fn message<M: Message + Default>(&self) -> Observed<Option<M>> {
        if self.proto.is_empty() {
            return Ok(None);
        }
        let decoded = M::decode(self.proto.as_slice());
        decoded.map(Some).map_err(|error| malformed(&format!("{} `{}`: {error}", self.kind, self.id)))
    }

    #[cfg(test)]
    pub(super) fn literal(kind: &'static str, id: &str, yaml: &str) -> Self {
        Self { kind, id: id.to_owned(), yaml: yaml.to_owned(), proto: Vec::new() }
    }

    #[cfg(test)]
    pub(super) fn encoded(self, proto: &[u8]) -> Self {
        Self { proto: proto.to_owned(), ..self }
    }
}

fn malformed(text: &str) -> Gap {
    Gap::new(GapKind::Malformed, clean(text))
}

/// Reads a resource; `None` if it is being torn down, which counts as absent.
fn read(of: Type, message: Option<Sent>) -> Observed<Option<Resource>> {
    let missing = |what: &str| malformed(&format!("{}: a resource came without {what}", of.short()));
    let message = message.ok_or_else(|| missing("content"))?;
    let metadata = message.metadata.ok_or_else(|| missing("metadata"))?;
    if metadata.r#type != of.name || metadata.namespace != of.namespace {
        return Err(malformed(&format!("requested {}, got `{}`", of.short(), metadata.r#type)));
    }
    if metadata.phase == "tearingDown" {
        return Ok(None);
    }
    let spec = message.spec.filter(|spec| !spec.yaml_spec.is_empty());
    let Spec { yaml_spec: yaml, proto_spec } = spec.ok_or_else(|| missing("specification"))?;
    let proto = if of.is_read_from_protobuf() { proto_spec } else { Vec::new() };
    Ok(Some(Resource { kind: of.short(), id: metadata.id, yaml, proto }))
}

fn client(live: Http2, largest: usize) -> StateClient<Http2> {
    let origin = live.origin();
    StateClient::with_origin(live, origin).max_decoding_message_size(largest)
}

/// Parses each specification. A list of thousands must not delay all other tasks.
pub(super) async fn each<T>(resources: Vec<Resource>, read: impl Fn(&Resource) -> Observed<T>) -> Observed<Vec<T>> {
    let mut all = Vec::with_capacity(resources.len());
    let mut bytes = 0;
    for resource in resources {
        all.push(read(&resource)?);
        bytes += OVERHEAD + resource.yaml.len() + resource.proto.len();
        if bytes > AT_ONCE {
            bytes = 0;
            tokio::task::yield_now().await;
        }
    }
    Ok(all)
}

impl Caller {
    /// Reads one resource; `None` if the type is known but there is no such resource.
    pub(super) async fn get(&self, to: &Route<'_>, of: Type, id: &str) -> Observed<Option<Resource>> {
        let request = GetRequest {
            namespace: of.namespace.to_owned(),
            r#type: of.name.to_owned(),
            id: id.to_owned(),
            options: Some(GetOptions {}),
        };
        let largest = self.at_most(SMALL);
        let found = self.call(to, request, |live, request: Request<GetRequest>| async move {
            match client(live, largest).get(request).await {
                Ok(reply) => Ok(Some(reply.into_inner())),
                Err(status) if status.code() == Code::NotFound && status.message().contains("doesn't exist") => {
                    Ok(None)
                }
                Err(status) => Err(Failure::from(status)),
            }
        });
        let Some(reply) = found.await? else { return Ok(None) };
        let resource = read(of, reply.resource)?;
        match resource {
            Some(other) if other.id != id => {
                Err(malformed(&format!("requested {} `{id}`, got `{}`", of.short(), other.id)))
            }
            resource => Ok(resource),
        }
    }

    /// Reads the specification of the resource with this id; `None` as in [`Self::get`].
    pub(super) async fn one<T: DeserializeOwned>(&self, to: &Route<'_>, of: Type, id: &str) -> Observed<Option<T>> {
        self.get(to, of, id).await?.map(|resource| resource.spec()).transpose()
    }

    /// Lists all resources of a type. Empty if the type is known but has none.
    pub(super) async fn list(&self, to: &Route<'_>, of: Type) -> Observed<Vec<Resource>> {
        let request = ListRequest {
            namespace: of.namespace.to_owned(),
            r#type: of.name.to_owned(),
            options: Some(ListOptions::default()),
        };
        let (largest, most) = (self.at_most(SMALL), of.most());
        self.call(to, request, |live, request: Request<ListRequest>| async move {
            let mut stream = client(live, largest).list(request).await?.into_inner();
            let mut resources = Vec::new();
            let (mut count, mut bytes) = (0, 0);
            while let Some(message) = stream.message().await? {
                count += 1;
                bytes += OVERHEAD + message.resource.as_ref().map_or(0, |it| weight(of, it));
                if count > most.resources || bytes > most.bytes {
                    let Most { resources, bytes } = most;
                    let text = format!("{}: more than {resources} resources or {} MiB", of.short(), bytes >> 20);
                    return Err(Failure::Gap(Gap::new(GapKind::TooLarge, text)));
                }
                resources.extend(read(of, message.resource)?);
            }
            Ok(resources)
        })
        .await
    }
}

/// Returns the size of the parts of its specification that are kept.
fn weight(of: Type, resource: &Sent) -> usize {
    let kept = |spec: &Spec| {
        let proto = if of.is_read_from_protobuf() { spec.proto_spec.len() } else { 0 };
        spec.yaml_spec.len() + proto
    };
    resource.spec.as_ref().map_or(0, kept)
}
