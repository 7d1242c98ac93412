/*
 * A step of a Jenkins shared library: passes only when the cluster was seen to be healthy.
 *
 *   clusterHealth talosconfig: 'prod-talosconfig', kubeconfig: 'prod-kubeconfig', waitTimeout: '10m'
 *
 *   talosconfig, kubeconfig   ids of credentials of the type "Secret file"; without them, the agent's own files count
 *   waitTimeout               how long the cluster may take to become healthy
 *   timeoutMinutes            of the step, longer than waitTimeout times the tries; the program ends by itself before that
 *   retries                   how often it is run again after 69 or 124: nothing could be seen in the time that there was
 *   env                       other options, as CLUSTER_HEALTH_NAME=value: see `cluster-health --help`
 *
 * `cluster-health` is in the agent's PATH. Plugins: Pipeline, Credentials Binding, JUnit.
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
    // Options as variables: no value passes a shell.
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
                        // The workspace may have the reports of an earlier build.
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
        // The reports matter most when the step fails. None is there if the program could not be started.
        junit testResults: 'cluster-health.xml', allowEmptyResults: true
        archiveArtifacts artifacts: 'cluster-health.xml, cluster-health.json', allowEmptyArchive: true
    }
    // By the code and not by the test results, which only make a build unstable.
    if (code != 0) {
        error "cluster-health: exit code ${code}: ${meaning(code)}"
    }
}

private static String meaning(int code) {
    switch (code) {
        case 1: return 'the cluster is not healthy; the report names what is wrong'
        case [69, 124]: return 'it could not be seen whether the cluster is healthy'
        case [77, 78]: return 'the credentials are invalid or expired'
        case 127: return 'cluster-health is not in the PATH of the agent'
        default: return 'see the table of exit codes in the README'
    }
}
