/*
 * A step of a Jenkins shared library that passes only if the cluster is healthy. Use it for several pipelines; the Jenkinsfile does not
 * need it.
 *
 *   clusterHealth talosconfig: 'prod-talosconfig', kubeconfig: 'prod-kubeconfig', waitTimeout: '10m'
 *
 *   talosconfig, kubeconfig   IDs of credentials of the kind "Secret file"; by default, the agent's own files
 *   waitTimeout               how long to wait for a healthy cluster
 *   timeoutMinutes            timeout of the step; longer than waitTimeout times the number of attempts, so that cluster-health ends first
 *   retries                   number of retries after 69 or 124, when health could not be determined in time
 *   env                       other options, as CLUSTER_HEALTH_NAME=value: see `cluster-health --help`
 *
 * The agent has `cluster-health` in its PATH. Plugins: Pipeline, Credentials Binding, JUnit.
 */
def call(Map options = [:]) {
    Map given = [talosconfig: null, kubeconfig: null, waitTimeout: '5m', timeoutMinutes: 15, retries: 1, env: []]
    List unknown = (options.keySet() - given.keySet()) as List
    if (unknown) {
        error "clusterHealth: unknown: ${unknown.join(', ')}"
    }
    given.putAll(options)

    List credentials = []
    if (given.talosconfig) {
        credentials << file(credentialsId: given.talosconfig, variable: 'TALOSCONFIG')
    }
    if (given.kubeconfig) {
        credentials << file(credentialsId: given.kubeconfig, variable: 'KUBECONFIG')
    }
    // Options are passed as variables, so that no value passes through a shell.
    List variables = given.env + [
        "CLUSTER_HEALTH_WAIT_TIMEOUT=${given.waitTimeout}".toString(),
        'CLUSTER_HEALTH_REPORT=junit=cluster-health.xml,json=cluster-health.json',
    ]

    int code = 70
    try {
        timeout(time: given.timeoutMinutes, unit: 'MINUTES') {
            withCredentials(credentials) {
                withEnv(variables) {
                    for (int left = given.retries; left >= 0; left--) {
                        // The workspace can contain the reports of an earlier build.
                        code = sh(
                            label: 'Is the cluster healthy?',
                            script: 'rm -f cluster-health.xml cluster-health.json && exec cluster-health',
                            returnStatus: true,
                        )
                        if (!(code in [69, 124])) {
                            break
                        }
                    }
                }
            }
        }
    } finally {
        // The reports matter most when the step fails. There are none if cluster-health could not be started.
        junit testResults: 'cluster-health.xml', allowEmptyResults: true
        archiveArtifacts artifacts: 'cluster-health.xml, cluster-health.json', allowEmptyArchive: true
    }
    // The exit code decides: test results alone would only mark the build as unstable.
    if (code != 0) {
        error "cluster-health: exit code ${code}: ${meaning(code)}"
    }
}

private static String meaning(int code) {
    switch (code) {
        case 1: return 'the cluster is not healthy; the report names what is wrong'
        case [69, 124]: return 'health could not be determined in time'
        case [77, 78]: return 'the credentials are invalid or expired'
        case 127: return 'cluster-health is not in the PATH of the agent'
        default: return "see `cluster-health explain ${code}`"
    }
}
