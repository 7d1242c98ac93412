//! Versions in the notation of Talos and Kubernetes.

/// Parses `v1.9.6-beta.0` as `(1, 9, 6)`; returns `None` for other text.
pub(crate) fn numbers(tag: &str) -> Option<(u32, u32, u32)> {
    let release = tag.trim_start_matches('v').split(['-', '+']).next()?;
    let mut numbers = release.split('.').map(str::parse::<u32>);
    let mut next = || numbers.next()?.ok();
    Some((next()?, next()?, next()?))
}
