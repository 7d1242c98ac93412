//! Requests of `--report`, as typed: files, and web servers that receive the finished report.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::report::format::{self, Format};

/// All requested reports.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Reports {
    pub(crate) files: Vec<Wanted>,
    pub(crate) posts: Vec<Posted>,
}

/// A file that was requested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) format: &'static Format,
    pub(crate) path: PathBuf,
}

/// A URL that was requested.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Posted {
    pub(crate) format: &'static Format,
    /// The URL as typed. The URL of a webhook is a secret.
    pub(crate) url: String,
}

impl fmt::Debug for Posted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Posted").field("format", &self.format).finish_non_exhaustive()
    }
}

/// Parses `--report FORMAT=PATH|URL`. The error is a usage error.
///
/// `-` is stdout, which has one document: the format of `--output`. Requesting that again adds nothing.
pub(crate) fn parse(reports: &[String], output: &Format) -> Result<Reports, String> {
    let mut wanted = Reports::default();
    // Parts of a URL that a comma or a missing name has separated are as secret as the whole.
    let is_secret = reports.iter().any(|argument| argument.contains("://"));
    let mut add = |format: &'static Format, place: &Path| {
        let typed = place.to_str().unwrap_or_default();
        if place.as_os_str().is_empty() {
            return Err(format!("the path of the {} report is empty", format.name));
        }
        if is_url(typed) {
            wanted.posts.push(Posted { format, url: typed.to_owned() });
        } else if typed != "-" {
            wanted.files.push(Wanted { format, path: place.to_owned() });
        } else if format != output {
            let (name, other) = (format.name, output.name);
            return Err(format!("`{name}=-` and `--output {other}` both write to stdout; use `--output {name}`"));
        }
        Ok(())
    };
    for argument in reports {
        let named = argument.split_once('=').map(|(name, place)| (format::find(name), name, place));
        match named {
            Some((Some(format), _, place)) => add(format, Path::new(place))?,
            _ if is_secret => {
                return Err("a value of `--report` is not FORMAT=PATH or FORMAT=URL, such as \
                            `json=https://reports.example/`; a comma in a URL is written as `%2C`"
                    .to_owned());
            }
            Some((None, name, _)) => {
                let all: Vec<_> = format::ALL.iter().map(|known| format!("`{}`", known.name)).collect();
                return Err(format!("`{name}` is not a report format; the formats are {}", all.join(", ")));
            }
            None => return Err(format!("`{argument}` is not FORMAT=PATH, such as `json=report.json`")),
        }
    }
    Ok(wanted)
}

/// Whether this is a URL. Text that begins with any scheme is not a path: a folder of that name would contain the secrets of the URL.
pub(crate) fn is_url(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once(':') else { return false };
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'));
    let is_of_web = ["http", "https"].iter().any(|known| scheme.eq_ignore_ascii_case(known));
    is_of_web || is_scheme && rest.starts_with("//")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(arguments: &[&str], output: &Format) -> Result<Reports, String> {
        let arguments: Vec<String> = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        parse(&arguments, output)
    }

    #[test]
    fn refuses_what_makes_no_sense() {
        for (arguments, part) in [
            (&["json"][..], "not FORMAT=PATH"),
            (&["xml=a"], "`xml` is not a report format"),
            (&["json="], "empty"),
            (&["junit=-"], "--output junit"),
        ] {
            let error = parsed(arguments, &format::TEXT).unwrap_err();
            assert!(error.contains(part), "{arguments:?}: {error}");
        }
        assert_eq!(parsed(&["json=-"], &format::JSON), Ok(Reports::default()));
        assert_eq!(parsed(&["json=a=b"], &format::TEXT).unwrap().files[0].path, Path::new("a=b"));
    }

    #[test]
    fn a_url_is_no_path() {
        for url in ["https://r.example/a=b", "HTTP://r.example", "https:/r.example", "https:r", "ftp://r.example/"] {
            let wanted = parsed(&[&format!("json={url}")], &format::TEXT).unwrap();
            assert!(wanted.files.is_empty() && wanted.posts[0].url == url, "{url}");
        }
        for path in ["./https://r.example", "a:b", "a/b://c", "9p://x", "://x"] {
            let wanted = parsed(&[&format!("json={path}")], &format::TEXT).unwrap();
            assert!(wanted.posts.is_empty() && wanted.files[0].path == Path::new(path), "{path}");
        }
    }

    #[test]
    fn no_part_of_a_url_is_repeated() {
        for arguments in [
            &["https://hooks.example/hunter22"][..],
            &["https://hooks.example/?hunter22=x"],
            &["jsn=https://hooks.example/hunter22"],
            &["json=https://hooks.example/a", "hunter22"],
            &["hunter22=x", "json=https://hooks.example/a"],
        ] {
            let error = parsed(arguments, &format::TEXT).unwrap_err();
            assert!(error.contains("%2C") && !error.contains("hunter22"), "{arguments:?}: {error}");
        }
        let wanted = parsed(&["json=https://hooks.example/hunter22"], &format::TEXT);
        assert!(!format!("{wanted:?}").contains("hunter22"), "{wanted:?}");
    }
}
