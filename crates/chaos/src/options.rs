//! Options of the program.

use crate::case::Case;
use crate::faults::Source;
use crate::plan::Plan;

/// Arguments of a run, and their effect on the expected report.
pub(crate) struct Choice {
    pub(crate) name: &'static str,
    pub(crate) make: fn(&Case, &mut Plan),
    pub(crate) fits: fn(&Case) -> bool,
    /// A run uses at most one choice of each group.
    pub(crate) group: &'static str,
    /// Choices that cannot be combined with this one.
    pub(crate) excludes: &'static [&'static str],
    /// Sources that are not queried at all: a fault that only they reveal is not judged.
    pub(crate) leaves_out: &'static [Source],
    /// Sources for which not every fault is judged: a broken cluster may be called healthy.
    pub(crate) narrows: &'static [Source],
    /// Whether the choice demands something that the cluster does not have.
    pub(crate) demands: fn(&Case) -> bool,
    /// Whether warnings fail the run.
    pub(crate) strict: bool,
    /// Choices under which the demand of this one cannot be checked.
    pub(crate) beyond: &'static [&'static str],
    /// Seconds that the run waits, and how many of the last ones are too few to notice anything new.
    pub(crate) waits: Option<(u64, u64)>,
}

const USUAL: Choice = Choice {
    name: "",
    make: |_, _| {},
    fits: |_| true,
    group: "",
    excludes: &[],
    leaves_out: &[],
    narrows: &[],
    demands: |_| false,
    strict: false,
    beyond: &[],
    waits: None,
};

const KUBERNETES: &[Source] =
    &[Source::Server, Source::Endpoint, Source::Component, Source::Node, Source::Object, Source::Clock];

pub(crate) fn all() -> &'static [Choice] {
    ALL
}

/// The end date of an excuse: accepted in a policy, and never reached by a run.
fn until() -> String {
    let now = jiff::Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC);
    now.date().saturating_add(jiff::Span::new().days(10)).to_string()
}

