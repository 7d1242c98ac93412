//! Reason codes: stable, kebab-case, in one table, each with an explanation and a remedy for `explain`.
//!
//! Texts are written for readers who have never seen the cluster: what was observed, the usual cause, and what to look at first. Read-only
//! commands come first. `NODE` is a placeholder for the address of the node concerned, `CP` for that of a healthy control plane.

mod accept;
mod access;
mod api;
mod etcd;
mod kubernetes_nodes;
mod machine;
mod nodes;
mod policy;
pub(crate) mod sources;
mod steps;
mod upgrade;
mod workloads;

pub(crate) use sources::Source;

/// One step of a remedy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// An instruction in words.
    Do(&'static str),
    /// A command that only reads.
    Look(&'static str),
    /// A command that changes the cluster or a configuration. Displayed with a mark.
    Change(&'static str),
}

/// The explanation of a reason and its remedy.
#[derive(Debug)]
pub(crate) struct Text {
    /// Two to four sentences.
    pub(crate) explanation: &'static str,
    /// The official document that the remedy is based on.
    pub(crate) source: Source,
    pub(crate) remedy: &'static [Step],
}

/// Generates the enum, its codes, titles and texts from one list.
macro_rules! reasons {
    ($($variant:ident $code:literal $title:literal $text:path;)+) => {
        /// The reason why a target did not pass. A code never changes its meaning.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub(crate) enum Reason {
            $($variant,)+
        }

        impl Reason {
            pub(crate) const ALL: &[Self] = &[$(Self::$variant,)+];

            pub(crate) fn code(self) -> &'static str {
                match self {
                    $(Self::$variant => $code,)+
                }
            }

            /// Returns a one-line title for users.
            pub(crate) fn title(self) -> &'static str {
                match self {
                    $(Self::$variant => $title,)+
                }
            }

            pub(crate) fn text(self) -> &'static Text {
                match self {
                    $(Self::$variant => &$text,)+
                }
            }
        }
    };
}

