"""What programs rely on, checked in the current directory; prints a line for each check."""
import ctypes
import errno
import fcntl
import mmap
import os
import socket
import stat
import subprocess
import sys

libc = ctypes.CDLL(None, use_errno=True)


def call(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), "")
    return result


def write(name, text):
    with open(name, "w") as file:
        file.write(text)


def read(name):
    with open(name) as file:
        return file.read()


def check(name, *values):
    print(name, *values)
    sys.stdout.flush()


def error_of(function, *arguments):
    try:
        function(*arguments)
    except OSError as error:
        return errno.errorcode[error.errno]
    return "no error"


inode = os.stat("unchanged").st_ino
with open("unchanged", "a") as file:
    file.write("x")
check("inode stays", inode == os.stat("unchanged").st_ino, os.stat("unchanged").st_size)

write("linked", "through one name")
check("hard link", read("other"), os.stat("other").st_nlink)
os.unlink("linked")
check("unlinked name", os.stat("other").st_nlink)

descriptor = os.open("mapped", os.O_RDONLY)
mapping = mmap.mmap(descriptor, 0, prot=mmap.PROT_READ)
before = mapping[:4]
writer = os.open("mapped", os.O_RDWR)
os.pwrite(writer, b"NEW!", 0)
check("old mapping", before, mapping[:4], os.pread(descriptor, 4, 0))
shared = mmap.mmap(writer, 0)
shared[4:8] = b"MMAP"
check("shared mapping", os.pread(descriptor, 8, 0))

write("u", "kept")
unlinked = open("u", "r+")
os.unlink("u")
unlinked.seek(0, 2)
unlinked.write("!")
unlinked.seek(0)
check("unlinked open file", unlinked.read(), os.fstat(unlinked.fileno()).st_nlink)

write("r1", "1")
write("r2", "2")
held = open("r2")
os.rename("r1", "r2")
check("rename over", held.read(), read("r2"), os.path.exists("r1"))
write("r1", "again")
call(libc.renameat2(-100, b"r1", -100, b"r2", 2))
check("exchange", read("r1"), read("r2"))
check("noreplace", error_of(lambda: call(libc.renameat2(-100, b"r1", -100, b"r2", 1))))

os.rename("tree", "moved")
os.mkdir("tree")
check("directory rename", os.listdir("moved"), os.listdir("tree"), read("moved/leaf"))
check("not empty", error_of(os.rmdir, "moved"), error_of(os.rename, "tree", "moved"))
check("into itself", error_of(os.rename, "moved", "moved/below"))
check("links of a directory", os.stat("moved").st_nlink)
os.mkdir("moved/sub")
check("and of its parent", os.stat("moved").st_nlink, os.stat("moved/sub").st_nlink)

temporary = os.open(".", os.O_TMPFILE | os.O_RDWR, 0o600)
os.write(temporary, b"nameless")
call(libc.linkat(-100, f"/proc/self/fd/{temporary}".encode(), -100, b"named", 0x400))
check("O_TMPFILE", read("named"), os.fstat(temporary).st_nlink)

os.symlink("named", "link")
check("symlink", os.readlink("link"), read("link"), os.lstat("link").st_size)
check("O_NOFOLLOW", error_of(os.open, "link", os.O_NOFOLLOW))

os.setxattr("named", "user.colour", b"blue")
check("xattr", os.getxattr("named", "user.colour"), os.listxattr("named"))
check("xattr flags", error_of(os.setxattr, "named", "user.colour", b"", os.XATTR_CREATE))
os.removexattr("named", "user.colour")
check("xattr removed", os.listxattr("named"), error_of(os.getxattr, "named", "user.colour"))

hole = os.open("hole", os.O_RDWR | os.O_CREAT)
os.pwrite(hole, b"x", 1 << 20)
check("hole", os.lseek(hole, 0, os.SEEK_DATA), os.fstat(hole).st_size)
os.posix_fallocate(hole, 0, 4096)
call(libc.fallocate(hole, 3, ctypes.c_long(1 << 20), ctypes.c_long(4096)))
check("punched", os.pread(hole, 1, 1 << 20))

source = os.open("mapped", os.O_RDONLY)
target = os.open("copied", os.O_RDWR | os.O_CREAT)
check("copy_file_range", os.copy_file_range(source, target, 5000), os.pread(target, 8, 0))
check("sendfile", os.sendfile(target, source, 0, 100))

os.utime("named", ns=(123456789012345678, 987654321098765432))
times = os.stat("named")
check("times", times.st_atime_ns, times.st_mtime_ns)

lock = open("lock", "w")
fcntl.flock(lock, fcntl.LOCK_EX)
busy = subprocess.run(["flock", "-n", "lock", "true"], check=False).returncode
check("flock", busy)

os.mkfifo("fifo")
child = subprocess.Popen(["sh", "-c", "echo through > fifo"])
check("fifo", read("fifo").strip(), child.wait())

server = socket.socket(socket.AF_UNIX)
server.bind("socket")
server.listen()
client = socket.socket(socket.AF_UNIX)
client.connect("socket")
accepted, _ = server.accept()
client.send(b"hello")
check("unix socket", accepted.recv(5), stat.S_ISSOCK(os.stat("socket").st_mode))

write("script", "#!/bin/sh\necho ran\n")
os.chmod("script", 0o755)
check("script", subprocess.check_output(["./script"]))
with open("/bin/sleep", "rb") as binary, open("sleeper", "wb") as copy:
    copy.write(binary.read())
os.chmod("sleeper", 0o755)
running = subprocess.Popen(["./sleeper", "5"])
check("running program", error_of(os.open, "sleeper", os.O_WRONLY))
running.kill()
running.wait()

append = os.open("append", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_EXCL, 0o644)
os.write(append, b"a")
os.write(append, b"b")
check("O_APPEND and O_EXCL", read("append"), error_of(os.open, "append", os.O_CREAT | os.O_EXCL))

long_name = "n" * 255
write(long_name, "")
check("255 bytes", os.path.exists(long_name), error_of(write, long_name + "n", ""))
os.mkdir("many")
for number in range(500):
    write(f"many/{number}", "")
check("listing", len(os.listdir("many")))
subprocess.run(["rm", "-r", "many"], check=True)
check("removed", os.path.exists("many"))
with open(b"not-\xff-unicode", "w") as file:
    file.write("fine")
check("bytes in names", b"not-\xff-unicode" in os.listdir(b"."))
