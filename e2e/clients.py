"""talosctl, kubectl and etcdctl: what they are asked, and the shape of what they print.

The same questions go to a simulated cluster and to the real one. Values differ between any two clusters; columns, keys, exit codes
and kinds of rows do not.
"""
import fnmatch
import json
import os
import pathlib
import re
import tomllib

from processes import output

LIMIT = 30
# All types that the binary reads, and the types that `talosctl health` reads.
TYPES = """members machinetype nodename nodeaddresses machinestatus staticpods staticpodstatus configstatuses
    schedulerconfig controllermanagerconfigs bootstrapmanifestsconfigs etcdmembers services nodestatus timestatus hostname
    diagnostics volumestatus versions etcdspecs networkstatus endpoints kubeprismstatuses manifeststatuses""".split()

# Question: (program, arguments). `CP` is a control plane's address, `ALL` the addresses of all nodes, `ETCD` the etcd endpoints.
TALOSCTL = {
    "talosctl version": ["-n", "ALL", "version"],
    "talosctl services": ["-n", "ALL", "services"],
    "talosctl service etcd": ["-n", "CP", "service", "etcd"],
    "talosctl service kubelet": ["-n", "ALL", "service", "kubelet"],
    "talosctl etcd members": ["-n", "CP", "etcd", "members"],
    "talosctl etcd status": ["-n", "CPS", "etcd", "status"],
    "talosctl etcd alarm list": ["-n", "CP", "etcd", "alarm", "list"],
    "talosctl memory": ["-n", "ALL", "memory"],
    "talosctl logs": ["-n", "CP", "logs", "kubelet", "--tail", "1"],
    "talosctl list": ["-n", "CP", "list", "/var/lib/etcd"],
    "talosctl kubeconfig": ["-n", "CP", "kubeconfig", "-"],
    "talosctl get rd": ["-n", "CP", "get", "rd"],
    "talosctl get, unknown type": ["-n", "CP", "get", "nonsense"],
    "talosctl get, unknown id": ["-n", "CP", "get", "members", "nonsense"],
    "talosctl etcd status of a worker": ["-n", "WORKER", "etcd", "status"],
    "talosctl health, client": ["-n", "CP", "health", "--server=false", "--wait-timeout", "20s"],
    "talosctl health, server": ["-n", "CP", "health", "--server=true", "--wait-timeout", "20s"],
    **{f"talosctl get {kind}": ["-n", "CP", "get", kind] for kind in TYPES},
    **{f"talosctl get {kind} -o json": ["-n", "CP", "get", kind, "-o", "json"] for kind in TYPES},
}
KUBECTL = {
    "kubectl version": ["version", "-o", "json"],
    "kubectl get nodes": ["get", "nodes", "-o", "wide"],
    "kubectl get nodes -o json": ["get", "nodes", "-o", "json"],
    "kubectl get pods": ["get", "pods", "-n", "kube-system", "-o", "wide"],
    "kubectl get daemonsets -o name": ["get", "daemonsets", "-n", "kube-system", "-o", "name"],
    "kubectl get deployments -o name": ["get", "deployments", "-n", "kube-system", "-o", "name"],
    "kubectl get leases -o name": ["get", "leases", "-n", "kube-node-lease", "-o", "name"],
    "kubectl get endpointslices -o name": ["get", "endpointslices", "-A", "-o", "name"],
    "kubectl get csr": ["get", "csr"],
    "kubectl describe node": ["describe", "node", "CP-NAME"],
    "kubectl readyz": ["get", "--raw", "/readyz?verbose"],
    "kubectl livez": ["get", "--raw", "/livez?verbose"],
    "kubectl, unknown resource": ["get", "nonsense"],
    "kubectl, unknown name": ["get", "node", "nonsense"],
}
ETCDCTL = {
    "etcdctl member list": ["member", "list"],
    "etcdctl member list -w json": ["member", "list", "-w", "json"],
    "etcdctl endpoint status": ["endpoint", "status", "-w", "json"],
    "etcdctl endpoint health": ["endpoint", "health", "-w", "json"],
    "etcdctl endpoint health --cluster": ["endpoint", "health", "--cluster", "-w", "json"],
    "etcdctl alarm list": ["alarm", "list"],
}
QUESTIONS = {
    **{name: ("talosctl", arguments) for name, arguments in TALOSCTL.items()},
    **{name: ("kubectl", arguments) for name, arguments in KUBECTL.items()},
    **{name: ("etcdctl", arguments) for name, arguments in ETCDCTL.items()},
}


class Answer:
    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err

    def __str__(self):
        return f"exit {self.code}\n{self.out[-1500:]}{self.err[-1500:]}"

    def shape(self):
        """Lines that describe the form of an answer."""
        lines = {f"exit {self.code}"}
        try:
            lines |= {f"key {path}" for document in documents(self.out) for path in paths(document)}
        except ValueError:
            lines |= {f"out {line}" for line in map(form, self.out.splitlines()) if line}
        lines |= {f"err {line}" for line in map(form, self.err.splitlines()) if line}
        return lines


