//! What one round may hold of all answers together.
//!
//! Each answer has a limit of its own. Of many, as of machines that only one of them tells of, the sum counts.

use std::fmt::{self, Write as _};
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::snapshot::{Gap, GapKind};

/// In bytes, about. Twenty thousand machines, each with what Talos and Kubernetes say of it, come to nine tenths of it.
const MOST: usize = 176 << 20;

pub(crate) struct Budget {
    left: AtomicUsize,
}

impl Default for Budget {
    fn default() -> Self {
        Self { left: AtomicUsize::new(MOST) }
    }
}

impl Budget {
    /// For a round of its own.
    pub(crate) fn renew(&self) {
        self.left.store(MOST, Ordering::Relaxed);
    }

    /// Pays for a fact that is kept.
    pub(crate) fn pay(&self, fact: &impl fmt::Debug) -> Result<(), Gap> {
        let cost = cost(fact);
        let paid = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(cost));
        paid.map(drop).map_err(|_| {
            Gap::new(GapKind::TooLarge, format!("all answers together are longer than {} MiB", MOST >> 20))
        })
    }
}

/// How long it would be if it were printed, which is about what it takes: all that a hostile answer could make large is text, lists,
/// and structs in them.
fn cost(fact: &impl fmt::Debug) -> usize {
    struct Length(usize);
    impl fmt::Write for Length {
        fn write_str(&mut self, part: &str) -> fmt::Result {
            self.0 += part.len();
            Ok(())
        }
    }
    let mut length = Length(0);
    // It writes nowhere, which does not fail.
    let _ = write!(length, "{fact:?}");
    length.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_holds_no_more_than_it_may() {
        let (budget, quarter) = (Budget::default(), "x".repeat(MOST / 4));
        let paid = (0..8).filter(|_| budget.pay(&quarter).is_ok()).count();
        assert_eq!(paid, 3, "with its quotes");
        assert_eq!(budget.pay(&quarter).unwrap_err().kind, GapKind::TooLarge);
        assert!(budget.pay(&"a little").is_ok());
        budget.renew();
        assert!(budget.pay(&quarter).is_ok());
    }
}
