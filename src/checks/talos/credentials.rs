//! The talosconfig's client certificate, or the key that signs in its place, judged without any request.

use crate::assess::Assessment;
use crate::checks::Check;
use crate::checks::gaps::{self, NO_TALOS, account_problem, ca_problem, certificate_problems};
use crate::model::{CheckId, Fact, Hint, Kind, Outcome, Problem, Reason, Severity, Stage, Target, Verdict};
use crate::snapshot::{Account, GapKind};

pub(in crate::checks) const CREDENTIALS: Check = Check {
    id: CheckId::TalosCredentials,
    stage: Stage::Connectivity,
    summary: "the talosconfig's client certificate is valid until the run ends",
    explain: "Reads the client certificate of the talosconfig's context: its dates, whether it is made for client \
authentication, and whether the private key matches it. Nothing is sent to the cluster.\n\n\
Talos issues client certificates for a year by default, and nothing renews them. This is the most common reason for a gate \
that worked for months and then cannot reach any node. Certificates from very old clusters lack the extended key usage \
`clientAuth`; servers from Talos 1.12 on refuse them. A certificate that is not valid yet usually means that the clock of this \
runner is wrong.\n\n\
The CA that verifies the servers has to be valid for as long: talosctl accepts no other. It warns when the certificate, or that \
CA, expires within 30 days or a tenth of its lifetime, whichever is shorter. To make a new talosconfig as an administrator: `talosctl config new --roles os:reader --crt-ttl 8760h \
ci.yaml`. Without an administrator's talosconfig, from the secrets of the cluster: `talosctl gen config --with-secrets \
secrets.yaml --output-types talosconfig`.\n\n\
A context of Omni (`auth.siderov1`) has no client certificate. The key of a service account signs every call: \
`SIDERO_SERVICE_ACCOUNT_KEY` or, if that is not set, `OMNI_SERVICE_ACCOUNT_KEY`. It has to be a private Ed25519 key without a passphrase that has not \
expired by its own signature, and the same threshold applies. Only Omni knows whether the key is still registered: if not, \
it answers `invalid signature`, which `talos.endpoints` reports. `omnictl serviceaccount renew NAME` makes a new one.",
    severity: Severity::Fail,
    finds: &[
        Reason::CertificateExpired,
        Reason::CertificateExpiresSoon,
        Reason::CertificateNotYetValid,
        Reason::ClientAuthMissing,
        Reason::KeyMismatch,
        Reason::ServiceKeyExpired,
        Reason::ServiceKeyExpiresSoon,
        Reason::ServiceKeyNotYetValid,
        Reason::ConfigUnreadable,
        Reason::ContextUnknown,
    ],
    facts: &[Fact::TalosNodes],
    judge: credentials,
};

fn credentials(cluster: &Assessment<'_>) -> Verdict {
    let Some(talos) = cluster.talos() else { return Verdict::skipped(NO_TALOS) };
    let credentials = match &talos.credentials {
        Ok(credentials) => credentials,
        Err(gap) => {
            let expected = "a usable talosconfig";
            let failed = |reason| Problem::fail(reason, expected, &*gap.text).permanent();
            let problem = match gap.kind {
                GapKind::Malformed => failed(Reason::ConfigUnreadable),
                GapKind::ContextUnknown => failed(Reason::ContextUnknown),
                _ => gaps::talos(gap, expected),
            };
            return one(Target::new(Kind::Credentials, "talosconfig"), problem);
        }
    };
    let target = Target::new(Kind::Credentials, credentials.source.as_str()).with_id(credentials.context.as_str());
    let of_ca = credentials.ca.as_ref().and_then(|ca| ca_problem(cluster, ca));
    if let Some(account) = &credentials.account {
        return of_account(cluster, account, of_ca);
    }
    let Some(certificate) = &credentials.certificate else {
        let observed = format!("context `{}` has no client certificate", credentials.context);
        return one(target, Problem::fail(Reason::ConfigUnreadable, "a client certificate", observed).permanent());
    };
    let problems = certificate_problems(cluster, certificate);
    // A machine that accepts this certificate can issue a new one.
    let by = cluster.control_planes().find(|node| node.talos.contact.is_ok()).map(|node| node.address.as_str());
    let mut verdict = Verdict::default();
    if problems.is_empty() && of_ca.is_none() {
        verdict.ok(target.clone());
    }
    if let Some(problem) = of_ca {
        let rotate = by.map(|it| Hint::run("{talosctl} -n {} rotate-ca --kubernetes=false --dry-run", [it]));
        verdict.problem(target.clone(), with(problem, rotate));
    }
    for problem in problems {
        let command = "{talosctl} -n {} config new --roles os:reader --crt-ttl 8760h {}";
        let renew = by.map(|address| Hint::remedy(command, [address, "ci.yaml"]));
        verdict.problem(target.clone(), with(problem, renew));
    }
    verdict
}

/// Judges the key that signs requests to Omni, and Omni's CA if the context has one.
fn of_account(cluster: &Assessment<'_>, account: &Account, of_ca: Option<Problem>) -> Verdict {
    let target = Target::new(Kind::Credentials, account.variable).with_id(account.name.as_str());
    let renew = || Hint::remedy("omnictl serviceaccount renew {}", [account.name.as_str()]);
    let of_key = account_problem(cluster, account).map(|problem| problem.hint(renew()));
    let mut verdict = Verdict::default();
    if of_key.is_none() && of_ca.is_none() {
        verdict.ok(target.clone());
    }
    for problem in of_key.into_iter().chain(of_ca) {
        verdict.problem(target.clone(), problem);
    }
    verdict
}

fn with(problem: Problem, hint: Option<Hint>) -> Problem {
    hint.into_iter().fold(problem, Problem::hint)
}

fn one(target: Target, problem: Problem) -> Verdict {
    let mut verdict = Verdict::default();
    verdict.push(target, Outcome::problem(problem));
    verdict
}
