//! Kinds of stdout and stderr, and messages on stderr other than the progress.

use std::fs::{self, File, Metadata};
use std::io::{self, IsTerminal, Write as _};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;

use crate::plan::{gone, variables};
use crate::text::lines::Lines;
use crate::text::sanitize::clean;

/// Whether the stream is redirected to a file, so that people do not watch it.
pub(super) fn is_file(stream: &impl AsFd) -> bool {
    metadata(stream).is_ok_and(|found| found.is_file())
}

pub(super) fn is_pipe(stream: &impl AsFd) -> bool {
    metadata(stream).is_ok_and(|found| found.file_type().is_fifo())
}

/// Whether the stream's output appears on no screen and in no log: a file, or `/dev/null`.
pub(super) fn is_elsewhere(stream: &(impl AsFd + IsTerminal)) -> bool {
    let is_device = metadata(stream).is_ok_and(|found| found.file_type().is_char_device());
    is_file(stream) || (is_device && !stream.is_terminal())
}

/// Whether the stream is redirected to this file.
pub(super) fn is_at(stream: &impl AsFd, path: impl AsRef<Path>) -> bool {
    match (metadata(stream), fs::metadata(path)) {
        (Ok(stream), Ok(file)) => identity(&stream) == identity(&file),
        _ => false,
    }
}

pub(super) fn identity(found: &Metadata) -> (u64, u64) {
    (found.dev(), found.ino())
}

pub(super) fn metadata(stream: &impl AsFd) -> io::Result<Metadata> {
    File::from(stream.as_fd().try_clone_to_owned()?).metadata()
}

/// Prints `error: …` and what to do about it, in color if [`console`] was set to use it or detects that stderr shows
/// it.
pub(crate) fn complain(message: &str, hint: Option<&str>) {
    let style = console::Style::new().for_stderr();
    let mut stderr = Lines::new(io::stderr().lock());
    // Both can quote paths, arguments and variables; in some pipelines, a variable is the name of a branch.
    let _ = writeln!(stderr, "{}: {}", style.clone().red().bold().apply_to("error"), each_line_clean(message));
    let notes = [("note", variables::origin(message)), ("hint", hint.map(str::to_owned))];
    for (name, text) in notes.into_iter().filter_map(|(name, text)| Some((name, text?))) {
        let _ = writeln!(stderr, "{}: {}", style.clone().cyan().apply_to(name), each_line_clean(&text));
    }
}

/// Prints an error in the arguments. Results that are not errors, such as `--help`, are handled elsewhere.
pub(crate) fn complain_of_arguments(error: &clap::Error) {
    if let Some(usage) = gone::typed(error) {
        return complain(&usage.message, usage.hint.as_deref());
    }
    let text = error.render().to_string();
    let typed: Vec<_> = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    complain(&hosts_alone(text.strip_prefix("error: ").unwrap_or(&text), &typed), None);
}

/// Reduces every URL that was typed to its scheme and host: the URL of a webhook is a secret.
fn hosts_alone(text: &str, typed: &[String]) -> String {
    let is_of_scheme = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
    typed.iter().fold(text.to_owned(), |text, word| {
        let Some((before, rest)) = word.split_once("://") else { return text };
        let scheme = &before[before.trim_end_matches(is_of_scheme).len()..];
        let host = rest.split(['/', '?', '#', ',']).next().unwrap_or_default();
        let host = host.rsplit('@').next().unwrap_or_default();
        text.replace(&format!("{scheme}://{rest}"), &format!("{scheme}://{host}/…"))
    })
}

/// Cleans each line and keeps its indentation.
fn each_line_clean(text: &str) -> String {
    let shown = |line: &str| {
        let (indentation, rest) = line.split_at(line.len() - line.trim_start_matches(' ').len());
        format!("{indentation}{}", clean(rest))
    };
    text.lines().map(shown).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_url_among_the_arguments_only_the_host_is_shown() {
        for word in ["https://u:hunter22@r.example/hunter22?a=b", "--reprot=json=https://r.example/hunter22,hunter22"] {
            let text = hosts_alone(&format!("unexpected argument '{word}' found"), &["a".to_owned(), word.to_owned()]);
            assert!(text.contains("https://r.example/…") && !text.contains("hunter22"), "{text}");
        }
    }
}
