//! Versions of Talos, which determine the types and methods that a node knows.

use std::fmt;
use std::str::FromStr;

use serde::Deserialize;

/// A release of Talos 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub struct TalosVersion {
    pub minor: u8,
    pub patch: u8,
}

impl TalosVersion {
    /// `1.minor.patch`
    #[must_use]
    pub const fn new(minor: u8, patch: u8) -> Self {
        Self { minor, patch }
    }
}

/// The default etcd of each release of Talos, extracted from Talos's own constants by `make knowledge`.
const ETCD: &str = include_str!("../../../src/checks/upgrade/knowledge/talos-etcd.tsv");

impl TalosVersion {
    /// The version of etcd that the release starts unless its configuration names another; `None` for a release that is not in the table.
    #[must_use]
    pub fn etcd(self) -> Option<&'static str> {
        let tag = self.to_string();
        let mut rows = ETCD.lines().map(|line| line.split('\t'));
        rows.find_map(|mut row| if row.next() == Some(&tag) { row.next() } else { None })
    }
}

/// `1.13.0`
impl fmt::Display for TalosVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "1.{}.{}", self.minor, self.patch)
    }
}

impl FromStr for TalosVersion {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let mut parts = text.strip_prefix('v').unwrap_or(text).splitn(3, '.');
        let mut next = || parts.next().and_then(|part| part.parse().ok());
        match (next(), next(), next()) {
            (Some(1), Some(minor), Some(patch)) => Ok(Self { minor, patch }),
            _ => anyhow::bail!("`{text}` is no version of Talos 1, like `1.13.0`"),
        }
    }
}

impl TryFrom<String> for TalosVersion {
    type Error = anyhow::Error;

    fn try_from(text: String) -> anyhow::Result<Self> {
        text.parse()
    }
}

/// Parses a version with three numbers, and removes the `v` in front of it.
///
/// # Errors
/// If the text is not a version.
pub fn plain_version(text: &str) -> anyhow::Result<String> {
    let version = text.strip_prefix('v').unwrap_or(text);
    let number = |part: &str| !part.is_empty() && part.len() <= 9 && part.bytes().all(|byte| byte.is_ascii_digit());
    let whole = version.split('.').count() == 3 && version.split('.').all(number);
    anyhow::ensure!(whole, "`{}` is no version, like `1.35.4`", text.escape_debug());
    Ok(version.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_and_ordered() {
        let version = |text: &str| text.parse::<TalosVersion>().unwrap();
        assert!(version("1.9.6") < version("v1.13.0"));
        assert_eq!(version("v1.9.6").to_string(), "1.9.6");
        assert!("2.0.0".parse::<TalosVersion>().is_err());
        assert!("1.9".parse::<TalosVersion>().is_err());
    }

    #[test]
    fn a_release_has_its_own_etcd() {
        let etcd = |talos: &str| talos.parse::<TalosVersion>().unwrap().etcd();
        assert_eq!(etcd("1.12.6"), Some("3.6.8"));
        assert_eq!(etcd("1.13.0"), Some("3.6.9"));
        assert!(etcd("1.14.1").unwrap().starts_with("3.7."));
        assert_eq!(etcd("1.99.0"), None);
    }

    #[test]
    fn plain_versions_have_three_numbers() {
        assert_eq!(plain_version("v1.35.4").unwrap(), "1.35.4");
        for text in ["", "1.35", "1.35.4.1", "1.35.x", "1..4", "1.35.4-rc.0", "1.35.4\n", "vv1.35.4"] {
            plain_version(text).unwrap_err();
        }
    }
}
