// Runs the step with stand-ins for the parts that Jenkins provides. `make integrations` calls it: groovy test.groovy
// vars/clusterHealth.groovy
class Failed extends RuntimeException {
    Failed(String message) { super(message) }
}

/** Everything that the step called, in order; `codes` are those with which the program ends. */
List run(Map options, List codes, boolean killed = false) {
    List calls = []
    def step = new GroovyShell(new Binding()).parse(new File(args[0]))
    step.metaClass.error = { String message -> throw new Failed(message) }
    step.metaClass.file = { Map of -> of }
    step.metaClass.timeout = { Map of, Closure body -> calls << "timeout ${of.time} ${of.unit}".toString(); body() }
    step.metaClass.withCredentials = { List of, Closure body ->
        calls << "credentials ${of.collect { "${it.variable}=${it.credentialsId}" }.join(' ')}".toString()
        body()
    }
    step.metaClass.withEnv = { List of, Closure body -> calls << "env ${of.join(' ')}".toString(); body() }
    step.metaClass.sh = { Map of ->
        assert of.returnStatus
        calls << of.script
        if (killed) {
            throw new InterruptedException('aborted')
        }
        codes.remove(0)
    }
    step.metaClass.junit = { Map of -> calls << "junit ${of.testResults}".toString() }
    step.metaClass.archiveArtifacts = { Map of -> calls << "archive ${of.artifacts}".toString() }
    try {
        step.call(options)
    } catch (Failed | InterruptedException failure) {
        calls << "failed: ${failure.message}".toString()
    }
    calls
}

String script = 'rm -f cluster-health.xml cluster-health.json && exec cluster-health'
List published = ['junit cluster-health.xml', 'archive cluster-health.xml, cluster-health.json']

// Healthy: the credentials and options are variables, and the reports are published.
assert run([talosconfig: 't', kubeconfig: 'k', waitTimeout: '9m', timeoutMinutes: 20, env: ['CLUSTER_HEALTH_STRICT=true']], [0]) == [
    'timeout 20 MINUTES',
    'credentials TALOSCONFIG=t KUBECONFIG=k',
    'env CLUSTER_HEALTH_STRICT=true CLUSTER_HEALTH_WAIT_TIMEOUT=9m CLUSTER_HEALTH_REPORT=junit=cluster-health.xml,json=cluster-health.json',
    script,
] + published

// Every code except 0 fails the build, with the reports; only undetermined results are retried, and no more often than requested.
[1: 'not healthy', 77: 'credentials', 78: 'credentials', 127: 'PATH', 70: 'explain 70', 143: 'explain 143'].each { code, word ->
    List calls = run([:], [code])
    assert calls.count(script) == 1 && calls[-3..-2] == published
    assert calls[-1].startsWith("failed: cluster-health: exit code ${code}: ") && calls[-1].contains(word)
}
[69, 124].each { code ->
    assert !run([:], [code, 0])[-1].startsWith('failed')
    assert run([:], [code, 1, 0])[-1].startsWith('failed: cluster-health: exit code 1')
    List calls = run([retries: 2], [code, code, code, 0])
    assert calls.count(script) == 3 && calls[-1].startsWith("failed: cluster-health: exit code ${code}")
    assert run([retries: 0], [code, 0]).count(script) == 1
}

// An aborted build: the reports are published, and the abort continues.
assert run([:], [], true)[-3..-1] == published + ['failed: aborted']

// A misspelled option is an error rather than a weaker gate.
assert run([waitTimout: '9m'], [0]) == ['failed: clusterHealth: unknown: waitTimout']
