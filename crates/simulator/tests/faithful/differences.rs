//! `differences.toml`: intended differences of the simulator.

use std::path::Path;

use regex::Regex;
use serde::Deserialize;

use crate::facts::{Difference, Side};

/// All entries, and whether each of them was used.
pub(crate) struct Differences(Vec<(Entry, bool)>);

#[derive(Deserialize)]
struct File {
    #[serde(default)]
    difference: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    /// `*` matches anything, also in `call`.
    state: String,
    call: String,
    /// A regular expression that has to match all of `PATH = WHAT`.
    path: String,
    side: Which,
    #[expect(dead_code, reason = "it is for readers; it has to be there")]
    why: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Which {
    Real,
    Simulated,
    Both,
}

impl Differences {
    pub(crate) fn read() -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/faithful/differences.toml");
        let file: File = toml::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        Self(file.difference.into_iter().map(|entry| (entry, false)).collect())
    }

    /// Whether a difference is listed. All entries that list it count as used.
    pub(crate) fn explain(&mut self, state: &str, call: &str, difference: &Difference) -> bool {
        let mut explained = false;
        for (entry, used) in &mut self.0 {
            if entry.lists(state, call, difference) {
                (*used, explained) = (true, true);
            }
        }
        explained
    }

    pub(crate) fn unused(&self) -> impl Iterator<Item = String> {
        let unused = self.0.iter().filter(|(_, used)| !used);
        unused.map(|(Entry { state, call, path, .. }, _)| format!("{state}: {call}: {path}"))
    }
}

impl Entry {
    fn lists(&self, state: &str, call: &str, difference: &Difference) -> bool {
        let side = matches!(
            (&self.side, difference.side),
            (Which::Both, _) | (Which::Real, Side::Real) | (Which::Simulated, Side::Simulated)
        );
        let text = format!("{} = {}", difference.path, difference.what);
        side && glob(&self.state, state) && glob(&self.call, call) && whole(&self.path).is_match(&text)
    }
}

fn glob(pattern: &str, text: &str) -> bool {
    whole(&pattern.split('*').map(regex::escape).collect::<Vec<_>>().join(".*")).is_match(text)
}

fn whole(expression: &str) -> Regex {
    Regex::new(&format!("^(?s:{expression})$")).unwrap()
}
