//! `upgrade-plan`: the machines in upgrade order, what each runs, and what is left to do.
//!
//! Everything in the plan was observed in one round, and the plan claims nothing that a round cannot show: a machine that did not answer is
//! never done, and a machine that runs the old version fell back only if `--upgraded` states that its upgrade was carried out.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::assess::{Assessment, NotJudged, Standing, contact};
use crate::checks::{EtcdStops, etcd_stops, is_plain, schematic_of};
use crate::model::{Exit, Role};
use crate::snapshot::{First, GapKind, Node, Observed, Order, Upgrade, own_role};
use crate::text::sanitize::{clean, is_showable};
use crate::text::version;

/// The plan of an upgrade.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rollout {
    /// Version of Talos, without the `v`.
    pub(crate) talos: String,
    /// Version of Kubernetes, without the `v`.
    pub(crate) kubernetes: Option<String>,
    pub(crate) first: First,
    /// `--image` as typed, including `{schematic}`.
    pub(crate) image: Option<String>,
    /// Machines in upgrade order.
    pub(crate) machines: Vec<Machine>,
    /// Machines that `--upgraded` names, but no source lists.
    pub(crate) strangers: Vec<String>,
    /// Releases to upgrade to first, because etcd is too old for the version that the target brings.
    pub(crate) etcd: Option<EtcdStops>,
    pub(crate) cluster: Cluster,
}

/// The planned cluster and the way it was reached: the tool that upgrades it has to reach the same cluster in the same way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cluster {
    /// The ID on which all machines that answer agree. If Talos has none, the digests of the CA that verified them.
    pub(crate) talos: Option<String>,
    /// UID of the namespace kube-system.
    pub(crate) kubernetes: Option<String>,
    pub(crate) talosconfig: Option<String>,
    pub(crate) context: Option<String>,
    pub(crate) endpoints: Vec<String>,
    /// One file, several as in `KUBECONFIG`, or [`IN_CLUSTER`]. `None`: Talos issued the kubeconfig, and there is no file.
    pub(crate) kubeconfig: Option<String>,
    pub(crate) kube_context: Option<String>,
    /// `--k8s-endpoint`, as a URL.
    pub(crate) server: Option<String>,
}

/// Name for a pod's own credentials, which are not a kubeconfig.
const IN_CLUSTER: &str = "in-cluster";

/// One machine. Fields that are `None` were not observed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Machine {
    pub(crate) name: String,
    pub(crate) address: String,
    /// Role that the machine itself reports.
    pub(crate) role: Role,
    /// Whether its etcd member is the leader.
    pub(crate) is_leader: bool,
    /// Version of Talos, without the `v`.
    pub(crate) version: Option<String>,
    /// Version of the kubelet, without the `v`.
    pub(crate) kubelet: Option<String>,
    pub(crate) state: State,
    /// Observation that the state is based on.
    pub(crate) evidence: String,
    pub(crate) boot_id: Option<String>,
    pub(crate) cordoned: Option<bool>,
    /// ID of the Image Factory schematic.
    pub(crate) schematic: Option<String>,
    /// Name and version of each extension.
    pub(crate) extensions: Option<Vec<(String, String)>>,
    /// Installer image that the next boot activates.
    pub(crate) installed: Option<String>,
    /// Installer image for the upgrade, with the machine's own schematic.
    pub(crate) image: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Done,
    ToDo,
    /// Another version is on the disk, and the next boot activates it.
    Installed,
    /// The upgrade was carried out, the machine has booted since, and it runs a version other than the upgrade's.
    FellBack,
    Unknown,
}

impl State {
    /// Returns the name for programs.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::ToDo => "to-do",
            Self::Installed => "installed-not-rebooted",
            Self::FellBack => "fell-back",
            Self::Unknown => "unknown",
        }
    }

    /// Returns the name for people.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::ToDo => "to do",
            Self::Installed => "installed, not rebooted",
            Self::FellBack => "fell back",
            Self::Unknown => "unknown",
        }
    }
}

