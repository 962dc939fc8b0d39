"""Tries to reach outside of a domain by every way of the table, and prints `NAME: VERDICT` for each.

usage: probe.py TARGETS

VERDICT is `reaches`, `refused ERROR`, or `contained`: it was done, to something of the domain's own.
With PLAIN in the environment, only what is harmless is tried, which outside of a domain must reach its target.
"""
import ctypes, errno, fcntl, json, mmap, os, signal, socket, stat, struct, sys, termios

descriptors = os.listdir("/proc/self/fd")
targets = json.loads(sys.argv[1])
plain = "PLAIN" in os.environ
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
REACHES, CONTAINED = "reaches", "contained"
rows = []


def row(name, harmless=False):
    def declare(function):
        rows.append((name, function, harmless))
        return function
    return declare


def call(number, *arguments):
    whole = [ctypes.c_long(each) if isinstance(each, int) else each for each in (number, *arguments)]
    result = libc.syscall(*whole)
    if result < 0:
        raise OSError(ctypes.get_errno(), "")
    return result


def calls(names, *arguments):
    """One row for each `name number`. An error about an argument comes from a call that was let in."""
    def enter(number):
        try:
            call(number, *arguments)
        except OSError as error:
            if error.errno in (errno.EPERM, errno.ENOSYS, errno.EACCES):
                raise
        return REACHES
    for words in names.split(","):
        name, number = words.split()
        row(name)(lambda number=int(number): enter(number))


def opens(paths, flags=os.O_WRONLY | os.O_NONBLOCK):
    for path in paths:
        row(f"open {path}")(lambda path=path: (os.close(os.open(path, flags)), REACHES)[1])