static ALL: &[Choice] = &[
    Choice { name: "strict", make: |_, plan| plan.argue(&["--strict"]), group: "strict", strict: true, ..USUAL },
    Choice {
        name: "level-talos",
        make: |_, plan| plan.argue(&["--level", "talos"]),
        group: "level",
        leaves_out: &[
            Source::Member,
            Source::Members,
            Source::Server,
            Source::Endpoint,
            Source::Component,
            Source::StaticPod,
            Source::Node,
            Source::Object,
        ],
        // Leases may or may not be read at this level.
        narrows: &[Source::Clock],
        ..USUAL
    },
    Choice {
        name: "level-etcd",
        make: |_, plan| plan.argue(&["--level", "etcd"]),
        group: "level",
        leaves_out: &[
            Source::Server,
            Source::Endpoint,
            Source::Component,
            Source::StaticPod,
            Source::Node,
            Source::Object,
        ],
        // Leases may or may not be read at this level.
        narrows: &[Source::Clock],
        ..USUAL
    },
    Choice {
        name: "level-api",
        make: |_, plan| plan.argue(&["--level", "api"]),
        group: "level",
        leaves_out: &[Source::Node, Source::Object],
        // Leases may or may not be read at this level.
        narrows: &[Source::Clock],
        ..USUAL
    },
    Choice { name: "level-full", make: |_, plan| plan.argue(&["--level", "full"]), group: "level", ..USUAL },
    Choice {
        name: "no-kubernetes",
        make: |_, plan| plan.argue(&["--no-kubernetes"]),
        group: "level",
        leaves_out: KUBERNETES,
        narrows: &[Source::StaticPod],
        ..USUAL
    },
    Choice {
        name: "no-talos",
        make: |_, plan| plan.argue(&["--no-talos"]),
        group: "level",
        leaves_out: &[
            Source::Reach,
            Source::Talos,
            Source::Ready,
            Source::Member,
            Source::Members,
            Source::StaticPod,
            Source::Clock,
        ],
        // Facts that only Talos knows are missing.
        narrows: &[Source::Node, Source::Object],
        ..USUAL
    },
    Choice {
        name: "first-node-only",
        make: |_, plan| {
            let first = plan.control_planes().into_iter().next().unwrap_or_default();
            plan.argue(&["--nodes", &first]);
        },
        // A machine named in `--nodes` has to be ready.
        excludes: &["a-worker-may-be-unready"],
        group: "nodes",
        narrows: &[
            Source::Reach,
            Source::Talos,
            Source::Ready,
            Source::Component,
            Source::StaticPod,
            Source::Node,
            Source::Clock,
            Source::Object,
        ],
        ..USUAL
    },
    Choice {
        name: "all-nodes-by-name",
        make: |_, plan| {
            let (control_planes, workers) = (plan.control_planes().join(","), plan.workers().join(","));
            plan.argue(&["--control-plane-nodes", &control_planes]);
            if !workers.is_empty() {
                plan.argue(&["--worker-nodes", &workers]);
            }
        },
        group: "population",
        ..USUAL
    },
    Choice {
        name: "right-numbers",
        make: |case, plan| {
            plan.argue(&[
                "--expect-control-planes",
                &case.control_planes.to_string(),
                "--expect-workers",
                &case.workers.to_string(),
            ]);
        },
        excludes: &["no-talos"],
        group: "population",
        ..USUAL
    },
    Choice {
        name: "one-worker-more",
        make: |case, plan| plan.argue(&["--expect-workers", &(case.workers + 1).to_string()]),
        excludes: &["no-talos"],
        group: "population",
        demands: |_| true,
        ..USUAL
    },
    Choice {
        name: "a-worker-may-be-unready",
        make: |_, plan| plan.argue(&["--max-unready-workers", "1"]),
        fits: |case| case.workers > 0,
        group: "unready",
        ..USUAL
    },
    Choice {
        name: "margin",
        make: |_, plan| plan.argue(&["--require-quorum-margin", "1"]),
        beyond: &["level-talos", "no-talos"],
        group: "margin",
        demands: |case| case.control_planes < 3,
        ..USUAL
    },
    Choice {
        name: "expected-talos",
        make: |case, plan| plan.argue(&["--expect-talos", case.release.talos]),
        fits: |case| !case.has_shape("patch-releases-mixed"),
        beyond: &["no-talos"],
        group: "versions",
        ..USUAL
    },
    Choice {
        name: "expected-kubernetes",
        make: |case, plan| plan.argue(&["--expect-kubernetes", case.release.kubernetes]),
        beyond: &["level-talos", "level-etcd"],
        // Static pods reveal some of the versions.
        excludes: &["no-kubernetes"],
        group: "versions",
        ..USUAL
    },
    Choice {
        name: "another-talos",
        make: |_, plan| plan.argue(&["--expect-talos", "1.99.0"]),
        beyond: &["no-talos"],
        group: "versions",
        demands: |_| true,
        ..USUAL
    },
    Choice {
        name: "another-kubernetes",
        make: |_, plan| plan.argue(&["--expect-kubernetes", "1.99.0"]),
        beyond: &["level-talos", "level-etcd"],
        // Static pods reveal some of the versions.
        excludes: &["no-kubernetes"],
        group: "versions",
        demands: |_| true,
        ..USUAL
    },
    Choice {
        name: "waits",
        make: |_, plan| plan.argue(&["--wait-timeout", "14s", "--interval", "1s"]),
        group: "wait",
        waits: Some((14, 6)),
        ..USUAL
    },
    Choice {
        name: "waits-at-its-own-pace",
        make: |_, plan| plan.argue(&["--wait-timeout", "13s"]),
        group: "wait",
        waits: Some((13, 5)),
        ..USUAL
    },
    Choice {
        name: "waits-slowly",
        make: |_, plan| plan.argue(&["--wait-timeout", "28s", "--interval", "15s"]),
        group: "wait",
        waits: Some((28, 5)),
        ..USUAL
    },
    Choice {
        name: "waits-for-stability",
        make: |_, plan| plan.argue(&["--wait-timeout", "18s", "--interval", "1s", "--stable-for", "3s"]),
        group: "wait",
        waits: Some((18, 10)),
        ..USUAL
    },
    // A policy that names nothing in the cluster never turns red into green, and one that the cluster complies with
    // never turns green into red.
    Choice {
        name: "policy-of-right-numbers",
        make: |case, plan| {
            let (control_planes, workers) = (case.control_planes, case.workers);
            plan.policy = Some(format!("expect: {{controlPlanes: {control_planes}, workers: {workers}}}"));
        },
        excludes: &["no-talos", "right-numbers", "one-worker-more"],
        group: "policy",
        ..USUAL
    },
    Choice {
        name: "policy-of-tight-thresholds",
        make: |_, plan| {
            let thresholds = "{certificates: 20d, etcdSpace: 60%, diskFree: 20%, clockSkew: 200ms}";
            plan.policy = Some(format!("thresholds: {thresholds}"));
        },
        // The thresholds cause warnings, which fail with `strict`.
        excludes: &["strict"],
        group: "policy",
        ..USUAL
    },
    Choice {
        name: "policy-requires-nodes",
        make: |_, plan| {
            let entry = "{id: nodes, resource: nodes, for: condition=Ready}";
            plan.policy = Some(format!("require:\n  - {entry}"));
        },
        // These levels do not query Nodes, and the last option accepts an unready Node.
        excludes: &["level-talos", "level-etcd", "level-api", "no-kubernetes", "a-worker-may-be-unready"],
        group: "policy",
        ..USUAL
    },
    Choice {
        name: "policy-excuses-nobody",
        make: |_, plan| {
            let excuse = format!("because: it is not there, until: {}", until());
            plan.policy = Some(format!(
                "machines:\n  - {{name: nobody, state: off, {excuse}}}\naccept:\n  - \
                 {{check: k8s.nodes.schedulable, reason: cordoned, target: nobody, {excuse}}}"
            ));
        },
        // An excuse that excuses nothing is a warning, and a machine that is declared off counts as expected.
        excludes: &["strict", "one-worker-more"],
        group: "policy",
        ..USUAL
    },
    Choice { name: "fail-fast", make: |_, plan| plan.argue(&["--fail-fast"]), group: "wait", ..USUAL },
];
