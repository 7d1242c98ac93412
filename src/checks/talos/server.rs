//! The second opinion: the result of the cluster's own health check (`--server`).

use crate::assess::Assessment;
use crate::checks::Check;
use crate::checks::gaps::{self, NO_TALOS, says_nothing, talos_way};
use crate::model::{CheckId, Fact, Hint, Kind, Outcome, Problem, Reason, Severity, Stage, Target, Verdict};
use crate::snapshot::{Gap, GapKind, ServerCheck, Talos};

pub(in crate::checks) const SERVER: Check = Check {
    id: CheckId::TalosServer,
    stage: Stage::Server,
    summary: "the cluster's own health check finds nothing wrong",
    explain: "Runs only with `--server`. Has a control plane run Talos's own health check, as `talosctl health` does, and \
shows the result of each condition as it arrives. If an endpoint does not respond, the next one is used. It covers the nodes \
that discovery lists, or those of `--control-plane-nodes` and `--worker-nodes`, and uses the Kubernetes endpoint of \
`--k8s-endpoint` if that is given.\n\n\
It is a second opinion. If it fails, that is a failure. If it finds nothing, that alone proves little: it does not check the \
kubelets of workers, nor etcd's alarms, leader or space. A check that was cut off, canceled or did not finish in time is not a \
success.\n\n\
It needs the role os:admin; with another role this check is skipped. It may take as long as a round (`--attempt-timeout`); on \
a large cluster it takes minutes.",
    severity: Severity::Fail,
    finds: &[Reason::ServerCheckFailed],
    facts: &[Fact::TalosNodes, Fact::ServerCheck],
    judge: server,
};

const EXPECTED: &str = "a result of the cluster's own health check";

/// The latest message about one of the conditions that the health check examines.
#[derive(Clone, Copy)]
enum Said<'a> {
    Begun,
    Good,
    Skipped,
    Wrong(&'a str),
}

fn server(cluster: &Assessment<'_>) -> Verdict {
    let Some(talos) = cluster.talos() else { return Verdict::skipped(NO_TALOS) };
    match &talos.server {
        Ok(check) => judged(talos, check),
        Err(gap) if gap.kind == GapKind::Forbidden => Verdict::whole(refused(talos, gap)),
        Err(gap) => Verdict::whole(match talos_way(cluster) {
            Err(outcome) => outcome,
            Ok(()) if gap.kind == GapKind::NoForwarding => Outcome::problem(gaps::talos(gap, EXPECTED).unseen()),
            Ok(()) => Outcome::problem(gaps::talos(gap, EXPECTED)),
        }),
    }
}

fn judged(talos: &Talos, check: &ServerCheck) -> Verdict {
    let endpoint = Target::new(Kind::Endpoint, check.endpoint.as_str());
    let mut verdict = Verdict::default();
    let errors = check.progress.iter().filter_map(|said| Some((said, said.error.as_ref()?)));
    let (refusals, errors): (Vec<_>, Vec<_>) = errors.partition(|(_, gap)| gap.kind == GapKind::Forbidden);
    for (said, gap) in &errors {
        let target = match said.hostname.as_str() {
            "" => endpoint.clone(),
            hostname => Target::new(Kind::Node, hostname),
        };
        verdict.problem(target, Problem::fail(Reason::ServerCheckFailed, EXPECTED, &*gap.text));
    }
    let refusal = refusals.first().map(|(_, gap)| *gap);
    if let Some(gap) = refusal.or(check.end.as_ref().err().filter(|gap| gap.kind == GapKind::Forbidden)) {
        // Findings from before the refusal are incomplete, so they are left out.
        verdict.push(endpoint, refused(talos, gap));
        return verdict;
    }
    let things = things(check);
    for (thing, said) in &things {
        if let Some(outcome) = outcome(thing, *said, check) {
            verdict.push(Target::new(Kind::ServerCheck, *thing), outcome);
        }
    }
    let is_wrong = verdict.problems().next().is_some();
    if let Some(outcome) = ended(check, &things, is_wrong) {
        verdict.push(endpoint, outcome);
    }
    verdict
}

