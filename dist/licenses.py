"""The licenses of what is linked into the program: each text once, below the packages that it comes with."""
import pathlib
import re

import project

NAMES = re.compile(r"(LICEN[CS]E|COPYING|COPYRIGHT|NOTICE|UNLICENSE)([-._].*)?", re.IGNORECASE)


def texts(package):
    folder = pathlib.Path(package["manifest_path"]).parent
    files = [path for path in folder.iterdir() if path.is_file() and NAMES.fullmatch(path.name)]
    return sorted({path.read_text(errors="replace").replace("\r\n", "\n").strip() for path in files})


def document(target):
    packages = [it for it in project.dependencies(target) if it["source"]]
    lines = [f"{project.NAME} {project.VERSION} contains the standard library of Rust (MIT OR Apache-2.0), musl (MIT), and these packages:", ""]
    sharing = {}
    for package in packages:
        name = f"{package['name']} {package['version']}"
        if not package["license"]:
            raise SystemExit(f"licenses: {name} does not name its license")
        found = texts(package)
        lines.append(f"  {name}: {package['license']}" + ("" if found else f" (text: {package['repository']})"))
        for text in found:
            sharing.setdefault(text, []).append(name)
    for text, names in sharing.items():
        lines += ["", "-" * 79, *names, "", text]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(document(next(iter(project.TARGETS))), end="")
