//! Which etcd each release of Talos brings, and what each etcd and each Talos refuse, as facts.
//!
//! Of 2026-11-28. Releases: `DefaultEtcdVersion` of each, or the images that its release notes list. Flags: compared between the
//! sources of etcd 3.5.32, 3.6.12 and 3.7.3, and with its upgrade guides. Denied arguments: the etcd service of Talos 1.11.0, 1.12.6,
//! 1.13.9 and 1.14.1. A release that is not in the table is unknown here, and nothing passes for that.

use std::ops::RangeInclusive;

use super::data::{self, Numbers};
use crate::text::version;

/// Releases of Talos 1 with the same etcd: minor version, first and last patch, version of etcd.
const RELEASES: &[(u32, u32, u32, Numbers)] = &[
    (10, 0, 8, (3, 5, 21)),
    (10, 9, 9, (3, 5, 26)),
    (11, 0, 2, (3, 6, 4)),
    (11, 3, 6, (3, 6, 5)),
    (12, 0, 4, (3, 6, 7)),
    (12, 5, 6, (3, 6, 8)),
    (12, 7, 7, (3, 6, 9)),
    (12, 8, 11, (3, 6, 11)),
    (12, 12, 12, (3, 6, 14)),
    (13, 0, 0, (3, 6, 9)),
    (13, 1, 3, (3, 6, 11)),
    (13, 4, 9, (3, 6, 12)),
    (13, 10, 10, (3, 6, 14)),
    (14, 0, 1, (3, 7, 1)),
    (14, 4, 4, (3, 7, 2)),
    (14, 7, 7, (3, 7, 4)),
];

/// Release candidates that are known to have the etcd of their release, by its minor version.
const CANDIDATES: &[u32] = &[13, 14];

/// The first and the last release of the table, for people.
pub(super) const KNOWN_WORDS: &str = "1.10.0 to 1.14.7, not all of them";

/// The etcd that this release of Talos brings; `None`: it is in no table.
pub(super) fn etcd_of(tag: &str) -> Option<Numbers> {
    let (major, minor, patch) = version::numbers(tag)?;
    let is_release = match tag.split_once(['-', '+']) {
        None => true,
        Some((_, suffix)) => patch == 0 && CANDIDATES.contains(&minor) && suffix.starts_with("rc."),
    };
    let row = RELEASES.iter().find(|(of, first, last, _)| *of == minor && (*first..=*last).contains(&patch));
    row.filter(|_| major == 1 && is_release).map(|(.., etcd)| *etcd)
}

/// The oldest etcd that may become etcd 3.`minor`, and the one that etcd recommends; `None`: no guide says.
pub(super) fn before(minor: u32) -> Option<(Numbers, Numbers)> {
    match minor {
        6 => Some(((3, 5, 26), (3, 5, 32))),
        7 => Some(((3, 6, 11), (3, 6, 11))),
        _ => None,
    }
}

/// Minor versions of etcd 3 that start with the arguments that Talos 1.`minor` passes: until 1.13 those that etcd 3.7 has removed,
/// from 1.14 on those that etcd 3.5 does not have.
pub(super) fn started_by(minor: u32) -> RangeInclusive<u32> {
    if minor < 14 { 5..=6 } else { 6..=7 }
}

/// Minor versions of etcd 3 whose flags are known.
pub(super) const FLAGS_KNOWN: RangeInclusive<u32> = 5..=7;
/// The same for people.
pub(super) const KNOWN_ETCD: &str = "3.5 to 3.7";

/// Flags that etcd refuses as of a minor version.
const REMOVED: &[(u32, &[&str])] = &[
    (
        6,
        &[
            "enable-v2",
            "experimental-enable-v2v3",
            "experimental-max-learners",
            "proxy",
            "proxy-dial-timeout",
            "proxy-failure-wait",
            "proxy-read-timeout",
            "proxy-refresh-interval",
            "proxy-write-timeout",
        ],
    ),
    (
        7,
        &[
            "discovery",
            "discovery-proxy",
            "experimental-bootstrap-defrag-threshold-megabytes",
            "experimental-compact-hash-check-enabled",
            "experimental-compact-hash-check-time",
            "experimental-compaction-batch-limit",
            "experimental-compaction-sleep-interval",
            "experimental-corrupt-check-time",
            "experimental-distributed-tracing-address",
            "experimental-distributed-tracing-instance-id",
            "experimental-distributed-tracing-sampling-rate",
            "experimental-distributed-tracing-service-name",
            "experimental-downgrade-check-time",
            "experimental-enable-distributed-tracing",
            "experimental-enable-lease-checkpoint",
            "experimental-enable-lease-checkpoint-persist",
            "experimental-initial-corrupt-check",
            "experimental-memory-mlock",
            "experimental-peer-skip-client-san-verification",
            "experimental-snapshot-catchup-entries",
            "experimental-stop-grpc-service-on-defrag",
            "experimental-txn-mode-write-with-shared-buffer",
            "experimental-warning-apply-duration",
            "experimental-warning-unary-request-duration",
            "experimental-watch-progress-notify-interval",
        ],
    ),
];

/// Since which minor version etcd 3.`minor` refuses this flag.
pub(super) fn removed(flag: &str, minor: u32) -> Option<u32> {
    super::removed::since(REMOVED, flag, minor)
}

