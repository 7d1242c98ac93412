//! Checks whether all members run the same version of etcd.

use std::collections::BTreeMap;

use super::{overview, status_after_leader};
use crate::assess::Assessment;
use crate::assess::etcd::Overview;
use crate::checks::Check;
use crate::checks::gaps::says_nothing;
use crate::model::{CheckId, Fact, Hint, Problem, Reason, Severity, Stage, Target, Verdict};

pub(in crate::checks) const VERSIONS: Check = Check {
    id: CheckId::EtcdVersions,
    stage: Stage::Etcd,
    summary: "all etcd members run one version",
    explain: "Compares the version of etcd that each member runs and, where it is reported (etcd 3.6 and later), the version \
of its storage.\n\n\
During an upgrade of the control planes the versions differ for a while. etcd keeps working, with the features of the oldest \
member. If they stay different, the upgrade left a member out, or its image is pinned in the machine configuration \
(`cluster.etcd.image`).",
    severity: Severity::Warn,
    finds: &[
        Reason::ConnectionRefused,
        Reason::TimedOut,
        Reason::UnknownCa,
        Reason::NameNotInCertificate,
        Reason::ServerCertificateExpired,
        Reason::VersionsMixed,
    ],
    facts: &[Fact::TalosNodes, Fact::Services, Fact::EtcdMembership],
    judge: versions,
};

fn versions(cluster: &Assessment<'_>) -> Verdict {
    let Overview { views, .. } = match overview(cluster) {
        Ok(overview) => overview,
        Err(verdict) => return verdict,
    };
    let mut verdict = Verdict::default();
    let (mut running, mut stored) = (BTreeMap::<&str, Vec<String>>::new(), BTreeMap::<&str, Vec<String>>::new());
    for view in views {
        match status_after_leader(cluster, view) {
            Err(outcome) => verdict.push(view.target.clone(), outcome),
            Ok(status) if status.version.is_empty() => {
                verdict.push(view.target.clone(), says_nothing("a version of etcd", "a status without a version"));
            }
            Ok(status) => {
                verdict.ok(view.target.clone());
                running.entry(&status.version).or_default().push(view.target.name.clone());
                if !status.storage_version.is_empty() {
                    stored.entry(&status.storage_version).or_default().push(view.target.name.clone());
                }
            }
        }
    }
    for (what, of) in [("etcd", &running), ("storage", &stored)] {
        if of.len() > 1 {
            let problem = Problem::warn(Reason::VersionsMixed, format!("one version of {what}"), listed(what, of))
                .hint(Hint::likely("an upgrade of the control planes is in progress, or skipped one"));
            verdict.problem(Target::cluster(), problem);
        }
    }
    verdict
}

/// Formats `etcd 3.5.9 on cp-3; 3.6.0 on cp-1, cp-2`.
fn listed(what: &str, of: &BTreeMap<&str, Vec<String>>) -> String {
    let each = of.iter().map(|(version, names)| {
        let mut names: Vec<_> = names.iter().map(String::as_str).collect();
        names.sort_unstable();
        format!("{version} on {}", names.join(", "))
    });
    format!("{what} {}", each.collect::<Vec<_>>().join("; "))
}
