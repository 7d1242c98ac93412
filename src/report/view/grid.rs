//! Every node at every stage, at a glance: the opening of the text, Markdown and HTML reports.
//!
//! A cell is the worst status that any check of the stage found for the node. Findings about no particular node have a row of their own, so
//! that the grid shows every problem.

use std::collections::HashMap;

use super::style::mark;
use crate::model::{CheckId, Kind, Role, Stage, Status, Target};
use crate::report::Report;
use crate::text::host;
use crate::text::sanitize::brief;
use crate::text::some;

/// Number of rows up to which each node has a row of its own.
const ROWS: usize = 40;
/// Number of nodes that are named in a shared row.
const NAMED: usize = 2;
/// Maximum length of a name, in characters.
const LABEL: usize = 60;

/// Meanings of the marks.
pub(crate) const LEGEND: [(Option<Status>, &str); 5] = [
    (Some(Status::Pass), "pass"),
    (Some(Status::Warn), "warning"),
    (Some(Status::Fail), "failed"),
    (Some(Status::Error), "unknown"),
    (None, "nothing to check"),
];

/// Returns the [`LEGEND`] in words, each after its mark.
pub(crate) fn legend(ascii: bool) -> [String; 5] {
    LEGEND.map(|(status, meaning)| format!("{} {meaning}", mark(status, ascii)))
}

/// Returns a node's name, as far as it fits into a grid.
pub(crate) fn label(target: &Target) -> String {
    brief(&target.to_string(), LABEL)
}

/// Nodes and stages, the worst rows first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Grid {
    /// The columns: stages that have a check in this report.
    pub(crate) stages: Vec<Stage>,
    pub(crate) rows: Vec<Row>,
}

/// A node, or the cluster as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) target: Target,
    /// `None` for the cluster.
    pub(crate) role: Option<Role>,
    /// One status for each stage. `None`: no check of the stage has a finding about it.
    pub(crate) cells: Vec<Option<Status>>,
    /// The first check with the worst status, for each stage.
    pub(crate) found: Vec<Option<CheckId>>,
}

/// Rows that are shown as one because their cells are the same; never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Band<'a> {
    pub(crate) rows: Vec<&'a Row>,
}

impl Row {
    /// Returns the worst status. `None`: no check has a finding about it.
    pub(crate) fn worst(&self) -> Option<Status> {
        self.cells.iter().copied().max().flatten()
    }
}

impl Band<'_> {
    /// Returns one status for each stage.
    pub(crate) fn cells(&self) -> &[Option<Status>] {
        &self.rows[0].cells
    }

    /// Returns the check that found the status of each stage, for the first row.
    pub(crate) fn found(&self) -> &[Option<CheckId>] {
        &self.rows[0].found
    }

    /// Returns `cp-1, cp-2 and 3 more`, each name as `show` writes it.
    pub(crate) fn label(&self, show: fn(&str) -> String) -> String {
        some(self.rows.iter().map(|row| show(&label(&row.target))), NAMED)
    }
}

impl Grid {
    pub(crate) fn of(report: &Report) -> Self {
        let mut stages: Vec<_> = report.checks.iter().map(|check| check.check.stage).collect();
        stages.sort_unstable();
        stages.dedup();
        let nodes = Nodes::of(report);
        let row = |target: Target, role: Option<Role>| Row {
            target,
            role,
            cells: vec![None; stages.len()],
            found: vec![None; stages.len()],
        };
        let mut rows = vec![row(Target::cluster(), None)];
        rows.extend(nodes.all.iter().map(|(target, role)| row(target.clone(), Some(*role))));
        for check in report.checks.iter().filter(|check| check.selection.runs()) {
            let Ok(column) = stages.binary_search(&check.check.stage) else { continue };
            let mut worsen = |row: usize, status: Status| {
                let row = &mut rows[row];
                if row.cells[column] < Some(status) {
                    row.cells[column] = Some(status);
                    row.found[column] = Some(check.check.id);
                }
            };
            for finding in &check.findings {
                // The cluster's row is the first.
                let row = nodes.find(&finding.target).map_or(0, |node| node + 1);
                worsen(row, finding.outcome.status());
            }
            if check.findings.is_empty() {
                worsen(0, check.shown_status());
            }
        }
        // The sort is stable: among equal rows, the cluster comes first and nodes keep their order.
        rows.sort_by_key(|row| std::cmp::Reverse(row.worst()));
        Self { stages, rows }
    }

