//! Credentials and addresses from files and the environment. This module reads files, never the network.
//!
//! Every file is treated as hostile: its size and reading time are bounded, it is parsed into plain values before anything trusts them, and
//! its contents never appear in an error. Configuration that cannot be used is a [`ConfigError`]; configuration that can be used but is
//! doubtful (an expired certificate, a key that does not match) is a fact for the checks.

pub(crate) mod access;
pub(crate) mod certificate;
pub(crate) mod crypto;
pub(crate) mod endpoint;
pub(crate) mod etcd;
pub(crate) mod file;
pub(crate) mod kube_sources;
pub(crate) mod kubeconfig;
mod kubeconfig_schema;
mod line;
pub(crate) mod omni;
mod openpgp;
pub(crate) mod pem;
pub(crate) mod plugin;
pub(crate) mod policy;
pub(crate) mod proxy;
pub(crate) mod receiver;
pub(crate) mod roots;
pub(crate) mod talosconfig;
mod yaml;

#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod secrecy_tests;
#[cfg(test)]
mod testing;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};

use crate::model::Reason;
use crate::text::{nearest, some};

/// The reason why a configuration cannot be used. Contains no secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConfigError {
    pub(crate) reason: Reason,
    /// Names the file, the key in it and, if it can be found, the line.
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
    /// Set if the file is valid but uses a feature that is refused for a file from its source.
    pub(crate) is_refusal: bool,
}

impl ConfigError {
    fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into(), hint: None, is_refusal: false }
    }

    fn unreadable(message: impl Into<String>) -> Self {
        Self::new(Reason::ConfigUnreadable, message)
    }

    /// Reports content in the place of a path. `name` is the option or variable, `kind` the file that it should name.
    fn content_for_path(name: &str, kind: &str) -> Self {
        Self::unreadable(format!("`{name}` seems to contain the {kind} itself instead of its path"))
            .hint("write it to a file; in GitLab, make it a variable of type File")
    }

    fn refused(self) -> Self {
        Self { is_refusal: true, ..self }
    }

    fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ConfigError {}

/// The environment as a value, so that tests do not need their own process.
#[derive(Clone)]
pub(crate) struct Environment {
    variables: BTreeMap<OsString, OsString>,
    /// The mount point of the talosconfig that `talosctl inject serviceaccount` adds to a pod.
    talos_mount: PathBuf,
    /// The mount point of a pod's own Kubernetes credentials.
    service_account: PathBuf,
}

impl Environment {
    pub(crate) fn of_process() -> Self {
        Self::new(std::env::vars_os())
    }

    pub(crate) fn new<K: Into<OsString>, V: Into<OsString>>(variables: impl IntoIterator<Item = (K, V)>) -> Self {
        Self {
            variables: variables.into_iter().map(|(name, value)| (name.into(), value.into())).collect(),
            talos_mount: PathBuf::from("/var/run/secrets/talos.dev/config"),
            service_account: PathBuf::from("/var/run/secrets/kubernetes.io/serviceaccount"),
        }
    }

    /// Returns the files that are read as the pod's own credentials.
    fn service_account_files(&self) -> [PathBuf; 2] {
        [self.service_account.join("ca.crt"), self.service_account.join("token")]
    }

    /// Returns the value of a variable. An empty one counts as not set, as is usual in shells and CI.
    fn os(&self, name: &str) -> Option<&OsStr> {
        self.variables.get(OsStr::new(name)).map(OsString::as_os_str).filter(|value| !value.is_empty())
    }

    /// Returns the value of a variable, if it is valid UTF-8.
    pub(crate) fn get(&self, name: &str) -> Option<String> {
        self.text(name).map(str::to_owned)
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.os(name).and_then(OsStr::to_str)
    }

    fn home(&self) -> Option<PathBuf> {
        self.os("HOME").map(PathBuf::from).filter(|home| home.is_absolute())
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Values contain proxy passwords and, in CI, all kinds of other secrets.
        f.debug_struct("Environment").field("names", &self.variables.keys()).finish_non_exhaustive()
    }
}

/// Formats a name from a file for display: short, on one line, and never a text that could be part of a key or token pasted in a name's
/// place.
fn shown(name: &str) -> String {
    const LONGEST: usize = 64;
    if looks_secret(name) {
        return "(not shown)".to_owned();
    }
    let mut text: String = name.chars().take(LONGEST).flat_map(char::escape_debug).collect();
    if name.chars().nth(LONGEST).is_some() {
        text.push('…');
    }
    format!("`{text}`")
}

