"""Tries to change a directory in every way, and prints what came of each call. What was there is put back before each."""

import errno
import os
import socket
import sys
import threading

TREE = sys.argv[1]
FILE = "file"
NEW = "new"


def tell(name, call):
    prepare()
    try:
        call()
        print(name, "done")
    except OSError as error:
        print(name, errno.errorcode[error.errno])


def prepare():
    """Where it fails, nothing can have been changed before."""
    file, new = os.path.join(TREE, FILE), os.path.join(TREE, NEW)
    try:
        if os.path.lexists(new):
            (os.rmdir if os.path.isdir(new) else os.unlink)(new)
        open(file, "a").close()
        os.chmod(file, 0o644)
    except OSError:
        pass


def calls(directory, at):
    """By paths below `directory`, with the arguments `at` for those that take a directory's descriptor."""
    new, old = os.path.join(directory, NEW), os.path.join(directory, FILE)
    here = at("dir_fd")
    both = at("src_dir_fd") | at("dst_dir_fd")
    flags = os.O_WRONLY, os.O_RDWR, os.O_WRONLY | os.O_TRUNC, os.O_RDWR | os.O_APPEND
    for flag in flags:
        yield f"open {flag:o}", lambda flag=flag: os.close(os.open(old, flag, **here))
    create = os.O_CREAT | os.O_EXCL | os.O_WRONLY
    yield "create", lambda: os.close(os.open(new, create, 0o644, **here))
    yield "mkdir", lambda: os.mkdir(new, **here)
    yield "mkfifo", lambda: os.mkfifo(new, **here)
    yield "mknod", lambda: os.mknod(new, **here)
    yield "symlink", lambda: os.symlink("x", new, **here)
    yield "link", lambda: os.link(old, new, **both)
    yield "rename", lambda: os.rename(old, new, **both)
    yield "replace", lambda: os.replace(old, new, **both)
    yield "unlink", lambda: os.unlink(old, **here)
    yield "chmod", lambda: os.chmod(old, 0o777, **here)
    yield "chown", lambda: os.chown(old, os.getuid(), os.getgid(), **here)
    yield "utime", lambda: os.utime(old, (1, 1), **here)
    if not here:
        yield "truncate", lambda: os.truncate(old, 0)
        yield "setxattr", lambda: os.setxattr(old, "user.x", b"y")
        yield "tmpfile", lambda: os.close(os.open(directory, os.O_TMPFILE | os.O_RDWR))
        yield "bind", lambda: socket.socket(socket.AF_UNIX).bind(new)


def none(_):
    return {}


def main():
    directory = os.open(TREE, os.O_RDONLY | os.O_DIRECTORY)
    os.symlink(TREE, "link")
    ways = {
        "path": (TREE, none),
        "dots": (f"{TREE}/../{os.path.basename(TREE)}/.", none),
        "link": ("link", none),
        "descriptor": ("", lambda name: {name: directory}),
        "/proc/self/fd": (f"/proc/self/fd/{directory}", none),
        "root": ("/proc/self/root" + TREE, none),
    }
    for way, (place, at) in ways.items():
        for name, call in calls(place, at):
            tell(f"{way}: {name}", call)
    file = os.open(os.path.join(TREE, FILE), os.O_RDONLY)
    tell("fchmod", lambda: os.fchmod(file, 0o777))
    tell("fchown", lambda: os.fchown(file, os.getuid(), os.getgid()))
    tell("futimens", lambda: os.utime(file, (1, 1)))
    tell("fsetxattr", lambda: os.setxattr(file, "user.x", b"y"))
    os.chdir(TREE)
    for way, place in ("cwd", "."), ("/proc/self/cwd", "/proc/self/cwd"):
        for name, call in calls(place, none):
            thread = threading.Thread(target=tell, args=(f"thread, {way}: {name}", call))
            thread.start()
            thread.join()


main()
