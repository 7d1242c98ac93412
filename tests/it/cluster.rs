//! The program against a simulated cluster: real TLS, real protocols, and one machine broken as each test requires.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use serde_json::{Value, json};
use simulator::pki::Flaw;
use simulator::world::{CallFault, Misbehavior, Server, Shape, Transport, World};
use simulator::{Network, Simulator, timeline};

use crate::harness::{Outcome, Program, program};

/// A running cluster with its credentials.
pub(crate) struct Cluster {
    simulator: Simulator,
    pub(crate) talosconfig: String,
    kubeconfig: String,
    /// The key of a service account, and Omni's CA as a system root.
    omni: Option<(String, String)>,
    /// Machine names by address; addresses differ between tests.
    names: BTreeMap<String, String>,
}

/// A healthy cluster with three control planes and a worker.
pub(crate) fn cluster() -> Cluster {
    Cluster::of(&Shape::default())
}

/// A healthy cluster that runs this Talos release.
pub(crate) fn release(talos: &str) -> Cluster {
    let mut shape = Shape::default();
    shape.versions.talos = talos.parse().unwrap();
    Cluster::of(&shape)
}

/// Returns the kubeconfig with credentials other than a certificate.
pub(crate) fn with_user(kubeconfig: &str, user: &str) -> String {
    let (before, rest) = kubeconfig.split_once("  user:\n").unwrap();
    let (_, after) = rest.split_once("contexts:\n").unwrap();
    format!("{before}  user: {user}\ncontexts:\n{after}")
}

impl Cluster {
    pub(crate) fn of(shape: &Shape) -> Self {
        let network = Network::claim().unwrap();
        let world = World::healthy(&network, shape);
        Self::begin(network, world)
    }

    /// Starts a cluster with this world as its initial state.
    pub(crate) fn begin(network: Network, world: World) -> Self {
        let mut names: BTreeMap<_, _> =
            world.machines.iter().map(|(at, machine)| (at.to_string(), machine.name.clone())).collect();
        names.insert(network.balancer().to_string(), "balancer".to_owned());
        names.insert(network.omni().to_string(), "omni".to_owned());
        let simulator = Simulator::start(network, world).unwrap();
        let kubeconfig = simulator.kubeconfig("reader", Flaw::None).unwrap();
        let talosconfig = simulator.talosconfig("os:reader", Flaw::None).unwrap();
        Self { simulator, talosconfig, kubeconfig, omni: None, names }
    }

    /// Gives the program this Talos role instead of `os:reader`.
    pub(crate) fn role(mut self, role: &str) -> Self {
        self.talosconfig = self.simulator.talosconfig(role, Flaw::None).unwrap();
        self
    }

    /// Gives the program this kubeconfig instead of the reader's.
    pub(crate) fn with_kubeconfig(self, kubeconfig: String) -> Self {
        Self { kubeconfig, ..self }
    }

    /// Makes the program connect through Omni, with this key of a service account.
    pub(crate) fn through_omni(mut self, key: String) -> Self {
        self.talosconfig = self.simulator.omni_talosconfig();
        self.kubeconfig = self.simulator.omni_kubeconfig().unwrap();
        self.omni = Some((key, self.simulator.pki().public.pem().to_owned()));
        self
    }

    /// Sets the endpoints of the talosconfig, instead of all control planes: machines or hosts.
    pub(crate) fn endpoints(mut self, endpoints: &[&str]) -> Self {
        let all: Vec<_> = endpoints.iter().map(|name| format!("            - {}\n", self.host(name))).collect();
        let (before, rest) = self.talosconfig.split_once("        endpoints:\n").unwrap();
        let (_, after) = rest.split_once("        nodes:\n").unwrap();
        self.talosconfig = format!("{before}        endpoints:\n{}        nodes:\n{after}", all.concat());
        self
    }

    fn host(&self, name: &str) -> String {
        if name == "balancer" {
            return self.simulator.network().balancer().to_string();
        }
        self.simulator.change(|world| world.machine(name).map_or_else(|| name.to_owned(), |(at, _)| at.to_string()))
    }

    pub(crate) fn address(&self, name: &str) -> IpAddr {
        self.host(name).parse().unwrap()
    }

    pub(crate) fn apid(&self, name: &str) -> Server {
        Server::Apid(self.address(name))
    }

    pub(crate) fn api_server(&self, name: &str) -> Server {
        Server::ApiServer(self.address(name))
    }

    pub(crate) fn kubeconfig(&self) -> &str {
        &self.kubeconfig
    }

    pub(crate) fn simulator(&self) -> &Simulator {
        &self.simulator
    }

    pub(crate) fn change<T>(&self, edit: impl FnOnce(&mut World) -> T) -> T {
        self.simulator.change(edit)
    }

    /// Makes the port of a machine's apid misbehave from now on.
    pub(crate) fn transport(&self, machine: &str, transport: Transport) {
        let server = self.apid(machine);
        self.change(|world| world.transport.insert(server, transport));
    }

    /// Makes these calls to a machine misbehave from now on.
    pub(crate) fn fault(&self, machine: &str, call: &str, does: Misbehavior) {
        let fault = CallFault { server: Some(self.apid(machine)), ..CallFault::all(call, does) };
        self.change(|world| world.call_faults.push(fault));
    }

