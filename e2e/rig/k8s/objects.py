#!/usr/bin/env python3
"""objects.py WORKERS VERSION PKI SUBNET SHAPE: the cluster's content, played by kwok.

Makes what is missing of cp-1 to cp-3, worker-0001 to worker-WORKERS and the control plane's mirror pods, as far as clusters of this
shape have them, and waits until all nodes and all pods of kube-system are ready.
"""
import datetime
import http.client
import json
import ssl
import sys
import time

WORKERS, VERSION, PKI, SUBNET, SHAPE = int(sys.argv[1]), *sys.argv[2:]
DEADLINE = time.monotonic() + 120
NODES, PODS = "/api/v1/nodes", "/api/v1/namespaces/kube-system/pods"
STATIC = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
CONTROL_PLANES = {"hosted": (), "one-server": (1,)}.get(SHAPE, (1, 2, 3))
ONE_SERVER = SHAPE == "one-server"  # a server that also takes pods, and runs kube-proxy itself
PROCESSES = ("processes", "sqlite", "one-server")
DNS_REPLICAS = 2


def call(method, path, body=None):
    while True:
        try:
            return ask(method, path, body)
        except (OSError, http.client.HTTPException) as e:  # servers that have just started are slow
            if time.monotonic() > DEADLINE:
                sys.exit(f"objects.py: {method} {path}: {e}")
            time.sleep(0.5)


def ask(method, path, body):
    tls = ssl.create_default_context(cafile=f"{PKI}/kube-ca.crt")
    tls.load_cert_chain(f"{PKI}/admin.crt", f"{PKI}/admin.key")
    connection = http.client.HTTPSConnection(f"{SUBNET}.100", 6443, context=tls, timeout=10)
    try:
        connection.request(method, path, json.dumps(body) if body else None, {"Content-Type": "application/json"})
        response = connection.getresponse()
        text = response.read()
    finally:
        connection.close()
    if response.status not in (200, 201, 409):  # 409: it is there already
        sys.exit(f"objects.py: {method} {path}: {response.status} {text[:500]}")
    return json.loads(text)


def node(name, address):
    resources = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64", "type": "kwok"}
    spec = {}
    if name.startswith("cp-"):
        labels["node-role.kubernetes.io/control-plane"] = "true" if ONE_SERVER else ""
        if not ONE_SERVER:
            spec["taints"] = [{"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": spec,
        "status": {
            "addresses": [{"type": "InternalIP", "address": address}, {"type": "Hostname", "address": name}],
            "allocatable": resources,
            "capacity": resources,
            "nodeInfo": {
                "kubeletVersion": VERSION,
                "osImage": "Talos (v1.13.0)" if SHAPE == "static-pods" else "Ubuntu 24.04.3 LTS",
                "kernelVersion": "6.18.0-talos" if SHAPE == "static-pods" else "6.8.0-60-generic",
                "containerRuntimeVersion": "containerd://2.2.9",
                "architecture": "amd64",
                "operatingSystem": "linux",
                "bootID": "",
                "machineID": "",
                "systemUUID": "",
                "kubeProxyVersion": "",
            },
        },
    }


def mirror_pod(app, on):
    """As a kubelet of Talos writes it for a static pod. Images are never pulled, so they name no registry."""
    now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    name, uid = on["metadata"]["name"], on["metadata"]["uid"]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{app}-{name}",
            "namespace": "kube-system",
            "labels": {"tier": "control-plane", "k8s-app": app, "component": app},
            "annotations": {
                "kubernetes.io/config.mirror": "0123456789abcdef",
                "kubernetes.io/config.hash": "0123456789abcdef",
                "kubernetes.io/config.source": "file",
                "kubernetes.io/config.seen": now,
            },
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid, "controller": True}],
        },
        "spec": {
            "nodeName": name,
            "hostNetwork": True,
            "priorityClassName": "system-cluster-critical",
            "tolerations": [{"operator": "Exists", "effect": "NoExecute"}],
            "containers": [{"name": app, "image": f"{app}:{VERSION}"}],
        },
    }


def unready(things):
    ready = {"type": "Ready", "status": "True"}
    return [
        thing["metadata"]["name"]
        for thing in things
        if not any(ready.items() <= condition.items() for condition in thing["status"].get("conditions", []))
    ]


first, second, third = SUBNET.split(".")
addresses = {f"cp-{i}": f"{SUBNET}.{i}" for i in CONTROL_PLANES}
addresses |= {f"worker-{i:04d}": f"{first}.{second}.{int(third) + 10}.{i}" for i in range(1, WORKERS + 1)}
for name, address in addresses.items():
    call("POST", NODES, node(name, address))
static = [(f"cp-{i}", app) for i in CONTROL_PLANES for app in STATIC if SHAPE not in PROCESSES]
for name, app in static:
    call("POST", PODS, mirror_pod(app, call("GET", f"{NODES}/{name}")))

# kube-proxy on every node, coredns, mirror pods
wanted = (0 if ONE_SERVER else len(addresses)) + DNS_REPLICAS + len(static)
while True:
    nodes, pods = call("GET", NODES)["items"], call("GET", PODS)["items"]
    if not unready([*nodes, *pods]) and (len(nodes), len(pods)) == (len(addresses), wanted):
        break
    if time.monotonic() > DEADLINE:
        sys.exit(f"objects.py: {len(nodes)} nodes, {len(pods)} pods, not ready: {', '.join(unready([*nodes, *pods]))}")
    time.sleep(0.5)
