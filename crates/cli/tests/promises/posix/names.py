"""Names, links, renames, directories: prints what the file system in the current directory does."""
import ctypes
import os
import socket
import stat
import subprocess
import sys
import threading

from checks import call, check, error_of, libc, read, result_of, write

NOREPLACE, EXCHANGE, WHITEOUT = 1, 2, 4
AT_FDCWD, AT_SYMLINK_FOLLOW, AT_EMPTY_PATH = -100, 0x400, 0x1000


def rename(old, new, flags):
    call(libc.renameat2(AT_FDCWD, os.fsencode(old), AT_FDCWD, os.fsencode(new), flags))


def link_descriptor(descriptor, name):
    path = f"/proc/self/fd/{descriptor}".encode()
    call(libc.linkat(AT_FDCWD, path, AT_FDCWD, name.encode(), AT_SYMLINK_FOLLOW))


def tree(top):
    """All below a directory, with what is in the files."""
    found = []
    for parent, directories, files in os.walk(top):
        directories.sort()
        found += [os.path.join(parent, name) + "/" for name in directories]
        found += [f"{os.path.join(parent, name)}={read(os.path.join(parent, name))}" for name in files]
    return sorted(found)


def nameless_files():
    descriptor = os.open(".", os.O_TMPFILE | os.O_RDWR, 0o640)
    os.write(descriptor, b"nameless")
    check("nameless", os.fstat(descriptor).st_nlink, oct(os.fstat(descriptor).st_mode))
    link_descriptor(descriptor, "was-nameless")
    check("gets a name", read("was-nameless"), os.fstat(descriptor).st_nlink)
    check("and no taken one", error_of(link_descriptor, descriptor, "was-nameless"))
    os.write(descriptor, b" still open")
    check("and stays open", read("was-nameless"))
    os.unlink("was-nameless")
    check("loses it", os.fstat(descriptor).st_nlink, error_of(link_descriptor, descriptor, "again"))
    private = os.open(".", os.O_TMPFILE | os.O_RDWR | os.O_EXCL, 0o600)
    check("with O_EXCL never gets one", error_of(link_descriptor, private, "private"))
    check("read-only", error_of(os.open, ".", os.O_TMPFILE | os.O_RDONLY))
    check("not in a file", error_of(os.open, "lower/file", os.O_TMPFILE | os.O_RDWR))


def renames():
    os.makedirs("r/a")
    write("r/file", "file")
    write("r/a/below", "below")
    rename("r/file", "r/a", EXCHANGE)
    check("file and directory swapped", tree("r"))
    check("exchange with nothing", error_of(rename, "r/file", "r/none", EXCHANGE))
    check("noreplace, taken", error_of(rename, "r/file", "r/a", NOREPLACE))
    check("noreplace onto itself", error_of(rename, "r/a", "r/a", NOREPLACE))
    rename("r/a", "r/free", NOREPLACE)
    check("noreplace, free", tree("r"))
    check("both flags", error_of(rename, "r/file", "r/free", NOREPLACE | EXCHANGE))
    check("unknown flag", error_of(rename, "r/file", "r/free", 8))
    check("exchange with what is below", error_of(rename, "r", "r/file", EXCHANGE))
    rename("r/free", "r/moved", WHITEOUT)
    left = os.lstat("r/free")
    check("whiteout", stat.S_ISCHR(left.st_mode), left.st_rdev, read("r/moved"))
    check("whiteout mode", oct(left.st_mode), left.st_uid == os.geteuid(), left.st_nlink)
    rename("r/moved", "r/free", WHITEOUT)
    check("whiteout over a whiteout", read("r/free"), stat.S_ISCHR(os.lstat("r/moved").st_mode))
    check("whiteout and exchange", error_of(rename, "r/moved", "r/free", WHITEOUT | EXCHANGE))
    check("whiteout of a directory", result_of(rename, "r/file", "r/elsewhere", WHITEOUT))
    check("left and arrived", stat.S_ISCHR(os.lstat("r/file").st_mode), os.listdir("r/elsewhere"))
    subprocess.run(["rm", "-r", "r"], check=True)


