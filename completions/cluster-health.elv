
use builtin;
use str;

set edit:completion:arg-completer[cluster-health] = {|@words|
    fn spaces {|n|
        builtin:repeat $n ' ' | str:join ''
    }
    fn cand {|text desc|
        edit:complex-candidate $text &display=$text' '(spaces (- 14 (wcswidth $text)))$desc
    }
    var command = 'cluster-health'
    for word $words[1..-1] {
        if (str:has-prefix $word '-') {
            break
        }
        set command = $command';'$word
    }
    var completions = [
        &'cluster-health'= {
            cand --talosconfig 'talosconfig file [default: TALOSCONFIG, $TALOS_HOME or ~/.talos/config, the pod''s Talos mount]'
            cand --context 'Context of the talosconfig'
            cand -e 'Talos endpoints (control planes), instead of the context''s'
            cand --endpoints 'Talos endpoints (control planes), instead of the context''s'
            cand --cluster 'Cluster name sent to the endpoint, instead of the context''s'
            cand --kubeconfig 'kubeconfig file [default: KUBECONFIG, ~/.kube/config, in-cluster, the Talos API with os:admin]'
            cand --kube-context 'Context of the kubeconfig'
            cand --k8s-endpoint 'Kubernetes endpoint, instead of the kubeconfig''s server'
            cand --etcd-endpoints 'etcd''s own client URLs, for external etcd or with --no-talos'
            cand --etcd-cacert 'CA of etcd''s serving certificates (PEM)'
            cand --etcd-cert 'Client certificate for etcd (PEM)'
            cand --etcd-key 'Client key for etcd (PEM)'
            cand --control-plane-nodes 'The control planes there should be: addresses or node names'
            cand --worker-nodes 'The workers there should be: addresses or node names'
            cand -n 'Narrow the per-node checks to these nodes; etcd and API checks always cover the cluster'
            cand --nodes 'Narrow the per-node checks to these nodes; etcd and API checks always cover the cluster'
            cand --expect-control-planes 'Fail unless there are exactly N control planes'
            cand --expect-workers 'Fail unless there are exactly N workers'
            cand --expect-talos 'Fail unless every machine runs this version of Talos, such as v1.13.0'
            cand --expect-kubernetes 'Fail unless Kubernetes is of this version everywhere: 1.35.4, or 1.35 for any patch of it'
            cand --max-unready-workers 'So many workers may be not ready: a warning instead of a failure'
            cand --check 'Run only these checks and what they need: id, prefix (etcd), stage number or glob'
            cand --skip 'Leave these checks out; applied after --check'
            cand --level 'talos: stages 1-2, etcd: 1-3, api: 1-5 and 7, full: all'
            cand --wait-timeout 'Wait so long for everything to pass, then give up (Go duration: 90s, 5m, 1h30m) [default: one pass, now]'
            cand --interval 'Time between the starts of rounds'
            cand --attempt-timeout 'Bounds a round; each call gets at most half of it'
            cand --stable-for 'Succeed only when everything has passed for so long; needs a longer --wait-timeout'
            cand --warn-only 'Failures of these checks only warn'
            cand --require-quorum-margin 'Fail unless etcd can lose so many members'
            cand -o 'Form of the result on stdout'
            cand --output 'Form of the result on stdout'
            cand --report 'Also write a report to a file, in a format of --output; repeatable'
            cand --junit-file 'The same as --report junit=PATH'
            cand --junit-granularity 'What is a test case of the JUnit report'
            cand --evidence 'Read what may tell why: the last lines of the logs of failed services and static pods'
            cand --color 'Colour of text'
            cand --ci 'Also speak to a CI system: GitHub annotations and step summary, GitLab sections'
            cand --heartbeat 'A line of progress at least so often'
            cand --no-talos 'Judge Kubernetes alone: no talosconfig, stages 1 and 2 skipped'
            cand --in-cluster 'Use the pod''s service account for Kubernetes'
            cand --no-kubernetes 'Judge Talos and etcd alone: nothing is asked of Kubernetes'
            cand --no-kubeconfig-from-talos 'Never fetch a kubeconfig through the Talos API (it mints a cluster-admin certificate)'
            cand --server 'Also ask the cluster''s own health check, as a second opinion (needs os:admin)'
            cand --fail-fast 'End at the first problem that waiting will not change'
            cand --retry-all 'Keep waiting even when waiting cannot help'
            cand --strict 'Warnings fail'
            cand --allow-empty 'A selection that checks nothing is no error'
            cand --simple-exit-codes 'Exit with 0 or 1 only'
            cand -q 'No progress on stderr'
            cand --quiet 'No progress on stderr'
            cand -v 'More progress on stderr; text and Markdown fold nothing'
            cand --verbose 'More progress on stderr; text and Markdown fold nothing'
            cand --ascii 'Only ASCII in progress and text; so it is in a locale that is not UTF-8'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
            cand -V 'Print version'
            cand --version 'Print version'
            cand list 'Every check: id, stage, severity, prerequisites, what it reads'
            cand explain 'What a check measures, what a reason code or a diagnosis means, why, and what to do; works offline'
            cand schema 'The JSON schema of the report and of NDJSON events'
            cand completions 'A completion script for a shell'
            cand man 'The manual page (roff)'
            cand version 'Version and build of this program'
            cand rbac 'The least-privilege ClusterRole that the Kubernetes checks need'
        }
        &'cluster-health;list'= {
            cand -o 'Form of the list'
            cand --output 'Form of the list'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'cluster-health;explain'= {
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'cluster-health;schema'= {
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'cluster-health;completions'= {
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'cluster-health;man'= {
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'cluster-health;version'= {
            cand -o 'o'
            cand --output 'output'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'cluster-health;rbac'= {
            cand -h 'Print help'
            cand --help 'Print help'
        }
    ]
    $completions[$command]
}
