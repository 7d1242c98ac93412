//! What the versions of Kubernetes, etcd and Talos accept, as `make knowledge` extracts it from their published modules.
//!
//! A row of a table holds from one minor version to another; an empty cell stands for the first or the last one of the table.

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::sync::LazyLock;

macro_rules! tables {
    ($($(#[$doc:meta])* $name:ident $file:literal;)*) => {
        $($(#[$doc])* pub(super) const $name: &str = include_str!(concat!("knowledge/", $file, ".tsv"));)*

        /// All of them, with their names.
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
    /// The least etcd for the next minor version, and the one that is recommended: etcd's guides, kept by hand.
    HOPS "etcd-hops";
    TALOS_DENIED "talos-denied";
    /// The etcd that each release of Talos brings, one release a row.
    RELEASES "talos-etcd";
}

/// Talos's own table of what goes together, one minor version a row.
#[cfg(test)]
pub(super) const COMPATIBILITY: &str = include_str!("knowledge/talos-compatibility.tsv");

/// Flags of each component of Kubernetes: `COMPONENT⇥FLAG`, and whether it is deprecated.
pub(super) static FLAGS: LazyLock<Table> = LazyLock::new(|| Table::read(KUBERNETES_FLAGS, 2));
/// Feature gates of all components: stage, default, and whether that is the only value.
pub(super) static GATES: LazyLock<Table> = LazyLock::new(|| Table::read(KUBERNETES_GATES, 1));
/// Admission plugins of kube-apiserver.
pub(super) static PLUGINS: LazyLock<Table> = LazyLock::new(|| Table::read(KUBERNETES_PLUGINS, 1));
/// Versions of APIs, `GROUP/VERSION⇥`; with a kind, the version that removes it.
pub(super) static APIS: LazyLock<Table> = LazyLock::new(|| Table::read(KUBERNETES_APIS, 2));
/// Flags of etcd.
pub(super) static ETCD_FLAGS: LazyLock<Table> = LazyLock::new(|| Table::read(ETCD_FLAG_TABLE, 1));
/// Arguments of etcd that Talos sets itself and denies in `extraArgs`.
pub(super) static DENIED: LazyLock<Table> = LazyLock::new(|| Table::read(TALOS_DENIED, 1));

/// Rows without the head, which has the date, the versions and the names of the columns.
pub(super) fn rows(table: &'static str) -> impl Iterator<Item = Vec<&'static str>> {
    table.lines().skip_while(|line| line.starts_with('#')).skip(1).map(|line| line.split('\t').collect())
}

/// A table whose rows hold in some minor versions.
pub(super) struct Table {
    /// Minor versions that it has, all of them.
    minors: RangeInclusive<u32>,
    spans: HashMap<&'static str, Vec<Span>>,
}

/// Minor versions in which the cells beside a key hold.
struct Span {
    minors: RangeInclusive<u32>,
    cells: Vec<&'static str>,
}

/// What a table says of a name in one version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Known {
    Present,
    /// Gone as of this minor version.
    Gone(u32),
    /// Not there before this minor version.
    Later(u32),
    /// Absent from every version of the table: a build of its own has it, or one that is newer.
    Never,
}

/// `1.37.2` and `1.37`, without the major version.
fn minor(version: &str) -> Option<u32> {
    version.split('.').nth(1)?.parse().ok()
}

impl Table {
    /// `keys`: how many cells name what a row is about.
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

    /// Versions to which the table says all that is gone: those that have one before them.
    pub(super) fn targets(&self) -> RangeInclusive<u32> {
        self.minors.start() + 1..=*self.minors.end()
    }

    pub(super) fn minors(&self) -> RangeInclusive<u32> {
        self.minors.clone()
    }

    fn spans(&self, key: &str) -> &[Span] {
        self.spans.get(key).map(Vec::as_slice).unwrap_or_default()
    }

    /// What the rows of this version are about.
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

    /// Since which minor version a feature gate may not have this value, if that is so in this one.
    pub(super) fn locked(&self, gate: &str, is_on: bool, minor: u32) -> Option<u32> {
        let other = if is_on { "false" } else { "true" };
        let mut spans =
            self.spans(gate).iter().filter(|it| matches!(it.cells[..], [_, default, "true"] if default == other));
        let first = spans.clone().next()?;
        spans.any(|it| it.minors.contains(&minor)).then_some(*first.minors.start())
    }
}

/// `1.31 to 1.37`, for people.
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

    /// Facts of the changelogs, which nobody extracts.
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
