//! `require` of a policy: compares objects of the user with the policy's requirements.

#[cfg(test)]
mod tests;

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::{Check, gaps};
use crate::assess::Assessment;
use crate::model::{CheckId, Fact, Hint, Kind, Outcome, Problem, Reason, Severity, Stage, Target, Verdict};
use crate::snapshot::{
    Demand, Found, Gap, ObjectCondition, Objects, Place, Predicate, Replicas, Require, RequiredObject, RequiredObjects,
    Served,
};
use crate::text::duration::human;
use crate::text::json_path::JsonPath;
use crate::text::sanitize::{brief, without_secrets};

pub(super) const REQUIRE: Check = Check {
    id: CheckId::PolicyRequire,
    stage: Stage::Policy,
    summary: "the objects that the policy requires are as it requires them",
    explain: "Runs with `require` in a policy (`--policy`). Each entry is a target of its own, shown as `policy.ID`, which `--check`, \
`--skip`, `--warn-only` and `--fail-on` take as if it were a check.\n\n\
An entry names objects of any kind that the API server serves, and what is required of them, written as for `kubectl wait`: \
`condition=Ready`, `jsonpath={.status.phase}=Running`; also `age={.status.lastSuccessfulTime}<24h`, by the API server's \
clock, and `current`: the controller has observed the object's newest generation and finished with it.\n\n\
It passes only on evidence. An object that does not exist fails, and so does an empty list (unless `allowNone: true` permits \
it). A \
field that is absent in an object younger than five minutes, and a generation that its controller has not seen, fail for now. A field \
that is absent otherwise is undetermined (`orElse` gives the value that the API leaves out), and so are a path with several values, a \
time in the future, a kind that is not served and a list that was refused or cut.\n\n\
Values are shown with anything that looks like a secret removed, in at most 64 characters. Secrets are never read. \
`cluster-health rbac --policy FILE` \
prints the rights that the entries need.",
    severity: Severity::Fail,
    finds: &[
        Reason::RequirementUnmet,
        Reason::RequirementProgressing,
        Reason::RequirementUnclear,
        Reason::ObjectMissing,
        Reason::KindNotServed,
    ],
    facts: &[Fact::Required],
    judge: require,
};

/// Age up to which an object's fields may still be missing.
const YOUNG: SignedDuration = SignedDuration::from_mins(5);
/// Amount by which a time may be ahead of the server's clock without being a contradiction: `Date` has whole seconds.
const AHEAD: SignedDuration = SignedDuration::from_secs(1);
/// Maximum number of objects that are named, and maximum number of characters of a value.
const NAMED: usize = 3;
const SHOWN: usize = 64;

fn require(cluster: &Assessment<'_>) -> Verdict {
    let entries = &cluster.asked.policy.require;
    if entries.is_empty() {
        return Verdict::skipped("no policy requires anything of other objects");
    }
    let mut verdict = Verdict::default();
    for entry in entries {
        let outcome = served(cluster, entry).map_or_else(|unseen| unseen, |served| judged(entry, served));
        verdict.push(Target::new(Kind::Policy, entry.name()), weighed(entry, outcome));
    }
    verdict
}

/// Describes the expected state for people.
fn expected(entry: &Require) -> String {
    let demands = entry.demands.iter().map(|it| it.text.as_str()).collect::<Vec<_>>().join(" and ");
    let of = objects_of(&entry.of);
    match entry.at_least {
        Some(number) => format!("{demands} of at least {number} {of}"),
        None => format!("{demands} of {of}"),
    }
}

/// Formats `cronjobs.batch kube-system/talos-backup`, `pods in all namespaces`.
fn objects_of(of: &Objects) -> String {
    let resource = of.resource();
    match (&of.name, &of.place) {
        (Some(name), Place::Namespace(namespace)) => format!("{resource} {namespace}/{name}"),
        (Some(name), _) => format!("{resource} {name}"),
        (None, Place::Namespace(namespace)) => format!("{resource} in {namespace}"),
        (None, Place::AllNamespaces) => format!("{resource} in all namespaces"),
        (None, Place::NoNamespace) => resource,
    }
}

