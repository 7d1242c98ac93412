//! Error answers of an API server: `metav1.Status`.

use http::StatusCode;
use serde_json::{Map, Value, json};

use super::kinds::qualified;
use super::target::Target;
use crate::world::User;

/// An error answer.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    pub(super) code: StatusCode,
    /// Reason in machine-readable form.
    reason: &'static str,
    message: String,
    details: Option<Box<Value>>,
    /// Token that continues an expired list.
    resume: Option<String>,
}

impl Failure {
    fn new(code: StatusCode, reason: &'static str, message: impl Into<String>) -> Self {
        Self { code, reason, message: message.into(), details: None, resume: None }
    }

    fn with(self, details: Value) -> Self {
        Self { details: Some(Box::new(details)), ..self }
    }

    pub(super) fn unauthorized() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "Unauthorized", "Unauthorized")
    }

    pub(super) fn forbidden(user: &User, target: &Target) -> Self {
        let name = &user.name;
        let (message, details) = match target {
            Target::Path { verb, path } => {
                (format!("forbidden: User \"{name}\" cannot {verb} path \"{path}\""), Map::new())
            }
            Target::Resource(it) => {
                let whole = qualified(&it.plural, &it.group);
                let which = it.name.as_ref().map(|name| format!(" \"{name}\"")).unwrap_or_default();
                let place = match &it.namespace {
                    Some(namespace) => format!("in the namespace \"{namespace}\""),
                    None => "at the cluster scope".to_owned(),
                };
                let (verb, resource, group) = (&it.verb, it.with_subresource(), &it.group);
                let message = format!(
                    "{whole}{which} is forbidden: User \"{name}\" cannot {verb} resource \"{resource}\" in API group \"{group}\" \
                     {place}"
                );
                (message, object_details(it.name.as_deref(), &it.group, &it.plural))
            }
        };
        Self::new(StatusCode::FORBIDDEN, "Forbidden", message).with(details.into())
    }

    /// The object does not exist.
    pub(super) fn not_found(group: &str, plural: &str, name: &str) -> Self {
        let message = format!("{} \"{name}\" not found", qualified(plural, group));
        let details = object_details(Some(name), group, plural);
        Self::new(StatusCode::NOT_FOUND, "NotFound", message).with(details.into())
    }

    /// The resource type does not exist.
    pub(super) fn unknown() -> Self {
        Self::new(StatusCode::NOT_FOUND, "NotFound", "the server could not find the requested resource").with(json!({}))
    }

    pub(super) fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", message).with(json!({}))
    }

    pub(super) fn not_acceptable() -> Self {
        let message =
            "406: Not Acceptable\n\nAvailable representations: application/json, application/json;stream=watch";
        Self::new(StatusCode::NOT_ACCEPTABLE, "NotAcceptable", message).with(json!({}))
    }

    pub(super) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "BadRequest", message)
    }

    /// The `continue` token has expired; `resume` continues with the current list.
    pub(super) fn expired(resume: String) -> Self {
        let message = "The provided continue parameter is too old to display a consistent list result. You can start a new \
                       list without the continue parameter, or use the continue token in this response to retrieve the \
                       remainder of the results. Continuing with the provided token results in an inconsistent list - objects \
                       that were created, modified, or deleted between the time the first chunk was returned and now may show \
                       up in the list.";
        Self { resume: Some(resume), ..Self::new(StatusCode::GONE, "Expired", message) }
    }

    /// The `resourceVersion` is in the future.
    pub(super) fn too_new(asked: u64, current: u64) -> Self {
        let message = format!("Timeout: Too large resource version: {asked}, current: {current}");
        let cause = json!({"reason": "ResourceVersionTooLarge", "message": "Too large resource version"});
        let details = json!({"causes": [cause], "retryAfterSeconds": 1});
        Self::new(StatusCode::GATEWAY_TIMEOUT, "Timeout", message).with(details)
    }

    /// etcd did not answer within the time limit of a request.
    pub(super) fn timeout() -> Self {
        let message = "Timeout: request did not complete within the allotted duration";
        Self::new(StatusCode::GATEWAY_TIMEOUT, "Timeout", message).with(json!({}))
    }

    pub(super) fn retry_after(&self) -> Option<u64> {
        self.details.as_ref()?.get("retryAfterSeconds")?.as_u64()
    }

    pub(super) fn body(&self) -> Value {
        let metadata = match &self.resume {
            Some(token) => json!({"continue": token}),
            None => json!({}),
        };
        let mut body = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": metadata, "status": "Failure", "message": self.message,
            "reason": self.reason,
        });
        if let Some(details) = &self.details {
            body["details"] = Value::clone(details);
        }
        body["code"] = self.code.as_u16().into();
        body
    }
}

fn object_details(name: Option<&str>, group: &str, plural: &str) -> Map<String, Value> {
    let mut details = Map::new();
    for (key, value) in [("name", name.unwrap_or_default()), ("group", group), ("kind", plural)] {
        if !value.is_empty() {
            details.insert(key.to_owned(), value.into());
        }
    }
    details
}
