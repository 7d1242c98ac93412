use super::*;
use crate::config::kube_sources::Candidate;
use crate::config::proxy::Proxy;
use crate::config::testing::Pair;

/// Returns a kubeconfig in the form that Talos writes.
pub(in crate::config) fn kubeconfig(pair: &Pair) -> String {
    let (certificate, key) = (pair.certificate64(), pair.key64());
    format!(
        "apiVersion: v1\nkind: Config\nclusters:\n- name: home\n  cluster:\n    server: https://10.0.0.10:6443\n    certificate-authority-data: {certificate}\ncontexts:\n- context:\n    cluster: home\n    user: admin@home\n  name: main\ncurrent-context: main\nusers:\n- name: admin@home\n  user:\n    client-certificate-data: {certificate}\n    client-key-data: {key}\n"
    )
}

fn pair() -> Pair {
    Pair::new(&rcgen::PKCS_ECDSA_P256_SHA256, &["system:masters"], Some(rcgen::ExtendedKeyUsagePurpose::ClientAuth))
}

struct Setup {
    folder: tempfile::TempDir,
    environment: Environment,
    options: Options,
}

impl Setup {
    fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            environment: Environment::new::<&str, &str>([]),
            options: Options::default(),
        }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("config")
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.folder.path().join(name), text).unwrap();
    }

    fn load(&self, text: &str) -> Result<KubeAccess, ConfigError> {
        self.write("config", text);
        Candidate::Flag(self.path()).load(&self.options, &self.environment)
    }

    fn unnamed(&self, text: &str) -> Result<KubeAccess, ConfigError> {
        self.write("config", text);
        Candidate::Home(self.path()).load(&self.options, &self.environment)
    }
}

#[test]
fn reads_what_talos_writes() {
    let (setup, pair) = (Setup::new(), pair());
    let access = setup.load(&kubeconfig(&pair)).unwrap();
    assert_eq!(access.credentials.server, "https://10.0.0.10:6443");
    assert_eq!(access.credentials.context, "main");
    assert_eq!(access.credentials.source, format!("--kubeconfig {}", setup.path().display()));
    let certificate = access.credentials.certificate.clone().unwrap();
    assert!(certificate.matches_key && certificate.client_auth);
    assert_eq!(certificate.organizations, ["system:masters"]);
    assert!(!access.config.default_retry && !access.config.accept_invalid_certs);
    assert_eq!(access.routes.to(&access.endpoint), Ok(Proxy::Direct));
    assert_eq!(access.config.root_cert.as_ref().unwrap().len(), 1);
    assert!(access.config.auth_info.exec.is_none() && access.config.auth_info.client_key_data.is_some());
    assert!(!format!("{access:?}").contains(&pair.key64()[20..60]));
}

#[tokio::test]
async fn kube_takes_what_we_make() {
    use kube::client::ConfigExt as _;

    let _ = crate::config::crypto::provider().as_ref().clone().install_default();
    let (setup, pair) = (Setup::new(), pair());
    let access = setup.load(&kubeconfig(&pair)).unwrap();
    access.config.rustls_client_config().unwrap();
    assert!(kube::Client::try_from(access.config).is_ok());
    // kube alone does not recognize Talos's own label.
    let talos = Pair::talos("system:masters");
    let access = setup.load(&kubeconfig(&talos)).unwrap();
    access.config.rustls_client_config().unwrap();
}

#[test]
fn unverified_and_clear_servers_are_refused() {
    let (setup, pair) = (Setup::new(), pair());
    let good = kubeconfig(&pair);
    for (from, to, line) in [
        ("    server:", "    insecure-skip-tls-verify: true\n    server:", 6),
        ("https://10.0.0.10:6443", "http://10.0.0.10:6443", 6),
        ("https://10.0.0.10:6443", "10.0.0.10:6443", 6),
    ] {
        let error = setup.load(&good.replace(from, to)).unwrap_err();
        assert_eq!(error.reason, Reason::KubeconfigInsecure, "{error:?}");
        assert!(error.message.contains(&format!("(line {line})")), "{error:?}");
    }
    // `--k8s-endpoint` does not make an insecure cluster acceptable.
    let mut setup = setup;
    setup.options.k8s_endpoint = Some("vip".to_owned());
    let insecure = good.replace("    server:", "    insecure-skip-tls-verify: true\n    server:");
    assert_eq!(setup.load(&insecure).unwrap_err().reason, Reason::KubeconfigInsecure);
    assert!(setup.load(&good.replace("    server:", "    insecure-skip-tls-verify: false\n    server:")).is_ok());
}