fn served<'a>(cluster: &'a Assessment<'_>, entry: &Require) -> Result<&'a Served, Outcome> {
    gaps::listed_of(cluster, &expected(entry), |side| match side.required.get(&entry.id) {
        Some(answer) => answer.as_ref().map_err(Clone::clone),
        None => Err(Gap::not_asked()),
    })
}

/// Gives a failure the severity from the policy. An undetermined outcome keeps its own.
fn weighed(entry: &Require, mut outcome: Outcome) -> Outcome {
    if let Outcome::Problem(problem) = &mut outcome
        && problem.severity == Severity::Fail
    {
        problem.severity = entry.severity;
    }
    outcome
}

/// The result for one object. The order is the precedence of the fold.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Held {
    Yes,
    Unknown(String),
    NotYet(String),
    No(String),
}

/// An object and its result.
struct Seen<'a> {
    object: &'a RequiredObject,
    /// The worst result of all demands.
    held: Held,
    /// Set if any demand could not be determined, regardless of the other results.
    unknown: Option<Held>,
}

impl<'a> Seen<'a> {
    fn of(entry: &Require, object: &'a RequiredObject, now: Option<Timestamp>) -> Self {
        let found = object.found.iter().chain(std::iter::repeat(&Found::Nothing));
        let of_demands = entry.demands.iter().zip(found).map(|(demand, found)| held(object, demand, found, now));
        let all: Vec<Held> = of_demands.collect();
        let unknown = all.iter().find(|it| matches!(it, Held::Unknown(_))).cloned();
        let nothing = Held::Unknown("nothing is required of it".to_owned());
        Self { object, held: all.into_iter().max().unwrap_or(nothing), unknown }
    }

    /// Formats `rook-ceph/rook-ceph: {.status.ceph.health} is HEALTH_WARN`.
    fn words(&self, held: &Held) -> String {
        let name = qualified(self.object);
        match held {
            Held::Yes => name,
            Held::Unknown(why) | Held::NotYet(why) | Held::No(why) => format!("{name}: {why}"),
        }
    }
}

