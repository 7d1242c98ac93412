//! Compatible versions, as data. A version that is not in these tables is unknown, and never counts as a pass.
//!
//! The tables are as of 2026-11-29. Talos: the compatibility tables that its installer and `talosctl upgrade-k8s` use, one for each minor
//! version; a test compares them with `make knowledge`. 1.15 is in development and not published: compatibility/talos115 of its repository.
//! Kubernetes: its version skew policy, for versions that some Talos of the table supports.

use std::ops::RangeInclusive;

use crate::text::version;

/// Major, minor and patch version.
pub(super) type Numbers = (u32, u32, u32);

/// A minor version of Talos 1.
#[derive(Debug)]
pub(super) struct Talos {
    pub(super) minor: u32,
    /// The lowest version from which a machine can upgrade to this one.
    pub(super) from: u32,
    /// The lowest version from which a machine cannot downgrade to this one.
    pub(super) not_back_from: u32,
    /// Minor versions of Kubernetes 1 that this Talos supports.
    pub(super) kubernetes: RangeInclusive<u32>,
    /// Whether the version is released. A development version can still change.
    pub(super) is_released: bool,
}

const fn talos(minor: u32, from: u32, not_back_from: u32, kubernetes: RangeInclusive<u32>) -> Talos {
    Talos { minor, from, not_back_from, kubernetes, is_released: true }
}

const fn in_development(talos: Talos) -> Talos {
    Talos { is_released: false, ..talos }
}

pub(super) const TALOS: [Talos; 11] = [
    talos(5, 2, 7, 26..=28),
    talos(6, 3, 8, 24..=29),
    talos(7, 4, 9, 25..=30),
    talos(8, 5, 10, 26..=31),
    talos(9, 8, 11, 27..=32),
    talos(10, 8, 12, 28..=33),
    talos(11, 9, 13, 29..=34),
    talos(12, 10, 14, 30..=35),
    talos(13, 11, 15, 31..=36),
    talos(14, 12, 16, 32..=37),
    in_development(talos(15, 13, 17, 33..=38)),
];

/// The first and the last version of Talos in the table, for people.
pub(super) const KNOWN_TALOS: &str = "1.5 to 1.15";
/// The first and the last version of Kubernetes in the table, for people.
pub(super) const KNOWN_KUBERNETES: &str = "1.24 to 1.38";

/// Returns the row for this version of Talos; `None` if the version is unknown.
pub(super) fn known_talos((major, minor, _): Numbers) -> Option<&'static Talos> {
    TALOS.iter().find(|talos| major == 1 && talos.minor == minor)
}

/// Returns true if some Talos supports this version of Kubernetes.
pub(super) fn is_known_kubernetes((major, minor, _): Numbers) -> bool {
    major == 1 && TALOS.iter().any(|talos| talos.kubernetes.contains(&minor))
}

/// Returns true if no released Talos supports this version of Kubernetes.
pub(super) fn is_kubernetes_in_development((_, minor, _): Numbers) -> bool {
    !TALOS.iter().any(|talos| talos.is_released && talos.kubernetes.contains(&minor))
}

/// Parses a version from an option.
pub(super) fn target(text: &str) -> Option<Numbers> {
    version::numbers(text)
}

/// Returns by how many minor versions a kubelet of this version may be older than any API server.
pub(super) fn kubelet_skew(kubelet: u32) -> u32 {
    if kubelet < 25 { 2 } else { 3 }
}

#[cfg(test)]
mod tests {
    use super::super::knowledge;
    use super::*;

    /// Also detects mistakes in the row of the version that is not released.
    #[test]
    fn each_row_is_as_talos_has_it() {
        let unreleased = TALOS.iter().filter(|it| !it.is_released).map(|it| it.minor);
        assert_eq!(unreleased.collect::<Vec<_>>(), [15]);
        let released = TALOS.iter().filter(|it| it.is_released).map(|it| {
            let (oldest, newest) = (it.kubernetes.start(), it.kubernetes.end());
            format!("1.{}\t1.{}\t1.{}\t1.{oldest}-1.{newest}", it.minor, it.from, it.not_back_from)
        });
        let extracted = knowledge::rows(knowledge::COMPATIBILITY).map(|row| row.join("\t"));
        assert_eq!(released.collect::<Vec<_>>(), extracted.collect::<Vec<_>>());
        let rows = TALOS.map(|it| (it.minor, it.from, it.not_back_from, it.kubernetes.into_inner()));
        assert_eq!(rows[10], (15, 13, 17, (33, 38)));
        for (row, next) in rows.iter().zip(&rows[1..]) {
            assert_eq!(row.0 + 1, next.0, "no minor version is left out");
            assert!(row.1 <= next.1 && row.2 < next.2 && row.3.1 < next.3.1, "{row:?}, then {next:?}");
        }
        for (minor, from, not_back_from, (oldest, newest)) in rows {
            assert!(from < minor && minor + 2 == not_back_from && oldest < newest, "1.{minor}");
        }
    }

