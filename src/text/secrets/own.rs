//! Secrets from this run's own credentials. A server that received one may repeat it in any text, where no other rule recognizes it.

use std::sync::{PoisonError, RwLock};

use super::Spans;

/// Minimum length in bytes. Shorter strings are part of too many words.
const SHORTEST: usize = 8;

/// Kept until the process ends, like the request headers that contain them.
static OWN: RwLock<Vec<String>> = RwLock::new(Vec::new());

/// Registers a secret to hide in all texts from now on.
pub(in crate::text) fn keep(secret: &str) {
    let mut own = OWN.write().unwrap_or_else(PoisonError::into_inner);
    if secret.len() >= SHORTEST && !own.iter().any(|known| known == secret) {
        own.push(secret.to_owned());
    }
}

pub(super) fn find(text: &str, spans: &mut Spans) {
    for secret in OWN.read().unwrap_or_else(PoisonError::into_inner).iter() {
        let whole = text.match_indices(secret.as_str()).map(|(at, found)| at..at + found.len());
        whole.for_each(|span| spans.hide(span));
        // The text may have been cut within the secret.
        let rest = text.strip_suffix('…').unwrap_or(text);
        let begun = secret.get(..SHORTEST).and_then(|beginning| rest.rfind(beginning));
        if let Some(at) = begun.filter(|at| secret.starts_with(&rest[*at..])) {
            spans.hide(at..rest.len());
        }
    }
}
