"""Programs, each on a mount of its own of one far directory, make random calls at the same time and note them.

    record.py ROUNDS SEED EXPORT MOUNT...

Writes `history.N` for each mount: a line a call, with its round, the call, what it said, and when it began and had returned.
All programs wait for each other before each round. SEED decides what is called: as long as the calls say the same, they are
the same again. Where EXPORT is not `-` but the directory that is served, its server is killed and connections are cut
in the midst of rounds. Prints how often."""

import ctypes
import errno
import fcntl
import json
import multiprocessing
import os
import random
import signal
import stat
import sys
import time

DIRECTORIES = ["a", "b"]
NAMES = ["x", "y", "z"]
LOCKS = ["flock", "record"]
CHANGES = dict(zip(LOCKS, [fcntl.flock, fcntl.lockf]))
CALLS_A_ROUND = 8
NO_REPLACE, EXCHANGE = 1, 2
VALUE_BYTES = 8
LENGTH_MAX = 4
# How long a program may wait for the others, which wait for servers.
ROUND_LIMIT_S = 300
# Of how many rounds one has a connection cut, and one, which is another, the server killed.
CUT_EVERY, KILL_EVERY = 4, 12
# A round takes about as long.
FAULT_DELAY_MAX_S = 0.01
LIBC = ctypes.CDLL(None, use_errno=True)


def main(rounds, seed, export, *mounts):
    for name in DIRECTORIES:
        os.mkdir(os.path.join(mounts[0], name))
    for name in LOCKS:
        with open(os.path.join(mounts[0], name), "x", encoding="ascii"):
            pass
    barrier = multiprocessing.Barrier(len(mounts) + 1)
    programs = []
    for number, mount in enumerate(mounts):
        program = Program(number, mount, f"{seed}-{number}", export != "-")
        arguments = (program, int(rounds), barrier)
        programs.append(multiprocessing.Process(target=run_program, args=arguments))
    for program in programs:
        program.start()
    try:
        kills, cuts = break_rounds(int(rounds), seed, export, barrier)
    except BaseException:
        barrier.abort()
        raise
    finally:
        for program in programs:
            program.join()
    print(f"{len(mounts) * int(rounds) * CALLS_A_ROUND} calls, {kills} kills of the server, {cuts} connections cut")


def break_rounds(rounds, seed, export, barrier):
    """Goes through the rounds with the programs; how often the server was killed and a connection cut."""
    chance = random.Random(seed)
    kills, cuts = 0, 0
    for round_ in range(rounds):
        of_server = round_ % KILL_EVERY == 3
        breaks = export != "-" and (of_server or round_ % CUT_EVERY == 1)
        found = wait_for_processes(export, of_server) if breaks else []
        barrier.wait(ROUND_LIMIT_S)
        if not found:
            continue
        time.sleep(chance.uniform(0, FAULT_DELAY_MAX_S))
        try:
            os.kill(chance.choice(found), signal.SIGKILL)
        except ProcessLookupError:
            continue
        kills, cuts = kills + of_server, cuts + (not of_server)
    barrier.wait(ROUND_LIMIT_S)
    return kills, cuts


def wait_for_processes(export, of_server):
    """Another server, or connection, may be about to come."""
    until = time.monotonic() + ROUND_LIMIT_S
    while time.monotonic() < until:
        found = find_processes(export, of_server)
        if found:
            return found
        time.sleep(0.01)
    raise TimeoutError("there is no server" if of_server else "no mount is connected")


def find_processes(export, of_server):
    """The server of this directory, or the processes that connect mounts with it."""
    found = []
    for number in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{number}/cmdline", "rb") as file:
                words = file.read().decode(errors="replace").split("\0")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if "serve" in words and export in words and ("--stdio" not in words) == of_server:
            found.append(int(number))
    return found


def run_program(program, rounds, barrier):
    try:
        with open(f"history.{program.number}", "w", encoding="ascii") as file:
            for round_ in range(rounds):
                barrier.wait(ROUND_LIMIT_S)
                for _ in range(CALLS_A_ROUND):
                    file.write(json.dumps([round_, *program.call()]) + "\n")
                # What has no name any more ends with its round.
                program.close()
            # The locks of a program end with the program.
            barrier.wait(ROUND_LIMIT_S)
            program.end_locks()
    except BaseException:
        # The others are not to wait.
        barrier.abort()
        raise


