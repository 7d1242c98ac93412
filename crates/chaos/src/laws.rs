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
    /// The expected result.
    pub(crate) why: String,
    /// The actual report.
    pub(crate) said: String,
}

/// Judges a case, with as many runs as its laws need.
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

/// Checks the laws that need only one run.
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

/// Checks that a single fault is the first cause, and that unrelated faults are all reported as causes.
fn stories(case: &Case, truth: &Truth<'_>, said: &Said) -> Vec<(String, String)> {
    let causes = said.causes();
    let tells = |cause: &Cause, planted: &Planted| {
        let is_named = cause.words.iter().any(|word| planted.fault.said.contains(&word.as_str()));
        is_named && cause.about.iter().any(|about| is_about(case, about, planted))
    };
    let told = |planted: &&&Planted| !planted.fault.said.is_empty() && planted.does() == Does::Breaks;
    let faults: Vec<_> = truth.shown.iter().filter(told).collect();
    let mut broken = Vec::new();
    // An unmet demand counts as a fault as well.
    let is_alone = case.faults.len() == 1 && !case.choices.iter().any(|choice| (choice.demands)(case));
    if let ([planted], true, Verdict::Broken) = (&*faults, is_alone, truth.verdict)
        && let Some(first) = causes.iter().find(|cause| !cause.is_warning)
        && !tells(first, planted)
    {
        let why = format!("{planted} is the first cause, not {:?} of {:?}", first.words, first.about);
        broken.push((format!("first-cause:{}", planted.fault.name), why));
    }
    // Only faults on different machines are compared, because a fault can be a consequence of another one on the same
    // machine.
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

/// Whether all faults that affect the verdict heal, and no option or shape has a verdict of its own.
fn heals(case: &Case) -> bool {
    // On the only worker, this is more than a warning.
    let matters = |planted: &&Planted| planted.fault.does != Does::Warns || planted.fault.name == "out-of-service";
    let strict = case.choices.iter().any(|choice| choice.strict || (choice.demands)(case));
    let sees = case.shapes.iter().all(|shape| !shape.blinds);
    !strict && sees && case.faults.iter().filter(matters).all(|planted| planted.until.is_some() || planted.fault.passes)
}

fn is_about(case: &Case, about: &str, planted: &Planted) -> bool {
    let Some(machine) = planted.machine else { return true };
    // The balancer leads to the only API server, and perhaps nothing else is known about the cluster.
    if machine.controls && case.control_planes == 1 && about.contains("balancer") {
        return true;
    }
    let name = machine.to_string();
    about.match_indices(&name).any(|(at, _)| {
        let after = about[at + name.len()..].chars().next();
        after.is_none_or(|after| !after.is_ascii_digit())
    })
}

/// Removes the machine from a DaemonSet pod's name, which the simulator derives from the name of its machine.
fn without_suffix(mut problem: Problem) -> Problem {
    for set in ["kube-proxy-", "kube-flannel-"] {
        if let Some((_, machine)) = problem.target.strip_prefix(set).and_then(|rest| rest.split_once(' ')) {
            problem.target = format!("{set}* {machine}");
        }
    }
    problem
}

/// Checks that names, order and addresses of machines do not affect the result.
fn names(program: &Program, case: &Case, said: &Said) -> anyhow::Result<Option<Broken>> {
    let plain = program.run(&Case { shuffle: 0, ..case.clone() })?;
    // The replicas of CoreDNS run on the first machines, which are different ones in this order.
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

/// Checks that one more fault never turns the result healthy.
fn more(program: &Program, case: &Case, said: &Said, random: &mut Random) -> anyhow::Result<Option<Broken>> {
    let Some(planted) = case.random_fault(random) else { return Ok(None) };
    let what = planted.to_string();
    let mut worse = case.clone();
    worse.faults.push(planted);
    let after = program.run(&worse)?;
    let why = format!("not 0 with {what}: it was {} without, {}", said.exit, said.shown());
    Ok((after.exit == 0).then(|| Broken { law: "more-helps".to_owned(), why, said: after.shown() }))
}