    #[test]
    fn the_words_for_people_are_those_of_the_table() {
        let (first, last) = (&TALOS[0], &TALOS[TALOS.len() - 1]);
        assert_eq!(KNOWN_TALOS, format!("1.{} to 1.{}", first.minor, last.minor));
        let oldest = TALOS.iter().map(|it| *it.kubernetes.start()).min().unwrap();
        assert_eq!(KNOWN_KUBERNETES, format!("1.{oldest} to 1.{}", last.kubernetes.end()));
    }

    fn line(cells: impl IntoIterator<Item = String>) -> String {
        format!("| {} |\n", cells.into_iter().collect::<Vec<_>>().join(" | "))
    }

    /// Formats the versions of Kubernetes that Talos supports.
    fn pairs() -> String {
        let supported = TALOS.iter().filter(|talos| talos.minor >= 9);
        let versions = supported.clone().flat_map(|talos| talos.kubernetes.clone());
        let (oldest, newest) = (versions.clone().min().unwrap(), versions.max().unwrap());
        let row = |first: String, cell: &dyn Fn(u32) -> String| {
            line(std::iter::once(first).chain((oldest..=newest).map(cell)))
        };
        let mut table = row("Talos \\ Kubernetes".to_owned(), &|minor| format!("1.{minor}"));
        table += &row("---".to_owned(), &|_| "---".to_owned());
        for talos in supported {
            let mark = |minor| if talos.kubernetes.contains(&minor) { "yes" } else { "" };
            let development = if talos.is_released { "" } else { " (in development)" };
            table += &row(format!("1.{}{development}", talos.minor), &|minor| mark(minor).to_owned());
        }
        table
    }

    /// Formats the etcd version of each Talos release. Consecutive releases with the same version share a row.
    fn etcd_of_talos() -> String {
        let mut groups: Vec<(&str, &str, &str)> = Vec::new();
        for row in knowledge::rows(knowledge::RELEASES) {
            let minor = |tag: &str| tag.split('.').nth(1).unwrap().to_owned();
            match groups.last_mut() {
                Some((first, last, etcd)) if *etcd == row[1] && minor(first) == minor(row[0]) => *last = row[0],
                _ => groups.push((row[0], row[0], row[1])),
            }
        }
        let mut table = line(["Talos", "etcd"].map(str::to_owned)) + &line(["---", "---"].map(str::to_owned));
        for (first, last, etcd) in groups {
            let releases = if first == last { first.to_owned() } else { format!("{first} to {last}") };
            table += &line([releases, etcd.to_owned()]);
        }
        table
    }

    /// Formats the versions from which each table was extracted, and the date.
    fn tables() -> String {
        let mut table =
            line(["table", "versions", "extracted on"].map(str::to_owned)) + &line(["---"; 3].map(str::to_owned));
        for (name, text) in knowledge::ALL {
            let head = |mark: &str| text.lines().find_map(|line| line.split_once(mark)).unwrap().1.to_owned();
            let date = head(if text.contains("`make knowledge` on ") { "`make knowledge` on " } else { "as of " });
            let date = date.split([':', ';']).next().unwrap().to_owned();
            table += &line([(*name).to_owned(), head("# versions: ").replace(' ', ", "), date]);
        }
        table
    }

    /// `UPDATE=1` rewrites the tables.
    #[test]
    fn the_document_shows_the_tables() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/support.md");
        let mut made = std::fs::read_to_string(&path).unwrap();
        for (begins, table) in [("data.rs", pairs()), ("talos-etcd.tsv", etcd_of_talos()), ("knowledge", tables())] {
            let head =
                format!("src/checks/upgrade/{}; a test compares -->\n", begins.replace("talos-", "knowledge/talos-"));
            let (before, rest) = made.split_once(&head).unwrap_or_else(|| panic!("no `{head}`"));
            let (_, after) = rest.split_once("<!-- end -->").unwrap();
            made = format!("{before}{head}{table}<!-- end -->{after}");
        }
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(&path, &made).unwrap();
        }
        let committed = std::fs::read_to_string(&path).unwrap();
        assert!(committed == made, "`docs/support.md` is old: run the tests with UPDATE=1");
    }

    #[test]
    fn what_is_not_in_the_table_is_not_known() {
        assert!(known_talos((1, 14, 1)).is_some() && known_talos((1, 15, 0)).is_some());
        assert!(known_talos((1, 16, 0)).is_none() && known_talos((1, 4, 8)).is_none());
        assert!(known_talos((2, 14, 0)).is_none() && known_talos((0, 14, 0)).is_none());
        assert!(is_known_kubernetes((1, 38, 0)) && is_known_kubernetes((1, 24, 0)));
        assert!(is_kubernetes_in_development((1, 38, 0)) && !is_kubernetes_in_development((1, 37, 0)));
        assert!(
            !is_known_kubernetes((1, 39, 0)) && !is_known_kubernetes((1, 23, 17)) && !is_known_kubernetes((2, 35, 0))
        );
    }
}