class Program:
    def __init__(self, number, mount, seed, breaks):
        self.number = number
        # Whether an unlock may find no connection, and returns then before the server has heard of it.
        self.unlock = "unlock_late" if breaks else "unlock"
        self.random = random.Random(seed)
        self.parents = {name: os.open(os.path.join(mount, name), os.O_PATH | os.O_DIRECTORY) for name in DIRECTORIES}
        self.mount = mount
        self.locks = {name: os.open(os.path.join(mount, name), os.O_RDWR) for name in LOCKS}
        self.held = set()
        self.file = None
        self.made = 0

    def call(self):
        """The call, what it said, when it began and when it had returned."""
        calls = [self.create, self.open, self.stat, self.unlink, self.mkdir, self.rmdir, self.rename]
        calls += [self.rename, self.list, self.lock]
        if self.file is not None:
            calls += [self.write, self.append, self.truncate, self.read, self.read, self.fstat, self.link, self.link]
            calls += [self.sync]
        call, act = self.random.choice(calls)()
        began = time.monotonic_ns()
        try:
            said = act()
        except OSError as error:
            said = errno.errorcode.get(error.errno, str(error.errno))
        return call, said, began, time.monotonic_ns()

    def name(self):
        parent, name = self.random.choice(DIRECTORIES), self.random.choice(NAMES)
        return f"{parent}/{name}", self.parents[parent], name

    def value(self):
        self.made += 1
        return (self.number + 1) << 32 | self.made

    def hold(self, parent, name, flags):
        descriptor = os.open(name, flags | os.O_RDWR | os.O_NOFOLLOW, 0o644, dir_fd=parent)
        self.close()
        self.file = descriptor
        self.inode = os.fstat(descriptor).st_ino
        return self.inode

    def close(self):
        if self.file is not None:
            os.close(self.file)
        self.file = None

    def create(self):
        shown, parent, name = self.name()
        return ["create", shown], lambda: self.hold(parent, name, os.O_CREAT | os.O_EXCL)

    def open(self):
        shown, parent, name = self.name()
        return ["open", shown], lambda: self.hold(parent, name, 0)

    def stat(self):
        shown, parent, name = self.name()

        def act():
            found = os.stat(name, dir_fd=parent, follow_symlinks=False)
            if stat.S_ISDIR(found.st_mode):
                return "directory"
            return [found.st_ino, found.st_size // VALUE_BYTES, found.st_nlink]

        return ["stat", shown], act

    def unlink(self):
        shown, parent, name = self.name()
        return ["unlink", shown], lambda: os.unlink(name, dir_fd=parent)

    def mkdir(self):
        shown, parent, name = self.name()
        return ["mkdir", shown, self.value()], lambda: os.mkdir(name, dir_fd=parent)

    def rmdir(self):
        shown, parent, name = self.name()
        return ["rmdir", shown], lambda: os.rmdir(name, dir_fd=parent)

    def rename(self):
        shown, parent, name = self.name()
        new_shown, new_parent, new_name = self.name()
        flags = self.random.choice([0, 0, NO_REPLACE, EXCHANGE])

        def act():
            if LIBC.renameat2(parent, name.encode(), new_parent, new_name.encode(), flags) != 0:
                raise OSError(ctypes.get_errno(), "renameat2")

        return ["rename", shown, new_shown, flags], act

    def link(self):
        # Of what is open: by name, Linux looks it up before it locks the directory, which is two moments on a local disk, too.
        shown, parent, name = self.name()
        path = f"/proc/self/fd/{self.file}"
        return ["link", self.inode, shown], lambda: os.link(path, name, dst_dir_fd=parent, follow_symlinks=True)

    def list(self):
        parent = self.random.choice(DIRECTORIES)
        return ["list", parent], lambda: sorted(os.listdir(os.path.join(self.mount, parent)))

    def lock(self):
        kind = self.random.choice(LOCKS)
        change = CHANGES[kind]
        if kind in self.held:
            self.held.remove(kind)
            return [self.unlock, kind], lambda: change(self.locks[kind], fcntl.LOCK_UN)

        def act():
            change(self.locks[kind], fcntl.LOCK_EX | fcntl.LOCK_NB)
            self.held.add(kind)

        return ["lock", kind], act

    def end_locks(self):
        """Lets go of all locks, and then has each once: none was forgotten."""
        for kind, change in CHANGES.items():
            change(self.locks[kind], fcntl.LOCK_UN)
        for kind, change in CHANGES.items():
            change(self.locks[kind], fcntl.LOCK_EX)
            change(self.locks[kind], fcntl.LOCK_UN)

    def write(self):
        value, at = self.value(), self.random.choice([0, 0, 1, 2])
        data = value.to_bytes(VALUE_BYTES, "little")
        act = lambda: need(os.pwrite(self.file, data, at * VALUE_BYTES), VALUE_BYTES)
        return ["write", self.inode, at, value], act

    def append(self):
        value = self.value()

        def act():
            fcntl.fcntl(self.file, fcntl.F_SETFL, os.O_APPEND)
            try:
                need(os.write(self.file, value.to_bytes(VALUE_BYTES, "little")), VALUE_BYTES)
            finally:
                fcntl.fcntl(self.file, fcntl.F_SETFL, 0)

        return ["append", self.inode, value], act

    def truncate(self):
        length = self.random.choice([0, 0, 1, LENGTH_MAX])
        return ["truncate", self.inode, length], lambda: os.ftruncate(self.file, length * VALUE_BYTES)

    def read(self):
        def act():
            data = os.pread(self.file, 1 << 16, 0)
            values = range(0, len(data), VALUE_BYTES)
            return [int.from_bytes(data[at:at + VALUE_BYTES], "little") for at in values]

        return ["read", self.inode], act

    def fstat(self):
        def act():
            found = os.fstat(self.file)
            return [found.st_size // VALUE_BYTES, found.st_nlink]

        return ["fstat", self.inode], act

    def sync(self):
        return ["sync", self.inode], lambda: os.fsync(self.file)


def need(found, wanted):
    if found != wanted:
        raise OSError(errno.EIO, f"{found} in place of {wanted}")


if __name__ == "__main__":
    main(*sys.argv[1:])
