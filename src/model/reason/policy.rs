//! Expectations of a policy that go beyond the cluster's own state.

use super::Step::{Do, Look};
use super::Text;
use super::sources::{KUBECTL_WAIT, POLICY, TALOS_EXTENSIONS_INSTALL};

pub(super) const EXTENSION_MISSING: Text = Text {
    explanation: "The policy lists system extensions that every machine should have (`expect.extensions`), and this machine reports no such extension. A single upgrade with an installer without it is enough: the machine still boots, but everything that needs the extension breaks, such as volumes over iSCSI or a guest agent.",
    source: TALOS_EXTENSIONS_INSTALL,
    remedy: &[
        Look("talosctl -n NODE get extensions"),
        Do("Upgrade the machine with an installer that has the extension, or take it out of the policy."),
    ],
};

pub(super) const MACHINE_OFF: Text = Text {
    explanation: "The policy declares this machine to be off on purpose (`machines`), and it is. Its other findings are skipped with that reason, and the workloads that ran on it are checked on the machines where they should run now. The excuse ends automatically at the time that the policy gives.",
    source: POLICY,
    remedy: &[Do(
        "Nothing, until the time that the policy gives. When the machine is back, take the entry out of the policy.",
    )],
};

pub(super) const MACHINE_NOT_OFF: Text = Text {
    explanation: "The policy declares this machine to be off on purpose (`machines`), and something still answers for it: its Talos API, its kubelet or its API server. A machine that answers is checked like any other, so the entry excuses nothing.",
    source: POLICY,
    remedy: &[
        Look("talosctl -n NODE version"),
        Do("Take the entry out of the policy if the machine is back. If it should be off, find out who started it."),
    ],
};

pub(super) const EXCUSE_EXPIRED: Text = Text {
    explanation: "The time until which the policy excuses a machine or a problem has passed, by the clock of this runner or of an API server. From then on nothing is excused: what is still wrong fails as if the entry did not exist.",
    source: POLICY,
    remedy: &[Do(
        "Repair what was excused and take the entry out of the policy, or decide again and set a later `until`.",
    )],
};

pub(super) const EXCUSE_UNPROVEN: Text = Text {
    explanation: "An excuse of the policy counts only while the runner's clock and the clock of an API server are both before its end. No API server has reported its time in this round, or, by that clock, the end is further in the future than an excuse may last. So nothing is excused.",
    source: POLICY,
    remedy: &[
        Look("kubectl get --raw /version"),
        Do(
            "Run with access to Kubernetes: the identity needs to read the leases of `kube-node-lease` or `kube-system`. Compare the runner's clock with that of the cluster.",
        ),
    ],
};

pub(super) const ACCEPT_UNUSED: Text = Text {
    explanation: "The policy accepts a problem (`accept`) that does not exist: the check ran on its targets, and none of its problems has this reason and this target. Either it has been repaired, or the entry never matched. An entry that is left behind excuses the next problem of its kind.",
    source: POLICY,
    remedy: &[Do(
        "Take the entry out of the policy. If it should match, compare its check, reason and target with the report (`-o json`, `checks[].problems[]`).",
    )],
};

pub(super) const ACCEPT_EXCEEDED: Text = Text {
    explanation: "More problems match an entry of the policy than it accepts (`max`, 1 unless it is set), so it accepts none of them. A pattern was written for the problems that were known then; nothing has been decided about the newer ones.",
    source: POLICY,
    remedy: &[Do("Look at the problems that are new. If all of them are known, raise `max`.")],
};

pub(super) const REQUIREMENT_UNMET: Text = Text {
    explanation: "The policy sets a requirement for objects in the cluster (`require`), such as a condition, a field's value or a recent time, and the objects do not meet it. Nothing else about the objects is checked: the requirement is the policy author's own.",
    source: KUBECTL_WAIT,
    remedy: &[
        Look("kubectl -n NAMESPACE describe RESOURCE NAME"),
        Do(
            "Find out what the object's controller reports: its conditions, its events, its own log. If the requirement is out of date, correct it in the policy.",
        ),
    ],
};

pub(super) const REQUIREMENT_PROGRESSING: Text = Text {
    explanation: "An object is on its way to what the policy requires (`require`): it is younger than five minutes and lacks the field, its controller has not seen the newest generation yet, or some of its pods are not updated or not ready. This fails for now; with `--wait-timeout` the run waits for it.",
    source: KUBECTL_WAIT,
    remedy: &[
        Look("kubectl -n NAMESPACE describe RESOURCE NAME"),
        Do(
            "Wait. If nothing changes for several minutes, check that the controller for this kind of object is running.",
        ),
    ],
};

pub(super) const REQUIREMENT_UNCLEAR: Text = Text {
    explanation: "The objects show neither that a requirement of the policy (`require`) is met nor that it is not: the field is absent, the path leads to several values or to a list, the time is in the future or not a time at all, or the status does not show whether the object is current. A requirement does not pass without evidence, so this is undetermined.",
    source: KUBECTL_WAIT,
    remedy: &[
        Look("kubectl -n NAMESPACE get RESOURCE NAME -o yaml"),
        Do(
            "Compare the path of the policy with the object. If the API omits a field that is zero, give its value with `orElse`. If nothing has ever written a status, check that the controller for this kind of object is installed and running.",
        ),
    ],
};

pub(super) const OBJECT_MISSING: Text = Text {
    explanation: "The policy requires an object that does not exist (`require`), or sets a requirement for a list that is empty. The kind is served, so the object was never created, or it was deleted. If an empty list is fine, set `allowNone: true` in the policy.",
    source: KUBECTL_WAIT,
    remedy: &[
        Look("kubectl get RESOURCE --all-namespaces"),
        Do(
            "Compare name, namespace and selectors of the policy with the existing objects, and find out what creates them.",
        ),
    ],
};

pub(super) const KIND_NOT_SERVED: Text = Text {
    explanation: "The policy sets a requirement for a kind of object that the API server does not serve (`require`), or it sets a namespace for objects that are not namespaced, or none for objects that are. A custom resource is served once its definition is installed; an aggregated API, while its server answers. It is unknown whether the objects are as required.",
    source: KUBECTL_WAIT,
    remedy: &[
        Look("kubectl api-resources -o name"),
        Do("Write the resource as that list does (plural, dot, group), and install the definition if it is missing."),
    ],
};
