//! Extensions registered with the API server, which it calls before it answers: admission webhooks and aggregated APIs.

use std::collections::{BTreeMap, BTreeSet};

use futures::future::join_all;

use super::lists::Kept;
use super::wire::admission;
use super::wire::aggregation::APIService;
use super::wire::definition::CustomResourceDefinition;
use super::wire::meta::LabelSelector;
use super::{KubeClient, wanted};
use crate::model::Fact;
use crate::snapshot::{
    ApiService, Condition, Gap, GapKind, Observed, Requirement, ServiceEndpoint, Webhook, WebhookRule, badness,
};
use crate::text::is_label;
use crate::text::sanitize::without_secrets;

/// Validating webhooks, mutating webhooks, conversion webhooks, and the endpoints of their Services.
pub(super) type Webhooks = (
    Observed<Vec<Webhook>>,
    Observed<Vec<Webhook>>,
    Observed<Vec<Webhook>>,
    BTreeMap<(String, String), Observed<Vec<ServiceEndpoint>>>,
);

impl KubeClient {
    /// Reads all kinds of webhooks, and then the endpoints of their Services, all at once.
    pub(super) async fn webhooks(&self, facts: &BTreeSet<Fact>) -> Webhooks {
        let validating = async { Ok(self.everywhere::<Validating>().await?.into_iter().flat_map(|it| it.0).collect()) };
        let mutating = async { Ok(self.everywhere::<Mutating>().await?.into_iter().flat_map(|it| it.0).collect()) };
        let (validating, mutating, conversions): (Observed<Vec<Webhook>>, Observed<Vec<Webhook>>, _) = tokio::join!(
            wanted(facts, Fact::ValidatingWebhooks, validating),
            wanted(facts, Fact::MutatingWebhooks, mutating),
            wanted(facts, Fact::Conversions, Box::pin(self.conversions())),
        );
        let hooks = validating.iter().chain(&mutating).chain(&conversions).flatten();
        let services: BTreeSet<_> = hooks.filter_map(|hook| hook.service.clone()).collect();
        let endpoints = services.into_iter().map(async |service| {
            let (namespace, name) = &service;
            let endpoints = wanted(facts, Fact::WebhookEndpoints, self.endpoints_of(namespace, name)).await;
            (service, endpoints)
        });
        let endpoints = join_all(endpoints).await.into_iter().collect();
        (validating, mutating, conversions, endpoints)
    }

    /// Reads the conversion webhooks once in a run, or again if the next answer may be different.
    async fn conversions(&self) -> Observed<Vec<Webhook>> {
        if let Some(known) = self.conversions.get() {
            return known.clone();
        }
        let read = self.everywhere::<Option<Webhook>>().await;
        let read = read.map(|all| all.into_iter().flatten().collect::<Vec<_>>());
        if read.is_ok() || read.as_ref().is_err_and(|gap| gap.kind == GapKind::TooLarge) {
            let _ = self.conversions.set(read.clone());
        }
        read
    }

    /// Reads aggregated APIs, and then the endpoints behind those that are not available.
    pub(super) async fn api_services(&self) -> Observed<Vec<ApiService>> {
        let mut services: Vec<ApiService> = self.everywhere().await?;
        // Several versions of an API have one Service.
        let unavailable = services.iter().filter(|it| !it.is_available()).filter_map(|it| it.service.clone());
        let unavailable: BTreeSet<(String, String)> = unavailable.collect();
        let backends = unavailable.into_iter().map(async |service| {
            let backends = self.endpoints_of(&service.0, &service.1).await;
            (service, backends)
        });
        let backends: BTreeMap<_, _> = join_all(backends).await.into_iter().collect();
        for it in services.iter_mut().filter(|it| !it.is_available()) {
            if let Some(read) = it.service.as_ref().and_then(|service| backends.get(service)) {
                it.backends.clone_from(read);
            }
        }
        Ok(services)
    }

    /// Returns the endpoints of a Service that another object names. No Service has a name that is not a label, so it has no endpoints.
    async fn endpoints_of(&self, namespace: &str, service: &str) -> Observed<Vec<ServiceEndpoint>> {
        if !is_label(namespace) || !is_label(service) {
            return Ok(Vec::new());
        }
        self.endpoints(namespace, service).await
    }
}

#[derive(Debug)]
struct Validating(Vec<Webhook>);
#[derive(Debug)]
struct Mutating(Vec<Webhook>);

