//! The sources of Kubernetes credentials, in the order in which they are tried.

use std::path::{Path, PathBuf};

use super::kubeconfig::{KubeAccess, Options, access, context_names, in_cluster, references};
use super::talosconfig::exists;
use super::yaml::{Dialect, Document};
use super::{ConfigError, Environment, file, kubeconfig_schema, path_text, shown_path};
use crate::model::Reason;
use crate::snapshot::MINTED;

/// The options that select Kubernetes credentials.
#[derive(Clone, Debug, Default)]
pub(crate) struct KubeArgs {
    /// `--kubeconfig`.
    pub(crate) kubeconfig: Option<PathBuf>,
    /// `--in-cluster`.
    pub(crate) in_cluster: bool,
}

/// A possible source of credentials, before anything has been read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Candidate {
    /// `--kubeconfig`.
    Flag(PathBuf),
    /// `KUBECONFIG`: merged as kubectl does.
    Variable(Vec<PathBuf>),
    /// `~/.kube/config`.
    Home(PathBuf),
    /// The pod's service account.
    InCluster {
        /// Set by `--in-cluster`.
        explicit: bool,
    },
}

/// Returns the sources to try, in order. A source named on the command line is the only one: if it cannot be used, the user did not mean
/// any of the others. The Talos API is the last source and is handled by the caller: see [`from_talos`].
pub(crate) fn candidates(args: &KubeArgs, environment: &Environment, in_pod: bool) -> Vec<Candidate> {
    let mut explicit = Vec::new();
    explicit.extend(args.kubeconfig.clone().map(Candidate::Flag));
    explicit.extend(args.in_cluster.then_some(Candidate::InCluster { explicit: true }));
    if !explicit.is_empty() {
        return explicit;
    }
    let mut found = Vec::new();
    let paths: Vec<PathBuf> = environment
        .os("KUBECONFIG")
        .map(|value| std::env::split_paths(value).filter(|path| !is_nothing(path)).collect())
        .unwrap_or_default();
    if !paths.is_empty() {
        found.push(Candidate::Variable(paths));
    }
    // kubectl ignores this file while KUBECONFIG is set. A gate whose KUBECONFIG belongs to another cluster needs it.
    let home = environment.home().map(|home| home.join(".kube").join("config"));
    found.extend(home.filter(|path| exists(path)).map(Candidate::Home));
    found.extend(in_pod.then_some(Candidate::InCluster { explicit: false }));
    found
}

impl Candidate {
    /// Returns the files that this source is read from.
    pub(crate) fn files(&self) -> &[PathBuf] {
        match self {
            Self::Flag(path) | Self::Home(path) => std::slice::from_ref(path),
            Self::Variable(paths) => paths,
            Self::InCluster { .. } => &[],
        }
    }

    /// Returns whether the source was named on the command line.
    pub(crate) fn explicit(&self) -> bool {
        matches!(self, Self::Flag(_) | Self::InCluster { explicit: true })
    }

    /// Returns whether this source rules out all later ones, even if it cannot be used or has expired: the user did not mean any of the
    /// others. A file of `KUBECONFIG` that is intact but selects no context, as GitLab's agent sets it, or that is insecure, is skipped.
    pub(crate) fn is_binding(&self, loaded: &Result<KubeAccess, ConfigError>) -> bool {
        let is_broken = |error: &ConfigError| error.reason == Reason::ConfigUnreadable && !error.is_refusal;
        match self {
            Self::Flag(_) | Self::InCluster { explicit: true } => true,
            Self::Variable(_) => loaded.as_ref().err().is_none_or(is_broken),
            Self::Home(_) | Self::InCluster { explicit: false } => false,
        }
    }

    /// Returns the name for messages: `--kubeconfig /path`, `KUBECONFIG /path`, `/home/me/.kube/config`, `in-cluster`.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Flag(path) => format!("--kubeconfig {}", joined(std::slice::from_ref(path))),
            Self::Variable(paths) => format!("KUBECONFIG {}", joined(paths)),
            Self::Home(path) => path.display().to_string(),
            Self::InCluster { .. } => "in-cluster".to_owned(),
        }
    }

    /// Reads and parses the source. Reading can take some ten seconds per file: call it off the runtime's threads.
    pub(crate) fn load(&self, options: &Options, environment: &Environment) -> Result<KubeAccess, ConfigError> {
        let documents = match self {
            Self::Flag(path) if path.as_os_str().is_empty() => {
                return Err(ConfigError::unreadable("`--kubeconfig` is an empty path"));
            }
            Self::Flag(path) | Self::Home(path) => vec![document(path)?],
            Self::Variable(paths) => {
                // kubectl skips missing and empty files.
                let there = paths.iter().filter(|path| {
                    exists(path) && !std::fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.len() == 0)
                });
                there.map(|path| document(path)).collect::<Result<Vec<_>, _>>()?
            }
            Self::InCluster { explicit } => return in_cluster(*explicit, options, environment),
        };
        if documents.is_empty() && self.files().iter().any(|path| path_text(path).is_none()) {
            return Err(ConfigError::content_for_path("KUBECONFIG", "kubeconfig"));
        }
        if documents.is_empty() {
            return Err(ConfigError::new(Reason::ConfigUnreadable, "`KUBECONFIG` names no existing, non-empty file")
                .hint("correct the path, pass `--kubeconfig`, or use `--no-kubernetes` to check only Talos and etcd"));
        }
        let mut access = access(&documents, self.name(), self.explicit(), options, environment)?;
        access.credentials.files = self.files().to_vec();
        Ok(access)
    }
}