impl Rollout {
    /// Returns the plan, or `None` if the command is not `upgrade-plan`.
    pub(crate) fn of(cluster: &Assessment<'_>) -> Option<Self> {
        let order = cluster.asked.order.as_ref()?;
        let target = cluster.asked.upgrade.talos.clone()?;
        let leader = leader(cluster);
        let is_judged = |node: &&Node| match cluster.standing(node) {
            Standing::Judged | Standing::NotJudged(NotJudged::DeclaredOff) => true,
            Standing::NotJudged(NotJudged::OutOfScope | NotJudged::OutsideFlags) => !cluster.is_guest(node),
            Standing::Guest | Standing::NotJudged(NotJudged::Leaving | NotJudged::StaleDiscovery) => false,
        };
        let judged = cluster.nodes().iter().filter(is_judged);
        let mut machines: Vec<_> = judged.map(|node| machine(cluster, node, &target, order, leader)).collect();
        machines.sort_by(|a, b| place(order.first, a).cmp(&place(order.first, b)));
        let Upgrade { kubernetes, image, .. } = cluster.asked.upgrade.clone();
        let is_known = |named: &str| cluster.nodes().iter().any(|node| node.is_called(named));
        let strangers =
            order.upgraded.iter().map(|(named, _)| named).filter(|named| !is_known(named)).cloned().collect();
        let etcd = etcd_stops(cluster);
        let cluster = Cluster::of(cluster);
        Some(Self { talos: target, kubernetes, first: order.first, image, machines, strangers, etcd, cluster })
    }

    /// Returns the first machine that the others have to wait for.
    fn worst(&self) -> Option<&Machine> {
        let of = |state: State| self.machines.iter().find(|it| it.state == state);
        of(State::FellBack).or_else(|| of(State::Unknown))
    }

    /// Returns why the plan must not be acted on, even though every check passed.
    pub(crate) fn shortcoming(&self) -> Option<(Exit, String)> {
        if let Some(Machine { state, name, .. }) = self.worst() {
            return Some(match state {
                State::FellBack => (Exit::Unhealthy, format!("{name} fell back to its old version")),
                _ => (Exit::Undetermined, format!("the outcome for {name} is unknown")),
            });
        }
        if let Some(EtcdStops { why, releases }) = &self.etcd {
            let first = releases.iter().map(|(talos, etcd)| format!("Talos v{talos} (etcd {etcd})"));
            let first = first.collect::<Vec<_>>().join(", then ");
            let first = if first.is_empty() { "a newer etcd".to_owned() } else { first };
            return Some((Exit::Unhealthy, format!("{first} has to come before Talos v{}: {why}", self.talos)));
        }
        if !self.strangers.is_empty() {
            let names = self.strangers.join(", ");
            return Some((Exit::Undetermined, format!("`--upgraded` names {names}, which no source lists")));
        }
        if let Some(shown) = self.cluster.unshowable() {
            let error = format!("a path, context or endpoint cannot be passed on as it is: `{shown}`");
            return Some((Exit::Configuration, error));
        }
        let Machine { name, .. } = self.machines.iter().find(|machine| self.lacks_image(machine))?;
        Some((Exit::Undetermined, format!("the image of {name} is unknown: it reports no schematic")))
    }

    /// Whether the machine is still to be upgraded and its installer image is unknown.
    pub(crate) fn lacks_image(&self, machine: &Machine) -> bool {
        self.image.is_some() && machine.image.is_none() && machine.state != State::Done
    }

    /// Returns the state of the kubelets, or `None` without a target version.
    pub(crate) fn kubernetes_state(&self) -> Option<State> {
        let target = self.kubernetes.as_ref()?;
        let of = |machine: &Machine| machine.kubelet.as_ref().map(|version| version == target);
        Some(if self.machines.iter().any(|it| of(it) == Some(false)) {
            State::ToDo
        } else if self.machines.iter().any(|it| of(it).is_none()) {
            State::Unknown
        } else {
            State::Done
        })
    }
}

