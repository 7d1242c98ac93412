use super::*;
use crate::config::kube_sources::KubeArgs;

fn kubeconfig(context: &str) -> String {
    format!(
        "clusters: [{{name: home, cluster: {{server: 'https://10.0.0.10:6443'}}}}]\nusers: [{{name: me, user: {{token: abc}}}}]\ncontexts: [{{name: {context}, context: {{cluster: home, user: me}}}}]\ncurrent-context: {context}\n"
    )
}

struct Files(tempfile::TempDir);

impl Files {
    /// Creates two kubeconfigs: the one in `KUBECONFIG` has the context `lab`, `~/.kube/config` has `prod`.
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join(".kube")).unwrap();
        std::fs::write(folder.path().join("lab"), kubeconfig("lab")).unwrap();
        std::fs::write(folder.path().join(".kube/config"), kubeconfig("prod")).unwrap();
        Self(folder)
    }

    fn environment(&self) -> Environment {
        Environment::new([("HOME", self.0.path().to_owned()), ("KUBECONFIG", self.0.path().join("lab"))])
    }
}

fn with_context(context: &str) -> KubernetesOptions {
    let overrides = Options { context: Some(context.to_owned()), ..Options::default() };
    KubernetesOptions { overrides, ..KubernetesOptions::default() }
}

fn side(access: KubernetesAccess) -> KubernetesSide {
    KubernetesSide::new(access, Duration::from_secs(1), &Arc::default())
}

#[test]
fn a_context_that_no_file_has_is_an_error_and_no_source_is_used() {
    let files = Files::new();
    let (access, error) = kubernetes_access(&with_context("nope"), &files.environment(), None);
    let error = error.unwrap();
    assert_eq!(error.reason, Reason::ContextUnknown);
    assert!(error.message.contains("`--kube-context` names `nope`"), "{error}");
    assert!(error.message.contains("lab`"), "the first file is named: {error}");
    assert!(access.queue.is_empty() && !access.from_talos);
    assert_eq!(side(access).credentials().unwrap_err().kind, GapKind::ContextUnknown);
}

#[test]
fn a_context_that_one_file_has_is_found_there() {
    let files = Files::new();
    let (access, error) = kubernetes_access(&with_context("prod"), &files.environment(), None);
    assert_eq!(error, None);
    assert_eq!(access.passed_over.len(), 1);
    assert_eq!(side(access).credentials().unwrap().context, "prod");
}

#[test]
fn without_a_named_context_a_file_that_has_none_is_passed_over() {
    let files = Files::new();
    std::fs::write(files.0.path().join("lab"), kubeconfig("lab").replace("current-context: lab", "")).unwrap();
    let (access, error) = kubernetes_access(&KubernetesOptions::default(), &files.environment(), None);
    assert_eq!((error, access.queue.len(), access.passed_over.len()), (None, 1, 1));
}

/// The API version that plugins have to answer with.
const V1: &str = "client.authentication.k8s.io/v1";

/// A plugin's client certificate stays in use until the plugin returns another one, which can happen once per round.
#[tokio::test]
async fn a_plugin_whose_credentials_have_ended_is_asked_again_in_each_round() {
    for (expires, runs) in [("2999-01-01T00:00:00Z", 1), ("2001-01-01T00:00:00Z", 3)] {
        let files = Files::new();
        let count = files.0.path().join("runs");
        let script = format!(
            r#"echo >> {}; echo '{{"apiVersion": "{V1}", "kind": "ExecCredential", "status": {{"token": "a", "expirationTimestamp": "{expires}"}}}}'"#,
            count.display()
        );
        let exec = serde_json::json!({
            "apiVersion": V1, "command": "sh", "args": ["-c", script], "interactiveMode": "Never",
        });
        let by_plugin = kubeconfig("lab").replace("token: abc", &format!("exec: {exec}"));
        std::fs::write(files.0.path().join("lab"), by_plugin).unwrap();
        let sources = KubeArgs { kubeconfig: Some(files.0.path().join("lab")), ..KubeArgs::default() };
        let named = KubernetesOptions { sources, ..KubernetesOptions::default() };
        let (access, _) = kubernetes_access(&named, &files.environment(), None);
        let mut side = KubernetesSide { call_timeout: Duration::from_secs(20), ..side(access) };
        for _ in 0..3 {
            side.begin_round();
            side.connect(async { Err(Gap::not_asked()) }).await.unwrap();
        }
        assert_eq!(std::fs::read(count).unwrap().len(), runs, "{expires}");
    }
}

