//! Determines what is true about a case, and thus which reports are right.

use crate::case::{Case, Machine, Planted};
use crate::faults::{Does, Source, Touches};
use crate::run::Said;

/// A change that is this recent may not have been noticed, because a round takes time, and so does the computer that runs it.
const SLACK: f64 = 6.0;

/// The verdicts that are right for a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Nothing is wrong, and everything can be observed.
    Healthy,
    /// The cluster is broken, and a source that answers reveals it.
    Broken,
    /// The cluster is broken, and possibly no source that answers reveals it.
    BrokenUnseen,
    /// Nothing is wrong, but required evidence is missing.
    Blind,
    /// Nothing is wrong, but some evidence is missing.
    NotRed,
    /// The options demand something that cannot be checked.
    Misused,
    /// The verdict depends on luck.
    Any,
}

/// The truth about a case at a point in time.
pub(crate) struct Truth<'a> {
    pub(crate) verdict: Verdict,
    /// Faults that are in force, and that a source that answers reveals.
    pub(crate) shown: Vec<&'a Planted>,
    /// Whether the answers of Kubernetes do not depend on luck.
    pub(crate) steady: bool,
}

/// A case at a point in time.
struct Now<'a> {
    case: &'a Case,
    /// Faults that have been in force for long enough.
    faults: Vec<&'a Planted>,
}

impl<'a> Truth<'a> {
    /// Determines the truth at the end of the run.
    pub(crate) fn of(case: &'a Case, said: &Said) -> Self {
        let at = said.after;
        // A single round queries nearly everything at its start, no matter how long it then waits for a second sample or a silent machine.
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
    /// Returns `None` if the fault has just begun or ended.
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

    /// The right verdict while a fault has just begun or ended.
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
            // A fault that is narrowed away may be reported nevertheless.
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
                // Missing evidence can cause a warning, and warnings fail.
                if self.warnings_fail() { Verdict::BrokenUnseen } else { Verdict::Blind }
            }
            () if sightless && self.warnings_fail() => Verdict::Any,
            () if sightless => Verdict::NotRed,
            () => Verdict::Healthy,
        }
    }

    /// Whether some evidence is missing, for any reason.
    fn is_sightless(&self) -> bool {
        self.any(Does::Blinds) || self.any(Does::Hides) || self.case.shapes.iter().any(|shape| shape.blinds)
    }

    fn is_misused(&self) -> bool {
        self.case.choices.iter().any(|choice| choice.beyond.iter().any(|other| self.case.has_choice(other)))
    }

    fn warnings_fail(&self) -> bool {
        self.case.choices.iter().any(|choice| choice.strict)
    }

    /// Whether the shape of the cluster deserves a warning.
    fn warns(&self) -> bool {
        self.case.shapes.iter().any(|shape| shape.warns) || self.case.control_planes.is_multiple_of(2)
    }

    /// Whether all nodes that accept workloads are cordoned.
    fn nothing_is_schedulable(&self) -> bool {
        let takes = |machine: &Machine| self.case.workers == 0 || !machine.controls;
        let cordoned = |machine: &Machine| {
            let closes = |planted: &&Planted| ["cordon", "out-of-service"].contains(&planted.fault.name);
            self.faults.iter().filter(|planted| closes(planted)).any(|planted| planted.machine == Some(*machine))
        };
        self.case.machines().iter().filter(|machine| takes(machine)).all(cordoned)
    }

    /// Whether the options cover the fault, if only by chance.
    fn is_judged(&self, planted: &Planted) -> bool {
        planted.fault.shown.iter().any(|source| self.is_asked(*source, planted.machine))
    }

    /// Whether the options excuse the fault: they accept an unready worker, and its Node may be left over.
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

    /// Whether a source that is queried and answers reveals the fault.
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

    /// Whether the machine is unreachable or not a member of the cluster at all.
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

    /// Whether an endpoint of the talosconfig forwards calls.
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

    /// Whether etcd certainly has a quorum: members that no longer count as voters are counted as members that are down.
    fn has_quorum(&self) -> bool {
        let added = self.faults.iter().filter(|planted| planted.fault.touches == Touches::Etcd).count();
        let up = self.case.control_planes - self.stopped_members();
        up * 2 > self.case.control_planes + added && self.is_bootstrapped()
    }

    /// Static pods only run after the bootstrap.
    fn is_bootstrapped(&self) -> bool {
        !self.faults.iter().any(|planted| planted.fault.name == "not-bootstrapped")
    }

    /// Whether it is known on which machines the API servers run.
    fn kubernetes_is_found(&self) -> bool {
        self.talos_answers() || self.kubernetes_is_steady()
    }

    /// Whether Kubernetes answers, no matter which API server a balancer chooses.
    fn kubernetes_is_steady(&self) -> bool {
        self.has_quorum() && !self.faults.iter().any(|planted| planted.fault.spoils_endpoint)
    }
}
