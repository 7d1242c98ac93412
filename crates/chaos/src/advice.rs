//! Checks the diagnostic commands that a report proposes: they must only read, and a shell must accept them as they
//! are.

use crate::run::Said;

/// Programs that only read, each with the subcommands that may be used, or none if the program has no subcommands.
const READS: &[(&str, &[&str])] = &[
    (
        "kubectl",
        &[
            "get",
            "describe",
            "logs",
            "version",
            "cluster-info",
            "auth",
            "api-resources",
            "top",
            "events",
            "config",
            "explain",
        ],
    ),
    (
        "talosctl",
        &[
            "version",
            "service",
            "services",
            "logs",
            "dmesg",
            "get",
            "list",
            "ls",
            "read",
            "containers",
            "c",
            "netstat",
            "time",
            "memory",
            "mounts",
            "processes",
            "stats",
            "usage",
            "disks",
            "events",
            "health",
            "config",
            "inspect",
            "image",
            "etcd",
            "dashboard",
        ],
    ),
    ("etcdctl", &["endpoint", "member", "alarm"]),
    ("cluster-health", &["list", "explain", "rbac", "version"]),
    ("openssl", &["x509", "s_client"]),
    ("curl", &[]),
    ("nc", &[]),
    ("ping", &[]),
];

/// Subcommands and other words that change something.
const CHANGES: &[&str] = &[
    "delete",
    "restart",
    "start",
    "stop",
    "remove-member",
    "leave",
    "forfeit-leadership",
    "defrag",
    "disarm",
    "reset",
    "bootstrap",
    "reboot",
    "upgrade",
    "patch",
    "apply",
    "approve",
    "uncordon",
    "cordon",
    "drain",
    "scale",
    "rollout",
    "edit",
    "promote",
    "add",
];

/// Returns the reason why a proposed command is not acceptable, if there is one.
pub(crate) fn fault(command: &str, said: &Said) -> Option<String> {
    let words = match words(command) {
        Ok(words) => words,
        Err(why) => return Some(why.to_owned()),
    };
    let Some(program) = words.first() else { return Some("no command".to_owned()) };
    let Some((_, reads)) = READS.iter().find(|(name, _)| name == program) else {
        return Some(format!("`{program}` is no program that reads"));
    };
    // A redirection from `/dev/null` also contains `<`, and is not a placeholder.
    let is_placeholder =
        |word: &String| word.contains(['<', '>']) && !word.ends_with("/dev/null") || word.contains("NODE");
    if words.iter().any(is_placeholder) {
        return Some("a placeholder is left".to_owned());
    }
    if let Some(word) = words.iter().find(|word| CHANGES.contains(&word.as_str())) {
        return Some(format!("`{word}` changes something"));
    }
    if !reads.is_empty() && !words.iter().any(|word| reads.contains(&word.as_str())) {
        return Some("no subcommand that reads".to_owned());
    }
    let nodes = words
        .windows(2)
        .filter(|pair| program == "talosctl" && ["-n", "--nodes", "-e", "--endpoints"].contains(&pair[0].as_str()));
    let mut nodes = nodes.flat_map(|pair| pair[1].split(','));
    let stranger = nodes.find(|node| !said.has(node) && !is_planted(node));
    stranger.map(|node| format!("`{node}` is no machine"))
}

/// Whether an address or name was made up by a shape or a fault.
fn is_planted(node: &str) -> bool {
    node.starts_with("192.0.2.") || node.starts_with("2001:db8:") || ["old-cp", "worker-0", "edge-1"].contains(&node)
}

/// Splits a command into words like a shell.
pub(crate) fn words(command: &str) -> Result<Vec<String>, &'static str> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for letter in command.chars() {
        match (quote, letter) {
            (Some(open), letter) if letter == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None, letter) if letter.is_whitespace() => words.extend(word.take()),
            (None, ';' | '&' | '`' | '$' | '(' | ')') => return Err("more than one plain command"),
            (_, letter) => word.get_or_insert_default().push(letter),
        }
    }
    if quote.is_some() {
        return Err("a quote is left open");
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_split_as_a_shell_does() {
        assert_eq!(
            words("kubectl get pods -l 'a=b c'"),
            Ok(vec!["kubectl", "get", "pods", "-l", "a=b c"].into_iter().map(str::to_owned).collect())
        );
        assert_eq!(words("kubectl get 'x"), Err("a quote is left open"));
        assert_eq!(words("a; b"), Err("more than one plain command"));
    }
}
