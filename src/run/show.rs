//! The consumers of a run's events: the report, progress, and the files.

use std::io::{self, IsTerminal as _};
use std::time::Duration;

use super::told::Told;
use crate::config::Environment;
use crate::engine::event::Event;
use crate::plan::Plan;
use crate::report::sink::ci::{Ci, Section};
use crate::report::sink::live::{Live, LiveStyle};
use crate::report::sink::terminal::{self, Size};
use crate::text::lines::Lines;

/// Time without news after which a heartbeat is printed.
const HEARTBEAT: Duration = Duration::from_secs(30);

/// All consumers of a run's events.
pub(super) struct Show<'a> {
    told: &'a Told<'a>,
    pub(super) live: Live<Lines<io::Stderr>>,
    /// Whether something has changed since the files were written.
    stale: bool,
}

impl<'a> Show<'a> {
    pub(super) fn new(plan: &Plan, told: &'a Told<'a>, ci: Ci, environment: &Environment) -> Self {
        Self { told, live: live(plan, ci, environment), stale: false }
    }

    pub(super) fn event(&mut self, event: &Event<'_>, is_shown: bool) {
        self.told.record(event);
        if is_shown {
            self.live.event(event);
        }
        if let Event::Round(round) = event {
            // The first round is saved at once: it is the one that a killed run most likely leaves behind.
            self.stale = true;
            if round.number <= 1 {
                self.save();
            }
        }
        self.told.follow();
    }

    pub(super) fn tick(&mut self, elapsed: Duration) {
        self.live.tick(elapsed);
        if self.told.heartbeat(elapsed, HEARTBEAT) {
            self.stale = true;
            self.told.follow();
        }
        self.save();
    }

    fn save(&mut self) {
        if self.stale {
            self.told.update_files();
            self.stale = false;
        }
    }
}

fn live(plan: &Plan, ci: Ci, environment: &Environment) -> Live<Lines<io::Stderr>> {
    let options = &plan.output;
    let (is_terminal, stderr) = (io::stderr().is_terminal(), Lines::new(io::stderr()));
    let variable = |name: &str| environment.get(name);
    let live = LiveStyle {
        color: terminal::color(options.color, is_terminal, ci, variable),
        ascii: terminal::ascii(variable),
        quiet: options.quiet,
        verbose: options.verbose,
        why: options.why,
        heartbeat: HEARTBEAT,
        wait_timeout: plan.wait_timeout,
    };
    // Output to the same terminal during the run would tear the region apart.
    let shares = options.format.grows() && io::stdout().is_terminal();
    if terminal::redraws(is_terminal && !shares, ci, variable) {
        // A terminal that does not report its size is assumed to have the usual one.
        let size = || terminal::size(&io::stderr()).unwrap_or(Size { columns: 80, lines: 24 });
        return Live::region(live, stderr, size);
    }
    let live = Live::lines(live, stderr);
    if ci == Ci::Gitlab { live.within(Section::of_progress(plan.start.wall)) } else { live }
}
