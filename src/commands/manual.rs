//! The manual page, generated from the definition of the command line.

use std::io;

use clap::CommandFactory as _;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use super::EXAMPLES;
use crate::cli::Cli;
use crate::config::etcd;
use crate::model::Exit;

/// Returns the page in roff.
pub(super) fn page() -> io::Result<Vec<u8>> {
    // Exit codes and examples have their own sections.
    let man = Man::new(Cli::command());
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    man.render_subcommands_section(&mut page)?;
    let mut roff = Roff::new();
    roff.control("SH", ["EXIT STATUS"]);
    for exit in Exit::ALL {
        roff.control("TP", []).text([bold(exit.code().to_string())]).text([roman(exit.meaning())]);
    }
    roff.control("SH", ["ENVIRONMENT"]);
    for (name, about) in etcd::VARIABLES {
        roff.control("TP", []).text([bold(name)]).text([roman(about)]);
    }
    roff.control("SH", ["EXAMPLES"]);
    for (line, about) in EXAMPLES {
        roff.control("TP", []).text([bold(line)]).text([roman(about)]);
    }
    roff.to_writer(&mut page)?;
    man.render_version_section(&mut page)?;
    Ok(page)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use clap_complete::Shell;

    use super::*;
    use crate::commands::complete;

    /// The files are committed, so that packages can include them without a build. `UPDATE=1` rewrites them.
    #[test]
    fn committed_files_are_up_to_date() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut files = vec![("man/cluster-health.1", page().unwrap())];
        for (name, shell) in [
            ("completions/cluster-health.bash", Shell::Bash),
            ("completions/_cluster-health", Shell::Zsh),
            ("completions/cluster-health.fish", Shell::Fish),
            ("completions/cluster-health.elv", Shell::Elvish),
            ("completions/_cluster-health.ps1", Shell::PowerShell),
        ] {
            files.push((name, complete::script(shell).unwrap()));
        }
        for (name, made) in files {
            let path = root.join(name);
            if std::env::var_os("UPDATE").is_some() {
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(&path, &made).unwrap();
            }
            let committed = std::fs::read(&path).unwrap_or_default();
            assert!(committed == made, "`{name}` is old: run the tests with UPDATE=1");
        }
    }

    #[test]
    fn the_page_has_every_exit_code() {
        let page = String::from_utf8(page().unwrap()).unwrap();
        assert!(page.contains("EXIT STATUS"));
        for exit in Exit::ALL {
            assert!(page.contains(&format!("\\fB{}\\fR", exit.code())), "{}", exit.code());
        }
    }
}
