//! The meaning of a policy: its fields, checked against the catalog, the options and the clock.

use std::collections::HashSet;
use std::fmt::Display;
use std::time::Duration;

use jiff::civil::Date;
use jiff::{SignedDuration, Timestamp};
use serde_saphyr::Spanned;

use super::{Usage, require};
use crate::checks::{self, Check};
use crate::cli::{self, NodeOptions};
use crate::config::ConfigError;
use crate::config::policy::{API_VERSION, Accept, Document, Expect, Fields, Machine};
use crate::model::{CheckId, Excuse, Reason, Stage};
use crate::report::{Origin, PolicyFile, Weakening};
use crate::snapshot::{Acceptance, Declared, Policy, Thresholds};
use crate::text::duration::GoDuration;
use crate::text::nearest;

/// Maximum duration of an excuse.
const LONGEST: SignedDuration = SignedDuration::from_hours(90 * 24);
/// Maximum length of a text, in characters.
const LONGEST_TEXT: usize = 256;

/// A policy after all decisions.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Decided {
    pub(crate) policy: Policy,
    pub(crate) thresholds: Thresholds,
    pub(crate) extensions: Vec<String>,
    pub(crate) weakened: Vec<Weakening>,
    pub(crate) file: Option<PolicyFile>,
    /// Requirements whose weight the options change.
    pub(super) named: require::Named,
}

impl Decided {
    /// Returns the entries that have ended, each with its line.
    pub(crate) fn ended(&self, now: Timestamp) -> Vec<(String, u64)> {
        let machines = self.policy.machines.iter().map(|it| (format!("machine {}", it.name), &it.excuse));
        let all = machines.chain(self.policy.accept.iter().map(|it| (it.name(), &it.excuse)));
        all.filter(|(_, excuse)| excuse.until <= now).map(|(name, excuse)| (name, excuse.line)).collect()
    }

    /// Returns the checks that only a policy requests.
    pub(crate) fn checks(&self) -> Vec<CheckId> {
        [
            (!self.extensions.is_empty(), CheckId::TalosNodesExtensions),
            (!self.policy.machines.is_empty(), CheckId::PolicyMachines),
            (!self.policy.accept.is_empty(), CheckId::PolicyAccept),
            (!self.policy.require.is_empty(), CheckId::PolicyRequire),
        ]
        .into_iter()
        .filter_map(|(is_asked, check)| is_asked.then_some(check))
        .collect()
    }
}

impl From<ConfigError> for Usage {
    fn from(error: ConfigError) -> Self {
        Self { message: error.message, hint: error.hint }
    }
}

pub(crate) fn decide(document: &Document, now: Timestamp) -> Result<Decided, Usage> {
    let Fields { api_version, expect, machines, accept, require, .. } = &document.fields;
    if api_version.value != API_VERSION {
        return Err(document.error(api_version, &format!("expected `{API_VERSION}`")).into());
    }
    let read = Reader { document, now };
    let (thresholds, looser) = read.thresholds()?;
    let machines = machines.iter().map(|entry| read.machine(entry)).collect::<Result<Vec<_>, _>>()?;
    read.each_once(&document.fields.machines)?;
    let accept = accept.iter().map(|entry| read.acceptance(entry)).collect::<Result<Vec<_>, _>>()?;
    let extensions = expect.extensions.iter().map(|name| read.text(name, "extension")).collect::<Result<_, _>>()?;
    let of_machine = |it: &Declared| (format!("machine {} off until {}", it.name, it.excuse.until), it.excuse.line);
    let of_problem = |it: &Acceptance| (format!("accept {} until {}", it.name(), it.excuse.until), it.excuse.line);
    // An entry that has ended does not weaken the verdict.
    let machines_off = machines.iter().filter(|it| it.excuse.until > now).map(of_machine);
    let accepted = accept.iter().filter(|it| it.excuse.until > now).map(of_problem);
    let loosened = looser.into_iter().chain(machines_off).chain(accepted);
    let weakened = loosened.map(|(option, line)| Weakening { option, origin: Origin::Policy(line) }).collect();
    Ok(Decided {
        policy: Policy { machines, accept, require: require::entries(document, require)? },
        thresholds,
        extensions,
        weakened,
        file: Some(PolicyFile { path: document.path.clone(), sha256: document.sha256.clone() }),
        named: require::Named::default(),
    })
}

