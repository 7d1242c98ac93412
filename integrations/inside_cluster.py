"""What scripts named `inside` share: they run an integration as shipped inside of a real test cluster, as its administrator.

KUBECONFIG and TALOSCONFIG are the administrator's; the first argument of the script is the static binary. CP1, CP2, … are the addresses of
the machines; all images of the cluster come from REGISTRY, by default the rig's.
"""
import json
import os
import pathlib
import subprocess
import sys
import time
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "dist"))
import oci  # noqa: E402  (it lies beside what makes releases)

CONTROL_PLANES = [os.environ[name] for name in ("CP1", "CP2", "CP3")]
SUBNET = CONTROL_PLANES[0].rsplit(".", 1)[0]
REGISTRY = os.environ.get("REGISTRY", f"http://{SUBNET}.1:5000")
LIMIT = 60  # seconds, for everything that is waited for


def binary():
    return pathlib.Path(sys.argv[1]).resolve()


def clean(text):
    """Fit for a log: what clusters and tools say is text of others."""
    return subprocess.run([sys.argv[1], "sanitize"], input=text, text=True, capture_output=True, check=True).stdout.rstrip("\n")


def say(text):
    print(clean(text), flush=True)


def die(text):
    sys.exit(clean(f"inside: {text}"))


def run(*command, **options):
    command = [str(it) for it in command]
    done = subprocess.run(command, text=True, capture_output=True, check=False, **options)
    if done.returncode:
        die(f"{' '.join(command)}: {done.stderr or done.stdout}")
    return done.stdout


def kubectl(*arguments, **options):
    return run("kubectl", *arguments, **options)


def get(*arguments):
    """Objects by `kubectl get`; None if there is no such object."""
    said = kubectl("get", *arguments, "--ignore-not-found", "-o", "json")
    return json.loads(said) if said else None


def until(what, holds, limit=LIMIT):
    begin = time.monotonic()
    while not (found := holds()):
        if time.monotonic() - begin > limit:
            die(f"not within {limit} s: {what}")
        time.sleep(0.5)
    return found


def one_cluster():
    """Both configurations change things, so both must belong to one cluster."""
    run(binary(), "--check", "k8s.api.identity", "--no-kubeconfig-from-talos")


def push(image, tag, layout, manifest):
    """By the protocol of registries, without a client: some blobs, and a manifest that names them."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def send(method, path, data=b"", **headers):
        at = path if path.startswith("http") else f"{REGISTRY}{path}"
        with opener.open(urllib.request.Request(at, data=data, method=method, headers=headers), timeout=LIMIT) as answer:
            return answer.headers

    for digest, content in layout.blobs.items():
        if f"sha256:{digest}" == manifest["digest"]:
            continue
        to = send("POST", f"/v2/{image}/blobs/uploads/")["Location"]
        separator = "&" if "?" in to else "?"
        send("PUT", f"{to}{separator}digest=sha256:{digest}", content, **{"Content-Type": "application/octet-stream"})
    content = layout.blobs[manifest["digest"].removeprefix("sha256:")]
    send("PUT", f"/v2/{image}/manifests/{tag}", content, **{"Content-Type": manifest["mediaType"]})


def rights():
    """The existing ClusterRole and ClusterRoleBinding called cluster-health, as input for `kubectl apply`; empty if there are none."""
    objects = [it for it in (get("clusterrole/cluster-health"), get("clusterrolebinding/cluster-health")) if it]
    for it in objects:
        it["metadata"] = {"name": it["metadata"]["name"]}
    return objects and json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})


def job_ended(namespace, name, limit=LIMIT):
    """The status of a Job that has ended, and its conditions that are true: reasons by type."""
    def ended():
        status = get("-n", namespace, f"job/{name}")["status"]
        conditions = {it["type"]: it.get("reason") for it in status.get("conditions", []) if it["status"] == "True"}
        return conditions.keys() & {"Complete", "Failed"} and (status, conditions)

    return until(f"the Job {name} ends", ended, limit)


def exit_codes(namespace, name):
    """Of all pods of a Job that has ended, from the first one on: by index; None is that of a Job without indexes."""
    pods = get("-n", namespace, "pods", "-l", f"batch.kubernetes.io/job-name={name}")["items"]
    codes = {}
    for pod in sorted(pods, key=lambda it: it["status"]["startTime"]):
        index = pod["metadata"].get("annotations", {}).get("batch.kubernetes.io/job-completion-index")
        for container in pod["status"].get("containerStatuses", []):
            codes.setdefault(index and int(index), []).append(container["state"].get("terminated", {}).get("exitCode"))
    return codes
