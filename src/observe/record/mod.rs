//! Stores the raw answer of every call of a run, for fixtures. Only in builds with the feature `record`, never in a release.
//!
//! `$CLUSTER_HEALTH_RECORD` names a folder that holds no recording yet. It gets `run.json` (version, time) and one file for each
//! call, numbered in the order of asking. What is stored is what came over the wire as far as our own messages know it, before
//! any of it is judged, and the gap that was made of it. Every document goes through [`scrub`], headers are never stored, and a
//! kubeconfig is only counted. External etcd is left out: its client shows no raw answer.

pub(super) mod kubernetes;
mod scrub;
pub(super) mod talos;

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::snapshot::Gap;

const VARIABLE: &str = "CLUSTER_HEALTH_RECORD";
/// What is this deep or deeper stands on one line: `body`, `items`, an object.
const LINES: usize = 3;
/// Longest part of a file name that comes from outside, in bytes.
const PART: usize = 80;

/// A recording that has begun.
struct Recorder {
    folder: PathBuf,
    calls: AtomicUsize,
}

/// Begins the recording of this process, if one is asked for: a run that asks nobody leaves `run.json`, too.
pub(super) fn begin() {
    recorder();
}

fn recorder() -> Option<&'static Recorder> {
    static RECORDER: OnceLock<Option<Recorder>> = OnceLock::new();
    RECORDER.get_or_init(|| Recorder::begin(std::env::var_os(VARIABLE))).as_ref()
}

impl Recorder {
    fn begin(folder: Option<OsString>) -> Option<Self> {
        let folder = PathBuf::from(folder.filter(|folder| !folder.is_empty())?);
        let run = json!({ "version": env!("CARGO_PKG_VERSION"), "time": Timestamp::now().to_string() });
        // Two recordings in one folder would be none: `write` takes no file that is there.
        let begun = std::fs::create_dir_all(&folder).and_then(|()| write(&folder.join("run.json"), &run));
        match begun {
            Ok(()) => Some(Self { folder, calls: AtomicUsize::new(0) }),
            Err(error) => {
                complain(&folder, &error);
                None
            }
        }
    }

    fn store(&self, name: &str, mut document: Value) {
        scrub::scrub(&mut document);
        let path = self.folder.join(name);
        if let Err(error) = write(&path, &document) {
            complain(&path, &error);
        }
    }
}

fn write(path: &Path, document: &Value) -> io::Result<()> {
    let mut text = String::new();
    lay_out(document, 0, &mut text);
    text.push('\n');
    File::create_new(path)?.write_all(text.as_bytes())
}

/// JSON with a line for each object of a list, so that two recordings can be compared by `diff` and are small nevertheless.
fn lay_out(value: &Value, depth: usize, out: &mut String) {
    let mut list = |begin: char, items: Vec<(Option<&String>, &Value)>, end: char| {
        out.push(begin);
        for (at, (name, item)) in items.into_iter().enumerate() {
            out.push_str(if at == 0 { "\n" } else { ",\n" });
            out.push_str(&" ".repeat(depth + 1));
            if let Some(name) = name {
                out.push_str(&Value::from(name.as_str()).to_string());
                out.push_str(": ");
            }
            lay_out(item, depth + 1, out);
        }
        out.push('\n');
        out.push_str(&" ".repeat(depth));
        out.push(end);
    };
    match value {
        Value::Object(object) if depth < LINES && !object.is_empty() => {
            list('{', object.iter().map(|(name, item)| (Some(name), item)).collect(), '}');
        }
        Value::Array(items) if depth < LINES && !items.is_empty() => {
            list('[', items.iter().map(|item| (None, item)).collect(), ']');
        }
        value => out.push_str(&value.to_string()),
    }
}

/// A recording with a hole must not pass for a whole one.
fn complain(path: &Path, error: &io::Error) {
    let _ = writeln!(io::stderr(), "error: could not record `{}`: {error}", path.display());
}

/// One call under way: its number, which is its place in the order of asking, and when it began.
struct Call {
    recorder: &'static Recorder,
    number: usize,
    began: Instant,
}

