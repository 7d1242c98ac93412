//! Documentation addresses: a page for each check, reason and cause. `make docs` builds the site from the same table.

use std::fmt;

use super::{CheckId, Reason};

/// The site's address, defined only in the manifest.
pub(crate) const SITE: &str = env!("CARGO_PKG_HOMEPAGE");

/// A documentation page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Page {
    Check(CheckId),
    Reason(Reason),
    /// A cause, by its id.
    Cause(&'static str),
    /// The one page that covers all exit codes.
    ExitCodes,
}

impl Page {
    /// Returns the path below the site's address, without the file extension.
    pub(crate) fn path(self) -> String {
        match self {
            Self::Check(id) => format!("reference/checks/{id}"),
            Self::Reason(reason) => format!("reference/reasons/{}", reason.code()),
            Self::Cause(id) => format!("reference/causes/{id}"),
            Self::ExitCodes => "reference/exit-codes".to_owned(),
        }
    }
}

/// Formats the complete address.
impl fmt::Display for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SITE}{}.html", self.path())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_below_the_site() {
        assert!(SITE.starts_with("https://") && SITE.ends_with('/'), "{SITE}");
        let page = Page::Check(CheckId::EtcdQuorum);
        assert_eq!(page.to_string(), format!("{SITE}reference/checks/etcd.quorum.html"));
        assert_eq!(Page::Reason(Reason::QuorumLost).path(), "reference/reasons/quorum-lost");
        assert_eq!(Page::Cause("node-down").path(), "reference/causes/node-down");
    }
}