/// Returns the options of nodes, completed by the expectations of the policy. An expectation that both state has to
/// have the same value.
pub(crate) fn stated(nodes: &NodeOptions, document: &Document) -> Result<NodeOptions, Usage> {
    let Expect { control_planes, workers, talos, kubernetes, .. } = &document.fields.expect;
    let mut stated = nodes.clone();
    let number = |value: &Spanned<usize>| Ok(value.value);
    agree(document, &mut stated.expect_control_planes, "expect-control-planes", control_planes.as_ref(), number)?;
    agree(document, &mut stated.expect_workers, "expect-workers", workers.as_ref(), number)?;
    agree(document, &mut stated.expect_talos, "expect-talos", talos.as_ref(), |value| cli::version(&value.value))?;
    agree(document, &mut stated.expect_kubernetes, "expect-kubernetes", kubernetes.as_ref(), |value| {
        cli::version_or_minor(&value.value)
    })?;
    Ok(stated)
}

fn agree<T, V: PartialEq + Display>(
    document: &Document,
    option: &mut Option<V>,
    name: &str,
    value: Option<&Spanned<T>>,
    read: impl Fn(&Spanned<T>) -> Result<V, String>,
) -> Result<(), Usage> {
    let Some(value) = value else { return Ok(()) };
    let wanted = read(value).map_err(|problem| document.error(value, &problem))?;
    match option {
        Some(given) if *given != wanted => {
            let problem = format!("the policy says {wanted}, and `--{name}` says {given}");
            Err(document.error(value, &problem).into())
        }
        _ => {
            *option = Some(wanted);
            Ok(())
        }
    }
}

struct Reader<'a> {
    document: &'a Document,
    now: Timestamp,
}

