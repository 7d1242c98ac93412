
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
            cand --talosconfig 'talosconfig file [default: where talosctl finds it]'
            cand --context 'Context of the talosconfig'
            cand -e 'Talos endpoints (control planes), instead of the context''s'
            cand --endpoints 'Talos endpoints (control planes), instead of the context''s'
            cand --cluster 'Cluster name sent to the endpoint, instead of the context''s'
            cand --kubeconfig 'kubeconfig file [default: where kubectl finds it]'
            cand --kube-context 'Context of the kubeconfig'
            cand --k8s-endpoint 'Kubernetes endpoint, instead of the kubeconfig''s server'
            cand --etcd-endpoints 'etcd''s own client URLs, for external etcd or with --no-talos'
            cand --etcd-cacert 'CA of etcd''s serving certificates (PEM)'
            cand --etcd-cert 'Client certificate for etcd (PEM)'
            cand --etcd-key 'Client key for etcd (PEM)'
            cand --control-plane-nodes 'Expected control planes: addresses or node names'
            cand --worker-nodes 'Expected workers: addresses or node names'
            cand -n 'Narrow the per-node checks to these nodes'
            cand --nodes 'Narrow the per-node checks to these nodes'
            cand --expect-control-planes 'Fail unless there are exactly N control planes'
            cand --expect-workers 'Fail unless there are exactly N workers'
            cand --expect-talos 'Fail unless every machine runs this Talos version, such as v1.13.0'
            cand --expect-kubernetes 'Fail unless all of Kubernetes runs this version: 1.35.4, or 1.35 for any patch'
            cand --max-unready-workers 'Tolerate up to N (or P%) workers that are not ready (warn instead of fail)'
            cand --level 'talos: stages 1-2, etcd: 1-3, api: 1-5 and 7, full: all'
            cand --wait-timeout 'Maximum time to wait for all checks to pass [default: one pass]'
            cand --interval 'Time between the starts of rounds'
            cand --attempt-timeout 'Bounds a round; each call gets at most half of it'
            cand --stable-for 'Succeed only after all checks have passed for this long'
            cand --require-quorum-margin 'Fail unless etcd can lose N members and keep quorum'
            cand --fail-on-node-condition 'Fail if a node condition of this type is True, as node-problem-detector sets them; repeatable'
            cand -o 'Format of the result on stdout'
            cand --output 'Format of the result on stdout'
            cand --report 'Also write a report to a file, in a format of --output; repeatable'
            cand --junit-file 'The same as --report junit=PATH'
            cand --junit-granularity 'Test cases of the JUnit report: one per check or one per node'
            cand --evidence 'Also show the last log lines of failed services and static pods'
            cand --color 'Color of text'
            cand --ci 'Also speak to a CI system: GitHub annotations and step summary, GitLab sections'
            cand --heartbeat 'Print a progress line at least this often'
            cand --check 'Run only these checks (id, prefix, stage number or glob) and what they need'
            cand --skip 'Leave these checks out; applied after --check'
            cand --fail-on 'Treat warnings of these checks or reasons as failures'
            cand --warn-only 'Treat failures of these checks or reasons as warnings'
            cand --no-talos 'Check Kubernetes only: no talosconfig, stages 1 and 2 skipped'
            cand --in-cluster 'Use the pod''s service account for Kubernetes'
            cand --no-kubernetes 'Check Talos and etcd only: no request to Kubernetes'
            cand --no-kubeconfig-from-talos 'Never fetch a kubeconfig through the Talos API (it mints a cluster-admin certificate)'
            cand --server 'Also ask the cluster''s own health check, as a second opinion (needs os:admin)'
            cand --fail-fast 'Stop at the first problem that waiting cannot solve'
            cand --retry-all 'Keep waiting even if waiting cannot help'
            cand --strict 'Treat warnings as failures'
            cand --allow-empty 'Succeed even if the selection matches no applicable check'
            cand --simple-exit-codes 'Exit with 0 or 1 only'
            cand -q 'No progress on stderr'
            cand --quiet 'No progress on stderr'
            cand -v 'More progress, and every object in the report (-vv: also why)'
            cand --verbose 'More progress, and every object in the report (-vv: also why)'
            cand --ascii 'Only ASCII in progress and text (the default unless the locale is UTF-8)'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
            cand -V 'Print version'
            cand --version 'Print version'
            cand check 'Run the checks (the default command)'
            cand list 'List every check: id, stage, severity, prerequisites, what it reads'
            cand schema 'Print the JSON schema of the report and of NDJSON events'
            cand completions 'Print the completion script of a shell'
            cand man 'Print the manual page (roff)'
            cand version 'Print version and build'
            cand rbac 'Print the least-privilege ClusterRole that the Kubernetes checks need'
            cand explain 'Explain a check, reason code or diagnosis, and what to do; works offline'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'cluster-health;check'= {
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'cluster-health;list'= {
            cand -o 'Format of the list'
            cand --output 'Format of the list'
            cand --reasons 'List the reason codes instead'
            cand --causes 'List the causes that can be diagnosed instead'
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
        &'cluster-health;explain'= {
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'cluster-health;help'= {
            cand check 'Run the checks (the default command)'
            cand list 'List every check: id, stage, severity, prerequisites, what it reads'
            cand schema 'Print the JSON schema of the report and of NDJSON events'
            cand completions 'Print the completion script of a shell'
            cand man 'Print the manual page (roff)'
            cand version 'Print version and build'
            cand rbac 'Print the least-privilege ClusterRole that the Kubernetes checks need'
            cand explain 'Explain a check, reason code or diagnosis, and what to do; works offline'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'cluster-health;help;check'= {
        }
        &'cluster-health;help;list'= {
        }
        &'cluster-health;help;schema'= {
        }
        &'cluster-health;help;completions'= {
        }
        &'cluster-health;help;man'= {
        }
        &'cluster-health;help;version'= {
        }
        &'cluster-health;help;rbac'= {
        }
        &'cluster-health;help;explain'= {
        }
        &'cluster-health;help;help'= {
        }
    ]
    $completions[$command]
}
