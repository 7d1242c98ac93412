//! Secrets of this run's own credentials. Whoever was sent one may repeat it in any text, where nothing else tells what it is.

use std::sync::{PoisonError, RwLock};

use super::Spans;

/// In bytes. What is shorter is a part of too many words.
const SHORTEST: usize = 8;

/// For as long as the process lives, as are the headers that they go into.
static OWN: RwLock<Vec<String>> = RwLock::new(Vec::new());

/// From now on no text shows it.
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
        // Of a text that was cut.
        let rest = text.strip_suffix('…').unwrap_or(text);
        let begun = secret.get(..SHORTEST).and_then(|beginning| rest.rfind(beginning));
        if let Some(at) = begun.filter(|at| secret.starts_with(&rest[*at..])) {
            spans.hide(at..rest.len());
        }
    }
}
