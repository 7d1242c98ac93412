//! etcd.

use super::Step::{Change, Do, Look};
use super::Text;
use super::sources::{
    ETCD_ACCESS, ETCD_CORRUPTION, ETCD_LEARNER, ETCD_RECONFIGURATION, ETCD_TUNING, TALOS_CONTROL_PLANE, TALOS_DISASTER,
    TALOS_ETCD, TALOS_TROUBLESHOOTING_ETCD, TALOS_UPGRADE,
};
use super::steps::{
    DEFRAGMENT, ETCD_LOGS, ETCD_MEMBERS, ETCD_SERVICE, ETCD_SNAPSHOT, ETCD_STATUS, NODE_DMESG, ONLY_WITH_QUORUM,
    REMOVE_MEMBER, WIPE,
};

pub(super) const NEVER_BOOTSTRAPPED: Text = Text {
    explanation: "etcd waits on all control planes, its data directory is empty everywhere, and no Kubernetes answers: the cluster was never bootstrapped. Bootstrapping must be done by hand, once in the life of a cluster, on one control plane only; the others join by themselves within minutes.",
    source: TALOS_TROUBLESHOOTING_ETCD,
    remedy: &[
        ETCD_SERVICE,
        Look("talosctl -n NODE list /var/lib/etcd"),
        Do(
            "Never where etcd has had data, not even on a control plane that is switched off now: restore a snapshot instead. In a new cluster, once, on exactly one control plane:",
        ),
        Change("talosctl -n CP bootstrap"),
    ],
};

pub(super) const ETCD_STARTING: Text = Text {
    explanation: "etcd has not started yet on this control plane. It may still be pulling its image, wait for the first member to come up, or wait for time synchronization. A minute or two are normal; if all control planes stay like this, the cluster may never have been bootstrapped.",
    source: TALOS_TROUBLESHOOTING_ETCD,
    remedy: &[ETCD_SERVICE, ETCD_LOGS, NODE_DMESG],
};

pub(super) const ETCD_UNHEALTHY: Text = Text {
    explanation: "The etcd member of this control plane is stopped, crashes or fails its health check. Frequent causes: wrong extra arguments, a data directory left from another cluster, a full or slow disk, or peers that cannot be reached on port 2380.",
    source: TALOS_TROUBLESHOOTING_ETCD,
    remedy: &[
        ETCD_SERVICE,
        ETCD_LOGS,
        ETCD_STATUS,
        ETCD_MEMBERS,
        Do(
            "Fix what the log reports. If the data of this member is lost, replace it: take it out by its id, then wipe its machine (all of `/var` is lost), which then rejoins.",
        ),
        ONLY_WITH_QUORUM,
        ETCD_SNAPSHOT,
        REMOVE_MEMBER,
        WIPE,
    ],
};

pub(super) const ETCD_ACCESS_DENIED: Text = Text {
    explanation: "An etcd that was queried directly (`--etcd-endpoints`) was reached and does not allow the call. Its own authentication is switched on: it takes the common name of the client certificate for a user, and either does not know that user or has not given it the role that the call needs. Talos and its roles have no part in it. What was refused is undetermined, not unhealthy.",
    source: ETCD_ACCESS,
    remedy: &[
        Look("openssl x509 -noout -subject -in CLIENT.crt"),
        Do("As an administrator of that etcd, see which users there are and what this one may do:"),
        Look("etcdctl user list"),
        Look("etcdctl user get USER"),
        Do("Give `--etcd-cert` and `--etcd-key` of a user that may ask this; the role `root` may ask everything."),
    ],
};

