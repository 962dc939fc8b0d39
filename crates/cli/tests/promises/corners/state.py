"""What the machine's corners are like: `record FILE`; later `compare FILE`, which prints and mends differences.

Only what is there both times counts, since a machine goes on; and of terminals only those that are named, since others come and go
under the same numbers. Times are compared where nothing but a program that
sets them moves them."""
import ctypes
import json
import os
import sys

libc = ctypes.CDLL(None, use_errno=True)
QUIET = [f"/dev/{name}" for name in ("full", "null", "random", "urandom", "zero")]


def mount_proc_anew():
    """A mount of /proc goes on showing modes that it has shown, though the entry has another by now."""
    for failed in (
            libc.unshare(0x20000),
            libc.mount(None, b"/", None, 0x44000, None),
            libc.mount(b"proc", b"/proc", b"proc", 0, None)):
        if failed:
            raise OSError(ctypes.get_errno(), "mount /proc")


def of_machine(top):
    yield top
    for directory, directories, names in os.walk(top):
        if directory == "/proc":
            directories[:] = [name for name in directories if not name.isdigit()]
        for name in directories + names:
            if directory != "/dev/pts" or not name.isdigit():
                yield f"{directory}/{name}"


def state(path):
    status = os.lstat(path)
    try:
        attributes = sorted(os.listxattr(path, follow_symlinks=False))
    except OSError:
        attributes = []
    times = [status.st_mtime_ns] if path in QUIET else []
    return [status.st_mode, status.st_uid, status.st_gid, attributes, *times]


def states():
    paths = [path for top in ("/proc", "/sys", "/dev") for path in of_machine(top)]
    paths += sys.argv[3:]
    seen = {}
    for path in paths:
        try:
            seen[path] = state(path)
        except OSError:
            pass
    seen["host name"] = list(os.uname()[:2])
    with open("/proc/sys/kernel/domainname", encoding="ascii") as file:
        seen["domain name"] = file.read()
    return seen


def mend(path, before):
    mode, user, group, *_ = before
    os.lchown(path, user, group)
    if mode & 0o170000 != 0o120000:
        os.chmod(path, mode & 0o7777)


def compare(before):
    now = states()
    for path in sorted(before.keys() & now.keys()):
        if before[path] != now[path]:
            print(path, before[path], now[path])
            if path.startswith("/"):
                mend(path, before[path])
    print("entries:", len(before.keys() & now.keys()))


if os.geteuid() == 0:
    mount_proc_anew()
with open(sys.argv[2], "r" if sys.argv[1] == "compare" else "w", encoding="ascii") as place:
    if sys.argv[1] == "compare":
        compare(json.load(place))
    else:
        json.dump(states(), place)