    /// Returns the rows as they are shown: each separately, or in a large cluster those with the same cells together.
    pub(crate) fn bands(&self, fold: bool) -> Vec<Band<'_>> {
        let mut bands: Vec<Band<'_>> = Vec::new();
        let mut known: HashMap<&[Option<Status>], usize> = HashMap::new();
        for row in &self.rows {
            if fold && self.rows.len() > ROWS && row.target.kind != Kind::Cluster {
                let band = *known.entry(&row.cells).or_insert(bands.len());
                if let Some(band) = bands.get_mut(band) {
                    band.rows.push(row);
                    continue;
                }
            }
            bands.push(Band { rows: vec![row] });
        }
        bands
    }
}

/// Returns the worst status of each node, in the order of the population. `None`: no check has a finding about it.
pub(crate) fn worst_of_nodes(report: &Report) -> Vec<Option<Status>> {
    let nodes = Nodes::of(report);
    let mut worst = vec![None; nodes.all.len()];
    let checks = report.checks.iter().filter(|check| check.selection.runs());
    for finding in checks.flat_map(|check| &check.findings) {
        if let Some(node) = nodes.find(&finding.target) {
            worst[node] = worst[node].max(Some(finding.outcome.status()));
        }
    }
    worst.truncate(report.sources.nodes.len());
    worst
}

/// The nodes of a report, and a lookup of the node that a finding is about.
#[derive(Debug)]
pub(crate) struct Nodes {
    /// Nodes with their roles, in the order of the population; last those that only a check names.
    pub(crate) all: Vec<(Target, Role)>,
    by_both: HashMap<(String, String), usize>,
    by_either: HashMap<String, usize>,
}

impl Nodes {
    pub(crate) fn of(report: &Report) -> Self {
        let mut nodes = Self { all: Vec::new(), by_both: HashMap::new(), by_either: HashMap::new() };
        for node in &report.sources.nodes {
            nodes.add(Target::new(Kind::Node, node.name.as_str()).with_address(node.address.as_str()), node.role);
        }
        // This node is expected, but no source lists it.
        for finding in report.checks.iter().flat_map(|check| &check.findings) {
            if finding.target.kind == Kind::Node && nodes.find(&finding.target).is_none() {
                nodes.add(Target::clone(&finding.target), Role::Unknown);
            }
        }
        nodes
    }

    fn add(&mut self, target: Target, role: Role) {
        let index = self.all.len();
        if let Some(address) = &target.address {
            self.by_both.entry((target.name.clone(), address.clone())).or_insert(index);
            self.by_either.entry(address.clone()).or_insert(index);
        }
        self.by_either.entry(target.name.clone()).or_insert(index);
        self.all.push((target, role));
    }

