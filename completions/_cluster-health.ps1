
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
            [CompletionResult]::new('--talosconfig', '--talosconfig', [CompletionResultType]::ParameterName, 'talosconfig file [default: TALOSCONFIG, $TALOS_HOME or ~/.talos/config, the pod''s Talos mount]')
            [CompletionResult]::new('--context', '--context', [CompletionResultType]::ParameterName, 'Context of the talosconfig')
            [CompletionResult]::new('-e', '-e', [CompletionResultType]::ParameterName, 'Talos endpoints (control planes), instead of the context''s')
            [CompletionResult]::new('--endpoints', '--endpoints', [CompletionResultType]::ParameterName, 'Talos endpoints (control planes), instead of the context''s')
            [CompletionResult]::new('--cluster', '--cluster', [CompletionResultType]::ParameterName, 'Cluster name sent to the endpoint, instead of the context''s')
            [CompletionResult]::new('--kubeconfig', '--kubeconfig', [CompletionResultType]::ParameterName, 'kubeconfig file [default: KUBECONFIG, ~/.kube/config, in-cluster, the Talos API with os:admin]')
            [CompletionResult]::new('--kube-context', '--kube-context', [CompletionResultType]::ParameterName, 'Context of the kubeconfig')
            [CompletionResult]::new('--k8s-endpoint', '--k8s-endpoint', [CompletionResultType]::ParameterName, 'Kubernetes endpoint, instead of the kubeconfig''s server')
            [CompletionResult]::new('--etcd-endpoints', '--etcd-endpoints', [CompletionResultType]::ParameterName, 'etcd''s own client URLs, for external etcd or with --no-talos')
            [CompletionResult]::new('--etcd-cacert', '--etcd-cacert', [CompletionResultType]::ParameterName, 'CA of etcd''s serving certificates (PEM)')
            [CompletionResult]::new('--etcd-cert', '--etcd-cert', [CompletionResultType]::ParameterName, 'Client certificate for etcd (PEM)')
            [CompletionResult]::new('--etcd-key', '--etcd-key', [CompletionResultType]::ParameterName, 'Client key for etcd (PEM)')
            [CompletionResult]::new('--control-plane-nodes', '--control-plane-nodes', [CompletionResultType]::ParameterName, 'The control planes there should be: addresses or node names')
            [CompletionResult]::new('--worker-nodes', '--worker-nodes', [CompletionResultType]::ParameterName, 'The workers there should be: addresses or node names')
            [CompletionResult]::new('-n', '-n', [CompletionResultType]::ParameterName, 'Narrow the per-node checks to these nodes; etcd and API checks always cover the cluster')
            [CompletionResult]::new('--nodes', '--nodes', [CompletionResultType]::ParameterName, 'Narrow the per-node checks to these nodes; etcd and API checks always cover the cluster')
            [CompletionResult]::new('--expect-control-planes', '--expect-control-planes', [CompletionResultType]::ParameterName, 'Fail unless there are exactly N control planes')
            [CompletionResult]::new('--expect-workers', '--expect-workers', [CompletionResultType]::ParameterName, 'Fail unless there are exactly N workers')
            [CompletionResult]::new('--expect-talos', '--expect-talos', [CompletionResultType]::ParameterName, 'Fail unless every machine runs this version of Talos, such as v1.13.0')
            [CompletionResult]::new('--expect-kubernetes', '--expect-kubernetes', [CompletionResultType]::ParameterName, 'Fail unless Kubernetes is of this version everywhere: 1.35.4, or 1.35 for any patch of it')
            [CompletionResult]::new('--max-unready-workers', '--max-unready-workers', [CompletionResultType]::ParameterName, 'So many workers may be not ready: a warning instead of a failure')
            [CompletionResult]::new('--check', '--check', [CompletionResultType]::ParameterName, 'Run only these checks and what they need: id, prefix (etcd), stage number or glob')
            [CompletionResult]::new('--skip', '--skip', [CompletionResultType]::ParameterName, 'Leave these checks out; applied after --check')
            [CompletionResult]::new('--level', '--level', [CompletionResultType]::ParameterName, 'talos: stages 1-2, etcd: 1-3, api: 1-5 and 7, full: all')
            [CompletionResult]::new('--wait-timeout', '--wait-timeout', [CompletionResultType]::ParameterName, 'Wait so long for everything to pass, then give up (Go duration: 90s, 5m, 1h30m) [default: one pass, now]')
            [CompletionResult]::new('--interval', '--interval', [CompletionResultType]::ParameterName, 'Time between the starts of rounds')
            [CompletionResult]::new('--attempt-timeout', '--attempt-timeout', [CompletionResultType]::ParameterName, 'Bounds a round; each call gets at most half of it')
            [CompletionResult]::new('--stable-for', '--stable-for', [CompletionResultType]::ParameterName, 'Succeed only when everything has passed for so long; needs a longer --wait-timeout')
            [CompletionResult]::new('--warn-only', '--warn-only', [CompletionResultType]::ParameterName, 'Failures of these checks only warn')
            [CompletionResult]::new('--require-quorum-margin', '--require-quorum-margin', [CompletionResultType]::ParameterName, 'Fail unless etcd can lose so many members')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'Form of the result on stdout')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'Form of the result on stdout')
            [CompletionResult]::new('--report', '--report', [CompletionResultType]::ParameterName, 'Also write a report to a file, in a format of --output; repeatable')
            [CompletionResult]::new('--junit-file', '--junit-file', [CompletionResultType]::ParameterName, 'The same as --report junit=PATH')
            [CompletionResult]::new('--junit-granularity', '--junit-granularity', [CompletionResultType]::ParameterName, 'What is a test case of the JUnit report')
            [CompletionResult]::new('--evidence', '--evidence', [CompletionResultType]::ParameterName, 'Read what may tell why: the last lines of the logs of failed services and static pods')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'Colour of text')
            [CompletionResult]::new('--ci', '--ci', [CompletionResultType]::ParameterName, 'Also speak to a CI system: GitHub annotations and step summary, GitLab sections')
            [CompletionResult]::new('--heartbeat', '--heartbeat', [CompletionResultType]::ParameterName, 'A line of progress at least so often')
            [CompletionResult]::new('--no-talos', '--no-talos', [CompletionResultType]::ParameterName, 'Judge Kubernetes alone: no talosconfig, stages 1 and 2 skipped')
            [CompletionResult]::new('--in-cluster', '--in-cluster', [CompletionResultType]::ParameterName, 'Use the pod''s service account for Kubernetes')
            [CompletionResult]::new('--no-kubernetes', '--no-kubernetes', [CompletionResultType]::ParameterName, 'Judge Talos and etcd alone: nothing is asked of Kubernetes')
            [CompletionResult]::new('--no-kubeconfig-from-talos', '--no-kubeconfig-from-talos', [CompletionResultType]::ParameterName, 'Never fetch a kubeconfig through the Talos API (it mints a cluster-admin certificate)')
            [CompletionResult]::new('--server', '--server', [CompletionResultType]::ParameterName, 'Also ask the cluster''s own health check, as a second opinion (needs os:admin)')
            [CompletionResult]::new('--fail-fast', '--fail-fast', [CompletionResultType]::ParameterName, 'End at the first problem that waiting will not change')
            [CompletionResult]::new('--retry-all', '--retry-all', [CompletionResultType]::ParameterName, 'Keep waiting even when waiting cannot help')
            [CompletionResult]::new('--strict', '--strict', [CompletionResultType]::ParameterName, 'Warnings fail')
            [CompletionResult]::new('--allow-empty', '--allow-empty', [CompletionResultType]::ParameterName, 'A selection that checks nothing is no error')
            [CompletionResult]::new('--simple-exit-codes', '--simple-exit-codes', [CompletionResultType]::ParameterName, 'Exit with 0 or 1 only')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'No progress on stderr')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'No progress on stderr')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'More progress on stderr; text and Markdown fold nothing')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'More progress on stderr; text and Markdown fold nothing')
            [CompletionResult]::new('--ascii', '--ascii', [CompletionResultType]::ParameterName, 'Only ASCII in progress and text; so it is in a locale that is not UTF-8')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('-V', '-V ', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('--version', '--version', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('list', 'list', [CompletionResultType]::ParameterValue, 'Every check: id, stage, severity, prerequisites, what it reads')
            [CompletionResult]::new('explain', 'explain', [CompletionResultType]::ParameterValue, 'What a check measures, what a reason code or a diagnosis means, why, and what to do; works offline')
            [CompletionResult]::new('schema', 'schema', [CompletionResultType]::ParameterValue, 'The JSON schema of the report and of NDJSON events')
            [CompletionResult]::new('completions', 'completions', [CompletionResultType]::ParameterValue, 'A completion script for a shell')
            [CompletionResult]::new('man', 'man', [CompletionResultType]::ParameterValue, 'The manual page (roff)')
            [CompletionResult]::new('version', 'version', [CompletionResultType]::ParameterValue, 'Version and build of this program')
            [CompletionResult]::new('rbac', 'rbac', [CompletionResultType]::ParameterValue, 'The least-privilege ClusterRole that the Kubernetes checks need')
            break
        }
        'cluster-health;list' {
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'Form of the list')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'Form of the list')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            break
        }
        'cluster-health;explain' {
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
    })

    $completions.Where{ $_.CompletionText -like "$wordToComplete*" } |
        Sort-Object -Property ListItemText
}