#[test]
fn every_flaw_is_named_with_its_key_and_line() {
    let (setup, pair) = (Setup::new(), pair());
    let good = kubeconfig(&pair);
    let (certificate, key) = (pair.certificate64(), pair.key64());
    for (text, expected) in [
        ("[]".to_owned(), "is a list; expected a mapping"),
        ("a: 1".to_owned(), "has no contexts"),
        (good.replace("contexts:\n", "contexts: {}\nold:\n"), "`contexts` (line 8) is a mapping; expected a list"),
        (good.replace("current-context: main\n", ""), "has no `current-context`"),
        (good.replace("    cluster: home\n", ""), "`contexts[0].context` (line 9) has no `cluster`"),
        (
            good.replace("    cluster: home\n", "    cluster: other\n"),
            "`contexts[0].context.cluster` (line 10) names `other`",
        ),
        (
            good.replace("    user: admin@home\n", "    user: other\n"),
            "`contexts[0].context.user` (line 11) names `other`",
        ),
        (good.replace("    server: https://10.0.0.10:6443\n", ""), "`clusters[0].cluster` (line 5) has no `server`"),
        (good.replace("https://10.0.0.10:6443", "tcp://x"), "does not start with `https://`"),
        (good.replace("https://10.0.0.10:6443", "https://u:hunter22@x"), "carries credentials in the URL"),
        (good.replace("https://10.0.0.10:6443", "'https://x y'"), "`clusters[0].cluster.server` (line 6) is neither"),
        (good.replace("https://10.0.0.10:6443", "https://"), "`clusters[0].cluster.server` (line 6) is empty"),
        (
            good.replace(&format!("client-key-data: {key}"), "x: y"),
            "`users[0].user.client-certificate-data` (line 17) is set",
        ),
        (
            good.replace(&format!("client-key-data: {key}"), &format!("client-key-data: {certificate}")),
            "`users[0].user.client-key-data` (line 18) contains a certificate",
        ),
        (
            good.replace(&format!("client-key-data: {key}"), "client-key-data: '%'"),
            "`users[0].user.client-key-data` (line 18) is not valid base64",
        ),
        (
            good.replace(&format!("client-key-data: {key}"), "client-key: missing.pem"),
            "`users[0].user.client-key` (line 18) names a file (not shown): no such file",
        ),
        (
            good.replace(&format!("client-key-data: {key}"), "client-key: pki/missing.pem"),
            "`users[0].user.client-key` (line 18) names the file `pki/missing.pem`: no such file",
        ),
        (
            good.replace(&format!("authority-data: {certificate}"), "authority: /dev/zero"),
            "(line 7) names the file `/dev/zero`: is neither a file nor a pipe",
        ),
        (
            good.replace(&format!("authority-data: {certificate}"), &format!("authority-data: {key}")),
            "`clusters[0].cluster.certificate-authority-data` (line 7) contains a private key",
        ),
        (
            good.replace("    client-key-data:", "    auth-provider: {name: gcp}\n    x:"),
            "`users[0].user.auth-provider` (line 18) is not supported",
        ),
        (
            good.replace("    client-key-data:", "    token: \"a\\nhunter22\"\n    client-key-data:"),
            "`users[0].user.token` (line 18) is not a token",
        ),
        (
            good.replace("    client-key-data:", "    token: [hunter22]\n    client-key-data:"),
            "`users[0].user.token` (line 18) is a list",
        ),
        (
            good.replace("    client-key-data:", "    exec: {args: [hunter22]}\n    client-key-data:"),
            "`users[0].user.exec.command` is missing",
        ),
        (
            good.replace(
                "    client-certificate-data:",
                "    exec: {apiVersion: client.authentication.k8s.io/v1, command: a, interactiveMode: Always}\n    x:",
            ),
            "no prompt is possible",
        ),
        (
            good.replace("- name: admin@home", "- name: admin@home\n- name: admin@home"),
            "`users[1]` (line 16) has the same name as an earlier entry",
        ),
        (
            good.replace("    server:", "    proxy-url: ftp://u:hunter22@x\n    server:"),
            "`clusters[0].cluster.proxy-url` (line 6) has a scheme",
        ),
    ] {
        let error = setup.load(&text).unwrap_err();
        assert!(error.message.contains(expected), "expected {expected}, got {error:?}");
        assert!(error.message.starts_with("kubeconfig `"), "{error:?}");
        assert!(!format!("{error:?}").contains("hunter22"), "{error:?}");
    }
}