def renames_of_a_tree_that_was_there():
    check("the tree", tree("lower"))
    inodes = {name: os.stat(f"lower/{name}").st_ino for name in ["full", "empty", "other"]}
    check("over one that is not empty", error_of(os.rename, "lower/full", "lower/other"))
    check("a file over it", error_of(os.rename, "lower/file", "lower/full"))
    check("it over a file", error_of(os.rename, "lower/full", "lower/file"))
    check("into itself", error_of(os.rename, "lower/full", "lower/full/deeper/down"))
    check("over its own parent", error_of(os.rename, "lower/full/deeper", "lower/full"))
    held = os.open("lower/empty", os.O_RDONLY | os.O_DIRECTORY)
    file = open("lower/full/deeper/leaf", "r+", encoding="ascii")
    os.rename("lower/full", "lower/empty")
    check("over an empty one", tree("lower"))
    check("which stays open", os.listdir(held), os.fstat(held).st_nlink)
    check("where nothing can be made", error_of(os.open, "new", os.O_CREAT, 0o600, dir_fd=held))
    file.write("changed through an old descriptor")
    file.flush()
    check("open files follow", read("lower/empty/deeper/leaf"))
    check("inodes follow", os.stat("lower/empty").st_ino == inodes["full"])
    rename("lower/empty", "lower/other", EXCHANGE)
    check("swapped", tree("lower"))
    check("inodes swapped", os.stat("lower/empty").st_ino == inodes["other"])
    os.mkdir("lower/full")
    check("a new one hides nothing", os.listdir("lower/full"))
    os.rename("lower/other/deeper", "lower/full/deeper")
    check("out of a moved one", tree("lower"), os.stat("lower/full").st_nlink)
    os.rename("lower/full/deeper", "lower/full/..named")
    where = os.open("lower/full/..named", os.O_RDONLY)
    os.rename("lower/full/..named", "lower/away")
    os.rename("lower/away", "lower/empty/back")
    os.fchdir(where)
    check("the working directory moves", os.getcwd().endswith("lower/empty/back"), read("leaf"))
    check("dot dot", sorted(os.listdir("..")))
    os.chdir("../../..")
    os.close(where)
    subprocess.run(["rm", "-r", "lower/empty"], check=True)
    check("removed", tree("lower"))


def removed_directories():
    os.mkdir("gone")
    held = os.open("gone", os.O_RDONLY)
    os.rmdir("gone")
    check("removed and open", os.listdir(held), os.fstat(held).st_nlink)
    os.fchdir(held)
    check("no cwd", error_of(os.getcwd), error_of(os.mkdir, "below"), error_of(open, "f", "w"))
    os.chdir(top)
    check("dot", error_of(os.rmdir, "."), error_of(os.rmdir, "lower/.."))
    check("slash", error_of(os.rmdir, "/"), error_of(os.unlink, "lower"))


def names():
    for name in [b"\xff\xfe\x80", b"new\nline", b" ", b"-", b"back\\slash", b"n" * 255, b"\xc3\xa9" * 127]:
        with open(name, "wb") as file:
            file.write(name)
        with open(name, "rb") as file:
            check("name", name[:8], name in os.listdir(b"."), file.read() == name)
        os.rename(name, name[:100] + b"2")
        os.unlink(name[:100] + b"2")
    check("256 bytes", error_of(write, "n" * 256, ""), error_of(os.mkdir, "n" * 256))
    check("256 bytes absent", error_of(os.stat, "n" * 256), error_of(os.unlink, "n" * 256))
    check("256 bytes to", error_of(os.rename, "lower/file", "n" * 256))
    check("4096 bytes", error_of(os.stat, "d/" * 2048), error_of(os.symlink, "t" * 4096, "long"))
    os.symlink("t" * 4095, "long")
    check("long target", len(os.readlink("long")), os.lstat("long").st_size)
    os.unlink("long")
    os.symlink("loop", "loop")
    check("loop", error_of(os.stat, "loop"), error_of(open, "loop", "w"))
    os.unlink("loop")


def deep_paths():
    depth = 60
    name = "d" * 100
    for _ in range(depth):
        os.mkdir(name)
        os.chdir(name)
    write("leaf", "deep")
    check("deep", read("leaf"), error_of(os.getcwd) in ["no error", "ENAMETOOLONG"])
    for _ in range(depth):
        os.chdir("..")
    check("and back", os.getcwd() == top)
    done = subprocess.run(["find", name, "-name", "leaf"], capture_output=True, check=True)
    check("found", len(done.stdout) > 4096)
    os.rename(name, "moved")
    subprocess.run(["rm", "-r", "moved"], check=True)
    check("removed", os.path.exists("moved"))