reasons! {
    CertificateExpired "certificate-expired" "a certificate has expired" access::CERTIFICATE_EXPIRED;
    CertificateExpiresSoon "certificate-expires-soon" "a certificate expires soon" access::CERTIFICATE_EXPIRES_SOON;
    CertificateNotYetValid "certificate-not-yet-valid" "a certificate is not valid yet" access::CERTIFICATE_NOT_YET_VALID;
    ClientAuthMissing "client-auth-missing" "the client certificate is not made for client authentication" access::CLIENT_AUTH_MISSING;
    KeyMismatch "key-mismatch" "the private key does not match the certificate" access::KEY_MISMATCH;
    RoleTooLow "role-too-low" "the role of the credentials does not allow the request" access::ROLE_TOO_LOW;
    RoleTooLowForThisVersion "role-too-low-for-this-version" "this version of Talos requires a higher role than later ones" access::ROLE_TOO_LOW_FOR_THIS_VERSION;
    ConfigUnreadable "config-unreadable" "a configuration file cannot be used" access::CONFIG_UNREADABLE;
    ContextUnknown "context-unknown" "the configuration has no such context" access::CONTEXT_UNKNOWN;
    NoKubeconfig "no-kubeconfig" "no usable Kubernetes credentials" access::NO_KUBECONFIG;
    PluginFailed "exec-plugin-failed" "the exec plugin of the kubeconfig failed" access::EXEC_PLUGIN_FAILED;
    KubeconfigInsecure "kubeconfig-insecure" "the kubeconfig disables TLS verification or uses http://" access::KUBECONFIG_INSECURE;
    ConnectionRefused "connection-refused" "the connection was refused" access::CONNECTION_REFUSED;
    NoRoute "no-route" "there is no route to the host" access::NO_ROUTE;
    TimedOut "timed-out" "no answer arrived in time" access::TIMED_OUT;
    NameNotFound "name-not-found" "the hostname does not resolve" access::NAME_NOT_FOUND;
    UnknownCa "unknown-ca" "the server's certificate is signed by another CA" access::UNKNOWN_CA;
    NameNotInCertificate "name-not-in-certificate" "the server's certificate is not valid for this address" access::NAME_NOT_IN_CERTIFICATE;
    ServerCertificateExpired "server-certificate-expired" "the server's certificate is expired or not valid yet" access::SERVER_CERTIFICATE_EXPIRED;
    ClientCertificateRefused "client-certificate-refused" "the server refused the client certificate" access::CLIENT_CERTIFICATE_REFUSED;
    SignatureRefused "signature-refused" "Omni refused the signature of the service account" access::SIGNATURE_REFUSED;
    ServiceKeyExpired "service-account-key-expired" "the key of Omni's service account has expired" access::SERVICE_KEY_EXPIRED;
    ServiceKeyExpiresSoon "service-account-key-expires-soon" "the key of Omni's service account expires soon" access::SERVICE_KEY_EXPIRES_SOON;
    ServiceKeyNotYetValid "service-account-key-not-yet-valid" "the key of Omni's service account is from the future" access::SERVICE_KEY_NOT_YET_VALID;
    EndpointIsWorker "endpoint-is-worker" "the endpoint is a worker, which cannot forward requests" access::ENDPOINT_IS_WORKER;
    EndpointIsVip "endpoint-is-vip" "the endpoint is the virtual IP of the Kubernetes API" access::ENDPOINT_IS_VIP;
    EndpointCutOff "endpoint-cut-off" "the endpoint cannot reach a node that another endpoint reaches" access::ENDPOINT_CUT_OFF;
    EndpointUnreachable "endpoint-unreachable" "the endpoint does not answer" access::ENDPOINT_UNREACHABLE;
    ProxyRefused "proxy-refused" "a proxy refused the connection" access::PROXY_REFUSED;
    MaintenanceMode "maintenance-mode" "the node has no machine configuration" access::MAINTENANCE_MODE;
    AnsweredByOtherNode "answered-by-other-node" "another node answered at this node's address" access::ANSWERED_BY_OTHER_NODE;
    NodeUnreachable "node-unreachable" "the endpoint cannot reach the node" access::NODE_UNREACHABLE;
    NodeFrozen "node-frozen" "the node accepts connections and does not answer" nodes::NODE_FROZEN;
    NodeMissing "node-missing" "an expected node is missing" nodes::NODE_MISSING;
    NodeUnknown "node-unknown" "no node has the given name" nodes::NODE_UNKNOWN;
    NodesContradict "nodes-contradict" "two options contradict each other about a node" nodes::NODES_CONTRADICT;
    NodeUnexpected "node-unexpected" "a node is not expected" nodes::NODE_UNEXPECTED;
    StaleDiscoveryMember "stale-discovery-member" "discovery still lists a node that is gone" nodes::STALE_DISCOVERY_MEMBER;
    StaleNodeObject "stale-node-object" "Kubernetes still lists a node that is gone or has long been off" nodes::STALE_NODE_OBJECT;
    MachineTypeInit "machine-type-init" "the machine has type `init`" nodes::MACHINE_TYPE_INIT;
    SingleSource "single-source" "only one source lists the nodes" nodes::SINGLE_SOURCE;
    StageNotRunning "stage-not-running" "the machine is not in stage running" nodes::STAGE_NOT_RUNNING;
    RebootLoop "reboot-loop" "the machine keeps rebooting" nodes::REBOOT_LOOP;
    NodeRebooted "node-rebooted" "the machine rebooted between two rounds" nodes::NODE_REBOOTED;
    ConditionUnmet "condition-unmet" "the machine reports that it is not ready" nodes::CONDITION_UNMET;
    ServiceFailed "service-failed" "a Talos service is not running or not healthy" nodes::SERVICE_FAILED;
    ServiceMissing "service-missing" "a Talos service that the node needs is missing" nodes::SERVICE_MISSING;
    ServiceBlocksBoot "service-blocks-boot" "a service blocks the boot sequence" nodes::SERVICE_BLOCKS_BOOT;
    KubeletUnhealthy "kubelet-unhealthy" "the kubelet is not running or not healthy" nodes::KUBELET_UNHEALTHY;
    NetworkNotReady "network-not-ready" "the machine's network is not ready" machine::NETWORK_NOT_READY;
    KubespanPeerDown "kubespan-peer-down" "KubeSpan cannot reach another machine" machine::KUBESPAN_PEER_DOWN;
    KubeprismUnhealthy "kubeprism-unhealthy" "KubePrism on the machine cannot reach any API server" machine::KUBEPRISM_UNHEALTHY;
    MemoryTooSmall "memory-too-small" "the machine has less memory than Talos needs" machine::MEMORY_TOO_SMALL;
    DiskTooSmall "disk-too-small" "the machine's disk is smaller than Talos needs" machine::DISK_TOO_SMALL;
    DiskNearlyFull "disk-nearly-full" "the machine's disk is nearly full" machine::DISK_NEARLY_FULL;
    DiskFull "disk-full" "a disk of the machine is full" machine::DISK_FULL;
    VolumeFailed "volume-failed" "a volume of the machine is not as it should be" machine::VOLUME_FAILED;
    Diagnostic "diagnostic" "Talos has diagnosed a problem of the machine" machine::DIAGNOSTIC;
    TimeNotSynced "time-not-synced" "the machine's clock is not synchronized" machine::TIME_NOT_SYNCED;
    ClockSkew "clock-skew" "the machine's clock is wrong" machine::CLOCK_SKEW;
    VersionUnexpected "version-unexpected" "the version is not the expected one" machine::VERSION_UNEXPECTED;
    NeverBootstrapped "never-bootstrapped" "the cluster was never bootstrapped" etcd::NEVER_BOOTSTRAPPED;
    EtcdStarting "etcd-starting" "etcd has not started yet" etcd::ETCD_STARTING;
    EtcdUnhealthy "etcd-unhealthy" "the etcd member is not healthy" etcd::ETCD_UNHEALTHY;
    EtcdAccessDenied "etcd-access-denied" "etcd's own access control does not allow the request" etcd::ETCD_ACCESS_DENIED;
    QuorumLost "quorum-lost" "etcd has lost its quorum" etcd::QUORUM_LOST;
    QuorumUnproven "quorum-unproven" "nothing proves that etcd has a quorum" etcd::QUORUM_UNPROVEN;
    StorageUnproven "storage-unproven" "nothing proves that the API's storage works" etcd::STORAGE_UNPROVEN;
    LeadersDiffer "leaders-differ" "etcd members do not agree on leader or term" etcd::LEADERS_DIFFER;
    LeaderChanges "leader-changes" "etcd's leader changes during the run" etcd::LEADER_CHANGES;
    SplitCluster "split-cluster" "there are two independent etcd clusters" etcd::SPLIT_CLUSTER;
    ForeignEtcd "foreign-etcd" "`--etcd-endpoints` belong to another etcd cluster" etcd::FOREIGN_ETCD;
    MembersDiffer "members-differ" "control planes report different etcd members" etcd::MEMBERS_DIFFER;
    StaleMember "stale-member" "an etcd member belongs to no control plane" etcd::STALE_MEMBER;
    NotAMember "not-a-member" "a control plane is not an etcd member" etcd::NOT_A_MEMBER;
    MemberJoining "member-joining" "an etcd member was added and has not started" etcd::MEMBER_JOINING;
    PeerAddress "peer-address" "an etcd member is not where its peers look for it" etcd::PEER_ADDRESS;
    Learner "learner" "an etcd member is still a learner" etcd::LEARNER;
    AlarmNospace "alarm-nospace" "etcd is out of space and refuses writes" etcd::ALARM_NOSPACE;
    AlarmCorrupt "alarm-corrupt" "etcd has found corrupt data" etcd::ALARM_CORRUPT;
    AlarmUnknown "alarm-unknown" "etcd has raised an alarm of unknown kind" etcd::ALARM_UNKNOWN;
    SpaceNearlyFull "space-nearly-full" "an etcd database is near its quota" etcd::SPACE_NEARLY_FULL;
    Fragmented "fragmented" "less than half of an etcd database is in use" etcd::FRAGMENTED;
    EtcdSlow "etcd-slow" "an etcd member answers slowly" etcd::ETCD_SLOW;
    Lagging "lagging" "an etcd member falls behind" etcd::LAGGING;
    VersionsMixed "versions-mixed" "versions differ" etcd::VERSIONS_MIXED;
    EvenMembers "even-members" "an even number of voters survives no more failures than the odd number below it" etcd::EVEN_MEMBERS;
    TwoMembers "two-members" "etcd has two voters; losing either one stops the cluster" etcd::TWO_MEMBERS;
    NoTolerance "no-tolerance" "etcd cannot lose another member" etcd::NO_TOLERANCE;
    MarginUnmet "margin-unmet" "etcd survives fewer failures than required" etcd::MARGIN_UNMET;
    ApiUnreachable "api-unreachable" "the Kubernetes API server cannot be reached" api::API_UNREACHABLE;
    ApiNotReady "api-not-ready" "the Kubernetes API server reports not ready" api::API_NOT_READY;
    ApiFrozen "api-frozen" "the API server accepts connections and does not answer" api::API_FROZEN;
    EndpointDownServersReady "endpoint-down-servers-ready" "all API servers are ready, but their common endpoint is not" api::ENDPOINT_DOWN_SERVERS_READY;
    EndpointAddressDead "endpoint-address-dead" "an address of the endpoint's name does not accept connections" api::ENDPOINT_ADDRESS_DEAD;
    Unauthorized "unauthorized" "Kubernetes does not accept the credentials" api::UNAUTHORIZED;
    Forbidden "forbidden" "Kubernetes does not allow the request" api::FORBIDDEN;
    ForbiddenOrStarting "forbidden-or-starting" "Kubernetes does not allow the request, or the API server is still starting" api::FORBIDDEN_OR_STARTING;
    Throttled "throttled" "the API server is overloaded (429)" api::THROTTLED;
    WrongCluster "wrong-cluster" "kubeconfig and talosconfig belong to different clusters" api::WRONG_CLUSTER;
    EndpointBehindProxy "endpoint-behind-proxy" "the endpoint's certificate is not the cluster's own" api::ENDPOINT_BEHIND_PROXY;
    ApiUnreachableFromHere "api-unreachable-from-here" "an API server cannot be reached from this runner, while others can" api::API_UNREACHABLE_FROM_HERE;
    ServerNotDirectlyReachable "server-not-directly-reachable" "the API server cannot be reached from this runner, and nothing else shows that it is alive" api::SERVER_NOT_DIRECTLY_REACHABLE;
    ApiServiceStray "api-service-stray" "the Service of the API servers has an address that no API server has" api::API_SERVICE_STRAY;
    ApiServiceIncomplete "api-service-incomplete" "the Service of the API servers lacks one that is ready" api::API_SERVICE_INCOMPLETE;
    ApiServiceEmpty "api-service-empty" "the Service of the API servers has no ready endpoint" api::API_SERVICE_EMPTY;
    ComponentMissing "component-missing" "a control plane component is missing" workloads::COMPONENT_MISSING;
    ComponentNotReady "component-not-ready" "a control plane component is not ready" workloads::COMPONENT_NOT_READY;
    CrashLooping "crash-looping" "a container is crash-looping" workloads::CRASH_LOOPING;
    Restarting "restarting" "a container has restarted recently" workloads::RESTARTING;
    ForeignLeader "foreign-leader" "the leader runs on no known control plane" workloads::FOREIGN_LEADER;
    NotLeading "not-leading" "no instance of the component holds its lease" workloads::NOT_LEADING;
    ElectionOff "election-off" "an instance acts alongside others without being elected" workloads::ELECTION_OFF;
    VersionSkew "version-skew" "versions differ more than the version skew policy allows" workloads::VERSION_SKEW;
    NodeNotRegistered "node-not-registered" "a Talos node is not a Kubernetes node" kubernetes_nodes::NODE_NOT_REGISTERED;
    NodenameMismatch "nodename-mismatch" "the machine has registered under a different name" kubernetes_nodes::NODENAME_MISMATCH;
    DuplicateName "duplicate-name" "two machines have the same name" kubernetes_nodes::DUPLICATE_NAME;
    NodeAddress "node-address" "an address of the node is not its own" kubernetes_nodes::NODE_ADDRESS;
    PodCidrShared "pod-cidr-shared" "two Nodes have overlapping podCIDRs" kubernetes_nodes::POD_CIDR_SHARED;
    NodeNotReady "node-not-ready" "Kubernetes reports the node as not ready" kubernetes_nodes::NODE_NOT_READY;
    NodeLeaseStale "node-lease-stale" "the kubelet has stopped renewing the node's lease" kubernetes_nodes::NODE_LEASE_STALE;
    NodeFlapping "node-flapping" "the node was not ready between two rounds" kubernetes_nodes::NODE_FLAPPING;
    CniMissing "cni-missing" "no network plugin is installed" kubernetes_nodes::CNI_MISSING;
    NodePressure "node-pressure" "the node is short of a resource, or without network" kubernetes_nodes::NODE_PRESSURE;
    NodeCondition "node-condition" "a node condition reports a problem" kubernetes_nodes::NODE_CONDITION;
    CsrPending "csr-pending" "a kubelet waits for its certificate to be approved" kubernetes_nodes::CSR_PENDING;
    CsrDenied "csr-denied" "a kubelet's certificate request was denied" kubernetes_nodes::CSR_DENIED;
    CsrNotIssued "csr-not-issued" "a kubelet's certificate was approved and not issued" kubernetes_nodes::CSR_NOT_ISSUED;
    CordonedByTalos "cordoned-by-talos" "Talos has cordoned the node" kubernetes_nodes::CORDONED_BY_TALOS;
    Cordoned "cordoned" "the node is cordoned" kubernetes_nodes::CORDONED;
    Uninitialized "uninitialized" "a cloud provider has not initialized the node" kubernetes_nodes::UNINITIALIZED;
    OutOfService "out-of-service" "the node is marked as out of service" kubernetes_nodes::OUT_OF_SERVICE;
    StaleTaint "stale-taint" "a taint has outlived the condition that it stands for" kubernetes_nodes::STALE_TAINT;
    NothingAllocatable "nothing-allocatable" "the node has no allocatable CPU, memory or pods" kubernetes_nodes::NOTHING_ALLOCATABLE;
    NothingSchedulable "nothing-schedulable" "no node takes new pods" kubernetes_nodes::NOTHING_SCHEDULABLE;
    NodeLeaving "node-leaving" "the node is being removed" kubernetes_nodes::NODE_LEAVING;
    NotTalosNotReady "not-talos-not-ready" "a node that is not a Talos machine is not ready" kubernetes_nodes::NOT_TALOS_NOT_READY;
    ManifestsNotApplied "manifests-not-applied" "Talos has not applied bootstrap manifests" workloads::MANIFESTS_NOT_APPLIED;
    DaemonsetIncomplete "daemonset-incomplete" "a DaemonSet does not run on all its nodes" workloads::DAEMONSET_INCOMPLETE;
    DaemonsetMissing "daemonset-missing" "a DaemonSet that the configuration requires is missing" workloads::DAEMONSET_MISSING;
    DnsScaledToZero "dns-scaled-to-zero" "cluster DNS is scaled to zero" workloads::DNS_SCALED_TO_ZERO;
    DnsNoEndpoints "dns-no-endpoints" "cluster DNS has no ready endpoint" workloads::DNS_NO_ENDPOINTS;
    DnsDegraded "dns-degraded" "cluster DNS is degraded" workloads::DNS_DEGRADED;
    DnsMissing "dns-missing" "cluster DNS is not installed" workloads::DNS_MISSING;
    WorkloadUnavailable "workload-unavailable" "no pod of a system workload is available" workloads::WORKLOAD_UNAVAILABLE;
    WorkloadDegraded "workload-degraded" "a system workload has fewer available pods than desired" workloads::WORKLOAD_DEGRADED;
    PodsNotScheduled "pods-not-scheduled" "no scheduler has considered a pod" workloads::PODS_NOT_SCHEDULED;
    NodeCannotAttach "node-cannot-attach" "volumes cannot be attached on the node" workloads::NODE_CANNOT_ATTACH;
    NodeCannotPull "node-cannot-pull" "the node cannot pull images that run on others" workloads::NODE_CANNOT_PULL;
    PodsCannotStart "pods-cannot-start" "the node cannot start pods" workloads::PODS_CANNOT_START;
    WebhookEvicted "webhook-evicted" "a drain evicts every pod behind an admission webhook that fails closed" upgrade::WEBHOOK_EVICTED;
    WebhookUnavailable "webhook-unavailable" "an admission webhook has no ready backend" workloads::WEBHOOK_UNAVAILABLE;
    ConversionUnavailable "conversion-unavailable" "custom resources cannot be converted: their webhook has no ready backend" workloads::CONVERSION_UNAVAILABLE;
    ApiserviceUnavailable "apiservice-unavailable" "an aggregated API is not available" workloads::APISERVICE_UNAVAILABLE;
    StaticPodMissing "static-pod-missing" "a static pod is missing" workloads::STATIC_POD_MISSING;
    StaticPodNotRendered "static-pod-not-rendered" "Talos has not rendered a static pod" workloads::STATIC_POD_NOT_RENDERED;
    StaticPodFailed "static-pod-failed" "a static pod is not ready" workloads::STATIC_POD_FAILED;
    StatusStale "status-stale" "the statuses of the static pods are out of date" workloads::STATUS_STALE;
    TargetUnknown "target-unknown" "cluster-health does not know this version" upgrade::TARGET_UNKNOWN;
    TargetInDevelopment "target-in-development" "the target is a development version" upgrade::TARGET_IN_DEVELOPMENT;
    UpgradePathUnsupported "upgrade-path-unsupported" "there is no supported upgrade from this version to the target" upgrade::UPGRADE_PATH_UNSUPPORTED;
    MinorSkipped "minor-skipped" "the upgrade skips a minor version" upgrade::MINOR_SKIPPED;
    Downgrade "downgrade" "the target is older than the current version" upgrade::DOWNGRADE;
    VersionsIncompatible "versions-incompatible" "these versions of Talos and Kubernetes do not support each other" upgrade::VERSIONS_INCOMPATIBLE;
    EtcdTooOld "etcd-too-old" "etcd is too old for the version that the new Talos brings" upgrade::ETCD_TOO_OLD;
    EtcdImageUnfit "etcd-image-unfit" "the new Talos cannot start the etcd of the machine configuration" upgrade::ETCD_IMAGE_UNFIT;
    EtcdFlagRefused "etcd-flag-refused" "etcd has an argument with which it does not start after the upgrade" upgrade::ETCD_FLAG_REFUSED;
    EtcdDowngrade "etcd-downgrade" "etcd cannot go back to the version that the older Talos brings" upgrade::ETCD_DOWNGRADE;
    RemovedFlag "removed-flag" "a component has a flag that the target refuses" upgrade::REMOVED_FLAG;
    KubeletFlagsUnseen "kubelet-flags-unseen" "the flags of the kubelets were not checked" upgrade::KUBELET_FLAGS_UNSEEN;
    ExtensionsLost "extensions-lost" "the installer image lacks extensions of the machine" upgrade::EXTENSIONS_LOST;
    ImageUnknown "image-unknown" "the installer image's extensions are unknown" upgrade::IMAGE_UNKNOWN;
    RequestsPartlySeen "requests-partly-seen" "the APIs requested from some API servers are unknown" upgrade::REQUESTS_PARTLY_SEEN;
    RemovedApiRequested "removed-api-requested" "an API was requested that the target has removed" upgrade::REMOVED_API_REQUESTED;
    DrainImpossible "drain-impossible" "the cluster cannot evict or replace any pod" upgrade::DRAIN_IMPOSSIBLE;
    EvictionBlocked "eviction-blocked" "a PodDisruptionBudget allows no eviction" upgrade::EVICTION_BLOCKED;
    SeveralBudgets "several-budgets" "a pod is selected by several PodDisruptionBudgets" upgrade::SEVERAL_BUDGETS;
    BudgetStale "budget-stale" "the status of a PodDisruptionBudget is older than its spec" upgrade::BUDGET_STALE;
    BudgetCountsLost "budget-counts-lost" "a PodDisruptionBudget counts pods on nodes that do not work" upgrade::BUDGET_COUNTS_LOST;
    SlowTermination "slow-termination" "a pod takes longer to stop than a drain waits" upgrade::SLOW_TERMINATION;
    QuorumAtRisk "quorum-at-risk" "taking the machine down would cost etcd its quorum" upgrade::QUORUM_AT_RISK;
    LastApiServer "last-api-server" "no other control plane has a working API server" upgrade::LAST_API_SERVER;
    LastComponent "last-component" "no other control plane has a working instance of a component" upgrade::LAST_COMPONENT;
    EndpointOnMachine "endpoint-on-machine" "the Kubernetes endpoint points only at this machine" upgrade::ENDPOINT_ON_MACHINE;
    LastDnsEndpoint "last-dns-endpoint" "all ready endpoints of the cluster DNS are on the machine" upgrade::LAST_DNS_ENDPOINT;
    UnmanagedPod "unmanaged-pod" "a pod has no controller that recreates it" upgrade::UNMANAGED_POD;
    LastReplica "last-replica" "all ready pods of a workload are on the machine" upgrade::LAST_REPLICA;
    LocalData "local-data" "pods keep data in an emptyDir volume" upgrade::LOCAL_DATA;
    LocalVolume "local-volume" "pods have a volume on the machine itself" upgrade::LOCAL_VOLUME;
    PodsDoNotFit "pods-do-not-fit" "the pods of the machine do not fit on the others" upgrade::PODS_DO_NOT_FIT;
    LittleRoom "little-room" "the other machines have little room left" upgrade::LITTLE_ROOM;
    PinnedPod "pinned-pod" "a pod can run on no other machine" upgrade::PINNED_POD;
    VolumeAttached "volume-attached" "volumes are still attached to a machine that was drained" upgrade::VOLUME_ATTACHED;
    ServerCheckFailed "server-check-failed" "the cluster's own health check reports a problem" workloads::SERVER_CHECK_FAILED;
    ServerCheckUnfinished "server-check-unfinished" "the cluster's own health check did not finish" workloads::SERVER_CHECK_UNFINISHED;
    ExtensionMissing "extension-missing" "a system extension that the policy expects is not installed" policy::EXTENSION_MISSING;
    MachineOff "machine-off" "the machine is off, as the policy says" policy::MACHINE_OFF;
    MachineNotOff "machine-not-off" "the machine is not off as the policy says" policy::MACHINE_NOT_OFF;
    ExcuseExpired "excuse-expired" "an excuse of the policy has expired" policy::EXCUSE_EXPIRED;
    ExcuseUnproven "excuse-unproven" "no clock shows that an excuse of the policy still holds" policy::EXCUSE_UNPROVEN;
    AcceptUnused "accept-unused" "the policy accepts a problem that does not exist" policy::ACCEPT_UNUSED;
    AcceptExceeded "accept-exceeded" "more problems match than the policy accepts" policy::ACCEPT_EXCEEDED;
    RequirementUnmet "requirement-unmet" "an object is not as the policy requires" policy::REQUIREMENT_UNMET;
    RequirementProgressing "requirement-progressing" "an object is not yet as the policy requires" policy::REQUIREMENT_PROGRESSING;
    RequirementUnclear "requirement-unclear" "it is unknown whether an object is as the policy requires" policy::REQUIREMENT_UNCLEAR;
    ObjectMissing "object-missing" "an object that the policy requires does not exist" policy::OBJECT_MISSING;
    KindNotServed "kind-not-served" "the API server does not serve what the policy requires" policy::KIND_NOT_SERVED;
    TooManyUnready "too-many-unready" "more workers are not ready than allowed" kubernetes_nodes::TOO_MANY_UNREADY;
    UnreadableAnswer "unreadable-answer" "an answer could not be understood" workloads::UNREADABLE_ANSWER;
    AnswerTooLarge "answer-too-large" "an answer exceeded the size limit" workloads::ANSWER_TOO_LARGE;
    NotSupportedByVersion "not-supported-by-version" "this version of Talos does not report it" workloads::NOT_SUPPORTED_BY_VERSION;
    NotMeasurable "not-measurable" "this machine does not report it" machine::NOT_MEASURABLE;
    NoAnswer "no-answer" "there is no usable answer" workloads::NO_ANSWER;
}

