"""Processes, for scripts that soak and torture: start, watch, find and measure them; end only what was started."""

import ctypes
import os
import signal
import subprocess
import threading
import time

PR_SET_CHILD_SUBREAPER = 36
ROLES = {"surmise-view": "view", "surmise-relay": "relay", "surmise-init": "init"}


class Processes:
    """All processes that this program started. Orphans among their descendants become children of this
    program, so none can be lost."""

    def __init__(self):
        self.lock = threading.Lock()
        self.started = {}
        if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "PR_SET_CHILD_SUBREAPER")

    def start(self, command, **options):
        with self.lock:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, **options)
            self.started[process.pid] = process
        return process

    def wait(self, process, limit_s):
        """Its status; `subprocess.TimeoutExpired` past the limit."""
        status = process.wait(timeout=limit_s)
        with self.lock:
            self.started.pop(process.pid, None)
        return status

    def reap_orphans(self):
        """Reaps children that were not started here: orphans that have ended."""
        with self.lock:
            for pid in children(os.getpid()):
                if pid not in self.started and state(pid) == "Z":
                    os.waitpid(pid, 0)

    def orphans(self):
        with self.lock:
            return [pid for pid in children(os.getpid()) if pid not in self.started]

    def end_all(self):
        """Kills what was started and still runs, and the orphans that it left."""
        with self.lock:
            for process in self.started.values():
                process.kill()
        for pid in self.orphans():
            kill(pid, os.getpid())


def children(pid):
    found = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children", encoding="ascii") as file:
                found += [int(child) for child in file.read().split()]
    except (FileNotFoundError, ProcessLookupError):
        pass
    return found


def descendants(pid):
    found = []
    for child in children(pid):
        found += [child] + descendants(child)
    return found


def stat_fields(pid):
    """From the state on: state, parent, …; None if there is no such process."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].decode().split()
    except (FileNotFoundError, ProcessLookupError):
        return None


def state(pid):
    fields = stat_fields(pid)
    return fields[0] if fields else None


def start_time(pid):
    fields = stat_fields(pid)
    return fields[19] if fields else None


def name(pid):
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except (FileNotFoundError, ProcessLookupError):
        return None


def namespace(pid):
    """Names its pid namespace; None if that cannot be had any more."""
    try:
        return os.readlink(f"/proc/{pid}/ns/pid")
    except OSError:
        return None


def roles(control):
    """The processes of a domain that are Surmise's own, by role."""
    found = {"control": control}
    for child in children(control):
        role = ROLES.get(name(child))
        if role:
            found[role] = child
    return found


class Members:
    """The processes of a domain at a moment, to be told from later ones of the same numbers."""

    def __init__(self, control):
        pids = [control] + descendants(control)
        self.all = {pid: start_time(pid) for pid in pids}
        init = roles(control).get("init")
        self.namespace = namespace(init) if init else None

    def left(self):
        """Who still lives, and who lives in the domain's namespace. A zombie has ended."""
        own = {pid for pid, start in self.all.items() if start and start_time(pid) == start}
        if self.namespace and self.namespace != namespace(os.getpid()):
            everybody = (int(entry) for entry in os.listdir("/proc") if entry.isdigit())
            own |= {pid for pid in everybody if namespace(pid) == self.namespace}
        return [pid for pid in own if state(pid) not in (None, "Z", "X")]

    def wait_for_end(self, limit_s):
        """Seconds until nobody was left, or None if somebody is."""
        start = time.monotonic()
        while self.left():
            if time.monotonic() - start > limit_s:
                return None
            time.sleep(0.02)
        return time.monotonic() - start


def memory_mb(pids):
    """Proportional and resident set size of some processes together."""
    pss = rss = 0
    for pid in pids:
        try:
            with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
                for line in file:
                    if line.startswith("Pss:"):
                        pss += int(line.split()[1])
                    elif line.startswith("Rss:"):
                        rss += int(line.split()[1])
        except OSError:
            continue
    return pss * 1024 / 1e6, rss * 1024 / 1e6


def describe(pids):
    """One line a process, for a report of what hangs."""
    lines = []
    for pid in pids:
        waits = []
        try:
            for task in os.listdir(f"/proc/{pid}/task"):
                with open(f"/proc/{pid}/task/{task}/wchan", encoding="ascii") as file:
                    waits.append(f"{name(f'{pid}/task/{task}')}: {file.read()}")
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                line = file.read().replace(b"\0", b" ").decode(errors="replace")[:100]
        except OSError:
            line = ""
        lines.append(f"    {pid} {name(pid)} {state(pid)} [{', '.join(waits)}] {line}")
    return "\n".join(lines)


def kill(pid, parent):
    """Kills a child of `parent`; whether there was one. It is never another of the same number."""
    if pid is None:
        return False
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return False
    try:
        if pid not in children(parent):
            return False
        signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        return True
    except ProcessLookupError:
        return False
    finally:
        os.close(descriptor)
