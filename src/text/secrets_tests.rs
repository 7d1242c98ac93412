//! Secrets as they stand in the texts of services, and texts that only look like them.

use crate::text::sanitize::{clean, log_lines, without_secrets};

/// Characters of a token, not the same twice in a row and none that a test could find elsewhere. Made here, so that no scanner takes
/// this file for a leak.
fn random(length: usize, alphabet: &str) -> String {
    let letters: Vec<char> = alphabet.chars().collect();
    (0..length).map(|n| letters[(n * n * 7 + n * 13 + 5) % letters.len()]).collect()
}

const BASE62: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
const LOWER: &str = "abcdefghijklmnopqrstuvwxyz0123456789";
const UPPER: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
const BASE64: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const HEX: &str = "0123456789abcdef";

/// The secret, and sentences around it.
pub(crate) fn secrets() -> Vec<(String, String)> {
    let mut all = Vec::new();
    let mut add = |secret: String, sentence: &str| all.push((secret.clone(), sentence.replace("{}", &secret)));
    // Tokens by their prefixes, wherever they stand.
    for (prefix, length, alphabet) in [
        ("ghp_", 36, BASE62),
        ("gho_", 36, BASE62),
        ("ghu_", 36, BASE62),
        ("ghs_", 36, BASE62),
        ("ghr_", 36, BASE62),
        ("ghp_", 16, BASE62),
        ("github_pat_", 82, BASE62),
        ("glpat-", 20, BASE62),
        ("glrt-", 20, BASE62),
        ("gldt-", 20, BASE62),
        ("glptt-", 40, HEX),
        ("xoxb-", 50, BASE62),
        ("xoxp-", 70, BASE62),
        ("xoxa-", 40, BASE62),
        ("xoxr-", 40, BASE62),
        ("xoxs-", 40, BASE62),
        ("xapp-1-", 60, BASE62),
        ("sk_live_", 24, BASE62),
        ("rk_live_", 24, BASE62),
        ("hvs.", 24, BASE62),
        ("hvb.", 90, BASE62),
        ("s.", 24, BASE62),
        ("AKIA", 16, UPPER),
        ("ASIA", 16, UPPER),
        ("AIza", 35, BASE62),
        ("ya29.", 60, BASE62),
        ("npm_", 36, BASE62),
        ("pypi-", 80, BASE62),
        ("dop_v1_", 64, HEX),
        ("shpat_", 32, HEX),
        ("SG.", 66, BASE62),
        ("dckr_pat_", 27, BASE62),
        ("hf_", 34, BASE62),
        ("glsa_", 32, BASE62),
        ("tskey-auth-", 30, BASE62),
        ("sk-ant-", 40, BASE62),
        ("sntrys_", 40, BASE62),
        ("AGE-SECRET-KEY-1", 58, UPPER),
        ("dapi", 32, HEX),
        ("sk-", 48, BASE62),
    ] {
        let token = format!("{prefix}{}", random(length, alphabet));
        for sentence in [
            "failed to fetch https://h.example/a: 401 for {}",
            "config: unknown value '{}' at line 3",
            "GET /v1?key={}&x=1 failed",
            "[{}] rejected.",
        ] {
            add(token.clone(), sentence);
        }
    }
    let jwt = format!("eyJ{}.eyJ{}.{}", random(33, BASE62), random(60, BASE62), random(43, BASE62));
    add(jwt, "webhook refused {}: expired");
    let bootstrap = format!("{}.{}", random(6, LOWER), random(16, LOWER));
    add(bootstrap.clone(), "kubeadm join 10.0.0.1:6443 with {} failed");
    add(bootstrap, "trustd: invalid join value {}");
    // Whatever has a name.
    for sentence in [
        "login failed: pass={}",
        "login failed: password={}, trying again",
        "env PGPASSWORD={} psql: exit 2",
        "MYSQL_PWD={} refused",
        "invalid token={} in request",
        "client_secret={}&grant_type=x",
        "apikey={} is not known",
        "api_key=\"{}\" is not known",
        "X-Api-Key: {}",
        "session={}; path=/",
        "AccountName=a;AccountKey={};EndpointSuffix=x",
        "AWS_SECRET_ACCESS_KEY={}",
        "Authorization: Basic {}",
        "authorization=Bearer {}",
        r#"{"auths":{"r.example":{"username":"u","password":"{}"}}}"#,
        "retrying with --password {}",
        "curl -u admin:{} https://h.example",
    ] {
        add("hunter2-Tr0ub4dor".to_owned(), sentence);
    }
    // Passwords in addresses.
    for sentence in [
        "dial postgres://app:{}@db.example:5432/app: refused",
        "mongodb+srv://app:{}@c.example/x?retryWrites=true failed",
        "redis://:{}@10.0.0.1:6379 timed out",
        "amqp://u:{}@mq:5672 closed",
        "mysql: app:{}@tcp(db.example:3306)/app: bad connection",
        "proxy http://u:{}@10.0.0.1:3128/ refused",
        "git clone https://x-access-token:{}@github.example/a/b failed",
    ] {
        add("hunter2_Tr0ub4dor".to_owned(), sentence);
        add("hun/ter2#Tr0ub".to_owned(), &sentence.replace("mysql: app:{}@tcp", "mysql://app:{}@tcp"));
    }
    // By their length, as keys of AWS and of WireGuard are.
    add(random(40, BASE62), "access denied with {}");
    add(format!("{}/{}+{}", random(12, BASE64), random(13, BASE62), random(13, BASE62)), "signed with {}: denied");
    add(format!("{}=", random(43, BASE62)), "peer {} is unknown");
    add(format!("LS0tLS1{}", random(200, BASE62)), "parse {}: not base64");
    add(random(64, BASE62), "-----BEGIN EC PRIVATE KEY----- {} -----END EC PRIVATE KEY-----");
    add(random(64, BASE62), "key: -----BEGIN RSA PRIVATE KEY-----\\n{}\\n");
    add(random(30, BASE62), "Bearer {} was refused");
    all
}

