//! Options and formats of versions before the first release. Until 1.0, each is a usage error that names its replacement.

use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::{Usage, variables};

/// Options without their dashes, and their replacements.
const OPTIONS: [(&str, &str); 8] = [
    ("allow-empty", "accept exit code 4, as with `cluster-health … || [ $? -eq 4 ]`"),
    ("ascii", "set a locale without UTF-8, such as `LC_ALL=C`"),
    ("fail-on-node-condition", "use `--fail-on node-condition=TYPE`"),
    ("heartbeat", "a progress line is printed every 30 seconds"),
    ("junit-file", "use `--report junit=PATH`"),
    ("junit-granularity", "use `--report junit=PATH`, with a test case for each check"),
    ("retry-all", "a wait ends when waiting cannot help"),
    ("simple-exit-codes", "use `cluster-health … || exit 1`"),
];

const FORMATS: [(&str, &str); 1] = [("tap", "use `junit`, or `cluster-health report FILE -o json | jq`")];

/// Returns the error for arguments that name a removed option or format.
pub(crate) fn typed(error: &clap::Error) -> Option<Usage> {
    let said = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    let argument = said(ContextKind::InvalidArg)?;
    match error.kind() {
        ErrorKind::UnknownArgument => of(&OPTIONS, argument.strip_prefix("--")?, argument),
        ErrorKind::InvalidValue if argument == "--output <FORMAT>" => format(said(ContextKind::InvalidValue)?),
        _ => None,
    }
}

/// Returns the error for the variable of a removed option.
pub(super) fn variable(name: &str) -> Option<Usage> {
    let option = name.strip_prefix(variables::PREFIX)?.to_lowercase().replace('_', "-");
    of(&OPTIONS, &option, name)
}

/// Rejects removed formats in `--report`.
pub(super) fn reports(reports: &[String]) -> Result<(), Usage> {
    let mut formats = reports.iter().filter_map(|report| report.split_once('=')).map(|(name, _)| name);
    formats.find_map(format).map_or(Ok(()), Err)
}

fn format(name: &str) -> Option<Usage> {
    of(&FORMATS, name, name)
}

fn of(table: &[(&str, &str)], name: &str, shown: &str) -> Option<Usage> {
    let (_, instead) = table.iter().find(|(gone, _)| *gone == name)?;
    Some(Usage::new(format!("`{shown}` is gone: {instead}")))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::cli::Cli;
    use crate::plan::tests::decide;
    use crate::report::format;

    fn refused(arguments: &[&str]) -> Option<String> {
        let error = Cli::command().try_get_matches_from([&["cluster-health"], arguments].concat()).unwrap_err();
        typed(&error).map(|usage| usage.message)
    }

    #[test]
    fn each_option_and_its_variable_name_the_replacement() {
        let command = Cli::command();
        let known: Vec<_> = command.get_arguments().filter_map(clap::Arg::get_long).collect();
        for (name, instead) in OPTIONS {
            assert!(!known.contains(&name), "{name}");
            let option = format!("--{name}");
            let expected = Some(format!("`{option}` is gone: {instead}"));
            assert_eq!(refused(&[&option]), expected);
            assert_eq!(refused(&["--strict", &format!("{option}=x")]), expected);
            assert_eq!(refused(&[&option, "x"]), expected);
            let variable = format!("{}{}", variables::PREFIX, name.to_uppercase().replace('-', "_"));
            let usage = variables::all_known(&command, ["HOME", variable.as_str()]).unwrap_err();
            assert_eq!(usage, Usage::new(format!("`{variable}` is gone: {instead}")));
        }
        assert_eq!(refused(&["--junit-files", "x"]), None);
    }

    #[test]
    fn each_format_names_the_replacement() {
        for (name, instead) in FORMATS {
            assert_eq!(format::find(name), None);
            let expected = format!("`{name}` is gone: {instead}");
            for arguments in [&["-o", name][..], &["report", "x.json", "-o", name], &[&format!("--output={name}")]] {
                assert_eq!(refused(arguments), Some(expected.clone()), "{arguments:?}");
            }
            let given = ["json=x".to_owned(), format!("{name}=x")];
            assert_eq!(reports(&given), Err(Usage::new(expected)));
            assert_eq!(refused(&["list", "-o", name]), None, "it never was one of a list");
        }
        assert_eq!(reports(&["junit=tap".to_owned(), "tap".to_owned()]), Ok(()));
    }

    /// The options and formats that an error proposes exist.
    #[test]
    fn replacements_can_be_typed() {
        let words: Vec<_> = OPTIONS.iter().chain(&FORMATS).flat_map(|(_, instead)| instead.split(['`', ' '])).collect();
        let command = Cli::command();
        for option in words.iter().filter_map(|word| word.strip_prefix("--")) {
            assert!(command.get_arguments().any(|it| it.get_long() == Some(option)), "{option}");
        }
        assert!(decide(&["--fail-on", "node-condition=TYPE", "--report", "junit=PATH"]).is_ok());
    }
}
