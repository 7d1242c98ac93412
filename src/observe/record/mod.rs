//! Stores the raw answers of a run's first round, for fixtures. Only in builds with the feature `record`, never in a release.
//!
//! `$CLUSTER_HEALTH_RECORD` names a file that must not exist yet. When the round is over, including second samples, it receives one JSON
//! document: `run` (version, time), `state` (the content of `$CLUSTER_HEALTH_RECORD_STATE`, for readers) and `calls`. The document contains
//! the data from the wire, as far as our own messages can represent it, before any evaluation, and the gap that resulted. Every document
//! passes through [`scrub`], headers are never stored, and a kubeconfig is only counted. External etcd is left out: its client does not
//! expose raw answers.

pub(super) mod blind;
pub(super) mod kubernetes;
mod layout;
mod scrub;
pub(super) mod talos;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::snapshot::Gap;
use crate::text::sanitize::clean;

const FILE: &str = "CLUSTER_HEALTH_RECORD";
const STATE: &str = "CLUSTER_HEALTH_RECORD_STATE";

pub(super) const VARIABLES: &[&str] = &[FILE, STATE, blind::BLIND];

/// The recording of an observer, which is written when the second round begins or the observer is dropped.
pub(super) struct Recording {
    rounds: usize,
}

impl Recording {
    /// Begins a recording if one is requested. A run that queries nothing has one too.
    pub(super) fn begin() -> Self {
        recorder();
        Self { rounds: 0 }
    }

    /// Counts rounds, and finishes the recording when the second one begins. A recorded state is one round: later rounds of a waiting run
    /// show the same state again, or another one.
    pub(super) fn round(&mut self) {
        self.rounds += 1;
        if let Some(recorder) = recorder().filter(|_| self.rounds > 1) {
            recorder.finish();
        }
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        if let Some(recorder) = recorder() {
            recorder.finish();
        }
    }
}

fn recorder() -> Option<&'static Recorder> {
    static RECORDER: OnceLock<Option<Recorder>> = OnceLock::new();
    RECORDER.get_or_init(|| Recorder::begin(std::env::var_os(FILE), std::env::var(STATE).ok())).as_ref()
}

/// A recording that has begun.
struct Recorder {
    path: PathBuf,
    run: Value,
    state: Value,
    /// `None` once it is written.
    tape: Mutex<Option<Round>>,
}

/// The data collected until the recording is written.
struct Round {
    file: File,
    /// Number of calls that have begun, whether or not they have ended.
    asked: usize,
    calls: BTreeMap<Key, Value>,
}

/// The place of a call in the document. The same calls have the same place in every recording, regardless of their duration.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    source: &'static str,
    whom: String,
    question: String,
    /// Counts calls in the order in which they began.
    number: usize,
}

impl Recorder {
    fn begin(path: Option<OsString>, state: Option<String>) -> Option<Self> {
        let path = PathBuf::from(path.filter(|path| !path.is_empty())?);
        let run = json!({ "version": env!("CARGO_PKG_VERSION"), "time": Timestamp::now().to_string() });
        // A text that is not JSON is stored as a note.
        let state = state.map_or(Value::Null, |text| serde_json::from_str(&text).unwrap_or(Value::String(text)));
        // Opened now, so that a wrong path is reported at once, and a killed run leaves an empty file.
        match File::create_new(&path) {
            Ok(file) => {
                let round = Round { file, asked: 0, calls: BTreeMap::new() };
                Some(Self { path, run, state, tape: Mutex::new(Some(round)) })
            }
            Err(error) => {
                complain(&path, &error.to_string());
                None
            }
        }
    }

    fn tape(&self) -> MutexGuard<'_, Option<Round>> {
        self.tape.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of a new call; `None` if the round is over.
    fn ask(&self) -> Option<usize> {
        let mut tape = self.tape();
        let round = tape.as_mut()?;
        round.asked += 1;
        Some(round.asked)
    }

    fn store(&self, key: Key, mut call: Value) {
        scrub::scrub(&mut call);
        if let Some(round) = self.tape().as_mut() {
            round.calls.insert(key, call);
        }
    }

