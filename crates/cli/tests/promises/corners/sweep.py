"""Tries to change everything that is named and below, and prints what could be changed."""
import ctypes
import os
import stat
import struct
import sys

# A caller that runs this outside by accident changes the machine.
assert "SURMISE_DOMAIN" in os.environ, "not in a domain"

# What is the domain's own, and goes with it.
OWN = ("/dev/pts", "/dev/shm", "/dev/mqueue")
libc = ctypes.CDLL(None, use_errno=True)


def reached(top):
    yield top
    for directory, directories, names in os.walk(top):
        if directory == "/proc":
            # Also thread-self and self; they are links.
            directories[:] = [name for name in directories if not name.isdigit()]
        directories[:] = [name for name in directories if f"{directory}/{name}" not in OWN]
        for name in directories + names:
            yield f"{directory}/{name}"


def opened(path, kind):
    """Nothing is written: some settings take any bytes."""
    if stat.S_ISREG(kind):
        os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
    elif stat.S_ISDIR(kind):
        os.close(os.open(f"{path}/surmise", os.O_WRONLY | os.O_CREAT))
        os.unlink(f"{path}/surmise")
    else:
        raise OSError


def tries(path):
    status = os.lstat(path)
    kind, mode = status.st_mode, stat.S_IMODE(status.st_mode)
    is_link = stat.S_ISLNK(kind)
    yield "mode", lambda: is_link or os.chmod(path, mode ^ 0o001)
    yield "owner", lambda: os.lchown(path, 12345, 12345)
    yield "group", lambda: os.lchown(path, -1, 12345)
    yield "times", lambda: os.utime(path, ns=(10**18, 10**18), follow_symlinks=False)
    for space in ("user", "trusted", "security"):
        yield space, lambda space=space: os.setxattr(path, f"{space}.surmise", b"x", follow_symlinks=False)
    yield "contents", lambda: opened(path, kind)
    yield "name", lambda: os.rename(path, f"{path}.surmise")


def changed(path):
    for what, attempt in tries(path):
        try:
            if attempt() is not True:
                yield what
        except OSError:
            pass


for top in sys.argv[1:]:
    for path in reached(top):
        try:
            done = list(changed(path))
        except OSError:
            continue
        if done:
            print(path, *done)

for number in (170, 171):  # sethostname, setdomainname
    libc.syscall(number, b"swept", 5)


def enter_control_group(path):
    """A child that is born into it."""
    group = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    arguments = ctypes.create_string_buffer(struct.pack("11Q", 1 << 33, 0, 0, 0, 17, *[0] * 5, group))
    child = libc.syscall(435, arguments, 88)
    if child == 0:
        os._exit(0)
    if child > 0:
        os.waitpid(child, 0)
        print("a child in", path)


for directory, _, names in os.walk("/sys/fs/cgroup"):
    if "cgroup.events" in names or "cgroup.max.depth" in names:
        enter_control_group(directory)
print("swept")