impl Cluster {
    fn of(cluster: &Assessment<'_>) -> Self {
        let talos = cluster.talos();
        let talosconfig = talos.and_then(|talos| talos.credentials.as_ref().ok());
        let kubernetes = cluster.any_kubernetes();
        let kubeconfig = kubernetes.and_then(|kubernetes| kubernetes.credentials.as_ref().ok());
        // Readers of the plan do not know the directory that a relative path starts from.
        let absolute =
            |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).display().to_string();
        let files = |files: &Vec<PathBuf>| files.iter().map(|path| absolute(path)).collect::<Vec<_>>().join(":");
        let text = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
        Self {
            talos: talosconfig.and_then(|talosconfig| talos_cluster(cluster, &talosconfig.ca_digests)),
            kubernetes: kubernetes.and_then(|kubernetes| kubernetes.cluster_uid.clone().ok()),
            talosconfig: talosconfig.map(|talosconfig| absolute(Path::new(&talosconfig.source))),
            context: talosconfig.and_then(|talosconfig| text(&talosconfig.context)),
            endpoints: talos.iter().flat_map(|talos| &talos.endpoints).map(|it| it.address.clone()).collect(),
            kubeconfig: kubeconfig.and_then(|it| {
                let in_cluster = || (it.source == IN_CLUSTER).then(|| IN_CLUSTER.to_owned());
                if it.files.is_empty() { in_cluster() } else { Some(files(&it.files)) }
            }),
            kube_context: kubeconfig.filter(|it| !it.files.is_empty()).and_then(|it| text(&it.context)),
            server: kubeconfig.filter(|_| cluster.asked.k8s_endpoint.is_some()).map(|it| it.server.clone()),
        }
    }

    /// Returns a path, name or address that no output can show unchanged. A script would use a different one.
    fn unshowable(&self) -> Option<String> {
        let Self { talosconfig, context, endpoints, kubeconfig, kube_context, server, talos: _, kubernetes: _ } = self;
        let named = [talosconfig, context, kubeconfig, kube_context, server].into_iter().flatten();
        named.chain(endpoints).find(|text| !is_showable(text)).map(|text| clean(text))
    }
}

/// Returns the ID of the Talos cluster. It is unknown if a machine that answers reports no ID or a different one.
fn talos_cluster(cluster: &Assessment<'_>, ca: &[String]) -> Option<String> {
    let answering = cluster.nodes().iter().filter(|node| contact(node).is_some());
    let ids: Observed<BTreeSet<Option<String>>> = answering.map(|node| node.talos.cluster_id.clone()).collect();
    match ids.ok()?.into_iter().collect::<Vec<_>>().as_slice() {
        [Some(id)] => Some(clean(id)),
        [None] if !ca.is_empty() => Some(format!("ca-sha256:{}", ca.join("+"))),
        _ => None,
    }
}

/// Returns the ID of the leading member, if the members that answer agree on it.
fn leader(cluster: &Assessment<'_>) -> Option<u64> {
    let views = &cluster.etcd.overview.as_ref().ok()?.views;
    let mut leaders = views.iter().filter_map(|view| Some(view.status.ok()?.leader)).filter(|leader| *leader != 0);
    let first = leaders.next()?;
    leaders.all(|other| other == first).then_some(first)
}

/// Sorts the leader last among the control planes, so that etcd elects once instead of every time. A machine of unknown role does not count
/// as a worker.
fn place(first: First, machine: &Machine) -> (bool, bool, &str) {
    let is_worker = machine.role == Role::Worker;
    (is_worker == (first == First::ControlPlanes), machine.is_leader, &machine.name)
}

