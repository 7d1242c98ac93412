//! Facts about etcd, from Talos or from etcd's own API.

use std::time::Duration;

use super::{Node, Observed};
use crate::text::host;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EtcdStatus {
    pub(crate) member_id: u64,
    /// 0 if the member has no leader.
    pub(crate) leader: u64,
    pub(crate) raft_term: u64,
    pub(crate) raft_index: u64,
    pub(crate) raft_applied_index: u64,
    pub(crate) is_learner: bool,
    /// `etcdserver: no leader`, `memberID:… alarm:NOSPACE`.
    pub(crate) errors: Vec<String>,
    /// Bytes.
    pub(crate) db_size: u64,
    pub(crate) db_size_in_use: u64,
    /// Bytes; `None` if the answer does not contain it: before etcd 3.6, and through Talos.
    pub(crate) quota: Option<u64>,
    pub(crate) version: String,
    /// Empty if not reported: before etcd 3.6, and by Talos before 1.11.
    pub(crate) storage_version: String,
    /// The member's position in the previous sample, if the round took two.
    pub(crate) earlier: Option<RaftProgress>,
    /// Time that the member took longer than Talos on the same machine; the shorter one of two samples. 0 if etcd is queried directly.
    pub(crate) slower: Duration,
}

impl EtcdStatus {
    pub(crate) fn has_leader(&self) -> bool {
        self.leader != 0 && !self.errors.iter().any(|error| error.contains("no leader"))
    }

    /// Returns the position that a later sample is compared with.
    pub(crate) fn progress(&self) -> RaftProgress {
        RaftProgress { index: self.raft_index, applied: self.raft_applied_index }
    }

    /// Adds the progress since `before`, an earlier sample of the same round. A sample of another member is ignored.
    pub(crate) fn after(self, before: &Observed<Self>) -> Self {
        let before = before.as_ref().ok().filter(|before| before.member_id == self.member_id);
        let slower = before.map_or(self.slower, |before| self.slower.min(before.slower));
        Self { earlier: before.map(Self::progress), slower, ..self }
    }
}

/// Positions in etcd's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RaftProgress {
    /// The newest entry.
    pub(crate) index: u64,
    /// The newest entry that the database contains.
    pub(crate) applied: u64,
}

/// Image and arguments with which etcd is started (`EtcdSpecs`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EtcdSpec {
    /// Argument `quota-backend-bytes`; `None` if absent. 0 means etcd's default, and a negative value means no quota.
    pub(crate) quota: Option<i64>,
    /// `registry.k8s.io/etcd:v3.6.12`
    pub(crate) image: String,
    /// Names of the arguments that the machine configuration adds (`cluster.etcd.extraArgs`), without dashes.
    pub(crate) arguments: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct EtcdMember {
    pub(crate) id: u64,
    /// Empty if the member was added but has never started.
    pub(crate) name: String,
    pub(crate) peer_urls: Vec<String>,
    pub(crate) client_urls: Vec<String>,
    pub(crate) is_learner: bool,
}

impl EtcdMember {
    /// Returns the hosts of the peer URLs, without brackets and port.
    pub(crate) fn hosts(&self) -> Vec<String> {
        self.peer_urls.iter().map(|url| host(url).to_owned()).collect()
    }

    /// Returns whether the member could be this machine's, by its name or its peer addresses. A machine that reports the ID of its own member
    /// proves more.
    pub(crate) fn could_be(&self, node: &Node) -> bool {
        (!self.name.is_empty() && node.is_called(&self.name))
            || self.peer_urls.iter().any(|url| node.is_called(host(url)))
    }

    /// Returns whether the member has never started. A member publishes its name and client URLs as soon as it runs.
    pub(crate) fn has_never_started(&self) -> bool {
        self.name.is_empty() && self.client_urls.is_empty()
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct EtcdAlarm {
    pub(crate) member_id: u64,
    pub(crate) kind: AlarmKind,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum AlarmKind {
    NoSpace,
    Corrupt,
    /// A number that no known etcd version uses.
    Other(i32),
}

/// One endpoint of `--etcd-endpoints`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct EtcdEndpoint {
    pub(crate) address: String,
    pub(crate) status: Observed<EtcdStatus>,
    /// Read linearizably.
    pub(crate) members: Observed<Vec<EtcdMember>>,
    pub(crate) alarms: Observed<Vec<EtcdAlarm>>,
}
