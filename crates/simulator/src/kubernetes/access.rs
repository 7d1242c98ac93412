//! Authentication and authorization.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use rustls::RootCertStore;
use rustls::pki_types::{CertificateDer, UnixTime, pem::PemObject as _};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;

use super::failure::Failure;
use super::target::{Resource, Target};
use crate::net::Peer;
use crate::pki::{Authority, provider};
use crate::world::{Kubernetes, Rule, User, World};

/// Verifies client certificates against the cluster's CA.
pub(super) fn verifier(authority: &Authority) -> anyhow::Result<Arc<dyn ClientCertVerifier>> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.pem().as_bytes()).context("cannot read a certificate")?)?;
    Ok(WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider()).build()?)
}

/// Returns the user of a request, or 401.
pub(super) fn authenticate(
    world: &World,
    clients: &dyn ClientCertVerifier,
    peer: &Peer,
    headers: &HeaderMap,
) -> Result<User, Failure> {
    let kubernetes = &world.kubernetes;
    let (name, groups) = if let [leaf, intermediates @ ..] = &peer.chain[..] {
        let now = u64::try_from(world.now().as_second()).unwrap_or_default();
        let now = UnixTime::since_unix_epoch(Duration::from_secs(now));
        clients.verify_client_cert(leaf, intermediates, now).map_err(|_| Failure::unauthorized())?;
        (peer.common_name.clone(), peer.organizations.clone())
    } else if let Some(token) = bearer(headers) {
        let user = kubernetes.tokens.get(token).ok_or_else(Failure::unauthorized)?;
        (user.name.clone(), user.groups.clone())
    } else if kubernetes.anonymous {
        let groups = vec!["system:unauthenticated".to_owned()];
        return Ok(User { name: "system:anonymous".to_owned(), groups });
    } else {
        return Err(Failure::unauthorized());
    };
    let mut user = User { name, groups };
    user.groups.push("system:authenticated".to_owned());
    impersonated(user, headers)
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    headers.get(AUTHORIZATION)?.to_str().ok()?.strip_prefix("Bearer ")
}

/// Handles `kubectl --as`, which only members of `system:masters` may use here.
fn impersonated(user: User, headers: &HeaderMap) -> Result<User, Failure> {
    let named = |header: &str| -> Vec<String> {
        headers.get_all(header).iter().filter_map(|value| value.to_str().ok()).map(str::to_owned).collect()
    };
    let Some(name) = named("impersonate-user").into_iter().next() else { return Ok(user) };
    if !is_master(&user) {
        let target = Resource {
            verb: "impersonate".into(),
            plural: "users".to_owned(),
            name: Some(name),
            ..Resource::default()
        };
        return Err(Failure::forbidden(&user, &Target::Resource(target)));
    }
    let mut groups = named("impersonate-group");
    groups.push("system:authenticated".to_owned());
    Ok(User { name, groups })
}

pub(super) fn is_master(user: &User) -> bool {
    user.groups.iter().any(|group| group == "system:masters")
}

/// Paths that every user can read: `system:discovery`, and `system:public-info-viewer` even without credentials.
const DISCOVERY: &[&str] = &["/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*"];
const PUBLIC: &[&str] = &["/healthz", "/livez", "/readyz", "/version", "/version/"];
/// `system:basic-user`
const REVIEWS: &[(&str, &[&str])] = &[
    ("authentication.k8s.io", &["selfsubjectreviews"]),
    ("authorization.k8s.io", &["selfsubjectaccessreviews", "selfsubjectrulesreviews"]),
];

/// The rules that apply to a user.
pub(super) fn rules(kubernetes: &Kubernetes, user: &User) -> Vec<Rule> {
    let owned = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
    let urls = |urls: &[&str]| Rule { verbs: owned(&["get"]), non_resource_urls: owned(urls), ..Rule::default() };
    if is_master(user) {
        let any = || owned(&["*"]);
        let resources = Rule { api_groups: any(), resources: any(), verbs: any(), ..Rule::default() };
        return vec![resources, Rule { verbs: any(), non_resource_urls: any(), ..Rule::default() }];
    }
    let mut rules = vec![urls(PUBLIC)];
    if user.groups.iter().any(|group| group == "system:authenticated") {
        rules.push(urls(DISCOVERY));
        rules.extend(REVIEWS.iter().map(|(group, plurals)| Rule {
            api_groups: owned(&[group]),
            resources: owned(plurals),
            verbs: owned(&["create"]),
            ..Rule::default()
        }));
        rules.extend(kubernetes.reader.iter().cloned());
    }
    rules
}

/// Whether a user may do this.
pub(super) fn allows(kubernetes: &Kubernetes, user: &User, target: &Target) -> bool {
    rules(kubernetes, user).iter().any(|rule| covers(rule, target))
}

fn covers(rule: &Rule, target: &Target) -> bool {
    let any_of = |words: &[String], word: &str| words.iter().any(|it| it == "*" || it == word);
    match target {
        Target::Path { verb, path } => {
            let fits = |url: &String| match url.strip_suffix('*') {
                Some(beginning) => path.starts_with(beginning),
                None => url == path,
            };
            any_of(&rule.verbs, verb) && rule.non_resource_urls.iter().any(fits)
        }
        Target::Resource(resource) => {
            any_of(&rule.verbs, &resource.verb)
                && any_of(&rule.api_groups, &resource.group)
                && any_of(&rule.resources, &resource.with_subresource())
                && (rule.resource_names.is_empty()
                    || resource.name.as_ref().is_some_and(|name| rule.resource_names.contains(name)))
        }
    }
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;

    fn user(groups: &[&str]) -> User {
        User { name: "somebody".to_owned(), groups: groups.iter().map(|&group| group.to_owned()).collect() }
    }

    #[test]
    fn a_rule_covers_what_it_names() {
        let kubernetes = Kubernetes {
            reader: vec![Rule {
                api_groups: vec![String::new()],
                resources: vec!["pods".to_owned(), "nodes".to_owned()],
                resource_names: Vec::new(),
                verbs: vec!["list".to_owned()],
                non_resource_urls: Vec::new(),
            }],
            ..Kubernetes::default()
        };
        let may =
            |groups: &[&str], path: &str| allows(&kubernetes, &user(groups), &Target::of(&Method::GET, path, false));
        let reader = &["system:authenticated"][..];
        assert!(may(reader, "/api/v1/nodes"));
        assert!(may(reader, "/api/v1/namespaces/default/pods"));
        assert!(!may(reader, "/api/v1/nodes/cp-1"));
        assert!(!may(reader, "/api/v1/namespaces/default/pods/x/log"));
        assert!(!may(reader, "/apis/apps/v1/deployments"));
        assert!(may(reader, "/readyz") && may(reader, "/apis/apps/v1"));
        assert!(!may(reader, "/readyz/etcd") && !may(reader, "/metrics"));
        assert!(may(&["system:masters"], "/readyz/etcd") && may(&["system:masters"], "/api/v1/secrets"));
        assert!(may(&["system:unauthenticated"], "/version"));
        assert!(!may(&["system:unauthenticated"], "/api") && !may(&["system:unauthenticated"], "/api/v1/nodes"));
    }
}
