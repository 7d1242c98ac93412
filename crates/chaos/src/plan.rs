//! The input of the simulator and of the program: a scenario, credentials and arguments. All of it can also be written as a file that can
//! become a row of the matrix.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use crate::case::{Case, Machine};

/// A case in full detail.
#[derive(Default)]
pub(crate) struct Plan {
    pub(crate) machines: Vec<Machine>,
    /// Names of `machines`, in the same order.
    pub(crate) names: Vec<String>,
    cluster: Map<String, Value>,
    pub(crate) changes: Vec<Value>,
    pub(crate) arguments: Vec<String>,
    /// Content of the `--policy` file, without its version.
    pub(crate) policy: Option<String>,
    /// The user's Talos role.
    pub(crate) role: Option<&'static str>,
    /// Names of the talosconfig's endpoints, instead of all control planes.
    pub(crate) endpoints: Option<Vec<String>>,
}

impl Plan {
    pub(crate) fn of(case: &Case) -> Self {
        let named = case.named();
        let mut plan = Self {
            machines: named.iter().map(|(machine, _)| *machine).collect(),
            names: named.into_iter().map(|(_, name)| name).collect(),
            ..Self::default()
        };
        plan.cluster = plan.cluster_of(case);
        for shape in &case.shapes {
            (shape.make)(case, &mut plan);
        }
        for planted in &case.faults {
            let name = planted.machine.map(|machine| plan.name(machine)).unwrap_or_default();
            let before = plan.changes.len();
            (planted.fault.plant)(&mut plan, &name);
            if let Some(from) = planted.from {
                plan.changes[before..].iter_mut().for_each(|change| change["at"] = json!(format!("{from}s")));
            }
            let end = planted.fault.name;
            if let Some(until) = planted.until.filter(|_| planted.fault.ends) {
                plan.changes.push(match planted.machine {
                    Some(_) => json!({"end": end, "node": name, "at": format!("{until}s")}),
                    None => json!({"end": end, "at": format!("{until}s")}),
                });
            }
        }
        for choice in &case.choices {
            (choice.make)(case, &mut plan);
        }
        plan
    }

    fn cluster_of(&self, case: &Case) -> Map<String, Value> {
        let mut cluster = Map::new();
        if case.shuffle == 0 {
            cluster.insert("control-planes".into(), case.control_planes.into());
            cluster.insert("workers".into(), case.workers.into());
        } else {
            let machines = self.machines.iter().zip(&self.names);
            let role = |machine: &Machine| if machine.controls { "control-plane" } else { "worker" };
            let machines = machines.map(|(machine, name)| json!({"name": name, "role": role(machine)})).collect();
            cluster.insert("machines".into(), machines);
        }
        cluster.insert("talos".into(), case.release.talos.into());
        cluster.insert("kubernetes".into(), case.release.kubernetes.into());
        cluster.insert("etcd".into(), case.release.etcd.into());
        cluster
    }

    pub(crate) fn name(&self, machine: Machine) -> String {
        let place = self.machines.iter().position(|it| *it == machine);
        place.and_then(|place| self.names.get(place)).cloned().unwrap_or_default()
    }

    /// Names of the control planes, `cp-1` first.
    pub(crate) fn control_planes(&self) -> Vec<String> {
        self.of_role(true)
    }

    pub(crate) fn workers(&self) -> Vec<String> {
        self.of_role(false)
    }

    /// The last worker, or the last control plane if there are no workers.
    pub(crate) fn last(&self) -> Option<String> {
        self.workers().pop().or_else(|| self.control_planes().pop())
    }

    fn of_role(&self, controls: bool) -> Vec<String> {
        let mut found: Vec<_> =
            self.machines.iter().zip(&self.names).filter(|(machine, _)| machine.controls == controls).collect();
        found.sort();
        found.into_iter().map(|(_, name)| name.clone()).collect()
    }

    /// Sets a key of the scenario's `[cluster]` table.
    pub(crate) fn cluster(&mut self, key: &str, value: Value) {
        self.cluster.insert(key.to_owned(), value);
    }

    pub(crate) fn change(&mut self, change: Value) {
        self.changes.push(change);
    }

