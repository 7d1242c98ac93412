"""Child processes: start, end, measure.

Each child leads a process group of its own: Ctrl-C in a terminal reaches the program alone, which then ends its children in
order. A group is signaled only while its leader is not yet reaped, so the id cannot be anybody else's.
"""
import os
import re
import signal
import subprocess
import threading
import time


def start(command, **kw):
    return subprocess.Popen(command, start_new_session=True, stdin=subprocess.DEVNULL, **kw)


def end(child):
    if child.poll() is None:
        os.killpg(child.pid, signal.SIGTERM)
        try:
            child.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()


def output(command, limit, **kw):
    """(exit code, stdout, stderr) of a command; exit code 124 if it had to be ended."""
    child = start(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **kw)
    try:
        out, err = child.communicate(timeout=limit)
        return child.returncode, out, err
    except subprocess.TimeoutExpired:
        end(child)
        out, err = child.communicate()
        return 124, out, err
    finally:
        end(child)


def measure(command, env, program, limit=180, says=subprocess.DEVNULL):
    """(exit code, wall seconds, CPU seconds, peak MiB) of a program that may be started through others; it is ended after
    `limit` seconds, and what it says goes to the file `says`. wait4's maxrss counts what the forked runner had, so the peak is read from the process itself: VmHWM only
    grows, a reading every 2 ms misses next to nothing."""
    begin = time.monotonic()
    child = start(command, env=env, stdout=says, stderr=says)
    peak, over = 0, threading.Event()

    def watch():
        nonlocal peak
        while not over.wait(0.002):
            try:
                with open(f"/proc/{child.pid}/status") as f:
                    status = f.read()
            except OSError:
                return
            found = re.search(r"^VmHWM:\s+(\d+)", status, re.MULTILINE)
            # nsenter and env run first, under the same pid. The kernel truncates names to 15 characters.
            if found and status.startswith(f"Name:\t{program[:15]}\n"):
                peak = max(peak, int(found[1]))

    thread = threading.Thread(target=watch)
    thread.start()
    timer = threading.Timer(limit, os.killpg, (child.pid, signal.SIGTERM))
    timer.start()
    try:
        # Not reaped before the timer is canceled, which would otherwise signal an ID that may have been reused.
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        timer.cancel()
        _, status, usage = os.wait4(child.pid, 0)
        seconds = time.monotonic() - begin
        child.returncode = os.waitstatus_to_exitcode(status)
    finally:
        timer.cancel()
        over.set()
        thread.join()
        end(child)
    return child.returncode, seconds, usage.ru_utime + usage.ru_stime, peak / 1024


def spread(values):
    """min / median / max"""
    values = sorted(values)
    middle = (values[(len(values) - 1) // 2] + values[len(values) // 2]) / 2
    return values[0], middle, values[-1]
