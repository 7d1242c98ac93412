//! What is true of a case, and so what may be said of it.

use crate::case::{Case, Machine, Planted};
use crate::faults::{Does, Source, Touches};
use crate::run::Said;

/// What has just begun or ended need not have been seen: a round takes its time, and so does whoever runs it.
const SLACK: f64 = 6.0;

/// Which verdicts are right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Nothing is wrong, and all of it can be seen.
    Healthy,
    /// It is broken, and somebody who can be asked shows it.
    Broken,
    /// It is broken, and it may be that nobody who can be asked shows it.
    BrokenUnseen,
    /// Nothing is wrong, and what has to be seen is not.
    Blind,
    /// Nothing is wrong, and something is not seen.
    NotRed,
    /// It is asked for something that cannot be looked at.
    Misused,
    /// What may be said depends on luck.
    Any,
}

/// What is true of a case at a time.
pub(crate) struct Truth<'a> {
    pub(crate) verdict: Verdict,
    /// Faults that are in force, and that somebody shows who can be asked.
    pub(crate) shown: Vec<&'a Planted>,
    /// The answers of Kubernetes depend on no luck.
    pub(crate) steady: bool,
}

/// A case at a time.
struct Now<'a> {
    case: &'a Case,
    /// In force for long enough.
    faults: Vec<&'a Planted>,
}

impl<'a> Truth<'a> {
    /// What was true when the run ended.
    pub(crate) fn of(case: &'a Case, said: &Said) -> Self {
        let at = said.after;
        // A single round asks nearly everything at its start, however long it then waits for a second sample or a silent machine.
        let slack = if said.report["rounds"] == 1 { at.max(SLACK) } else { SLACK };
        let (mut faults, mut perhaps) = (Vec::new(), false);
        for planted in &case.faults {
            match planted.is_in_force(at, slack) {
                Some(true) => faults.push(planted),
                Some(false) => {}
                None => perhaps = true,
            }
        }
        let now = Now { case, faults };
        let shown: Vec<_> = now.faults.iter().copied().filter(|planted| now.is_shown(planted)).collect();
        let steady = !perhaps && now.kubernetes_is_steady();
        let verdict = match () {
            () if now.is_misused() => Verdict::Misused,
            () if perhaps => now.perhaps(),
            () => now.verdict(&shown),
        };
        Self { verdict, shown, steady }
    }
}

impl Planted {
    /// `None`: it has begun or ended just now.
    fn is_in_force(&self, at: f64, slack: f64) -> Option<bool> {
        #[expect(clippy::cast_precision_loss, reason = "these are few seconds")]
        let (from, until) = (self.from.map(|it| it as f64), self.until.map(|it| it as f64));
        let begun = match from {
            None => Some(true),
            Some(from) if at < from => Some(false),
            Some(from) if at > from + slack => Some(true),
            Some(_) => None,
        };
        let ended = match until {
            None => Some(false),
            Some(until) if at < until => Some(false),
            Some(until) if at > until + slack => Some(true),
            Some(_) => None,
        };
        match (begun, ended) {
            (Some(false), _) | (_, Some(true)) => Some(false),
            (Some(true), Some(false)) => Some(true),
            _ => None,
        }
    }

    pub(crate) fn does(&self) -> Does {
        self.fault.does
    }
}

impl<'a> Now<'a> {
    fn any(&self, does: Does) -> bool {
        self.faults.iter().any(|planted| planted.does() == does)
    }

    /// Something has begun or ended just now.
    fn perhaps(&self) -> Verdict {
        let broken = self.faults.iter().any(|planted| planted.does() == Does::Breaks && self.is_judged(planted));
        if broken { Verdict::BrokenUnseen } else { Verdict::Any }
    }