/// Returns whether a path stands for no kubeconfig: an empty element, or `/dev/null`.
fn is_nothing(path: &Path) -> bool {
    path.as_os_str().is_empty() || path == Path::new("/dev/null")
}

/// Returns the names of all contexts of the first source that has any, for completions. Unusable files contribute none.
pub(crate) fn contexts(flag: Option<PathBuf>, environment: &Environment) -> Vec<String> {
    let args = KubeArgs { kubeconfig: flag, in_cluster: false };
    let names = |candidate: Candidate| {
        let paths = match candidate {
            Candidate::Flag(path) | Candidate::Home(path) => vec![path],
            Candidate::Variable(paths) => paths,
            Candidate::InCluster { .. } => Vec::new(),
        };
        let documents: Vec<Document> = paths.iter().filter_map(|path| document(path).ok()).collect();
        context_names(&documents)
    };
    candidates(&args, environment, false).into_iter().map(names).find(|names| !names.is_empty()).unwrap_or_default()
}

/// Parses the kubeconfig issued by the Talos API. It may refer neither to files nor to programs of this machine.
pub(crate) fn from_talos(text: &[u8], options: &Options, environment: &Environment) -> Result<KubeAccess, ConfigError> {
    const SOURCE: &str = MINTED;
    let name = "kubeconfig of the Talos API".to_owned();
    if text.len() as u64 > file::LARGEST {
        return Err(ConfigError::unreadable(format!("{name}: is larger than {} MiB", file::LARGEST >> 20)));
    }
    let text = file::text(text.to_vec()).map_err(|problem| ConfigError::unreadable(format!("{name}: {problem}")))?;
    // `--kube-context` names a context of the user's own kubeconfig, not of this one.
    let options = Options { context: None, ..options.clone() };
    let document = Document::parse(name, text, Dialect::Kubernetes, None)?;
    kubeconfig_schema::check(&document)?;
    access(&[document], SOURCE.to_owned(), false, &options, environment)
}

/// Joins the first few paths for display. If one of them is not a path, none is shown, because all may be pieces of something else.
fn joined(paths: &[PathBuf]) -> String {
    let texts: Option<Vec<String>> = paths.iter().map(|path| path_text(path)).collect();
    texts.map_or_else(|| "(not shown)".to_owned(), |texts| texts[..texts.len().min(5)].join(":"))
}

fn document(path: &Path) -> Result<Document, ConfigError> {
    let text = file::read_text(path, "kubeconfig")?;
    let folder = path.parent().map_or_else(PathBuf::new, Path::to_owned);
    let document =
        Document::parse(format!("kubeconfig {}", shown_path(path)), text, Dialect::Kubernetes, Some(folder))?;
    for path in references(&document) {
        file::is_input(&path);
    }
    if document.top().is_talosconfig() {
        return Err(document
            .top()
            .error("is a talosconfig")
            .hint("pass it with `--talosconfig`, and a kubeconfig here"));
    }
    kubeconfig_schema::check(&document)?;
    Ok(document)
}

