// Runs a declarative pipeline with stand-ins for the parts that Jenkins provides; `sh` is real, as on an agent. `integrations/try` calls
// it: groovy pipeline.groovy Jenkinsfile WORKSPACE WAIT-TIMEOUT. TALOSCONFIG and KUBECONFIG name the secret files.
class Failed extends RuntimeException {
    Failed(String message) { super(message) }
}

/** One block of the pipeline: every word in it is a call, or a variable in `environment`. */
class Block {
    File workspace
    Map variables = [:]
    List published = []

    def run(Closure body) {
        body.delegate = this
        body.resolveStrategy = Closure.DELEGATE_FIRST
        body()
    }

    def pipeline(Closure body) { run(body) }
    def stages(Closure body) { run(body) }
    def stage(String name, Closure body) {
        Stage stage = new Stage(workspace: workspace, variables: variables + [:], published: published)
        stage.run(body)
        stage.perform()
    }
    def agent(Closure body) { run(body) }
    def label(String name) { assert name }
    def echo(String text) { println text }
}

/** The block `environment`: each assignment is a variable. */
class Environment {
    static final String FILE = 'file of the credential '

    private final Map of

    Environment(Map variables) { this.@of = variables }

    void setProperty(String name, Object value) { this.@of.put(name, value) }
    String credentials(String id) { FILE + id }
}

/** A stage notes its parts while it is read, and performs them in the order of Jenkins: environment, steps, post. */
class Stage extends Block {
    static String WAIT
    Closure toDo, afterwards

    def options(Closure body) { run(body) }
    def timeout(Map of) { assert of.unit == 'MINUTES' && of.time > 0 }
    def environment(Closure body) {
        body.delegate = new Environment(variables)
        body.resolveStrategy = Closure.DELEGATE_ONLY
        body()
    }
    def steps(Closure body) { toDo = body }
    def post(Closure body) { afterwards = body }
    def always(Closure body) { run(body) }

    def perform() {
        try {
            run(toDo)
        } finally {
            if (afterwards) { run(afterwards) }
        }
    }

    def sh(String script) {
        List environment = System.getenv().collect { name, value -> "$name=$value".toString() }
        // Each file of credentials is the simulated cluster's.
        variables.each { name, value ->
            if (value.startsWith(Environment.FILE)) {
                assert System.getenv(name)
            } else {
                environment << "$name=${name == 'CLUSTER_HEALTH_WAIT_TIMEOUT' ? WAIT : value}".toString()
            }
        }
        Process process = ['sh', '-xec', script].execute(environment, workspace)
        process.consumeProcessOutput(System.out, System.err)
        int code = process.waitFor()
        if (code != 0) { throw new Failed("script returned exit code $code") }
    }

    def junit(Map of) { published << of.testResults }
    def archiveArtifacts(Map of) { published.addAll(of.artifacts.split(', ')) }
}

Stage.WAIT = args[2]
Block pipeline = new Block(workspace: new File(args[1]))
def script = new GroovyShell(new Binding()).parse(new File(args[0]))
script.metaClass.pipeline = { Closure body -> pipeline.pipeline(body) }
try {
    script.run()
} catch (Failed failure) {
    println failure.message
    assert pipeline.published == ['cluster-health.xml', 'cluster-health.xml', 'cluster-health.json']
    System.exit(1)
}
assert pipeline.published == ['cluster-health.xml', 'cluster-health.xml', 'cluster-health.json']
