//! Known defects: a file with the reason for each. An entry has to be removed as soon as the defect is fixed.

use std::path::Path;

use anyhow::Context as _;
use serde::Deserialize;

use crate::case::Case;

/// A known defect.
pub(crate) struct Known {
    pub(crate) law: String,
    pub(crate) case: Case,
    pub(crate) why: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    known: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    why: String,
    law: String,
    cases: Vec<String>,
}

pub(crate) fn read(path: &Path) -> anyhow::Result<Vec<Known>> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let file: File = toml::from_str(&text).with_context(|| path.display().to_string())?;
    let mut known = Vec::new();
    for Entry { why, law, cases } in file.known {
        for line in cases {
            let case = line.parse().with_context(|| format!("`{line}`"))?;
            known.push(Known { law: law.clone(), case, why: why.clone() });
        }
    }
    Ok(known)
}

/// Whether `case` has everything that `part` has, so that it breaks the same law for the same reason.
pub(crate) fn has(case: &Case, part: &Case) -> bool {
    let fault = |name: &str| case.faults.iter().any(|planted| planted.fault.name == name);
    part.faults.iter().all(|planted| fault(planted.fault.name))
        && part.shapes.iter().all(|shape| case.has_shape(shape.name))
        && part.choices.iter().all(|choice| case.has_choice(choice.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_of_this_crate_is_sound() {
        let known = read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("known.toml")).unwrap();
        for known in known {
            assert!(known.case.is_sound() && !known.why.is_empty(), "{}", known.case);
        }
    }
}