impl Reason {
    pub(crate) fn find(code: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|reason| reason.code() == code)
    }
}

/// Returns the first command that can cost data, quorum or a machine and is not preceded by words about when to run it, or that removes an
/// etcd member without a snapshot before it. Tests apply this to all remedies.
#[cfg(test)]
pub(crate) fn dares_without_a_word(remedy: &[Step]) -> Option<&'static str> {
    const DARING: [&str; 9] = [
        " reset ",
        " remove-member ",
        " bootstrap",
        " defrag",
        " alarm disarm",
        "delete node ",
        " reboot",
        " upgrade",
        "rotate-ca",
    ];
    const TAKES_A_MEMBER: [&str; 2] = [" remove-member ", " reset --system-labels-to-wipe=EPHEMERAL"];
    let has_any = |command: &str, parts: &[&str]| parts.iter().any(|part| command.contains(part));
    let mut condition = None;
    let mut has_snapshot = false;
    remedy.iter().find_map(|step| match step {
        Step::Do(words) => {
            let lower = words.to_ascii_lowercase();
            condition = ["only", "never", "if ", "once "].iter().any(|word| lower.contains(word)).then_some(());
            None
        }
        Step::Look(command) => {
            has_snapshot |= command.contains(" etcd snapshot ");
            None
        }
        Step::Change(command) => {
            let lacks_words = condition.is_none() && has_any(command, &DARING);
            let lacks_snapshot = !has_snapshot && has_any(command, &TAKES_A_MEMBER);
            (lacks_words || lacks_snapshot).then_some(*command)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_dangerous_is_proposed_without_its_condition() {
        for reason in Reason::ALL {
            assert_eq!(dares_without_a_word(reason.text().remedy), None, "{}", reason.code());
        }
    }

    #[test]
    fn every_reason_has_a_text_and_a_way_on() {
        for reason in Reason::ALL {
            let Text { explanation, source, remedy } = reason.text();
            assert!(explanation.len() > 80 && explanation.ends_with('.'), "{}: {explanation}", reason.code());
            assert!(source.title.contains(" documentation, `"), "{}: {source:?}", reason.code());
            assert!(source.address.starts_with("https://"), "{}: {source:?}", reason.code());
            assert!(!remedy.is_empty(), "{}", reason.code());
            // talosctl reads one type at a time.
            let several = |step: &Step| {
                matches!(step, Step::Look(it) if it.split(" get ").nth(1).is_some_and(|it| {
                    it.split(' ').next().is_some_and(|types| types.contains(','))
                }))
            };
            assert!(!remedy.iter().any(several), "{}", reason.code());
            let first_change = remedy.iter().position(|step| matches!(step, Step::Change(_)));
            let first_look = remedy.iter().position(|step| !matches!(step, Step::Change(_)));
            assert!(first_change.is_none_or(|at| first_look.is_some_and(|look| look < at)), "{}", reason.code());
        }
    }
}
