//! The laws that hold for every world.

use std::collections::BTreeSet;

use crate::advice;
use crate::case::{Case, Planted};
use crate::faults::Does;
use crate::random::Random;
use crate::run::{Cause, Problem, Program, Said};
use crate::truth::{Truth, Verdict};

/// A law that a run has broken.
#[derive(Clone, Debug)]
pub(crate) struct Broken {
    /// `broken-but-healthy`, `unnamed:power-off`
    pub(crate) law: String,
    /// What should have been.
    pub(crate) why: String,
    /// What was said.
    pub(crate) said: String,
}

/// What is seen of a case by all runs that its laws take.
pub(crate) fn judge(program: &Program, case: &Case, seed: u64) -> anyhow::Result<Vec<Broken>> {
    let said = program.run(case)?;
    let truth = Truth::of(case, &said);
    let mut broken = alone(case, &truth, &said);
    if case.shuffle > 0 && truth.steady && ![Verdict::Any, Verdict::Misused].contains(&truth.verdict) && !waits(case) {
        broken.extend(names(program, case, &said)?);
    }
    let mut random = Random::of(seed, 1);
    if said.exit != 0 && truth.verdict != Verdict::Misused && random.once_in(6) && !waits(case) {
        broken.extend(more(program, case, &said, &mut random)?);
    }
    Ok(broken)
}

fn waits(case: &Case) -> bool {
    case.choices.iter().any(|choice| choice.waits.is_some())
}

/// The laws of one run.
fn alone(case: &Case, truth: &Truth<'_>, said: &Said) -> Vec<Broken> {
    let mut broken = Vec::new();
    let mut add = |law: &str, why: String| broken.push(Broken { law: law.to_owned(), why, said: said.shown() });
    let exit = said.exit;
    if truth.verdict == Verdict::Misused {
        if exit == 0 {
            add("demand-dropped", "not 0: what is demanded is not looked at".to_owned());
        }
        return broken;
    }
    if said.stderr.contains("panicked") || said.report.is_null() || ![0, 1, 69, 77, 78, 124].contains(&exit) {
        add("broke-off", format!("a report and a verdict, not exit {exit}: {}", said.stderr));
        return broken;
    }
    if said.report["exitCode"] != exit {
        add("broke-off", format!("the report says exit {}, and it was {exit}", said.report["exitCode"]));
    }
    match truth.verdict {
        Verdict::Broken | Verdict::BrokenUnseen if exit == 0 => {
            add("broken-but-healthy", "not 0: it is broken".to_owned());
        }
        Verdict::Broken if exit != 1 => {
            add("broken-but-undetermined", format!("1, not {exit}: it is broken, and can be seen to be"));
        }
        Verdict::Healthy if exit == 1 => add("red-without-cause", "0, not 1: nothing is wrong".to_owned()),
        Verdict::Healthy if exit != 0 => add("healthy-but-undetermined", format!("0, not {exit}: nothing is wrong")),
        Verdict::Blind if exit == 0 => add("blind-but-healthy", "not 0: what it has to see is not seen".to_owned()),
        Verdict::Blind | Verdict::NotRed if exit == 1 => add("red-without-cause", "not 1: nothing is wrong".to_owned()),
        _ => {}
    }
    if waits(case) && exit != 0 && truth.verdict != Verdict::Healthy && heals(case) {
        add("gave-up", format!("0, not {exit} after {:.1}s: all of it heals in time", said.after));
    }
    let named = said.named();
    for planted in truth.shown.iter().filter(|planted| !planted.fault.said.is_empty()) {
        let about: BTreeSet<_> =
            named.iter().filter(|(_, about)| is_about(case, about, planted)).map(|(word, _)| word).collect();
        if !about.iter().any(|word| planted.fault.said.contains(&word.as_str())) {
            add(
                &format!("unnamed:{}", planted.fault.name),
                format!("one of {:?} of {planted}; said of it: {about:?}", planted.fault.said),
            );
        }
    }
    for story in story::broken(&said.report) {
        add(story.law, story.why);
    }
    for (law, why) in stories(case, truth, said) {
        add(&law, why);
    }
    for command in said.tries() {
        if let Some(why) = advice::fault(&command, said) {
            add("advice", format!("{why}: {}", said.translated(&command)));
            break;
        }
    }
    broken
}