fn machine(cluster: &Assessment<'_>, node: &Node, target: &str, order: &Order, leader: Option<u64>) -> Machine {
    let own = contact(node);
    let nodes = cluster.list(|kubernetes| &kubernetes.nodes);
    let object = nodes.and_then(|_| cluster.object(node));
    let known = |text: &String| (!text.is_empty()).then(|| clean(text));
    let bare = |version: &str| clean(version.strip_prefix('v').unwrap_or(version));
    let version = own.map(|contact| bare(&contact.version.tag));
    let boot_id = object.and_then(|object| known(&object.boot_id));
    let extensions = own.and_then(|_| node.talos.extensions.as_ref().ok()).cloned();
    let schematic = own.and_then(|_| node.talos.schematic()).map(str::to_owned);
    let installed = &node.talos.installed;
    let role = own.map_or(Role::Unknown, |_| own_role(&node.talos.machine_type));
    let upgraded = order.upgraded.iter().find(|(named, _)| node.is_called(named)).map(|(_, boot)| boot.as_str());
    let (state, evidence) = match version.as_deref() {
        None => (State::Unknown, unanswered(node)),
        Some(version) if version == target => at_target(cluster, node, version),
        Some(version) => {
            let (state, evidence) = behind(version, installed, upgraded, boot_id.as_deref());
            let is_newer = version::numbers(version) > version::numbers(target);
            (state, if is_newer { format!("{evidence}; v{target} is older") } else { evidence })
        }
    };
    Machine {
        name: clean(&node.name),
        address: clean(&node.address),
        role,
        is_leader: leader.is_some() && node.talos.etcd_status.as_ref().ok().map(|status| status.member_id) == leader,
        kubelet: object.and_then(|object| known(&object.kubelet_version)).map(|version| bare(&version)),
        // A machine without a Node cannot be cordoned.
        cordoned: nodes.map(|_| object.is_some_and(|object| object.unschedulable)),
        installed: own.and_then(|_| installed.clone().ok().flatten()),
        image: cluster.asked.upgrade.image.as_deref().and_then(|image| with_schematic(image, schematic.as_deref())),
        version,
        state,
        evidence,
        boot_id,
        schematic,
        extensions,
    }
}

/// Judges a machine that runs the target version. If the upgrade's installer is built from a schematic, the same version may lack the
/// extensions of that schematic.
fn at_target(cluster: &Assessment<'_>, node: &Node, version: &str) -> (State, String) {
    let runs = format!("runs v{version}");
    let Some(wanted) = cluster.asked.upgrade.image.as_deref().and_then(schematic_of) else {
        return (State::Done, runs);
    };
    match (node.talos.schematic(), &node.talos.extensions) {
        (Some(own), _) if own == wanted => (State::Done, runs),
        (Some(own), _) => (State::ToDo, format!("{runs} of schematic {}", clean(own))),
        (None, Err(_)) => (State::Unknown, format!("{runs}; its schematic could not be read")),
        (None, Ok(_)) if is_plain(wanted) => (State::Done, runs),
        (None, Ok(_)) => (State::ToDo, format!("{runs} without a schematic")),
    }
}

/// Returns the installer image for a machine of this schematic. `None`: it depends on the schematic, which is unknown.
fn with_schematic(image: &str, schematic: Option<&str>) -> Option<String> {
    const PLACE: &str = "{schematic}";
    match schematic {
        _ if !image.contains(PLACE) => Some(image.to_owned()),
        schematic => Some(image.replace(PLACE, &clean(schematic?))),
    }
}

fn unanswered(node: &Node) -> String {
    match &node.talos.contact {
        Ok(contact) => {
            let other = contact.answered_by_other.as_deref().unwrap_or("another machine");
            format!("{} answers in its place", clean(other))
        }
        Err(gap) => format!("no answer from the Talos API: {}", clean(&gap.text)),
    }
}

