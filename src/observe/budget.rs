//! The memory limit for all answers of one round together.
//!
//! Each answer has its own limit as well. Many answers can still add up, for example for machines that a single answer invents.

use std::fmt::{self, Write as _};
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::snapshot::{Gap, GapKind};

/// The approximate limit in bytes. Twenty thousand machines, each with everything that Talos and Kubernetes report about it, take nine
/// tenths of it.
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
    /// Restores the full budget for a new round.
    pub(crate) fn renew(&self) {
        self.left.store(MOST, Ordering::Relaxed);
    }

    /// Charges a fact that is kept.
    pub(crate) fn pay(&self, fact: &impl fmt::Debug) -> Result<(), Gap> {
        let cost = cost(fact);
        let paid = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(cost));
        paid.map(drop).map_err(|_| {
            Gap::new(GapKind::TooLarge, format!("all answers together are longer than {} MiB", MOST >> 20))
        })
    }
}

/// Estimates the size of a fact by the length of its debug output. That is close to the memory it takes: a hostile answer can only enlarge
/// text, lists, and structs in them.
fn cost(fact: &impl fmt::Debug) -> usize {
    struct Length(usize);
    impl fmt::Write for Length {
        fn write_str(&mut self, part: &str) -> fmt::Result {
            self.0 += part.len();
            Ok(())
        }
    }
    let mut length = Length(0);
    // The writer only counts, so it cannot fail.
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
