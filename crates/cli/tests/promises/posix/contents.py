"""Data, attributes, locks, mappings: prints what the file system in the current directory does."""
import ctypes
import errno
import fcntl
import mmap
import os
import signal
import stat
import struct
import subprocess
import sys
import time

from checks import call, check, error_of, libc, read, result_of, write

KEEP_SIZE, PUNCH_HOLE, ZERO_RANGE = 1, 2, 16
GIB = 1 << 30
COARSE = 5  # The clock that stamps inodes.
ROOT = os.geteuid() == 0


def fallocate(descriptor, mode, offset, length):
    call(libc.fallocate(descriptor, mode, ctypes.c_long(offset), ctypes.c_long(length)))


def born(path):
    """The birth time, in nanoseconds, by statx(2)."""
    buffer = ctypes.create_string_buffer(256)
    call(libc.statx(-100, os.fsencode(path), 0x100, 0x800, buffer))
    (mask,) = struct.unpack_from("I", buffer, 0)
    seconds, nanoseconds = struct.unpack_from("qI", buffer, 0x50)
    return seconds * 10**9 + nanoseconds if mask & 0x800 else None


def in_child(action):
    """What `action` returns in another process."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writer, repr(result_of(action)).encode())
        finally:
            os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    with os.fdopen(reader) as pipe:
        return pipe.read()


def locks():
    write("lock", "0123456789")
    lock = open("lock", "r+", encoding="ascii")

    def flock(operation):
        with open("lock", "r+", encoding="ascii") as file:
            return fcntl.flock(file, operation | fcntl.LOCK_NB)

    def record(kind, command, start=0, length=0):
        with open("lock", "r+", encoding="ascii") as file:
            wanted = struct.pack("hhqqi4x", kind, os.SEEK_SET, start, length, 0)
            answer = struct.unpack("hhqqi4x", fcntl.fcntl(file, command, wanted))
            return (*answer[:4], answer[4] in [os.getpid(), os.getppid()], answer[4])[:5]

    fcntl.flock(lock, fcntl.LOCK_SH)
    check("shared flock", in_child(lambda: flock(fcntl.LOCK_SH)), in_child(lambda: flock(fcntl.LOCK_EX)))
    fcntl.flock(lock, fcntl.LOCK_EX)
    check("exclusive flock", in_child(lambda: flock(fcntl.LOCK_SH)))
    fcntl.flock(lock, fcntl.LOCK_UN)
    check("unlocked", in_child(lambda: flock(fcntl.LOCK_EX)))
    fcntl.lockf(lock, fcntl.LOCK_EX, 4, 2)
    ask, take = fcntl.F_GETLK, fcntl.F_SETLK
    check("record lock", in_child(lambda: record(fcntl.F_RDLCK, take, 0, 2)))
    check("taken record", in_child(lambda: record(fcntl.F_RDLCK, take, 3, 2)))
    check("whose", in_child(lambda: record(fcntl.F_WRLCK, ask)))
    check("and flock besides", in_child(lambda: flock(fcntl.LOCK_EX)))
    open("lock", encoding="ascii").close()
    check("gone with any close", in_child(lambda: record(fcntl.F_WRLCK, take)))
    owned = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    fcntl.fcntl(lock, fcntl.F_OFD_SETLK, owned)
    open("lock", encoding="ascii").close()
    check("a description's lock", in_child(lambda: record(fcntl.F_RDLCK, fcntl.F_OFD_SETLK)))
    check("is nobody's", in_child(lambda: record(fcntl.F_RDLCK, ask)))
    other = open("lock", "r+", encoding="ascii")
    check("also in one process", error_of(fcntl.fcntl, other, fcntl.F_OFD_SETLK, owned))
    lock.close()
    check("until it is closed", error_of(fcntl.fcntl, other, fcntl.F_OFD_SETLK, owned))
    # A lock that is waited for is given by the end of its owner.
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        other.close()
        file = open("lock", "r+", encoding="ascii")
        fcntl.lockf(file, fcntl.LOCK_EX)
        os.write(writer, b"locked")
        time.sleep(0.05)
        os._exit(0)
    other.close()
    os.read(reader, 6)
    waiting = open("lock", "r+", encoding="ascii")
    fcntl.lockf(waiting, fcntl.LOCK_EX)
    check("waited for", os.waitpid(child, 0)[1])


def extended_attributes():
    for name in ["lower/file", "x", "xd"]:
        if name == "x":
            write("x", "")
        if name == "xd":
            os.mkdir("xd")
        os.setxattr(name, "user.one", b"1")
        os.setxattr(name, b"user.\xff", b"\0binary\xff")
        os.setxattr(name, "user.empty", b"")
        check(name, sorted(os.listxattr(os.fsencode(name))), os.getxattr(name, b"user.\xff"))
        check("replaced", os.setxattr(name, "user.one", b"2", os.XATTR_REPLACE), os.getxattr(name, "user.one"))
        check("flags", error_of(os.setxattr, name, "user.two", b"", os.XATTR_REPLACE))
        check("both", error_of(os.setxattr, name, "user.one", b"", os.XATTR_REPLACE | os.XATTR_CREATE))
        os.removexattr(name, "user.one")
        check("absent", error_of(os.getxattr, name, "user.one"), error_of(os.removexattr, name, "user.one"))
        check("too long", error_of(os.setxattr, name, "user." + "n" * 251, b""))
        check("too large", error_of(os.setxattr, name, "user.large", b"v" * 65537))
        check("bad name", error_of(os.setxattr, name, "other.name", b""), error_of(os.setxattr, name, "user.", b""))
        os.rename(name, name + "-renamed")
        check("renamed", os.getxattr(name + "-renamed", b"user.\xff"))
        os.rename(name + "-renamed", name)
    os.symlink("x", "xl")
    check("of a link", error_of(os.setxattr, "xl", "user.x", b"", follow_symlinks=False))
    os.mkfifo("xf")
    check("of a fifo", error_of(os.setxattr, "xf", "user.x", b""))
    if ROOT:
        capability = struct.pack("<IIIII", 0x02000001, 1 << 10, 0, 0, 0)
        os.setxattr("x", "security.capability", capability)
        check("capability", os.getxattr("x", "security.capability") == capability, len(os.listxattr("x")))
        with open("x", "a", encoding="ascii") as file:
            file.write("changed")
        check("goes with a write", error_of(os.getxattr, "x", "security.capability"))
        os.setxattr("x", "security.capability", capability)
        os.truncate("x", 1)
        check("with a truncate", error_of(os.getxattr, "x", "security.capability"))
        os.setxattr("x", "security.capability", capability)
        os.chown("x", 1, 1)
        check("with a chown", error_of(os.getxattr, "x", "security.capability"))
        check("bad one", error_of(os.setxattr, "x", "security.capability", b"bad"))
    else:
        check("capability", error_of(os.setxattr, "x", "security.capability", b"x" * 20))


def modes():
    def mode(path):
        return oct(os.stat(path).st_mode)

    for name in ["lower/file", "m"]:
        if name == "m":
            write("m", "data")
        os.chmod(name, 0o6755)
        check("set-id", mode(name))
        descriptor = os.open(name, os.O_RDWR)
        os.write(descriptor, b"x")
        check("after a write", mode(name))
        os.chmod(name, 0o6755)
        os.ftruncate(descriptor, 2)
        check("after a truncate", mode(name))
        os.chmod(name, 0o6745)
        os.write(descriptor, b"x")
        check("without group execute", mode(name))
        os.chmod(name, 0o6755)
        os.open(name, os.O_WRONLY | os.O_TRUNC)
        check("after O_TRUNC", mode(name))
        os.chmod(name, 0o6755)
        os.chown(name, os.geteuid(), os.getegid())
        check("after a chown", mode(name))
        if not ROOT:
            os.chmod(name, 0o6755)
            os.chown(name, -1, -1)
            check("after a chown of nothing", mode(name))
        os.chmod(name, 0o6755)
        fallocate(descriptor, 0, 0, 100)
        check("after fallocate", mode(name))
        os.chmod(name, 0o6755)
        os.ftruncate(descriptor, 4096)
        os.chmod(name, 0o6755)
        mapping = mmap.mmap(descriptor, 4096)
        mapping[0:1] = b"m"
        mapping.flush()
        check("after a mapping", mode(name))
        os.chmod(name, 0o644)
    os.mkdir("shared")
    os.chmod("shared", 0o2775)
    os.mkdir("shared/below")
    write("shared/file", "")
    check("set-gid directory", mode("shared/below"), mode("shared/file"))
    old = os.umask(0o077)
    write("masked", "")
    os.mkdir("masked-directory", 0o7777)
    os.close(os.open("masked-open", os.O_CREAT | os.O_WRONLY, 0o7777))
    check("umask", mode("masked"), mode("masked-directory"), mode("masked-open"))
    os.umask(old)
    os.chmod("masked", 0o000)
    check("no rights", os.access("masked", os.R_OK) == ROOT, (error_of(open, "masked") == "no error") == ROOT)
    readable = os.open("masked-open", os.O_RDWR)
    os.chmod("masked-open", 0)
    check("an open file stays open", os.write(readable, b"w"), os.pread(readable, 1, 0))
    check("owner", error_of(os.chown, "masked", 0, -1), error_of(os.chown, "masked", -1, 0))


def times():
    def stamps():
        name = "tf" if os.path.exists("tf") else "tf3"
        found = [os.stat(path) for path in [name, "td", "."]]
        return [stamp for one in found for stamp in (one.st_mtime_ns, one.st_ctime_ns)]

    started = time.clock_gettime_ns(COARSE)
    was_born = {name: born(name) for name in ["lower/full/deeper/leaf", "lower/full", "data"]}
    check("birth", [value is not None and value <= time.time_ns() for value in was_born.values()])
    with open("lower/full/deeper/leaf", "a", encoding="ascii") as file:
        file.write("later")
    write("lower/full/new", "")
    os.rename("data", "renamed")
    check("birth stays", [born(name) == was_born[old] for name, old in
                          [("lower/full/deeper/leaf",) * 2, ("lower/full",) * 2, ("renamed", "data")]])
    os.rename("renamed", "data")
    os.mkdir("td")
    write("tf", "1")
    os.symlink("tf", "tl")
    os.mkfifo("tp")
    for name in ["td", "tf", "tl", "tp"]:
        check("birth of", name, born(name) is not None and started <= born(name) <= time.time_ns())
    before = {name: born(name) for name in ["td", "tf"]}
    time.sleep(0.02)
    write("td/file", "")
    write("tf", "2")
    os.utime("tf", ns=(1, 2))
    os.chmod("td", 0o700)
    check("stays", [born(name) == value for name, value in before.items()])
    for name in ["lower/full", "lower/full/deeper/leaf", "td", "tf", "tl", "tp"]:
        for ns in [(123456789012345678, 987654321098765432), (-1, -999999999), (0, 1), (4102444800999999999, 1)]:
            os.utime(name, ns=ns, follow_symlinks=False)
            found = os.lstat(name)
            if (found.st_atime_ns, found.st_mtime_ns) != ns:
                check("times of", name, ns, found.st_atime_ns, found.st_mtime_ns)
    changed = os.stat("tf").st_ctime_ns
    time.sleep(0.02)
    os.utime("tf", ns=(5, 6))
    check("utime changes the inode", os.stat("tf").st_ctime_ns > changed)
    for what, act in [
        ("write", lambda: write("tf", "3")),
        ("truncate", lambda: os.truncate("tf", 1)),
        ("append nothing", lambda: open("tf", "a", encoding="ascii").close()),
        ("chmod", lambda: os.chmod("tf", 0o600)),
        ("link", lambda: os.link("tf", "tf2")),
        ("unlink", lambda: os.unlink("tf2")),
        ("rename", lambda: os.rename("tf", "tf3")),
        ("rename back", lambda: os.rename("tf3", "tf")),
        ("xattr", lambda: os.setxattr("tf", "user.t", b"")),
        ("mkdir", lambda: os.mkdir("td/d")),
        ("rmdir", lambda: os.rmdir("td/d")),
        ("read", lambda: read("tf")),
    ]:
        old = stamps()
        time.sleep(0.012)
        act()
        check("changed by", what, [before < after for before, after in zip(old, stamps())])


def holes():
    big = os.open("big", os.O_RDWR | os.O_CREAT, 0o600)
    os.pwrite(big, b"end", 5 * GIB)
    check("over 4 GiB", os.fstat(big).st_size, os.pread(big, 10, 5 * GIB), os.pread(big, 3, 4 * GIB))
    check("sparse", os.fstat(big).st_blocks < 1000)
    check("data", os.lseek(big, 0, os.SEEK_DATA), error_of(os.lseek, big, 6 * GIB, os.SEEK_DATA))
    check("hole", os.lseek(big, 0, os.SEEK_HOLE), os.lseek(big, 5 * GIB, os.SEEK_HOLE))
    check("end", error_of(os.lseek, big, 5 * GIB + 3, os.SEEK_HOLE), os.lseek(big, 0, os.SEEK_END))
    mapping = mmap.mmap(big, 4096, offset=5 * GIB - 4096)
    mapping[4090:4096] = b"mapped"
    check("mapped", os.pread(big, 9, 5 * GIB - 6))
    del mapping
    os.ftruncate(big, 4 * GIB + 1)
    check("truncated", os.fstat(big).st_size, os.pread(big, 10, 4 * GIB))
    os.pwrite(big, b"a" * 16384, 0)
    fallocate(big, PUNCH_HOLE | KEEP_SIZE, 4096, 4096)
    check("punched", os.pread(big, 4, 4094), os.lseek(big, 0, os.SEEK_HOLE), os.lseek(big, 4096, os.SEEK_DATA))
    fallocate(big, ZERO_RANGE, 8192, 10)
    check("zeroed", os.pread(big, 12, 8192))
    fallocate(big, ZERO_RANGE | KEEP_SIZE, 5 * GIB, 10)
    check("kept size", os.fstat(big).st_size)
    fallocate(big, 0, 4 * GIB, 4096)
    check("allocated", os.fstat(big).st_size)
    check("wrong", error_of(fallocate, big, PUNCH_HOLE, 0, 1), error_of(fallocate, big, 0, -1, 1),
          error_of(fallocate, big, 0, 0, 0), error_of(fallocate, big, 64 | 128, 0, 1))
    check("a directory", error_of(os.truncate, "lower", 0), error_of(os.open, "lower", os.O_WRONLY))
    check("too far", error_of(os.ftruncate, big, 1 << 62), error_of(os.ftruncate, big, -1))
    os.unlink("big")
    old = os.open("data", os.O_RDWR)
    fallocate(old, PUNCH_HOLE | KEEP_SIZE, 4096, 8192)
    check("punched what was there", os.pread(old, 2, 4095), os.pread(old, 2, 12287), os.fstat(old).st_size)


def copies():
    source = os.open("data", os.O_RDONLY)
    target = os.open("copy", os.O_RDWR | os.O_CREAT, 0o600)
    size = os.fstat(source).st_size
    check("copied", os.copy_file_range(source, target, size + 100, 0, 0))
    check("the same", os.pread(source, size, 0) == os.pread(target, size, 0))
    check("at the end", os.copy_file_range(source, target, 10, size))
    check("over itself", error_of(os.copy_file_range, target, target, 100, 0, 50))
    check("beside itself", os.copy_file_range(target, target, 100, 0, size))
    check("not writable", error_of(os.copy_file_range, target, source, 1))
    append = os.open("copy", os.O_WRONLY | os.O_APPEND)
    check("appending", error_of(os.copy_file_range, source, append, 1))
    os.lseek(target, 0, os.SEEK_SET)
    check("sent", os.sendfile(target, source, 10, 1000), os.lseek(target, 0, os.SEEK_CUR))
    with open("/proc/version", "rb") as other:
        check("from elsewhere", error_of(os.copy_file_range, other.fileno(), target, 10) in ["EXDEV", "no error", "EINVAL"])
    read_end, write_end = os.pipe()
    check("spliced", os.splice(source, write_end, 100, offset_src=5), len(os.read(read_end, 200)))


def mappings():
    write("mapped", "a" * 8192)
    file = os.open("mapped", os.O_RDWR)
    shared, private = mmap.mmap(file, 8192), mmap.mmap(file, 8192, flags=mmap.MAP_PRIVATE)
    private[0:1] = b"p"
    shared[1:2] = b"s"
    check("private and shared", private[:3], shared[:3], os.pread(file, 3, 0))
    os.pwrite(file, b"w", 4096)
    check("written", shared[4096:4097], private[4096:4097], private[0:1])
    with open("mapped", "ab") as appended:
        appended.write(b"more")
    check("other process", in_child(lambda: mmap.mmap(file, 8196)[8190:]))
    os.ftruncate(file, 4096)
    child = os.fork()
    if child == 0:
        shared[5000:5001]
        os._exit(0)
    check("behind the end", signal.Signals(os.waitpid(child, 0)[1] & 0x7F).name)
    os.ftruncate(file, 8192)
    check("grown again", shared[4095:4098])
    os.unlink("mapped")
    shared[0:4] = b"gone"
    check("unlinked", os.pread(file, 4, 0), shared[:4])
    reader = os.open("data", os.O_RDONLY)
    check("not writable", error_of(lambda: mmap.mmap(reader, 10)))
    before = mmap.mmap(reader, 0, prot=mmap.PROT_READ)
    first = before[:2]
    with open("data", "r+b") as writer:
        writer.write(b"first change")
    check("a mapping from before the first change", first, before[:12])


def open_together():
    """Open files of one inode agree, whichever way each was opened and whoever made the data."""
    for name in ["lower/file", "made"]:
        first = os.open(name, os.O_RDWR | os.O_CREAT)
        os.ftruncate(first, 8192)
        reader = os.open(name, os.O_RDONLY)
        synchronous = os.open(name, os.O_WRONLY | os.O_SYNC | os.O_APPEND)
        os.pwrite(first, b"first", 100)
        os.write(synchronous, b"appended")
        check(name, os.pread(reader, 5, 100), os.pread(reader, 9, 8192), os.fstat(reader).st_size)
        direct = os.open(name, os.O_RDWR | os.O_DIRECT)
        page = mmap.mmap(-1, 4096)
        page[:6] = b"direct"
        check("direct", os.pwritev(direct, [page], 4096), os.pread(reader, 6, 4096), os.pread(reader, 5, 100))
        os.pwrite(first, b"buffered", 4096)
        check("and back", os.preadv(direct, [page], 4096), page[:8])
        shared = mmap.mmap(first, 4096)
        os.utime(name, ns=(1, 1))
        shared[0:6] = b"mapped"
        shared.flush()
        times = os.stat(name).st_mtime_ns > 1, os.fstat(reader).st_mtime_ns > 1
        check("a mapping's write has a time", *times, os.pread(reader, 6, 0))
        os.truncate(name, 102)
        check("cut", os.fstat(reader).st_size, os.pread(reader, 100, 100), os.lseek(reader, 0, os.SEEK_END))
        os.rename(name, "other")
        os.write(synchronous, b"end")
        check("renamed", read("other")[100:], os.path.exists(name))
        os.unlink("other")
        check("unlinked", os.pwrite(first, b"F", 100), os.pread(reader, 100, 100), os.fstat(reader).st_nlink)
        for descriptor in [first, reader, synchronous, direct]:
            os.close(descriptor)
        shared.close()
        write(name, "a new one")
        check("new", read(name), os.stat(name).st_nlink)


def running_programs():
    with open("/bin/sleep", "rb") as binary, open("sleeper", "wb") as copy:
        copy.write(binary.read())
    os.chmod("sleeper", 0o755)
    running = subprocess.Popen(["./sleeper", "30"])
    check("runs", error_of(os.open, "sleeper", os.O_WRONLY), error_of(os.truncate, "sleeper", 0))
    write("replacement", "#!/bin/sh\necho replaced\n")
    os.chmod("replacement", 0o755)
    os.rename("replacement", "sleeper")
    check("replaced", subprocess.run(["./sleeper"], capture_output=True, check=False).stdout, running.poll())
    running.kill()
    running.wait()
    writer = open("sleeper", "a", encoding="ascii")
    check("open for writing", error_of(subprocess.run, ["./sleeper"], check=False))
    writer.close()
    os.chmod("sleeper", 0o644)
    check("not executable", error_of(subprocess.run, ["./sleeper"], check=False))


def other_calls():
    check("statfs", os.statvfs(".").f_namemax, os.statvfs(".").f_bsize, os.statvfs(".").f_frsize)
    check("space", os.statvfs(".").f_blocks > 0, os.statvfs(".").f_bavail <= os.statvfs(".").f_blocks)
    descriptor = os.open("lower/file", os.O_RDWR)
    check("sync", os.fsync(descriptor), os.fdatasync(descriptor), libc.syncfs(descriptor))
    folder = os.open("lower", os.O_RDONLY)
    check("of a directory", os.fsync(folder), error_of(os.read, folder, 1))
    handle = os.open("lower/file", os.O_PATH)
    check("O_PATH", error_of(os.read, handle, 1), os.fstat(handle).st_size == os.stat("lower/file").st_size)
    check("O_NOFOLLOW", error_of(os.open, "xl", os.O_NOFOLLOW | os.O_RDONLY) in ["ELOOP", "ENOENT"])
    check("O_DIRECTORY", error_of(os.open, "lower/file", os.O_DIRECTORY))
    check("O_CREAT of a directory", error_of(os.open, "lower", os.O_CREAT | os.O_RDONLY))
    check("O_EXCL over a link", error_of(os.open, "tl", os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    os.symlink("made-through-a-link", "dangling")
    write("dangling", "through")
    check("through a dangling link", read("made-through-a-link"))
    check("advice", os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED))
    check("negative offset", error_of(os.pread, descriptor, 1, -1), error_of(os.lseek, descriptor, -1, 0))
    writers = [os.open("appended", os.O_WRONLY | os.O_APPEND | os.O_CREAT) for _ in range(2)]
    for number in range(100):
        os.write(writers[number % 2], b"0123456789")
    check("appended", os.stat("appended").st_size, os.path.getsize("appended") == len(read("appended")))
    children = []
    for _ in range(4):
        child = os.fork()
        if child == 0:
            for _ in range(200):
                os.write(writers[0], b"x" * 10)
            os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)
    check("by several", os.stat("appended").st_size)
    check("limit", subprocess.run(
        ["sh", "-c", "ulimit -f 1; trap '' XFSZ; head -c 100000 /dev/zero > limited"],
        capture_output=True, check=False).returncode, os.path.getsize("limited"))


for group in [
    locks,
    extended_attributes,
    modes,
    times,
    holes,
    copies,
    mappings,
    open_together,
    running_programs,
    other_calls,
]:
    check(f"--- {group.__name__}")
    group()