/// Implements both kinds of webhook configuration, which have the same fields.
macro_rules! webhooks {
    ($kept:ident, $object:ident) => {
        impl Kept for $kept {
            type Object = admission::$object;

            fn of(object: Self::Object) -> Self {
                let configuration = object.metadata.name.unwrap_or_default();
                let webhook = |it: admission::Webhook| Webhook {
                    configuration: configuration.clone(),
                    name: it.name,
                    // The API server's default is to fail.
                    fails_closed: it.failure_policy.as_deref() != Some("Ignore"),
                    service: it.client_config.service.map(|it| (it.namespace, it.name)),
                    rules: rules(it.rules.unwrap_or_default(), it.match_policy.as_deref() == Some("Exact")),
                    namespaces: requirements(it.namespace_selector),
                    objects: requirements(it.object_selector),
                    is_conditional: it.match_conditions.is_some_and(|conditions| !conditions.is_empty()),
                };
                Self(object.webhooks.unwrap_or_default().into_iter().map(webhook).collect())
            }
        }
    };
}

webhooks!(Validating, ValidatingWebhookConfiguration);
webhooks!(Mutating, MutatingWebhookConfiguration);

/// The conversion webhook of a definition; `None` if there is no conversion, or the API server does it itself.
impl Kept for Option<Webhook> {
    type Object = CustomResourceDefinition;

    // A definition contains about a hundred kilobytes of schemas, and at most 1.5 MiB.
    const MOST: usize = 4000;
    const OF_PAGE: u32 = 20;

    fn of(object: CustomResourceDefinition) -> Self {
        let conversion = object.spec?.conversion.filter(|conversion| conversion.strategy == "Webhook")?;
        let config = conversion.webhook.unwrap_or_default().client_config;
        Some(Webhook {
            configuration: object.metadata.name.unwrap_or_default(),
            name: "conversion".to_owned(),
            fails_closed: true,
            service: config.service.map(|it| (it.namespace, it.name)),
            rules: Vec::new(),
            namespaces: Vec::new(),
            objects: Vec::new(),
            is_conditional: false,
        })
    }
}

/// Keeps the rules that match requests in version v1, which Kubernetes itself sends. Unless a webhook matches exactly, the API server converts
/// requests to the versions of its rules.
fn rules(rules: Vec<admission::RuleWithOperations>, are_exact: bool) -> Vec<WebhookRule> {
    let names_v1 = |rule: &admission::RuleWithOperations| {
        rule.api_versions.iter().flatten().any(|version| matches!(version.as_str(), "v1" | "*"))
    };
    let rule = |rule: admission::RuleWithOperations| WebhookRule {
        groups: rule.api_groups.unwrap_or_default(),
        resources: rule.resources.unwrap_or_default(),
        operations: rule.operations.unwrap_or_default(),
        scope: rule.scope.unwrap_or_else(|| "*".to_owned()),
    };
    rules.into_iter().filter(|it| !are_exact || names_v1(it)).map(rule).collect()
}

pub(super) fn requirements(selector: Option<LabelSelector>) -> Vec<Requirement> {
    let selector = selector.unwrap_or_default();
    let labels = selector.match_labels.unwrap_or_default().into_iter();
    let labels = labels.map(|(key, value)| Requirement { key, operator: "In".to_owned(), values: vec![value] });
    let expressions = selector.match_expressions.unwrap_or_default().into_iter();
    let expressions =
        expressions.map(|it| Requirement { key: it.key, operator: it.operator, values: it.values.unwrap_or_default() });
    labels.chain(expressions).collect()
}

impl Kept for ApiService {
    type Object = APIService;