    fn finish(&self) {
        let Some(Round { mut file, asked, calls }) = self.tape().take() else { return };
        if calls.len() != asked {
            complain(&self.path, &format!("{} of {asked} calls had not ended", asked - calls.len()));
        }
        let calls: Vec<_> = calls.into_values().collect();
        let mut document = json!({ "run": self.run, "state": self.state, "calls": calls });
        scrub::scrub(&mut document["state"]);
        if let Err(error) = file.write_all(layout::text(&document).as_bytes()) {
            complain(&self.path, &error.to_string());
        }
    }
}

/// Reports a failure, because an incomplete recording must not pass for a complete one.
fn complain(path: &Path, why: &str) {
    let _ = writeln!(io::stderr(), "error: could not record `{}`: {why}", clean(&path.to_string_lossy()));
}

/// A call in progress.
struct Call {
    recorder: &'static Recorder,
    number: usize,
    began: Instant,
}

impl Call {
    /// Begins a call; `None` if nothing is recorded, or the recording is finished.
    fn begin() -> Option<Self> {
        let recorder = recorder()?;
        let number = recorder.ask()?;
        Some(Self { recorder, number, began: Instant::now() })
    }

    /// Milliseconds so far.
    fn took(&self) -> u64 {
        u64::try_from(self.began.elapsed().max(Duration::ZERO).as_millis()).unwrap_or(u64::MAX)
    }

    fn end(&self, source: &'static str, whom: &str, question: String, call: Value) {
        let key = Key { source, whom: whom.to_owned(), question, number: self.number };
        self.recorder.store(key, call);
    }
}

/// Returns the failure of a call: `null` if there was an answer.
fn gap(gap: Option<&Gap>) -> Value {
    gap.map_or(Value::Null, |gap| json!({ "kind": format!("{:?}", gap.kind), "text": gap.text }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(whom: &str, question: &str, number: usize) -> Key {
        Key { source: "talos", whom: whom.into(), question: question.into(), number }
    }

    fn begin(path: &Path, state: Option<&str>) -> Option<Recorder> {
        Recorder::begin(Some(path.into()), state.map(str::to_owned))
    }

    #[test]
    fn without_the_variable_nothing_is_recorded() {
        assert!(Recorder::begin(None, None).is_none());
        assert!(Recorder::begin(Some(OsString::new()), None).is_none());
    }

    #[test]
    fn a_file_takes_one_recording_of_one_round() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("healthy.json");
        let recorder = begin(&path, Some(r#"{"name":"healthy","token":"abc"}"#)).unwrap();
        let numbers: Vec<_> = (0..4).map_while(|_| recorder.ask()).collect();
        assert_eq!(numbers, [1, 2, 3, 4]);
        for (whom, question, number) in [("b", "x", 1), ("a", "y", 2), ("a", "x", 4), ("a", "x", 3)] {
            recorder.store(key(whom, question, number), json!({ "token": "abc", "number": number }));
        }
        recorder.finish();
        assert_eq!(recorder.ask(), None);
        recorder.store(key("c", "late", 5), json!({}));
        recorder.finish();

        let document: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        assert_eq!(document["run"]["version"], env!("CARGO_PKG_VERSION"));
        assert!(document["run"]["time"].as_str().unwrap().parse::<Timestamp>().is_ok());
        assert_eq!(document["state"], json!({ "name": "healthy", "token": "(cut)" }));
        let numbers: Vec<_> =
            document["calls"].as_array().unwrap().iter().map(|call| call["number"].as_u64()).collect();
        assert_eq!(numbers, [Some(3), Some(4), Some(2), Some(1)]);
        assert_eq!(document["calls"][0]["token"], "(cut)");
        assert!(begin(&path, None).is_none());
    }

    #[test]
    fn a_state_may_be_a_note_or_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let state = |name: &str, text| begin(&folder.path().join(name), text).unwrap().state;
        assert_eq!(state("a", Some("after the upgrade")), json!("after the upgrade"));
        assert_eq!(state("b", None), Value::Null);
    }
}
