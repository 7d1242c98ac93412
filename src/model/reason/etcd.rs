//! etcd.

use super::Step::{Change, Do, Look};
use super::Text;
use super::sources::{
    ETCD_ACCESS, ETCD_CORRUPTION, ETCD_LEARNER, ETCD_RECONFIGURATION, ETCD_TUNING, KUBERNETES_CLUSTER,
    TALOS_CONTROL_PLANE, TALOS_DISASTER, TALOS_ETCD, TALOS_TROUBLESHOOTING_ETCD, TALOS_UPGRADE,
};
use super::steps::{
    ADD_BEFORE_REMOVING, DEFRAGMENT, ETCD_LOGS, ETCD_MEMBERS, ETCD_SERVICE, ETCD_SNAPSHOT, ETCD_STATUS, NODE_DMESG,
    ONLY_WITH_QUORUM, REMOVE_MEMBER, WIPE,
};

pub(super) const NEVER_BOOTSTRAPPED: Text = Text {
    explanation: "etcd waits on all control planes, its data directory is empty everywhere, and no Kubernetes answers: the cluster was never bootstrapped. Bootstrapping is a manual step, done once in the life of a cluster and on one control plane only; the others join on their own within minutes.",
    source: TALOS_TROUBLESHOOTING_ETCD,
    remedy: &[
        ETCD_SERVICE,
        Look("talosctl -n NODE list /var/lib/etcd"),
        Do(
            "Never if etcd ever had data, not even on a control plane that is powered off now: restore a snapshot instead. In a new cluster, once, on exactly one control plane:",
        ),
        Change("talosctl -n CP bootstrap"),
    ],
};

pub(super) const ETCD_STARTING: Text = Text {
    explanation: "etcd has not started yet on this control plane. It may still be pulling its image, wait for the first member to come up, or wait for time synchronization. One or two minutes are normal. If all control planes stay like this, the cluster may never have been bootstrapped.",
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
            "Fix what the log reports. If the data of this member is lost, replace it: remove the member by its ID, then wipe its machine (all of `/var` is lost), which then rejoins.",
        ),
        ONLY_WITH_QUORUM,
        ETCD_SNAPSHOT,
        REMOVE_MEMBER,
        WIPE,
    ],
};

pub(super) const ETCD_ACCESS_DENIED: Text = Text {
    explanation: "An etcd that was queried directly (`--etcd-endpoints`) was reached but does not allow the request. Its own authentication is enabled: the user is that of `CLUSTER_HEALTH_ETCD_USER`, else the common name of the client certificate. That user does not exist, has another password, or does not have the required role: etcd 3.6 before 3.6.12, and 3.5.31, report their status only to the role `root`. Talos roles are not involved. What was refused could not be determined; it is not a failure.",
    source: ETCD_ACCESS,
    remedy: &[
        Look("openssl x509 -noout -subject -in CLIENT.crt"),
        Do("As an administrator of that etcd, list its users and the roles of this one:"),
        Look("etcdctl user list"),
        Look("etcdctl user get USER"),
        Do(
            "Pass `--etcd-cert` and `--etcd-key` of a user with this permission, or its name and password in `CLUSTER_HEALTH_ETCD_USER` and `CLUSTER_HEALTH_ETCD_PASSWORD_FILE`. Where the role `root` is needed, grant it, or upgrade etcd:",
        ),
        Change("etcdctl user grant-role USER root"),
    ],
};

pub(super) const QUORUM_LOST: Text = Text {
    explanation: "etcd can neither write nor read reliably, because fewer than a majority of its voting members are up: of three, two are needed. Kubernetes does not work without it. Nothing is lost yet: when enough members are back, etcd recovers on its own.",
    source: TALOS_DISASTER,
    remedy: &[
        ETCD_STATUS,
        ETCD_SERVICE,
        Do(
            "First bring the missing control planes back: power, network, disk. Do not remove members and do not bootstrap while any of them can still come back.",
        ),
        Do("Before anything else, back up the data of a surviving member:"),
        Look("talosctl -n CP cp /var/lib/etcd/member/snap/db ."),
        Do(
            "Only if a majority is permanently lost: follow the disaster recovery guide exactly. It wipes etcd on all remaining control planes, and then restores a snapshot on one (a copy of the file above also needs `--recover-skip-hash-check`):",
        ),
        Change("talosctl -n CP bootstrap --recover-from=db.snapshot"),
    ],
};

