//! The network of a machine.

use serde_json::json;

use super::{Facts, Subject};
use crate::cosi::kind;

pub(super) fn tell(subject: &Subject<'_>, facts: &mut Facts) {
    let Subject { address, machine, .. } = subject;
    facts.put(kind::HOSTNAME_STATUSES, "hostname", json!({"hostname": machine.name, "domainname": ""}));

    let own = format!("{address}/16");
    let pods = format!("{}/32", subject.pods());
    facts.put(kind::NODE_ADDRESSES, "default", json!({"addresses": [own], "sortAlgorithm": "v1"}));
    for set in ["accumulative", "current", "routed"] {
        let mut put = |id: &str, version, addresses: &[&String]| {
            let spec = json!({"addresses": addresses, "sortAlgorithm": "v1"});
            facts.put_version(kind::NODE_ADDRESSES, &format!("{set}{id}"), version, spec);
        };
        put("", 2, &[&own, &pods]);
        put("-no-k8s", 1, &[&own]);
        put("-only-k8s", 2, &[&pods]);
    }
    links(&own, &pods, facts);
}

fn links(own: &str, pods: &str, facts: &mut Facts) {
    for (link, index, address, scope) in
        [("eth0", 2, own, "global"), ("flannel.1", 3, pods, "global"), ("lo", 1, "127.0.0.1/8", "host")]
    {
        let spec = json!({
            "address": address, "linkIndex": index, "linkName": link, "family": "inet4", "scope": scope,
            "flags": "permanent", "priority": 0,
        });
        facts.put(kind::ADDRESS_STATUSES, &format!("{link}/{address}"), spec);
    }
    let mut put = |link: &str, index, (form, queue, of), hardware: &str, mtu, state| {
        let spec = json!({
            "index": index, "type": form, "linkIndex": 0, "flags": "UP,RUNNING,LOWER_UP", "hardwareAddr": hardware,
            "permanentAddr": "", "broadcastAddr": "ff:ff:ff:ff:ff:ff", "mtu": mtu, "queueDisc": queue,
            "operationalState": state, "kind": of, "slaveKind": "", "linkState": true, "port": "Other",
            "duplex": "Unknown",
        });
        facts.put(kind::LINK_STATUSES, link, spec);
    };
    put("eth0", 2, ("ether", "fq_codel", ""), "52:54:00:15:31:18", 1500, "up");
    put("flannel.1", 3, ("ether", "noqueue", "vxlan"), "46:ba:c2:86:41:4b", 1450, "unknown");
    put("lo", 1, ("loopback", "noqueue", ""), "00:00:00:00:00:00", 65_536, "unknown");
}