    fn verdict(&self, shown: &[&'a Planted]) -> Verdict {
        let breaks = |planted: &&&Planted| {
            planted.does() == Does::Breaks || self.warnings_fail() && planted.does() == Does::Warns
        };
        let demands = self.case.choices.iter().any(|choice| (choice.demands)(self.case));
        let sightless = self.is_sightless();
        let excused = |planted: &&&Planted| self.is_excused(planted);
        let mut broken = self.faults.iter().filter(breaks).filter(|planted| self.is_judged(planted)).peekable();
        let shown = shown.iter().filter(breaks).filter(|planted| !excused(planted)).count() > 0;
        match () {
            () if shown && !sightless => Verdict::Broken,
            () if broken.peek().is_some() => {
                if broken.all(|planted| excused(&planted)) {
                    Verdict::Any
                } else {
                    Verdict::BrokenUnseen
                }
            }
            () if demands => {
                if sightless || !self.faults.is_empty() {
                    Verdict::BrokenUnseen
                } else {
                    Verdict::Broken
                }
            }
            // What is narrowed away may be told all the same.
            () if self.faults.iter().any(|planted| breaks(&planted)) => Verdict::Any,
            () if self.nothing_is_schedulable() => match () {
                () if !self.is_asked(Source::Node, None) || self.case.has_shape("foreign-node") => Verdict::Any,
                () if self.kubernetes_is_steady() && !sightless => Verdict::Broken,
                () => Verdict::BrokenUnseen,
            },
            () if self.warnings_fail() && self.warns() => Verdict::Any,
            () if self.any(Does::Blinds)
                && self.case.choices.iter().all(|choice| choice.leaves_out.is_empty() && choice.narrows.is_empty()) =>
            {
                // What is not seen can be worth a word of its own, and words fail.
                if self.warnings_fail() { Verdict::BrokenUnseen } else { Verdict::Blind }
            }
            () if sightless && self.warnings_fail() => Verdict::Any,
            () if sightless => Verdict::NotRed,
            () => Verdict::Healthy,
        }
    }

    /// Something is not seen, for whatever reason.
    fn is_sightless(&self) -> bool {
        self.any(Does::Blinds) || self.any(Does::Hides) || self.case.shapes.iter().any(|shape| shape.blinds)
    }

    fn is_misused(&self) -> bool {
        self.case.choices.iter().any(|choice| choice.beyond.iter().any(|other| self.case.has_choice(other)))
    }

    fn warnings_fail(&self) -> bool {
        self.case.choices.iter().any(|choice| choice.strict)
    }

    /// Whether the shape is worth a word.
    fn warns(&self) -> bool {
        self.case.shapes.iter().any(|shape| shape.warns) || self.case.control_planes.is_multiple_of(2)
    }

    /// All nodes that take workloads are cordoned.
    fn nothing_is_schedulable(&self) -> bool {
        let takes = |machine: &Machine| self.case.workers == 0 || !machine.controls;
        let cordoned = |machine: &Machine| {
            let closes = |planted: &&Planted| ["cordon", "out-of-service"].contains(&planted.fault.name);
            self.faults.iter().filter(|planted| closes(planted)).any(|planted| planted.machine == Some(*machine))
        };
        self.case.machines().iter().filter(|machine| takes(machine)).all(cordoned)
    }

    /// Whether what is asked for covers the fault, if only by chance.
    fn is_judged(&self, planted: &Planted) -> bool {
        planted.fault.shown.iter().any(|source| self.is_asked(*source, planted.machine))
    }

    /// The user lets it pass: whoever lost a worker may have its Node left.
    fn is_excused(&self, planted: &Planted) -> bool {
        let of_worker = planted.machine.map_or(planted.fault.name == "stale-node", |machine| !machine.controls);
        self.case.has_choice("a-worker-may-be-unready") && of_worker
    }

    fn is_asked(&self, source: Source, machine: Option<Machine>) -> bool {
        let first = Some(Machine { controls: true, number: 1 });
        self.case.choices.iter().all(|choice| {
            let narrowed = choice.narrows.contains(&source) && !(choice.name == "first-node-only" && machine == first);
            !choice.leaves_out.contains(&source) && !narrowed
        })
    }

    /// Whether somebody who can be asked, and is, shows it.
    fn is_shown(&self, planted: &Planted) -> bool {
        let covered =
            planted.fault.touches != Touches::Machine && planted.machine.is_some_and(|machine| self.is_lost(machine));
        !covered
            && !self.is_sightless()
            && planted
                .fault
                .shown
                .iter()
                .any(|source| self.is_asked(*source, planted.machine) && self.answers(*source, planted))
    }

    /// Whether the machine is not as a machine is at all.
    fn is_lost(&self, machine: Machine) -> bool {
        self.faults.iter().any(|planted| planted.machine == Some(machine) && planted.fault.touches == Touches::Machine)
    }

    fn answers(&self, source: Source, planted: &Planted) -> bool {
        let silenced = |machine: Machine, source: Source| {
            let others = self.faults.iter().filter(|other| !std::ptr::eq(**other, planted));
            others.filter(|other| other.machine == Some(machine)).any(|other| other.fault.silences.contains(&source))
        };
        let open = planted.machine.is_none_or(|machine| !silenced(machine, source));
        open && match source {
            Source::Reach | Source::Talos | Source::Ready => self.talos_answers(),
            Source::StaticPod => self.talos_answers() && self.is_bootstrapped(),
            Source::Member => self.talos_answers() && self.has_quorum(),
            Source::Members => self.talos_answers() && self.has_quorum() && self.members_are_up(),
            Source::Server => self.kubernetes_is_found() && self.is_bootstrapped(),
            Source::Endpoint => true,
            Source::Clock => {
                let others = self.faults.iter().filter(|other| !std::ptr::eq(**other, planted));
                self.talos_answers()
                    && self.kubernetes_is_steady()
                    && others.filter(|other| other.machine == planted.machine).count() == 0
            }
            Source::Component | Source::Node | Source::Object => self.kubernetes_is_steady(),
        }
    }

    fn control_planes(&self) -> impl Iterator<Item = Machine> {
        (1..=self.case.control_planes).map(|number| Machine { controls: true, number })
    }

    /// Some endpoint of the talosconfig forwards calls.
    fn talos_answers(&self) -> bool {
        let one = self.case.has_shape("one-endpoint");
        self.control_planes().take(if one { 1 } else { usize::MAX }).any(|machine| {
            !self
                .faults
                .iter()
                .any(|planted| planted.machine == Some(machine) && planted.fault.silences.contains(&Source::Talos))
        })
    }

    fn stopped_members(&self) -> usize {
        self.control_planes()
            .filter(|machine| {
                self.faults.iter().any(|planted| planted.machine == Some(*machine) && planted.fault.stops_member)
            })
            .count()
    }

    fn members_are_up(&self) -> bool {
        self.stopped_members() == 0
    }

    /// Surely so: who no longer counts as a voter is counted as one that is down.
    fn has_quorum(&self) -> bool {
        let added = self.faults.iter().filter(|planted| planted.fault.touches == Touches::Etcd).count();
        let up = self.case.control_planes - self.stopped_members();
        up * 2 > self.case.control_planes + added && self.is_bootstrapped()
    }

    /// Before it, no static pod runs.
    fn is_bootstrapped(&self) -> bool {
        !self.faults.iter().any(|planted| planted.fault.name == "not-bootstrapped")
    }

    /// The API servers are known by their machines.
    fn kubernetes_is_found(&self) -> bool {
        self.talos_answers() || self.kubernetes_is_steady()
    }

    /// Kubernetes answers, whichever API server a balancer chooses.
    fn kubernetes_is_steady(&self) -> bool {
        self.has_quorum() && !self.faults.iter().any(|planted| planted.fault.spoils_endpoint)
    }
}
