//! `/readyz`, `/livez`, `/healthz` and their individual checks.

use std::fmt::Write as _;
use std::time::Duration;

use http::StatusCode;

use super::query::Query;
use super::reply::Reply;

/// Time that an API server waits for etcd before a check fails.
const ETCD_TIMEOUT: Duration = Duration::from_secs(2);

/// Checks that query etcd.
const OF_ETCD: [&str; 2] = ["etcd", "etcd-readiness"];

/// Checks that only `/readyz` has.
const OF_READYZ: [&str; 3] = ["etcd-readiness", "informer-sync", "shutdown"];

/// Checks in the order of Kubernetes 1.35.
const CHECKS: &[&str] = &[
    "ping",
    "log",
    "etcd",
    "etcd-readiness",
    "informer-sync",
    "poststarthook/start-apiserver-admission-initializer",
    "poststarthook/generic-apiserver-start-informers",
    "poststarthook/priority-and-fairness-config-consumer",
    "poststarthook/priority-and-fairness-filter",
    "poststarthook/storage-object-count-tracker-hook",
    "poststarthook/start-apiextensions-informers",
    "poststarthook/start-apiextensions-controllers",
    "poststarthook/crd-informer-synced",
    "poststarthook/start-system-namespaces-controller",
    "poststarthook/start-cluster-authentication-info-controller",
    "poststarthook/start-kube-apiserver-identity-lease-controller",
    "poststarthook/start-kube-apiserver-identity-lease-garbage-collector",
    "poststarthook/start-legacy-token-tracking-controller",
    "poststarthook/start-service-ip-repair-controllers",
    "poststarthook/rbac/bootstrap-roles",
    "poststarthook/scheduling/bootstrap-system-priority-classes",
    "poststarthook/priority-and-fairness-config-producer",
    "poststarthook/bootstrap-controller",
    "poststarthook/start-kubernetes-service-cidr-controller",
    "poststarthook/aggregator-reload-proxy-client-cert",
    "poststarthook/start-kube-aggregator-informers",
    "poststarthook/apiservice-status-local-available-controller",
    "poststarthook/apiservice-status-remote-available-controller",
    "poststarthook/apiservice-registration-controller",
    "poststarthook/apiservice-discovery-controller",
    "poststarthook/kube-apiserver-autoregistration",
    "autoregister-completion",
    "poststarthook/apiservice-openapi-controller",
    "poststarthook/apiservice-openapiv3-controller",
    "shutdown",
];

/// The health endpoints.
const ENDPOINTS: [&str; 3] = ["healthz", "livez", "readyz"];

/// Health of an API server.
pub(super) struct Health<'a> {
    /// Whether its etcd answers consistent reads.
    pub(super) etcd: bool,
    /// Other checks that fail.
    pub(super) failing: &'a [String],
}

impl Health<'_> {
    fn passes(&self, check: &str) -> bool {
        (self.etcd || !OF_ETCD.contains(&check)) && !self.failing.iter().any(|failing| failing == check)
    }

    /// Checks of an endpoint: the standard ones, followed by other checks that are set to fail.
    fn checks(&self, endpoint: &str) -> Vec<&str> {
        let has = |check: &&str| endpoint == "readyz" || !OF_READYZ.contains(check);
        let mut checks: Vec<&str> = CHECKS.iter().copied().filter(has).collect();
        checks.extend(self.failing.iter().map(String::as_str).filter(|check| !CHECKS.contains(check)));
        checks
    }

    /// Returns the answer and the time that it takes, or `None` if the path does not exist.
    pub(super) fn answer(&self, path: &str, query: &Query) -> Option<(Duration, Reply)> {
        let (endpoint, check) = path
            .trim_start_matches('/')
            .split_once('/')
            .map_or_else(|| (path.trim_start_matches('/'), None), |(endpoint, check)| (endpoint, Some(check)));
        if !ENDPOINTS.contains(&endpoint) {
            return None;
        }
        match check {
            None => Some(self.all(endpoint, query)),
            Some(check) if self.checks(endpoint).contains(&check) => Some(self.one(check)),
            Some(_) => None,
        }
    }

    fn all(&self, endpoint: &str, query: &Query) -> (Duration, Reply) {
        let mut excluded: Vec<&str> = query.all("exclude").collect();
        let mut takes = Duration::ZERO;
        let mut passed = true;
        let mut text = String::new();
        for check in self.checks(endpoint) {
            if let Some(index) = excluded.iter().position(|it| *it == check) {
                excluded.remove(index);
                let _ = writeln!(text, "[+]{check} excluded: ok");
            } else if self.passes(check) {
                let _ = writeln!(text, "[+]{check} ok");
            } else {
                // The checks run one after the other.
                takes += if OF_ETCD.contains(&check) && !self.etcd { ETCD_TIMEOUT } else { Duration::ZERO };
                passed = false;
                let _ = writeln!(text, "[-]{check} failed: reason withheld");
            }
        }
        if !excluded.is_empty() {
            let names: Vec<String> = excluded.iter().map(|name| format!("{name:?}")).collect();
            let _ = writeln!(text, "warn: some health checks cannot be excluded: no matches for {}", names.join(", "));
        }
        let reply = match (passed, query.has("verbose")) {
            (true, false) => Reply::text(StatusCode::OK, "ok"),
            (true, true) => Reply::text(StatusCode::OK, format!("{text}{endpoint} check passed\n")),
            (false, _) => Reply::text(StatusCode::INTERNAL_SERVER_ERROR, format!("{text}{endpoint} check failed\n")),
        };
        (takes, reply)
    }

    fn one(&self, check: &str) -> (Duration, Reply) {
        if self.passes(check) {
            return (Duration::ZERO, Reply::text(StatusCode::OK, "ok"));
        }
        let (takes, why) = if OF_ETCD.contains(&check) && !self.etcd {
            (ETCD_TIMEOUT, "error getting data from etcd: context deadline exceeded")
        } else {
            (Duration::ZERO, "not finished")
        };
        (takes, Reply::text(StatusCode::INTERNAL_SERVER_ERROR, format!("internal server error: {why}\n")))
    }
}

