//! podCIDRs: the ranges from which pods of a node get their addresses.

use std::collections::HashMap;
use std::net::IpAddr;

/// First and last address of a range. Address families are separate: IPv4 sorts before IPv6.
type Range = ((bool, u128), (bool, u128));

/// Returns nodes with a range that overlaps another Node's, by name. The text contains both ranges and the name of the other Node.
pub(super) fn overlapping<'a>(of_nodes: impl Iterator<Item = (&'a str, &'a [String])>) -> HashMap<&'a str, String> {
    let with_range = |(name, cidrs): (&'a str, &'a [String])| {
        cidrs.iter().filter_map(move |cidr| Some((range(cidr)?, name, cidr.as_str())))
    };
    let mut ranges: Vec<_> = of_nodes.flat_map(with_range).collect();
    ranges.sort_unstable();
    let mut overlaps = HashMap::new();
    // In order of their first addresses, a range overlaps an earlier one if it overlaps the one that ends last.
    let mut widest: Option<(Range, &str, &str)> = None;
    for next in ranges {
        let overlapped = widest.filter(|widest| widest.0.1 >= next.0.0);
        if let Some(other) = overlapped.filter(|other| other.1 != next.1) {
            for (own, other) in [(next, other), (other, next)] {
                overlaps.entry(own.1).or_insert_with(|| format!("{} overlaps {} of {}", own.2, other.2, other.1));
            }
        }
        widest = overlapped.filter(|other| other.0.1 >= next.0.1).or(Some(next));
    }
    overlaps
}

/// Returns the first and last address of a CIDR; `None` for other text.
fn range(cidr: &str) -> Option<Range> {
    let (address, prefix) = cidr.split_once('/')?;
    let (is_long, address, bits) = match address.parse().ok()? {
        IpAddr::V4(it) => (false, u128::from(it.to_bits()), 32),
        IpAddr::V6(it) => (true, it.to_bits(), 128),
    };
    let host = 128 - bits + prefix.parse::<u32>().ok().filter(|prefix| *prefix <= bits)?;
    // The bits that differ between the hosts of the range.
    let mask = u128::MAX.checked_shr(host).unwrap_or_default();
    Some(((is_long, address & !mask), (is_long, address | mask)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(nodes: &[(&str, &[&str])]) -> Vec<String> {
        let nodes: Vec<(&str, Vec<String>)> =
            nodes.iter().map(|(name, cidrs)| (*name, cidrs.iter().map(|&it| it.to_owned()).collect())).collect();
        let ranges = nodes.iter().map(|(name, cidrs)| (*name, cidrs.as_slice()));
        let mut found: Vec<_> =
            overlapping(ranges).into_iter().map(|(name, words)| format!("{name}: {words}")).collect();
        found.sort_unstable();
        found
    }

    #[test]
    fn ranges_that_overlap_are_found_on_both_sides() {
        let none: [&str; 0] = [];
        assert_eq!(found(&[("a", &["10.244.0.0/24"]), ("b", &["10.244.1.0/24"])]), none);
        assert_eq!(found(&[("a", &["10.244.0.0/24", "10.244.0.0/24"])]), none, "its own");
        assert_eq!(
            found(&[("a", &["10.244.0.0/24"]), ("b", &["10.244.0.0/24"])]),
            ["a: 10.244.0.0/24 overlaps 10.244.0.0/24 of b", "b: 10.244.0.0/24 overlaps 10.244.0.0/24 of a"]
        );
        // A range within a larger one, after another range within the same larger one.
        let nodes: [(&str, &[&str]); 3] =
            [("a", &["10.244.0.0/16"]), ("b", &["10.244.1.0/24"]), ("c", &["10.244.7.0/24", "fd00:7::/64"])];
        assert_eq!(
            found(&nodes),
            [
                "a: 10.244.0.0/16 overlaps 10.244.1.0/24 of b",
                "b: 10.244.1.0/24 overlaps 10.244.0.0/16 of a",
                "c: 10.244.7.0/24 overlaps 10.244.0.0/16 of a"
            ]
        );
        // Ranges of the other address family, not in normal form.
        assert_eq!(found(&[("a", &["fd00::1/64"]), ("b", &["10.0.0.0/24", "fd00:0:0:0::/64"])]).len(), 2);
        assert_eq!(found(&[("a", &["::/0"]), ("b", &["0.0.0.0/0"])]), none);
        assert_eq!(found(&[("a", &["soon", "10.0.0.0/33"]), ("b", &["soon", "10.0.0.0/33"])]), none);
    }
}
