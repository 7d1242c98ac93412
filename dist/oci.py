"""An OCI image layout of one image for several processors, made from scratch: nothing in it but the program and the roots for public
servers, run by nobody.

No engine and no registry takes part; `dist/check` has umoci unpack it and runc run it.
"""
import json

import archives
import project
import roots

LABELS = {
    "org.opencontainers.image.title": project.NAME,
    "org.opencontainers.image.description": project.DESCRIPTION,
    "org.opencontainers.image.source": project.URL,
    "org.opencontainers.image.url": project.PACKAGE["homepage"],
    "org.opencontainers.image.documentation": f"{project.URL}#readme",
    "org.opencontainers.image.licenses": project.LICENSE,
    "org.opencontainers.image.version": project.VERSION,
}
# An unused ID; distroless uses the same number.
USER = "65532:65532"
MEDIA = "application/vnd.oci.image"


class Layout:
    def __init__(self):
        self.blobs = {}

    def add(self, kind, content, **more):
        if not isinstance(content, bytes):
            content = json.dumps(content, indent=1, sort_keys=True).encode()
        digest = archives.digest(content)
        self.blobs[digest] = content
        return {"mediaType": f"{MEDIA}.{kind}", "digest": f"sha256:{digest}", "size": len(content), **more}

    def image(self, architecture, program, licenses):
        labels = LABELS | {"org.opencontainers.image.revision": project.commit(), "org.opencontainers.image.created": project.date()}
        bundle, license = roots.bundle()
        files = [(project.NAME, program, 0o755), ("licenses.txt", licenses + license, 0o644), (roots.PATH, bundle, 0o644)]
        layer = archives.tar(files)
        config = {
            "architecture": architecture,
            "os": "linux",
            "created": project.date(),
            "config": {"User": USER, "Entrypoint": [f"/{project.NAME}"], "Labels": labels},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{archives.digest(layer)}"]},
            "history": [{"created": project.date(), "created_by": "dist/oci.py"}],
        }
        manifest = {
            "schemaVersion": 2,
            "mediaType": f"{MEDIA}.manifest.v1+json",
            "config": self.add("config.v1+json", config),
            "layers": [self.add("layer.v1.tar+gzip", archives.compressed(layer))],
            "annotations": labels,
        }
        return self.add("manifest.v1+json", manifest, platform={"architecture": architecture, "os": "linux"})

    def index(self, manifests):
        return {"schemaVersion": 2, "mediaType": f"{MEDIA}.index.v1+json", "manifests": manifests}


def layout(programs, licenses):
    """`programs`, `licenses`: bytes by target."""
    made = Layout()
    images = [made.image(project.TARGETS[it], programs[it], licenses[it]) for it in programs]
    named = {"annotations": {"org.opencontainers.image.ref.name": project.VERSION}}
    top = made.index([made.add("index.v1+json", made.index(images), **named)])
    files = [(f"blobs/sha256/{digest}", content, 0o644) for digest, content in made.blobs.items()]
    files += [
        ("index.json", json.dumps(top, indent=1, sort_keys=True).encode(), 0o644),
        ("oci-layout", b'{"imageLayoutVersion": "1.0.0"}', 0o644),
    ]
    return archives.tar(files)