/// All paths that are answered here.
pub(super) fn paths() -> impl Iterator<Item = String> {
    let health = Health { etcd: true, failing: &[] };
    ENDPOINTS.into_iter().flat_map(move |endpoint| {
        let checks: Vec<String> = health.checks(endpoint).into_iter().map(|it| format!("/{endpoint}/{it}")).collect();
        std::iter::once(format!("/{endpoint}")).chain(checks)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(etcd: bool, failing: &[&str], path: &str, query: &str) -> (Duration, u16, String) {
        let failing: Vec<String> = failing.iter().map(|&name| name.to_owned()).collect();
        let (takes, reply) = Health { etcd, failing: &failing }.answer(path, &Query::of(Some(query))).unwrap();
        (takes, reply.status.as_u16(), String::from_utf8(reply.body.to_vec()).unwrap())
    }

    #[test]
    fn a_ready_server_says_little() {
        assert_eq!(ask(true, &[], "/readyz", ""), (Duration::ZERO, 200, "ok".to_owned()));
        let (_, status, text) = ask(true, &[], "/readyz", "verbose");
        assert_eq!((status, text.lines().count()), (200, 36));
        assert!(text.starts_with("[+]ping ok\n[+]log ok\n[+]etcd ok\n[+]etcd-readiness ok\n"));
        assert!(text.ends_with("[+]shutdown ok\nreadyz check passed\n"));
        let (_, _, text) = ask(true, &[], "/livez", "verbose");
        assert!(!text.contains("shutdown") && text.ends_with("livez check passed\n"));
    }

    #[test]
    fn without_etcd_both_checks_fail_one_after_the_other() {
        let (takes, status, text) = ask(false, &[], "/readyz", "");
        assert_eq!((takes, status), (Duration::from_secs(4), 500));
        assert!(text.contains("\n[-]etcd failed: reason withheld\n[-]etcd-readiness failed: reason withheld\n[+]inf"));
        let (takes, status, text) = ask(false, &[], "/livez", "verbose");
        assert_eq!((takes, status), (Duration::from_secs(2), 500));
        assert!(text.ends_with("livez check failed\n") && !text.contains("etcd-readiness"));
        let (takes, status, text) = ask(false, &[], "/readyz/etcd", "");
        assert_eq!((takes, status), (Duration::from_secs(2), 500));
        assert_eq!(text, "internal server error: error getting data from etcd: context deadline exceeded\n");
        let (takes, status, _) = ask(false, &[], "/readyz", "exclude=etcd&exclude=etcd-readiness");
        assert_eq!((takes, status), (Duration::ZERO, 200));
    }

    #[test]
    fn anything_can_fail_and_be_left_out() {
        let (takes, status, text) = ask(true, &["shutdown", "mine"], "/readyz", "");
        assert_eq!((takes, status), (Duration::ZERO, 500));
        assert!(text.contains("[-]shutdown failed: reason withheld\n[-]mine failed: reason withheld\n"));
        let (_, _, text) = ask(true, &[], "/readyz", "verbose&exclude=nope");
        let end = "warn: some health checks cannot be excluded: no matches for \"nope\"\nreadyz check passed\n";
        assert!(text.ends_with(end));
        let health = Health { etcd: true, failing: &[] };
        for path in ["/readyz/nope", "/readyz/", "/livez/shutdown", "/version"] {
            assert!(health.answer(path, &Query::of(None)).is_none(), "{path}");
        }
    }
}
