"""Looks at files, says so, and waits until it sees everything that then changes outside."""
import errno
import mmap
import os
import sys
import time

LIMIT_S = 60


def read(path):
    with open(path, "rb") as file:
        return file.read()


def fails(function, *arguments):
    try:
        function(*arguments)
    except OSError as error:
        return errno.errorcode[error.errno]
    return None


def becomes(what, look, wanted):
    """Waits until `look` finds what is wanted."""
    end = time.monotonic() + LIMIT_S
    found = None
    while time.monotonic() < end:
        try:
            found = look()
        except OSError as error:
            found = errno.errorcode[error.errno]
        if found == wanted:
            print("seen:", what)
            return
        time.sleep(0.05)
    sys.exit(f"{what}: {found!r} instead of {wanted!r}")


# Everything is looked at, and cached, before anything changes.
for name in ["changed", "longer", "replaced", "removed", "link", "held", "mapped", "cut", "gone", "logged"]:
    read(name)
for name in ["absent", "listed/new"]:
    assert fails(os.stat, name) == "ENOENT"
assert os.listdir("listed") == ["old"]
assert os.stat("moded").st_mode & 0o777 == 0o644
os.mkdir("merged/mine")
assert sorted(os.listdir("merged")) == ["mine", "old"]
held = os.open("held", os.O_RDONLY)
assert os.pread(held, 4, 0) == b"held"
mapping = mmap.mmap(os.open("mapped", os.O_RDONLY), 0, prot=mmap.PROT_READ)
assert mapping[:6] == b"mapped"
cut = os.open("cut", os.O_RDONLY)
# Of these only the beginning was ever read, and nothing of the last.
os.posix_fadvise(os.open("gone", os.O_RDONLY), 0, 0, os.POSIX_FADV_DONTNEED)
gone = os.open("gone", os.O_RDONLY)
never_read = os.open("never-read", os.O_RDONLY)
old = os.open("replaced", os.O_RDONLY)
logged = os.open("logged", os.O_RDONLY)
listed = os.open("listed", os.O_RDONLY)
assert os.listdir(listed) == ["old"]
below = os.open("renamed/below", os.O_RDONLY)
os.chdir("renamed/sub")
assert read("leaf") == b"leaf"
os.mkdir("../../has-looked")

top = os.path.dirname(os.path.dirname(os.getcwd()))
becomes("the directory that is worked in is another's", lambda: read("../moved-by-now"), b"m")
becomes("a file below it", lambda: read("leaf"), b"new leaf")
os.chdir(top)
becomes("contents", lambda: read("changed"), b"CHANGED")
becomes("size", lambda: (os.stat("longer").st_size, read("longer")), (20000, b"longer" + b"l" * 19994))
becomes("a replaced file", lambda: read("replaced"), b"another")
becomes("a removed file", lambda: fails(os.stat, "removed"), "ENOENT")
becomes("a new file", lambda: read("absent"), b"here")
becomes("a new name in a listing", lambda: sorted(os.listdir("listed")), ["new"])
becomes("and by an old descriptor", lambda: os.listdir(listed), ["new"])
becomes("beside names of the domain's own", lambda: sorted(os.listdir("merged")), ["mine", "new"])
becomes("a mode", lambda: os.stat("moded").st_mode & 0o777, 0o600)
becomes("where a link leads", lambda: (os.readlink("link"), read("link")), ("absent", b"here"))
becomes("an attribute", lambda: os.getxattr("attributed", "user.a"), b"2")
becomes("a renamed directory", lambda: (fails(os.stat, "renamed"), read("elsewhere/below")), ("ENOENT", b"below"))
becomes("a directory in place of a file", lambda: os.listdir("turned"), ["inside"])
becomes("an open file", lambda: os.pread(held, 100, 0), b"HELD AND LONGER")
becomes("its size", lambda: os.fstat(held).st_size, 15)
becomes("a mapping", lambda: mapping[:6], b"MAPPED")
becomes("and its end", lambda: mapping[-3:], b"END")
becomes("an open file that was cut", lambda: (os.fstat(cut).st_size, os.pread(cut, 10, 0)), (2, b"cu"))
becomes("what is gone stays open", lambda: (os.fstat(gone).st_nlink, len(os.pread(gone, 300000, 0))), (0, 200000))
becomes("unread as well", lambda: (os.fstat(never_read).st_nlink, os.pread(never_read, 10, 0)), (0, b"never-read"))
becomes("what was replaced too", lambda: (os.fstat(old).st_nlink, os.pread(old, 100, 0)), (0, b"replaced"))
becomes("a moved one grows", lambda: os.pread(logged, 100, 0), b"logged, and more")
becomes("a file below a moved directory", lambda: os.pread(below, 10, 0), b"below")