/// Claims the files that a kubeconfig refers to. Problems with the kubeconfig are reported when it is used.
pub(super) fn claim_references(path: &Path) {
    drop(document(path));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::kubeconfig::tests::kubeconfig;
    use crate::config::testing::Pair;

    #[test]
    fn the_order_is_that_of_the_contract() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().join(".kube/config");
        let environment = Environment::new([("HOME", folder.path().as_os_str()), ("KUBECONFIG", "/a::/b:".as_ref())]);
        let list = |args: &KubeArgs, in_pod| candidates(args, &environment, in_pod);
        let variable = Candidate::Variable(vec!["/a".into(), "/b".into()]);
        assert_eq!(list(&KubeArgs::default(), false), std::slice::from_ref(&variable));
        std::fs::create_dir_all(home.parent().unwrap()).unwrap();
        std::fs::write(&home, "").unwrap();
        let pod = Candidate::InCluster { explicit: false };
        assert_eq!(list(&KubeArgs::default(), true), [variable, Candidate::Home(home), pod]);
        let flag = KubeArgs { kubeconfig: Some("/k".into()), ..KubeArgs::default() };
        assert_eq!(list(&flag, true), [Candidate::Flag("/k".into())]);
        let pod = KubeArgs { in_cluster: true, ..KubeArgs::default() };
        assert_eq!(list(&pod, false), [Candidate::InCluster { explicit: true }]);
        assert!(Candidate::Flag("/k".into()).explicit());
        assert!(!Candidate::Variable(Vec::new()).explicit());
    }

    #[test]
    fn contexts_are_listed_for_shells() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config");
        std::fs::write(&path, kubeconfig(&Pair::talos("system:masters"))).unwrap();
        let environment = Environment::new([("KUBECONFIG", path.as_os_str())]);
        assert_eq!(contexts(None, &environment), ["main"]);
        assert_eq!(contexts(Some(folder.path().join("none")), &environment), Vec::<String>::new());
    }

    #[test]
    fn a_talosconfig_is_named_as_such() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config");
        std::fs::write(&path, "context: prod\ncontexts:\n    prod: {endpoints: [10.0.0.1]}\n").unwrap();
        let environment = Environment::new::<&str, &str>([]);
        let error = Candidate::Flag(path.clone()).load(&Options::default(), &environment).unwrap_err();
        assert_eq!(error.message, format!("kubeconfig `{}` is a talosconfig", path.display()));
        assert_eq!(error.hint.unwrap(), "pass it with `--talosconfig`, and a kubeconfig here");
    }

    #[test]
    fn several_files_are_merged_and_the_first_wins() {
        let folder = tempfile::tempdir().unwrap();
        let pair = Pair::talos("system:masters");
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let full = kubeconfig(&pair);
        let current = write(
            "current",
            "apiVersion: v1\ncurrent-context: main\nclusters:\n- name: home\n  cluster: {server: 'https://first.k8s.example:1'}\n",
        );
        let rest = write("rest", &full);
        let empty = write("empty", "");
        let missing = folder.path().join("missing");
        let candidate = Candidate::Variable(vec![missing.clone(), empty, current, rest]);
        let environment = Environment::new::<&str, &str>([]);
        let access = candidate.load(&Options::default(), &environment).unwrap();
        assert_eq!(access.credentials.context, "main");
        assert_eq!(access.credentials.server, "https://first.k8s.example:1");
        assert!(access.credentials.certificate.unwrap().matches_key);
        assert!(!access.credentials.explicit);
        let error = Candidate::Variable(vec![missing]).load(&Options::default(), &environment).unwrap_err();
        assert!(error.message.contains("no existing, non-empty file"));
    }

    #[test]
    fn talos_may_not_point_at_our_files_or_programs() {
        const FILE: &str = "names a local file, which is not opened for a kubeconfig from elsewhere";
        const PROGRAM: &str = "is a program, which is run only from a kubeconfig passed on the command line";
        let environment = Environment::new::<&str, &str>([]);
        let pair = Pair::talos("system:masters");
        let load = |text: &str| from_talos(text.as_bytes(), &Options::default(), &environment);
        let good = kubeconfig(&pair);
        assert_eq!(load(&good).unwrap().credentials.source, "Talos API (os:admin)");
        let key = "    client-key-data: ";
        let ca = "    certificate-authority-data: ";
        for (from, to, why) in [
            (key, "    client-key: /etc/hostname\n    x: ", FILE),
            (key, "    tokenFile: /etc/hostname\n    client-key-data: ", FILE),
            ("    client-certificate-data: ", "    client-certificate: /etc/hostname\n    x: ", FILE),
            (ca, "    certificate-authority: /etc/hostname\n    x: ", FILE),
            (
                "    client-certificate-data: ",
                "    exec: {apiVersion: client.authentication.k8s.io/v1, command: id, interactiveMode: Never}\n    x: ",
                PROGRAM,
            ),
        ] {
            let error = load(&good.replace(from, to)).expect_err(to);
            assert!(error.message.contains(why), "{to}: {error:?}");
        }
        assert!(load(&good.replace(key, "    token: a\n    x: ")).is_err());
        let left_alone =
            "    exec: {apiVersion: client.authentication.k8s.io/v1, command: id, interactiveMode: Never}\n";
        let access = load(&good.replace(key, &format!("{left_alone}{key}"))).unwrap();
        assert!(access.config.auth_info.exec.is_none(), "it has a client certificate");
        assert!(from_talos(&[0x1f, 0x8b, 0], &Options::default(), &environment).is_err());
        assert!(from_talos(&vec![b' '; 5 << 20], &Options::default(), &environment).is_err());
    }
}