fn judged(entry: &Require, served: &Served) -> Outcome {
    let RequiredObjects { date, objects } = match served {
        Served::Objects(objects) => objects,
        Served::Not(why) => {
            let problem = Problem::error(Reason::KindNotServed, expected(entry), why.as_str());
            return Outcome::problem(problem.hint(Hint::run("{kubectl} api-resources -o name", [])));
        }
    };
    if objects.is_empty() {
        return none(entry);
    }
    let seen: Vec<Seen<'_>> = objects.iter().map(|object| Seen::of(entry, object, *date)).collect();
    let count = |is_it: fn(&Held) -> bool| seen.iter().filter(|it| is_it(&it.held)).count();
    let (held, wrong) = (count(|it| *it == Held::Yes), count(|it| matches!(it, Held::No(_))));
    let (not_yet, wanted) = (count(|it| matches!(it, Held::NotYet(_))), entry.at_least.unwrap_or(seen.len()));
    if held >= wanted {
        return Outcome::Pass(Some(format!("{held} of {} as required", seen.len())));
    }
    let is_unknown = seen.iter().any(|it| it.held != Held::Yes && it.unknown.is_some());
    // If a failure would only warn, undetermined objects take precedence. If a minimum number of objects is sufficient, undetermined ones
    // may be among them.
    let reason = if entry.severity == Severity::Warn && is_unknown {
        Reason::RequirementUnclear
    } else if seen.len() - wrong < wanted {
        Reason::RequirementUnmet
    } else if not_yet == 0 || (entry.at_least.is_some() && is_unknown) {
        Reason::RequirementUnclear
    } else {
        Reason::RequirementProgressing
    };
    let concerned: Vec<(&Seen<'_>, &Held)> = seen
        .iter()
        .filter_map(|it| match (&reason, &it.held) {
            (_, Held::Yes) => None,
            (Reason::RequirementUnclear, _) => Some((it, it.unknown.as_ref()?)),
            (Reason::RequirementUnmet, held @ Held::No(_))
            | (Reason::RequirementProgressing, held @ Held::NotYet(_)) => Some((it, held)),
            _ => None,
        })
        .collect();
    let observed = observed(&seen, &concerned, wanted);
    let problem = match reason {
        Reason::RequirementUnclear => Problem::error(reason, expected(entry), observed),
        _ => Problem::fail(reason, expected(entry), observed),
    };
    Outcome::problem(problem.hint(look(&entry.of, concerned.first().map(|(it, _)| it.object))))
}

/// The outcome for an entry that no object matches.
fn none(entry: &Require) -> Outcome {
    let of = objects_of(&entry.of);
    let observed = if entry.of.name.is_some() { format!("{of} does not exist") } else { format!("there are no {of}") };
    if entry.allow_none {
        return Outcome::Pass(Some(format!("{observed}, which the policy allows")));
    }
    Outcome::problem(Problem::fail(Reason::ObjectMissing, expected(entry), observed).hint(look(&entry.of, None)))
}

fn qualified(object: &RequiredObject) -> String {
    match &object.namespace {
        Some(namespace) => format!("{namespace}/{}", object.name),
        None => object.name.clone(),
    }
}

/// Describes the only object, or how many objects meet the requirement and some that do not.
fn observed(seen: &[Seen<'_>], concerned: &[(&Seen<'_>, &Held)], wanted: usize) -> String {
    let named = concerned.iter().take(NAMED).map(|(it, held)| it.words(held)).collect::<Vec<_>>().join("; ");
    let more = match concerned.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!("; and {more} more"),
    };
    match (seen.len(), concerned.is_empty()) {
        (only, true) => format!("there are only {only}"),
        (1, _) => named,
        (all, _) => {
            let held = seen.iter().filter(|it| it.held == Held::Yes).count();
            format!("{held} of {all} are as required, {wanted} should be; {named}{more}")
        }
    }
}

fn look(of: &Objects, object: Option<&RequiredObject>) -> Hint {
    let resource = of.resource();
    let namespace = object.and_then(|it| it.namespace.as_deref()).or(of.namespace());
    let name = object.map(|it| it.name.as_str()).or(of.name.as_deref());
    match (namespace, name) {
        (Some(namespace), Some(name)) => Hint::run("{kubectl} -n {} describe {} {}", [namespace, &resource, name]),
        (Some(namespace), None) => Hint::run("{kubectl} -n {} get {}", [namespace, &resource]),
        (None, Some(name)) => Hint::run("{kubectl} describe {} {}", [&resource, name]),
        (None, None) => Hint::run("{kubectl} get {} --all-namespaces", [&resource]),
    }
}

/// Returns text from an object, sanitized and shortened.
fn shown(text: &str) -> String {
    brief(&without_secrets(text), SHOWN)
}

