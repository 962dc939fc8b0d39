"""What a task does that is undone: nothing of it may show afterwards."""

import ctypes
import errno
import mmap
import os
import subprocess
import sys

ROOT = sys.argv[1]
LIBC = ctypes.CDLL(None, use_errno=True)


def at(name):
    return os.path.join(ROOT, name)


def turn(word):
    """Says that it stands still, and waits to be told to go on."""
    print(word, flush=True)
    answer = sys.stdin.readline()
    assert answer, "the server is gone"


def everything():
    """Names, attributes and contents of the whole tree, without times of access."""
    seen = {}
    for directory, names, files in os.walk(ROOT):
        for name in [*names, *files, "."]:
            path = os.path.join(directory, name)
            found = os.lstat(path)
            data = None
            if name in files and not os.path.islink(path):
                with open(path, "rb") as file:
                    data = file.read()
            seen[path] = (
                found.st_mode,
                found.st_ino,
                found.st_nlink,
                found.st_uid,
                None if name != "." and name in names else found.st_size,
                found.st_mtime_ns,
                found.st_ctime_ns,
                os.readlink(path) if os.path.islink(path) else data,
            )
    return seen


def change(round):
    with open(at("old"), "ab") as file:
        file.write(b" and more")
    with open(at("own/file"), "r+b") as file:
        file.write(b"OWN")
    os.truncate(at("own/long"), 10)
    os.chmod(at("pair"), 0o600)
    os.utime(at("own/file"), ns=(5, 5))
    os.unlink(at("gone"))
    os.rename(at("tree"), at("own/moved"))
    os.rename(at("own/link"), at("replaced"))
    os.mkdir(at("own/new"))
    os.symlink("x", at("own/new/link"))
    os.link(at("own/file"), at("own/new/twin"))
    os.rmdir(at("removed"))
    with open(at("removed"), "wb") as file:
        file.write(b"a file by now, in round %d" % round)
    try:
        os.setxattr(at("own/file"), "user.k", b"v")
    except OSError as error:
        assert error.errno in (errno.EOPNOTSUPP, errno.EPERM), error
    assert not os.path.exists(at("gone"))
    assert os.path.exists(at("own/moved/in/file"))
    assert os.path.isdir(at("own/new")) and not os.path.exists(at("tree"))


def libc_write(descriptor, data):
    """As the kernel answers: Python's own would call again after EINTR."""
    length = LIBC.write(descriptor, data, len(data))
    return length if length >= 0 else -ctypes.get_errno()


def main():
    turn("begins")
    os.mkdir(at("own"))
    for name, data in [("file", b"own data"), ("long", b"l" * 300_000)]:
        with open(at("own/" + name), "wb") as file:
            file.write(data)
    os.symlink("y", at("own/link"))
    assert not os.path.exists(at("own/new"))
    held = os.open(at("own/file"), os.O_RDONLY)
    with open(at("own/long"), "rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, mmap.MAP_PRIVATE, mmap.PROT_READ)
    os.chdir(at("tree/in"))
    before = everything()
    for round in range(2):
        turn("looked")
        change(round)
        turn("changed")
        # Before the kernel is told how long the file is: there is no call in this.
        assert mapped[299_990:] == b"l" * 10
        # By name, before a listing tells the kernel of all of them.
        gone = [name for name in ["own/new", "own/moved", "removed/x"] if os.path.lexists(at(name))]
        back = [name for name in ["gone", "tree/in/file", "own/link"] if not os.path.lexists(at(name))]
        assert (gone, back) == ([], []), (gone, back)
        after = everything()
        different = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
        assert not different, [(path, before.get(path), after.get(path)) for path in sorted(different)]
        assert os.getcwd() == at("tree/in"), os.getcwd()
        assert os.pread(held, 100, 0) == b"own data"

    # What is kept stays; what came after it does not.
    turn("keeps")
    with open(at("kept"), "wb") as file:
        file.write(b"kept")
    turn("kept one")
    os.unlink(at("kept"))
    turn("kept both")
    with open(at("kept"), "rb") as file:
        assert file.read() == b"kept"

    # A file that somebody else has open.
    with subprocess.Popen(
        ["sh", "-c", "read word"], stdin=subprocess.PIPE, pass_fds=[held]
    ) as other:
        writes = os.open(at("own/file"), os.O_WRONLY)
        turn("shares")
        assert libc_write(writes, b"one") == 3
        turn("is undone")
        assert libc_write(writes, b"two") == -errno.EINTR
        turn("gave up")
        assert os.pread(held, 100, 0) == b"one data"
        # What is not checked does not wait.
        ends = os.open(at("own/file"), os.O_WRONLY | os.O_APPEND)
        turn("appends")
        assert os.write(ends, b" and more") == 9
        turn("appended")
        assert os.write(ends, b"!") == 1
        assert os.pread(held, 100, 0) == b"one data!"
        other.communicate(b"word\n")

    # A directory whose removal the kernel does not know of.
    os.mkdir(at("own/shut"))
    there = os.open(at("own/shut"), os.O_RDONLY)
    turn("removes")
    assert is_refused(lambda: os.rmdir(at("own/shut")), InterruptedError)
    turn("removed")
    assert not os.path.lexists(at("own/shut")) and "shut" not in os.listdir(at("own"))
    assert os.fstat(there).st_nlink == 0
    makers = {
        "file": lambda: os.open("x", os.O_CREAT | os.O_WRONLY, dir_fd=there),
        "directory": lambda: os.mkdir("x", dir_fd=there),
        "symbolic link": lambda: os.symlink("y", "x", dir_fd=there),
        "link": lambda: os.link(at("own/file"), "x", dst_dir_fd=there),
        "rename": lambda: os.rename(at("own/file"), "x", dst_dir_fd=there),
        "look": lambda: os.open("x", os.O_RDONLY, dir_fd=there),
    }
    made = [name for name, make in makers.items() if not is_refused(make)]
    assert not made, made
    # The C library takes the kernel's ENOENT for the end.
    assert os.listdir(there) == []
    turn("is shut")
    assert "shut" in os.listdir(at("own")) and os.fstat(there).st_nlink == 2
    os.close(os.open("x", os.O_CREAT | os.O_WRONLY, dir_fd=there))
    assert os.listdir(at("own/shut")) == ["x"]
    os.unlink(at("own/shut/x"))
    os.rmdir(at("own/shut"))


def is_refused(call, error=FileNotFoundError):
    try:
        call()
    except error:
        return True
    return False


main()