def links():
    write("l1", "linked")
    os.link("l1", "l2")
    os.symlink("l1", "ls")
    os.link("ls", "ls2", follow_symlinks=False)
    check("links", os.stat("l1").st_nlink, os.lstat("ls2").st_nlink, os.readlink("ls2"))
    check("of a directory", error_of(os.link, "lower", "l3"))
    os.rename("l1", "l2")
    check("rename of one name to another", os.path.exists("l1"), os.stat("l2").st_nlink)
    os.unlink("l1")
    os.link("lower/file", "l3")
    with open("l3", "a", encoding="ascii") as file:
        file.write("+")
    check("link of a file that was there", read("lower/file"), os.stat("lower/file").st_nlink)


def special_files():
    os.mkfifo("fifo", 0o600)
    check("fifo without reader", error_of(os.open, "fifo", os.O_WRONLY | os.O_NONBLOCK))
    reader = os.open("fifo", os.O_RDONLY | os.O_NONBLOCK)
    child = subprocess.Popen(["sh", "-c", "echo through > fifo; exec sleep 0"])
    check("fifo", child.wait(), os.read(reader, 100), os.read(reader, 100))
    os.rename("fifo", "fifo2")
    writer = os.open("fifo2", os.O_WRONLY)
    os.write(writer, b"renamed")
    check("renamed fifo", os.read(reader, 100))
    for kind in [socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET]:
        server = socket.socket(socket.AF_UNIX, kind)
        server.bind("socket")
        check("bound twice", error_of(socket.socket(socket.AF_UNIX, kind).bind, "socket"))
        os.rename("socket", "socket2")
        client = socket.socket(socket.AF_UNIX, kind)
        check("before listen", result_of(client.connect, "socket2"))
        if kind == socket.SOCK_DGRAM:
            client.send(b"datagram")
            check("socket", server.recv(100), server.getsockname())
        else:
            server.listen()
            client.connect("socket2")
            client.send(b"hello")
            accepted, _ = server.accept()
            check("socket", accepted.recv(100), accepted.getsockname(), client.getpeername())
        os.unlink("socket2")
        again = socket.socket(socket.AF_UNIX, kind)
        check("unlinked", error_of(again.connect, "socket2"))
    if os.geteuid() != 0:
        check("device", error_of(os.mknod, "device", stat.S_IFBLK | 0o600, os.makedev(1, 0)))
    os.mknod("regular", stat.S_IFREG | 0o640)
    check("mknod of a file", oct(os.stat("regular").st_mode), os.stat("regular").st_size)


def listings_of_a_changing_directory():
    count = int(os.environ.get("LISTED", "1000"))
    os.mkdir("many")
    for number in range(count):
        os.close(os.open(f"many/kept-{number}", os.O_CREAT | os.O_WRONLY))
    stop = threading.Event()

    def change():
        number = 0
        while not stop.is_set():
            write(f"many/new-{number}", "")
            os.rename(f"many/new-{number}", f"many/renamed-{number}")
            os.unlink(f"many/renamed-{number}")
            number += 1

    changer = threading.Thread(target=change)
    changer.start()
    for _ in range(3):
        listed = [entry.name for entry in os.scandir("many")]
        kept = [name for name in listed if name.startswith("kept-")]
        check("listed while it changes", len(kept), len(set(kept)), len(listed) == len(set(listed)))
    stop.set()
    changer.join()
    # Removed while it is listed, as rm does.
    with os.scandir("many") as entries:
        for entry in entries:
            os.unlink(entry.path)
    check("removed while listed", os.listdir("many"))
    os.rmdir("many")
    names = set(os.listdir("lower"))
    check("an old listing", sorted(names))


top = os.getcwd()
for group in [
    nameless_files,
    renames,
    renames_of_a_tree_that_was_there,
    removed_directories,
    names,
    deep_paths,
    links,
    special_files,
    listings_of_a_changing_directory,
]:
    check(f"--- {group.__name__}")
    group()
