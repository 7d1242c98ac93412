"""Mozilla's root certificates for servers, for images that have none: those of the package in Cargo.lock, so each build has the same."""
import ast
import base64
import json
import pathlib
import re
import textwrap

import project

PACKAGE = "webpki-root-certs"
# A path at which the program looks for root certificates on any Linux.
PATH = "etc/ssl/certs/ca-certificates.crt"
CERTIFICATE = re.compile(r'// "(.*)"\n\s*CertificateDer::from_slice\((b".*")\)')


def package():
    metadata = json.loads(project.output("cargo", "metadata", "--locked", "--format-version", "1", cwd=project.ROOT))
    (found,) = (it for it in metadata["packages"] if it["name"] == PACKAGE)
    return pathlib.Path(found["manifest_path"]).parent, f"{PACKAGE} {found['version']}: {found['license']}"


def bundle():
    """The certificates in PEM, and their license."""
    folder, about = package()
    found = CERTIFICATE.findall((folder / "src/lib.rs").read_text())
    # If some were missing, their servers could not be verified.
    expected = (folder / "src/lib.rs").read_text().count("CertificateDer::from_slice(")
    if not 100 < len(found) == expected:
        raise SystemExit(f"roots: {PACKAGE} has {len(found)} certificates of {expected}: it has another form")
    pem = [f"# {name}\n-----BEGIN CERTIFICATE-----\n{encoded(der)}\n-----END CERTIFICATE-----\n" for name, der in sorted(found)]
    license = (folder / "LICENSE").read_text()
    return "".join(pem).encode(), f"\n{'-' * 79}\n{about}\n\n{license}".encode()


def encoded(der):
    return textwrap.fill(base64.b64encode(ast.literal_eval(der)).decode(), 64)


if __name__ == "__main__":
    print(bundle()[0].decode(), end="")