    /// Makes a change of a scenario when a machine receives a call for the `times`-th time.
    pub(crate) fn when_asked(&self, mut change: Value, machine: &str, call: &str, times: u64) {
        change["when-asked"] = json!({"server": "apid", "node": machine, "call": call, "times": times});
        self.simulator.play(timeline::from_text(&change.to_string()).unwrap()).unwrap();
    }

    /// Returns the number of these calls to a machine.
    pub(crate) fn asked(&self, machine: &str, call: &str) -> u64 {
        let server = self.apid(machine);
        let counts = self.simulator.calls().counts();
        counts.iter().filter(|count| count.server == server && count.call == call).map(|count| count.times).sum()
    }

    /// Prepares a run, with credentials for Talos and Kubernetes in their default locations.
    pub(crate) fn program(&self) -> Program {
        let program = program().talosconfig(&self.talosconfig).file(".kube/config", &self.kubeconfig);
        let Some((key, ca)) = &self.omni else { return program };
        let roots = program.path("roots.pem");
        program.file("roots.pem", ca).env("SSL_CERT_FILE", roots).env("SIDERO_SERVICE_ACCOUNT_KEY", key)
    }

    /// Runs to the end, and reads the report. By default a call may take half a minute, because a busy machine must not make the cluster
    /// fail.
    pub(crate) fn run(&self, arguments: &[&str]) -> Judgment {
        let mut program = self.program().args(["-o", "json"]).args(arguments);
        if !arguments.contains(&"--attempt-timeout") {
            program = program.args(["--attempt-timeout", "60s"]);
        }
        self.judgment(program.run())
    }

    /// Returns the name of the machine at this address, which may include a port or be a URL.
    pub(crate) fn named<'a>(&'a self, target: &'a str) -> &'a str {
        let host = target.strip_prefix("https://").unwrap_or(target);
        let bare = match host.strip_prefix('[').and_then(|host| host.split_once(']')) {
            Some((host, _)) => host,
            None => host.split_once(':').map_or(host, |(host, _)| host),
        };
        self.names.get(host).or_else(|| self.names.get(bare)).map_or(target, String::as_str)
    }

    /// Reads the results of a run that wrote JSON to stdout.
    pub(crate) fn judgment(&self, outcome: Outcome) -> Judgment {
        let report = outcome.json();
        assert_eq!(report["exitCode"], outcome.code, "{outcome}");
        let mut problems = BTreeSet::new();
        for check in report["checks"].as_array().unwrap() {
            for problem in check["problems"].as_array().unwrap() {
                let target = problem["target"]["name"].as_str().unwrap();
                let target = self.named(target);
                problems.insert(Said {
                    check: check["id"].as_str().unwrap().to_owned(),
                    reason: problem["reason"].as_str().unwrap().to_owned(),
                    target: target.to_owned(),
                });
            }
        }
        Judgment { outcome, report, problems }
    }
}

/// A problem of the report. Machines appear by name, even if the report has their address.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Said {
    pub(crate) check: String,
    pub(crate) reason: String,
    pub(crate) target: String,
}

impl fmt::Debug for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", (&self.check, &self.reason, &self.target))
    }
}

/// The results of a run.
pub(crate) struct Judgment {
    pub(crate) outcome: Outcome,
    pub(crate) report: Value,
    /// Problems, including warnings.
    pub(crate) problems: BTreeSet<Said>,
}

impl Judgment {
    /// Asserts this exit code, and exactly these problems: check, reason, target.
    #[track_caller]
    pub(crate) fn is(&self, code: i32, problems: &[(&str, &str, &str)]) -> &Self {
        let expected: BTreeSet<_> = problems
            .iter()
            .map(|(check, reason, target)| Said {
                check: (*check).to_owned(),
                reason: (*reason).to_owned(),
                target: (*target).to_owned(),
            })
            .collect();
        assert_eq!((self.outcome.code, &self.problems), (code, &expected), "{self}");
        self
    }

    /// Asserts that the run took no longer than this.
    #[track_caller]
    pub(crate) fn within(&self, limit: Duration) -> &Self {
        assert!(self.outcome.took <= limit, "not within {limit:?}: {self}");
        self
    }

    /// Returns the status of a check: `pass`, `fail`, `blocked` …
    #[track_caller]
    pub(crate) fn status(&self, check: &str) -> &str {
        self.check(check)["status"].as_str().unwrap()
    }

    /// Returns the report's entry for a check.
    #[track_caller]
    pub(crate) fn check(&self, id: &str) -> &Value {
        let mut checks = self.report["checks"].as_array().unwrap().iter();
        checks.find(|check| check["id"] == id).unwrap_or_else(|| panic!("there is no check {id}"))
    }
}

impl fmt::Display for Judgment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Outcome { code, took, stderr, .. } = &self.outcome;
        writeln!(f, "exit {code} after {took:?}, {} rounds\n{:#?}", self.report["rounds"], self.problems)?;
        for check in self.report["checks"].as_array().into_iter().flatten() {
            for problem in check["problems"].as_array().into_iter().flatten() {
                writeln!(f, "{} {}: {}", check["id"], problem["reason"], problem["observed"])?;
            }
        }
        write!(f, "{stderr}")
    }
}
