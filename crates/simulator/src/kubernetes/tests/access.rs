//! Authentication and authorization.

use k8s_openapi::api::authorization::v1::{ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec};
use kube::api::{Api, PostParams};

use super::{Http, kube_as, simulator, simulator_of};
use crate::pki::Flaw;
use crate::world::User;

const UNAUTHORIZED: &str = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Unauthorized","reason":"Unauthorized","code":401}"#;

#[tokio::test]
async fn bad_certificates_and_tokens_are_401_whatever_is_asked() {
    let simulator = simulator_of(|world| world.kubernetes.anonymous = true);
    let pki = simulator.pki();
    let leaves = [
        pki.foreign.client("admin", &["system:masters"], Flaw::None).unwrap(),
        pki.kubernetes.client("admin", &["system:masters"], Flaw::Expired).unwrap(),
        pki.kubernetes.client("admin", &["system:masters"], Flaw::NotYetValid).unwrap(),
        pki.kubernetes.client("admin", &["system:masters"], Flaw::WithoutClientAuth).unwrap(),
    ];
    for leaf in &leaves {
        let http = Http::with(&simulator, Some(leaf));
        for path in ["/readyz", "/api/v1/nodes", "/version"] {
            let seen = http.get(path).await;
            assert_eq!((seen.status, seen.body.trim_end()), (401, UNAUTHORIZED), "{path}");
        }
    }
    let http = Http::with(&simulator, None);
    assert_eq!(Http::send(http.request("/readyz").bearer_auth("bad")).await.status, 401);
}

#[tokio::test]
async fn nobody_is_let_in_only_where_anonymous_access_is_on() {
    let simulator = simulator();
    let http = Http::with(&simulator, None);
    for path in ["/readyz?verbose", "/version", "/api/v1/nodes"] {
        assert_eq!(http.get(path).await.status, 401, "{path}");
    }
    simulator.change(|world| world.kubernetes.anonymous = true);
    assert_eq!(http.get("/readyz?verbose").await.status, 200);
    assert_eq!(http.get("/version").await.status, 200);
    let refused = http.get("/api/v1/nodes").await;
    let expected = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"nodes is forbidden: User \"system:anonymous\" cannot list resource \"nodes\" in API group \"\" at the cluster scope","reason":"Forbidden","details":{"kind":"nodes"},"code":403}"#;
    assert_eq!((refused.status, refused.body.trim_end()), (403, expected));
    let refused = http.get("/readyz/etcd").await;
    let expected = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"forbidden: User \"system:anonymous\" cannot get path \"/readyz/etcd\"","reason":"Forbidden","details":{},"code":403}"#;
    assert_eq!((refused.status, refused.body.trim_end()), (403, expected));
}

#[tokio::test]
async fn the_reader_may_what_its_rules_say() {
    let simulator = simulator_of(|world| {
        let user = User { name: "system:serviceaccount:kube-system:x".to_owned(), groups: Vec::new() };
        world.kubernetes.tokens.insert("a-token".to_owned(), user);
    });
    let http = Http::reader(&simulator);
    let allowed = [
        "/readyz",
        "/api/v1/nodes",
        "/api/v1/namespaces/kube-system/pods",
        "/apis/apps/v1/namespaces/kube-system/daemonsets",
        "/apis/apps/v1/namespaces/kube-system/deployments",
        "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases",
        "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices",
    ];
    for path in allowed {
        assert_eq!(http.get(path).await.status, 200, "{path}");
    }
    let refused = http.get("/api/v1/namespaces/kube-system/secrets").await.json();
    let message = "secrets is forbidden: User \"reader\" cannot list resource \"secrets\" in API group \"\" in the namespace \"kube-system\"";
    assert_eq!(refused["message"], message);
    let refused = http.get("/apis/apps/v1/namespaces/a/replicasets/b").await.json();
    let message = "replicasets.apps \"b\" is forbidden: User \"reader\" cannot get resource \"replicasets\" in API group \"apps\" in the namespace \"a\"";
    assert_eq!(refused["message"], message);
    assert_eq!(refused["details"], serde_json::json!({"name": "b", "group": "apps", "kind": "replicasets"}));
    let http = Http::with(&simulator, None);
    assert_eq!(Http::send(http.request("/api/v1/nodes").bearer_auth("a-token")).await.status, 200);
    assert_eq!(Http::send(http.request("/api/v1/services").bearer_auth("a-token")).await.status, 403);
    simulator.change(|world| world.kubernetes.reader.clear());
    assert_eq!(Http::send(http.request("/api/v1/nodes").bearer_auth("a-token")).await.status, 403);
}

#[tokio::test]
async fn a_user_can_ask_what_they_may() {
    let simulator = simulator();
    let may = async |user: &str, verb: &str| {
        let reviews = Api::<SelfSubjectAccessReview>::all(kube_as(&simulator, user).await);
        let resource = ResourceAttributes {
            verb: Some(verb.to_owned()),
            resource: Some("nodes".to_owned()),
            ..ResourceAttributes::default()
        };
        let spec = SelfSubjectAccessReviewSpec { resource_attributes: Some(resource), ..Default::default() };
        let review = SelfSubjectAccessReview { spec, ..SelfSubjectAccessReview::default() };
        reviews.create(&PostParams::default(), &review).await.unwrap().status.unwrap().allowed
    };
    assert!(may("reader", "list").await);
    assert!(!may("reader", "delete").await);
    assert!(may("admin", "delete").await);
}
