//! COSI resources: get one, list all of a type.

use serde::de::DeserializeOwned;
use talos_api::cosi::resource::state_client::StateClient;
use talos_api::cosi::resource::{GetOptions, GetRequest, ListOptions, ListRequest, Resource as Message};
use tonic::{Code, Request};

use super::call::{Caller, Failure, LARGEST, Route};
use crate::observe::dial::cause::clean;
use crate::observe::dial::http2::Http2;
use crate::snapshot::{Gap, GapKind, Observed};

/// Most resources of one list that we take. The largest real list is Members: one per machine.
const MOST: usize = 10_000;
/// What is counted for a resource beside its YAML, in bytes.
const OVERHEAD: usize = 256;

/// Where a type lives.
#[derive(Clone, Copy)]
pub(super) struct Type {
    pub(super) namespace: &'static str,
    /// Case matters: another case finds nothing, without an error.
    pub(super) name: &'static str,
}

impl Type {
    /// `Members` of `Members.cluster.talos.dev`.
    fn short(self) -> &'static str {
        self.name.split('.').next().unwrap_or(self.name)
    }
}

/// One resource as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Resource {
    kind: &'static str,
    pub(super) id: String,
    yaml: String,
}

impl Resource {
    /// The specification. What is missing or of another kind makes it malformed: a default would be an invented fact.
    pub(super) fn spec<T: DeserializeOwned>(&self) -> Observed<T> {
        serde_yaml::from_str(&self.yaml).map_err(|error| malformed(&format!("{} `{}`: {error}", self.kind, self.id)))
    }

    #[cfg(test)]
    pub(super) fn literal(kind: &'static str, id: &str, yaml: &str) -> Self {
        Self { kind, id: id.to_owned(), yaml: yaml.to_owned() }
    }
}

fn malformed(text: &str) -> Gap {
    Gap::new(GapKind::Malformed, clean(text))
}

/// `None`: a resource that is about to go is not there any more.
fn read(of: Type, message: Option<Message>) -> Observed<Option<Resource>> {
    let missing = |what: &str| malformed(&format!("{}: a resource came without {what}", of.short()));
    let message = message.ok_or_else(|| missing("content"))?;
    let metadata = message.metadata.ok_or_else(|| missing("metadata"))?;
    if metadata.r#type != of.name || metadata.namespace != of.namespace {
        return Err(malformed(&format!("asked for {}, got `{}`", of.short(), metadata.r#type)));
    }
    if metadata.phase == "tearingDown" {
        return Ok(None);
    }
    let yaml = message.spec.map(|spec| spec.yaml_spec).filter(|yaml| !yaml.is_empty());
    let yaml = yaml.ok_or_else(|| missing("specification"))?;
    Ok(Some(Resource { kind: of.short(), id: metadata.id, yaml }))
}

fn client(live: Http2) -> StateClient<Http2> {
    let origin = live.origin();
    StateClient::with_origin(live, origin).max_decoding_message_size(LARGEST)
}

impl Caller {
    /// `None`: the type is known, and there is no such resource.
    pub(super) async fn get(&self, to: &Route<'_>, of: Type, id: &str) -> Observed<Option<Resource>> {
        let request = GetRequest {
            namespace: of.namespace.to_owned(),
            r#type: of.name.to_owned(),
            id: id.to_owned(),
            options: Some(GetOptions {}),
        };
        let found = self.call(to, request, |live, request: Request<GetRequest>| async move {
            match client(live).get(request).await {
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
                Err(malformed(&format!("asked for {} `{id}`, got `{}`", of.short(), other.id)))
            }
            resource => Ok(resource),
        }
    }

    /// All of a type. Empty: the type is known, and there is none.
    pub(super) async fn list(&self, to: &Route<'_>, of: Type) -> Observed<Vec<Resource>> {
        let request = ListRequest {
            namespace: of.namespace.to_owned(),
            r#type: of.name.to_owned(),
            options: Some(ListOptions::default()),
        };
        self.call(to, request, |live, request: Request<ListRequest>| async move {
            let mut stream = client(live).list(request).await?.into_inner();
            let mut resources = Vec::new();
            let (mut count, mut bytes) = (0, 0);
            while let Some(message) = stream.message().await? {
                count += 1;
                bytes += OVERHEAD + message.resource.as_ref().map_or(0, weight);
                if count > MOST || bytes > LARGEST {
                    let text = format!("{}: more than {MOST} resources or 32 MiB", of.short());
                    return Err(Failure::Gap(Gap::new(GapKind::TooLarge, text)));
                }
                resources.extend(read(of, message.resource)?);
            }
            Ok(resources)
        })
        .await
    }
}

fn weight(resource: &Message) -> usize {
    resource.spec.as_ref().map_or(0, |spec| spec.yaml_spec.len())
}
