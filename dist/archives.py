"""Archives whose bytes follow from their contents: sorted, of nobody, of one time."""
import gzip
import hashlib
import io
import tarfile

import project


def tar(files):
    """`files`: (path, bytes, mode). Folders above them are made."""
    folders = {"/".join(path.split("/")[:depth]) for path, *_ in files for depth in range(1, path.count("/") + 1)}
    entries = sorted([(folder, None, 0o755) for folder in folders] + list(files), key=lambda it: it[0])
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path, content, mode in entries:
            entry = tarfile.TarInfo(path)
            entry.mtime, entry.mode = project.epoch(), mode
            if content is None:
                entry.type = tarfile.DIRTYPE
                archive.addfile(entry)
            else:
                entry.size = len(content)
                archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def compressed(content):
    return gzip.compress(content, compresslevel=9, mtime=0)


def digest(content):
    return hashlib.sha256(content).hexdigest()