/// One fault, one story: it is the first cause. Of two faults that have nothing to do with each other, both are causes.
fn stories(case: &Case, truth: &Truth<'_>, said: &Said) -> Vec<(String, String)> {
    let causes = said.causes();
    let tells = |cause: &Cause, planted: &Planted| {
        let is_named = cause.words.iter().any(|word| planted.fault.said.contains(&word.as_str()));
        is_named && cause.about.iter().any(|about| is_about(case, about, planted))
    };
    let told = |planted: &&&Planted| !planted.fault.said.is_empty() && planted.does() == Does::Breaks;
    let faults: Vec<_> = truth.shown.iter().filter(told).collect();
    let mut broken = Vec::new();
    // What is demanded and is not so is a fault as well.
    let is_alone = case.faults.len() == 1 && !case.choices.iter().any(|choice| (choice.demands)(case));
    if let ([planted], true, Verdict::Broken) = (&*faults, is_alone, truth.verdict)
        && let Some(first) = causes.iter().find(|cause| !cause.is_warning)
        && !tells(first, planted)
    {
        let why = format!("{planted} is the first cause, not {:?} of {:?}", first.words, first.about);
        broken.push((format!("first-cause:{}", planted.fault.name), why));
    }
    // What breaks on one machine can follow from what else is broken there.
    let machines: BTreeSet<_> = faults.iter().map(|planted| planted.machine).collect();
    if faults.len() > 1
        && machines.len() == faults.len()
        && !faults.iter().any(|planted| planted.fault.touches.is_cluster())
    {
        for planted in faults.iter().filter(|planted| !causes.iter().any(|cause| tells(cause, planted))) {
            let why = format!(
                "{planted} is a cause, and not only a consequence of {:?}",
                causes.iter().map(|it| &it.words).collect::<Vec<_>>()
            );
            broken.push((format!("no-cause:{}", planted.fault.name), why));
        }
    }
    broken
}

/// Nothing is wrong but what heals, and what has no verdict of its own.
fn heals(case: &Case) -> bool {
    // On the only worker it is more than a word.
    let matters = |planted: &&Planted| planted.fault.does != Does::Warns || planted.fault.name == "out-of-service";
    let strict = case.choices.iter().any(|choice| choice.strict || (choice.demands)(case));
    let sees = case.shapes.iter().all(|shape| !shape.blinds);
    !strict && sees && case.faults.iter().filter(matters).all(|planted| planted.until.is_some() || planted.fault.passes)
}

fn is_about(case: &Case, about: &str, planted: &Planted) -> bool {
    let Some(machine) = planted.machine else { return true };
    // It leads to the only API server, and perhaps nothing else is known of the cluster.
    if machine.controls && case.control_planes == 1 && about.contains("balancer") {
        return true;
    }
    let name = machine.to_string();
    about.match_indices(&name).any(|(at, _)| {
        let after = about[at + name.len()..].chars().next();
        after.is_none_or(|after| !after.is_ascii_digit())
    })
}

/// The simulator makes the names of a DaemonSet's pods from those of their machines.
fn without_suffix(mut problem: Problem) -> Problem {
    for set in ["kube-proxy-", "kube-flannel-"] {
        if let Some((_, machine)) = problem.target.strip_prefix(set).and_then(|rest| rest.split_once(' ')) {
            problem.target = format!("{set}* {machine}");
        }
    }
    problem
}

/// Names, order and addresses of machines mean nothing.
fn names(program: &Program, case: &Case, said: &Said) -> anyhow::Result<Option<Broken>> {
    let plain = program.run(&Case { shuffle: 0, ..case.clone() })?;
    // The replicas of CoreDNS are on the first machines, and so on others here.
    let is_placed = |problem: &Problem| problem.check == "k8s.dns" && case.machines().len() > 1;
    let problems = |said: &Said| -> BTreeSet<_> {
        said.problems().into_iter().filter(|problem| !is_placed(problem)).map(without_suffix).collect()
    };
    let (ours, theirs) = (problems(said), problems(&plain));
    if said.exit == plain.exit && ours == theirs {
        return Ok(None);
    }
    let only =
        |a: &BTreeSet<_>, b: &BTreeSet<_>| a.difference(b).map(|it| format!("{it:?}")).collect::<Vec<_>>().join("\n");
    let why = format!(
        "the same as with other names: exit {} and not {}\nonly with these:\n{}\nonly with the others:\n{}",
        plain.exit,
        said.exit,
        only(&ours, &theirs),
        only(&theirs, &ours)
    );
    Ok(Some(Broken { law: "names-matter".to_owned(), why, said: said.shown() }))
}

/// One more fault never helps.
fn more(program: &Program, case: &Case, said: &Said, random: &mut Random) -> anyhow::Result<Option<Broken>> {
    let Some(planted) = case.random_fault(random) else { return Ok(None) };
    let what = planted.to_string();
    let mut worse = case.clone();
    worse.faults.push(planted);
    let after = program.run(&worse)?;
    let why = format!("not 0 with {what}: it was {} without, {}", said.exit, said.shown());
    Ok((after.exit == 0).then(|| Broken { law: "more-helps".to_owned(), why, said: after.shown() }))
}