pub(super) const QUORUM_LOST: Text = Text {
    explanation: "etcd can neither write nor read reliably, because fewer than a majority of its voting members are up: of three, two are needed. Kubernetes does not work without it. Nothing is lost yet: when enough members come back, etcd goes on by itself.",
    source: TALOS_DISASTER,
    remedy: &[
        ETCD_STATUS,
        ETCD_SERVICE,
        Do(
            "First bring the missing control planes back: power, network, disk. Do not remove members and do not bootstrap while any of them can still come back.",
        ),
        Do("Secure the data of a surviving member before anything else:"),
        Look("talosctl -n CP cp /var/lib/etcd/member/snap/db ."),
        Do(
            "Only if a majority is lost for good: follow the disaster recovery guide to its letter. It wipes etcd on every control plane that is left, and then restores a snapshot on one (a copy of the file above takes `--recover-skip-hash-check`, too):",
        ),
        Change("talosctl -n CP bootstrap --recover-from=db.snapshot"),
    ],
};

pub(super) const QUORUM_UNPROVEN: Text = Text {
    explanation: "No member was seen to have a leader and to answer a call that needs a majority, and none was seen to lack a leader either. Usually the control planes could not be reached, so nothing is known of etcd.",
    source: TALOS_TROUBLESHOOTING_ETCD,
    remedy: &[ETCD_STATUS, ETCD_SERVICE, Do("See first why the control planes do not answer.")],
};

pub(super) const LEADERS_DIFFER: Text = Text {
    explanation: "Members name different leaders or terms, and still did when queried again. For a moment that is normal during an election. If it stays, members cannot hear each other, or there are two clusters.",
    source: TALOS_TROUBLESHOOTING_ETCD,
    remedy: &[ETCD_STATUS, ETCD_LOGS, Do("Check port 2380 between all control planes, in both directions.")],
};

pub(super) const LEADER_CHANGES: Text = Text {
    explanation: "A new leader was elected during this run. Each election stops writes for a moment. The usual cause is a disk that is too slow for etcd, or a network or processor that is overloaded: the heartbeat comes too late.",
    source: ETCD_TUNING,
    remedy: &[
        ETCD_LOGS,
        Do("Look there for `slow fdatasync`, `apply request took too long`, `failed to send out heartbeat on time`."),
        ETCD_STATUS,
        Do("Give etcd a faster disk of its own; do not add members."),
    ],
};

pub(super) const SPLIT_CLUSTER: Text = Text {
    explanation: "Control planes belong to two etcd clusters that know nothing of each other: bootstrap was called more than once, on different nodes. Each half has its own Kubernetes with its own data.",
    source: TALOS_DISASTER,
    remedy: &[
        Look("talosctl -n CP1,CP2,CP3 etcd members"),
        Do("Decide which half has the data to be kept, and take a snapshot of both:"),
        ETCD_SNAPSHOT,
        Do(
            "Only when both snapshots are safe, and only where the half that stays has a quorum of its own: wipe the control planes of the other half, one after the other (all of `/var` is lost); they join the remaining one.",
        ),
        WIPE,
    ],
};

pub(super) const FOREIGN_ETCD: Text = Text {
    explanation: "The control planes run an etcd of their own, and no member of it is behind `--etcd-endpoints`. The health of another etcd is no evidence for this cluster, so both are judged.",
    source: ETCD_RECONFIGURATION,
    remedy: &[
        Look("talosctl -n CP etcd members"),
        Look("etcdctl --endpoints=ENDPOINTS member list"),
        Do("Leave out `--etcd-endpoints`, or give those of this cluster."),
    ],
};

pub(super) const MEMBERS_DIFFER: Text = Text {
    explanation: "Control planes report different lists of members. Shortly after a member was added or removed that is normal. Otherwise a member was removed without knowing it, or is cut off and has an old list.",
    source: ETCD_RECONFIGURATION,
    remedy: &[Look("talosctl -n CP1,CP2,CP3 etcd members"), ETCD_LOGS],
};

pub(super) const STALE_MEMBER: Text = Text {
    explanation: "etcd counts a member that belongs to no control plane: the machine is gone and was never taken out. It counts as a vote that is always absent, so fewer failures are tolerated than it seems.",
    source: ETCD_RECONFIGURATION,
    remedy: &[
        ETCD_MEMBERS,
        ETCD_STATUS,
        Do(
            "A machine that is merely switched off is to be switched on: once removed, it cannot come back without being wiped.",
        ),
        Do("Only if the machine is gone for good, and no control plane that answers has this id:"),
        REMOVE_MEMBER,
    ],
};