pub(super) const QUORUM_UNPROVEN: Text = Text {
    explanation: "No member reported a leader and answered a request that needs a majority, but none reported having no leader either. Usually the control planes could not be reached, so nothing is known about etcd.",
    source: TALOS_TROUBLESHOOTING_ETCD,
    remedy: &[ETCD_STATUS, ETCD_SERVICE, Do("First find out why the control planes do not answer.")],
};

pub(super) const STORAGE_UNPROVEN: Text = Text {
    explanation: "Neither Talos nor etcd is queried, so that only the API server shows whether its storage works: etcd, or a database that stands in for it. It reads lists from there. No list with a node in it arrived, so nothing shows that the storage works.",
    source: KUBERNETES_CLUSTER,
    remedy: &[
        Look("kubectl get --raw '/readyz?verbose'"),
        Do("If `etcd` is not ok there, look at the storage: the service or pod that runs it, its log, and its disk."),
        Do("Otherwise look at the log of the API server: requests may take too long or be held up in a queue."),
    ],
};

pub(super) const LEADERS_DIFFER: Text = Text {
    explanation: "Members report different leaders or terms, and still did when queried again. This is normal for a moment during an election. If it persists, members cannot reach each other, or there are two clusters.",
    source: TALOS_TROUBLESHOOTING_ETCD,
    remedy: &[ETCD_STATUS, ETCD_LOGS, Do("Check port 2380 between all control planes, in both directions.")],
};

pub(super) const LEADER_CHANGES: Text = Text {
    explanation: "A new leader was elected during this run. Each election interrupts writes for a moment. The usual cause is a disk that is too slow for etcd, or an overloaded network or CPU: the heartbeat comes too late.",
    source: ETCD_TUNING,
    remedy: &[
        ETCD_LOGS,
        Do("Look there for `slow fdatasync`, `apply request took too long`, `failed to send out heartbeat on time`."),
        ETCD_STATUS,
        Do("Give etcd a faster, dedicated disk; do not add members."),
    ],
};

pub(super) const SPLIT_CLUSTER: Text = Text {
    explanation: "Control planes belong to two etcd clusters that do not know of each other: bootstrap was run more than once, on different nodes. Each half has its own Kubernetes with its own data.",
    source: TALOS_DISASTER,
    remedy: &[
        Look("talosctl -n CP1,CP2,CP3 etcd members"),
        Do("Decide which half has the data to keep, and take a snapshot of both:"),
        ETCD_SNAPSHOT,
        Do(
            "Only when both snapshots are safe, and only if the half that stays has a quorum: wipe the control planes of the other half, one at a time (all of `/var` is lost). They then join the remaining half.",
        ),
        WIPE,
    ],
};

pub(super) const FOREIGN_ETCD: Text = Text {
    explanation: "The control planes run their own etcd, and `--etcd-endpoints` leads to none of its members. The health of another etcd is not evidence for this cluster, so both are checked.",
    source: ETCD_RECONFIGURATION,
    remedy: &[
        Look("talosctl -n CP etcd members"),
        Look("etcdctl --endpoints=ENDPOINTS member list"),
        Do("Omit `--etcd-endpoints`, or pass those of this cluster."),
    ],
};

pub(super) const MEMBERS_DIFFER: Text = Text {
    explanation: "Control planes report different member lists. This is normal shortly after a member was added or removed. Otherwise a member was removed but still runs, or is cut off and has an old list.",
    source: ETCD_RECONFIGURATION,
    remedy: &[Look("talosctl -n CP1,CP2,CP3 etcd members"), ETCD_LOGS],
};

