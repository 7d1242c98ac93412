//! Checks whether talosconfig and kubeconfig belong to the same cluster.

use crate::assess::{Assessment, Identity, Likeness, Undecided};
use crate::checks::Check;
use crate::checks::gaps::{answer, unseen};
use crate::model::{CheckId, Fact, Hint, Outcome, Problem, Reason, Severity, Stage, Verdict};
use crate::text::joined;

pub(in crate::checks) const IDENTITY: Check = Check {
    id: CheckId::K8sApiIdentity,
    stage: Stage::ApiServer,
    summary: "kubeconfig and talosconfig belong to the same cluster",
    explain: "At least one machine that answers the Talos API has to be among the Kubernetes nodes. It is matched by machine \
ID or, where none is known, by its name and an address that Talos itself reports. Names alone prove nothing: staging and \
production often use the same names. Names and addresses prove nothing either if the machine IDs differ: two sites may use the \
same address plan.\n\n\
Without this, a healthy staging cluster could vouch for a broken production one. Everything that the API server lists is \
therefore `blocked` until the clusters are known to be the same.\n\n\
If it fails, compare the contexts in use with --context and --kube-context. The warning `endpoint-behind-proxy` means that the \
clusters are the same, but the CA in the kubeconfig has not signed the API servers' own certificates. An access proxy such as \
Omni or Rancher, or a load balancer with its own certificate, is in between.",
    severity: Severity::Fail,
    finds: &[Reason::WrongCluster, Reason::EndpointBehindProxy],
    facts: &[Fact::TalosNodes, Fact::KubeNodes, Fact::EtcdMembership],
    judge: identity,
};

fn identity(cluster: &Assessment<'_>) -> Verdict {
    if !cluster.asks_kubernetes() {
        return Verdict::skipped("--no-kubernetes");
    }
    let expected = "a Talos node among the Kubernetes nodes, by machine ID or by name and address";
    Verdict::whole(match &cluster.identity {
        Identity::NotCompared => Outcome::Skip("--no-talos: nothing to compare with".to_owned()),
        Identity::NoList => {
            let list = answer(cluster, |kubernetes| &kubernetes.nodes, "the list of nodes");
            list.err().unwrap_or_else(|| unseen(Reason::NoAnswer, expected, "there is no list"))
        }
        Identity::NoMachine if cluster.nodes().iter().any(|node| node.is_talos) => {
            unseen(Reason::NoAnswer, "a Talos node that answers", "no Talos node answers")
        }
        Identity::NoMachine => unseen(Reason::NoAnswer, "a Talos node that answers", "no Talos node is known"),
        Identity::Same if cluster.behind_proxy => Outcome::problem(Problem::warn(
            Reason::EndpointBehindProxy,
            "API servers with certificates of the kubeconfig's CA",
            "the kubeconfig's CA has signed only the endpoint's certificate",
        )),
        Identity::Same => Outcome::Pass(None),
        Identity::Undecided(why) => {
            let problem = Problem::error(Reason::NoAnswer, expected, undecided(why));
            Outcome::problem(match why {
                Undecided::EmptyList => {
                    problem.hint(Hint::run("{kubectl} get nodes,certificatesigningrequests -o wide", []))
                }
                _ => problem,
            })
        }
        Identity::Different { talos, kubernetes, likeness } => {
            let likeness_in_words = match likeness {
                Likeness::Nothing => "",
                Likeness::Names => " (the same names at other addresses)",
                Likeness::NamesAndAddresses => " (the same names and addresses, but no machine ID in common)",
            };
            let observed = format!("Talos: {}; Kubernetes: {}{likeness_in_words}", joined(talos), joined(kubernetes));
            let problem = Problem::fail(Reason::WrongCluster, expected, observed)
                .hint(Hint::likely("one of the contexts is another cluster's: compare --context and --kube-context"));
            // Not final without discovery, because Talos then reports only some nodes, which may not have registered yet. Machines that
            // were reinstalled with the data of the previous ones may not have registered either.
            let is_final = cluster.discovery_is_on() && *likeness != Likeness::NamesAndAddresses;
            Outcome::problem(if is_final { problem.permanent() } else { problem })
        }
    })
}

fn undecided(why: &Undecided) -> String {
    match why {
        Undecided::EmptyList => "Kubernetes lists no node".to_owned(),
        Undecided::CommonAreSilent => "the nodes that both name do not answer the Talos API".to_owned(),
        Undecided::NoAddress(names) => {
            format!("the names are the same ({}), and Kubernetes lists no address", joined(names))
        }
        Undecided::NoMembers(names) => {
            format!("the names are the same ({}), the addresses differ, and etcd lists none", joined(names))
        }
    }
}