#[test]
fn an_unknown_context_is_named_with_its_neighbors() {
    let (mut setup, pair) = (Setup::new(), pair());
    setup.options.context = Some("mian".to_owned());
    let error = setup.load(&kubeconfig(&pair)).unwrap_err();
    assert_eq!(error.reason, Reason::ContextUnknown);
    assert!(error.message.ends_with("`--kube-context` names `mian`, but there is no such context"));
    assert_eq!(error.hint.as_deref(), Some("did you mean `main`? there are `main`"));
}

const PLUGIN: &str = "{apiVersion: client.authentication.k8s.io/v1, command: ./login, interactiveMode: Never}";

/// Returns a kubeconfig whose user is `user`, in YAML's flow style.
fn of_user(user: &str) -> String {
    let text = kubeconfig(&pair());
    format!("{}  user: {user}\n", text.split("  user:\n").next().unwrap())
}

/// `tests/kubeconfigs` compares these combinations with the real kubectl.
#[test]
fn of_several_ways_to_log_in_kubectl_s_counts() {
    let setup = Setup::new();
    setup.write("token", "fresh");
    let pair = pair();
    let certificate = format!("client-certificate-data: {}, client-key-data: {}", pair.certificate64(), pair.key64());
    // Token, token file, name, certificate, plugin.
    for (user, expected) in [
        ("{token: a, tokenFile: token}".to_owned(), "tf..."),
        ("{token: a, tokenFile: missing}".to_owned(), "tf..."),
        ("{tokenFile: token}".to_owned(), ".f..."),
        ("{username: me}".to_owned(), "..n.."),
        ("{username: me, password: pw}".to_owned(), "..n.."),
        (format!("{{{certificate}, token: a}}"), "t..c."),
        (format!("{{{certificate}, exec: {PLUGIN}}}"), "...c."),
        (format!("{{token: a, exec: {PLUGIN}}}"), "t...."),
        (format!("{{tokenFile: token, exec: {PLUGIN}}}"), ".f..."),
        (format!("{{username: me, exec: {PLUGIN}}}"), "..n.."),
        (format!("{{password: pw, exec: {PLUGIN}}}"), "....p"),
        (format!("{{client-key-data: {}, exec: {PLUGIN}}}", pair.key64()), "....p"),
        (format!("{{token: a, exec: {}}}", PLUGIN.replace("Never", "Always")), "t...."),
        ("{}".to_owned(), "....."),
    ] {
        let auth = setup.load(&of_user(&user)).unwrap_or_else(|error| panic!("{user}: {error}")).config.auth_info;
        let ways = [
            ('t', auth.token.is_some()),
            ('f', auth.token_file.is_some()),
            ('n', auth.username.is_some()),
            ('c', auth.client_certificate_data.is_some()),
            ('p', auth.exec.is_some()),
        ];
        let ways: String = ways.iter().map(|(way, is_there)| if *is_there { *way } else { '.' }).collect();
        assert_eq!(ways, expected, "{user}");
    }
}

#[test]
fn ways_that_kubectl_does_not_combine_are_refused() {
    let setup = Setup::new();
    setup.write("token", "fresh");
    let pair = pair();
    let (certificate, key) = (pair.certificate64(), pair.key64());
    setup.write("file", &pair.certificate);
    for (user, expected) in [
        ("{token: a, username: me}".to_owned(), "`users[0].user.username` and a token are both set"),
        ("{token: a, password: pw}".to_owned(), "`users[0].user.password` and a token are both set"),
        ("{tokenFile: token, username: me}".to_owned(), "`users[0].user.username` and a token are both set"),
        (
            format!("{{client-certificate-data: {certificate}, client-certificate: file, client-key-data: {key}}}"),
            "`client-certificate-data` are both set",
        ),
        (
            format!("{{client-certificate-data: {certificate}, client-key: file, client-key-data: {key}}}"),
            "`client-key-data` are both set",
        ),
        (format!("{{token: a, exec: {}}}", PLUGIN.replace("/v1,", "/v1alpha1,")), "is neither `client.authentication"),
        (format!("{{token: a, exec: {}}}", PLUGIN.replace("command", "x")), "`users[0].user.exec.command` is missing"),
        (format!("{{exec: {}}}", PLUGIN.replace("interactiveMode", "x")), "is missing"),
        (format!("{{exec: {}}}", PLUGIN.replace("Never", "Sometimes")), "is neither `Never`"),
        (format!("{{exec: {}}}", PLUGIN.replace('}', ", env: [{value: x}]}")), "has no `name`"),
        ("{token: a, as-groups: [b]}".to_owned(), "is set, but `as` is missing"),
        ("{token: a, as-uid: b}".to_owned(), "is set, but `as` is missing"),
        ("{token: a, as-user-extra: {b: [c]}}".to_owned(), "is set, but `as` is missing"),
        ("{token: 1}".to_owned(), "`users[0].user.token` is a number; expected a string"),
    ] {
        let error = setup.load(&of_user(&user)).expect_err(&user);
        assert!(error.message.contains(expected), "{user}: {error}");
    }
    let beta = PLUGIN.replace("/v1,", "/v1beta1,").replace("interactiveMode: Never", "args: []");
    assert!(setup.load(&of_user(&format!("{{exec: {beta}}}"))).unwrap().config.auth_info.exec.is_some());
    let access = setup.load(&of_user("{token: a, as: b, as-user-extra: {c: [d, e]}}")).unwrap();
    assert_eq!(access.config.auth_info.impersonate_user_extra.unwrap()["c"], ["d", "e"]);
}

