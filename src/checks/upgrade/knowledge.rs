//! Flags, feature gates, plugins and APIs that versions of Kubernetes, etcd and Talos accept, as extracted by `make knowledge` from their
//! published modules.
//!
//! Each row applies to a range of minor versions. An empty cell represents the first or the last version of the table.

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::sync::LazyLock;

macro_rules! tables {
    ($($(#[$doc:meta])* $name:ident $file:literal;)*) => {
        $($(#[$doc])* pub(super) const $name: &str = include_str!(concat!("knowledge/", $file, ".tsv"));)*

        /// All tables, with their names.
        #[cfg(test)]
        pub(super) const ALL: &[(&str, &str)] = &[$(($file, $name)),*];
    };
}

tables! {
    KUBERNETES_FLAGS "kubernetes-flags";
    KUBERNETES_GATES "kubernetes-gates";
    KUBERNETES_PLUGINS "kubernetes-plugins";
    KUBERNETES_APIS "kubernetes-apis";
    ETCD_FLAG_TABLE "etcd-flags";
    /// The oldest etcd that can be upgraded to the next minor version, and the recommended one. Maintained by hand from etcd's guides.
    HOPS "etcd-hops";
    TALOS_DENIED "talos-denied";
    /// The etcd version of each Talos release, with one row per release.
    RELEASES "talos-etcd";
}

/// Talos's own compatibility table, with one row per minor version.
#[cfg(test)]
pub(super) const COMPATIBILITY: &str = include_str!("knowledge/talos-compatibility.tsv");

/// Flags of each component of Kubernetes: `COMPONENT⇥FLAG`, and whether it is deprecated.
pub(super) static FLAGS: LazyLock<Table> = LazyLock::new(|| Table::read(KUBERNETES_FLAGS, 2));
/// Feature gates of all components: stage, default, and whether the default is the only allowed value.
pub(super) static GATES: LazyLock<Table> = LazyLock::new(|| Table::read(KUBERNETES_GATES, 1));
/// Admission plugins of kube-apiserver.
pub(super) static PLUGINS: LazyLock<Table> = LazyLock::new(|| Table::read(KUBERNETES_PLUGINS, 1));
/// Versions of APIs, `GROUP/VERSION⇥`; with a kind, the version that removes it.
pub(super) static APIS: LazyLock<Table> = LazyLock::new(|| Table::read(KUBERNETES_APIS, 2));
/// Flags of etcd.
pub(super) static ETCD_FLAGS: LazyLock<Table> = LazyLock::new(|| Table::read(ETCD_FLAG_TABLE, 1));
/// Arguments of etcd that Talos sets itself and denies in `extraArgs`.
pub(super) static DENIED: LazyLock<Table> = LazyLock::new(|| Table::read(TALOS_DENIED, 1));

/// Returns the rows without the header, which has the date, the versions and the names of the columns.
pub(super) fn rows(table: &'static str) -> impl Iterator<Item = Vec<&'static str>> {
    table.lines().skip_while(|line| line.starts_with('#')).skip(1).map(|line| line.split('\t').collect())
}

/// A table whose rows apply to some minor versions.
pub(super) struct Table {
    /// All minor versions that the table covers.
    minors: RangeInclusive<u32>,
    spans: HashMap<&'static str, Vec<Span>>,
}

/// Minor versions to which the cells of a key apply.
struct Span {
    minors: RangeInclusive<u32>,
    cells: Vec<&'static str>,
}

/// The status of a name in one version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Known {
    Present,
    /// Removed in this minor version.
    Gone(u32),
    /// Added in this minor version.
    Later(u32),
    /// Absent from every version of the table: the name belongs to a custom build or a newer version.
    Never,
}

/// Returns the minor version of `1.37.2` or `1.37`.
fn minor(version: &str) -> Option<u32> {
    version.split('.').nth(1)?.parse().ok()
}

impl Table {
    /// Parses a table. `keys` is the number of cells that form the key of a row.
    fn read(text: &'static str, keys: usize) -> Self {
        let versions = text.lines().find_map(|line| line.strip_prefix("# versions: ")).unwrap_or_default();
        let mut known = versions.split(' ').filter_map(minor);
        let first = known.next().unwrap_or_default();
        let minors = first..=known.next_back().unwrap_or(first);
        let mut spans: HashMap<_, Vec<Span>> = HashMap::new();
        for line in text.lines().skip_while(|line| line.starts_with('#')).skip(1) {
            let end = line.match_indices('\t').nth(keys - 1).map_or(line.len(), |(at, _)| at);
            let (key, rest) = line.split_at(end);
            let mut cells: Vec<_> = rest.split('\t').skip(1).collect();
            let (until, since) = (cells.pop().and_then(minor), cells.pop().and_then(minor));
            let minors = since.unwrap_or(*minors.start())..=until.unwrap_or(*minors.end());
            spans.entry(key).or_default().push(Span { minors, cells });
        }
        for spans in spans.values_mut() {
            spans.sort_by_key(|it| *it.minors.start());
        }
        Self { minors, spans }
    }

    /// Returns the versions for which the table shows every removal: those with a predecessor in the table.
    pub(super) fn targets(&self) -> RangeInclusive<u32> {
        self.minors.start() + 1..=*self.minors.end()
    }

    pub(super) fn minors(&self) -> RangeInclusive<u32> {
        self.minors.clone()
    }

    fn spans(&self, key: &str) -> &[Span] {
        self.spans.get(key).map(Vec::as_slice).unwrap_or_default()
    }

    /// Returns the keys of the rows that apply to this version.
    pub(super) fn names(&self, minor: u32) -> impl Iterator<Item = &'static str> {
        let holds = move |spans: &Vec<Span>| spans.iter().any(|it| it.minors.contains(&minor));
        self.spans.iter().filter(move |(_, spans)| holds(spans)).map(|(key, _)| *key)
    }

    pub(super) fn known(&self, key: &str, minor: u32) -> Known {
        let spans = self.spans(key);
        if spans.iter().any(|it| it.minors.contains(&minor)) {
            return Known::Present;
        }
        let last = spans.iter().map(|it| *it.minors.end()).filter(|last| *last < minor).max();
        let first = spans.first().map(|it| *it.minors.start());
        last.map(|last| Known::Gone(last + 1)).or(first.map(Known::Later)).unwrap_or(Known::Never)
    }

    /// Returns the minor version since which a feature gate cannot have this value, if that still applies to this one.
    pub(super) fn locked(&self, gate: &str, is_on: bool, minor: u32) -> Option<u32> {
        let other = if is_on { "false" } else { "true" };
        let mut spans =
            self.spans(gate).iter().filter(|it| matches!(it.cells[..], [_, default, "true"] if default == other));
        let first = spans.clone().next()?;
        spans.any(|it| it.minors.contains(&minor)).then_some(*first.minors.start())
    }
}

/// Formats `1.31 to 1.37`, for people.
pub(super) fn in_words(major: u32, minors: &RangeInclusive<u32>) -> String {
    format!("{major}.{} to {major}.{}", minors.start(), minors.end())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLES: [&LazyLock<Table>; 6] = [&FLAGS, &GATES, &PLUGINS, &APIS, &ETCD_FLAGS, &DENIED];

    #[test]
    fn every_row_holds_in_versions_of_its_table_and_never_twice() {
        for table in TABLES {
            assert!(table.spans.len() > 10 && table.targets().count() > 1);
            for (key, spans) in &table.spans {
                assert!(!key.is_empty() && key.is_ascii());
                for it in spans {
                    assert!(it.minors.start() <= it.minors.end(), "{key}");
                    assert!(
                        table.minors.contains(it.minors.start()) && table.minors.contains(it.minors.end()),
                        "{key}"
                    );
                }
                assert!(spans.windows(2).all(|pair| pair[0].minors.end() < pair[1].minors.start()), "{key}");
            }
        }
        for it in GATES.spans.values().flatten() {
            assert!(matches!(it.cells[..], [_, "true" | "false", "true" | "false"]), "{:?}", it.cells);
        }
    }

    #[test]
    fn each_table_has_its_date_and_its_versions() {
        for text in ALL.iter().map(|(_, text)| *text).chain([COMPATIBILITY]) {
            let head: Vec<_> = text.lines().take(2).collect();
            let is_dated = ["made by `make knowledge` on 20", "kept by hand, as of 20"];
            assert!(is_dated.iter().any(|words| head[0].contains(words)), "{head:?}");
            assert!(head[1].starts_with("# versions: "), "{head:?}");
        }
        assert_eq!(*FLAGS.minors().end(), 37);
        assert_eq!(ETCD_FLAGS.minors(), 5..=7);
    }

    /// Compares with facts from the changelogs, which are not extracted automatically.
    #[test]
    fn the_tables_say_what_the_changelogs_say() {
        let cadvisor = FLAGS.spans.keys().filter_map(|key| key.strip_prefix("kubelet\t"));
        let gone = |flag: &&str| FLAGS.known(&format!("kubelet\t{flag}"), 37) == Known::Gone(37);
        assert_eq!(cadvisor.filter(gone).count(), 18, "flags of cAdvisor, as the changelog of 1.37 counts them");
        let experimental = ETCD_FLAGS.spans.keys().filter(|flag| flag.starts_with("experimental-"));
        let gone = experimental.filter(|flag| ETCD_FLAGS.known(flag, 7) == Known::Gone(7));
        assert_eq!(gone.count(), 23, "as the guide to etcd 3.7 counts them");
        assert_eq!(APIS.known("scheduling.k8s.io/v1alpha2\t", 37), Known::Gone(37));
    }

    #[test]
    fn a_name_is_gone_from_its_version_on() {
        let gates = [35, 36, 37].map(|minor| GATES.known("SidecarContainers", minor));
        assert_eq!(gates, [Known::Present, Known::Present, Known::Gone(37)]);
        assert_eq!(GATES.known("AppArmor", 37), Known::Gone(33));
        assert_eq!(GATES.known("MyOwn", 37), Known::Never);
        assert_eq!(FLAGS.known("kube-proxy\tcontainerd", 36), Known::Never, "of another component");
        let locked = [35, 36].map(|minor| GATES.locked("TopologyManagerPolicyOptions", false, minor));
        assert_eq!(locked, [None, Some(36)]);
        assert_eq!(GATES.locked("TopologyManagerPolicyOptions", true, 36), None);
        assert_eq!(GATES.locked("SidecarContainers", false, 37), None, "it is gone");
        assert_eq!(in_words(1, &(31..=37)), "1.31 to 1.37");
    }
}