    /// Returns the index of the node that this target is about, or `None` for the cluster as a whole.
    pub(crate) fn find(&self, target: &Target) -> Option<usize> {
        let known = |text: &str| self.by_either.get(text).copied();
        match target.kind {
            Kind::Node | Kind::EtcdMember => {
                let address = target.address.as_deref();
                let both = address.and_then(|address| self.by_both.get(&(target.name.clone(), address.to_owned())));
                both.copied().or_else(|| known(address?)).or_else(|| known(&target.name))
            }
            Kind::Pod => known(target.node.as_deref()?),
            Kind::Endpoint => known(host(&target.name)),
            Kind::Cluster
            | Kind::Credentials
            | Kind::Workload
            | Kind::Webhook
            | Kind::ApiService
            | Kind::Policy
            | Kind::ServerCheck => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Finding, Outcome};
    use crate::report::{NotSelected, Selection, fixture};

    /// Returns lines such as `cp-3 ✗··`, one for each row.
    fn drawn(report: &Report) -> Vec<String> {
        let grid = Grid::of(report);
        let marks = |row: &Row| row.cells.iter().map(|cell| mark(*cell, false)).collect::<String>();
        grid.rows.iter().map(|row| format!("{} {}", row.target.name, marks(row))).collect()
    }

    #[test]
    fn shows_the_worst_of_each_node_at_each_stage() {
        assert_eq!(drawn(&fixture::healthy()), ["cluster ··✓✓✓··", "cp-1 ✓✓✓··✓✓", "cp-2 ✓✓✓··✓✓", "cp-3 ✓✓✓··✓✓"]);
        assert_eq!(drawn(&fixture::unhealthy()), ["cp-3 ✗??·✗✗✗", "cluster ··!✓···", "cp-1 ✓✓✓··✓·", "cp-2 ✓✓✓··✓·"]);
    }

    #[test]
    fn the_worst_of_each_node_is_that_of_its_row() {
        for report in [fixture::healthy(), fixture::unhealthy(), fixture::nothing_judged(), fixture::large(50, 20)] {
            let worst = worst_of_nodes(&report);
            assert_eq!(worst.len(), report.sources.nodes.len());
            let grid = Grid::of(&report);
            for (node, worst) in report.sources.nodes.iter().zip(worst) {
                let row = grid.rows.iter().find(|row| row.target.name == node.name).unwrap();
                assert_eq!(row.worst(), worst, "{}", node.name);
            }
        }
    }

    #[test]
    fn what_was_not_judged_is_not_known() {
        assert_eq!(drawn(&fixture::nothing_judged())[0], "cluster ???????");
        let mut report = fixture::nothing_judged();
        for check in &mut report.checks {
            check.selection = Selection::NotSelected(NotSelected::Skip);
        }
        assert_eq!(drawn(&report)[0], "cluster ·······");
    }

    fn pass(target: Target) -> Finding {
        Finding::new(target, Outcome::Pass(None))
    }

    #[test]
    fn finds_the_node_that_a_finding_is_about() {
        let mut report = fixture::healthy();
        report.sources.nodes[2].address = "fd00::3".to_owned();
        let nodes = Nodes::of(&report);
        let endpoint = |name: &str| nodes.find(&Target::new(Kind::Endpoint, name));
        assert_eq!(endpoint("10.0.0.2:50000"), Some(1));
        assert_eq!(endpoint("https://10.0.0.2:6443"), Some(1));
        assert_eq!(endpoint("https://cp-1"), Some(0));
        assert_eq!(endpoint("[fd00::3]:50000"), Some(2));
        assert_eq!(endpoint("fd00::3"), Some(2));
        assert_eq!(endpoint("10.0.0.22:50000"), None);
        assert_eq!(nodes.find(&Target::pod("cp-1", None)), None, "a pod's own name says nothing");
        assert_eq!(nodes.find(&Target::pod("x", Some("cp-2"))), Some(1));
        assert_eq!(nodes.find(&Target::new(Kind::EtcdMember, "cp-3").with_id("1")), Some(2));
        assert_eq!(nodes.find(&Target::new(Kind::Workload, "cp-3")), None);
    }

    #[test]
    fn two_nodes_of_one_name_stay_two() {
        let mut report = fixture::healthy();
        report.sources.nodes[1].name = "cp-1".to_owned();
        let nodes = Nodes::of(&report);
        let second = Target::new(Kind::Node, "cp-1").with_address("10.0.0.2");
        assert_eq!(nodes.find(&second), Some(1));
    }

    #[test]
    fn a_node_that_only_a_check_names_has_a_row() {
        let mut report = fixture::healthy();
        report.checks[0].findings.push(pass(Target::new(Kind::Node, "worker-9")));
        report.checks[1].findings.push(pass(Target::new(Kind::Node, "worker-9")));
        assert_eq!(drawn(&report).last().unwrap(), "worker-9 ✓✓·····");
    }

    #[test]
    fn many_that_are_alike_are_one() {
        let report = fixture::healthy_with(ROWS + 2);
        let grid = Grid::of(&report);
        let sizes = |fold| grid.bands(fold).iter().map(|band| band.rows.len()).collect::<Vec<_>>();
        assert_eq!(sizes(true), [1, 3, ROWS - 1]);
        assert_eq!(sizes(false).len(), ROWS + 3);
        assert_eq!(Grid::of(&fixture::healthy_with(ROWS - 1)).bands(true).len(), ROWS);
    }
}