/// Arguments that Talos sets itself and denies in `extraArgs`: minor versions of Talos, and the names.
const DENIED: &[(RangeInclusive<u32>, &[&str])] = &[
    (
        10..=14,
        &[
            "auto-tls",
            "cert-file",
            "client-cert-auth",
            "data-dir",
            "key-file",
            "listen-client-urls",
            "listen-peer-urls",
            "name",
            "peer-auto-tls",
            "peer-cert-file",
            "peer-client-cert-auth",
            "peer-key-file",
            "peer-trusted-ca-file",
            "trusted-ca-file",
        ],
    ),
    (
        10..=13,
        &[
            "experimental-compact-hash-check-enabled",
            "experimental-initial-corrupt-check",
            "experimental-watch-progress-notify-interval",
        ],
    ),
    (14..=14, &["feature-gates", "listen-client-http-urls", "tls-min-version", "watch-progress-notify-interval"]),
];

/// Whether Talos 1.`minor` denies this argument.
pub(super) fn is_denied(argument: &str, minor: u32) -> bool {
    DENIED.iter().any(|(releases, names)| releases.contains(&minor) && names.contains(&argument))
}

/// A release of Talos, and the etcd that it brings.
pub(super) type Release = (Numbers, Numbers);

/// Releases of Talos to upgrade to before `to`, so that etcd never skips a minor version and is new enough for the next one.
/// Empty if none of the table would do.
pub(super) fn stops(from: Numbers, etcd: Numbers, to: Numbers, target: u32) -> Vec<Release> {
    let (mut at, mut runs, mut stops) = (from, etcd, Vec::new());
    while runs.1 < target {
        let is_new_enough = |etcd: Numbers| before(etcd.1 + 1).is_some_and(|(least, _)| etcd >= least);
        // First to the newest patch of this minor version of etcd, then to the next one.
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

/// The newest patch of the first minor version of Talos that can be reached, leads on to the target, and has such an etcd.
fn next_stop(at: Numbers, to: Numbers, fits: impl Fn(Numbers) -> bool) -> Option<Release> {
    let reaches = |from: Numbers, to: Numbers| {
        data::known_talos(to).is_some_and(|it| (it.from..it.not_back_from).contains(&from.1))
    };
    let newest = |(minor, _, last, etcd): &(u32, u32, u32, Numbers)| ((1, *minor, *last), *etcd);
    let mut fitting: Vec<Release> =
        RELEASES.iter().map(newest).filter(|(talos, etcd)| *talos > at && *talos < to && fits(*etcd)).collect();
    fitting.retain(|(talos, _)| reaches(at, *talos));
    let leads_on = fitting.iter().filter(|(talos, _)| reaches(*talos, to)).map(|(talos, _)| talos.1).min();
    let minor = leads_on.or_else(|| fitting.iter().map(|(talos, _)| talos.1).min())?;
    fitting.into_iter().filter(|(talos, _)| talos.1 == minor).max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_releases_are_in_order_and_none_is_there_twice() {
        for pair in RELEASES.windows(2) {
            let ((minor, first, last, etcd), (next, next_first, _, next_etcd)) = (pair[0], pair[1]);
            assert!(first <= last, "{minor}");
            assert!(minor < next || (minor == next && last < next_first && etcd < next_etcd), "{pair:?}");
        }
        let (first, last) = (RELEASES[0], RELEASES[RELEASES.len() - 1]);
        assert!(KNOWN_WORDS.starts_with(&format!("1.{}.{} to 1.{}.{}", first.0, first.1, last.0, last.2)));
        assert!(RELEASES.iter().all(|(minor, .., etcd)| started_by(*minor).contains(&etcd.1)));
    }

    #[test]
    fn what_is_not_in_the_table_is_not_known() {
        assert_eq!(etcd_of("v1.13.0"), Some((3, 6, 9)));
        assert_eq!(etcd_of("1.13.9"), Some((3, 6, 12)));
        assert_eq!(etcd_of("v1.14.0-rc.1"), Some((3, 7, 1)));
        for tag in [
            "v1.14.0-beta.1",
            "v1.12.0-rc.0",
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
    fn all_names_are_there_once() {
        let removed: Vec<_> = REMOVED.iter().flat_map(|(_, names)| *names).collect();
        let experimental = REMOVED[1].1.iter().filter(|name| name.starts_with("experimental-"));
        assert_eq!(experimental.count(), 23, "as the guide counts them");
        for names in [removed, DENIED.iter().flat_map(|(_, names)| *names).collect()] {
            let mut once = names.clone();
            once.sort_unstable();
            once.dedup();
            assert_eq!(once.len(), names.len());
        }
        assert_eq!(removed_in("proxy", [5, 6, 7]), [None, Some(6), Some(6)]);
        assert_eq!(removed_in("experimental-memory-mlock", [5, 6, 7]), [None, None, Some(7)]);
        assert_eq!(removed_in("memory-mlock", [5, 6, 7]), [None; 3]);
    }

    fn removed_in(flag: &str, minors: [u32; 3]) -> [Option<u32>; 3] {
        minors.map(|minor| removed(flag, minor))
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