#[test]
fn what_may_still_be_found() {
    let files = Files::new();
    let access = |from_talos| {
        let (mut access, _) = kubernetes_access(&KubernetesOptions::default(), &files.environment(), None);
        access.from_talos = from_talos;
        access
    };
    assert!(!side(access(false)).may_still_find());
    let mut open = side(access(true));
    assert!(open.may_still_find());
    open.minted = true;
    assert!(!open.may_still_find(), "it has been used");
    let mut aside = side(access(false));
    aside.strangers.extend(aside.access.queue.pop_front());
    assert!(aside.may_still_find());
    aside.access.unusable = Some(Gap::new(GapKind::ContextUnknown, ""));
    assert!(!aside.may_still_find(), "what the user named cannot be used, and nothing else is");
}

#[test]
fn a_kubeconfig_that_everybody_may_read_is_noted_where_it_is_the_user_s_own() {
    use std::os::unix::fs::PermissionsExt as _;

    let files = Files::new();
    let file = files.0.path().join("lab");
    let notes = |mode: u32, environment: &Environment| {
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
        let access = Access { talos: None, kubernetes: Some(KubernetesOptions::default()), etcd: None };
        let notes = Credentials::read(&access, environment).unwrap().notes;
        notes.into_iter().filter(|note| note.contains("/lab")).collect::<Vec<_>>()
    };
    assert_eq!(notes(0o600, &files.environment()), [""; 0]);
    assert_eq!(notes(0o640, &files.environment()), [""; 0], "a group is somebody's choice");
    for mode in [0o644, 0o602] {
        let found = notes(mode, &files.environment());
        assert!(found[0].contains(&format!("(mode 0{mode:o}): `chmod go= ")), "{found:?}");
    }
    let in_ci = Environment::new([("KUBECONFIG", file.as_os_str()), ("CI", "true".as_ref())]);
    assert_eq!(notes(0o666, &in_ci), [""; 0], "files of variables have the mode that the system gives them");
}

/// Broken files are errors no matter where their path comes from. A file that is intact but lacks the selection is handled differently.
#[test]
fn a_broken_file_of_the_variable_is_an_error_and_no_source_is_used() {
    let of = |content: Option<&str>| {
        let files = Files::new();
        match content {
            Some(content) => std::fs::write(files.0.path().join("lab"), content).unwrap(),
            None => std::fs::remove_file(files.0.path().join("lab")).unwrap(),
        }
        kubernetes_access(&KubernetesOptions::default(), &files.environment(), None)
    };
    for (content, expected) in [
        (Some("clusters: ["), "line"),
        (Some(""), "`KUBECONFIG` names no existing, non-empty file"),
        (None, "`KUBECONFIG` names no existing, non-empty file"),
        (Some("clusters: []"), "has no contexts"),
    ] {
        let (access, error) = of(content);
        let error = error.unwrap_or_else(|| panic!("{content:?}"));
        assert!(error.message.contains(expected), "{error}");
        assert!(access.queue.is_empty() && !access.from_talos, "{content:?}");
        assert_eq!(side(access).credentials().unwrap_err().kind, GapKind::Malformed);
    }
    let plugin = kubeconfig("lab").replace(
        "{token: abc}",
        "{exec: {command: x, apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never}}",
    );
    let insecure = kubeconfig("lab").replace("https://", "http://");
    for whole in [plugin, insecure, kubeconfig("lab").replace("current-context: lab", "")] {
        let (access, error) = of(Some(&whole));
        assert_eq!(error, None, "{whole}");
        assert_eq!((access.passed_over.len(), access.queue.len()), (1, 1), "the other file is used: {whole}");
    }
}

#[test]
fn what_the_variable_names_is_the_error_if_nothing_else_can_be_used() {
    let files = Files::new();
    std::fs::write(files.0.path().join("lab"), kubeconfig("lab").replace("current-context: lab", "")).unwrap();
    std::fs::remove_file(files.0.path().join(".kube/config")).unwrap();
    let (access, error) = kubernetes_access(&KubernetesOptions::default(), &files.environment(), None);
    assert_eq!(error.unwrap().reason, Reason::ContextUnknown);
    assert_eq!(side(access).credentials().unwrap_err().kind, GapKind::ContextUnknown);
    let nothing = Environment::new([("HOME", files.0.path().to_owned()), ("KUBECONFIG", "/dev/null".into())]);
    let (access, error) = kubernetes_access(&KubernetesOptions::default(), &nothing, None);
    assert_eq!((error, access.queue.len()), (None, 0), "nobody named a file");
}
