//! What each reason code means and what to do about it, for `explain`.
//!
//! For somebody who has never seen the cluster: what was seen, what usually lies behind it, what to look at first. Commands
//! that only read come first; `NODE` and `CP` stand for the address of the node concerned and of a healthy control plane.

mod machine;

use super::Reason;

/// One step of a remedy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// In words.
    Do(&'static str),
    /// A command that only reads.
    Look(&'static str),
    /// A command that changes the cluster or a configuration; shown marked as such.
    Change(&'static str),
}

/// What is said of a reason.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReasonText {
    /// Two to four sentences.
    pub(crate) explanation: &'static str,
    pub(crate) remedy: &'static [Step],
}

impl Reason {
    /// Exhaustive: a code without a text does not compile.
    pub(crate) fn text(self) -> ReasonText {
        let (explanation, remedy) = credentials(self);
        ReasonText { explanation, remedy }
    }
}

use Step::{Change, Do, Look};

type Entry = (&'static str, &'static [Step]);

const NEW_TALOSCONFIG: Step = Change("talosctl config new --roles os:reader --crt-ttl 8760h new-talosconfig");
const NODE_VERSION: Step = Look("talosctl -n NODE version");
const NODE_SERVICES: Step = Look("talosctl -n NODE services");
const NODE_DMESG: Step = Look("talosctl -n NODE dmesg");
const KUBELET_SERVICE: Step = Look("talosctl -n NODE service kubelet");
const KUBELET_LOGS: Step = Look("talosctl -n NODE logs kubelet");
const ETCD_SERVICE: Step = Look("talosctl -n NODE service etcd");
const ETCD_LOGS: Step = Look("talosctl -n NODE logs etcd");
const ETCD_MEMBERS: Step = Look("talosctl -n CP etcd members");
const ETCD_STATUS: Step = Look("talosctl -n CP1,CP2,CP3 etcd status");
const ETCD_SNAPSHOT: Step = Look("talosctl -n CP etcd snapshot db.snapshot");
const REMOVE_MEMBER: Step = Change("talosctl -n CP etcd remove-member MEMBER-ID");
const WIPE: Step = Change("talosctl -n NODE reset --system-labels-to-wipe=EPHEMERAL --graceful=false --reboot");
const CONTAINERS: Step = Look("talosctl -n NODE containers -k");
const API_LOGS: Step = Look("talosctl -n NODE logs -k kube-system/kube-apiserver-NODENAME:kube-apiserver");
const DESCRIBE_NODE: Step = Look("kubectl describe node NODENAME");

/// Credentials, endpoints and the way to them; passes the others on.
#[allow(clippy::too_many_lines, reason = "a table")]
fn credentials(reason: Reason) -> Entry {
    match reason {
        Reason::CertificateExpired => (
            "The validity of a certificate has ended, by the clock of this machine. Client certificates of Talos and Kubernetes are usually valid for a year, and nothing renews the copy in a file. Until it is replaced, nothing can be said of the cluster itself.",
            &[
                Do("Check the date of this machine first: a wrong clock looks the same."),
                Look("talosctl config info"),
                Do("With an administrator's talosconfig that still works, make a new one:"),
                NEW_TALOSCONFIG,
                Do(
                    "Without one, generate it from the secrets bundle (`talosctl gen config --with-secrets secrets.yaml --output-types talosconfig`). A kubeconfig is renewed with:",
                ),
                Change("talosctl -n CP kubeconfig --force"),
            ],
        ),
        Reason::CertificateExpiresSoon => (
            "A certificate is still valid, but not for much longer: less than 30 days, or less than a tenth of its lifetime if that is shorter. When that of a talosconfig or kubeconfig ends, everything that uses the file stops working at once; when that of an API server ends, every client of it does. Talos renews the API servers' certificates at half of their life, so one that is about to end was not renewed, or is a load balancer's own.",
            &[
                Look("talosctl config info"),
                Do("Of a file: renew it now, while the old one still opens the door:"),
                NEW_TALOSCONFIG,
                Change("talosctl -n CP kubeconfig --force"),
                Do(
                    "Of an API server: see whether Talos fails to renew it. The server reads the new one when it is there.",
                ),
                Look("talosctl -n NODE logs controller-runtime"),
            ],
        ),
        Reason::CertificateNotYetValid => (
            "A certificate begins to be valid only in the future. Nearly always a clock is wrong: that of this machine, or that of the node that issued the certificate at a time when it had not synchronised.",
            &[
                Do("Compare the clock of this machine with a reference."),
                Look("talosctl -n NODE time"),
                Do(
                    "A few minutes' difference heals by itself when the clocks agree; otherwise issue the certificate anew after correcting them.",
                ),
            ],
        ),
        Reason::ClientAuthMissing => (
            "The client certificate lacks the extended key usage for client authentication. Older versions of Talos issued and accepted such certificates; newer ones refuse them with `bad certificate`, so a talosconfig that worked for years stops working after an upgrade.",
            &[Do("Make a new talosconfig, from one that still works or from the secrets bundle:"), NEW_TALOSCONFIG],
        ),
        Reason::KeyMismatch => (
            "The private key and the certificate in the same file do not belong together. That happens when a file was put together by hand, when a secret was updated only in part, or when two contexts were merged.",
            &[
                Do("Take both from the same source again; do not mix a renewed certificate with an old key."),
                Look("talosctl config info"),
            ],
        ),
        Reason::RoleTooLow => (
            "The server knows who is asking and does not allow the call. The role is written into the client certificate (its organisation), so no setting on the cluster changes that. os:reader is enough for everything that is asked here.",
            &[
                Look("talosctl config info"),
                Do("Use a talosconfig with the role os:reader or higher:"),
                NEW_TALOSCONFIG,
            ],
        ),
        Reason::RoleTooLowForThisVersion => (
            "This call needs os:operator on the version of Talos that the node runs; from 1.9.6 and 1.10.1 on os:reader is enough. So the check could not be done, which says nothing of the cluster's health.",
            &[
                NODE_VERSION,
                Do("Use a talosconfig with os:operator until Talos is upgraded, or leave the check out with `--skip`."),
                Change("talosctl config new --roles os:operator --crt-ttl 8760h new-talosconfig"),
            ],
        ),
        Reason::ConfigUnreadable => (
            "A talosconfig, kubeconfig or certificate file is missing, cannot be opened or does not have the form it should. Nothing was asked of the cluster. In CI the usual cause is a secret that was not mounted, is empty, or was encoded twice.",
            &[
                Do("Look at the path in the message: does the file exist, is it readable by this user, is it YAML?"),
                Look("talosctl config info"),
            ],
        ),
        Reason::ContextUnknown => (
            "The configuration has contexts, but none with the name that was asked for or that it calls the current one.",
            &[
                Look("talosctl config contexts"),
                Look("kubectl config get-contexts"),
                Do("Give the right name with `--context` or `--kube-context`."),
            ],
        ),
        Reason::NoKubeconfig => (
            "No Kubernetes credentials were found that can be used and belong to this cluster, so Kubernetes could not be looked at. The report lists the sources that were passed over, each with its reason. With a talosconfig of the role os:admin they can be fetched through the Talos API; with os:reader they cannot.",
            &[
                Do(
                    "Name a kubeconfig with `--kubeconfig`. `cluster-health rbac` prints the least rights that it needs.",
                ),
                Do("Or say that Kubernetes shall not be judged: `--no-kubernetes`."),
            ],
        ),
        Reason::KubeconfigInsecure => (
            "The kubeconfig says `insecure-skip-tls-verify`, or its server is `http://`. Whoever sits in between could then answer in the cluster's place, and would be handed the credentials; a gate must not trust that.",
            &[
                Do("Put the cluster's CA into the kubeconfig instead. This one has it:"),
                Change("talosctl -n CP kubeconfig new-kubeconfig"),
            ],
        ),
        Reason::ConnectionRefused => (
            "The machine answered, but nothing listens on the port, or a firewall rejects the connection. Typical while a node boots, when the service behind the port has crashed, or when the port is wrong (Talos: 50000, Kubernetes: 6443).",
            &[
                NODE_VERSION,
                Look("nc -vz NODE 50000"),
                Do("If the machine has just been started, wait; otherwise look at its console."),
            ],
        ),
        Reason::NoRoute => (
            "The network has no way to the address: the host or network is down, a VPN is not up, or the address does not exist any more.",
            &[
                Look("ip route get NODE"),
                Do("From a CI runner: is it in the right network? Do other addresses of the same cluster answer?"),
            ],
        ),
        Reason::TimedOut => (
            "Packets were sent and nothing came back in time. A firewall that drops silently, a machine that is switched off, and an overloaded machine look the same from here.",
            &[
                NODE_VERSION,
                Look("nc -vz -w 5 NODE 50000"),
                Do(
                    "If other nodes answer, it is this machine or its network. If answers are only slow, allow more with `--attempt-timeout`.",
                ),
            ],
        ),
        Reason::NameNotFound => (
            "The host name of an endpoint cannot be resolved by the DNS that this machine uses. The name may be mistyped, may exist only in an internal zone, or may not have been created yet.",
            &[
                Look("getent hosts NAME"),
                Do("Correct the endpoint, or use addresses: `--endpoints 10.0.0.1,10.0.0.2`."),
            ],
        ),
        Reason::UnknownCa => (
            "Something answers with a certificate that the CA in the configuration has not signed. Either the configuration belongs to another cluster, or the cluster was built anew with new secrets, or the node is in maintenance mode, where it signs its certificate itself.",
            &[
                Look("talosctl config info"),
                Look("talosctl -n NODE get machinestatus --insecure"),
                Do("Use the configuration of the cluster that is there now. Do not switch verification off."),
            ],
        ),
        Reason::NameNotInCertificate => (
            "The server's certificate is genuine, but does not list the address or name that was dialled. It is usually a load balancer's name or a new address that nobody added to the node's certificate.",
            &[
                Do(
                    "Dial an address that the certificate lists (it is in the message), or add the name to `machine.certSANs` (Talos) or `cluster.apiServer.certSANs` (Kubernetes) of the control planes:",
                ),
                Change("talosctl -n CP patch machineconfig --patch @sans.yaml"),
            ],
        ),
        Reason::ServerCertificateExpired => (
            "The certificate that the server shows is not valid now. Talos renews its own certificates by itself, so either the clock of the node or of this machine is wrong, or the renewal fails: workers get theirs from trustd on the control planes (port 50001).",
            &[
                Look("talosctl -n NODE time"),
                Look("talosctl -n CP logs controller-runtime"),
                Do("From a worker, port 50001 of the control planes must be reachable."),
            ],
        ),
        Reason::ClientCertificateRefused => (
            "The server was reached and does not accept the client certificate: it is signed by another CA, is expired by the server's clock, or lacks the right usage. For Omni, the signature or the service account key may have expired.",
            &[
                Look("talosctl config info"),
                Do("Check that the context is this cluster's and that the clocks agree; then make a new talosconfig:"),
                NEW_TALOSCONFIG,
            ],
        ),
        Reason::EndpointIsWorker => (
            "An endpoint of the talosconfig is a worker. Only control planes forward calls to other nodes; a worker refuses, so calls fail now and then, depending on which endpoint is taken.",
            &[
                Look("talosctl config info"),
                Do("List control planes only:"),
                Change("talosctl config endpoint CP1 CP2 CP3"),
            ],
        ),
        Reason::EndpointIsVip => (
            "An endpoint of the talosconfig is the virtual IP of the Kubernetes API. That address is held through etcd: when etcd has no quorum, nobody holds it, and the Talos API is out of reach just when it is needed.",
            &[
                Look("talosctl config info"),
                Do("List the control planes' own addresses:"),
                Change("talosctl config endpoint CP1 CP2 CP3"),
            ],
        ),
        Reason::EndpointUnreachable => (
            "An endpoint of the talosconfig does not answer on the Talos API. If others do, the cluster can still be judged through them; if none does, nothing is known of it, and the network of this machine is as likely the cause as the cluster.",
            &[
                Look("talosctl -e CP -n CP version"),
                Look("nc -vz CP 50000"),
                Do("Take endpoints that are gone out of the talosconfig."),
            ],
        ),
        Reason::ProxyRefused => (
            "A proxy was used because of a variable such as HTTPS_PROXY, and it did not let the connection through. Proxies often allow port 443 only.",
            &[
                Look("env | grep -i proxy"),
                Do("Add the cluster's addresses to NO_PROXY, or allow the ports 50000 and 6443 at the proxy."),
            ],
        ),
        Reason::MaintenanceMode => (
            "The machine runs Talos but has no machine configuration: it was never configured, or was wiped. It belongs to no cluster until it gets one. Its API answers with a certificate that it signed itself.",
            &[
                Look("talosctl -n NODE get machinestatus --insecure"),
                Do("Give it its configuration:"),
                Change("talosctl apply-config --insecure -n NODE -f controlplane.yaml"),
            ],
        ),
        Reason::AnsweredByOtherNode => (
            "A call for one node was answered by another. Two machines may share an address, an address may have moved (DHCP, a virtual IP), or a load balancer stands where a node's own address was expected.",
            &[
                Look("talosctl -n NODE get hostname"),
                Look("talosctl -n NODE get addresses"),
                Do("Name nodes by addresses of their own."),
            ],
        ),
        Reason::NodeUnreachable => (
            "The endpoint answers, but cannot reach this node on port 50000. So the network from here is fine: the machine is down, is rebooting, has another address now, or is cut off from the control planes.",
            &[
                NODE_VERSION,
                Look("kubectl get node -o wide"),
                Do("Look at the machine's console. Between nodes, port 50000 must be open."),
            ],
        ),
        other => nodes(other),
    }
}

/// Nodes and their readiness.
#[allow(clippy::too_many_lines, reason = "a table")]
fn nodes(reason: Reason) -> Entry {
    match reason {
        Reason::NodeFrozen => (
            "The node accepts connections and then says nothing. The kernel still works, the programs above it do not: usually the disk does not answer any more, memory is exhausted, or a virtual machine is paused.",
            &[
                Do("Look at the console and at the hypervisor; check disk and memory there."),
                NODE_DMESG,
                Do("If nothing answers, only a hard reset from outside helps."),
            ],
        ),
        Reason::NodeMissing => (
            "A node that was asked for on the command line is known to no source: not to discovery, not to Kubernetes, not to etcd. It never joined, was removed, or is known by another name or address.",
            &[
                Look("talosctl -n CP get members"),
                Look("kubectl get nodes -o wide"),
                Do("Correct the expectation, or look at the console of the missing machine."),
            ],
        ),
        Reason::NodeUnexpected => (
            "The cluster has a node that the expectation on the command line does not list. It was added without updating the list, or it comes from another cluster that shares the same secrets.",
            &[Look("talosctl -n CP get members"), Look("kubectl get nodes -o wide")],
        ),
        Reason::StaleDiscoveryMember => (
            "Discovery still lists a machine that neither Kubernetes nor etcd knows and that does not answer. It is what remains of a node that was removed; the entry expires by itself, at the latest after 30 minutes.",
            &[Look("talosctl -n CP get members"), Do("Wait. If the machine should be there, look at its console.")],
        ),
        Reason::StaleNodeObject => (
            "Kubernetes still has a Node object for a machine that is gone. Its pods are counted as if they could come back, and volumes and DaemonSets wait for it.",
            &[
                Look("kubectl describe node NODENAME"),
                Look("talosctl -n CP get members"),
                Do("When it is certain that the machine will not come back:"),
                Change("kubectl delete node NODENAME"),
            ],
        ),
        Reason::SingleSource => (
            "Only one source tells which nodes exist, so a node that this source has forgotten would not be missed. Usually discovery is switched off, or Kubernetes could not be read.",
            &[
                Do(
                    "Say what there should be: `--control-plane-nodes`, `--worker-nodes`, `--expect-control-planes`, `--expect-workers`.",
                ),
                Look("talosctl -n CP get members"),
            ],
        ),
        Reason::StageNotRunning => (
            "Talos on this machine is not in its normal state: it is booting, installing, upgrading, rebooting, shutting down or being reset. During an upgrade that is as it should be, for some minutes. A machine that stays there is held up by something.",
            &[
                Look("talosctl -n NODE get machinestatus -o yaml"),
                NODE_SERVICES,
                NODE_DMESG,
                Do("A machine that hangs while shutting down can be rebooted without waiting:"),
                Change("talosctl -n NODE reboot --mode=force"),
            ],
        ),
        Reason::ConditionUnmet => (
            "Talos runs, and says itself what keeps the node from being ready; the conditions are in the message. Common ones are time that is not synchronised, services that are not healthy, static pods that do not run, and a Kubernetes node that is not Ready.",
            &[Look("talosctl -n NODE get machinestatus -o yaml"), NODE_SERVICES, NODE_DMESG],
        ),
        Reason::ServiceFailed => (
            "A service that Talos manages on this node is not running, or runs and fails its health check. Its last event and health message say why: an image that cannot be pulled, a file it waits for, a crash.",
            &[
                Look("talosctl -n NODE service SERVICE"),
                Look("talosctl -n NODE logs SERVICE"),
                Do("After the cause is gone:"),
                Change("talosctl -n NODE service SERVICE restart"),
            ],
        ),
        Reason::ServiceMissing => (
            "A service that a node of this kind needs is not even registered. Either the boot has not come that far, or the machine has another role than it should: a control plane that got a worker's configuration has no etcd and no trustd.",
            &[NODE_SERVICES, Look("talosctl -n NODE get machinetype"), NODE_DMESG],
        ),
        Reason::ServiceBlocksBoot => (
            "The machine does not finish booting, because it waits until this service is up. Often it is a system extension that waits for a device or a file that this machine does not have. After 70 minutes Talos reboots by itself and begins anew.",
            &[
                Look("talosctl -n NODE service SERVICE"),
                Look("talosctl -n NODE logs SERVICE"),
                Do("Give the extension what it waits for, or install an image without it."),
            ],
        ),
        Reason::KubeletUnhealthy => (
            "The kubelet, which runs the pods of a node, is not running or not healthy. Without it, static pods are not started and the node drops out of Kubernetes within a minute. Common causes: an invalid kubelet configuration or argument, an image that cannot be pulled, time that is not synchronised, a control plane endpoint that cannot be reached.",
            &[KUBELET_SERVICE, KUBELET_LOGS, Change("talosctl -n NODE service kubelet restart")],
        ),
        other => machine::text(other),
    }
}

/// etcd.
#[allow(clippy::too_many_lines, reason = "a table")]
fn etcd(reason: Reason) -> Entry {
    match reason {
        Reason::NeverBootstrapped => (
            "etcd waits on all control planes, its data directory is empty everywhere, and no Kubernetes answers: nobody has told the cluster to begin. Bootstrapping must be done by hand, once in the life of a cluster, on one control plane only; the others join by themselves within minutes.",
            &[
                ETCD_SERVICE,
                Do("On exactly one control plane:"),
                Change("talosctl -n CP bootstrap"),
                Do("Never do this where etcd has had data: restore a snapshot instead."),
            ],
        ),
        Reason::EtcdStarting => (
            "etcd has not started yet on this control plane. It may still be pulling its image, wait for the first member to come up, or wait for time synchronisation. A minute or two are normal; if all control planes stay like this, the cluster may never have been bootstrapped.",
            &[ETCD_SERVICE, ETCD_LOGS, NODE_DMESG],
        ),
        Reason::EtcdUnhealthy => (
            "The etcd member of this control plane is stopped, crashes or fails its health check. Frequent causes: wrong extra arguments, a data directory left from another cluster, a full or slow disk, or peers that cannot be reached on port 2380.",
            &[
                ETCD_SERVICE,
                ETCD_LOGS,
                ETCD_STATUS,
                Do("If this member is lost and the others have a quorum, wipe it; it joins anew:"),
                WIPE,
            ],
        ),
        Reason::QuorumLost => (
            "etcd can neither write nor read reliably, because fewer than a majority of its voting members are up: of three, two are needed. Kubernetes does not work without it. Nothing is lost yet: when enough members come back, etcd goes on by itself.",
            &[
                ETCD_STATUS,
                ETCD_SERVICE,
                Do(
                    "First bring the missing control planes back: power, network, disk. Do not remove members and do not bootstrap while any of them can still come back.",
                ),
                Do("Secure the data of a surviving member before anything else:"),
                Look("talosctl -n CP cp /var/lib/etcd/member/snap/db ."),
                Do(
                    "Only if a majority is lost for good: follow the disaster recovery guide, which wipes etcd everywhere and restores a snapshot:",
                ),
                Change("talosctl -n CP bootstrap --recover-from=db.snapshot"),
            ],
        ),
        Reason::QuorumUnproven => (
            "No member was seen to have a leader and to answer a call that needs a majority, and none was seen to lack a leader either. Usually the control planes could not be reached, so nothing is known of etcd.",
            &[ETCD_STATUS, ETCD_SERVICE, Do("See first why the control planes do not answer.")],
        ),
        Reason::LeadersDiffer => (
            "Members name different leaders or terms, and still did when they were asked a second time. For a moment that is normal during an election. If it stays, members cannot hear each other, or there are two clusters.",
            &[ETCD_STATUS, ETCD_LOGS, Do("Check port 2380 between all control planes, in both directions.")],
        ),
        Reason::LeaderChanges => (
            "The leader was elected anew during this run. Each election stops writes for a moment. The usual cause is a disk that is too slow for etcd, or a network or processor that is overloaded: the heartbeat comes too late.",
            &[
                ETCD_LOGS,
                Do(
                    "Look there for `slow fdatasync`, `apply request took too long`, `failed to send out heartbeat on time`.",
                ),
                ETCD_STATUS,
                Do("Give etcd a faster disk of its own; do not add members."),
            ],
        ),
        Reason::SplitCluster => (
            "Control planes belong to two etcd clusters that know nothing of each other: bootstrap was called more than once, on different nodes. Each half has its own Kubernetes with its own data.",
            &[
                Look("talosctl -n CP1,CP2,CP3 etcd members"),
                Do("Decide which half has the data to be kept, and take a snapshot of both:"),
                ETCD_SNAPSHOT,
                Do("Wipe the control planes of the other half; they join the remaining one:"),
                WIPE,
            ],
        ),
        Reason::MembersDiffer => (
            "Control planes report different lists of members. Shortly after a member was added or removed that is normal. Otherwise a member was removed without knowing it, or is cut off and has an old list.",
            &[Look("talosctl -n CP1,CP2,CP3 etcd members"), ETCD_LOGS],
        ),
        Reason::StaleMember => (
            "etcd counts a member that belongs to no control plane: the machine is gone and was never taken out. It counts as a vote that is always absent, so fewer failures are tolerated than it seems.",
            &[ETCD_MEMBERS, ETCD_STATUS, Do("Be sure that no living control plane has this id. Then:"), REMOVE_MEMBER],
        ),
        Reason::NotAMember => (
            "A control plane is not in etcd's list of members. It has not joined yet, could not join, or was removed. Its Kubernetes components cannot work without a local etcd.",
            &[
                ETCD_SERVICE,
                ETCD_LOGS,
                ETCD_MEMBERS,
                Do(
                    "If the log says that the member was permanently removed, and etcd is healthy elsewhere, wipe this one; it joins anew:",
                ),
                WIPE,
            ],
        ),
        Reason::MemberJoining => (
            "A member was added to etcd's list and has not started yet: it has no name. That takes a minute or two. Until it runs, it counts as a vote that is absent.",
            &[
                ETCD_MEMBERS,
                ETCD_SERVICE,
                Do("Wait up to five minutes. If the machine will never come up, take the member out:"),
                REMOVE_MEMBER,
            ],
        ),
        Reason::Learner => (
            "A member has joined and copies the data, but has no vote yet. Talos promotes it when it has caught up, usually within minutes. A learner that stays one cannot reach the leader, or too slowly; and no other control plane can join meanwhile.",
            &[
                ETCD_STATUS,
                ETCD_LOGS,
                Do("Check port 2380 in both directions. If it never catches up, take it out and let it begin anew:"),
                REMOVE_MEMBER,
                WIPE,
            ],
        ),
        Reason::AlarmNospace => (
            "The database has reached its quota, and etcd refuses every write until there is room and the alarm is cleared. Kubernetes can be read and not changed. Readiness checks of the API server do not show this.",
            &[
                ETCD_STATUS,
                Look("talosctl -n CP etcd alarm list"),
                Do(
                    "Give back free pages, one member after the other; if the data itself is too large, raise `quota-backend-bytes` or delete objects. At the end clear the alarm:",
                ),
                Change("talosctl -n CP etcd defrag"),
                Change("talosctl -n CP etcd alarm disarm"),
            ],
        ),
        Reason::SpaceNearlyFull => (
            "The file of an etcd database has reached 80 % of its quota or more. At the quota etcd refuses every write, and Kubernetes stands still. Either much was written and deleted, which leaves free pages in the file, or the data itself is large.",
            &[
                ETCD_STATUS,
                Do("If much less is in use than the file holds, give the rest back, one member after the other:"),
                Change("talosctl -n CP etcd defrag"),
                Do(
                    "Otherwise look for what fills it; events and custom resources that nobody deletes are the usual cause:",
                ),
                Look("kubectl get --raw /metrics | grep apiserver_storage_objects"),
                Do(
                    "If all of it is wanted, raise `cluster.etcd.extraArgs.quota-backend-bytes` on every control plane (up to 8 GiB).",
                ),
            ],
        ),
        Reason::Fragmented => (
            "Less than half of the file of an etcd database is in use: what was deleted left free pages behind. They count towards the quota, and make snapshots and restarts slower. Nothing is broken.",
            &[
                ETCD_STATUS,
                Do("Defragment one member after the other, the leader last; each does not answer while it works:"),
                Change("talosctl -n CP etcd defrag"),
            ],
        ),
        Reason::Lagging => (
            "An etcd member has a thousand or more agreed entries that its database does not hold yet, and does not catch up. Whoever reads through it gets old data or no answer. Usually its disk does not keep up, or the machine is short of processor time.",
            &[
                ETCD_STATUS,
                ETCD_LOGS,
                Do(
                    "Look there for `apply request took too long` and `slow fdatasync`, and at the load of the machine:",
                ),
                Look("talosctl -n NODE dashboard"),
            ],
        ),
        Reason::VersionsMixed => (
            "Members or machines run different versions of the same program. During an upgrade that is normal; if it stays so, one was left out, failed to upgrade, or fell back to its former version because the new one did not boot. Mixed versions work for a while and are not meant to last; machines whose versions of Talos are more than one minor version apart are not supported.",
            &[
                Look("talosctl -n CP1,CP2,CP3 version"),
                ETCD_STATUS,
                Look("kubectl get nodes -o wide"),
                Do("Finish the upgrade, machine after machine; begin with the one that still has the old version."),
            ],
        ),
        Reason::AlarmCorrupt => (
            "etcd has found that the data of a member differs from that of the others. Whatever is read from this member may be wrong. Clearing the alarm repairs nothing.",
            &[
                Look("talosctl -n CP etcd alarm list"),
                ETCD_STATUS,
                ETCD_SNAPSHOT,
                Do(
                    "Take the snapshot from a member without the alarm. Then remove the corrupt member and let it join anew with empty data:",
                ),
                REMOVE_MEMBER,
                WIPE,
            ],
        ),
        Reason::AlarmUnknown => (
            "etcd has raised an alarm of a kind that this program does not know. An alarm is never raised without a serious cause, so it is taken for a failure.",
            &[Look("talosctl -n CP etcd alarm list"), ETCD_LOGS],
        ),
        Reason::EvenMembers => (
            "An even number of voters tolerates no more failures than one voter fewer would: of four, three must be up, of three two. The additional machine only adds one more that can fail.",
            &[
                ETCD_MEMBERS,
                Do("Have three or five control planes: add one, or take one out in order (it leaves etcd by itself):"),
                Change("talosctl -n NODE reset"),
            ],
        ),
        Reason::TwoMembers => (
            "With two voters both must be up, so the failure of either stops etcd: that is worse than a single one. It is normal for a moment while a cluster grows from one to three.",
            &[ETCD_MEMBERS, Do("Add a third control plane.")],
        ),
        Reason::NoTolerance => (
            "etcd works, but only just: if one more voter is lost, quorum is lost with it. A voter is down, or is counted that does not exist any more. Do not upgrade or reboot a control plane now.",
            &[
                ETCD_STATUS,
                ETCD_MEMBERS,
                Do(
                    "Bring the missing control plane back. If it is gone for good, take its member out before adding another:",
                ),
                REMOVE_MEMBER,
            ],
        ),
        Reason::MarginUnmet => (
            "etcd could lose fewer voters than `--require-quorum-margin` asks for. Either a voter is down, or there are too few control planes for such a margin: three tolerate one, five tolerate two.",
            &[ETCD_STATUS, ETCD_MEMBERS],
        ),
        other => api(other),
    }
}

/// The API server and who asks it.
#[allow(clippy::too_many_lines, reason = "a table")]
fn api(reason: Reason) -> Entry {
    match reason {
        Reason::ApiUnreachable => (
            "No connection to the Kubernetes API server comes about. It may not run, its endpoint (load balancer, virtual IP, DNS name) may lead nowhere, or the way from here may be blocked. etcd without quorum stops API servers too.",
            &[
                Look("nc -vz CP 6443"),
                CONTAINERS,
                API_LOGS,
                Do("Check DNS name, load balancer and firewall for port 6443."),
            ],
        ),
        Reason::ApiNotReady => (
            "The API server answers and says itself that it is not ready; the checks that failed are in the message. For a minute after its start that is normal. Later, a failing `etcd` check means that it cannot reach its etcd member.",
            &[Look("kubectl get --raw '/readyz?verbose'"), API_LOGS, ETCD_STATUS],
        ),
        Reason::ApiFrozen => (
            "The API server accepts connections and never answers. Its process hangs, or the machine below does: often a disk that does not respond, or memory that is used up. Load balancers that only open a connection do not notice.",
            &[
                Look("curl -k --max-time 5 https://NODE:6443/readyz"),
                API_LOGS,
                NODE_DMESG,
                Do(
                    "If only the API server hangs, rebooting the node restarts it; see first that etcd can do without this node:",
                ),
                Change("talosctl -n NODE reboot"),
            ],
        ),
        Reason::EndpointDownServersReady => (
            "Every API server is ready when asked directly, but their common endpoint is not: so the fault lies between, in the load balancer, the virtual IP or the DNS name. Nodes and users come through this endpoint.",
            &[
                Look("getent hosts ENDPOINT"),
                Look("nc -vz ENDPOINT 6443"),
                Look("talosctl -n CP1,CP2,CP3 get addresses"),
                Do("Does the load balancer list the present control planes? Does one of them hold the virtual IP?"),
            ],
        ),
        Reason::Unauthorised => (
            "The API server does not know who is asking: the client certificate or token is expired, was revoked, or belongs to another cluster.",
            &[Look("kubectl auth whoami"), Do("Renew the kubeconfig:"), Change("talosctl -n CP kubeconfig --force")],
        ),
        Reason::Forbidden => (
            "The API server knows who is asking, and RBAC does not allow it. The check could not be done, which says nothing of the cluster's health.",
            &[
                Look("kubectl auth can-i --list"),
                Do("Grant the rights that `cluster-health rbac` prints:"),
                Change("cluster-health rbac | kubectl apply -f -"),
            ],
        ),
        Reason::ForbiddenOrStarting => (
            "The API server refuses the request. An API server that has just started, or lost etcd for a while, refuses everybody for about a minute, because it has not read the roles yet. One look cannot tell that from missing rights.",
            &[
                Do("Ask again in a minute or two, or with `--wait-timeout 3m`."),
                Look("kubectl auth can-i --list"),
                Look("cluster-health rbac"),
            ],
        ),
        Reason::Throttled => (
            "The API server has more requests than it can serve and asks to come back later. Something asks too much, or the server is too small or waits for a slow etcd.",
            &[
                Look("kubectl get --raw /debug/api_priority_and_fairness/dump_priority_levels"),
                ETCD_STATUS,
                Do("Look for a controller or operator that lists everything again and again."),
            ],
        ),
        Reason::WrongCluster => (
            "None of the nodes that Talos knows is a node of the Kubernetes that the kubeconfig leads to: the two files belong to different clusters. A verdict made of both would be about neither.",
            &[
                Look("talosctl config info"),
                Look("kubectl config view --minify"),
                Do("Name both explicitly: `--context` and `--kubeconfig` with `--kube-context`."),
            ],
        ),
        Reason::EndpointBehindProxy => (
            "The endpoint shows a certificate that is not signed by the cluster's own CA, though it leads to this cluster. That is as intended behind Omni, Rancher or a load balancer that ends TLS.",
            &[
                Do("Nothing to do if such a proxy is intended. Otherwise find out who answers:"),
                Look("kubectl cluster-info"),
            ],
        ),
        Reason::ServerNotDirectlyReachable => (
            "An API server cannot be dialled from here by its node's address, and neither its lease nor its entry among the endpoints of the `kubernetes` service shows that it lives. It may be down, or only unreachable from this network.",
            &[Look("kubectl -n kube-system get lease"), Look("kubectl -n default get endpointslices"), CONTAINERS],
        ),
        other => workloads(other),
    }
}

/// Control plane components, nodes in Kubernetes, workloads; and what any check can say.
#[allow(clippy::too_many_lines, reason = "a table")]
fn workloads(reason: Reason) -> Entry {
    match reason {
        Reason::ComponentMissing => (
            "A control plane component should run on this control plane and does not exist there. The kubelet has not started it, or Talos has not written its static pod, which it does only when etcd is up.",
            &[
                Look("talosctl -n NODE get staticpods"),
                CONTAINERS,
                KUBELET_LOGS,
                Look("talosctl -n NODE logs controller-runtime"),
            ],
        ),
        Reason::ComponentNotReady => (
            "A control plane component exists and is not ready. After a start it takes a while. If it stays, its log says why: a wrong argument, a certificate, an API server or etcd that it cannot reach.",
            &[CONTAINERS, Look("talosctl -n NODE logs -k kube-system/POD:CONTAINER"), KUBELET_LOGS],
        ),
        Reason::CrashLooping => (
            "A container ends soon after each start, and the kubelet waits longer and longer before it tries again. The exit code and the last log lines say why. Exit code 137 is the kernel's or the kubelet's kill, mostly for memory.",
            &[
                CONTAINERS,
                Look("talosctl -n NODE logs -k kube-system/POD:CONTAINER"),
                Look("kubectl -n kube-system logs POD --previous"),
                Look("kubectl -n kube-system describe pod POD"),
            ],
        ),
        Reason::NotLeading => (
            "Of kube-controller-manager and kube-scheduler one instance works at a time: the one that renews the lease of that name in kube-system. Nobody has renewed it lately, so nothing is scheduled, or no controller acts, though the processes may run and look well. Usually the instances cannot reach an API server, or etcd is too slow for them to keep the lease.",
            &[
                Look("kubectl -n kube-system get lease kube-controller-manager kube-scheduler -o yaml"),
                CONTAINERS,
                Look("talosctl -n NODE logs -k kube-system/POD:CONTAINER"),
                Do("Look there for `leaderelection lost`, `failed to acquire lease`, and for what it cannot reach."),
                ETCD_STATUS,
            ],
        ),
        Reason::VersionSkew => (
            "A component is of a version that Kubernetes does not support beside the others. API servers may be one minor version apart; kube-controller-manager and kube-scheduler may be one older than the API servers and never newer; a kubelet may be three older (two before 1.25) and never newer. It usually comes from an upgrade that stopped halfway, or from a machine that was added with a configuration of another version.",
            &[
                Look("kubectl get nodes -o wide"),
                Look("talosctl -n CP get staticpods -o yaml"),
                Do(
                    "Bring all to the newest version that is there; going back to an older one is not supported. See first what would be done:",
                ),
                Look("talosctl -n CP upgrade-k8s --to VERSION --dry-run"),
                Change("talosctl -n CP upgrade-k8s --to VERSION"),
            ],
        ),
        Reason::NodePressure => (
            "The kubelet reports that the node runs out of memory, disk space or process ids, or somebody has marked its network as unavailable. Under pressure a kubelet evicts pods, deletes images, and takes no new pods; the control plane's own pods are not spared for ever.",
            &[
                DESCRIBE_NODE,
                Look("talosctl -n NODE memory"),
                Look("talosctl -n NODE mounts"),
                Look("talosctl -n NODE usage -d 2 /var"),
                Do(
                    "Find what takes the resource: logs, images, volumes in /var, pods without limits. An unavailable network is the network plugin's or the cloud's route controller's to mend.",
                ),
            ],
        ),
        Reason::CsrPending => (
            "A kubelet has asked for a certificate, and nobody has approved or denied the request. Without its serving certificate nothing that connects to the kubelet works: logs, exec, metrics, and Talos's own view of the static pods. With `rotate-server-certificates` every node asks, and Talos approves none of these by itself.",
            &[
                Look("kubectl get csr"),
                Look("kubectl describe csr CSR"),
                Do(
                    "Approve a request only if the node it names is yours and has these addresses; better, install an approver that checks this.",
                ),
                Change("kubectl certificate approve CSR"),
            ],
        ),
        Reason::NodeNotRegistered => (
            "A machine runs Talos and should be a Kubernetes node, and Kubernetes does not know it. Its kubelet has not registered: it cannot reach the control plane endpoint, waits for its certificate, or registered under another name.",
            &[
                KUBELET_SERVICE,
                KUBELET_LOGS,
                Do("As an administrator, which a monitoring role is not, look at the certificate requests:"),
                Look("kubectl get csr"),
                Look("talosctl -n NODE get nodename"),
                Change("talosctl -n NODE service kubelet restart"),
            ],
        ),
        Reason::NodeNotReady => (
            "Kubernetes reports the node as not Ready, with the reason in the message. `Unknown` means that the kubelet has gone silent: the machine is down, cut off, or its kubelet has stopped. `False` comes from the kubelet itself, mostly about network or container runtime.",
            &[DESCRIBE_NODE, KUBELET_SERVICE, KUBELET_LOGS, NODE_VERSION],
        ),
        Reason::NodeLeaseStale => (
            "The kubelet renews a lease every ten seconds to show that it lives, and has stopped. The Ready condition follows only after most of a minute, so the node may still be shown as Ready. The kubelet or the machine is down, or cannot reach the API server.",
            &[Look("kubectl -n kube-node-lease get lease NODENAME -o yaml"), KUBELET_SERVICE, NODE_VERSION],
        ),
        Reason::CniMissing => (
            "Nodes are not Ready because no network plugin is installed. With `cni: none` in the machine configuration that is the state after bootstrapping, until somebody installs one; otherwise its DaemonSet does not come up.",
            &[
                Look("kubectl -n kube-system get daemonsets"),
                DESCRIBE_NODE,
                Do("Install the network plugin that the cluster is meant to have."),
            ],
        ),
        Reason::CordonedByTalos => (
            "Talos has marked the node as unschedulable for an upgrade or reboot. It takes the mark away when the node is up again. If the node has long been running, that was interrupted.",
            &[DESCRIBE_NODE, Look("talosctl -n NODE get machinestatus"), Change("kubectl uncordon NODENAME")],
        ),
        Reason::Cordoned => (
            "Somebody, or another controller, has marked the node as unschedulable. No new pods are placed there until the mark is taken away.",
            &[DESCRIBE_NODE, Do("Ask who did it. Then:"), Change("kubectl uncordon NODENAME")],
        ),
        Reason::Uninitialised => (
            "The node waits for a cloud controller manager to initialise it, and until then takes no ordinary pods. The controller is not installed, does not run, or does not find the machine in its cloud.",
            &[
                DESCRIBE_NODE,
                Look("kubectl get pods -A -o wide"),
                Do("Look at the log of the cloud controller manager."),
            ],
        ),
        Reason::NodeLeaving => (
            "The node is being removed, by an autoscaler or because its object is being deleted. It is listed and not judged.",
            &[DESCRIBE_NODE, Do("Nothing to do, unless it stays like this.")],
        ),
        Reason::NotTalosNotReady => (
            "A Kubernetes node that does not run Talos is not Ready. Only its condition is looked at, and only as a warning, because nothing else is known of such a machine.",
            &[DESCRIBE_NODE],
        ),
        Reason::DaemonsetIncomplete => (
            "A DaemonSet that every node needs (kube-proxy, the network plugin) is not available on all of them. Nodes without it have no working service or pod network. During a rollout that is normal for a while.",
            &[
                Look("kubectl -n kube-system get daemonsets"),
                Look("kubectl -n kube-system get pods -o wide"),
                Look("kubectl -n kube-system describe pod POD"),
            ],
        ),
        Reason::DaemonsetMissing => (
            "The machine configuration asks for this DaemonSet, and Kubernetes does not have it. It was deleted, or Talos has not applied its manifests since the cluster was bootstrapped.",
            &[
                Look("kubectl -n kube-system get daemonsets"),
                Look("talosctl -n CP get manifeststatus -o yaml"),
                Do("Say in the machine configuration if it is not wanted, or let Talos apply its manifests again:"),
                Change("talosctl -n CP upgrade-k8s --to VERSION"),
            ],
        ),
        Reason::DnsScaledToZero => (
            "The Deployment of the cluster's DNS asks for no replicas, so no name resolves in any pod. Somebody scaled it down and did not scale it up again.",
            &[
                Look("kubectl -n kube-system get deployment coredns"),
                Change("kubectl -n kube-system scale deployment coredns --replicas=2"),
            ],
        ),
        Reason::DnsNoEndpoints => (
            "The service of the cluster's DNS has no pod behind it that is ready, so no name resolves in any pod. Its pods are pending (often because the network plugin is missing or no node takes them), or crash.",
            &[
                Look("kubectl -n kube-system get pods -l k8s-app=kube-dns -o wide"),
                Look("kubectl -n kube-system describe pods -l k8s-app=kube-dns"),
                Look("kubectl -n kube-system logs -l k8s-app=kube-dns"),
            ],
        ),
        Reason::DnsMissing => (
            "The machine configuration asks for the cluster's own DNS, and Kubernetes has neither its Deployment nor a replacement with ready endpoints. It was deleted, or never applied.",
            &[
                Look("kubectl -n kube-system get deployments"),
                Look("talosctl -n CP get manifeststatus -o yaml"),
                Do("Say so in the machine configuration if another DNS is used (`cluster.coreDNS.disabled`)."),
            ],
        ),
        Reason::StaticPodMissing => (
            "A static pod that Talos has written is not reported by the kubelet. The kubelet is down, has not come to it yet, or refuses the definition.",
            &[Look("talosctl -n NODE get staticpods"), Look("talosctl -n NODE get staticpodstatus"), KUBELET_LOGS],
        ),
        Reason::StaticPodNotRendered => (
            "Talos has not written the definition of a static pod that the configuration calls for. It waits for something: mostly for etcd, for time synchronisation or for certificates.",
            &[
                ETCD_SERVICE,
                Look("talosctl -n NODE get staticpods"),
                Look("talosctl -n NODE get configstatuses"),
                Look("talosctl -n NODE logs controller-runtime"),
            ],
        ),
        Reason::StaticPodFailed => (
            "A static pod exists and is not ready. Why is in the state of its containers: an image that cannot be pulled, a crash with an exit code, a probe that fails.",
            &[CONTAINERS, Look("talosctl -n NODE logs -k kube-system/POD:CONTAINER"), KUBELET_LOGS],
        ),
        Reason::StatusStale => (
            "The statuses of the static pods on this node have not been refreshed, so they say nothing of the present. Talos asks the kubelet for them; that fails when the kubelet is down, or when its serving certificate was never approved.",
            &[
                KUBELET_SERVICE,
                Do("As an administrator, which a monitoring role is not, look at the certificate requests:"),
                Look("kubectl get csr"),
                Do(
                    "Pending requests of the signer `kubernetes.io/kubelet-serving` must be approved, after a look at each:",
                ),
                Change("kubectl certificate approve CSR"),
            ],
        ),
        Reason::ServerCheckFailed => (
            "Asked with `--server`, Talos's own health check told what is wrong, in its own words. It looks at the same cluster from within, so a difference to the checks before is telling: it sees from a control plane what is not seen from here, and the reverse.",
            &[
                Look("talosctl -n CP health --server=true"),
                Do("Look first at what the other checks say of the same node or component; they say more."),
            ],
        ),
        Reason::ServerCheckUnfinished => (
            "Asked with `--server`, Talos's own health check was not done when the time of the round was over, or its stream ended before it was done. Nothing follows from that for the cluster. It does one thing after the other, and takes minutes on a large cluster.",
            &[
                Do("Give it more time with `--attempt-timeout`, or leave out `--server`."),
                Look("talosctl -n CP health --server=true"),
            ],
        ),
        Reason::TooManyUnready => (
            "More workers are not ready than `--max-unready-workers` allows. They are named in the report, each with its own reason.",
            &[Look("kubectl get nodes"), Do("Look at what they have in common: a rack, a network, an upgrade.")],
        ),
        Reason::UnreadableAnswer => (
            "An answer came that does not have the form it should. Something else listens on the port, a proxy has put its own page in between, or the server is of a version that this program does not know.",
            &[
                NODE_VERSION,
                Look("kubectl version"),
                Do("If it stays, report it with the output of `cluster-health -o json`."),
            ],
        ),
        Reason::AnswerTooLarge => (
            "An answer was longer than this program is willing to read, so it was not used. In a very large cluster that can be genuine; otherwise something else answers.",
            &[Look("kubectl get pods -n kube-system"), Do("Leave the check out with `--skip` if the size is genuine.")],
        ),
        Reason::NotSupportedByVersion => (
            "The version of Talos on this node does not offer what the check reads, so it could not be done there.",
            &[NODE_VERSION, Do("Upgrade Talos, or leave the check out with `--skip`.")],
        ),
        Reason::NoAnswer => (
            "The question was asked and nothing came back that could be judged, before the time was over. That is not taken for a pass. Usually the node or the API server is overloaded or about to go away.",
            &[NODE_VERSION, Do("Allow more time with `--attempt-timeout`, or wait with `--wait-timeout`.")],
        ),
        // The functions above take these; listed, so that a new reason does not compile without a text.
        Reason::CertificateExpired
        | Reason::CertificateExpiresSoon
        | Reason::CertificateNotYetValid
        | Reason::ClientAuthMissing
        | Reason::KeyMismatch
        | Reason::RoleTooLow
        | Reason::RoleTooLowForThisVersion
        | Reason::ConfigUnreadable
        | Reason::ContextUnknown
        | Reason::NoKubeconfig
        | Reason::KubeconfigInsecure
        | Reason::ConnectionRefused
        | Reason::NoRoute
        | Reason::TimedOut
        | Reason::NameNotFound
        | Reason::UnknownCa
        | Reason::NameNotInCertificate
        | Reason::ServerCertificateExpired
        | Reason::ClientCertificateRefused
        | Reason::EndpointIsWorker
        | Reason::EndpointIsVip
        | Reason::EndpointUnreachable
        | Reason::ProxyRefused
        | Reason::MaintenanceMode
        | Reason::AnsweredByOtherNode
        | Reason::NodeUnreachable
        | Reason::NodeFrozen
        | Reason::NodeMissing
        | Reason::NodeUnexpected
        | Reason::StaleDiscoveryMember
        | Reason::StaleNodeObject
        | Reason::SingleSource
        | Reason::StageNotRunning
        | Reason::ConditionUnmet
        | Reason::ServiceFailed
        | Reason::ServiceMissing
        | Reason::ServiceBlocksBoot
        | Reason::KubeletUnhealthy
        | Reason::NetworkNotReady
        | Reason::MemoryTooSmall
        | Reason::DiskTooSmall
        | Reason::DiskNearlyFull
        | Reason::VolumeFailed
        | Reason::Diagnostic
        | Reason::TimeNotSynced
        | Reason::ClockSkew
        | Reason::VersionUnexpected
        | Reason::NotMeasurable
        | Reason::NeverBootstrapped
        | Reason::EtcdStarting
        | Reason::EtcdUnhealthy
        | Reason::QuorumLost
        | Reason::QuorumUnproven
        | Reason::LeadersDiffer
        | Reason::LeaderChanges
        | Reason::SplitCluster
        | Reason::MembersDiffer
        | Reason::StaleMember
        | Reason::NotAMember
        | Reason::MemberJoining
        | Reason::Learner
        | Reason::AlarmNospace
        | Reason::SpaceNearlyFull
        | Reason::Fragmented
        | Reason::Lagging
        | Reason::VersionsMixed
        | Reason::AlarmCorrupt
        | Reason::AlarmUnknown
        | Reason::EvenMembers
        | Reason::TwoMembers
        | Reason::NoTolerance
        | Reason::MarginUnmet
        | Reason::ApiUnreachable
        | Reason::ApiNotReady
        | Reason::ApiFrozen
        | Reason::EndpointDownServersReady
        | Reason::Unauthorised
        | Reason::Forbidden
        | Reason::ForbiddenOrStarting
        | Reason::Throttled
        | Reason::WrongCluster
        | Reason::EndpointBehindProxy
        | Reason::ServerNotDirectlyReachable => ("", &[]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_a_text_and_a_way_on() {
        for reason in Reason::ALL {
            let ReasonText { explanation, remedy } = reason.text();
            assert!(explanation.len() > 80 && explanation.ends_with('.'), "{}: {explanation}", reason.code());
            assert!(!remedy.is_empty(), "{}", reason.code());
            let first_change = remedy.iter().position(|step| matches!(step, Change(_)));
            let last_words_before = remedy.iter().position(|step| !matches!(step, Change(_)));
            assert!(
                first_change.is_none_or(|at| last_words_before.is_some_and(|words| words < at)),
                "{}",
                reason.code()
            );
        }
    }
}
