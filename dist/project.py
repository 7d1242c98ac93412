"""What the project is called, where it is and which commit this is: read from Cargo.toml and git, written nowhere else."""
import datetime
import json
import os
import pathlib
import subprocess
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
MANIFEST = tomllib.loads((ROOT / "Cargo.toml").read_text())
PACKAGE = MANIFEST["package"] | MANIFEST["workspace"]["package"]
NAME = PACKAGE["name"]
VERSION = PACKAGE["version"]
TAG = f"v{VERSION}"
URL = PACKAGE["repository"]
DESCRIPTION = PACKAGE["description"]
LICENSE = PACKAGE["license"]
# The name of each target's processor for Debian, Go and OCI.
TARGETS = {"x86_64-unknown-linux-musl": "amd64", "aarch64-unknown-linux-musl": "arm64"}
# Built by the release workflow on separate machines.
DARWIN = {"x86_64-apple-darwin": "amd64", "aarch64-apple-darwin": "arm64"}


def run(*command, **options):
    return subprocess.run([str(word) for word in command], check=True, **options)


def output(*command, **options):
    return run(*command, stdout=subprocess.PIPE, text=True, **options).stdout.strip()


def commit():
    return output("git", "-C", ROOT, "rev-parse", "HEAD")


def epoch():
    """The time of everything that is made: of the commit, unless the caller says otherwise."""
    return int(os.environ.get("SOURCE_DATE_EPOCH") or output("git", "-C", ROOT, "log", "-1", "--format=%ct"))


def date():
    return datetime.datetime.fromtimestamp(epoch(), datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def archive(target):
    return f"{NAME}-{TAG}-{target}.tar.gz"


def dependencies(target):
    """Packages that are linked into the program on this target, as cargo describes them."""
    metadata = json.loads(output("cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", target, cwd=ROOT))
    packages = {it["id"]: it for it in metadata["packages"]}
    nodes = {it["id"]: it for it in metadata["resolve"]["nodes"]}
    (root,) = (it["id"] for it in metadata["packages"] if it["name"] == NAME)
    found, waiting = set(), [root]
    while waiting:
        for dependency in nodes[waiting.pop()]["deps"]:
            if dependency["pkg"] not in found and any(kind["kind"] is None for kind in dependency["dep_kinds"]):
                found.add(dependency["pkg"])
                waiting.append(dependency["pkg"])
    return sorted((packages[it] for it in found), key=lambda it: (it["name"], it["version"]))
