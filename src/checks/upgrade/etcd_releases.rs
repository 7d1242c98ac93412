//! The etcd version in each release of Talos, the upgrades that etcd allows, and the arguments that each etcd and each Talos refuse.
//!
//! Releases, flags and denied arguments are tables of [`knowledge`]. A release that is not there is unknown here, and never counts as a
//! pass.

use std::ops::RangeInclusive;
use std::sync::LazyLock;

use super::data::{self, Numbers};
use super::knowledge::{self, DENIED, ETCD_FLAGS, Known};
use crate::text::version;

/// A release of Talos and its version of etcd.
pub(super) type Release = (Numbers, Numbers);

/// Every known release, by its tag without `v`. A release candidate can have a different etcd than its release.
static RELEASES: LazyLock<Vec<(&str, Release)>> = LazyLock::new(|| {
    let release = |row: Vec<&'static str>| Some((row[0], (version::numbers(row[0])?, version::numbers(row[1])?)));
    knowledge::rows(knowledge::RELEASES).filter_map(release).collect()
});

/// Describes the first and the last release of the table, for people.
pub(super) fn known_words() -> String {
    let tag = |release: Option<&(&'static str, Release)>| release.map_or("", |(tag, _)| *tag);
    format!("{} to {}, not all of them", tag(RELEASES.first()), tag(RELEASES.last()))
}

/// Returns the etcd version of this Talos release; `None` if it is not in the table.
pub(super) fn etcd_of(tag: &str) -> Option<Numbers> {
    let tag = tag.strip_prefix('v').unwrap_or(tag);
    RELEASES.iter().find(|(known, _)| *known == tag).map(|(_, (_, etcd))| *etcd)
}

/// Returns the oldest etcd that can be upgraded to etcd 3.`minor`, and the version that etcd recommends; `None` if no guide covers it.
pub(super) fn before(minor: u32) -> Option<(Numbers, Numbers)> {
    let row = knowledge::rows(knowledge::HOPS).find(|row| row[0] == format!("3.{minor}"))?;
    Some((version::numbers(row[1])?, version::numbers(row[2])?))
}

/// Returns the minor versions of etcd 3 that start with the arguments that Talos 1.`minor` passes: until 1.13 arguments that etcd 3.7 has
/// removed, from 1.14 on arguments that etcd 3.5 does not have.
pub(super) fn started_by(minor: u32) -> RangeInclusive<u32> {
    let known =
        |etcd: &u32| DENIED.names(within_denied(minor)).all(|argument| flag_of(argument, *etcd) == Known::Present);
    let mut starts = ETCD_FLAGS.minors().filter(known);
    let first = starts.next().unwrap_or_default();
    first..=starts.next_back().unwrap_or(first)
}

/// Returns the minor versions of etcd 3 whose flags are known.
pub(super) fn flags_known() -> RangeInclusive<u32> {
    ETCD_FLAGS.minors()
}

/// Describes the minor versions of etcd 3 whose flags are known, for people.
pub(super) fn known_etcd() -> String {
    knowledge::in_words(3, &ETCD_FLAGS.minors())
}

/// Looks up a flag of etcd 3.`minor`.
pub(super) fn flag_of(flag: &str, minor: u32) -> Known {
    ETCD_FLAGS.known(flag, minor)
}

/// Returns the version in the table that applies to Talos 1.`minor`. The modules of Talos 1.10 and 1.11 are not published, but deny the
/// same arguments as 1.12; for a version newer than the table, its last version is the best guess.
fn within_denied(minor: u32) -> u32 {
    let minors = DENIED.minors();
    minor.clamp(*minors.start(), *minors.end())
}

/// Returns true if Talos 1.`minor` denies this argument.
pub(super) fn is_denied(argument: &str, minor: u32) -> bool {
    DENIED.known(argument, within_denied(minor)) == Known::Present
}

/// Returns releases of Talos to upgrade to before `to`, so that etcd never skips a minor version and is new enough for the next one. Empty
/// if no releases in the table achieve that.
pub(super) fn stops(from: Numbers, etcd: Numbers, to: Numbers, target: u32) -> Vec<Release> {
    let (mut at, mut runs, mut stops) = (from, etcd, Vec::new());
    while runs.1 < target {
        let is_new_enough = |etcd: Numbers| before(etcd.1 + 1).is_some_and(|(least, _)| etcd >= least);
        // First upgrade to the newest patch of this minor version of etcd, then to the next minor version.
        let wanted = if is_new_enough(runs) { runs.1 + 1 } else { runs.1 };
        if wanted == target {
            return stops;
        }
        let Some(next) = next_stop(at, to, |etcd| etcd.1 == wanted && etcd > runs && is_new_enough(etcd)) else {
            return Vec::new();
        };
        (at, runs) = next;
        stops.push(next);
    }
    stops
}

/// Returns the newest patch release of the first minor version of Talos that is reachable, has a suitable etcd, and can be upgraded to the
/// target.
fn next_stop(at: Numbers, to: Numbers, fits: impl Fn(Numbers) -> bool) -> Option<Release> {
    let reaches = |from: Numbers, to: Numbers| {
        data::known_talos(to).is_some_and(|it| (it.from..it.not_back_from).contains(&from.1))
    };
    let is_final = |(tag, _): &&(&str, Release)| !tag.contains('-');
    let mut fitting: Vec<Release> = RELEASES.iter().filter(is_final).map(|(_, release)| *release).collect();
    fitting.retain(|(talos, etcd)| *talos > at && *talos < to && fits(*etcd) && reaches(at, *talos));
    let leads_on = fitting.iter().filter(|(talos, _)| reaches(*talos, to)).map(|(talos, _)| talos.1).min();
    let minor = leads_on.or_else(|| fitting.iter().map(|(talos, _)| talos.1).min())?;
    fitting.into_iter().filter(|(talos, _)| talos.1 == minor).max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_releases_are_in_order_and_none_is_there_twice() {
        let text = knowledge::RELEASES.lines().filter(|line| !line.starts_with('#')).count();
        assert_eq!(RELEASES.len() + 1, text, "every row is read");
        for pair in RELEASES.windows(2) {
            let ((tag, (talos, etcd)), (next_tag, (next, next_etcd))) = (pair[0], pair[1]);
            let is_candidate = talos == next && tag.contains('-') && (!next_tag.contains('-') || tag < next_tag);
            assert!(talos < next || is_candidate, "{tag}, then {next_tag}");
            assert!(talos.1 != next.1 || etcd <= next_etcd, "{tag}, then {next_tag}");
        }
        assert_eq!(known_words(), "1.10.0 to 1.14.7, not all of them");
        assert!(RELEASES.iter().all(|(_, (talos, etcd))| started_by(talos.1).contains(&etcd.1)));
        assert_eq!([10, 13, 14, 15].map(started_by), [5..=6, 5..=6, 6..=7, 6..=7]);
    }

    #[test]
    fn what_is_not_in_the_table_is_not_known() {
        assert_eq!(etcd_of("v1.13.0"), Some((3, 6, 9)));
        assert_eq!(etcd_of("1.13.9"), Some((3, 6, 12)));
        assert_eq!(etcd_of("v1.14.0-rc.1"), Some((3, 7, 1)));
        for tag in [
            "v1.14.0-beta.1",
            "v1.14.0-rc.0",
            "v1.13.0-12-g5eed-dirty",
            "v1.13.1-rc.0",
            "v1.14.2",
            "v1.14.8",
            "v1.15.0",
            "v1.9.6",
            "v2.13.0",
            "dirty",
        ] {
            assert_eq!(etcd_of(tag), None, "{tag}");
        }
    }

    #[test]
    fn what_etcd_has_removed_is_of_its_table() {
        let of = |flag| [5, 6, 7].map(|minor| flag_of(flag, minor));
        assert_eq!(of("proxy"), [Known::Present, Known::Gone(6), Known::Gone(6)]);
        assert_eq!(of("experimental-memory-mlock"), [Known::Present, Known::Present, Known::Gone(7)]);
        assert_eq!(of("memory-mlock"), [Known::Later(6), Known::Present, Known::Present]);
        assert_eq!(of("snapshot-count"), [Known::Present; 3]);
        assert_eq!(of("v"), [Known::Present; 3], "ignored, but taken");
        assert_eq!(
            of("experimental-max-learners"),
            [Known::Never; 3],
            "of no release, although the guide to 3.6 names it"
        );
    }

    #[test]
    fn a_release_denies_what_it_sets() {
        assert!(is_denied("data-dir", 13) && is_denied("data-dir", 14));
        assert!(is_denied("feature-gates", 14) && !is_denied("feature-gates", 13));
        assert!(is_denied("experimental-initial-corrupt-check", 13));
        assert!(!is_denied("experimental-initial-corrupt-check", 14), "etcd 3.7 refuses it by itself");
        assert!(!is_denied("quota-backend-bytes", 14));
    }

    #[test]
    fn the_way_to_the_next_etcd_has_stops() {
        let named = |from: &str, to: &str| -> Vec<String> {
            let (of, numbers) = (etcd_of(from).unwrap(), |tag| version::numbers(tag).unwrap());
            let stops = stops(numbers(from), of, numbers(to), etcd_of(to).unwrap().1);
            stops.iter().map(|((_, minor, patch), etcd)| format!("1.{minor}.{patch} {}.{}", etcd.1, etcd.2)).collect()
        };
        assert_eq!(named("1.13.0", "1.14.1"), ["1.13.10 6.14"]);
        assert_eq!(named("1.12.0", "1.14.7"), ["1.12.12 6.14"]);
        assert_eq!(named("1.12.7", "1.14.1"), ["1.12.12 6.14"]);
        assert_eq!(named("1.12.8", "1.14.1"), [""; 0]);
        assert_eq!(named("1.13.1", "1.14.1"), [""; 0]);
        assert_eq!(named("1.10.8", "1.11.2"), ["1.10.9 5.26"]);
        assert_eq!(named("1.10.0", "1.12.6"), ["1.10.9 5.26"]);
        assert_eq!(named("1.10.9", "1.12.6"), [""; 0]);
        assert_eq!(named("1.10.0", "1.14.1"), ["1.10.9 5.26", "1.12.12 6.14"]);
        assert_eq!(named("1.14.1", "1.13.9"), [""; 0]);
        let pinned = stops((1, 12, 12), (3, 5, 21), (1, 14, 1), 7);
        assert_eq!(pinned, [], "no release from there brings a newer 3.5");
    }
}