impl Reader<'_> {
    fn error<T>(&self, value: &Spanned<T>, problem: impl AsRef<str>) -> Usage {
        self.document.error(value, problem.as_ref()).into()
    }

    fn text(&self, value: &Spanned<String>, what: &str) -> Result<String, Usage> {
        let text = value.value.trim();
        if text.is_empty() {
            Err(self.error(value, format!("the {what} is empty")))
        } else if text.chars().count() > LONGEST_TEXT {
            Err(self.error(value, format!("the {what} has more than {LONGEST_TEXT} characters")))
        } else {
            Ok(text.to_owned())
        }
    }

    fn excuse(&self, because: &Spanned<String>, until: &Spanned<String>) -> Result<Excuse, Usage> {
        let time: Timestamp = match (until.value.parse(), until.value.parse::<Date>()) {
            (Ok(time), _) => time,
            // A date includes the whole day.
            (_, Ok(date)) if until.value.len() == "2026-12-01".len() => date
                .tomorrow()
                .and_then(|next| next.to_zoned(jiff::tz::TimeZone::UTC))
                .map_err(|_| self.error(until, "expected a date of this era"))?
                .timestamp(),
            _ => {
                let problem = "expected a time such as `2026-12-01T18:00:00Z`, or a date such as `2026-12-01`";
                return Err(self.error(until, problem));
            }
        };
        if time.duration_since(self.now) > LONGEST {
            let last = (self.now + LONGEST).to_zoned(jiff::tz::TimeZone::UTC).date();
            // A date means the end of its day.
            let last = last.yesterday().unwrap_or(last);
            let problem = format!("an excuse lasts at most 90 days: by this machine's clock until {last}");
            return Err(self.error(until, problem));
        }
        Ok(Excuse { because: self.text(because, "reason")?, until: time, line: because.referenced.line() })
    }

    fn each_once(&self, machines: &[Machine]) -> Result<(), Usage> {
        let mut known = HashSet::new();
        match machines.iter().find(|machine| !known.insert(machine.name.value.trim())) {
            Some(again) => Err(self.error(&again.name, "the same machine is listed twice")),
            None => Ok(()),
        }
    }

    fn machine(&self, entry: &Machine) -> Result<Declared, Usage> {
        if entry.state.value != "off" {
            return Err(self.error(&entry.state, "expected `off`"));
        }
        let name = self.text(&entry.name, "name")?;
        if name.contains('*') {
            return Err(self.error(&entry.name, "name each machine separately, without `*`"));
        }
        Ok(Declared { name, excuse: self.excuse(&entry.because, &entry.until)? })
    }

    fn acceptance(&self, entry: &Accept) -> Result<Acceptance, Usage> {
        let check = self.check(&entry.check)?;
        let reason = self.reason(check, &entry.reason)?;
        let target = self.text(&entry.target, "target")?;
        let max = match &entry.max {
            None if target.contains('*') => {
                return Err(self.error(&entry.target, "a target with `*` needs `max`: how many it may match"));
            }
            None => 1,
            Some(max) if max.value == 0 => return Err(self.error(max, "expected 1 or more")),
            Some(max) => max.value,
        };
        let excuse = self.excuse(&entry.because, &entry.until)?;
        Ok(Acceptance { check: check.id, reason, target, max, excuse })
    }

    fn check(&self, id: &Spanned<String>) -> Result<&'static Check, Usage> {
        let Some(check) = checks::ALL.iter().find(|check| check.id.name() == id.value) else {
            let usage = self.error(id, "there is no check with this ID");
            let near = nearest(&id.value, checks::ALL.iter().map(|check| check.id.name()));
            return Err(match near {
                Some(near) => usage.hint(format!("the nearest is `{near}`; `cluster-health list` shows all")),
                None => usage.hint("`cluster-health list` shows all"),
            });
        };
        let is_of_credentials = matches!(check.id, CheckId::TalosCredentials | CheckId::K8sCredentials);
        let why = match check.stage {
            Stage::Upgrade => "problems that block an upgrade cannot be accepted",
            Stage::Policy if check.id == CheckId::PolicyRequire => {
                "problems that `require` reports cannot be accepted; set `severity: warn` in the entry of `require`"
            }
            Stage::Policy => "problems with the policy cannot be accepted",
            Stage::Server => "problems found by `--server` cannot be accepted; leave the option out",
            _ if is_of_credentials => "problems with credentials cannot be accepted",
            _ => return Ok(check),
        };
        Err(self.error(id, why))
    }

    fn reason(&self, check: &Check, code: &Spanned<String>) -> Result<Reason, Usage> {
        let codes = || check.finds.iter().filter(|reason| reason.can_be_accepted()).map(|reason| reason.code());
        let found = Reason::find(&code.value).filter(|reason| check.finds.contains(reason));
        let Some(reason) = found else {
            let usage = self.error(code, format!("{} finds no problem with this reason", check.id));
            return Err(match nearest(&code.value, codes()) {
                Some(near) => usage.hint(format!("the nearest is `{near}`")),
                None => usage.hint(format!("`cluster-health explain {}` shows all", check.id)),
            });
        };
        if !reason.can_be_accepted() {
            let problem = format!("{} can never be accepted: {}", reason.code(), reason.title());
            return Err(self.error(code, problem));
        }
        Ok(reason)
    }

    /// Returns the thresholds, and those that are looser than the defaults, each with its line.
    fn thresholds(&self) -> Result<(Thresholds, Vec<(String, u64)>), Usage> {
        let given = &self.document.fields.thresholds;
        let usual = Thresholds::default();
        let mut thresholds = usual;
        let mut looser = Vec::new();
        let mut note = |is_looser: bool, name: &str, value: &Spanned<String>| {
            if is_looser {
                looser.push((format!("thresholds.{name} {}", value.value), value.referenced.line()));
            }
        };
        if let Some(value) = &given.certificates {
            thresholds.certificates = self.duration(value, SignedDuration::from_hours(365 * 24))?;
            note(thresholds.certificates < usual.certificates, "certificates", value);
        }
        if let Some(value) = &given.etcd_space {
            thresholds.etcd_space = self.percent(value, 1..=94)?;
            note(thresholds.etcd_space > usual.etcd_space, "etcdSpace", value);
        }
        if let Some(value) = &given.disk_free {
            thresholds.disk_free = self.percent(value, 1..=50)?;
            note(thresholds.disk_free < usual.disk_free, "diskFree", value);
        }
        if let Some(value) = &given.clock_skew {
            thresholds.clock_skew = self.duration(value, SignedDuration::from_secs(30))?;
            note(thresholds.clock_skew > usual.clock_skew, "clockSkew", value);
        }
        Ok((thresholds, looser))
    }

    fn percent(&self, value: &Spanned<String>, of: std::ops::RangeInclusive<u8>) -> Result<u8, Usage> {
        let number = value.value.strip_suffix('%').and_then(|number| number.parse().ok());
        number
            .filter(|number| of.contains(number))
            .ok_or_else(|| self.error(value, format!("expected a percentage from {}% to {}%", of.start(), of.end())))
    }

    fn duration(&self, value: &Spanned<String>, most: SignedDuration) -> Result<SignedDuration, Usage> {
        let expected = || self.error(value, "expected a duration such as `14d`, `12h` or `500ms`");
        let duration = duration(&value.value).ok_or_else(expected)?;
        if duration.is_zero() || duration > most {
            let most = shown(most);
            return Err(self.error(value, format!("expected more than 0s, and at most {most}")));
        }
        Ok(duration)
    }
}

