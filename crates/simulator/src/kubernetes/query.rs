//! The query of a request.

/// Decoded keys and values in their original order.
#[derive(Debug, Default)]
pub(super) struct Query(Vec<(String, String)>);

impl Query {
    pub(super) fn of(text: Option<&str>) -> Self {
        let parts = form_urlencoded::parse(text.unwrap_or_default().as_bytes());
        Self(parts.map(|(key, value)| (key.into_owned(), value.into_owned())).collect())
    }

    pub(super) fn all<'a>(&'a self, key: &str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.0.iter().any(|(name, _)| name == key)
    }

    /// The first value; an empty one counts as missing.
    pub(super) fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    }

    /// A Boolean in Go's notation: the key alone is true.
    pub(super) fn is(&self, key: &str) -> bool {
        self.has(key) && !matches!(self.get(key), Some("0" | "f" | "F" | "false" | "False" | "FALSE"))
    }
}