    /// Merges into a Talos resource of one machine, or of all machines if `node` is `None`.
    pub(crate) fn resource(&mut self, node: Option<&str>, kind: &str, id: &str, merge: &Value) {
        let mut change = json!({"do": "resource", "type": kind, "id": id, "merge": merge});
        if let Some(node) = node {
            change["node"] = node.into();
        }
        self.change(change);
    }

    /// Merges into a Kubernetes object; `namespace` is `""` for cluster-scoped objects.
    pub(crate) fn object(&mut self, resource: &str, namespace: &str, name: &str, merge: &Value) {
        let mut change = json!({"do": "object", "resource": resource, "name": name, "merge": merge});
        if !namespace.is_empty() {
            change["namespace"] = namespace.into();
        }
        self.change(change);
    }

    pub(crate) fn remove_object(&mut self, resource: &str, namespace: &str, name: &str) {
        let mut change = json!({"do": "remove-object", "resource": resource, "name": name});
        if !namespace.is_empty() {
            change["namespace"] = namespace.into();
        }
        self.change(change);
    }

    pub(crate) fn argue(&mut self, arguments: &[&str]) {
        self.arguments.extend(arguments.iter().map(|&argument| argument.to_owned()));
    }

    /// The simulator's part of the file. It contains `{NAME}` in place of that machine's address.
    pub(crate) fn scenario(&self, title: &str) -> String {
        let mut text = format!("title = {}\n\n[cluster]\n", inline(&title.into()));
        table(&mut text, &self.cluster);
        for change in &self.changes {
            text.push_str("\n[[change]]\n");
            table(&mut text, change.as_object().unwrap_or(&Map::new()));
        }
        text
    }

    /// Formats the case as a row of the matrix.
    pub(crate) fn row(&self, title: &str, exit: i32, comments: &[String]) -> String {
        let mut text = String::new();
        for comment in comments.iter().flat_map(|comment| comment.lines()) {
            let _ = writeln!(text, "# {comment}");
        }
        let _ = writeln!(text, "ids = [\"CHAOS\"]");
        let (head, rest) = self
            .scenario(title)
            .split_once('\n')
            .map_or_else(Default::default, |(head, rest)| (head.to_owned(), rest.to_owned()));
        let _ = writeln!(text, "{head}");
        if !self.arguments.is_empty() {
            let _ = writeln!(text, "arguments = {}", inline(&json!(self.arguments)));
        }
        if self.role.is_some() || self.endpoints.is_some() {
            text.push_str("\n[credentials]\n");
            if let Some(role) = self.role {
                let _ = writeln!(text, "role = {}", inline(&role.into()));
            }
            if let Some(endpoints) = &self.endpoints {
                let _ = writeln!(text, "endpoints = {}", inline(&json!(endpoints)));
            }
        }
        let _ = write!(text, "{rest}\n[expect]\nexit = {exit}\nproblems = []\n");
        text
    }
}

fn table(text: &mut String, table: &Map<String, Value>) {
    for (key, value) in table {
        let _ = writeln!(text, "{} = {}", name(key), inline(value));
    }
}

fn name(key: &str) -> String {
    let bare = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
    if key.bytes().all(bare) { key.to_owned() } else { inline(&key.into()) }
}

/// Formats a value as one line of TOML.
fn inline(value: &Value) -> String {
    let list = |items: Vec<String>| items.join(", ");
    match value {
        Value::Array(items) => format!("[{}]", list(items.iter().map(inline).collect())),
        Value::Object(items) if items.is_empty() => "{}".to_owned(),
        Value::Object(items) => {
            format!(
                "{{ {} }}",
                list(items.iter().map(|(key, value)| format!("{} = {}", name(key), inline(value))).collect())
            )
        }
        // JSON's strings, numbers and booleans are valid TOML.
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written_as_toml_reads_them() {
        let value = json!({"a": [1, "\"x\"\n", {"b.c/d": true}], "e": {}, "f": 1.5});
        let read: Value = toml::from_str::<toml::Table>(&format!("v = {}", inline(&value)))
            .map(|table| serde_json::to_value(table).unwrap())
            .unwrap();
        assert_eq!(read["v"], value);
    }
}