def in_child(function):
    """The verdict of a process of its own, for what cannot be taken back."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writer, verdict_of(function).encode())
        finally:
            os._exit(0)
    os.close(writer)
    said = b"".join(iter(lambda: os.read(reader, 100), b"")).decode()
    os.close(reader)
    os.waitpid(child, 0)
    return said or "refused by its end"


def verdict_of(function):
    try:
        return function()
    except OSError as error:
        return f"refused {errno.errorcode.get(error.errno, error)}"


def connect(family, kind, address):
    channel = socket.socket(family, kind)
    channel.settimeout(2)
    channel.connect(address)
    channel.send(b"leak")
    return REACHES


# Sockets.
for path in targets["stream"]:
    row(f"stream socket in {os.path.dirname(path)}", True)(
        lambda path=path: connect(socket.AF_UNIX, socket.SOCK_STREAM, path))
for path in targets["datagram"]:
    row(f"datagram socket in {os.path.dirname(path)}", True)(
        lambda path=path: connect(socket.AF_UNIX, socket.SOCK_DGRAM, path))
row("abstract socket", True)(
    lambda: connect(socket.AF_UNIX, socket.SOCK_STREAM, "\0" + targets["abstract"]))
for host, port in targets["tcp"]:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    row(f"TCP {host}", True)(
        lambda family=family, host=host, port=port: connect(family, socket.SOCK_STREAM, (host, port)))


@row("every socket of the real system")
def _():
    reached = []
    for top in ("/run", "/var/run", "/tmp"):
        for directory, below, names in os.walk(top):
            # Other tests have far directories mounted in theirs, some of them with a server that has ended.
            own = os.path.basename(os.path.dirname(__file__))
            below[:] = [name for name in below if name == own or not name.startswith("surmise-test-")]
            for path in (f"{directory}/{name}" for name in names):
                try:
                    if stat.S_ISSOCK(os.lstat(path).st_mode):
                        reached.append((connect(socket.AF_UNIX, socket.SOCK_STREAM, path), path))
                except OSError:
                    pass
    return f"{REACHES} {reached}" if reached else CONTAINED


for host, port in targets["udp"]:
    @row(f"UDP {host}", True)
    def _(host=host, port=port):
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        connect(family, socket.SOCK_DGRAM, (host, port))
        # Whether it has arrived is told outside.
        return REACHES if plain else CONTAINED


@row("network interfaces")
def _():
    # The loopback and, at most, the network gate's, which is no piece of hardware.
    channel = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    for _, name in socket.if_nameindex():
        answer = fcntl.ioctl(channel, 0x8927, name.encode().ljust(40, b"\0"))  # SIOCGIFHWADDR
        if struct.unpack_from("H", answer, 16)[0] not in (772, 65534):  # ARPHRD_LOOPBACK, ARPHRD_NONE
            return f"{REACHES} {name}"
    return CONTAINED


for name, family, kind, protocol in (
        ("vsock", 40, 1, 0), ("qipcrtr", 42, 2, 0), ("audit", 16, 3, 9), ("scsi transport", 16, 3, 18),
        ("TIPC", 30, 1, 0), ("Bluetooth", 31, 3, 1), ("NFC", 39, 5, 0), ("RDS", 21, 5, 0)):
    @row(f"socket of {name}")
    def _(family=family, kind=kind, protocol=protocol):
        channel = socket.socket(family, kind, protocol)
        if family == 16:
            # A request for the status of the kernel's end.
            channel.sendto(struct.pack("IHHII", 16, 1000, 5, 1, 0), (0, 0))
            channel.settimeout(1)
            kind = struct.unpack_from("IH", channel.recv(4096))[1]
            if kind == 2:
                raise OSError(errno.EPERM, "")
        return REACHES


for name, family, kind, protocol in (("packets", 17, 3, 0x300), ("raw", 2, 3, 1),
                                     ("netlink routes", 16, 3, 0), ("kernel events", 16, 3, 15)):
    row(f"socket of {name}")(lambda family=family, kind=kind, protocol=protocol: (
        socket.socket(family, kind, protocol), CONTAINED)[1])


# Files, pipes and descriptors.
@row("write a file", True)
def _():
    open(targets["file"], "a").write("leak\n")
    return REACHES if plain else CONTAINED


row("write a memory file", True)(lambda: (
    os.write(os.open(targets["memory file"], os.O_WRONLY | os.O_APPEND), b"leak"), REACHES)[1])
row("FIFO", True)(lambda: (
    os.write(os.open(targets["fifo"], os.O_WRONLY | os.O_NONBLOCK), b"leak"), REACHES)[1])
row("FIFO, both ends")(lambda: (
    os.write(os.open(targets["fifo"], os.O_RDWR | os.O_NONBLOCK), b"leak"), CONTAINED)[1])
row("inherited descriptor", True)(lambda: (os.write(9, b"leak"), REACHES)[1])


@row("other descriptors")
def _():
    rest = [fd for fd in descriptors if int(fd) > 2]
    # The directory itself, when this began.
    return CONTAINED if len(rest) == 1 else f"{REACHES} {rest}"


def is_real_file(fd):
    link = os.readlink(f"/proc/self/fd/{fd}")
    # The terminals here are the domain's own; the real one is looked at outside.
    return link.startswith("/") and not link.startswith("/dev/pts/")


for fd in range(3):
    for flags in (os.O_WRONLY, os.O_RDWR, os.O_WRONLY | os.O_TRUNC):
        @row(f"open stream {fd} again, flags {flags:#x}", fd == 0 and flags == os.O_WRONLY)
        def _(fd=fd, flags=flags):
            again = os.open(f"/proc/self/fd/{fd}", flags | os.O_NONBLOCK)
            if not is_real_file(again):
                return CONTAINED
            os.write(again, b"leak")
            return REACHES

    @row(f"change the mode of stream {fd}")
    def _(fd=fd):
        os.fchmod(fd, 0o777)
        return REACHES if is_real_file(fd) else CONTAINED

    @row(f"make stream {fd} non-blocking")
    def _(fd=fd):
        fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) | os.O_NONBLOCK)
        return CONTAINED  # The flags of the real streams are looked at outside.


@row("lock of a file")
def _():
    fcntl.flock(open(targets["locked"], "r+"), fcntl.LOCK_EX | fcntl.LOCK_NB)
    return CONTAINED


# IPC.
key = targets["key"]
row("System V memory by key", True)(lambda: (call(29, key, 4096, 0), REACHES)[1])
row("System V memory by number", True)(lambda: (call(30, targets["shm"], None, 0o10000), REACHES)[1])
row("System V semaphore", True)(lambda: (call(64, key, 1, 0), REACHES)[1])
row("System V semaphore by number", True)(lambda: (call(66, targets["sem"], 0, 12, 0), REACHES)[1])
row("System V queue", True)(lambda: (call(68, key, 0), REACHES)[1])
row("POSIX queue", True)(lambda: (call(240, targets["mq"][1:].encode(), os.O_WRONLY, 0, None), REACHES)[1])
opens(["/dev/mqueue" + targets["mq"]])

# Keyrings.
text = ctypes.c_char_p
row("add a key of the user")(lambda: (
    call(248, b"user", (targets["description"] + "-new").encode(), b"v", 1, -4), REACHES)[1])
row("add a key of the session")(lambda: (call(248, b"user", b"new", b"v", 1, -3), REACHES)[1])
row("read a key")(lambda: (call(250, 11, targets["serial"], None, 0), REACHES)[1])
row("revoke a key")(lambda: (call(250, 3, targets["serial"]), REACHES)[1])
row("join a session's keyring")(lambda: (call(250, 1, None), REACHES)[1])
row("request a key")(lambda: (
    call(249, b"user", targets["description"].encode(), None, 0), REACHES)[1])

exec(open(os.path.join(os.path.dirname(__file__), "machine.py")).read())

for name, function, harmless in rows:
    if harmless or not plain:
        print(f"{name}: {verdict_of(function)}", flush=True)