/// Judges a machine that runs a version other than the upgrade's.
fn behind(
    version: &str,
    installed: &Observed<Option<String>>,
    upgraded: Option<&str>,
    boot_id: Option<&str>,
) -> (State, String) {
    let runs = format!("runs v{version}");
    match (upgraded, boot_id) {
        (Some(before), Some(now)) if before != now => {
            return (State::FellBack, format!("{runs} after the upgrade and a reboot (its boot ID has changed)"));
        }
        (Some(_), None) => {
            return (State::Unknown, format!("{runs} after the upgrade; whether it has rebooted is unknown"));
        }
        _ => {}
    }
    match installed {
        Ok(Some(image)) => (State::Installed, format!("{runs}; {image} was installed after it booted")),
        Ok(None) => (State::ToDo, runs),
        Err(gap) if gap.kind == GapKind::NotAsked => {
            (State::ToDo, format!("{runs}; whether another version is installed is unknown"))
        }
        Err(gap) => (State::ToDo, format!("{runs}; its log could not be read: {}", clean(&gap.text))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::{Gap, GapKind, Observed, Snapshot, Upgrade};
    use crate::testing::fixture;

    fn asked(mut snapshot: Snapshot, order: Order) -> Rollout {
        snapshot.asked.upgrade = Upgrade { talos: Some("1.14.1".to_owned()), ..Upgrade::default() };
        snapshot.asked.order = Some(order);
        Rollout::of(&Assessment::of(&snapshot)).unwrap()
    }

    fn plan(snapshot: Snapshot) -> Rollout {
        asked(snapshot, Order::default())
    }

    fn states(rollout: &Rollout) -> Vec<(&str, State)> {
        rollout.machines.iter().map(|it| (it.name.as_str(), it.state)).collect()
    }

    fn runs(snapshot: &mut Snapshot, node: &str, version: &str) {
        version.clone_into(&mut snapshot.talos_of(node).contact.as_mut().unwrap().version.tag);
    }

    #[test]
    fn nothing_is_planned_that_nobody_wants() {
        assert_eq!(Rollout::of(&Assessment::of(&fixture::healthy())), None);
    }

    #[test]
    fn the_leader_is_the_last_control_plane_and_workers_come_as_wanted() {
        let names = |rollout: &Rollout| rollout.machines.iter().map(|it| it.name.clone()).collect::<Vec<_>>();
        let mut snapshot = fixture::healthy();
        let lead = snapshot.talos_of("cp-1").etcd_status.as_ref().unwrap().member_id;
        for node in ["cp-1", "cp-2", "cp-3"] {
            snapshot.talos_of(node).etcd_status.as_mut().unwrap().leader = lead;
        }
        let rollout = plan(snapshot.clone());
        assert_eq!(names(&rollout), ["cp-2", "cp-3", "cp-1", "w-1"]);
        assert!(rollout.machines[2].is_leader);
        let workers = Order { first: First::Workers, ..Order::default() };
        assert_eq!(names(&asked(snapshot.clone(), workers)), ["w-1", "cp-2", "cp-3", "cp-1"]);
        // If two members name different leaders, no leader is known.
        snapshot.talos_of("cp-3").etcd_status.as_mut().unwrap().leader = lead + 1;
        assert!(plan(snapshot).machines.iter().all(|it| !it.is_leader));
    }

    #[test]
    fn the_role_is_the_machines_own_word() {
        let mut snapshot = fixture::healthy();
        snapshot.talos_of("w-1").machine_type = Err(Gap::new(GapKind::TimedOut, "late"));
        let rollout = plan(snapshot);
        let role = |name: &str| rollout.machines.iter().find(|it| it.name == name).unwrap().role;
        assert_eq!((role("cp-1"), role("w-1")), (Role::ControlPlane, Role::Unknown));
    }

    #[test]
    fn only_the_exact_version_of_a_machine_that_answers_is_done() {
        let mut snapshot = fixture::healthy();
        runs(&mut snapshot, "cp-1", "v1.14.1");
        runs(&mut snapshot, "cp-2", "v1.14.1-rc.0");
        runs(&mut snapshot, "cp-3", "v1.14.1");
        snapshot.talos_of("cp-3").contact.as_mut().unwrap().answered_by_other = Some("cp-9".to_owned());
        runs(&mut snapshot, "w-1", "v1.14.1");
        snapshot.power_off("w-1");
        let rollout = plan(snapshot);
        let expected =
            [("cp-1", State::Done), ("cp-2", State::ToDo), ("cp-3", State::Unknown), ("w-1", State::Unknown)];
        let mut states = states(&rollout);
        states.sort_by_key(|(name, _)| *name);
        assert_eq!(states, expected);
        assert_eq!(rollout.worst().map(|it| it.state), Some(State::Unknown));
    }

    #[test]
    fn installed_and_fell_back_are_told_apart() {
        let image = "factory.example/installer/abc:v1.14.1";
        let upgraded = |boot: &str| Order { upgraded: vec![("w-1".to_owned(), boot.to_owned())], ..Order::default() };
        let of = |image: Option<&str>, order: Order| {
            let mut snapshot = fixture::healthy();
            snapshot.talos_of("w-1").installed = Ok(image.map(str::to_owned));
            let rollout = asked(snapshot, order);
            let machine = rollout.machines.iter().find(|it| it.name == "w-1").unwrap().clone();
            (machine.state, machine.evidence)
        };
        let now = "boot-3";
        assert_eq!(of(None, Order::default()).0, State::ToDo);
        assert_eq!(of(Some(image), Order::default()).0, State::Installed);
        assert!(of(Some(image), Order::default()).1.contains(image));
        assert_eq!(of(Some(image), upgraded(now)).0, State::Installed, "it has not booted since");
        assert_eq!(of(None, upgraded(now)).0, State::ToDo);
        assert_eq!(of(None, upgraded("before")).0, State::FellBack);
        assert_eq!(of(Some(image), upgraded("before")).0, State::FellBack);
        // The boot ID is that of another machine.
        let other = Order { upgraded: vec![("cp-1".to_owned(), "before".to_owned())], ..Order::default() };
        assert_eq!(of(None, other).0, State::ToDo);
    }

    #[test]
    fn without_kubernetes_it_is_not_known_what_became_of_an_upgrade() {
        let mut snapshot = fixture::healthy();
        let order = Order { upgraded: vec![("w-1".to_owned(), "before".to_owned())], ..Order::default() };
        snapshot.kubernetes.as_mut().unwrap().nodes = Err(Gap::new(GapKind::TimedOut, "late"));
        let rollout = asked(snapshot, order);
        let machine = rollout.machines.iter().find(|it| it.name == "w-1").unwrap();
        assert_eq!((machine.state, machine.cordoned, machine.boot_id.as_deref()), (State::Unknown, None, None));
    }

    #[test]
    fn the_schematic_is_an_extension() {
        let mut snapshot = fixture::healthy();
        let extensions = [("iscsi-tools", "v0.2.0"), ("schematic", "376567988ad3")];
        let extensions = extensions.map(|(name, version)| (name.to_owned(), version.to_owned())).to_vec();
        snapshot.talos_of("w-1").extensions = Ok(extensions);
        snapshot.talos_of("cp-1").extensions = Err(Gap::not_asked());
        let rollout = plan(snapshot);
        let machine = |name: &str| rollout.machines.iter().find(|it| it.name == name).unwrap();
        assert_eq!(machine("w-1").schematic.as_deref(), Some("376567988ad3"));
        assert_eq!((&machine("cp-1").schematic, &machine("cp-1").extensions), (&None, &None));
    }

    /// A machine that runs the target version may lack the extensions of the installer's schematic.
    #[test]
    fn a_machine_is_done_with_the_schematic_of_the_image() {
        let schematic = |digit: &str| digit.repeat(64);
        let image = |id: &str| format!("factory.talos.dev/metal-installer/{id}:v1.14.1");
        let of = |image: String, extensions: Observed<Vec<(String, String)>>| {
            let mut snapshot = fixture::healthy();
            runs(&mut snapshot, "w-1", "v1.14.1");
            snapshot.talos_of("w-1").extensions = extensions;
            let talos = Some("1.14.1".to_owned());
            snapshot.asked.upgrade = Upgrade { talos, image: Some(image), ..Upgrade::default() };
            snapshot.asked.order = Some(Order::default());
            let rollout = Rollout::of(&Assessment::of(&snapshot)).unwrap();
            rollout.machines.iter().find(|it| it.name == "w-1").unwrap().state
        };
        let runs_one = |id: &str| Ok(vec![("schematic".to_owned(), schematic(id))]);
        let wanted = image(&schematic("a"));
        assert_eq!(of(wanted.clone(), runs_one("a")), State::Done);
        assert_eq!(of(wanted.clone(), runs_one("b")), State::ToDo);
        assert_eq!(of(wanted.clone(), Ok(Vec::new())), State::ToDo);
        assert_eq!(of(wanted, Err(Gap::new(GapKind::TimedOut, "late"))), State::Unknown);
        assert_eq!(of("ghcr.io/siderolabs/installer:v1.14.1".to_owned(), Ok(Vec::new())), State::Done);
    }

    #[test]
    fn a_stop_in_between_is_named() {
        let of = |talos: &str, etcd: &str| {
            let mut snapshot = fixture::healthy();
            for name in ["cp-1", "cp-2", "cp-3"] {
                runs(&mut snapshot, name, talos);
                etcd.clone_into(&mut snapshot.etcd_status_mut(name).version);
                let spec = snapshot.talos_of(name).etcd_spec.as_mut().unwrap().as_mut().unwrap();
                spec.image = format!("registry.k8s.io/etcd:v{etcd}");
            }
            plan(snapshot)
        };
        assert_eq!(of("v1.13.1", "3.6.11").etcd, None);
        assert_eq!(plan(fixture::healthy()).etcd, None, "an etcd of the configuration's own stays");
        let rollout = of("v1.13.0", "3.6.9");
        let (exit, why) = rollout.shortcoming().unwrap();
        assert_eq!(exit, Exit::Unhealthy);
        assert_eq!(
            why,
            "Talos v1.13.10 (etcd 3.6.14) has to come before Talos v1.14.1: cp-1 runs etcd 3.6.9; \
             required: etcd 3.6.11 or newer on every member before any goes to 3.7"
        );
        assert_eq!(rollout.etcd.unwrap().releases, [("1.13.10".to_owned(), "3.6.14".to_owned())]);
        let set = {
            let mut snapshot = fixture::healthy();
            runs(&mut snapshot, "cp-1", "v1.13.1");
            let spec = snapshot.talos_of("cp-1").etcd_spec.as_mut().unwrap().as_mut().unwrap();
            spec.image = "registry.k8s.io/etcd:v3.6.11".to_owned();
            snapshot.etcd_status_mut("cp-3").version = "3.6.9".to_owned();
            plan(snapshot)
        };
        assert!(set.shortcoming().unwrap().1.contains("cp-3 runs etcd 3.6.9"), "{:?}", set.etcd);
    }

    /// An ID that is unknown on a machine, or not the same on all, does not identify the cluster.
    #[test]
    fn all_machines_that_answer_are_of_one_cluster() {
        let of = |ids: [Observed<Option<&str>>; 4], edit: &dyn Fn(&mut Snapshot)| {
            let mut snapshot = fixture::healthy();
            for (node, id) in ["cp-1", "cp-2", "cp-3", "w-1"].into_iter().zip(ids) {
                snapshot.talos_of(node).cluster_id = id.map(|id| id.map(str::to_owned));
            }
            edit(&mut snapshot);
            plan(snapshot).cluster.talos
        };
        let late = || Err(Gap::new(GapKind::TimedOut, "late"));
        let one = || Ok(Some("one"));
        let known = Some("one".to_owned());
        assert_eq!(of([one(), one(), one(), one()], &|_| ()), known);
        assert_eq!(of([one(), one(), one(), late()], &|_| ()), None);
        assert_eq!(of([one(), one(), one(), late()], &|it| it.power_off("w-1")), known, "it says nothing");
        assert_eq!(of([one(), one(), one(), Ok(Some("other"))], &|_| ()), None);
        assert_eq!(of([one(), one(), one(), Ok(None)], &|_| ()), None);
        let has = |digests: &[&str]| {
            let digests: Vec<String> = digests.iter().map(|&it| it.to_owned()).collect();
            move |it: &mut Snapshot| {
                it.talos.as_mut().unwrap().credentials.as_mut().unwrap().ca_digests.clone_from(&digests);
            }
        };
        let none = || [Ok(None), Ok(None), Ok(None), Ok(None)];
        assert_eq!(of(none(), &has(&["a1", "b2"])), Some("ca-sha256:a1+b2".to_owned()));
        assert_eq!(of(none(), &has(&[])), None);
        assert_eq!(of([late(), late(), late(), late()], &has(&["a1"])), None);
    }

    #[test]
    fn kubernetes_is_done_with_the_last_kubelet() {
        let of = |target: &str, edit: &dyn Fn(&mut Snapshot)| {
            let mut snapshot = fixture::healthy();
            edit(&mut snapshot);
            Rollout { kubernetes: Some(target.to_owned()), ..plan(snapshot) }.kubernetes_state().unwrap()
        };
        assert_eq!(of("1.35.4", &|_| ()), State::Done);
        assert_eq!(of("1.36.0", &|_| ()), State::ToDo);
        assert_eq!(of("1.35.4", &|it| it.kube_node_mut("w-1").kubelet_version.clear()), State::Unknown);
    }
}
