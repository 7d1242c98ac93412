"""Tables in a document, and what they were made with."""
import os
import pathlib
import platform
import re

from processes import output


def table(rows):
    """The first row is the head."""
    head, *rest = rows
    return "".join("| " + " | ".join(str(cell) for cell in line) + " |\n" for line in [head, ["---"] * len(head), *rest])


def machine():
    model = re.search(r"^model name\s*:\s*(.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return f"{os.cpu_count()} cores, {model[1] if model else platform.machine()}, Linux {platform.release()}"


def commit():
    return output(["git", "-C", pathlib.Path(__file__).parent, "rev-parse", "--short", "HEAD"], 10)[1].strip()


def replace(path, mark, text):
    """What stands between two marks of a document."""
    begin, close = f"<!-- {mark} -->\n", f"<!-- /{mark} -->"
    before, rest = path.read_text().split(begin)
    path.write_text(before + begin + "\n" + text + "\n" + close + rest.split(close)[1])
