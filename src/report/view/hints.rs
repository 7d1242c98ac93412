//! Hints in the form in which people read and paste them.

use std::borrow::Cow;

use super::wording::field;
use crate::model::Hint;
use crate::report::Sources;
use crate::text::sanitize::{clean, option, shell_quote};

/// Number of commands that are shown of those that differ only in their arguments.
const COMMANDS: usize = 3;

/// Commands of talosctl that change nothing in the cluster.
const SAVES: [&str; 2] = [" etcd snapshot ", " config new "];

/// The purpose of a hint, in the order in which they are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum HintKind {
    /// A possible cause.
    Likely,
    /// A read-only command.
    Try,
    /// A command that changes the cluster.
    Remedy,
}

impl HintKind {
    pub(crate) const ALL: [Self; 3] = [Self::Likely, Self::Try, Self::Remedy];
    /// Read-only commands come before changes.
    pub(crate) const COMMANDS: [Self; 2] = [Self::Try, Self::Remedy];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Likely => "likely",
            Self::Try => "try",
            Self::Remedy => "remedy",
        }
    }
}

/// A hint, rendered: a text, a command, or both.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Rendered {
    pub(crate) kind: HintKind,
    pub(crate) text: Option<String>,
    pub(crate) command: Option<String>,
    /// The literal behind a command: two hints that share it differ only in their arguments.
    pub(crate) template: Option<Cow<'static, str>>,
}

/// Renders a hint. `None`: nothing is left to show, because its command contains a value that must not be pasted, or needs a tool that has
/// no credentials for this cluster.
pub(crate) fn render(hint: &Hint, sources: &Sources) -> Option<Rendered> {
    match hint {
        Hint::Likely(text) => {
            Some(Rendered { kind: HintKind::Likely, text: Some(clean(text)), command: None, template: None })
        }
        Hint::Try { command: template, arguments } => {
            // The arguments of a kubelet may contain secrets.
            let text = template.contains(" get kubeletspecs").then(|| "needs os:admin".to_owned());
            command(HintKind::Try, text, template, arguments, sources)
        }
        Hint::Remedy { command: template, arguments } => {
            let text = match *template {
                // A snapshot is proposed only before steps that need os:admin anyway.
                saves if SAVES.iter().any(|verb| saves.contains(verb)) => "writes a local file; needs os:admin",
                local if local.contains(" config endpoint ") => "changes the talosconfig on this machine",
                bootstrap if bootstrap.ends_with(" bootstrap") => {
                    "only for a new cluster; changes the cluster; needs os:admin"
                }
                changes if changes.contains("{talosctl}") => "changes the cluster; needs os:admin",
                _ => "changes the cluster",
            };
            let text = text.to_owned();
            command(HintKind::Remedy, Some(text), template, arguments, sources)
        }
        Hint::Rendered { changes, command, text, template } => Some(Rendered {
            kind: if *changes { HintKind::Remedy } else { HintKind::Try },
            text: text.clone(),
            command: Some(command.clone()),
            template: Some(Cow::Owned(template.clone())),
        }),
    }
}