#[test]
fn what_no_context_uses_may_be_incomplete_and_not_of_another_type() {
    let setup = Setup::new();
    let good = of_user("{token: a}");
    for entry in ["{}", "{name: b}", "{name: b, user: {client-certificate: none, exec: {command: x}}}", "~"] {
        setup.load(&format!("{good}- {entry}\n")).unwrap_or_else(|error| panic!("{entry}: {error}"));
    }
    for entry in [
        "[]",
        "{name: 1}",
        "{name: b, user: []}",
        "{name: b, user: {token: 1}}",
        "{name: b, user: {client-key-data: '%'}}",
        "{name: b, user: {exec: {args: [1]}}}",
        "{name: b, user: {as-user-extra: {c: d}}}",
        "{name: b}\n- {name: b}",
    ] {
        assert!(setup.load(&format!("{good}- {entry}\n")).is_err(), "{entry}");
    }
    for (from, to) in [("apiVersion: v1", "apiVersion: v2"), ("kind: Config", "kind: Pod")] {
        assert!(setup.load(&good.replace(from, to)).unwrap_err().message.contains("this is not a kubeconfig"), "{to}");
        assert!(setup.load(&good.replace(from, "")).is_ok());
    }
}

#[test]
fn a_server_s_scheme_may_be_in_capitals() {
    let (setup, pair) = (Setup::new(), pair());
    let access = setup.load(&kubeconfig(&pair).replace("https://", "HTTPS://")).unwrap();
    assert_eq!(access.config.cluster_url.to_string(), "https://10.0.0.10:6443/");
    let clear = setup.load(&kubeconfig(&pair).replace("https://", "HTTP://")).unwrap_err();
    assert_eq!(clear.reason, Reason::KubeconfigInsecure);
}

#[test]
fn plugins_run_only_from_a_named_file() {
    let (setup, pair) = (Setup::new(), pair());
    let text = kubeconfig(&pair).replace(
        "    client-certificate-data:",
        "    exec:\n      apiVersion: client.authentication.k8s.io/v1\n      command: ./bin/login\n      args: [a, b]\n      env: [{name: A, value: '1'}]\n      interactiveMode: IfAvailable\n      provideClusterInfo: true\n    x:",
    );
    let text = text.replace("    client-key-data:", "    y:");
    let error = setup.unnamed(&text).unwrap_err();
    assert!(error.message.contains("`users[0].user.exec` (line 17) is a program"), "{error:?}");
    let access = setup.load(&text).unwrap();
    assert!(access.credentials.certificate.is_none());
    let exec = access.config.auth_info.exec.unwrap();
    assert!(exec.command.unwrap().starts_with(setup.folder.path().to_str().unwrap()));
    assert_eq!(exec.interactive_mode, Some(ExecInteractiveMode::Never));
    assert!(exec.cluster.unwrap().certificate_authority_data.is_some());
    assert_eq!(exec.env.unwrap()[0]["value"], "1");
}

#[test]
fn files_are_relative_to_the_kubeconfig_and_tokens_are_trimmed() {
    let (setup, pair) = (Setup::new(), pair());
    setup.write("ca.pem", &pair.certificate);
    setup.write("crt.pem", &pair.certificate);
    setup.write("key.pem", &pair.sec1());
    let text = kubeconfig(&pair)
        .replace("certificate-authority-data: ", "certificate-authority: ca.pem\n    x: ")
        .replace("client-certificate-data: ", "client-certificate: crt.pem\n    tokenFile: token\n    x: ")
        .replace("client-key-data: ", "client-key: key.pem\n    y: ");
    assert!(setup.load(&text).unwrap_err().message.contains("`users[0].user.tokenFile`"));
    setup.write("token", "abc");
    let access = setup.load(&text).unwrap();
    assert!(access.credentials.certificate.unwrap().matches_key);
    assert_eq!(access.config.auth_info.token_file.as_deref(), setup.folder.path().join("token").to_str());
    setup.write("token", "abc\n");
    let access = setup.load(&text).unwrap();
    assert!(access.config.auth_info.token_file.is_some(), "it is read again, and trimmed then");
    setup.write("token", " \n");
    assert!(setup.load(&text).unwrap_err().message.ends_with("names a file (not shown): is empty"));
}