impl Call {
    /// `None`: nothing is recorded.
    fn begin() -> Option<Self> {
        let recorder = recorder()?;
        let number = recorder.calls.fetch_add(1, Ordering::Relaxed) + 1;
        Some(Self { recorder, number, began: Instant::now() })
    }

    /// Milliseconds so far.
    fn took(&self) -> u128 {
        self.began.elapsed().max(Duration::ZERO).as_millis()
    }

    fn end(&self, source: &str, whom: &str, what: &str, document: Value) {
        self.recorder.store(&file_name(self.number, source, whom, what), document);
    }
}

/// `007-talos-10.0.0.1-version.json`
fn file_name(number: usize, source: &str, whom: &str, what: &str) -> String {
    format!("{number:03}-{source}-{}-{}.json", slug(whom), slug(what))
}

/// Lower-case letters, digits and dots, with single hyphens for all else.
fn slug(text: &str) -> String {
    let mut slug = String::new();
    for char in text.chars() {
        if slug.len() >= PART {
            break;
        }
        if char.is_ascii_alphanumeric() || (char == '.' && !slug.is_empty()) {
            slug.push(char.to_ascii_lowercase());
        } else if !slug.is_empty() && !slug.ends_with('-') {
            slug.push('-');
        }
    }
    let slug = slug.trim_end_matches(['-', '.']);
    if slug.is_empty() { "none".to_owned() } else { slug.to_owned() }
}

/// What became of a call: `null` if there was an answer.
fn gap(gap: Option<&Gap>) -> Value {
    gap.map_or(Value::Null, |gap| json!({ "kind": format!("{:?}", gap.kind), "text": gap.text }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_short_harmless_and_in_order() {
        assert_eq!(file_name(7, "talos", "10.0.0.1", "Version"), "007-talos-10.0.0.1-version.json");
        assert_eq!(file_name(1234, "talos", "[fd00::1]:50000", "x"), "1234-talos-fd00-1-50000-x.json");
        let path = "/api/v1/namespaces/kube-system/pods?&limit=500";
        assert_eq!(
            file_name(12, "kubernetes", "https://k8s.example:6443/", path),
            "012-kubernetes-https-k8s.example-6443-api-v1-namespaces-kube-system-pods-limit-500.json"
        );
        assert_eq!(file_name(1, "talos", "../../etc/passwd", ".."), "001-talos-etc-passwd-none.json");
        assert_eq!(slug("ä/\0\n"), "none");
        assert!(slug(&"a".repeat(500)).len() <= PART);
    }

    #[test]
    fn without_the_variable_nothing_is_recorded() {
        assert!(Recorder::begin(None).is_none());
        assert!(Recorder::begin(Some(OsString::new())).is_none());
    }

    #[test]
    fn an_object_of_a_list_is_a_line() {
        let document =
            json!({ "a\"": null, "none": [], "body": { "items": [{ "metadata": { "name": "x" } }, { "n": 1 }] } });
        let mut text = String::new();
        lay_out(&document, 0, &mut text);
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), document);
        let lines: Vec<_> = text.lines().map(str::trim).collect();
        let expected = [
            "{",
            r#""a\"": null,"#,
            r#""none": [],"#,
            r#""body": {"#,
            r#""items": ["#,
            r#"{"metadata":{"name":"x"}},"#,
            r#"{"n":1}"#,
            "]",
            "}",
            "}",
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn a_folder_takes_one_recording() {
        let folder = tempfile::tempdir().unwrap();
        let inside = folder.path().join("state");
        let recorder = Recorder::begin(Some(inside.clone().into())).unwrap();
        recorder.store("001.json", json!({ "token": "abc", "id": u64::MAX }));
        recorder.store("001.json", json!("another"));
        let text = std::fs::read_to_string(inside.join("001.json")).unwrap();
        assert_eq!(text, "{\n \"token\": \"(cut)\",\n \"id\": 18446744073709551615\n}\n");
        let run: Value = serde_json::from_slice(&std::fs::read(inside.join("run.json")).unwrap()).unwrap();
        assert_eq!(run["version"], env!("CARGO_PKG_VERSION"));
        assert!(run["time"].as_str().unwrap().parse::<Timestamp>().is_ok());
        assert!(Recorder::begin(Some(inside.into())).is_none());
    }
}