#[test]
fn no_secret_of_a_service_is_shown() {
    let all = secrets();
    let kinds: std::collections::BTreeSet<&str> = all.iter().map(|(secret, _)| secret.as_str()).collect();
    assert!(kinds.len() + all.len() > 60);
    let mut shown = Vec::new();
    for (secret, sentence) in &all {
        let as_written = [clean(&without_secrets(sentence)), log_lines(std::slice::from_ref(sentence)).concat()];
        // Not even most of it.
        let part = &secret[secret.len() / 3..];
        if as_written.iter().any(|text| text.contains(part) || text.contains(secret.as_str())) {
            shown.push(format!("{sentence}\n   {as_written:?}"));
        }
    }
    assert!(shown.is_empty(), "\n{}", shown.join("\n"));
}

/// What never passed an observer: errors of libraries, of files, of servers.
#[test]
fn no_token_with_a_prefix_is_shown_anywhere() {
    for (secret, sentence) in secrets().iter().filter(|(secret, _)| !secret.starts_with("hun")).take(160) {
        let text = clean(sentence);
        assert!(!text.contains(&secret[secret.len() / 3..]), "{sentence}\n   {text}");
    }
}

#[test]
fn what_is_harmless_stays_legible() {
    for text in [
        "pulling registry.example/a/b@sha256:0a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8f9",
        "registry.k8s.io/pause:3.9@sha256:0a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8f9 not found",
        "node ip-10-123-123-123.eu-central-1.compute.internal not found",
        "node talos-4ab-c1d is not ready",
        "pod kube-system/kube-scheduler-cp-1 3f2b8c1e-9d4a-4e6f-8b7c-1a2b3c4d5e6f is gone",
        "/var/lib/kubelet/pki/kubelet-client-current.pem: no such file",
        "open /system/secrets/kubernetes/kube-apiserver/admission-control-config.yaml: no such file or directory",
        "/var/lib/containerd/io.containerd.snapshotter.v1.overlayfs/snapshots/1234/fs is busy",
        "the token is missing",
        "the password was not accepted",
        "invalid bearer token",
        "a basic problem",
        "Unable to authenticate the request: invalid bearer token",
        "failed to parse kubelet flag: unknown flag: --bogus-flag",
        "dial tcp 10.0.0.1:6443: connect: connection refused",
        "dial tcp [fd00::1]:50000: i/o timeout",
        "https://10.0.0.1:6443/readyz?verbose: 500",
        "https://k8s.example:6443/api/v1/nodes?limit=500",
        "https://[fd00::1]:2379/health: timeout",
        "etcd member 8e9e05c52164694d is a learner",
        "x509: certificate signed by unknown authority",
        "x509: certificate is valid for kubernetes.default.svc, not cp-1.example.internal",
        "Talos v1.13.0-alpha.2-45-g1234567 is newer",
        "kubelet v1.35.4 on worker-10",
        "docker.io/library/alpine:3.20 could not be pulled",
        "ghcr.io/siderolabs/installer:v1.13.0 was installed",
        "cilium-operator-6f9bc8d9f7-x2x9z is restarting",
        "coredns-7db6d8ff4d-abcde: CrashLoopBackOff",
        "lease kube-node-lease/worker-1 was renewed 50s ago",
        "E1121 19:27:58.953732 3139 run.go:72] command failed",
        "2026-11-23T12:33:58.123456789Z etcd: raft term 12 index 1234567890",
        "volume pvc-3f2b8c1e-9d4a-4e6f-8b7c-1a2b3c4d5e6f is not attached",
        "00:1b:44:11:3a:b7 has no carrier",
        "worker.eu.example.com does not resolve",
        "sk-worker-1.example.com: no route to host",
        "machine 4c4c4544-0051-3810-8052-b4c04f4e4d32 is unknown",
        "service account system:serviceaccount:kube-system:node-controller cannot list nodes",
        "User \"system:node:cp-1\" cannot get resource \"leases\" in API group \"coordination.k8s.io\"",
        "s.example.com:443 refused",
        "s3://backups/etcd/2026-11-23.snapshot: access denied",
        "user admin@talos-prod is not in the talosconfig",
        "ssh git@github.com:siderolabs/talos: no route",
        "CPU AMD-EPYC-7763 64-Core, 128 threads",
    ] {
        assert_eq!(clean(&without_secrets(text)), text);
        assert_eq!(clean(text), text);
        assert_eq!(log_lines(&[text.to_owned()]), [text]);
    }
}
