//! The types of a kubeconfig's fields. kubectl decodes a file as a whole, so a field of the wrong type makes it unusable even if nothing
//! uses the entry; an entry that is only incomplete does no harm.

use std::collections::BTreeSet;

use super::ConfigError;
use super::yaml::{Document, Value};

/// The type of a field. Null is the zero value of each.
enum Type {
    Text,
    Bool,
    /// Base64.
    Bytes,
    List(&'static Self),
    /// A mapping with arbitrary keys.
    MapOf(&'static Self),
    /// A mapping with these fields; others are ignored.
    Of(&'static [(&'static str, Self)]),
    Any,
}

use Type::{Any, Bool, Bytes, List, MapOf, Of, Text};

const CONFIG: Type = Of(&[
    ("apiVersion", Text),
    ("kind", Text),
    ("preferences", Of(&[("colors", Bool), ("extensions", EXTENSIONS)])),
    ("clusters", List(&Of(&[("name", Text), ("cluster", CLUSTER)]))),
    ("users", List(&Of(&[("name", Text), ("user", USER)]))),
    ("contexts", List(&Of(&[("name", Text), ("context", CONTEXT)]))),
    ("current-context", Text),
    ("extensions", EXTENSIONS),
]);

const EXTENSIONS: Type = List(&Of(&[("name", Text), ("extension", Any)]));

const CLUSTER: Type = Of(&[
    ("server", Text),
    ("tls-server-name", Text),
    ("insecure-skip-tls-verify", Bool),
    ("certificate-authority", Text),
    ("certificate-authority-data", Bytes),
    ("proxy-url", Text),
    ("disable-compression", Bool),
    ("extensions", EXTENSIONS),
]);

const USER: Type = Of(&[
    ("client-certificate", Text),
    ("client-certificate-data", Bytes),
    ("client-key", Text),
    ("client-key-data", Bytes),
    ("token", Text),
    ("tokenFile", Text),
    ("as", Text),
    ("as-uid", Text),
    ("as-groups", List(&Text)),
    ("as-user-extra", MapOf(&List(&Text))),
    ("username", Text),
    ("password", Text),
    ("auth-provider", Of(&[("name", Text), ("config", MapOf(&Text))])),
    ("exec", EXEC),
    ("extensions", EXTENSIONS),
]);

const EXEC: Type = Of(&[
    ("command", Text),
    ("args", List(&Text)),
    ("env", List(&Of(&[("name", Text), ("value", Text)]))),
    ("apiVersion", Text),
    ("installHint", Text),
    ("provideClusterInfo", Bool),
    ("interactiveMode", Text),
]);

const CONTEXT: Type = Of(&[("cluster", Text), ("user", Text), ("namespace", Text), ("extensions", EXTENSIONS)]);

/// Checks that kubectl can decode the file.
pub(super) fn check(document: &Document) -> Result<(), ConfigError> {
    let top = document.top();
    for (key, wanted) in [("apiVersion", "v1"), ("kind", "Config")] {
        let value = top.key(key);
        if value.text()?.is_some_and(|text| text != wanted) {
            return Err(value.error(format_args!("is not `{wanted}`: this is not a kubeconfig")));
        }
    }
    of_type(&top, &CONFIG)?;
    for list in ["clusters", "users", "contexts"] {
        let mut names = BTreeSet::new();
        for item in top.key(list).items("a list")? {
            if !names.insert(item.key("name").text()?.unwrap_or_default()) {
                return Err(item.error("has the same name as an earlier entry"));
            }
        }
    }
    Ok(())
}

/// Returns true if a kubeconfig has a field of this name, which is then no secret.
pub(super) fn has_field(name: &str) -> bool {
    fn names(fields: &Type, name: &str) -> bool {
        match fields {
            Of(fields) => fields.iter().any(|(field, inner)| *field == name || names(inner, name)),
            List(inner) | MapOf(inner) => names(inner, name),
            Text | Bool | Bytes | Any => false,
        }
    }
    names(&CONFIG, name)
}

fn of_type(value: &Value<'_>, wanted: &Type) -> Result<(), ConfigError> {
    if !value.is_there() {
        return Ok(());
    }
    match wanted {
        Any => Ok(()),
        Text => value.text().map(drop),
        Bool => value.bool().map(drop),
        Bytes => value.decoded().map(drop),
        List(inner) => value.items("a list")?.iter().try_for_each(|item| of_type(item, inner)),
        MapOf(inner) => {
            let keys = value.clone().map()?.node.keys();
            keys.into_iter().try_for_each(|key| of_type(&value.key(key), inner))
        }
        Of(fields) => {
            let value = value.clone().map()?;
            fields.iter().try_for_each(|(key, inner)| of_type(&value.key(key), inner))
        }
    }
}
