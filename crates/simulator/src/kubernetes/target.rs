//! The target of a request, derived from method and path, as an API server does before anything else.

use std::borrow::Cow;

use http::Method;

use super::query::Query;

/// The target of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// `/readyz`, `/version`, `/apis/apps`
    Path {
        verb: String,
        path: String,
    },
    Resource(Resource),
}

/// Objects, or a part of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Resource {
    pub(super) verb: Cow<'static, str>,
    pub(super) group: String,
    pub(super) version: String,
    pub(super) namespace: Option<String>,
    pub(super) plural: String,
    pub(super) name: Option<String>,
    /// `status`, `log`
    pub(super) subresource: Option<String>,
}

impl Target {
    /// Returns the target as the API server authorizes it: a list of one name only needs a right to that name.
    pub(super) fn named_by(&self, query: &Query) -> Cow<'_, Self> {
        let mut terms = query.get("fieldSelector").unwrap_or_default().split(',');
        let name = terms.find_map(|term| term.strip_prefix("metadata.name="));
        match (self, name) {
            (Self::Resource(resource), Some(name)) if resource.verb == "list" => {
                let name = Some(name.trim_start_matches('=').to_owned());
                Cow::Owned(Self::Resource(Resource { name, ..resource.clone() }))
            }
            _ => Cow::Borrowed(self),
        }
    }

    pub(super) fn of(method: &Method, path: &str, watches: bool) -> Self {
        resource(method, path, watches)
            .map_or_else(|| Self::Path { verb: method.as_str().to_lowercase(), path: path.to_owned() }, Self::Resource)
    }
}

fn resource(method: &Method, path: &str, watches: bool) -> Option<Resource> {
    let mut parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    let (group, version) = match parts[..] {
        ["api", version, _, ..] => ("", version),
        ["apis", group, version, _, ..] => (group, version),
        _ => return None,
    };
    parts.drain(..if group.is_empty() { 2 } else { 3 });
    let mut namespace = None;
    if let ["namespaces", name, rest @ ..] = &parts[..] {
        namespace = Some((*name).to_owned());
        // A namespace belongs to itself.
        if !matches!(rest, [] | ["status" | "finalize", ..]) {
            parts.drain(..2);
        }
    }
    let mut parts = parts.into_iter().map(str::to_owned);
    let plural = parts.next()?;
    let name = parts.next();
    let subresource = parts.next();
    let verb = match (method, &name) {
        (&Method::POST, _) => "create",
        (&Method::PUT, _) => "update",
        (&Method::PATCH, _) => "patch",
        (&Method::DELETE, Some(_)) => "delete",
        (&Method::DELETE, None) => "deletecollection",
        (&Method::GET | &Method::HEAD, _) if watches => "watch",
        (&Method::GET | &Method::HEAD, Some(_)) => "get",
        (&Method::GET | &Method::HEAD, None) => "list",
        _ => "",
    };
    Some(Resource {
        verb: verb.into(),
        group: group.to_owned(),
        version: version.to_owned(),
        namespace,
        plural,
        name,
        subresource,
    })
}

impl Resource {
    /// `pods/log`
    pub(super) fn with_subresource(&self) -> String {
        match &self.subresource {
            Some(subresource) => format!("{}/{subresource}", self.plural),
            None => self.plural.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(path: &str) -> Target {
        Target::of(&Method::GET, path, false)
    }

    /// Verb, group, namespace, resource and name.
    fn seen(path: &str) -> [String; 5] {
        match target(path) {
            Target::Resource(it) => {
                let resource = it.with_subresource();
                [it.verb.into(), it.group, it.namespace.unwrap_or_default(), resource, it.name.unwrap_or_default()]
            }
            path @ Target::Path { .. } => panic!("{path:?}"),
        }
    }

    #[test]
    fn paths_are_read_as_the_real_one_reads_them() {
        assert_eq!(seen("/api/v1/nodes"), ["list", "", "", "nodes", ""]);
        assert_eq!(seen("/api/v1/nodes/"), ["list", "", "", "nodes", ""]);
        assert_eq!(
            seen("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"),
            ["list", "coordination.k8s.io", "kube-system", "leases", ""]
        );
        assert_eq!(seen("/api/v1/namespaces/a"), ["get", "", "a", "namespaces", "a"]);
        assert_eq!(seen("/api/v1/namespaces"), ["list", "", "", "namespaces", ""]);
        assert_eq!(seen("/api/v1/namespaces/a/pods/b/log"), ["get", "", "a", "pods/log", "b"]);
        for path in ["/", "/readyz/etcd", "/api", "/api/v1", "/apis/apps", "/apis/apps/v1"] {
            assert_eq!(target(path), Target::Path { verb: "get".into(), path: path.into() });
        }
    }
}