fn held(object: &RequiredObject, demand: &Demand, found: &Found, now: Option<Timestamp>) -> Held {
    let is_of_status = demand.predicate.path().is_some_and(JsonPath::is_of_status);
    if let Some(unseen) = unobserved(object).filter(|_| is_of_status) {
        return unseen;
    }
    match &demand.predicate {
        Predicate::Condition { kind, status } => condition(object, kind, status, now),
        Predicate::Equal { path, value, or_else } => {
            // A field is only considered omitted once the controller has written the status.
            let may_be_left_out = !is_young(object, now) && (object.has_status || !is_of_status);
            let or_else = or_else.as_ref().filter(|_| may_be_left_out).map(|it| Value::String(it.clone()));
            match (found, &or_else) {
                (Found::One(is), _) | (Found::Nothing, Some(is)) if equals(is, value) => Held::Yes,
                (Found::One(is), _) | (Found::Nothing, Some(is)) => {
                    Held::No(format!("{} is {}", path.shown(), shown(&as_text(is))))
                }
                (Found::Nothing, None) => absent(object, path.shown(), now),
                (Found::Composite { .. }, _) => Held::Unknown(format!("{} is not a single value", path.shown())),
                (Found::Several { number, .. }, _) => Held::Unknown(format!("{} has {number} values", path.shown())),
            }
        }
        Predicate::Present(path) => {
            let is_there = match found {
                Found::Nothing => false,
                Found::One(value) => value.as_str() != Some(""),
                Found::Composite { is_empty } => !is_empty,
                Found::Several { is_any_empty, .. } => !is_any_empty,
            };
            let missing = format!("{} is absent or empty", path.shown());
            match is_there {
                true => Held::Yes,
                false if is_young(object, now) => Held::NotYet(missing),
                false => Held::No(missing),
            }
        }
        Predicate::Younger { path, than } => age(object, (path.shown(), found), *than, now),
        Predicate::Current => current(object, now),
    }
}

fn is_young(object: &RequiredObject, now: Option<Timestamp>) -> bool {
    object.created.zip(now).is_some_and(|(created, now)| now.duration_since(created) < YOUNG)
}

/// Returns a result if the status belongs to an earlier generation.
fn unobserved(object: &RequiredObject) -> Option<Held> {
    let (generation, observed) = object.generation.as_ref().zip(object.observed_generation.as_ref())?;
    (generation != observed)
        .then(|| Held::NotYet(format!("its status is of generation {}, and it has {generation}", shown(observed))))
}

/// An absent field is undetermined, unless it may still be added.
fn absent(object: &RequiredObject, what: &str, now: Option<Timestamp>) -> Held {
    let words = format!("{what} is absent");
    if is_young(object, now) { Held::NotYet(words) } else { unobserved(object).unwrap_or(Held::Unknown(words)) }
}

fn as_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Compares texts as texts and numbers as numbers.
fn equals(is: &Value, wanted: &str) -> bool {
    match is {
        Value::Number(number) => {
            // Beyond this limit, different integers are the same float.
            let is_exact = |it: &f64| it.abs() < 9_007_199_254_740_992.0;
            let same = || number.as_f64().filter(is_exact).zip(wanted.parse::<f64>().ok());
            number.to_string() == wanted || same().is_some_and(|(is, wanted)| is.total_cmp(&wanted).is_eq())
        }
        other => as_text(other) == wanted,
    }
}

/// Checks whether the condition of this kind has this status. If several have the kind, the worst counts.
fn condition(object: &RequiredObject, kind: &str, status: &str, now: Option<Timestamp>) -> Held {
    let own = || object.conditions.iter().filter(|it| it.kind.eq_ignore_ascii_case(kind));
    let of_one = |it: &ObjectCondition| {
        if let Some(old) = outdated(object, it) {
            old
        } else if it.status.eq_ignore_ascii_case(status) {
            Held::Yes
        } else {
            Held::No(said(it))
        }
    };
    own().map(of_one).max().unwrap_or_else(|| absent(object, &format!("condition {kind}"), now))
}

/// Returns a result if the condition belongs to an earlier generation of the object, by its own `observedGeneration` or otherwise the
/// status's.
fn outdated(object: &RequiredObject, condition: &ObjectCondition) -> Option<Held> {
    let Some(observed) = &condition.observed_generation else { return unobserved(object) };
    let generation = object.generation.as_ref().filter(|generation| *generation != observed)?;
    Some(Held::NotYet(format!(
        "condition {} is of generation {}, and it has {generation}",
        shown(&condition.kind),
        shown(observed)
    )))
}

/// Formats `Ready is False (ProgressDeadlineExceeded): …`.
fn said(condition: &ObjectCondition) -> String {
    let ObjectCondition { kind, status, reason, message, .. } = condition;
    let [kind, status, reason, message] = [kind, status, reason, message].map(|it| shown(it));
    let reason = if reason.is_empty() { String::new() } else { format!(" ({reason})") };
    let message = if message.is_empty() { String::new() } else { format!(": {message}") };
    format!("{kind} is {status}{reason}{message}")
}

