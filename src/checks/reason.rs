//! Reason codes: stable, kebab-case, one table.

/// Makes the enum, its codes and titles from one list.
macro_rules! reasons {
    ($($variant:ident $code:literal $title:literal;)+) => {
        /// Why a target did not pass. The code never changes its meaning.
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

            /// One line for people.
            pub(crate) fn title(self) -> &'static str {
                match self {
                    $(Self::$variant => $title,)+
                }
            }
        }
    };
}

reasons! {
    CertificateExpired "certificate-expired" "a certificate has expired";
    CertificateExpiresSoon "certificate-expires-soon" "a certificate expires soon";
    CertificateNotYetValid "certificate-not-yet-valid" "a certificate is not valid yet";
    ClientAuthMissing "client-auth-missing" "the client certificate is not made for client authentication";
    KeyMismatch "key-mismatch" "the private key does not belong to the certificate";
    RoleTooLow "role-too-low" "the role of the credentials does not allow the call";
    RoleTooLowForThisVersion "role-too-low-for-this-version" "this version of Talos asks for a higher role than later ones do";
    ConfigUnreadable "config-unreadable" "a configuration file cannot be used";
    ContextUnknown "context-unknown" "the configuration has no such context";
    NoKubeconfig "no-kubeconfig" "no usable Kubernetes credentials were found";
    KubeconfigInsecure "kubeconfig-insecure" "the kubeconfig switches off verification of the server";
    ConnectionRefused "connection-refused" "the connection was refused";
    NoRoute "no-route" "there is no route to the host";
    TimedOut "timed-out" "no answer came in time";
    NameNotFound "name-not-found" "the host name does not resolve";
    UnknownCa "unknown-ca" "the server's certificate is signed by another CA";
    NameNotInCertificate "name-not-in-certificate" "the server's certificate is not valid for the address that was dialled";
    ServerCertificateExpired "server-certificate-expired" "the server's certificate is expired or not valid yet";
    ClientCertificateRefused "client-certificate-refused" "the server refused the client certificate";
    EndpointIsWorker "endpoint-is-worker" "the endpoint is a worker, and workers do not forward";
    EndpointIsVip "endpoint-is-vip" "the endpoint is the virtual IP of the Kubernetes API";
    EndpointUnreachable "endpoint-unreachable" "the endpoint does not answer";
    ProxyRefused "proxy-refused" "a proxy on the way refused the connection";
    MaintenanceMode "maintenance-mode" "the node has no machine configuration";
    AnsweredByOtherNode "answered-by-other-node" "another node answered at this node's address";
    NodeUnreachable "node-unreachable" "the endpoint cannot reach the node";
    NodeFrozen "node-frozen" "the node accepts connections and does not answer";
    NodeMissing "node-missing" "a node that was asked for is not there";
    NodeUnexpected "node-unexpected" "a node is there that was not asked for";
    StaleDiscoveryMember "stale-discovery-member" "discovery still lists a node that is gone";
    StaleNodeObject "stale-node-object" "Kubernetes still lists a node that is gone";
    SingleSource "single-source" "only one source tells which nodes there are";
    StageNotRunning "stage-not-running" "the machine is not in stage running";
    ConditionUnmet "condition-unmet" "the machine says that it is not ready";
    ServiceFailed "service-failed" "a Talos service is not running or not healthy";
    ServiceMissing "service-missing" "a Talos service that the node needs is not there";
    ServiceBlocksBoot "service-blocks-boot" "a service holds up the boot sequence";
    KubeletUnhealthy "kubelet-unhealthy" "the kubelet is not running or not healthy";
    NetworkNotReady "network-not-ready" "the machine's network is not ready";
    MemoryTooSmall "memory-too-small" "the machine has less memory than Talos needs";
    DiskTooSmall "disk-too-small" "the machine's disk is smaller than Talos needs";
    DiskNearlyFull "disk-nearly-full" "the machine's disk is nearly full";
    VolumeFailed "volume-failed" "a volume of the machine has failed";
    Diagnostic "diagnostic" "Talos has diagnosed a problem of the machine";
    TimeNotSynced "time-not-synced" "the machine's clock is not synchronised";
    ClockSkew "clock-skew" "the machine's clock is wrong";
    VersionUnexpected "version-unexpected" "the version is not the one that was asked for";
    NeverBootstrapped "never-bootstrapped" "the cluster was never bootstrapped";
    EtcdStarting "etcd-starting" "etcd has not started yet";
    EtcdUnhealthy "etcd-unhealthy" "the etcd member is not healthy";
    QuorumLost "quorum-lost" "etcd has lost its quorum";
    QuorumUnproven "quorum-unproven" "nothing proves that etcd has a quorum";
    LeadersDiffer "leaders-differ" "etcd members do not agree on leader or term";
    LeaderChanges "leader-changes" "etcd's leader changes during the run";
    SplitCluster "split-cluster" "there are two independent etcd clusters";
    MembersDiffer "members-differ" "control planes report different etcd members";
    StaleMember "stale-member" "an etcd member belongs to no control plane";
    NotAMember "not-a-member" "a control plane is not an etcd member";
    MemberJoining "member-joining" "an etcd member was added and has not started";
    Learner "learner" "an etcd member is still a learner";
    AlarmNospace "alarm-nospace" "etcd is out of space and refuses writes";
    AlarmCorrupt "alarm-corrupt" "etcd has found corrupt data";
    AlarmUnknown "alarm-unknown" "etcd has raised an alarm of unknown kind";
    SpaceNearlyFull "space-nearly-full" "an etcd database comes near its quota";
    Fragmented "fragmented" "less than half of an etcd database is in use";
    Lagging "lagging" "an etcd member falls behind";
    VersionsMixed "versions-mixed" "versions differ";
    EvenMembers "even-members" "an even number of voters tolerates no more than one fewer";
    TwoMembers "two-members" "two voters are worse than one";
    NoTolerance "no-tolerance" "etcd cannot lose another member";
    MarginUnmet "margin-unmet" "etcd tolerates fewer losses than required";
    ApiUnreachable "api-unreachable" "the Kubernetes API server cannot be reached";
    ApiNotReady "api-not-ready" "the Kubernetes API server says that it is not ready";
    ApiFrozen "api-frozen" "the API server accepts connections and does not answer";
    EndpointDownServersReady "endpoint-down-servers-ready" "all API servers are ready, their common endpoint is not";
    Unauthorised "unauthorised" "Kubernetes does not accept the credentials";
    Forbidden "forbidden" "Kubernetes does not allow the request";
    ForbiddenOrStarting "forbidden-or-starting" "Kubernetes does not allow the request, or the API server is still starting";
    Throttled "throttled" "the API server asks to come back later";
    WrongCluster "wrong-cluster" "kubeconfig and talosconfig belong to different clusters";
    EndpointBehindProxy "endpoint-behind-proxy" "the endpoint's certificate is not the cluster's own";
    ServerNotDirectlyReachable "server-not-directly-reachable" "the API server cannot be reached from here and nothing else shows that it lives";
    ComponentMissing "component-missing" "a control plane component is not there";
    ComponentNotReady "component-not-ready" "a control plane component is not ready";
    CrashLooping "crash-looping" "a container crashes again and again";
    NotLeading "not-leading" "no instance of the component holds its lease";
    VersionSkew "version-skew" "versions differ more than Kubernetes supports";
    NodeNotRegistered "node-not-registered" "a Talos node is not a Kubernetes node";
    NodeNotReady "node-not-ready" "Kubernetes says that the node is not ready";
    NodeLeaseStale "node-lease-stale" "the kubelet has stopped renewing the node's lease";
    CniMissing "cni-missing" "no network plugin is installed";
    NodePressure "node-pressure" "the node is short of a resource, or without network";
    CsrPending "csr-pending" "a kubelet waits for its certificate to be approved";
    CordonedByTalos "cordoned-by-talos" "Talos has cordoned the node";
    Cordoned "cordoned" "somebody has cordoned the node";
    Uninitialised "uninitialised" "a cloud provider has not initialised the node";
    NodeLeaving "node-leaving" "the node is being removed";
    NotTalosNotReady "not-talos-not-ready" "a node that is not a Talos machine is not ready";
    DaemonsetIncomplete "daemonset-incomplete" "a DaemonSet does not run on all nodes it should";
    DaemonsetMissing "daemonset-missing" "a DaemonSet that the configuration asks for is not there";
    DnsScaledToZero "dns-scaled-to-zero" "cluster DNS is scaled to zero";
    DnsNoEndpoints "dns-no-endpoints" "cluster DNS has no ready endpoint";
    DnsMissing "dns-missing" "cluster DNS is not installed though the configuration asks for it";
    StaticPodMissing "static-pod-missing" "a static pod is not there";
    StaticPodNotRendered "static-pod-not-rendered" "Talos has not rendered a static pod";
    StaticPodFailed "static-pod-failed" "a static pod is not ready";
    StatusStale "status-stale" "the statuses of the static pods are not refreshed";
    ServerCheckFailed "server-check-failed" "the cluster's own health check says that something is wrong";
    ServerCheckUnfinished "server-check-unfinished" "the cluster's own health check did not come to an end";
    TooManyUnready "too-many-unready" "more workers are not ready than allowed";
    UnreadableAnswer "unreadable-answer" "an answer could not be understood";
    AnswerTooLarge "answer-too-large" "an answer was longer than is read";
    NotSupportedByVersion "not-supported-by-version" "this version of Talos does not tell";
    NotMeasurable "not-measurable" "nothing on this machine tells it";
    NoAnswer "no-answer" "the question was asked and not answered";
}

impl Reason {
    pub(crate) fn find(code: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|reason| reason.code() == code)
    }
}
