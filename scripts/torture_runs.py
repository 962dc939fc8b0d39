"""One run of a program, for scripts/torture-programs: in a fresh tree, plainly or in a domain, watched to its end."""

import collections
import difflib
import hashlib
import json
import os
import shutil
import stat
import subprocess
import sys
import threading
import time

sys.dont_write_bytecode = True
import soak_processes as processes

# How long a run may take, on a machine that is busy.
HANGS_AFTER_S = 600
# How long Surmise's own processes may take to end after the command.
ENDS_WITHIN_S = 10
LIST_MAX_S = 60
# What one of Surmise's own processes may take.
MEMORY_MAX_MB = 64
DESCRIPTORS_MAX = 512
CANNOT_RUN = 77
# The kind of failure that is the program's own.
PLAIN = "plain"
DIFFERENT_LINES_MAX = 40

# What a run came to: all that has to be as in a plain run, and what Surmise told.
Outcome = collections.namedtuple("Outcome", "status output tree told seconds peak")


class Skip(Exception):
    """The program cannot run here."""


class Failed(Exception):
    """A run differs or hangs, or leaves something behind. `kind` is one word for the ledger."""

    def __init__(self, kind, text):
        super().__init__(text)
        self.kind = kind


class Place:
    """Where all runs are. Each has the same paths, since they may get into what programs make."""

    def __init__(self, work, surmise, family):
        self.work = work
        self.surmise = surmise
        self.family = family
        self.place = os.path.join(work, "place")
        self.tree = os.path.join(self.place, "tree")
        self.state = os.path.join(work, "state")
        self.environment = {
            "PATH": os.environ["PATH"], "HOME": os.path.join(self.place, "home"), "LC_ALL": "C", "TZ": "UTC",
            "TMPDIR": os.path.join(self.place, "tmp"), "XDG_STATE_HOME": self.state,
            # Files of Python's beside the programs would be changes outside the tree.
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    def prepare(self, command):
        """A fresh tree, made by the program itself."""
        remove(self.place)
        for name in ["tree", "home", "tmp"]:
            os.makedirs(os.path.join(self.place, name))
            os.chmod(os.path.join(self.place, name), 0o755)
        done = subprocess.run([*command, "prepare"], cwd=self.tree, env=self.environment, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode == CANNOT_RUN:
            raise Skip(done.stdout.strip())
        if done.returncode != 0:
            raise Failed(PLAIN, f"its preparation ends with {done.returncode}: {done.stdout}")

    def plain(self, command):
        try:
            self.prepare(command)
            return self.run(command)
        except Failed as failed:
            raise Failed(PLAIN, f"plainly: {failed}") from None

    def in_domain(self, command, *options):
        self.prepare(command)
        outcome = self.run([self.surmise, "run", "--commit", *options, "--json", "--", *joined(command)])
        self.check_no_state()
        check_leaks(outcome.peak)
        return outcome

    def run(self, command):
        """Runs a command to its end. Nothing that it has started may be left."""
        begun = time.monotonic()
        process = self.family.start(command, cwd=self.tree, env=self.environment, stdout=subprocess.PIPE,
                                    stderr=subprocess.PIPE, start_new_session=True)
        readers = [Reader(process.stdout), Reader(process.stderr)]
        peak = self.watch(process, begun + HANGS_AFTER_S)
        status = self.family.wait(process, 1)
        seconds = time.monotonic() - begun
        self.check_no_process()
        # No process has the other ends any more, so this ends.
        output, told = (reader.all() for reader in readers)
        self.check_no_mount()
        return Outcome(status, output, picture(self.place), told.decode(errors="replace"), seconds, peak)

    def watch(self, process, end):
        """Waits until the process has ended, and tells what Surmise's own processes took at most."""
        peak = {"processes": 0, "descriptors": 0, "supervisor": 0, "opened": 0, "memory_mb": 0}
        looked = 0
        # Its number stays its own until it is waited for.
        while os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            self.family.reap_orphans()
            now = time.monotonic()
            if now - looked > 1:
                looked = now
                measure(process.pid, peak)
            if now > end:
                raise Failed("hangs", f"it has not ended after {HANGS_AFTER_S} s:\n{self.describe()}")
            time.sleep(0.02)
        return peak

    def check_no_process(self):
        end = time.monotonic() + ENDS_WITHIN_S
        while self.left():
            if time.monotonic() > end:
                raise Failed("processes", f"processes are left:\n{self.describe()}")
            time.sleep(0.02)

    def left(self):
        self.family.reap_orphans()
        return self.family.orphans()

    def check_no_mount(self):
        with open("/proc/self/mountinfo", encoding="utf-8") as file:
            if left := [line for line in file if self.work in line]:
                raise Failed("mounts", "mounts are left:\n" + "".join(left))

    def check_no_state(self):
        """No domain, and no file that belonged to one."""
        command = [self.surmise, "list", "--json"]
        try:
            listed = subprocess.run(command, env=self.environment, stdin=subprocess.DEVNULL, capture_output=True,
                                    text=True, timeout=LIST_MAX_S, check=False)
        except subprocess.TimeoutExpired:
            raise Failed("hangs", "surmise list hangs") from None
        if listed.returncode != 0 or json.loads(listed.stdout) != []:
            raise Failed("domains", f"domains are left: {listed.stdout}{listed.stderr}")
        left = [os.path.join(directory, name) for directory, _, names in os.walk(self.state) for name in names]
        if left:
            raise Failed("files", f"files are left: {left}")

    def describe(self):
        return describe(processes.descendants(os.getpid()))

    def end_all(self):
        """Ends what a failed run has left."""
        end = time.monotonic() + ENDS_WITHIN_S
        while processes.children(os.getpid()) and time.monotonic() < end:
            self.family.end_all()
            for process in list(self.family.started.values()):
                if process.poll() is not None:
                    self.family.wait(process, 1)
            self.family.reap_orphans()
            time.sleep(0.05)

    def move_to(self, kept):
        """Puts aside what a failed run has left: its tree, and its domain if that is still there."""
        for left in [self.place, self.state]:
            if os.path.exists(left):
                # It takes sockets and FIFOs along to another file system, too.
                subprocess.run(["mv", left, kept], check=True)


class Reader:
    """Reads a stream beside, so that its writer never waits."""

    def __init__(self, stream):
        self.parts = []
        self.stream = stream
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self):
        while part := self.stream.read1(65536):
            self.parts.append(part)

    def all(self):
        self.thread.join(ENDS_WITHIN_S)
        if self.thread.is_alive():
            raise Failed("processes", "the output is still open, though no process is left")
        self.stream.close()
        return b"".join(self.parts)


def joined(command):
    """A command with one stream for output and errors, whose order is compared, too. Surmise's own words are apart."""
    return ["sh", "-c", 'exec "$@" 2>&1', "sh", *command]


def measure(pid, peak):
    """Raises `peak` to what is there now."""
    found = processes.descendants(pid)
    peak["processes"] = max(peak["processes"], len(found))
    for each in [pid, *found]:
        name = processes.name(each) or ""
        if not name.startswith("surmise"):
            peak["opened"] = max(peak["opened"], descriptors(each))
            continue
        peak["memory_mb"] = max(peak["memory_mb"], round(processes.memory_mb([each])[0], 1))
        if name == "surmise-super":
            peak["supervisor"] = max(peak["supervisor"], descriptors(each))
        # The view has a descriptor for each file that the program has made.
        elif name != "surmise-view":
            peak["descriptors"] = max(peak["descriptors"], descriptors(each))


def descriptors(pid):
    try:
        return len(os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        # It has ended, or is another user's.
        return 0


def check_leaks(peak):
    """A process of Surmise's needs little, however long the program runs.

    The supervisor has a copy of each open file whose position a process of the program shares with a child."""
    most = max(peak["descriptors"], peak["supervisor"] - peak["opened"])
    if peak["memory_mb"] > MEMORY_MAX_MB or most > DESCRIPTORS_MAX:
        raise Failed("leaks", f"at most, in one of Surmise's processes: {peak}")


def describe(pids):
    """For a report of what hangs: where each thread is in the kernel."""
    lines = [processes.describe(pids)]
    for pid in pids:
        for what in ["syscall", "stack"]:
            try:
                for task in os.listdir(f"/proc/{pid}/task"):
                    with open(f"/proc/{pid}/task/{task}/{what}", encoding="ascii") as file:
                        lines.append(f"    {task} {what}: " + " ".join(file.read().split()))
            except OSError:
                # It has ended, or only root may see it.
                continue
    return "\n".join(lines)


def picture(root):
    """A line for each name: type, mode, names of the same inode, size, and content or target."""
    lines, first = [], {}
    for directory, directories, files in os.walk(root):
        directories.sort()
        for name in sorted(directories + files):
            path = os.path.join(directory, name)
            status = os.lstat(path)
            shown = os.path.relpath(path, root)
            same = first.setdefault((status.st_dev, status.st_ino), shown)
            lines.append(f"{shown} {stat.filemode(status.st_mode)} {status.st_uid}:{status.st_gid} "
                         f"{status.st_nlink} {content(path, status)}" + ("" if same == shown else f" is {same}"))
    return lines


def content(path, status):
    if stat.S_ISLNK(status.st_mode):
        return "-> " + os.readlink(path)
    if stat.S_ISREG(status.st_mode):
        with open(path, "rb") as file:
            return f"{status.st_size} {hashlib.sha256(file.read()).hexdigest()}"
    return ""


def differences(wanted, got):
    """In words; empty where both came to the same."""
    found = []
    texts = [[line.decode(errors="backslashreplace") for line in outcome.output.split(b"\n")]
             for outcome in [wanted, got]]
    compared = [("output", *texts), ("tree", wanted.tree, got.tree)]
    if wanted.status != got.status:
        found.append(f"status {wanted.status} plainly, and {got.status} here")
        # Of a command that fails nothing is committed.
        compared.pop()
    for what, first, second in compared:
        if first != second:
            lines = list(difflib.unified_diff(first, second, f"{what}, plainly", f"{what} here", n=1, lineterm=""))
            found += lines[:DIFFERENT_LINES_MAX]
    return "\n".join(found)


def speculation(told):
    """What Surmise has told on standard error: the last line that is an object."""
    for line in reversed(told.splitlines()):
        if line.startswith("{"):
            return json.loads(line).get("speculation")
    return None


def words(told):
    """What Surmise has told besides."""
    return "\n".join(line for line in told.splitlines() if not line.startswith("{"))


def remove(path):
    """A tree of any modes."""
    if not os.path.lexists(path):
        return
    for directory, names, _ in os.walk(path):
        for name in names:
            if not os.path.islink(os.path.join(directory, name)):
                os.chmod(os.path.join(directory, name), 0o700)
    shutil.rmtree(path)