fn command(
    kind: HintKind,
    text: Option<String>,
    template: &'static str,
    arguments: &[String],
    sources: &Sources,
) -> Option<Rendered> {
    let Sources { talosctl_options, talosctl_found, kubectl_options, kubectl_found, etcdctl_options, .. } = sources;
    let tools = [
        ("{talosctl}", "talosctl", talosctl_options, &talosctl_found[..]),
        ("{kubectl}", "kubectl", kubectl_options, &kubectl_found[..]),
        ("{etcdctl}", "etcdctl", etcdctl_options, &[]),
    ];
    let mut text = text;
    let mut out = String::new();
    let mut rest = template;
    let mut arguments = arguments.iter();
    while let Some(at) = rest.find('{') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let tool = tools.iter().find(|(place, ..)| rest.starts_with(place));
        if let Some((place, name, options, found)) = tool {
            if sources.unusable.contains(name) {
                return None;
            }
            if *name == "kubectl" && sources.is_kubeconfig_minted {
                let needs = text.map(|text| format!("{text}; ")).unwrap_or_default();
                text = Some(format!("{needs}needs a kubeconfig: `talosctl kubeconfig`"));
            }
            // A command that names its own endpoint is about that one, and talosctl would use both.
            let others = found.iter().take_while(|word| *word != "-e" || !template.contains(" -e {}"));
            out.push_str(&with_options(name, options.iter().chain(others))?);
            rest = &rest[place.len()..];
        } else if let Some(after) = rest.strip_prefix("{*}") {
            let all: Option<Vec<String>> = arguments.by_ref().map(|argument| shell_quote(argument)).collect();
            out.push_str(&all.filter(|all| !all.is_empty())?.join(" "));
            rest = after;
        } else if let Some(after) = rest.strip_prefix("{}") {
            out.push_str(&shell_quote(arguments.next()?)?);
            rest = after;
        } else {
            // A brace of the command itself, as in `-o jsonpath='{.items}'`.
            out.push('{');
            rest = &rest[1..];
        }
    }
    out.push_str(rest);
    arguments.next().is_none().then_some(Rendered { kind, text, command: Some(out), template: Some(template.into()) })
}

fn with_options<'a>(tool: &str, mut options: impl Iterator<Item = &'a String>) -> Option<String> {
    options.try_fold(tool.to_owned(), |mut line, word| {
        line.push(' ');
        line.push_str(&option(word)?);
        Some(line)
    })
}

/// Returns the hints of one kind that are shown, and how many more differ from these only in their arguments.
pub(crate) fn selected(kind: HintKind, hints: &[Rendered]) -> (Vec<&Rendered>, usize) {
    let mut seen: Vec<(Option<&str>, usize)> = Vec::new();
    let mut shown = Vec::new();
    let mut more = 0;
    for hint in hints.iter().filter(|hint| hint.kind == kind) {
        let known = seen.iter().position(|(template, _)| *template == hint.template.as_deref()).unwrap_or_else(|| {
            seen.push((hint.template.as_deref(), 0));
            seen.len() - 1
        });
        seen[known].1 += 1;
        if hint.template.is_some() && seen[known].1 > COMMANDS {
            more += 1;
        } else {
            shown.push(hint);
        }
    }
    (shown, more)
}

/// Returns the first possible cause.
pub(crate) fn first_guess(hints: &[Rendered]) -> Option<&str> {
    hints.iter().find(|hint| hint.kind == HintKind::Likely)?.text.as_deref()
}

/// Returns the command to begin with.
pub(crate) fn first_step(hints: &[Rendered]) -> Option<&Rendered> {
    let of_kind = |kind| hints.iter().find(|hint| hint.kind == kind && hint.command.is_some());
    HintKind::COMMANDS.into_iter().find_map(of_kind)
}

