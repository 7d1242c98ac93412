"""What package managers want to know of a release, from the templates in `metadata/`, Cargo.toml and SHA256SUMS.

    dist/metadata.py SHA256SUMS OUT     fails if SHA256SUMS lacks an archive: a formula for half of the machines is none
"""
import pathlib
import re
import sys

import project

TEMPLATES = pathlib.Path(__file__).resolve().parent / "metadata"


def words(sums):
    owner, repository = project.URL.rstrip("/").split("/")[-2:]
    found = {
        "version": project.VERSION,
        "tag": project.TAG,
        "homepage": project.PACKAGE["homepage"],
        "license": project.LICENSE,
        "owner": owner,
        "repository": repository,
    }
    for target in project.TARGETS | project.DARWIN:
        archive = project.archive(target)
        found[f"url:{target}"] = f"{project.URL}/releases/download/{project.TAG}/{archive}"
        if archive in sums:
            found[f"sha256:{target}"] = sums[archive]
    return found


def read(sums):
    """Digests by the name of the file."""
    return {name: digest for digest, name in (line.split() for line in sums.splitlines())}


def filled(template, known):
    def word(match):
        if match[1] not in known:
            raise SystemExit(f"metadata: nothing is known of {match[1]}")
        return known[match[1]]

    return re.sub(r"@([a-z0-9_:-]+)@", word, template)


def files(sums):
    known = words(sums)
    return {path.name: filled(path.read_text(), known) for path in sorted(TEMPLATES.iterdir())}


def main(sums, out):
    out = pathlib.Path(out)
    out.mkdir(parents=True, exist_ok=True)
    for name, text in files(read(pathlib.Path(sums).read_text())).items():
        (out / name).write_text(text)


if __name__ == "__main__":
    main(*sys.argv[1:])
