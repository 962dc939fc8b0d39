"""What tasks do: they hold files of every kind, and go on with them across commits."""

import ctypes
import errno
import fcntl
import mmap
import os
import stat
import sys
import time

ROOT, MANY = sys.argv[1], int(sys.argv[2])
DIRTY = b"through the mapping"
LIMIT_S = 10
AT_EMPTY_PATH = 0x1000


def at(name):
    return os.path.join(ROOT, name)


def turn(word):
    """Says that it stands still, and waits to be told to go on."""
    print(word, flush=True)
    answer = sys.stdin.readline()
    assert answer, "the server is gone"
    return answer.strip()


def held(name, flags=os.O_RDWR):
    return os.open(at(name), flags)


def everything(descriptor):
    return os.pread(descriptor, 1 << 20, 0)


def read(name):
    with open(at(name), "rb") as file:
        return file.read()


def write(name, data):
    with open(at(name), "wb") as file:
        file.write(data)


def seen(found, with_number=True):
    """Everything that a commit must not change."""
    directory = stat.S_ISDIR(found.st_mode)
    return (
        found.st_mode,
        found.st_uid,
        found.st_gid,
        None if directory else found.st_size,
        found.st_mtime_ns,
        found.st_nlink,
        found.st_ino if with_number else None,
    )


def picture():
    tree = {}
    for directory, directories, files in os.walk(ROOT):
        for name in directories + files:
            path = os.path.join(directory, name)
            # What the domain made gets its number from the real file system.
            made = path.startswith(at("made")) or path == at("replaced")
            found = os.lstat(path)
            data = read(path) if stat.S_ISREG(found.st_mode) else None
            tree[path] = (seen(found, not made), data)
    return tree


def same(before, after, when):
    for path in before.keys() | after.keys():
        if path in mappings:
            # Its times are those of the write-back.
            continue
        (one, data), (two, other) = before.get(path, (None, None)), after.get(path, (None, None))
        assert one == two, (when, path, one, two)
        assert data == other, (when, path)


def expect(number, call, *arguments, **options):
    try:
        call(*arguments, **options)
    except OSError as error:
        assert error.errno == number, error
    else:
        raise AssertionError(f"{call} succeeded")


class Listing:
    """A directory stream, which os.scandir would read ahead."""

    def __init__(self, name):
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.libc.fdopendir.restype = ctypes.c_void_p
        self.libc.readdir64.restype = ctypes.c_void_p
        self.stream = self.libc.fdopendir(os.open(at(name), os.O_RDONLY | os.O_DIRECTORY))
        self.names = []

    def read(self, count):
        for _ in range(count):
            entry = self.libc.readdir64(ctypes.c_void_p(self.stream))
            if not entry:
                return
            self.names.append(ctypes.string_at(entry + 19))


