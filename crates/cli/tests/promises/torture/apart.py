"""Processes that change and see files of one directory: `apart.py MODE`."""

import os
import sys

COUNT = 60


def insist(call, *arguments):
    """A call may be told what is wrong, and is undone then."""
    while True:
        try:
            return call(*arguments)
        except OSError:
            pass


def settle(anything):
    """Waits until this process depends on nothing. No call follows that is guessed."""
    os.fsync(anything)


def open_new(path):
    return insist(os.open, path, os.O_CREAT | os.O_RDWR, 0o644)


def make(name):
    """Makes files, and removes some."""
    for number in range(COUNT):
        path = f"there/{name}{number}"
        file = open_new(path)
        os.write(file, path.encode())
        os.close(file)
        if number % 3 == 0:
            insist(os.unlink, path)


def see(name):
    """Waits for each of those that stay."""
    for number in range(COUNT):
        if number % 3:
            while not os.path.exists(f"there/{name}{number}"):
                pass


def write(name, out):
    """Writes to a file that is open, and tells of it."""
    for number in range(5 * COUNT):
        os.pwrite(out, b"%d\n" % number, 0)
        assert os.pread(out, 9, 0) == b"%d\n" % number
        os.write(1, b"%s %d\n" % (name.encode(), number))


def main(mode):
    insist(os.mkdir, "there")
    own = {name: open_new(f"there/{name}") for name in ("left", "right", "bystander")}
    workers = {
        "makers": [("left", make), ("right", make)],
        "seen": [("left", make), ("right", lambda _: see("left")), ("bystander", None)],
        "one": [("left", make), ("bystander", None)],
    }[mode]
    settle(own["left"])
    children = []
    for name, work in workers:
        child = os.fork()
        if child == 0:
            if work:
                work(name)
            else:
                write(name, own[name])
            settle(own[name])
            os._exit(0)
        children.append(child)
    if mode == "makers":
        make("parent")
    settle(own["left"])
    ended = [os.waitpid(child, 0)[1] for child in children]
    names = sorted(insist(os.listdir, "there"))
    settle(own["left"])
    os.write(1, f"{ended} {names}\n".encode())
    os._exit(0)


main(sys.argv[1])