/// Returns the latest message about each condition, in the order in which they were started.
fn things(check: &ServerCheck) -> Vec<(&str, Said<'_>)> {
    let mut things: Vec<(&str, Said<'_>)> = Vec::new();
    for progress in &check.progress {
        // Other messages (`discovered nodes: …`) are not results.
        let Some((thing, said)) = progress.message.strip_prefix("waiting for ").and_then(|rest| rest.split_once(": "))
        else {
            continue;
        };
        let said = match said.trim() {
            "..." => Said::Begun,
            "OK" => Said::Good,
            "SKIP" => Said::Skipped,
            wrong => Said::Wrong(wrong),
        };
        match things.iter_mut().find(|(known, _)| *known == thing) {
            Some((_, last)) => *last = said,
            None => things.push((thing, said)),
        }
    }
    things
}

fn outcome(thing: &str, said: Said<'_>, check: &ServerCheck) -> Option<Outcome> {
    match said {
        // An unfinished condition is reported only once, at the end.
        Said::Begun => None,
        Said::Good => Some(Outcome::Pass(Some(format!("{thing}: OK")))),
        Said::Skipped => Some(Outcome::Skip("the cluster's own health check skips it".to_owned())),
        Said::Wrong(why) => {
            // The server gave up because of this condition. If the stream ended for another reason, the condition might
            // still have become healthy.
            let last_word = match &check.end {
                Ok(()) => true,
                Err(gap) => matches!(gap.kind, GapKind::TimedOut | GapKind::ServerError),
            };
            let problem = if last_word { Problem::fail } else { Problem::error };
            Some(Outcome::problem(problem(Reason::ServerCheckFailed, "OK", why)))
        }
    }
}

/// Adds the outcome of the end of the stream to the preceding messages.
fn ended(check: &ServerCheck, things: &[(&str, Said<'_>)], is_wrong: bool) -> Option<Outcome> {
    let open = things.iter().find(|(_, said)| matches!(said, Said::Begun)).map(|(thing, _)| *thing);
    let waiting = open.map(|thing| format!("; it was waiting for {thing}")).unwrap_or_default();
    let unfinished = |why: &str| Problem::error(Reason::ServerCheckUnfinished, EXPECTED, format!("{why}{waiting}"));
    match &check.end {
        Ok(()) if is_wrong => None,
        Ok(()) if open.is_some() => Some(Outcome::problem(unfinished("the stream ended too early"))),
        Ok(()) => Some(match things.iter().filter(|(_, said)| matches!(said, Said::Good)).count() {
            0 => says_nothing(EXPECTED, "a stream without one"),
            good => Outcome::Pass(Some(format!("{} found nothing wrong ({good} OK)", check.endpoint))),
        }),
        Err(gap) if gap.kind == GapKind::TimedOut || (gap.kind == GapKind::ServerError && !things.is_empty()) => {
            if is_wrong {
                return None;
            }
            let problem = unfinished(&gap.text);
            Some(Outcome::problem(match gap.kind {
                GapKind::TimedOut => {
                    problem.hint(Hint::likely("it takes longer on a large cluster: raise `--attempt-timeout`"))
                }
                _ => problem,
            }))
        }
        Err(gap) => Some(Outcome::problem(gaps::talos(gap, EXPECTED))),
    }
}

/// Skips the check if the role of the credentials is known to be insufficient.
fn refused(talos: &Talos, gap: &Gap) -> Outcome {
    let certificate = talos.credentials.as_ref().ok().and_then(|credentials| credentials.certificate.as_ref());
    if certificate.is_some_and(|certificate| certificate.organizations.iter().any(|role| role == "os:admin")) {
        return Outcome::problem(gaps::talos(gap, EXPECTED));
    }
    Outcome::Skip("the role of the credentials does not allow it (os:admin does)".to_owned())
}