def ask(name, words, prefix, env):
    """The answer to one question; `words` are what stands for a cluster's own names."""
    program, arguments = QUESTIONS[name]
    arguments = [words.get(argument, argument) for argument in arguments]
    return Answer(*output([*prefix, *words.get(program, [program]), *arguments], LIMIT, env=env))


def documents(text):
    """JSON documents, one after the other."""
    text, found, decoder = text.strip(), [], json.JSONDecoder()
    if not text.startswith(("{", "[")):
        raise ValueError
    while text:
        document, end = decoder.raw_decode(text)
        found.append(document)
        text = text[end:].lstrip()
    return found


def paths(value, at=""):
    if isinstance(value, dict):
        # The keys of these objects differ between clusters.
        own = at.endswith((".labels", ".annotations", ".allocatable", ".capacity"))
        for key, item in value.items():
            yield from paths(item, f"{at}.{'*' if own else key}")
    elif isinstance(value, list):
        for item in value:
            yield from paths(item, f"{at}[]")
        if not value:
            yield f"{at}[]"
    else:
        yield f"{at}: {type(value).__name__}"


# Cluster-specific parts of a line and their placeholders, in this order.
OWN = [(re.compile(pattern), word) for pattern, word in (
    (r"[A-Za-z0-9+/]{40,}=*", "BASE64"),
    (r"\b\d{4}-\d\d-\d\dT[\d:.]+Z?", "TIME"),
    (r"\b\w{3}, \d\d \w{3} \d{4} [\d:]{8} \+0000", "TIME"),
    (r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b|\b([0-9a-f]{2}:){5}[0-9a-f]{2}\b", "ID"),
    (r"\b([0-9a-f]{40}|[0-9a-f]{32}|[0-9a-f]{16})\b", "ID"),
    (r"\b(coredns|kube-flannel|kube-proxy|kube-dns|csr)(-[a-z0-9]{5,10})+\b", r"\1-ID"),
    (r"system:bootstrap:\w+", "system:bootstrap:ID"),
    (r"\b(cp|w|worker)-?\d+\b", "NODE"),
    (r"\b(ch|simulated)\b", "CLUSTER"),
    (r"\b\d+\.\d+\.\d+\.\d+\b", "ADDRESS"),
    (r"\b(\d+h)?(\d+m)?\d+(\.\d+)?s\b|\b\d+[hmd](\d+[hm])?\b", "SPAN"),
    (r" ?\(SPAN ago\)", ""),
    (r"\d+([.,]\d+)?", "0"),
    (r"\s+", " "),
)]


def form(line):
    """What two clusters have in common of a line: its words, without names, addresses, numbers and times."""
    for pattern, word in OWN:
        line = pattern.sub(word, line)
    return line.strip()


# ---- real and simulated clusters -------------------------------------------------------------------------------------
def simulated_side(cluster, home, programs):
    """(words, prefix, environment) for a simulated cluster of three control planes and a worker."""
    machines = [cluster.machine(index) for index in range(4)]
    directory = pathlib.Path(cluster.dir)
    etcd = ["--endpoints", ",".join(f"https://{at}:2379" for at in machines[:3]), "--cacert", directory / "etcd-ca.crt",
            "--cert", directory / "etcd.crt", "--key", directory / "etcd.key"]
    words = {
        "talosctl": [programs / "talosctl", "--talosconfig", directory / "talosconfig-admin"],
        "kubectl": [programs / "kubectl", "--kubeconfig", directory / "kubeconfig-admin"],
        "etcdctl": [programs / "etcdctl", *etcd],
        "CP-NAME": "cp-1",
    }
    return addresses(words, machines), [], {"HOME": str(home), "PATH": os.environ["PATH"]}


def addresses(words, machines):
    return {**words, "CP": machines[0], "CPS": ",".join(machines[:3]), "WORKER": machines[3], "ALL": ",".join(machines)}


def differences(name, real, simulated, meant):
    """Lines of the two shapes that only one has, without those that are meant; marks the entries of `meant` that were used."""
    found = []
    for only, lines in (("real", real.shape() - simulated.shape()), ("simulated", simulated.shape() - real.shape())):
        for line in sorted(lines):
            entry = next((entry for entry in meant if fits(entry, name, only, line)), None)
            if entry:
                entry["used"] = True
            else:
                found.append(f"only {only}: {line}")
    return found


def fits(entry, name, only, line):
    return (entry["only"] in (only, "either") and fnmatch.fnmatchcase(name, entry["question"])
            and re.fullmatch(entry["line"], line) is not None)


def load_meant():
    with open(pathlib.Path(__file__).parent / "differences.toml", "rb") as file:
        return tomllib.load(file)["difference"]