/// Writes hints as lines below a problem.
pub(crate) fn lines(kind: HintKind, hints: &[Rendered], lines: &mut Vec<String>) {
    let (shown, more) = selected(kind, hints);
    let mut label = kind.name();
    for hint in shown {
        let text = match (&hint.command, &hint.text) {
            (Some(command), Some(text)) => format!("{command}   ({text})"),
            (Some(text), None) | (None, Some(text)) => text.clone(),
            (None, None) => continue,
        };
        lines.push(field(label, &text));
        label = "";
    }
    if more > 0 {
        lines.push(field("", &format!("(the same for {more} more)")));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command_of(hint: &Hint, sources: &Sources) -> Option<String> {
        render(hint, sources)?.command
    }

    #[test]
    fn fills_in_context_and_values() {
        let sources = Sources {
            talosctl_options: ["--context", "my prod", "-e", "10.0.0.1"].map(str::to_owned).to_vec(),
            etcdctl_options: ["--endpoints", "https://10.0.0.1:2379", "--key", "my.key"].map(str::to_owned).to_vec(),
            ..Sources::default()
        };
        let shown = |hint| command_of(&hint, &sources);
        assert_eq!(
            shown(Hint::run("{talosctl} -n {} service {}", ["10.0.0.3", "ext-it's"])).as_deref(),
            Some(r"talosctl --context 'my prod' -e 10.0.0.1 -n 10.0.0.3 service 'ext-it'\''s'")
        );
        assert_eq!(
            render(&Hint::remedy("{talosctl} -n {} reboot", ["10.0.0.3"]), &sources),
            Some(Rendered {
                kind: HintKind::Remedy,
                text: Some("changes the cluster; needs os:admin".to_owned()),
                command: Some("talosctl --context 'my prod' -e 10.0.0.1 -n 10.0.0.3 reboot".to_owned()),
                template: Some("{talosctl} -n {} reboot".into()),
            })
        );
        assert_eq!(
            shown(Hint::run("{etcdctl} member list", [])).as_deref(),
            Some("etcdctl --endpoints https://10.0.0.1:2379 --key my.key member list")
        );
        assert_eq!(shown(Hint::run("say {} {*}", ["a", "b", "it's"])).as_deref(), Some(r"say a b 'it'\''s'"));
        assert_eq!(
            shown(Hint::run("{kubectl} get pods -o jsonpath='{.items}'", [])).as_deref(),
            Some("kubectl get pods -o jsonpath='{.items}'")
        );
    }

    #[test]
    fn leaves_out_the_commands_of_a_tool_without_credentials() {
        let nodes = Hint::run("{kubectl} get nodes", []);
        let found = ["--context", "admin@prod"].map(str::to_owned).to_vec();
        let sources = Sources { kubectl_found: found, ..Sources::default() };
        assert_eq!(command_of(&nodes, &sources).as_deref(), Some("kubectl --context admin@prod get nodes"));
        let none = Sources { unusable: vec!["kubectl"], ..sources.clone() };
        assert_eq!(render(&nodes, &none), None);
        assert!(render(&Hint::run("{talosctl} -n {} version", ["10.0.0.3"]), &none).is_some());
        let found = ["--context", "prod", "-e", "10.0.0.1"].map(str::to_owned).to_vec();
        let dead = Sources { talosctl_found: found, ..Sources::default() };
        let endpoint = Hint::run("{talosctl} -e {} -n {} version", ["10.0.0.2", "10.0.0.2"]);
        let shown = command_of(&endpoint, &dead);
        assert_eq!(shown.as_deref(), Some("talosctl --context prod -e 10.0.0.2 -n 10.0.0.2 version"));
        let minted = Sources { is_kubeconfig_minted: true, ..sources };
        let text = render(&Hint::remedy("{kubectl} uncordon {}", ["w-1"]), &minted).unwrap().text.unwrap();
        assert_eq!(text, "changes the cluster; needs a kubeconfig: `talosctl kubeconfig`");
    }

    #[test]
    fn leaves_out_what_must_not_be_pasted() {
        let sources = Sources::default();
        for argument in ["a\nb", "-o", "a\u{1b}[0m", "##[error]"] {
            assert_eq!(
                command_of(&Hint::run("{kubectl} describe node {}", [argument]), &sources),
                None,
                "{argument:?}"
            );
        }
        assert_eq!(command_of(&Hint::run("{kubectl} describe node {}", []), &sources), None, "too few");
        assert_eq!(command_of(&Hint::run("say {*}", []), &sources), None, "too few");
        assert_eq!(command_of(&Hint::run("say {*}", ["a", "b\nc"]), &sources), None);
        assert_eq!(command_of(&Hint::run("{kubectl} get nodes", ["x"]), &sources), None, "too many");
    }
}
