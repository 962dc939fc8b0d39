"""Writes what a process may write of itself below /proc, and prints what became of each."""
import ctypes
import errno
import os

libc = ctypes.CDLL(None, use_errno=True)


def write(path, text):
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.write(descriptor, text)
    finally:
        os.close(descriptor)


def read(path):
    with open(path, "rb") as file:
        return file.read().strip()


def outcome(attempt):
    try:
        return attempt()
    except OSError as error:
        return errno.errorcode[error.errno]


def row(name, attempt):
    print(name, outcome(attempt), flush=True)


def written(name, text):
    path = f"/proc/self/{name}"
    write(path, text)
    return read(path)


def in_child(attempt):
    """What it comes to, in a process that goes with it."""
    one, other = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(other, repr(outcome(attempt)).encode())
        os._exit(0)
    os.close(other)
    os.waitpid(child, 0)
    return os.read(one, 1000)


def own_ids():
    """In a user namespace of its own."""
    user, group = os.geteuid(), os.getegid()
    if libc.unshare(0x10000000) != 0:
        raise OSError(ctypes.get_errno(), "")
    write("/proc/self/setgroups", b"deny")
    write("/proc/self/uid_map", f"0 {user} 1".encode())
    write("/proc/self/gid_map", f"0 {group} 1".encode())
    return os.geteuid(), os.getegid(), read("/proc/self/uid_map").split()[:1]


def clocks():
    """In a time namespace of its children."""
    own_ids()
    if libc.unshare(0x80) != 0:
        raise OSError(ctypes.get_errno(), "")
    write("/proc/self/timens_offsets", b"monotonic 1000 0")
    return read("/proc/self/timens_offsets").split()[:3]


row("comm", lambda: written("comm", b"other"))
row("comm of a thread", lambda: written(f"task/{os.getpid()}/comm", b"thread"))
for value in (b"500", b"200", b"1000"):
    row("oom_score_adj", lambda value=value: written("oom_score_adj", value))
row("coredump_filter", lambda: written("coredump_filter", b"0x33"))
row("timerslack_ns", lambda: written("timerslack_ns", b"60000"))
row("clear_refs", lambda: write("/proc/self/clear_refs", b"1"))
row("loginuid", lambda: write("/proc/self/loginuid", b"nonsense"))
row("make-it-fail", lambda: write("/proc/self/make-it-fail", b"0"))
row("mem", lambda: write("/proc/self/mem", b""))
row("pagemap", lambda: write("/proc/self/pagemap", b""))
row("ids of a user namespace", lambda: in_child(own_ids))
row("offsets of a time namespace", lambda: in_child(clocks))
row("a descriptor", lambda: write(f"/proc/self/fd/{os.memfd_create('m')}", b"x"))
row("the end of a pipe", lambda: write(f"/dev/fd/{os.pipe()[1]}", b"x"))
for name in ("meminfo", "stat", "cpuinfo", "loadavg", "uptime", "sys/kernel/pid_max", "net/dev"):
    row(name, lambda name=name: bool(read(f"/proc/{name}")))
row("the null device", lambda: write("/dev/null", b"x"))
row("shared memory", lambda: os.close(os.open("/dev/shm/surmise-own", os.O_CREAT | os.O_RDWR)))
row("and away", lambda: os.unlink("/dev/shm/surmise-own"))
