//! `kubectl auth can-i` and `whoami`: reviews of the user's own rights.

use prost::Message;
use serde_json::{Value, json};

use super::access;
use super::failure::Failure;
use super::target::{Resource, Target};
use crate::world::{Kubernetes, Rule, User};

/// Prefix of protobuf messages, which kubectl always posts: `k8s` and a NUL, followed by an envelope.
const MAGIC: &[u8] = b"k8s\0";

#[derive(Message)]
struct Envelope {
    #[prost(bytes = "vec", tag = "2")]
    raw: Vec<u8>,
}

/// `SelfSubjectAccessReview`
#[derive(Message)]
struct AccessReview {
    #[prost(message, optional, tag = "2")]
    spec: Option<AccessReviewSpec>,
}

#[derive(Message)]
struct AccessReviewSpec {
    #[prost(message, optional, tag = "1")]
    resource: Option<ResourceAttributes>,
    #[prost(message, optional, tag = "2")]
    path: Option<PathAttributes>,
}

#[derive(Message)]
struct ResourceAttributes {
    #[prost(string, tag = "1")]
    namespace: String,
    #[prost(string, tag = "2")]
    verb: String,
    #[prost(string, tag = "3")]
    group: String,
    #[prost(string, tag = "5")]
    resource: String,
    #[prost(string, tag = "6")]
    subresource: String,
    #[prost(string, tag = "7")]
    name: String,
}

#[derive(Message)]
struct PathAttributes {
    #[prost(string, tag = "1")]
    path: String,
    #[prost(string, tag = "2")]
    verb: String,
}

/// The answer to a posted review.
pub(super) fn answer(kubernetes: &Kubernetes, user: &User, plural: &str, body: &[u8]) -> Result<Value, Failure> {
    Ok(match plural {
        "selfsubjectaccessreviews" => {
            let (spec, target) = asked(body)?;
            let allowed = access::allows(kubernetes, user, &target);
            review("authorization.k8s.io/v1", "SelfSubjectAccessReview", &spec, &json!({"allowed": allowed}))
        }
        "selfsubjectrulesreviews" => {
            let rules = access::rules(kubernetes, user);
            let (paths, resources): (Vec<&Rule>, Vec<&Rule>) =
                rules.iter().partition(|rule| !rule.non_resource_urls.is_empty());
            let resource =
                |it: &&Rule| json!({"verbs": it.verbs, "apiGroups": it.api_groups, "resources": it.resources});
            let path = |it: &&Rule| json!({"verbs": it.verbs, "nonResourceURLs": it.non_resource_urls});
            let status = json!({
                "resourceRules": resources.iter().map(resource).collect::<Vec<_>>(),
                "nonResourceRules": paths.iter().map(path).collect::<Vec<_>>(), "incomplete": false,
            });
            review("authorization.k8s.io/v1", "SelfSubjectRulesReview", &json!({}), &status)
        }
        _ => {
            let info = json!({"username": user.name, "groups": user.groups});
            json!({
                "kind": "SelfSubjectReview", "apiVersion": "authentication.k8s.io/v1", "metadata": {},
                "status": {"userInfo": info},
            })
        }
    })
}

fn review(api_version: &str, kind: &str, spec: &Value, status: &Value) -> Value {
    json!({"kind": kind, "apiVersion": api_version, "metadata": {}, "spec": spec, "status": status})
}

/// The specification of an access review, as JSON and as the target to check.
fn asked(body: &[u8]) -> Result<(Value, Target), Failure> {
    let spec = if let Some(envelope) = body.strip_prefix(MAGIC) {
        let decoded = Envelope::decode(envelope).and_then(|it| AccessReview::decode(it.raw.as_slice()));
        let spec = decoded.map_err(|error| Failure::bad_request(error.to_string()))?.spec.unwrap_or_default();
        match (spec.resource, spec.path) {
            (Some(it), _) => json!({"resourceAttributes": {
                "namespace": it.namespace, "verb": it.verb, "group": it.group, "resource": it.resource,
                "subresource": it.subresource, "name": it.name,
            }}),
            (None, path) => {
                let it = path.unwrap_or_default();
                json!({"nonResourceAttributes": {"path": it.path, "verb": it.verb}})
            }
        }
    } else {
        let review: Value = serde_json::from_slice(body).map_err(|error| Failure::bad_request(error.to_string()))?;
        review["spec"].clone()
    };
    let target = target(&spec);
    Ok((spec, target))
}

fn target(spec: &Value) -> Target {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let some = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    let it = &spec["resourceAttributes"];
    if it.is_null() {
        let it = &spec["nonResourceAttributes"];
        return Target::Path { verb: text(&it["verb"]), path: text(&it["path"]) };
    }
    Target::Resource(Resource {
        verb: text(&it["verb"]).into(),
        group: text(&it["group"]),
        version: String::new(),
        namespace: some(&it["namespace"]),
        plural: text(&it["resource"]),
        name: some(&it["name"]),
        subresource: some(&it["subresource"]),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reviews_are_read_in_protobuf_and_json() {
        let review = AccessReview {
            spec: Some(AccessReviewSpec {
                resource: Some(ResourceAttributes {
                    verb: "list".to_owned(),
                    resource: "nodes".to_owned(),
                    ..ResourceAttributes::default()
                }),
                path: None,
            }),
        };
        let mut body = MAGIC.to_vec();
        body.extend(Envelope { raw: review.encode_to_vec() }.encode_to_vec());
        let (spec, target) = asked(&body).unwrap();
        assert_eq!(spec["resourceAttributes"]["resource"], "nodes");
        let (_, same) = asked(json!({"spec": spec}).to_string().as_bytes()).unwrap();
        assert_eq!(target, same);
        let (_, path) = asked(br#"{"spec":{"nonResourceAttributes":{"verb":"get","path":"/readyz"}}}"#).unwrap();
        assert_eq!(path, Target::Path { verb: "get".to_owned(), path: "/readyz".to_owned() });
        assert!(asked(b"nonsense").is_err() && asked(b"k8s\0nonsense").is_err());
    }
}