pub(super) const NOT_A_MEMBER: Text = Text {
    explanation: "A control plane is not in etcd's list of members. It has not joined yet, could not join, or was removed. Its Kubernetes components cannot work without a local etcd.",
    source: ETCD_RECONFIGURATION,
    remedy: &[
        ETCD_SERVICE,
        ETCD_LOGS,
        ETCD_MEMBERS,
        Do(
            "If the log reports that the member was permanently removed, wipe this machine (all of `/var` is lost); it then rejoins.",
        ),
        ONLY_WITH_QUORUM,
        ETCD_SNAPSHOT,
        WIPE,
    ],
};

pub(super) const MEMBER_JOINING: Text = Text {
    explanation: "A member was added to etcd's list and has not started yet: it has no name. That takes a minute or two. Until it runs, it counts as a vote that is absent.",
    source: ETCD_RECONFIGURATION,
    remedy: &[
        ETCD_MEMBERS,
        ETCD_SERVICE,
        Do("Wait up to five minutes. Only if the machine will never come up, take this member out, and no other:"),
        REMOVE_MEMBER,
    ],
};

pub(super) const LEARNER: Text = Text {
    explanation: "A member has joined and copies the data, but has no vote yet. Talos promotes it when it has caught up, usually within minutes. A learner that stays one cannot reach the leader, or too slowly; and no other control plane can join meanwhile.",
    source: ETCD_LEARNER,
    remedy: &[
        ETCD_STATUS,
        ETCD_LOGS,
        ETCD_MEMBERS,
        Do(
            "Check port 2380 in both directions. If it never catches up, take out the member that the list calls a learner, and no other, and wipe its machine, which then starts over:",
        ),
        REMOVE_MEMBER,
        WIPE,
    ],
};

pub(super) const ALARM_NOSPACE: Text = Text {
    explanation: "The database has reached its quota, and etcd refuses every write until there is room and the alarm is cleared. Kubernetes can be read and not changed. Readiness checks of the API server do not show this.",
    source: TALOS_ETCD,
    remedy: &[
        ETCD_STATUS,
        Look("talosctl -n CP etcd alarm list"),
        ETCD_SNAPSHOT,
        DEFRAGMENT,
        Change("talosctl -n NODE etcd defrag"),
        Do("If the data itself is too large, raise `quota-backend-bytes` or delete objects."),
        Do(
            "Only when every database is smaller than its quota, and never while there is an alarm CORRUPT, which this clears as well:",
        ),
        Change("talosctl -n CP etcd alarm disarm"),
    ],
};

pub(super) const SPACE_NEARLY_FULL: Text = Text {
    explanation: "The file of an etcd database has reached 80 % of its quota or more. At the quota etcd refuses every write, and Kubernetes accepts no changes. Either much was written and deleted, which leaves free pages in the file, or the data itself is large.",
    source: TALOS_ETCD,
    remedy: &[
        ETCD_STATUS,
        Do("If much less is in use than the file holds, the rest can be given back."),
        DEFRAGMENT,
        Change("talosctl -n NODE etcd defrag"),
        Do("Otherwise look for what fills it; events and custom resources that are never deleted are the usual cause:"),
        Look("kubectl get --raw /metrics | grep -E 'apiserver_(storage|resource)_objects'"),
        Do(
            "If all of it is wanted, raise `cluster.etcd.extraArgs.quota-backend-bytes` on every control plane (up to 8 GiB).",
        ),
    ],
};

pub(super) const FRAGMENTED: Text = Text {
    explanation: "Less than half of the file of an etcd database is in use: what was deleted left free pages behind. They count toward the quota, and make snapshots and restarts slower. Nothing is broken.",
    source: TALOS_ETCD,
    remedy: &[ETCD_STATUS, DEFRAGMENT, Change("talosctl -n NODE etcd defrag")],
};