fn age(object: &RequiredObject, (path, found): (&str, &Found), than: SignedDuration, now: Option<Timestamp>) -> Held {
    let text = match found {
        Found::Nothing => return absent(object, path, now),
        Found::One(Value::String(text)) => text,
        Found::One(_) | Found::Composite { .. } => return Held::Unknown(format!("{path} is not a time")),
        Found::Several { number, .. } => return Held::Unknown(format!("{path} has {number} values")),
    };
    let Ok(time) = text.parse::<Timestamp>() else {
        return Held::Unknown(format!("{path} is not a time: {}", shown(text)));
    };
    let Some(now) = now else { return Held::Unknown("the API server has not reported its time".to_owned()) };
    let age = now.duration_since(time);
    if age < -AHEAD {
        return Held::Unknown(format!("{path} is {time}, after the API server's time {now}"));
    }
    if age < than {
        return Held::Yes;
    }
    Held::No(format!("{path} is {} ago", human(Duration::try_from(age).unwrap_or_default())))
}

/// Checks that the controller has observed the newest generation and finished with it.
fn current(object: &RequiredObject, now: Option<Timestamp>) -> Held {
    let of = |kind: &'static str| object.conditions.iter().filter(move |it| it.kind == kind);
    let is = |kind: &'static str, status: &str| of(kind).find(|it| it.status.eq_ignore_ascii_case(status)).map(said);
    if object.is_deleted {
        return Held::No("it is being deleted".to_owned());
    }
    if let Some(stalled) = is("Stalled", "True") {
        return Held::No(stalled);
    }
    // A Deployment that is up to date has Progressing=True.
    if let Some(late) = of("Progressing").find(|it| it.status == "False" && it.reason == "ProgressDeadlineExceeded") {
        return Held::No(said(late));
    }
    let outdated = || of("Ready").chain(of("Reconciling")).find_map(|it| outdated(object, it));
    if let Some(old) = unobserved(object).or_else(outdated) {
        return old;
    }
    if let Some(reconciling) = is("Reconciling", "True") {
        return Held::NotYet(reconciling);
    }
    match of("Ready").find(|it| !it.status.eq_ignore_ascii_case("True")) {
        Some(unready) if unready.status.eq_ignore_ascii_case("False") => return Held::No(said(unready)),
        Some(unready) => return Held::NotYet(said(unready)),
        None => {}
    }
    // Both generations are equal here, as checked above.
    let is_observed = object.generation.is_some() && object.observed_generation.is_some();
    match &object.replicas {
        // Counts of zero are omitted, and so are all counts until the controller first observes the object.
        Some(_) if !is_observed => absent(object, "status.observedGeneration", now),
        Some(Replicas { wanted: None, .. }) => absent(object, "the number of pods that there should be", now),
        Some(replicas) => missing(replicas).map_or(Held::Yes, Held::NotYet),
        None if is_observed || ["Ready", "Reconciling", "Stalled"].iter().any(|it| of(it).next().is_some()) => {
            Held::Yes
        }
        None => absent(object, "a status that shows whether it is current", now),
    }
}

/// Describes what a workload still lacks.
fn missing(replicas: &Replicas) -> Option<String> {
    let Replicas { wanted, to_update, updated, ready, available, old } = *replicas;
    let wanted = wanted.unwrap_or_default();
    [
        (updated < to_update, format!("{updated} of {to_update} pods are updated")),
        (old > 0, format!("{old} pods of an earlier revision still run")),
        (ready < wanted, format!("{ready} of {wanted} pods are ready")),
        (available < wanted, format!("{available} of {wanted} pods are available")),
    ]
    .into_iter()
    .find_map(|(is_missing, words)| is_missing.then_some(words))
}
