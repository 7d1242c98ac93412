//! The serving certificate of each kubelet.

use crate::assess::Assessment;
use crate::checks::Check;
use crate::checks::gaps::{ends_soon, enough, talos_contact};
use crate::checks::scope::each_node;
use crate::model::{CheckId, Fact, Hint, Outcome, Problem, Reason, Severity, Stage};
use crate::snapshot::{Node, ServingCertificate};

pub(in crate::checks) const KUBELET_CERTIFICATE: Check = Check {
    id: CheckId::TalosNodesKubeletCertificate,
    stage: Stage::Readiness,
    summary: "no serving certificate of a reachable kubelet expires soon",
    explain: "Opens a TLS connection to port 10250 of each node and reads the certificate that the kubelet presents. Nothing \
is requested and no credentials are sent. The certificate is not verified against a CA, because a kubelet signs its own unless \
`rotate-server-certificates` is set.\n\n\
An expired certificate fails: logs, exec, port forwarding and metrics stop working for every client that verifies it. Less \
than 30 days left, or less than a tenth of its lifetime if that is shorter, is a warning.\n\n\
A node is skipped if this runner cannot reach port 10250, if the handshake takes much longer than the node's other answers, or \
if the certificate is for another host.\n\n\
With `rotate-server-certificates` look for unapproved certificate requests (k8s.nodes.csrs). Without it, restart the kubelet \
once the certificate has expired (`talosctl -n NODE service kubelet restart`): it then makes a new one.",
    severity: Severity::Fail,
    finds: &[Reason::CertificateExpiresSoon, Reason::ServerCertificateExpired],
    facts: &[Fact::TalosNodes, Fact::KubeletCertificate],
    judge: |cluster| each_node(cluster, |node, verdict| verdict.push(node.target(), shown(cluster, node))),
};

fn shown(cluster: &Assessment<'_>, node: &Node) -> Outcome {
    let certificate = match &node.talos.kubelet_certificate {
        Ok(certificate) => certificate,
        Err(gap) => {
            let skipped = || Outcome::Skip(format!("no certificate was seen from this runner: {}", gap.text));
            return talos_contact(cluster, node).err().unwrap_or_else(skipped);
        }
    };
    if !is_of(node, certificate) {
        return Outcome::Skip(format!("the certificate at {}:10250 is for another host", certificate.address));
    }
    let (begin, end) = (certificate.validity.not_before, certificate.validity.not_after);
    let csrs = || Hint::run("{kubectl} get csr", []);
    if end <= cluster.taken {
        let observed = format!("expired at {end}");
        let problem = Problem::fail(Reason::ServerCertificateExpired, "a certificate that is valid now", observed);
        return Outcome::problem(problem.hint(csrs()));
    }
    if ends_soon(cluster, begin, end) {
        let observed = format!("expires at {end}");
        return Outcome::problem(Problem::warn(Reason::CertificateExpiresSoon, enough(cluster), observed).hint(csrs()));
    }
    Outcome::Pass(None)
}

/// Returns true if the certificate belongs to this machine: `worker-1@1763750000` if the kubelet signed it itself, `system:node:worker-1`
/// if it was approved, or any other name of the machine. With overlapping networks, a different machine may answer.
fn is_of(node: &Node, certificate: &ServingCertificate) -> bool {
    certificate.names.iter().any(|name| {
        let name = name.strip_prefix("system:node:").unwrap_or(name);
        let name = name.split('@').next().unwrap_or_default();
        name.eq_ignore_ascii_case(&node.name) || node.addresses.iter().any(|address| address == name)
    })
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::*;
    use crate::model::Status;
    use crate::snapshot::{GapKind, Snapshot};
    use crate::testing::fixture::{GAPS, ago, gap, healthy, now, verdict};

    fn with(change: impl Fn(&mut ServingCertificate)) -> Snapshot {
        let mut snapshot = healthy();
        change(snapshot.talos_of("w-1").kubelet_certificate.as_mut().unwrap());
        snapshot
    }

    fn status(snapshot: &Snapshot) -> Status {
        verdict(KUBELET_CERTIFICATE.id.name(), snapshot).status()
    }

    #[test]
    fn its_end_decides() {
        let expired = with(|it| it.validity.not_after = ago(0));
        assert_eq!(status(&expired), Status::Fail);
        assert_eq!(status(&with(|it| it.validity.not_after = now() + SignedDuration::from_hours(48))), Status::Warn);
        assert_eq!(status(&healthy()), Status::Pass);
    }

    #[test]
    fn only_its_own_counts() {
        for (name, expected) in [
            ("w-1", Status::Fail),
            ("w-1@1763750000", Status::Fail),
            ("system:node:w-1", Status::Fail),
            ("10.0.0.4", Status::Fail),
            ("router", Status::Pass),
            ("w-10", Status::Pass),
            ("", Status::Pass),
        ] {
            let snapshot = with(|it| {
                it.validity.not_after = ago(60);
                it.names = vec![name.to_owned()];
            });
            assert_eq!(status(&snapshot), expected, "{name}");
        }
    }

    #[test]
    fn one_that_is_not_seen_is_skipped() {
        for kind in GAPS {
            let mut snapshot = healthy();
            snapshot.nodes.iter_mut().for_each(|node| node.talos.kubelet_certificate = gap(kind));
            assert_eq!(status(&snapshot), Status::Skip, "{kind:?}");
        }
        let mut one = healthy();
        one.talos_of("w-1").kubelet_certificate = gap(GapKind::ConnectTimedOut);
        assert_eq!(status(&one), Status::Pass);
    }
}
