//! Command-line flags of Kubernetes' components, from any source. Values are kept only where an upgrade may refuse them.

use super::dial::cause::clean;
use crate::snapshot::Flags;

/// Parses the flags of a command. `pod`: see [`Flags`].
pub(super) fn of_command(pod: String, command: impl Iterator<Item = String>) -> Flags {
    let mut flags = Flags { pod, names: Vec::new(), gates: Vec::new(), plugins: Vec::new(), apis: Vec::new() };
    let mut words = command.peekable();
    while let Some(word) = words.next() {
        let Some(flag) = word.strip_prefix("--") else { continue };
        let (name, value) = flag.split_once('=').map_or((flag, None), |(name, value)| (name, Some(value.to_owned())));
        // Kubernetes treats the two as equal.
        let name = name.replace('_', "-");
        let value = value.or_else(|| words.next_if(|next| !next.starts_with("--"))).unwrap_or_default();
        let parts = value.split(',').map(str::trim).filter(|part| !part.is_empty());
        match name.as_str() {
            "feature-gates" => flags.gates.extend(parts.map(|part| {
                let (gate, value) = part.split_once('=').unwrap_or((part, "true"));
                // The prefix marks a gate of Kubernetes itself: in one process, other components could have their own gates.
                let gate = gate.strip_prefix("kube:").unwrap_or(gate);
                (clean(gate), !matches!(value.to_ascii_lowercase().as_str(), "false" | "f" | "0"))
            })),
            "enable-admission-plugins" | "disable-admission-plugins" | "admission-control" => {
                flags.plugins.extend(parts.map(clean));
            }
            "runtime-config" => {
                let apis = parts.map(|part| part.split_once('=').map_or(part, |(api, _)| api));
                // A resource may follow the version.
                let versions = apis.map(|api| clean(&api.splitn(3, '/').take(2).collect::<Vec<_>>().join("/")));
                flags.apis.extend(versions);
            }
            _ => {}
        }
        flags.names.push(clean(&name));
    }
    flags
}