    fn of(object: APIService) -> Self {
        let conditions = object.status.and_then(|status| status.conditions).unwrap_or_default();
        let told = conditions.into_iter().filter(|condition| condition.type_ == "Available");
        let available = told.max_by_key(|condition| badness(&condition.status, "True"));
        Self {
            name: object.metadata.name.unwrap_or_default(),
            service: object
                .spec
                .and_then(|spec| spec.service)
                .map(|it| (it.namespace.unwrap_or_default(), it.name.unwrap_or_default())),
            backends: Err(Gap::not_asked()),
            available: available.map(|condition| Condition {
                kind: condition.type_,
                status: condition.status,
                reason: condition.reason.unwrap_or_default(),
                message: condition.message.as_deref().map(without_secrets).unwrap_or_default(),
                since: None,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_webhook_fails_closed_unless_it_says_otherwise() {
        for (policy, closed) in [(json!(null), true), (json!("Fail"), true), (json!("Ignore"), false)] {
            let hooks = Validating::of(
                serde_json::from_value(json!({
                    "metadata": {"name": "policy"},
                    "webhooks": [{
                        "name": "pods.example.com", "failurePolicy": policy, "sideEffects": "None",
                        "admissionReviewVersions": ["v1"],
                        "clientConfig": {"service": {"namespace": "policy", "name": "hook", "path": "/"}, "caBundle": "Cg=="},
                        "namespaceSelector": {
                            "matchLabels": {"a": "b"},
                            "matchExpressions": [{"key": "c", "operator": "DoesNotExist"}],
                        },
                        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
                    }],
                }))
                .unwrap(),
            );
            let [hook] = hooks.0.as_slice() else { panic!("{policy}") };
            assert_eq!((hook.configuration.as_str(), hook.fails_closed), ("policy", closed));
            assert_eq!(hook.service, Some(("policy".to_owned(), "hook".to_owned())));
            assert_eq!((hook.namespaces.len(), hook.objects.len(), hook.is_conditional), (2, 0, false));
            assert_eq!(hook.rules[0].scope, "*");
        }
    }

    #[test]
    fn a_webhook_that_matches_exactly_is_asked_about_its_versions_alone() {
        for (policy, version, kept) in [("Exact", "v1beta1", 0), ("Exact", "v1", 1), ("Equivalent", "v1beta1", 1)] {
            let rule = json!({"apiGroups": ["coordination.k8s.io"], "apiVersions": [version], "operations": ["*"], "resources": ["leases"]});
            let hooks = Validating::of(
                serde_json::from_value(json!({
                    "webhooks": [{
                        "name": "leases.example.com", "matchPolicy": policy, "sideEffects": "None",
                        "admissionReviewVersions": ["v1"], "clientConfig": {}, "rules": [rule],
                    }],
                }))
                .unwrap(),
            );
            assert_eq!(hooks.0[0].rules.len(), kept, "{policy} {version}");
        }
    }

    #[test]
    fn a_definition_keeps_its_conversion_webhook() {
        let of = |conversion: serde_json::Value| {
            let spec = json!({"group": "example.com", "versions": [{"name": "v1", "schema": {"a": []}}], "conversion": conversion});
            let object = json!({"metadata": {"name": "things.example.com"}, "spec": spec});
            Option::<Webhook>::of(serde_json::from_value(object).unwrap())
        };
        for none in [json!(null), json!({"strategy": "None"}), json!({})] {
            assert_eq!(of(none.clone()), None, "{none}");
        }
        let config = json!({"service": {"namespace": "a", "name": "b", "path": "/convert"}, "caBundle": "Cg=="});
        let webhook = json!({"clientConfig": config, "conversionReviewVersions": ["v1"]});
        let hook = of(json!({"strategy": "Webhook", "webhook": webhook})).unwrap();
        assert_eq!(
            (hook.configuration.as_str(), hook.service),
            ("things.example.com", Some(("a".to_owned(), "b".to_owned())))
        );
        let by_url = json!({"strategy": "Webhook", "webhook": {"clientConfig": {"url": "https://192.0.2.1/"}}});
        assert_eq!(of(by_url).unwrap().service, None);
        assert_eq!(of(json!({"strategy": "Webhook"})).unwrap().service, None);
    }

    #[test]
    fn an_api_of_the_api_server_itself_is_local() {
        let of = |spec: serde_json::Value| {
            let condition =
                json!({"type": "Available", "status": "False", "reason": "MissingEndpoints", "message": "no"});
            // If a condition appears several times, the worst one counts.
            let good = json!({"type": "Available", "status": "True"});
            let object = json!({
                "metadata": {"name": "v1beta1.metrics.k8s.io"}, "spec": spec,
                "status": {"conditions": [good, condition, good]},
            });
            ApiService::of(serde_json::from_value(object).unwrap())
        };
        let base = json!({"groupPriorityMinimum": 100, "versionPriority": 100});
        assert_eq!(of(base.clone()).service, None);
        let mut remote = base;
        remote["service"] = json!({"namespace": "kube-system", "name": "metrics-server"});
        let remote = of(remote);
        assert_eq!(remote.service, Some(("kube-system".to_owned(), "metrics-server".to_owned())));
        assert_eq!(remote.available.unwrap().reason, "MissingEndpoints");
    }
}