/// Formats a path from the command line or the environment. Scripts that keep a whole kubeconfig in a variable sometimes pass the contents
/// where the path belongs.
fn shown_path(path: &Path) -> String {
    path_text(path).map_or_else(|| "(not shown)".to_owned(), |text| format!("`{text}`"))
}

/// Returns the path as text, or `None` if it cannot be told apart from file contents. A path that exists is always shown.
fn path_text(path: &Path) -> Option<String> {
    const LONGEST: usize = 1024;
    let text = path.to_string_lossy();
    if !path.exists() && is_contents(&text) {
        return None;
    }
    let mut shown: String = text.chars().take(LONGEST).map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
    if text.chars().nth(LONGEST).is_some() {
        shown.push('…');
    }
    Some(shown)
}

fn is_contents(text: &str) -> bool {
    if text.contains(|c: char| c.is_control() || matches!(c, '{' | '"')) {
        return true;
    }
    // Base64 has slashes too, but rarely begins with one.
    if text.starts_with('/') { text.split('/').any(looks_secret) } else { looks_secret(text) }
}

fn looks_secret(text: &str) -> bool {
    // PEM in base64, PEM, DER in base64, JWT.
    const OPENINGS: [&str; 5] = ["LS0t", "-----", "MI", "MC", "eyJ"];
    const LONGEST_RUN: usize = 14;
    if text.len() >= 8 && OPENINGS.iter().any(|opening| text.contains(opening)) {
        return true;
    }
    text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '+' || c == '/' || c == '=' || c == '_')).any(|run| {
        let mixed = run.contains(|c: char| c.is_ascii_lowercase()) && run.contains(|c: char| c.is_ascii_uppercase());
        run.len() > LONGEST_RUN && mixed || run.len() > 40
    })
}

/// Lists the names to choose from: the first few, then the number of the others.
fn listed<'a>(names: impl ExactSizeIterator<Item = &'a str>) -> String {
    some(names.map(shown), 10)
}

/// Returns the hint for an unknown context.
fn choose_context<'a>(wanted: &str, names: impl ExactSizeIterator<Item = &'a str> + Clone) -> String {
    match nearest(wanted, names.clone()) {
        Some(name) => format!("did you mean {}? there are {}", shown(name), listed(names)),
        None => format!("there are {}", listed(names)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_bounded_and_harmless() {
        assert_eq!(shown("admin@prod"), "`admin@prod`");
        assert_eq!(shown("a\u{1b}[31m\nb"), "`a\\u{1b}[31m\\nb`");
        assert_eq!(shown("LS0tLS1CRUdJTiBF"), "(not shown)");
        assert_eq!(shown("aGVsbG8gd29ybGQgaGVsbG8K"), "(not shown)");
        assert!(shown(&"a b".repeat(1000)).len() < 200);
        let many: Vec<String> = (0..500).map(|i| format!("c-{i}")).collect();
        assert!(listed(many.iter().map(String::as_str)).ends_with("and 490 more"));
    }

    #[test]
    fn paths_are_shown_and_contents_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let odd = folder.path().join("aGVsbG8gd29ybGQgaGVsbG8K");
        for path in ["/Users/alexander/.kube/config", "kube/admin.conf", "./Other Place/k", "/a\u{f6}"] {
            assert_eq!(shown_path(Path::new(path)), format!("`{path}`"));
        }
        assert_eq!(shown_path(&odd), "(not shown)");
        std::fs::write(&odd, "").unwrap();
        assert_eq!(shown_path(&odd), format!("`{}`", odd.display()), "it leads to a file");
        for contents in [
            "apiVersion: v1\nusers: []\n",
            "{apiVersion: v1, users: [{user: {token: abc}}]}",
            "eyJhbGciOiJSUzI1NiJ9.e30.c2ln",
            "/eyJhbGciOiJSUzI1NiJ9.e30.c2ln",
            "LS0tLS1CRUdJTiBFRDI1NTE5",
            "a/bcdEFGhij/kLmnopqR+stuv/Wxyz0123=",
        ] {
            assert_eq!(shown_path(Path::new(contents)), "(not shown)", "{contents}");
        }
    }

    #[test]
    fn the_environment_shows_no_values() {
        let environment = Environment::new([("HTTPS_PROXY", "http://user:hunter22@proxy.example")]);
        assert!(!format!("{environment:?}").contains("hunter22"));
    }
}
