"""What docs/semantics.md tells as different inside, one line each: NAME: OUTCOME."""
import ctypes
import errno
import fcntl
import mmap
import os
import resource
import select
import socket
import struct

libc = ctypes.CDLL(None, use_errno=True)


def call(number, *arguments):
    result = libc.syscall(number, *arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), "")
    return result


def difference(name):
    def run(attempt):
        try:
            told = attempt()
        except OSError as error:
            told = errno.errorcode[error.errno]
        except ValueError:  # How Python reports EPERM of setrlimit.
            told = "EPERM"
        print(f"{name}: {'works' if told is None else told}", flush=True)
    return run


def in_child(attempt):
    """Its exit status, or minus the signal that ended it."""
    child = os.fork()
    if child == 0:
        try:
            attempt()
            os._exit(0)
        except OSError as error:
            os._exit(error.errno)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def option(name):
    with socket.socket() as own:
        own.setsockopt(socket.SOL_SOCKET, name, 1 << 24)


def write(path, text):
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.write(descriptor, text)
    finally:
        os.close(descriptor)


with open("file", "w", encoding="ascii") as made:
    made.write("x" * 8192)
ENTRIES = ((1, 6, -1), (2, 4, 1000), (4, 4, -1), (16, 4, -1), (32, 0, -1))
ACL = struct.pack("<I", 2) + b"".join(struct.pack("<HHi", *entry) for entry in ENTRIES)
ACCESS = "system.posix_acl_access"
CAPABILITY = struct.pack("<5I", 0x02000000, 1 << 10, 0, 0, 0)


# Files.
@difference("epoll on a file")
def _():
    with select.epoll() as queue, open("file", encoding="ascii") as file:
        queue.register(file.fileno(), select.EPOLLIN)
        return [what for _, what in queue.poll(0)] == [select.EPOLLIN]


@difference("epoll on a directory")
def _():
    with select.epoll() as queue:
        queue.register(os.open(".", os.O_RDONLY))


for space in ("security.surmise", "trusted.surmise"):
    difference(f"set {space}")(lambda space=space: os.setxattr("file", space, b"x"))
difference("set security.capability")(lambda: os.setxattr("file", "security.capability", CAPABILITY))
difference("set an ACL")(lambda: os.setxattr("file", ACCESS, ACL))
difference("read an ACL")(lambda: os.getxattr("listed", ACCESS))
difference("list an ACL")(lambda: ACCESS in os.listxattr("listed"))
difference("unaligned read past the cache")(lambda: os.preadv(
    os.open("listed", os.O_RDONLY | os.O_DIRECT), [memoryview(mmap.mmap(-1, 4096))[:100]], 1))

# Processes.
difference("lower oom_score_adj")(lambda: write("/proc/self/oom_score_adj", b"-5"))
difference("raise a limit")(lambda: resource.setrlimit(
    resource.RLIMIT_NPROC, (10, resource.getrlimit(resource.RLIMIT_NPROC)[1] + 1)))
difference("real-time input and output")(lambda: call(251, 1, 0, 1 << 13))
difference("scheduling by deadlines")(lambda: call(
    314, 0, struct.pack("IIQiIQQQ", 48, 6, 0, 0, 0, 10**7, 2 * 10**7, 2 * 10**7), 0))
difference("a large pipe")(lambda: fcntl.fcntl(os.pipe()[0], 1031, 1 << 26))
difference("strict seccomp")(lambda: in_child(lambda: call(157, 22, 1, 0, 0, 0)))
difference("clone3")(lambda: call(435, None, 0))
difference("a process's mappings by address")(lambda: os.close(os.open(
    f"/proc/self/map_files/{os.listdir('/proc/self/map_files')[0]}", os.O_RDONLY)))
difference("perf")(lambda: call(298, struct.pack("IIQ", 1, 112, 0) + bytes(200), 0, -1, -1, 0))

# The machine.
difference("make a control group")(lambda: os.mkdir("/sys/fs/cgroup/surmise-difference"))
difference("enter a control group")(lambda: write("/sys/fs/cgroup/cgroup.procs", b"0"))
difference("a trigger of pressure")(lambda: write("/proc/pressure/memory", b"some 500000 10000000\0"))
difference("SO_SNDBUFFORCE")(lambda: option(32))
difference("SO_RCVBUFFORCE")(lambda: option(33))
difference("devices")(lambda: " ".join(sorted(os.listdir("/dev"))))