def take():
    global old, gone, gone_changed, replaced, new, nameless, twin, in_tree, lost_link, removed
    global listing, mapped, fresh, log
    old = held("old")
    os.pwrite(old, b", more", 8)
    fcntl.flock(old, fcntl.LOCK_EX | fcntl.LOCK_NB)
    gone, gone_changed, replaced = held("gone"), held("gone.changed"), held("replaced")
    os.pwrite(gone_changed, b"GONE", 0)
    os.unlink(at("gone"))
    os.unlink(at("gone.changed"))
    write("replacement", b"replacement")
    os.rename(at("replacement"), at("replaced"))
    # The other name has been seen.
    twin = held("pair")
    os.stat(at("twin"))
    os.unlink(at("pair"))
    in_tree = held("tree/in/file")
    os.rename(at("tree"), at("wood"))
    lost_link = held("lost.link", os.O_PATH | os.O_NOFOLLOW)
    removed = held("removed", os.O_PATH)
    os.unlink(at("lost.link"))
    os.rmdir(at("removed"))
    os.makedirs(at("made/deep"))
    os.chdir(at("made/deep"))
    new = held("made/new", os.O_RDWR | os.O_CREAT | os.O_EXCL)
    os.pwrite(new, b"new-data", 0)
    os.fchmod(new, 0o640)
    os.symlink("../old", at("made/link"))
    os.mkfifo(at("made/fifo"), 0o600)
    for name in ["goes", "moves", "plain"]:
        write("made/" + name, name.encode())
    os.link(at("made/goes"), at("made/stays"))
    assert not os.path.exists(at("made/absent"))
    nameless = held("made", os.O_RDWR | os.O_TMPFILE)
    os.pwrite(nameless, b"nameless", 0)
    log = held("made/log", os.O_WRONLY | os.O_CREAT)
    os.write(log, b"log")
    listing = Listing("many")
    listing.read(MANY // 3)
    file = held("mapped")
    mapped = mmap.mmap(file, 0)
    os.close(file)
    fresh = mmap.mmap(new, 0)


def dirty():
    """Last, so that nothing else has the kernel write it back."""
    mapped[: len(DIRTY)] = DIRTY
    fresh[3:4] = b" "


def check(old_data, new_data):
    assert everything(old) == old_data
    assert everything(gone)[:4] == b"gone"
    assert everything(gone_changed) == b"GONE data"
    assert everything(replaced) == b"replaced data"
    assert everything(nameless) == b"nameless"
    assert everything(new) == new_data, everything(new)
    assert everything(in_tree) == b"in the tree"
    assert everything(twin) == read("twin")
    for lost in [gone, gone_changed, replaced, nameless, lost_link, removed]:
        assert os.fstat(lost).st_nlink == 0
    named = {old: "old", new: "made/new", twin: "twin", in_tree: "wood/in/file"}
    for descriptor, name in named.items():
        assert seen(os.fstat(descriptor)) == seen(os.stat(at(name))), name
        assert os.fstat(descriptor).st_nlink == 1, name
    assert os.readlink("", dir_fd=lost_link) == "nowhere"
    expect(errno.ENOENT, os.mkdir, "x", dir_fd=removed)
    os.fchdir(removed)
    expect(errno.ENOENT, os.getcwd)
    expect(errno.ENOENT, os.open, "x", os.O_CREAT | os.O_WRONLY)
    os.chdir(at("made/deep"))
    assert os.getcwd() == at("made/deep")
    assert mapped[: len(DIRTY)] == DIRTY
    assert read("mapped")[: len(DIRTY)] == DIRTY
    assert os.readlink("../link") == "../old"
    assert stat.S_ISFIFO(os.stat("../fifo").st_mode)
    # The lock is still held.
    other = held("old", os.O_RDONLY)
    expect(errno.EAGAIN, fcntl.flock, other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(other)


def change():
    """What belongs to the next consent."""
    listing.read(MANY * 2)
    assert len(listing.names) == len(set(listing.names)) == MANY + 2, len(listing.names)
    os.pwrite(old, b"OLD", 0)
    os.pwrite(gone, b"gone for good", 0)
    os.pwrite(twin, b"TWIN", 0)
    assert read("twin")[:4] == b"TWIN"
    with open("second", "wb") as file:
        file.write(b"second")
    with open("../new", "ab") as file:
        file.write(b", appended")
    os.write(log, b", more")
    mapped[4096 : 4096 + len(DIRTY)] = DIRTY
    assert read("mapped")[4096 : 4096 + len(DIRTY)] == DIRTY, "coherent with read"
    os.chmod("../deep", 0o700)


def until(condition, what):
    end = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.01)


def see_outside(is_passed):
    """What others changed outside shows, although it was the domain's own before."""
    there = lambda name: os.path.exists(at("made/" + name))
    os.close(log)
    if is_passed:
        # The kernel wrote to them without a message, so they stay the domain's until the next commit.
        assert read("made/log") == b"log, more"
        assert read("made/new") == b"new data, appended"
        assert os.fstat(new).st_size == len(b"new data, appended")
    else:
        # Through a descriptor, without a look at the name.
        until(lambda: os.fstat(new).st_size == 28, "new attributes")
        until(lambda: read("made/log") == b"log of others", "new data of what was open")
        until(lambda: os.stat(at("made/new")).st_size == 28, "new data")
        assert read("made/new") == b"other and longer than it was"
    until(lambda: there("absent"), "a new name")
    until(lambda: read("made/plain") == b"plain of others", "new data")
    until(lambda: not there("goes"), "a removal")
    until(lambda: there("moved") and not there("moves"), "a move")
    assert read("made/stays") == b"goes"


take()
mappings = [at("mapped"), at("made/new")]
before = picture()
dirty()
turn("holds")
check(b"old data, more", b"new data")
same(before, picture(), "after the first commit")
mappings = [at("mapped")]
change()
before = picture()
turn("changed again")
same(before, picture(), "nothing was committed")
turn("looked")
check(b"OLD data, more", b"new data, appended")
same(before, picture(), "after the second commit")
told = turn("sees")
see_outside(told == "changed outside what is passed through")
print("seen", flush=True)
