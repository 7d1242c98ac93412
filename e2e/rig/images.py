#!/usr/bin/env python3
"""images.py BIN ROOTFS KUBERNETES COREDNS ETCD RELEASES: the specs of all images that a node pulls, for ociserve, on stdout.

ETCD is the version of the program `etcd`, RELEASES is what `build.sh with` prints.

They are made of the programs in BIN and of Debian's busybox, nft, conntrack and iptables (with the libraries they need).
"""
import glob
import json
import os
import re
import subprocess
import sys

BIN, ROOTFS, KUBERNETES, COREDNS, ETCD, RELEASES = sys.argv[1:]
LIBRARIES = "/usr/lib/x86_64-linux-gnu"
releases = [line.split() for line in RELEASES.splitlines()]
# Tags of images, and the program inside
FLANNELS = {tag: f"flanneld-{flannel}" for _, _, flannel, tag in releases}
ETCDS = {etcd: "etcd" if etcd == ETCD else f"etcd-{etcd}" for _, etcd, _, _ in releases}
PAUSE_TAGS = ("3.10", "3.10.1", "3.10.2")

certificates = {"/etc/ssl/certs/ca-certificates.crt": "/etc/ssl/certs/ca-certificates.crt"}
users = {"/etc/passwd": f"{ROOTFS}/etc/passwd", "/etc/group": f"{ROOTFS}/etc/group"}
busybox = {"/usr/bin/busybox": "/bin/busybox"}
applets = "sh mount umount ls cat ps mkdir cp sleep wget nc nslookup".split()
busybox_links = {f"/bin/{applet}": "/usr/bin/busybox" for applet in applets}


def libraries(program):
    """The shared libraries of a program, at the places where its dynamic linker looks."""
    ldd = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    files = {}
    for path in re.findall(r"(?:=> )?(/\S+) \(0x", ldd):
        inside = path if path.startswith("/lib64/") else f"/lib/x86_64-linux-gnu/{os.path.basename(path)}"
        files[inside] = os.path.realpath(path)
    return files


def dynamic(path):
    return {path: os.path.realpath(path), **libraries(path)}


def image(ref, program, inside, dirs=("/tmp",), files=None, links=None):
    return {
        "ref": ref,
        "files": {inside: f"{BIN}/{program}", **(files or {})},
        "links": links or {},
        "dirs": list(dirs),
        "entrypoint": [inside],
    }


def is_built(program):
    """Whether it is there: those of another version of Talos than the rig's may not be."""
    return os.path.exists(f"{BIN}/{program}")


images = [image(f"etcd:v{version}", program, "/usr/local/bin/etcd") for version, program in ETCDS.items() if is_built(program)]
for name in ("kube-apiserver", "kube-controller-manager", "kube-scheduler"):
    images.append(image(f"{name}:v{KUBERNETES}", name, f"/usr/local/bin/{name}", files=certificates))
images.append(image(
    f"siderolabs/kubelet:v{KUBERNETES}", "kubelet", "/usr/local/bin/kubelet",
    dirs=["/tmp", "/var/log", "/var/run", "/etc/kubernetes", "/var/lib/kubelet"],
    files={**users, **busybox, **certificates}, links={**busybox_links, "/run": "/var/run"}))
images.append(image(
    f"kube-proxy:v{KUBERNETES}", "kube-proxy", "/usr/local/bin/kube-proxy", dirs=["/tmp", "/lib/modules"],
    files={**certificates, **busybox, **dynamic("/usr/sbin/nft"), **dynamic("/usr/sbin/conntrack")}, links=busybox_links))
images.append(image(f"coredns/coredns:v{COREDNS}", "coredns", "/coredns", dirs=[], files=certificates))
for tag in PAUSE_TAGS:
    images.append(image(f"pause:{tag}", "pause", "/pause", dirs=[]))
# For pods that a test starts
images.append({"ref": "e2e/busybox:1", "files": busybox, "links": busybox_links, "dirs": ["/tmp"], "entrypoint": ["/bin/sh"]})

iptables = "/usr/sbin/xtables-nft-multi"
extensions = glob.glob(f"{LIBRARIES}/xtables/*.so")
iptables_files = dynamic(iptables)
for path in extensions:
    iptables_files |= libraries(path)
    iptables_files[path] = os.path.realpath(path)
iptables_links = {
    f"/usr/sbin/{ip}tables{suffix}": os.path.basename(iptables)
    for ip in ("ip", "ip6") for suffix in ("", "-save", "-restore")}
for tag, program in FLANNELS.items():
    if is_built(program):
        images.append(image(
            f"siderolabs/flannel:{tag}", program, "/opt/bin/flanneld", dirs=["/tmp", "/run/flannel"],
            files={**busybox, **certificates, **iptables_files, **dynamic("/usr/sbin/nft")}, links={**busybox_links, **iptables_links}))

json.dump(images, sys.stdout, indent=1)