/// Parses a duration as Go writes it, with optional days before it: `1d12h`.
pub(super) fn duration(text: &str) -> Option<SignedDuration> {
    let (days, rest) = text.split_once('d').unwrap_or(("0", text));
    let days: u32 = days.parse().ok()?;
    let rest = if rest.is_empty() { Duration::ZERO } else { rest.parse::<GoDuration>().ok()?.0 };
    SignedDuration::from_hours(24 * i64::from(days)).checked_add(SignedDuration::try_from(rest).ok()?)
}

fn shown(duration: SignedDuration) -> String {
    match duration.as_hours() / 24 {
        0 => format!("{}s", duration.as_secs()),
        days => format!("{days}d"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Decides a policy, with `now` as the time of the runner.
    fn decided(text: &str, now: &str) -> Result<Decided, String> {
        let text = format!("apiVersion: cluster-health/v1\n{text}");
        let document = Document::of_text(&text).map_err(|error| error.message)?;
        stated(&NodeOptions::default(), &document).map_err(|usage| usage.message)?;
        decide(&document, now.parse().unwrap())
            .map_err(|usage| [Some(usage.message), usage.hint].into_iter().flatten().collect::<Vec<_>>().join("; "))
    }

    const NOW: &str = "2026-11-29T12:00:00Z";

    fn refused(text: &str) -> String {
        let message = decided(text, NOW).unwrap_err();
        message.strip_prefix("policy `policy.yaml`: ").unwrap().to_owned()
    }

    fn machine(fields: &str) -> String {
        format!("machines: [{{name: w-7, state: off, because: x, {fields}}}]")
    }

    fn accept(fields: &str) -> String {
        format!("accept: [{{because: x, until: 2026-12-01, {fields}}}]")
    }

    #[test]
    fn a_day_counts_to_its_end() {
        let until =
            |text: &str| decided(&machine(&format!("until: {text}")), NOW).unwrap().policy.machines[0].excuse.until;
        assert_eq!(until("2026-12-01"), "2026-12-02T00:00:00Z".parse().unwrap());
        assert_eq!(until("2026-12-01T18:00:00Z"), "2026-12-01T18:00:00Z".parse().unwrap());
        assert_eq!(until("2026-12-01T18:00:00+02:00"), "2026-12-01T16:00:00Z".parse().unwrap());
        // An end in the past is accepted here; the report shows that the entry has ended.
        assert_eq!(until("2020-01-01"), "2020-01-02T00:00:00Z".parse().unwrap());
    }

    #[test]
    fn an_excuse_without_an_end_in_sight_is_refused() {
        for (until, expected) in [
            ("2027-02-28", "an excuse lasts at most 90 days: by this machine's clock until 2027-02-26"),
            ("9999-12-31", "expected a date of this era"),
            ("tomorrow", "expected a time such as `2026-12-01T18:00:00Z`, or a date such as `2026-12-01`"),
            ("2026-12-01 18:00", "expected a time such as `2026-12-01T18:00:00Z`, or a date such as `2026-12-01`"),
            ("2026-13-01", "expected a time such as `2026-12-01T18:00:00Z`, or a date such as `2026-12-01`"),
            ("''", "expected a time such as `2026-12-01T18:00:00Z`, or a date such as `2026-12-01`"),
        ] {
            let said = refused(&machine(&format!("until: {until}")));
            assert_eq!(said.split_once(": ").unwrap().1, expected, "{until}");
        }
        assert!(decided(&machine("until: 2027-02-26"), NOW).is_ok());
    }

    #[test]
    fn what_is_not_to_be_accepted_is_refused_by_name() {
        for (fields, expected) in [
            (
                "check: etcd.quorum, reason: quorum-lost, target: cluster",
                "quorum-lost can never be accepted: etcd has lost its quorum",
            ),
            (
                "check: etcd.alarms, reason: alarm-corrupt, target: '*', max: 3",
                "alarm-corrupt can never be accepted: etcd has found corrupt data",
            ),
            (
                "check: talos.credentials, reason: certificate-expires-soon, target: x",
                "problems with credentials cannot be accepted",
            ),
            (
                "check: upgrade.drain, reason: local-data, target: w-1",
                "problems that block an upgrade cannot be accepted",
            ),
            ("check: policy.machines, reason: machine-off, target: w-1", "problems with the policy cannot be accepted"),
            (
                "check: k8s.nodes.schedulabel, reason: cordoned, target: w-1",
                "there is no check with this ID; the nearest is `k8s.nodes.schedulable`; `cluster-health list` shows all",
            ),
            ("check: k8s.nodes, reason: cordoned, target: w-1", "there is no check with this ID; "),
            (
                "check: k8s.nodes.schedulable, reason: cordond, target: w-1",
                "k8s.nodes.schedulable finds no problem with this reason; the nearest is `cordoned`",
            ),
            (
                "check: k8s.nodes.schedulable, reason: disk-full, target: w-1",
                "k8s.nodes.schedulable finds no problem with this reason; ",
            ),
            (
                "check: k8s.nodes.schedulable, reason: cordoned, target: 'w-*'",
                "a target with `*` needs `max`: how many it may match",
            ),
            ("check: k8s.nodes.schedulable, reason: cordoned, target: w-1, max: 0", "expected 1 or more"),
            ("check: k8s.nodes.schedulable, reason: cordoned, target: ' '", "the target is empty"),
        ] {
            let said = refused(&accept(fields));
            assert!(said.split_once(": ").unwrap().1.starts_with(expected), "{said}");
            assert!(said.starts_with("line 2, column "), "{said}");
        }
    }

    /// Every reason that can be accepted is found by some check, because an entry has to name the check.
    #[test]
    fn every_reason_that_can_be_accepted_can_be_named() {
        for reason in Reason::ALL.iter().filter(|reason| reason.can_be_accepted()) {
            let finder = checks::ALL.iter().find(|check| {
                let is_free = !matches!(check.stage, Stage::Upgrade | Stage::Policy | Stage::Server);
                is_free
                    && check.finds.contains(reason)
                    && !matches!(check.id.name(), "talos.credentials" | "k8s.credentials")
            });
            assert!(finder.is_some(), "{}", reason.code());
            let fields = format!("check: {}, reason: {}, target: x", finder.unwrap().id, reason.code());
            assert!(decided(&accept(&fields), NOW).is_ok(), "{fields}");
        }
    }

    #[test]
    fn only_looser_thresholds_weaken() {
        let weakened = |text: &str| {
            let decided = decided(&format!("thresholds: {{{text}}}"), NOW).unwrap();
            decided.weakened.into_iter().map(|weak| format!("{} ({})", weak.option, weak.origin)).collect::<Vec<_>>()
        };
        assert_eq!(
            weakened("certificates: 60d, etcdSpace: 70%, diskFree: 15%, clockSkew: 500ms"),
            Vec::<String>::new()
        );
        assert_eq!(weakened("certificates: 30d, etcdSpace: 80%, diskFree: 10%, clockSkew: 1s"), Vec::<String>::new());
        assert_eq!(
            weakened("certificates: 14d, etcdSpace: 90%, diskFree: 5%, clockSkew: 2s"),
            [
                "thresholds.certificates 14d (policy, line 2)",
                "thresholds.etcdSpace 90% (policy, line 2)",
                "thresholds.diskFree 5% (policy, line 2)",
                "thresholds.clockSkew 2s (policy, line 2)",
            ]
        );
        let decided = decided("thresholds: {certificates: 1d12h}", NOW).unwrap();
        assert_eq!(decided.thresholds.certificates, SignedDuration::from_hours(36));
        for text in
            ["etcdSpace: 95%", "etcdSpace: 80", "etcdSpace: '80'", "diskFree: 51%", "diskFree: 0%", "clockSkew: 31s"]
        {
            refused(&format!("thresholds: {{{text}}}"));
        }
        for text in ["certificates: 0d", "certificates: 14", "certificates: -1d", "certificates: 99999999999d"] {
            refused(&format!("thresholds: {{{text}}}"));
        }
    }

    #[test]
    fn an_option_and_the_policy_agree() {
        let with = |nodes: &NodeOptions, text: &str| {
            let text = format!("apiVersion: cluster-health/v1\nexpect: {{{text}}}\n");
            stated(nodes, &Document::of_text(&text).unwrap()).map_err(|usage| usage.message)
        };
        let typed = NodeOptions { expect_workers: Some(3), ..NodeOptions::default() };
        assert_eq!(with(&typed, "workers: 3, talos: v1.14.1").unwrap().expect_talos.as_deref(), Some("1.14.1"));
        assert_eq!(
            with(&typed, "workers: 5").unwrap_err(),
            "policy `policy.yaml`: line 2, column 19: the policy says 5, and `--expect-workers` says 3"
        );
        assert_eq!(
            with(&NodeOptions::default(), "kubernetes: '1.36'").unwrap().expect_kubernetes.as_deref(),
            Some("1.36")
        );
        assert!(with(&NodeOptions::default(), "talos: '1.14'").is_err());
    }

    #[test]
    fn another_version_is_refused() {
        let document = Document::of_text("apiVersion: cluster-health/v2\n").unwrap();
        let usage = decide(&document, Timestamp::UNIX_EPOCH).unwrap_err();
        assert_eq!(usage.message, "policy `policy.yaml`: line 1, column 13: expected `cluster-health/v1`");
    }
}