#[test]
fn a_forced_endpoint_replaces_the_server_and_keeps_the_ca() {
    let (mut setup, pair) = (Setup::new(), pair());
    let text = kubeconfig(&pair).replace("    server:", "    tls-server-name: inner.k8s.example\n    server:");
    assert_eq!(setup.load(&text).unwrap().config.tls_server_name.as_deref(), Some("inner.k8s.example"));
    for (forced, server) in [
        ("vip.k8s.example", "https://vip.k8s.example:6443"),
        ("https://10.0.0.9:443", "https://10.0.0.9:443"),
        ("2001:db8::1", "https://[2001:db8::1]:6443"),
    ] {
        setup.options.k8s_endpoint = Some(forced.to_owned());
        let access = setup.load(&text).unwrap();
        assert_eq!(access.credentials.server, server);
        assert_eq!(access.config.cluster_url.to_string(), format!("{server}/"));
        assert!(access.config.root_cert.is_some() && access.config.tls_server_name.is_none());
    }
    setup.options.k8s_endpoint = Some("http://vip".to_owned());
    assert!(setup.load(&text).unwrap_err().message.starts_with("`--k8s-endpoint` has"));
}

#[test]
fn a_proxy_is_that_of_the_file_or_of_the_environment() {
    let (mut setup, pair) = (Setup::new(), pair());
    let text = kubeconfig(&pair);
    let way = |access: &KubeAccess| access.routes.to(&access.endpoint).unwrap().to_string();
    setup.environment = Environment::new([("HTTPS_PROXY", "http://u:hunter22@proxy.example:3128")]);
    let access = setup.load(&text).unwrap();
    assert_eq!(way(&access), "http://proxy.example:3128");
    assert!(!format!("{access:?}").contains("hunter22"));
    let named = text.replace("    server:", "    proxy-url: socks5://10.0.0.5\n    server:");
    assert_eq!(way(&setup.load(&named).unwrap()), "socks5://10.0.0.5:1080");
    setup.environment = Environment::new([("HTTPS_PROXY", "proxy.example:3128"), ("NO_PROXY", "10.0.0.0/8")]);
    let access = setup.load(&text).unwrap();
    assert_eq!(way(&access), "direct");
    let other = Endpoint::new("192.0.2.1", 6443);
    assert_eq!(access.routes.to(&other).unwrap().to_string(), "http://proxy.example:3128", "each server for itself");
    setup.environment = Environment::new([("HTTPS_PROXY", "ftp://u:hunter22@proxy.example")]);
    assert!(setup.load(&text).unwrap_err().message.contains("`HTTPS_PROXY`"));
}

#[test]
fn a_path_of_the_server_is_kept() {
    let (setup, pair) = (Setup::new(), pair());
    let text = kubeconfig(&pair).replace("https://10.0.0.10:6443", "https://front.k8s.example/k8s/clusters/c-1");
    let access = setup.load(&text).unwrap();
    assert_eq!(access.credentials.server, "https://front.k8s.example:443/k8s/clusters/c-1");
    assert_eq!(access.config.cluster_url.path(), "/k8s/clusters/c-1");
}

#[test]
fn a_pod_uses_its_service_account() {
    let (mut setup, pair) = (Setup::new(), pair());
    let candidate = Candidate::InCluster { explicit: true };
    setup.environment.service_account = setup.folder.path().to_owned();
    let load = |environment: &Environment| candidate.load(&Options::default(), environment);
    assert!(load(&setup.environment).unwrap_err().message.contains("this is not a pod"));
    setup.environment.variables.insert("KUBERNETES_SERVICE_HOST".into(), "fd00::1".into());
    setup.environment.variables.insert("KUBERNETES_SERVICE_PORT".into(), "443".into());
    assert!(load(&setup.environment).unwrap_err().message.contains("in-cluster CA"));
    setup.write("ca.crt", &pair.certificate);
    assert!(load(&setup.environment).unwrap_err().message.contains("`token`: no such file"));
    setup.write("token", "abc");
    let access = load(&setup.environment).unwrap();
    assert_eq!(access.credentials.server, "https://[fd00::1]:443");
    assert!(access.config.auth_info.token_file.is_some() && !access.config.default_retry);
}
