//! Hints as people read and paste them.

use super::Sources;
use super::sanitise::{clean, option, shell_quote};
use crate::checks::Hint;

/// A hint, rendered: a text, a command, or both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rendered {
    /// `likely`, `try` or `remedy`.
    pub(crate) kind: &'static str,
    pub(crate) text: Option<String>,
    pub(crate) command: Option<String>,
    /// The literal behind a command: two hints that share it differ only in their arguments.
    pub(crate) template: Option<&'static str>,
}

/// `None` when nothing is left to show: a command with a value that must not be pasted is left out.
pub(crate) fn render(hint: &Hint, sources: &Sources) -> Option<Rendered> {
    match hint {
        Hint::Likely(text) => Some(Rendered { kind: "likely", text: Some(clean(text)), command: None, template: None }),
        Hint::Try { command: template, arguments } => command("try", None, template, arguments, sources),
        Hint::Remedy { command: template, arguments } => {
            let needs = if template.contains("{talosctl}") { "; needs os:admin" } else { "" };
            let text = format!("changes the cluster{needs}");
            command("remedy", Some(text), template, arguments, &without_the_reader(sources))
        }
    }
}

/// A reader's talosconfig would be refused, and whoever may change the cluster has another. Endpoints stay: they refuse the
/// talosconfig of another cluster. So does everything of kubectl, whose own default could be another cluster that accepts it.
fn without_the_reader(sources: &Sources) -> Sources {
    let options = sources.talosctl_options.chunks(2).filter(|option| option[0] == "-e");
    Sources { talosctl_options: options.flatten().cloned().collect(), ..sources.clone() }
}

fn command(
    kind: &'static str,
    text: Option<String>,
    template: &'static str,
    arguments: &[String],
    sources: &Sources,
) -> Option<Rendered> {
    let tools = [
        ("{talosctl}", "talosctl", &sources.talosctl_options),
        ("{kubectl}", "kubectl", &sources.kubectl_options),
        ("{etcdctl}", "etcdctl", &sources.etcdctl_options),
    ];
    let mut out = String::new();
    let mut rest = template;
    let mut arguments = arguments.iter();
    while let Some(at) = rest.find('{') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let tool = tools.iter().find(|(place, ..)| rest.starts_with(place));
        if let Some((place, name, options)) = tool {
            out.push_str(&with_options(name, options)?);
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
    arguments.next().is_none().then_some(Rendered { kind, text, command: Some(out), template: Some(template) })
}

fn with_options(tool: &str, options: &[String]) -> Option<String> {
    options.iter().try_fold(tool.to_owned(), |mut line, word| {
        line.push(' ');
        line.push_str(&option(word)?);
        Some(line)
    })
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
                kind: "remedy",
                text: Some("changes the cluster; needs os:admin".to_owned()),
                command: Some("talosctl -e 10.0.0.1 -n 10.0.0.3 reboot".to_owned()),
                template: Some("{talosctl} -n {} reboot"),
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
