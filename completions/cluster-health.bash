_cluster__health() {
    local i cur prev opts cmd
    COMPREPLY=()
    if [[ "${BASH_VERSINFO[0]}" -ge 4 ]]; then
        cur="$2"
    else
        cur="${COMP_WORDS[COMP_CWORD]}"
    fi
    prev="$3"
    cmd=""
    opts=""

    for i in "${COMP_WORDS[@]:0:COMP_CWORD}"
    do
        case "${cmd},${i}" in
            ",$1")
                cmd="cluster__health"
                ;;
            cluster__health,check)
                cmd="cluster__health__subcmd__check"
                ;;
            cluster__health,completions)
                cmd="cluster__health__subcmd__completions"
                ;;
            cluster__health,explain)
                cmd="cluster__health__subcmd__explain"
                ;;
            cluster__health,help)
                cmd="cluster__health__subcmd__help"
                ;;
            cluster__health,list)
                cmd="cluster__health__subcmd__list"
                ;;
            cluster__health,man)
                cmd="cluster__health__subcmd__man"
                ;;
            cluster__health,rbac)
                cmd="cluster__health__subcmd__rbac"
                ;;
            cluster__health,schema)
                cmd="cluster__health__subcmd__schema"
                ;;
            cluster__health,version)
                cmd="cluster__health__subcmd__version"
                ;;
            cluster__health__subcmd__help,check)
                cmd="cluster__health__subcmd__help__subcmd__check"
                ;;
            cluster__health__subcmd__help,completions)
                cmd="cluster__health__subcmd__help__subcmd__completions"
                ;;
            cluster__health__subcmd__help,explain)
                cmd="cluster__health__subcmd__help__subcmd__explain"
                ;;
            cluster__health__subcmd__help,help)
                cmd="cluster__health__subcmd__help__subcmd__help"
                ;;
            cluster__health__subcmd__help,list)
                cmd="cluster__health__subcmd__help__subcmd__list"
                ;;
            cluster__health__subcmd__help,man)
                cmd="cluster__health__subcmd__help__subcmd__man"
                ;;
            cluster__health__subcmd__help,rbac)
                cmd="cluster__health__subcmd__help__subcmd__rbac"
                ;;
            cluster__health__subcmd__help,schema)
                cmd="cluster__health__subcmd__help__subcmd__schema"
                ;;
            cluster__health__subcmd__help,version)
                cmd="cluster__health__subcmd__help__subcmd__version"
                ;;
            *)
                ;;
        esac
    done

    case "${cmd}" in
        cluster__health)
            opts="-e -n -o -q -v -h -V --talosconfig --context --endpoints --cluster --no-talos --kubeconfig --kube-context --k8s-endpoint --in-cluster --no-kubernetes --no-kubeconfig-from-talos --etcd-endpoints --etcd-cacert --etcd-cert --etcd-key --server --control-plane-nodes --worker-nodes --nodes --expect-control-planes --expect-workers --expect-talos --expect-kubernetes --max-unready-workers --level --wait-timeout --interval --attempt-timeout --stable-for --fail-fast --retry-all --strict --require-quorum-margin --fail-on-node-condition --allow-empty --simple-exit-codes --output --report --junit-file --junit-granularity --evidence --quiet --verbose --color --ci --ascii --heartbeat --check --skip --fail-on --warn-only --help --version check list schema completions man version rbac explain help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 1 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                --talosconfig)
                    local oldifs
                    if [ -n "${IFS+x}" ]; then
                        oldifs="$IFS"
                    fi
                    IFS=$'\n'
                    COMPREPLY=($(compgen -f "${cur}"))
                    if [ -n "${oldifs+x}" ]; then
                        IFS="$oldifs"
                    fi
                    if [[ "${BASH_VERSINFO[0]}" -ge 4 ]]; then
                        compopt -o filenames
                    fi
                    return 0
                    ;;
                --context)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --endpoints)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                -e)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --cluster)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --kubeconfig)
                    local oldifs
                    if [ -n "${IFS+x}" ]; then
                        oldifs="$IFS"
                    fi
                    IFS=$'\n'
                    COMPREPLY=($(compgen -f "${cur}"))
                    if [ -n "${oldifs+x}" ]; then
                        IFS="$oldifs"
                    fi
                    if [[ "${BASH_VERSINFO[0]}" -ge 4 ]]; then
                        compopt -o filenames
                    fi
                    return 0
                    ;;
                --kube-context)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --k8s-endpoint)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --etcd-endpoints)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --etcd-cacert)
                    local oldifs
                    if [ -n "${IFS+x}" ]; then
                        oldifs="$IFS"
                    fi
                    IFS=$'\n'
                    COMPREPLY=($(compgen -f "${cur}"))
                    if [ -n "${oldifs+x}" ]; then
                        IFS="$oldifs"
                    fi
                    if [[ "${BASH_VERSINFO[0]}" -ge 4 ]]; then
                        compopt -o filenames
                    fi
                    return 0
                    ;;
                --etcd-cert)
                    local oldifs
                    if [ -n "${IFS+x}" ]; then
                        oldifs="$IFS"
                    fi
                    IFS=$'\n'
                    COMPREPLY=($(compgen -f "${cur}"))
                    if [ -n "${oldifs+x}" ]; then
                        IFS="$oldifs"
                    fi
                    if [[ "${BASH_VERSINFO[0]}" -ge 4 ]]; then
                        compopt -o filenames
                    fi
                    return 0
                    ;;
                --etcd-key)
                    local oldifs
                    if [ -n "${IFS+x}" ]; then
                        oldifs="$IFS"
                    fi
                    IFS=$'\n'
                    COMPREPLY=($(compgen -f "${cur}"))
                    if [ -n "${oldifs+x}" ]; then
                        IFS="$oldifs"
                    fi
                    if [[ "${BASH_VERSINFO[0]}" -ge 4 ]]; then
                        compopt -o filenames
                    fi
                    return 0
                    ;;
                --control-plane-nodes)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --worker-nodes)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --nodes)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                -n)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --expect-control-planes)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --expect-workers)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --expect-talos)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --expect-kubernetes)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --max-unready-workers)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --level)
                    COMPREPLY=($(compgen -W "talos etcd api full" -- "${cur}"))
                    return 0
                    ;;
                --wait-timeout)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --interval)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --attempt-timeout)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --stable-for)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --require-quorum-margin)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --fail-on-node-condition)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --output)
                    COMPREPLY=($(compgen -W "text json ndjson junit tap markdown html prometheus" -- "${cur}"))
                    return 0
                    ;;
                -o)
                    COMPREPLY=($(compgen -W "text json ndjson junit tap markdown html prometheus" -- "${cur}"))
                    return 0
                    ;;
                --report)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --junit-file)
                    local oldifs
                    if [ -n "${IFS+x}" ]; then
                        oldifs="$IFS"
                    fi
                    IFS=$'\n'
                    COMPREPLY=($(compgen -f "${cur}"))
                    if [ -n "${oldifs+x}" ]; then
                        IFS="$oldifs"
                    fi
                    if [[ "${BASH_VERSINFO[0]}" -ge 4 ]]; then
                        compopt -o filenames
                    fi
                    return 0
                    ;;
                --junit-granularity)
                    COMPREPLY=($(compgen -W "check node" -- "${cur}"))
                    return 0
                    ;;
                --evidence)
                    COMPREPLY=($(compgen -W "logs" -- "${cur}"))
                    return 0
                    ;;
                --color)
                    COMPREPLY=($(compgen -W "auto always never" -- "${cur}"))
                    return 0
                    ;;
                --ci)
                    COMPREPLY=($(compgen -W "auto github gitlab none" -- "${cur}"))
                    return 0
                    ;;
                --heartbeat)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --check)
                    COMPREPLY=($(compgen -W "talos.credentials talos.endpoints talos.nodes.reachable talos.nodes.expected talos.versions talos.time talos.nodes.booted talos.nodes.ready talos.nodes.services talos.nodes.kubelet talos.nodes.kubelet-certificate talos.nodes.network talos.nodes.memory talos.nodes.disk talos.nodes.diagnostics etcd.service etcd.quorum etcd.leader etcd.members.consistent etcd.members.nodes etcd.learners etcd.alarms etcd.space etcd.lag etcd.tolerance etcd.versions k8s.credentials k8s.api.endpoint k8s.api.servers k8s.api.identity k8s.api.certificates k8s.controlplane.apiserver k8s.controlplane.controller-manager k8s.controlplane.scheduler k8s.controlplane.leases k8s.controlplane.versions k8s.nodes.registered k8s.nodes.ready k8s.nodes.pressure k8s.nodes.conditions k8s.nodes.schedulable k8s.nodes.csrs k8s.kube-proxy k8s.dns k8s.cni k8s.system k8s.pods.starting k8s.webhooks k8s.apiservices k8s.staticpods.rendered k8s.staticpods.running talos.server" -- "${cur}"))
                    return 0
                    ;;
                --skip)
                    COMPREPLY=($(compgen -W "talos.credentials talos.endpoints talos.nodes.reachable talos.nodes.expected talos.versions talos.time talos.nodes.booted talos.nodes.ready talos.nodes.services talos.nodes.kubelet talos.nodes.kubelet-certificate talos.nodes.network talos.nodes.memory talos.nodes.disk talos.nodes.diagnostics etcd.service etcd.quorum etcd.leader etcd.members.consistent etcd.members.nodes etcd.learners etcd.alarms etcd.space etcd.lag etcd.tolerance etcd.versions k8s.credentials k8s.api.endpoint k8s.api.servers k8s.api.identity k8s.api.certificates k8s.controlplane.apiserver k8s.controlplane.controller-manager k8s.controlplane.scheduler k8s.controlplane.leases k8s.controlplane.versions k8s.nodes.registered k8s.nodes.ready k8s.nodes.pressure k8s.nodes.conditions k8s.nodes.schedulable k8s.nodes.csrs k8s.kube-proxy k8s.dns k8s.cni k8s.system k8s.pods.starting k8s.webhooks k8s.apiservices k8s.staticpods.rendered k8s.staticpods.running talos.server" -- "${cur}"))
                    return 0
                    ;;
                --fail-on)
                    COMPREPLY=($(compgen -W "talos.credentials talos.endpoints talos.nodes.reachable talos.nodes.expected talos.versions talos.time talos.nodes.booted talos.nodes.ready talos.nodes.services talos.nodes.kubelet talos.nodes.kubelet-certificate talos.nodes.network talos.nodes.memory talos.nodes.disk talos.nodes.diagnostics etcd.service etcd.quorum etcd.leader etcd.members.consistent etcd.members.nodes etcd.learners etcd.alarms etcd.space etcd.lag etcd.tolerance etcd.versions k8s.credentials k8s.api.endpoint k8s.api.servers k8s.api.identity k8s.api.certificates k8s.controlplane.apiserver k8s.controlplane.controller-manager k8s.controlplane.scheduler k8s.controlplane.leases k8s.controlplane.versions k8s.nodes.registered k8s.nodes.ready k8s.nodes.pressure k8s.nodes.conditions k8s.nodes.schedulable k8s.nodes.csrs k8s.kube-proxy k8s.dns k8s.cni k8s.system k8s.pods.starting k8s.webhooks k8s.apiservices k8s.staticpods.rendered k8s.staticpods.running talos.server certificate-expired certificate-expires-soon certificate-not-yet-valid client-auth-missing key-mismatch role-too-low role-too-low-for-this-version config-unreadable context-unknown no-kubeconfig kubeconfig-insecure connection-refused no-route timed-out name-not-found unknown-ca name-not-in-certificate server-certificate-expired client-certificate-refused endpoint-is-worker endpoint-is-vip endpoint-cut-off endpoint-unreachable proxy-refused maintenance-mode answered-by-other-node node-unreachable node-frozen node-missing node-unexpected stale-discovery-member stale-node-object single-source stage-not-running reboot-loop condition-unmet service-failed service-missing service-blocks-boot kubelet-unhealthy network-not-ready kubespan-peer-down kubeprism-unhealthy memory-too-small disk-too-small disk-nearly-full volume-failed diagnostic time-not-synced clock-skew version-unexpected never-bootstrapped etcd-starting etcd-unhealthy etcd-access-denied quorum-lost quorum-unproven leaders-differ leader-changes split-cluster foreign-etcd members-differ stale-member not-a-member member-joining learner alarm-nospace alarm-corrupt alarm-unknown space-nearly-full fragmented lagging versions-mixed even-members two-members no-tolerance margin-unmet api-unreachable api-not-ready api-frozen endpoint-down-servers-ready unauthorized forbidden forbidden-or-starting throttled wrong-cluster endpoint-behind-proxy api-unreachable-from-here server-not-directly-reachable component-missing component-not-ready crash-looping restarting not-leading election-off version-skew node-not-registered nodename-mismatch duplicate-name node-address node-not-ready node-lease-stale cni-missing node-pressure node-condition csr-pending cordoned-by-talos cordoned uninitialized nothing-schedulable node-leaving not-talos-not-ready daemonset-incomplete daemonset-missing dns-scaled-to-zero dns-no-endpoints dns-degraded dns-missing workload-unavailable workload-degraded pods-cannot-start webhook-unavailable apiservice-unavailable static-pod-missing static-pod-not-rendered static-pod-failed status-stale server-check-failed server-check-unfinished too-many-unready unreadable-answer answer-too-large not-supported-by-version not-measurable no-answer" -- "${cur}"))
                    return 0
                    ;;
                --warn-only)
                    COMPREPLY=($(compgen -W "talos.credentials talos.endpoints talos.nodes.reachable talos.nodes.expected talos.versions talos.time talos.nodes.booted talos.nodes.ready talos.nodes.services talos.nodes.kubelet talos.nodes.kubelet-certificate talos.nodes.network talos.nodes.memory talos.nodes.disk talos.nodes.diagnostics etcd.service etcd.quorum etcd.leader etcd.members.consistent etcd.members.nodes etcd.learners etcd.alarms etcd.space etcd.lag etcd.tolerance etcd.versions k8s.credentials k8s.api.endpoint k8s.api.servers k8s.api.identity k8s.api.certificates k8s.controlplane.apiserver k8s.controlplane.controller-manager k8s.controlplane.scheduler k8s.controlplane.leases k8s.controlplane.versions k8s.nodes.registered k8s.nodes.ready k8s.nodes.pressure k8s.nodes.conditions k8s.nodes.schedulable k8s.nodes.csrs k8s.kube-proxy k8s.dns k8s.cni k8s.system k8s.pods.starting k8s.webhooks k8s.apiservices k8s.staticpods.rendered k8s.staticpods.running talos.server certificate-expired certificate-expires-soon certificate-not-yet-valid client-auth-missing key-mismatch role-too-low role-too-low-for-this-version config-unreadable context-unknown no-kubeconfig kubeconfig-insecure connection-refused no-route timed-out name-not-found unknown-ca name-not-in-certificate server-certificate-expired client-certificate-refused endpoint-is-worker endpoint-is-vip endpoint-cut-off endpoint-unreachable proxy-refused maintenance-mode answered-by-other-node node-unreachable node-frozen node-missing node-unexpected stale-discovery-member stale-node-object single-source stage-not-running reboot-loop condition-unmet service-failed service-missing service-blocks-boot kubelet-unhealthy network-not-ready kubespan-peer-down kubeprism-unhealthy memory-too-small disk-too-small disk-nearly-full volume-failed diagnostic time-not-synced clock-skew version-unexpected never-bootstrapped etcd-starting etcd-unhealthy etcd-access-denied quorum-lost quorum-unproven leaders-differ leader-changes split-cluster foreign-etcd members-differ stale-member not-a-member member-joining learner alarm-nospace alarm-corrupt alarm-unknown space-nearly-full fragmented lagging versions-mixed even-members two-members no-tolerance margin-unmet api-unreachable api-not-ready api-frozen endpoint-down-servers-ready unauthorized forbidden forbidden-or-starting throttled wrong-cluster endpoint-behind-proxy api-unreachable-from-here server-not-directly-reachable component-missing component-not-ready crash-looping restarting not-leading election-off version-skew node-not-registered nodename-mismatch duplicate-name node-address node-not-ready node-lease-stale cni-missing node-pressure node-condition csr-pending cordoned-by-talos cordoned uninitialized nothing-schedulable node-leaving not-talos-not-ready daemonset-incomplete daemonset-missing dns-scaled-to-zero dns-no-endpoints dns-degraded dns-missing workload-unavailable workload-degraded pods-cannot-start webhook-unavailable apiservice-unavailable static-pod-missing static-pod-not-rendered static-pod-failed status-stale server-check-failed server-check-unfinished too-many-unready unreadable-answer answer-too-large not-supported-by-version not-measurable no-answer" -- "${cur}"))
                    return 0
                    ;;
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        cluster__subcmd__health__subcmd__check)
            opts="-h --help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 2 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        cluster__subcmd__health__subcmd__completions)
            opts="-h --help bash elvish fish powershell zsh"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 2 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        cluster__subcmd__health__subcmd__explain)
            opts="-h --help talos.credentials talos.endpoints talos.nodes.reachable talos.nodes.expected talos.versions talos.time talos.nodes.booted talos.nodes.ready talos.nodes.services talos.nodes.kubelet talos.nodes.kubelet-certificate talos.nodes.network talos.nodes.memory talos.nodes.disk talos.nodes.diagnostics etcd.service etcd.quorum etcd.leader etcd.members.consistent etcd.members.nodes etcd.learners etcd.alarms etcd.space etcd.lag etcd.tolerance etcd.versions k8s.credentials k8s.api.endpoint k8s.api.servers k8s.api.identity k8s.api.certificates k8s.controlplane.apiserver k8s.controlplane.controller-manager k8s.controlplane.scheduler k8s.controlplane.leases k8s.controlplane.versions k8s.nodes.registered k8s.nodes.ready k8s.nodes.pressure k8s.nodes.conditions k8s.nodes.schedulable k8s.nodes.csrs k8s.kube-proxy k8s.dns k8s.cni k8s.system k8s.pods.starting k8s.webhooks k8s.apiservices k8s.staticpods.rendered k8s.staticpods.running talos.server certificate-expired certificate-expires-soon certificate-not-yet-valid client-auth-missing key-mismatch role-too-low role-too-low-for-this-version config-unreadable context-unknown no-kubeconfig kubeconfig-insecure connection-refused no-route timed-out name-not-found unknown-ca name-not-in-certificate server-certificate-expired client-certificate-refused endpoint-is-worker endpoint-is-vip endpoint-cut-off endpoint-unreachable proxy-refused maintenance-mode answered-by-other-node node-unreachable node-frozen node-missing node-unexpected stale-discovery-member stale-node-object single-source stage-not-running reboot-loop condition-unmet service-failed service-missing service-blocks-boot kubelet-unhealthy network-not-ready kubespan-peer-down kubeprism-unhealthy memory-too-small disk-too-small disk-nearly-full volume-failed diagnostic time-not-synced clock-skew version-unexpected never-bootstrapped etcd-starting etcd-unhealthy etcd-access-denied quorum-lost quorum-unproven leaders-differ leader-changes split-cluster foreign-etcd members-differ stale-member not-a-member member-joining learner alarm-nospace alarm-corrupt alarm-unknown space-nearly-full fragmented lagging versions-mixed even-members two-members no-tolerance margin-unmet api-unreachable api-not-ready api-frozen endpoint-down-servers-ready unauthorized forbidden forbidden-or-starting throttled wrong-cluster endpoint-behind-proxy api-unreachable-from-here server-not-directly-reachable component-missing component-not-ready crash-looping restarting not-leading election-off version-skew node-not-registered nodename-mismatch duplicate-name node-address node-not-ready node-lease-stale cni-missing node-pressure node-condition csr-pending cordoned-by-talos cordoned uninitialized nothing-schedulable node-leaving not-talos-not-ready daemonset-incomplete daemonset-missing dns-scaled-to-zero dns-no-endpoints dns-degraded dns-missing workload-unavailable workload-degraded pods-cannot-start webhook-unavailable apiservice-unavailable static-pod-missing static-pod-not-rendered static-pod-failed status-stale server-check-failed server-check-unfinished too-many-unready unreadable-answer answer-too-large not-supported-by-version not-measurable no-answer credentials-expired talosconfig-of-another-cluster kubeconfig-of-another-cluster worker-as-endpoint talos-role-insufficient kubernetes-rights-missing etcd-rights-missing certificate-renewal-broken machine-unconfigured machine-going-down node-removed-but-listed autoscaler-removes-nodes node-certificate-refused node-down node-hangs talos-api-cut-off clock-not-synchronized cluster-not-bootstrapped bootstrapped-twice boot-held-up etcd-out-of-space etcd-data-corrupt etcd-quorum-lost etcd-member-stuck-joining etcd-member-without-machine etcd-member-removed etcd-member-never-started etcd-endpoint-mute etcd-member-down kubelet-not-running kubelet-certificate-unapproved component-crash-looping load-balancer-down api-server-down network-plugin-missing dns-switched-off dns-crash-looping upgrade-half-done"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 2 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        cluster__subcmd__health__subcmd__help)
            opts="check list schema completions man version rbac explain help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 2 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        cluster__subcmd__health__subcmd__help__subcmd__check)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 3 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        cluster__subcmd__health__subcmd__help__subcmd__completions)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 3 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        cluster__subcmd__health__subcmd__help__subcmd__explain)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 3 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        cluster__subcmd__health__subcmd__help__subcmd__help)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 3 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        cluster__subcmd__health__subcmd__help__subcmd__list)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 3 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        cluster__subcmd__health__subcmd__help__subcmd__man)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 3 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        cluster__subcmd__health__subcmd__help__subcmd__rbac)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 3 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        cluster__subcmd__health__subcmd__help__subcmd__schema)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 3 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        cluster__subcmd__health__subcmd__help__subcmd__version)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 3 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        cluster__subcmd__health__subcmd__list)
            opts="-o -h --reasons --causes --output --help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 2 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                --output)
                    COMPREPLY=($(compgen -W "text json" -- "${cur}"))
                    return 0
                    ;;
                -o)
                    COMPREPLY=($(compgen -W "text json" -- "${cur}"))
                    return 0
                    ;;
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        cluster__subcmd__health__subcmd__man)
            opts="-h --help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 2 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        cluster__subcmd__health__subcmd__rbac)
            opts="-h --help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 2 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        cluster__subcmd__health__subcmd__schema)
            opts="-h --help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 2 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        cluster__subcmd__health__subcmd__version)
            opts="-o -h --output --help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 2 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                --output)
                    COMPREPLY=($(compgen -W "text json" -- "${cur}"))
                    return 0
                    ;;
                -o)
                    COMPREPLY=($(compgen -W "text json" -- "${cur}"))
                    return 0
                    ;;
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
    esac
}

if [[ "${BASH_VERSINFO[0]}" -eq 4 && "${BASH_VERSINFO[1]}" -ge 4 || "${BASH_VERSINFO[0]}" -gt 4 ]]; then
    complete -F _cluster__health -o nosort -o bashdefault -o default cluster-health
else
    complete -F _cluster__health -o bashdefault -o default cluster-health
fi
