//! The justified survivors in `accepted.toml`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context as _, bail};
use serde::Deserialize;

use crate::list::Mutant;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    accepted: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    why: String,
    mutants: Vec<String>,
}

/// The keys of accepted mutants.
pub(crate) struct Accepted(BTreeSet<String>);

impl Accepted {
    pub(crate) fn read(path: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
        Self::parse(&text).with_context(|| path.display().to_string())
    }

    fn parse(text: &str) -> anyhow::Result<Self> {
        let file: File = toml::from_str(text)?;
        let mut keys = BTreeSet::new();
        for entry in file.accepted {
            if entry.why.trim().is_empty() || entry.mutants.is_empty() {
                bail!("an entry needs a `why` and `mutants`");
            }
            for key in entry.mutants {
                if !keys.insert(key.clone()) {
                    bail!("twice: {key}");
                }
            }
        }
        Ok(Self(keys))
    }

    pub(crate) fn contains(&self, mutant: &Mutant) -> bool {
        self.0.contains(&mutant.key)
    }

    /// Returns entries that are no longer needed, with the reason: their code is gone, or a test now catches them.
    pub(crate) fn stale<'a>(
        &'a self,
        mutants: &[Mutant],
        survives: impl Fn(usize) -> bool,
    ) -> Vec<(&'a str, &'static str)> {
        let by_key: BTreeMap<&str, usize> =
            mutants.iter().enumerate().map(|(id, mutant)| (mutant.key.as_str(), id)).collect();
        let stale = |key: &'a String| match by_key.get(key.as_str()) {
            None => Some((key.as_str(), "no such mutant")),
            Some(&id) if !survives(id) => Some((key.as_str(), "it does not survive")),
            Some(_) => None,
        };
        self.0.iter().filter_map(stale).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::list::{Genre, Place, Span};

    fn mutant(key: &str) -> Mutant {
        let place = Place { line: 1, column: 1 };
        Mutant {
            file: String::new(),
            name: String::new(),
            genre: Genre::FnValue,
            replacement: String::new(),
            span: Span { start: place, end: place },
            key: key.to_owned(),
        }
    }

    #[test]
    fn entries_that_are_needed_no_longer_are_named() {
        let accepted =
            Accepted::parse("[[accepted]]\nwhy = \"it means the same\"\nmutants = [\"a\", \"b\", \"c\"]").unwrap();
        let mutants = [mutant("a"), mutant("b"), mutant("d")];
        assert!(accepted.contains(&mutants[0]) && !accepted.contains(&mutants[2]));
        let stale = accepted.stale(&mutants, |id| id == 0);
        assert_eq!(stale, [("b", "it does not survive"), ("c", "no such mutant")]);
    }

    #[test]
    fn what_is_accepted_is_in_the_sources() {
        let crate_root = Path::new(env!("CARGO_MANIFEST_DIR"));
        for key in Accepted::read(&crate_root.join("accepted.toml")).unwrap().0 {
            let (file, change) = key.split_once(": ").unwrap();
            let source = std::fs::read_to_string(crate_root.join("../..").join(file)).expect(&key);
            assert!(source.lines().any(|line| change.ends_with(&format!(": {}", line.trim()))), "{key}");
        }
    }

    #[test]
    fn every_entry_has_a_reason_and_stands_once() {
        for text in [
            "[[accepted]]\nwhy = \"\"\nmutants = [\"a\"]",
            "[[accepted]]\nwhy = \"because\"\nmutants = []",
            "[[accepted]]\nwhy = \"because\"\nmutants = [\"a\", \"a\"]",
            "[[accepted]]\nmutants = [\"a\"]",
        ] {
            assert!(Accepted::parse(text).is_err(), "{text}");
        }
        assert!(Accepted::parse("").is_ok());
    }
}