pub(super) const LAGGING: Text = Text {
    explanation: "An etcd member has a thousand or more agreed entries that its database does not hold yet, and does not catch up. Whoever reads through it gets old data or no answer. Usually its disk does not keep up, or the machine is short of processor time.",
    source: ETCD_TUNING,
    remedy: &[
        ETCD_STATUS,
        ETCD_LOGS,
        Do("Look there for `apply request took too long` and `slow fdatasync`, and at the load of the machine:"),
        Look("talosctl -n NODE dashboard"),
    ],
};

pub(super) const VERSIONS_MIXED: Text = Text {
    explanation: "Members or machines run different versions of the same program. During an upgrade that is normal; if it stays so, one was left out, failed to upgrade, or fell back to its former version because the new one did not boot. Mixed versions work for a while and are not meant to last; machines more than one minor version of Talos apart are not supported.",
    source: TALOS_UPGRADE,
    remedy: &[
        Look("talosctl -n CP1,CP2,CP3 version"),
        ETCD_STATUS,
        Look("kubectl get nodes -o wide"),
        Do("Finish the upgrade, machine after machine; begin with the one that still has the old version."),
    ],
};

pub(super) const ALARM_CORRUPT: Text = Text {
    explanation: "etcd has found that the data of a member differs from that of the others. Whatever is read from this member may be wrong. Clearing the alarm repairs nothing.",
    source: ETCD_CORRUPTION,
    remedy: &[
        Look("talosctl -n CP etcd alarm list"),
        ETCD_STATUS,
        ETCD_SNAPSHOT,
        Do(
            "Take the snapshot from a member without the alarm. If it is unclear which members are intact, restore a backup instead of going on here.",
        ),
        Do(
            "Replace it: remove the corrupt member by its id, and wipe its machine, which then rejoins with empty data.",
        ),
        ONLY_WITH_QUORUM,
        REMOVE_MEMBER,
        WIPE,
    ],
};

pub(super) const ALARM_UNKNOWN: Text = Text {
    explanation: "etcd has raised an alarm of a kind that this program does not know. An alarm is never raised without a serious cause, so it is taken for a failure.",
    source: TALOS_ETCD,
    remedy: &[Look("talosctl -n CP etcd alarm list"), ETCD_LOGS],
};

pub(super) const EVEN_MEMBERS: Text = Text {
    explanation: "An even number of voters tolerates no more failures than one voter fewer would: of four, three must be up, of three two. The additional machine only adds one more that can fail.",
    source: TALOS_CONTROL_PLANE,
    remedy: &[
        ETCD_MEMBERS,
        Do("Have three or five control planes: better add one."),
        Do(
            "To take one out instead, only while all voters are up: this makes it leave etcd, erases its disks and switches it off.",
        ),
        Change("talosctl -n NODE reset"),
    ],
};

pub(super) const TWO_MEMBERS: Text = Text {
    explanation: "With two voters both must be up, so the failure of either stops etcd: that is worse than a single one. It is normal for a moment while a cluster grows from one to three.",
    source: TALOS_CONTROL_PLANE,
    remedy: &[ETCD_MEMBERS, Do("Add a third control plane.")],
};

pub(super) const NO_TOLERANCE: Text = Text {
    explanation: "etcd works, but only just: if one more voter is lost, quorum is lost with it. A voter is down, or is counted that does not exist any more. Do not upgrade or reboot a control plane now.",
    source: TALOS_CONTROL_PLANE,
    remedy: &[
        ETCD_STATUS,
        ETCD_MEMBERS,
        Do(
            "Bring the missing control plane back. Only if it is gone for good, take its member out, before adding another:",
        ),
        REMOVE_MEMBER,
    ],
};

pub(super) const MARGIN_UNMET: Text = Text {
    explanation: "etcd could lose fewer voters than `--require-quorum-margin` asks for. Either a voter is down, or there are too few control planes for such a margin: three tolerate one, five tolerate two.",
    source: TALOS_CONTROL_PLANE,
    remedy: &[ETCD_STATUS, ETCD_MEMBERS],
};
