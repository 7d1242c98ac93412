//! The output on each stream, depending on which stream is a terminal, on the environment and on the options.

use super::sick;
use super::tmux::Terminal;
use crate::harness::side_by_side;

/// A run, with the expected output on the terminal and in the files `out` and `err`.
struct Case {
    variables: &'static [(&'static str, &'static str)],
    arguments: &'static [&'static str],
    /// Redirections to `out` and `err`.
    redirections: &'static str,
    /// Whether the terminal shows the region.
    has_region: bool,
    /// Whether the terminal and the files contain color.
    has_color: (bool, bool),
}

const OUT: &str = ">out";
const ERR: &str = "2>err";
const BOTH: &str = ">out 2>err";

#[rustfmt::skip]
const CASES: [Case; 21] = [
    // Combinations of terminals and files.
    Case { variables: &[], arguments: &[], redirections: "", has_region: true, has_color: (true, false) },
    Case { variables: &[], arguments: &[], redirections: OUT, has_region: true, has_color: (true, false) },
    Case { variables: &[], arguments: &[], redirections: ERR, has_region: false, has_color: (true, false) },
    Case { variables: &[], arguments: &[], redirections: BOTH, has_region: false, has_color: (false, false) },
    // A non-empty NO_COLOR.
    Case { variables: &[("NO_COLOR", "1")], arguments: &[], redirections: "", has_region: true, has_color: (false, false) },
    Case { variables: &[("NO_COLOR", "")], arguments: &[], redirections: "", has_region: true, has_color: (true, false) },
    Case { variables: &[("NO_COLOR", "1"), ("CLICOLOR_FORCE", "1")], arguments: &[], redirections: BOTH, has_region: false, has_color: (false, false) },
    Case { variables: &[("NO_COLOR", "1")], arguments: &["--color", "always"], redirections: BOTH, has_region: false, has_color: (false, true) },
    // CLICOLOR_FORCE and CLICOLOR.
    Case { variables: &[("CLICOLOR_FORCE", "1")], arguments: &[], redirections: BOTH, has_region: false, has_color: (false, true) },
    Case { variables: &[("CLICOLOR_FORCE", "0")], arguments: &[], redirections: BOTH, has_region: false, has_color: (false, false) },
    Case { variables: &[("CLICOLOR_FORCE", "1")], arguments: &["--color", "never"], redirections: "", has_region: true, has_color: (false, false) },
    Case { variables: &[("CLICOLOR", "0")], arguments: &[], redirections: "", has_region: true, has_color: (false, false) },
    // TERM=dumb.
    Case { variables: &[("TERM", "dumb")], arguments: &[], redirections: "", has_region: false, has_color: (false, false) },
    Case { variables: &[("TERM", "dumb"), ("CLICOLOR_FORCE", "1")], arguments: &[], redirections: "", has_region: false, has_color: (true, false) },
    // A locale without UTF-8.
    Case { variables: &[("LC_ALL", "C")], arguments: &[], redirections: "", has_region: true, has_color: (true, false) },
    Case { variables: &[("LC_ALL", "C")], arguments: &[], redirections: BOTH, has_region: false, has_color: (false, false) },
    // Options.
    Case { variables: &[], arguments: &["-q"], redirections: "", has_region: false, has_color: (true, false) },
    Case { variables: &[], arguments: &["-o", "json"], redirections: "", has_region: true, has_color: (true, false) },
    // Growing output on the same terminal would break up the region.
    Case { variables: &[], arguments: &["-o", "ndjson"], redirections: "", has_region: false, has_color: (true, false) },
    Case { variables: &[], arguments: &["-o", "ndjson"], redirections: OUT, has_region: true, has_color: (true, false) },
    // A CI runner that gives its jobs a terminal stores every frame.
    Case { variables: &[("CI", "true")], arguments: &[], redirections: "", has_region: false, has_color: (true, false) },
];

#[test]
fn each_stream_gets_what_it_can_show() {
    let cluster = sick();
    side_by_side(CASES, 2, |case| {
        let Case { variables, arguments, redirections, has_region, has_color } = case;
        let shown = format!("{variables:?} {arguments:?} {redirections}");
        let program = cluster.program().args(["--attempt-timeout", "60s"]).args(arguments);
        let program = variables.iter().fold(program, |program, (name, value)| program.env(name, value));
        let terminal = Terminal::open(program, 80, 50);
        terminal.run(redirections);
        terminal.ends(1);
        let written = terminal.written("code=1");
        let is_colored =
            |text: &str| ["\u{1b}[1;31m", "\u{1b}[32m", "\u{1b}[33m"].iter().any(|code| text.contains(code));
        assert_eq!(is_colored(&written), has_color.0, "{shown}: {written:?}");
        assert_eq!(written.contains("\u{1b}[?7l"), has_region, "{shown}: {written:?}");
        let files: Vec<_> = [(OUT, "out"), (ERR, "err")]
            .into_iter()
            .filter(|(redirection, _)| redirections.contains(redirection))
            .collect();
        let texts: Vec<_> = files.iter().map(|(_, name)| terminal.file(name)).collect();
        for text in &texts {
            assert!(!text.is_empty(), "{shown}");
            assert_eq!(is_colored(text), has_color.1, "{shown}: {text:?}");
            let moves = text.replace("\u{1b}[0m", "").replace("\u{1b}[1m", "").replace("\u{1b}[1;31m", "");
            let moves = moves.replace("\u{1b}[32m", "").replace("\u{1b}[33m", "").replace("\u{1b}[36m", "");
            let moves = moves.replace("\u{1b}[2m", "");
            assert!(!moves.contains('\u{1b}') && !moves.contains('\r'), "{shown}: {text:?}");
        }
        let all = texts.concat() + &written;
        let is_plain = variables.contains(&("LC_ALL", "C"));
        assert!(!is_plain || all.is_ascii(), "{shown}: {all:?}");
        let has_report = !arguments.contains(&"-o");
        assert!(!has_report || all.contains(if is_plain { "x failed" } else { "✗ failed" }), "{shown}: {all:?}");
        assert_eq!(arguments.contains(&"-q"), !all.contains("  one pass"), "{shown}: {all:?}");
    });
}
