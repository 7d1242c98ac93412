# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_cluster_health_global_optspecs
    string join \n talosconfig= context= e/endpoints= cluster= no-talos kubeconfig= kube-context= k8s-endpoint= in-cluster no-kubernetes no-kubeconfig-from-talos etcd-endpoints= etcd-cacert= etcd-cert= etcd-key= server control-plane-nodes= worker-nodes= n/nodes= expect-control-planes= expect-workers= expect-talos= expect-kubernetes= max-unready-workers= check= skip= level= wait-timeout= interval= attempt-timeout= stable-for= fail-fast retry-all strict warn-only= require-quorum-margin= allow-empty simple-exit-codes o/output= report= junit-file= junit-granularity= evidence= q/quiet v/verbose color= ci= ascii heartbeat= h/help V/version
end

function __fish_cluster_health_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_cluster_health_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_cluster_health_using_subcommand
    set -l cmd (__fish_cluster_health_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c cluster-health -n "__fish_cluster_health_needs_command" -l talosconfig -d 'talosconfig file [default: TALOSCONFIG, $TALOS_HOME or ~/.talos/config, the pod\'s Talos mount]' -r -F
complete -c cluster-health -n "__fish_cluster_health_needs_command" -l context -d 'Context of the talosconfig' -r
complete -c cluster-health -n "__fish_cluster_health_needs_command" -s e -l endpoints -d 'Talos endpoints (control planes), instead of the context\'s' -r
complete -c cluster-health -n "__fish_cluster_health_needs_command" -l cluster -d 'Cluster name sent to the endpoint, instead of the context\'s' -r
complete -c cluster-health -n "__fish_cluster_health_needs_command" -l kubeconfig -d 'kubeconfig file [default: KUBECONFIG, ~/.kube/config, in-cluster, the Talos API with os:admin]' -r -F
complete -c cluster-health -n "__fish_cluster_health_needs_command" -l kube-context -d 'Context of the kubeconfig' -r
complete -c cluster-health -n "__fish_cluster_health_needs_command" -l k8s-endpoint -d 'Kubernetes endpoint, instead of the kubeconfig\'s server' -r
complete -c cluster-health -n "__fish_cluster_health_needs_command" -l etcd-endpoints -d 'etcd\'s own client URLs, for external etcd or with --no-talos' -r
complete -c cluster-health -n "__fish_cluster_health_needs_command" -l etcd-cacert -d 'CA of etcd\'s serving certificates (PEM)' -r -F
complete -c cluster-health -n "__fish_cluster_health_needs_command" -l etcd-cert -d 'Client certificate for etcd (PEM)' -r -F
complete -c cluster-health -n "__fish_cluster_health_needs_command" -l etcd-key -d 'Client key for etcd (PEM)' -r -F
complete -c cluster-health -n "__fish_cluster_health_needs_command" -l control-plane-nodes -d 'The control planes there should be: addresses or node names' -r
complete -c cluster-health -n "__fish_cluster_health_needs_command" -l worker-nodes -d 'The workers there should be: addresses or node names' -r
complete -c cluster-health -n "__fish_cluster_health_needs_command" -s n -l nodes -d 'Narrow the per-node checks to these nodes; etcd and API checks always cover the cluster' -r
complete -c cluster-health -n "__fish_cluster_health_needs_command" -l expect-control-planes -d 'Fail unless there are exactly N control planes' -r
complete -c cluster-health -n "__fish_cluster_health_needs_command" -l expect-workers -d 'Fail unless there are exactly N workers' -r
complete -c cluster-health -n "__fish_cluster_health_needs_command" -l expect-talos -d 'Fail unless every machine runs this version of Talos, such as v1.13.0' -r
complete -c cluster-health -n "__fish_cluster_health_needs_command" -l expect-kubernetes -d 'Fail unless Kubernetes is of this version everywhere: 1.35.4, or 1.35 for any patch of it' -r
complete -c cluster-health -n "__fish_cluster_health_needs_command" -l max-unready-workers -d 'So many workers may be not ready: a warning instead of a failure' -r
complete -c cluster-health -n "__fish_cluster_health_needs_command" -l check -d 'Run only these checks and what they need: id, prefix (etcd), stage number or glob' -r
complete -c cluster-health -n "__fish_cluster_health_needs_command" -l skip -d 'Leave these checks out; applied after --check' -r
complete -c cluster-health -n "__fish_cluster_health_needs_command" -l level -d 'talos: stages 1-2, etcd: 1-3, api: 1-5 and 7, full: all' -r -f -a "talos\t''
etcd\t''
api\t''
full\t''"
complete -c cluster-health -n "__fish_cluster_health_needs_command" -l wait-timeout -d 'Wait so long for everything to pass, then give up (Go duration: 90s, 5m, 1h30m) [default: one pass, now]' -r
complete -c cluster-health -n "__fish_cluster_health_needs_command" -l interval -d 'Time between the starts of rounds' -r
complete -c cluster-health -n "__fish_cluster_health_needs_command" -l attempt-timeout -d 'Bounds a round; each call gets at most half of it' -r
complete -c cluster-health -n "__fish_cluster_health_needs_command" -l stable-for -d 'Succeed only when everything has passed for so long; needs a longer --wait-timeout' -r
complete -c cluster-health -n "__fish_cluster_health_needs_command" -l warn-only -d 'Failures of these checks only warn' -r
complete -c cluster-health -n "__fish_cluster_health_needs_command" -l require-quorum-margin -d 'Fail unless etcd can lose so many members' -r
complete -c cluster-health -n "__fish_cluster_health_needs_command" -s o -l output -d 'Form of the result on stdout' -r -f -a "text\t'For people: the verdict, each stage, and at the end what is wrong'
json\t'One document with everything, described by a schema'
ndjson\t'One event a line, as it happens; the last has the JSON document'
junit\t'XML for test viewers: GitLab, Jenkins, GitHub actions'
tap\t'TAP 14 for test harnesses'
markdown\t'For step summaries, merge requests and issues'
html\t'One page with everything, for a browser: artefacts of CI jobs, tickets'
prometheus\t'Metrics for the textfile collector of node-exporter'"
complete -c cluster-health -n "__fish_cluster_health_needs_command" -l report -d 'Also write a report to a file, in a format of --output; repeatable' -r
complete -c cluster-health -n "__fish_cluster_health_needs_command" -l junit-file -d 'The same as --report junit=PATH' -r -F
complete -c cluster-health -n "__fish_cluster_health_needs_command" -l junit-granularity -d 'What is a test case of the JUnit report' -r -f -a "check\t'Each check: the same names however many nodes there are'
node\t'Each check of each node, `ID [NODE]`, and each check for what belongs to no node'"
complete -c cluster-health -n "__fish_cluster_health_needs_command" -l evidence -d 'Read what may tell why: the last lines of the logs of failed services and static pods' -r -f -a "logs\t'Files with it are readable by their owner alone'"
complete -c cluster-health -n "__fish_cluster_health_needs_command" -l color -d 'Colour of text' -r -f -a "auto\t''
always\t''
never\t''"
complete -c cluster-health -n "__fish_cluster_health_needs_command" -l ci -d 'Also speak to a CI system: GitHub annotations and step summary, GitLab sections' -r -f -a "auto\t'The one in which the program runs'
github\t''
gitlab\t''
none\t''"
complete -c cluster-health -n "__fish_cluster_health_needs_command" -l heartbeat -d 'A line of progress at least so often' -r
complete -c cluster-health -n "__fish_cluster_health_needs_command" -l no-talos -d 'Judge Kubernetes alone: no talosconfig, stages 1 and 2 skipped'
complete -c cluster-health -n "__fish_cluster_health_needs_command" -l in-cluster -d 'Use the pod\'s service account for Kubernetes'
complete -c cluster-health -n "__fish_cluster_health_needs_command" -l no-kubernetes -d 'Judge Talos and etcd alone: nothing is asked of Kubernetes'
complete -c cluster-health -n "__fish_cluster_health_needs_command" -l no-kubeconfig-from-talos -d 'Never fetch a kubeconfig through the Talos API (it mints a cluster-admin certificate)'
complete -c cluster-health -n "__fish_cluster_health_needs_command" -l server -d 'Also ask the cluster\'s own health check, as a second opinion (needs os:admin)'
complete -c cluster-health -n "__fish_cluster_health_needs_command" -l fail-fast -d 'End at the first problem that waiting will not change'
complete -c cluster-health -n "__fish_cluster_health_needs_command" -l retry-all -d 'Keep waiting even when waiting cannot help'
complete -c cluster-health -n "__fish_cluster_health_needs_command" -l strict -d 'Warnings fail'
complete -c cluster-health -n "__fish_cluster_health_needs_command" -l allow-empty -d 'A selection that checks nothing is no error'
complete -c cluster-health -n "__fish_cluster_health_needs_command" -l simple-exit-codes -d 'Exit with 0 or 1 only'
complete -c cluster-health -n "__fish_cluster_health_needs_command" -s q -l quiet -d 'No progress on stderr'
complete -c cluster-health -n "__fish_cluster_health_needs_command" -s v -l verbose -d 'More progress on stderr; text and Markdown fold nothing'
complete -c cluster-health -n "__fish_cluster_health_needs_command" -l ascii -d 'Only ASCII in progress and text; so it is in a locale that is not UTF-8'
complete -c cluster-health -n "__fish_cluster_health_needs_command" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c cluster-health -n "__fish_cluster_health_needs_command" -s V -l version -d 'Print version'
complete -c cluster-health -n "__fish_cluster_health_needs_command" -f -a "list" -d 'Every check: id, stage, severity, prerequisites, what it reads'
complete -c cluster-health -n "__fish_cluster_health_needs_command" -f -a "explain" -d 'What a check measures, what a reason code or a diagnosis means, why, and what to do; works offline'
complete -c cluster-health -n "__fish_cluster_health_needs_command" -f -a "schema" -d 'The JSON schema of the report and of NDJSON events'
complete -c cluster-health -n "__fish_cluster_health_needs_command" -f -a "completions" -d 'A completion script for a shell'
complete -c cluster-health -n "__fish_cluster_health_needs_command" -f -a "man" -d 'The manual page (roff)'
complete -c cluster-health -n "__fish_cluster_health_needs_command" -f -a "version" -d 'Version and build of this program'
complete -c cluster-health -n "__fish_cluster_health_needs_command" -f -a "rbac" -d 'The least-privilege ClusterRole that the Kubernetes checks need'
complete -c cluster-health -n "__fish_cluster_health_using_subcommand list" -s o -l output -d 'Form of the list' -r -f -a "text\t''
json\t''"
complete -c cluster-health -n "__fish_cluster_health_using_subcommand list" -s h -l help -d 'Print help'
complete -c cluster-health -n "__fish_cluster_health_using_subcommand explain" -s h -l help -d 'Print help'
complete -c cluster-health -n "__fish_cluster_health_using_subcommand schema" -s h -l help -d 'Print help'
complete -c cluster-health -n "__fish_cluster_health_using_subcommand completions" -s h -l help -d 'Print help'
complete -c cluster-health -n "__fish_cluster_health_using_subcommand man" -s h -l help -d 'Print help'
complete -c cluster-health -n "__fish_cluster_health_using_subcommand version" -s o -l output -r -f -a "text\t''
json\t''"
complete -c cluster-health -n "__fish_cluster_health_using_subcommand version" -s h -l help -d 'Print help'
complete -c cluster-health -n "__fish_cluster_health_using_subcommand rbac" -s h -l help -d 'Print help'