pub(super) const STALE_MEMBER: Text = Text {
    explanation: "etcd has a member that belongs to no control plane: the machine is gone, and its member was never removed. It counts as a voter that is always down, so the cluster survives fewer failures than it seems.",
    source: ETCD_RECONFIGURATION,
    remedy: &[
        ETCD_MEMBERS,
        ETCD_STATUS,
        Do(
            "If the machine is only powered off, power it on: once its member is removed, it cannot rejoin without being wiped.",
        ),
        ETCD_SNAPSHOT,
        Do("Only if the machine is permanently gone, and no control plane that answers has this ID:"),
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
    explanation: "A member was added to etcd's list and has not started yet: it has no name. That takes one or two minutes. Until it runs, it counts as a voter that is down.",
    source: ETCD_RECONFIGURATION,
    remedy: &[
        ETCD_MEMBERS,
        ETCD_SERVICE,
        ETCD_SNAPSHOT,
        Do("Wait up to 5 minutes. Only if the machine will never come up, remove this member, and no other:"),
        REMOVE_MEMBER,
    ],
};

pub(super) const LEARNER: Text = Text {
    explanation: "A member has joined and copies the data, but has no vote yet. Talos promotes it when it has caught up, usually within minutes. A learner that is never promoted cannot reach the leader, or is too slow. Until then, no other control plane can join.",
    source: ETCD_LEARNER,
    remedy: &[
        ETCD_STATUS,
        ETCD_LOGS,
        ETCD_MEMBERS,
        ETCD_SNAPSHOT,
        Do(
            "Check port 2380 in both directions. If it never catches up, remove the member that is listed as a learner, and no other, and wipe its machine, which then joins again:",
        ),
        REMOVE_MEMBER,
        WIPE,
    ],
};

pub(super) const ALARM_NOSPACE: Text = Text {
    explanation: "The database has reached its quota, and etcd accepts no new data, only deletions, until there is space and the alarm is cleared. Kubernetes can be read but not changed. The readiness checks of the API server do not show this.",
    source: TALOS_ETCD,
    remedy: &[
        ETCD_STATUS,
        Look("talosctl -n CP etcd alarm list"),
        ETCD_SNAPSHOT,
        DEFRAGMENT,
        Change("talosctl -n NODE etcd defrag"),
        Do("If the data itself is too large, raise `quota-backend-bytes` or delete objects."),
        Do(
            "Only when every database is smaller than its quota, and never while there is a CORRUPT alarm, which this also clears:",
        ),
        Change("talosctl -n CP etcd alarm disarm"),
    ],
};

pub(super) const SPACE_NEARLY_FULL: Text = Text {
    explanation: "The file of an etcd database has reached 80 % or more of its quota. At the quota etcd accepts no new data, only deletions, and Kubernetes accepts no changes. Either many objects were written and deleted, which leaves free pages in the file, or the data itself is large.",
    source: TALOS_ETCD,
    remedy: &[
        ETCD_STATUS,
        Do("If much less is in use than the size of the file, defragmentation frees the rest."),
        DEFRAGMENT,
        Change("talosctl -n NODE etcd defrag"),
        Do("Otherwise look for what fills it; events and custom resources that are never deleted are the usual cause:"),
        Look("kubectl get --raw /metrics | grep -E 'apiserver_(storage|resource)_objects'"),
        Do(
            "If all of the data is needed, raise `cluster.etcd.extraArgs.quota-backend-bytes` on every control plane (up to 8 GiB).",
        ),
    ],
};

pub(super) const FRAGMENTED: Text = Text {
    explanation: "Less than half of the file of an etcd database is in use: deleted data left free pages behind. They count toward the quota and make snapshots and restarts slower. Nothing is broken.",
    source: TALOS_ETCD,
    remedy: &[ETCD_STATUS, DEFRAGMENT, Change("talosctl -n NODE etcd defrag")],
};

pub(super) const ETCD_SLOW: Text = Text {
    explanation: "Twice in one round, an etcd member took more than one second longer to answer than Talos on the same machine. Its member list takes a read that a majority confirms, and the API servers read and write through the same path, so everything in Kubernetes is slow. Usually the disk of a member is too slow, a machine is short of CPU, or the control planes are far from each other.",
    source: ETCD_TUNING,
    remedy: &[
        ETCD_STATUS,
        ETCD_LOGS,
        Do(
            "Look there for `slow fdatasync`, `apply request took too long` and `failed to send out heartbeat on time`, and at the load of the machine:",
        ),
        Look("talosctl -n NODE dashboard"),
        Do("Give etcd a faster disk of its own. If all members are slow, look at the leader first."),
    ],
};

pub(super) const LAGGING: Text = Text {
    explanation: "An etcd member has 1000 or more committed entries that are not applied to its database yet, and does not catch up. Reads through it return old data or hang. Usually its disk is too slow, or the machine is short of CPU.",
    source: ETCD_TUNING,
    remedy: &[
        ETCD_STATUS,
        ETCD_LOGS,
        Do("Look there for `apply request took too long` and `slow fdatasync`, and at the load of the machine:"),
        Look("talosctl -n NODE dashboard"),
    ],
};

pub(super) const VERSIONS_MIXED: Text = Text {
    explanation: "Members or machines run different versions of the same program. This is normal during an upgrade. If it persists, one was left out, failed to upgrade, or rolled back to its previous version because the new one did not boot. Mixed versions are meant only for the duration of an upgrade; machines more than one minor version of Talos apart are not supported.",
    source: TALOS_UPGRADE,
    remedy: &[
        Look("talosctl -n CP1,CP2,CP3 version"),
        ETCD_STATUS,
        Look("kubectl get nodes -o wide"),
        Do("Finish the upgrade, one machine at a time, starting with the one that still has the old version."),
    ],
};

pub(super) const ALARM_CORRUPT: Text = Text {
    explanation: "etcd has found that the data of a member differs from that of the others. Reads from this member may be wrong. Clearing the alarm repairs nothing.",
    source: ETCD_CORRUPTION,
    remedy: &[
        Look("talosctl -n CP etcd alarm list"),
        ETCD_STATUS,
        ETCD_SNAPSHOT,
        Do(
            "Take the snapshot from a member without the alarm. If it is unclear which members are intact, restore a backup instead.",
        ),
        Do(
            "Replace it: remove the corrupt member by its ID, and wipe its machine, which then rejoins with empty data.",
        ),
        ONLY_WITH_QUORUM,
        REMOVE_MEMBER,
        WIPE,
    ],
};

pub(super) const ALARM_UNKNOWN: Text = Text {
    explanation: "etcd has raised an alarm that cluster-health does not know. Alarms always have a serious cause, so this is a failure.",
    source: TALOS_ETCD,
    remedy: &[Look("talosctl -n CP etcd alarm list"), ETCD_LOGS],
};

pub(super) const EVEN_MEMBERS: Text = Text {
    explanation: "An even number of voters survives no more failures than the odd number below it: of four, three must be up; of three, two. The additional machine is only one more that can fail.",
    source: TALOS_CONTROL_PLANE,
    remedy: &[
        ETCD_MEMBERS,
        Do("Use three or five control planes; it is better to add one."),
        Do(
            "To remove one instead, only while all voters are up: this command makes it leave etcd, wipes its disks and powers it off.",
        ),
        Change("talosctl -n NODE reset"),
    ],
};

pub(super) const TWO_MEMBERS: Text = Text {
    explanation: "With two voters both must be up, so the failure of either stops etcd: that is worse than a single voter. It is normal for a moment while a cluster grows from one to three.",
    source: TALOS_CONTROL_PLANE,
    remedy: &[ETCD_MEMBERS, ETCD_SNAPSHOT, Do("Add a third control plane."), ADD_BEFORE_REMOVING],
};

pub(super) const NO_TOLERANCE: Text = Text {
    explanation: "etcd works, but if one more voter fails, the quorum is lost. A voter is down, or is listed but no longer exists. Do not upgrade or reboot a control plane now.",
    source: TALOS_CONTROL_PLANE,
    remedy: &[
        ETCD_STATUS,
        ETCD_MEMBERS,
        ETCD_SNAPSHOT,
        Do(
            "Bring the missing control plane back. Only if it is permanently gone, remove its member before you add another:",
        ),
        REMOVE_MEMBER,
    ],
};

pub(super) const MARGIN_UNMET: Text = Text {
    explanation: "etcd survives fewer failures than `--require-quorum-margin` requires. Either a voter is down, or there are too few control planes: three survive one failure, five survive two.",
    source: TALOS_CONTROL_PLANE,
    remedy: &[ETCD_STATUS, ETCD_MEMBERS, ADD_BEFORE_REMOVING],
};

pub(super) const PEER_ADDRESS: Text = Text {
    explanation: "The other members look for this one at its peer URLs, and none of them is an address of its machine. The problem stays hidden while the members are connected. When all control planes restart at once, they cannot find each other, and the cluster has no quorum. Usually etcd took an address of the network plugin when it started, because no subnet was configured for it, or the machine got another address later.",
    source: TALOS_ETCD,
    remedy: &[
        Look("talosctl -n CP etcd members"),
        Look("talosctl -n NODE get addresses"),
        Look("talosctl -n NODE get etcdspec -o yaml"),
        Do(
            "Set `cluster.etcd.advertisedSubnets` to the network of the machines. Talos updates the peer URL when etcd starts again.",
        ),
        Do("Repair one member at a time, while the others have a quorum, and take a snapshot first:"),
        Look("talosctl -n CP etcd snapshot etcd.snapshot"),
    ],
};
