
using namespace System.Management.Automation
using namespace System.Management.Automation.Language

Register-ArgumentCompleter -Native -CommandName 'cluster-health' -ScriptBlock {
    param($wordToComplete, $commandAst, $cursorPosition)

    $commandElements = $commandAst.CommandElements
    $command = @(
        'cluster-health'
        for ($i = 1; $i -lt $commandElements.Count; $i++) {
            $element = $commandElements[$i]
            if ($element -isnot [StringConstantExpressionAst] -or
                $element.StringConstantType -ne [StringConstantType]::BareWord -or
                $element.Value.StartsWith('-') -or
                $element.Value -eq $wordToComplete) {
                break
        }
        $element.Value
    }) -join ';'

    $completions = @(switch ($command) {
        'cluster-health' {
            [CompletionResult]::new('--talosconfig', '--talosconfig', [CompletionResultType]::ParameterName, 'talosconfig file [default: where talosctl finds it]')
            [CompletionResult]::new('--context', '--context', [CompletionResultType]::ParameterName, 'Context of the talosconfig')
            [CompletionResult]::new('-e', '-e', [CompletionResultType]::ParameterName, 'Talos endpoints (control planes), instead of the context''s')
            [CompletionResult]::new('--endpoints', '--endpoints', [CompletionResultType]::ParameterName, 'Talos endpoints (control planes), instead of the context''s')
            [CompletionResult]::new('--cluster', '--cluster', [CompletionResultType]::ParameterName, 'Cluster name sent to the endpoint, instead of the context''s')
            [CompletionResult]::new('--kubeconfig', '--kubeconfig', [CompletionResultType]::ParameterName, 'kubeconfig file [default: where kubectl finds it]')
            [CompletionResult]::new('--kube-context', '--kube-context', [CompletionResultType]::ParameterName, 'Context of the kubeconfig')
            [CompletionResult]::new('--k8s-endpoint', '--k8s-endpoint', [CompletionResultType]::ParameterName, 'Kubernetes endpoint, instead of the kubeconfig''s server')
            [CompletionResult]::new('--etcd-endpoints', '--etcd-endpoints', [CompletionResultType]::ParameterName, 'etcd''s own client URLs, for external etcd or with --no-talos')
            [CompletionResult]::new('--etcd-cacert', '--etcd-cacert', [CompletionResultType]::ParameterName, 'CA of etcd''s serving certificates (PEM)')
            [CompletionResult]::new('--etcd-cert', '--etcd-cert', [CompletionResultType]::ParameterName, 'Client certificate for etcd (PEM)')
            [CompletionResult]::new('--etcd-key', '--etcd-key', [CompletionResultType]::ParameterName, 'Client key for etcd (PEM)')
            [CompletionResult]::new('--control-plane-nodes', '--control-plane-nodes', [CompletionResultType]::ParameterName, 'Expected control planes: addresses or node names')
            [CompletionResult]::new('--worker-nodes', '--worker-nodes', [CompletionResultType]::ParameterName, 'Expected workers: addresses or node names')
            [CompletionResult]::new('-n', '-n', [CompletionResultType]::ParameterName, 'Narrow the per-node checks to these nodes')
            [CompletionResult]::new('--nodes', '--nodes', [CompletionResultType]::ParameterName, 'Narrow the per-node checks to these nodes')
            [CompletionResult]::new('--expect-control-planes', '--expect-control-planes', [CompletionResultType]::ParameterName, 'Fail unless there are exactly N control planes')
            [CompletionResult]::new('--expect-workers', '--expect-workers', [CompletionResultType]::ParameterName, 'Fail unless there are exactly N workers')
            [CompletionResult]::new('--expect-talos', '--expect-talos', [CompletionResultType]::ParameterName, 'Fail unless every machine runs this Talos version, such as v1.13.0')
            [CompletionResult]::new('--expect-kubernetes', '--expect-kubernetes', [CompletionResultType]::ParameterName, 'Fail unless all of Kubernetes runs this version: 1.35.4, or 1.35 for any patch')
            [CompletionResult]::new('--max-unready-workers', '--max-unready-workers', [CompletionResultType]::ParameterName, 'Tolerate up to N (or P%) workers that are not ready (warn instead of fail)')
            [CompletionResult]::new('--level', '--level', [CompletionResultType]::ParameterName, 'talos: stages 1-2, etcd: 1-3, api: 1-5 and 7, full: all')
            [CompletionResult]::new('--wait-timeout', '--wait-timeout', [CompletionResultType]::ParameterName, 'Maximum time to wait for all checks to pass [default: one pass]')
            [CompletionResult]::new('--interval', '--interval', [CompletionResultType]::ParameterName, 'Time between the starts of rounds')
            [CompletionResult]::new('--attempt-timeout', '--attempt-timeout', [CompletionResultType]::ParameterName, 'Bounds a round; each call gets at most half of it')
            [CompletionResult]::new('--stable-for', '--stable-for', [CompletionResultType]::ParameterName, 'Succeed only after all checks have passed for this long')
            [CompletionResult]::new('--require-quorum-margin', '--require-quorum-margin', [CompletionResultType]::ParameterName, 'Fail unless etcd can lose N members and keep quorum')
            [CompletionResult]::new('--fail-on-node-condition', '--fail-on-node-condition', [CompletionResultType]::ParameterName, 'Fail if a node condition of this type is True, as node-problem-detector sets them; repeatable')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'Format of the result on stdout')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'Format of the result on stdout')
            [CompletionResult]::new('--report', '--report', [CompletionResultType]::ParameterName, 'Also write a report to a file, in a format of --output; repeatable')
            [CompletionResult]::new('--junit-file', '--junit-file', [CompletionResultType]::ParameterName, 'The same as --report junit=PATH')
            [CompletionResult]::new('--junit-granularity', '--junit-granularity', [CompletionResultType]::ParameterName, 'Test cases of the JUnit report: one per check or one per node')
            [CompletionResult]::new('--evidence', '--evidence', [CompletionResultType]::ParameterName, 'Also show the last log lines of failed services and static pods')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'Color of text')
            [CompletionResult]::new('--ci', '--ci', [CompletionResultType]::ParameterName, 'Also speak to a CI system: GitHub annotations and step summary, GitLab sections')
            [CompletionResult]::new('--heartbeat', '--heartbeat', [CompletionResultType]::ParameterName, 'Print a progress line at least this often')
            [CompletionResult]::new('--check', '--check', [CompletionResultType]::ParameterName, 'Run only these checks (id, prefix, stage number or glob) and what they need')
            [CompletionResult]::new('--skip', '--skip', [CompletionResultType]::ParameterName, 'Leave these checks out; applied after --check')
            [CompletionResult]::new('--fail-on', '--fail-on', [CompletionResultType]::ParameterName, 'Treat warnings of these checks or reasons as failures')
            [CompletionResult]::new('--warn-only', '--warn-only', [CompletionResultType]::ParameterName, 'Treat failures of these checks or reasons as warnings')
            [CompletionResult]::new('--no-talos', '--no-talos', [CompletionResultType]::ParameterName, 'Check Kubernetes only: no talosconfig, stages 1 and 2 skipped')
            [CompletionResult]::new('--in-cluster', '--in-cluster', [CompletionResultType]::ParameterName, 'Use the pod''s service account for Kubernetes')
            [CompletionResult]::new('--no-kubernetes', '--no-kubernetes', [CompletionResultType]::ParameterName, 'Check Talos and etcd only: no request to Kubernetes')
            [CompletionResult]::new('--no-kubeconfig-from-talos', '--no-kubeconfig-from-talos', [CompletionResultType]::ParameterName, 'Never fetch a kubeconfig through the Talos API (it mints a cluster-admin certificate)')
            [CompletionResult]::new('--server', '--server', [CompletionResultType]::ParameterName, 'Also ask the cluster''s own health check, as a second opinion (needs os:admin)')
            [CompletionResult]::new('--fail-fast', '--fail-fast', [CompletionResultType]::ParameterName, 'Stop at the first problem that waiting cannot solve')
            [CompletionResult]::new('--retry-all', '--retry-all', [CompletionResultType]::ParameterName, 'Keep waiting even if waiting cannot help')
            [CompletionResult]::new('--strict', '--strict', [CompletionResultType]::ParameterName, 'Treat warnings as failures')
            [CompletionResult]::new('--allow-empty', '--allow-empty', [CompletionResultType]::ParameterName, 'Succeed even if the selection matches no applicable check')
            [CompletionResult]::new('--simple-exit-codes', '--simple-exit-codes', [CompletionResultType]::ParameterName, 'Exit with 0 or 1 only')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'No progress on stderr')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'No progress on stderr')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'More progress, and every object in the report (-vv: also why)')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'More progress, and every object in the report (-vv: also why)')
            [CompletionResult]::new('--ascii', '--ascii', [CompletionResultType]::ParameterName, 'Only ASCII in progress and text (the default unless the locale is UTF-8)')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('-V', '-V ', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('--version', '--version', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('check', 'check', [CompletionResultType]::ParameterValue, 'Run the checks (the default command)')
            [CompletionResult]::new('list', 'list', [CompletionResultType]::ParameterValue, 'List every check: id, stage, severity, prerequisites, what it reads')
            [CompletionResult]::new('schema', 'schema', [CompletionResultType]::ParameterValue, 'Print the JSON schema of the report and of NDJSON events')
            [CompletionResult]::new('completions', 'completions', [CompletionResultType]::ParameterValue, 'Print the completion script of a shell')
            [CompletionResult]::new('man', 'man', [CompletionResultType]::ParameterValue, 'Print the manual page (roff)')
            [CompletionResult]::new('version', 'version', [CompletionResultType]::ParameterValue, 'Print version and build')
            [CompletionResult]::new('rbac', 'rbac', [CompletionResultType]::ParameterValue, 'Print the least-privilege ClusterRole that the Kubernetes checks need')
            [CompletionResult]::new('explain', 'explain', [CompletionResultType]::ParameterValue, 'Explain a check, reason code or diagnosis, and what to do; works offline')
            [CompletionResult]::new('help', 'help', [CompletionResultType]::ParameterValue, 'Print this message or the help of the given subcommand(s)')
            break
        }
        'cluster-health;check' {
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            break
        }
        'cluster-health;list' {
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'Format of the list')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'Format of the list')
            [CompletionResult]::new('--reasons', '--reasons', [CompletionResultType]::ParameterName, 'List the reason codes instead')
            [CompletionResult]::new('--causes', '--causes', [CompletionResultType]::ParameterName, 'List the causes that can be diagnosed instead')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            break
        }
        'cluster-health;schema' {
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            break
        }
        'cluster-health;completions' {
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            break
        }
        'cluster-health;man' {
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            break
        }
        'cluster-health;version' {
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'o')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'output')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            break
        }
        'cluster-health;rbac' {
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            break
        }
        'cluster-health;explain' {
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            break
        }
        'cluster-health;help' {
            [CompletionResult]::new('check', 'check', [CompletionResultType]::ParameterValue, 'Run the checks (the default command)')
            [CompletionResult]::new('list', 'list', [CompletionResultType]::ParameterValue, 'List every check: id, stage, severity, prerequisites, what it reads')
            [CompletionResult]::new('schema', 'schema', [CompletionResultType]::ParameterValue, 'Print the JSON schema of the report and of NDJSON events')
            [CompletionResult]::new('completions', 'completions', [CompletionResultType]::ParameterValue, 'Print the completion script of a shell')
            [CompletionResult]::new('man', 'man', [CompletionResultType]::ParameterValue, 'Print the manual page (roff)')
            [CompletionResult]::new('version', 'version', [CompletionResultType]::ParameterValue, 'Print version and build')
            [CompletionResult]::new('rbac', 'rbac', [CompletionResultType]::ParameterValue, 'Print the least-privilege ClusterRole that the Kubernetes checks need')
            [CompletionResult]::new('explain', 'explain', [CompletionResultType]::ParameterValue, 'Explain a check, reason code or diagnosis, and what to do; works offline')
            [CompletionResult]::new('help', 'help', [CompletionResultType]::ParameterValue, 'Print this message or the help of the given subcommand(s)')
            break
        }
        'cluster-health;help;check' {
            break
        }
        'cluster-health;help;list' {
            break
        }
        'cluster-health;help;schema' {
            break
        }
        'cluster-health;help;completions' {
            break
        }
        'cluster-health;help;man' {
            break
        }
        'cluster-health;help;version' {
            break
        }
        'cluster-health;help;rbac' {
            break
        }
        'cluster-health;help;explain' {
            break
        }
        'cluster-health;help;help' {
            break
        }
    })

    $completions.Where{ $_.CompletionText -like "$wordToComplete*" } |
        Sort-Object -Property ListItemText
}
