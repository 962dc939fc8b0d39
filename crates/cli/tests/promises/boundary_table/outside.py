"""The outside of a domain: real targets, a command that tries to reach them, and what came of it.

usage: outside.py files|terminal PROBE COMMAND...

Runs COMMAND PROBE TARGETS and prints what that prints, then `outside NAME: untouched|touched`. The
command has a controlling terminal and descriptor 9 on a file that may be written. Its standard input
and error are a file opened for reading and one opened for appending, or the terminal.
"""
import atexit, ctypes, fcntl, json, os, pty, select, signal, socket, stat, struct, subprocess, sys, termios, time

streams, probe, command = sys.argv[1], sys.argv[2], sys.argv[3:]
libc = ctypes.CDLL(None, use_errno=True)
libc.shmat.restype = ctypes.c_void_p
work = os.getcwd()
me = os.getpid()
own = f"surmise-boundary-{me}"
checks, cleanup, targets = {}, [], {"pid": me}


def check(name):
    """Declares what shows that a target is untouched."""
    def declare(function):
        checks[name] = function
    return declare


def is_quiet(channel):
    return not select.select([channel], [], [], 0)[0]


def call(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


# Sockets by path, in the work directory, in /tmp and in /dev/shm.
for place in (work, "/tmp", "/dev/shm"):
    for kind, letter in ((socket.SOCK_STREAM, "s"), (socket.SOCK_DGRAM, "d")):
        path = f"{place}/{own}.{letter}"
        server = socket.socket(socket.AF_UNIX, kind)
        server.bind(path)
        os.chmod(path, 0o777)
        if kind == socket.SOCK_STREAM:
            server.listen()
        targets.setdefault("stream" if letter == "s" else "datagram", []).append(path)
        cleanup.append(path)
        check(f"socket {len(checks)}")(lambda server=server: is_quiet(server))

abstract = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
abstract.bind("\0" + own)
abstract.listen()
targets["abstract"] = own
check("abstract socket")(lambda: is_quiet(abstract))

for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
    try:
        tcp = socket.create_server((host, 0), family=family)
        udp = socket.socket(family, socket.SOCK_DGRAM)
        udp.bind((host, 0))
    except OSError:
        continue  # A machine without IPv6.
    targets.setdefault("tcp", []).append(tcp.getsockname()[:2])
    targets.setdefault("udp", []).append(udp.getsockname()[:2])
    check(f"TCP server {host}")(lambda tcp=tcp: is_quiet(tcp))
    check(f"UDP server {host}")(lambda udp=udp: is_quiet(udp))

os.mkfifo("fifo")
fifo = os.open("fifo", os.O_RDONLY | os.O_NONBLOCK)
keep_fifo = os.open("fifo", os.O_WRONLY)
targets["fifo"] = f"{work}/fifo"
check("FIFO")(lambda: is_quiet(fifo))

# System V and POSIX IPC.
key = 0x53000000 | me & 0xFFFFFF
shm = call(libc.shmget(key, 4096, 0o1666))
memory = libc.shmat(shm, None, 0)
sem = call(libc.semget(key, 1, 0o1666))
msg = call(libc.msgget(key, 0o1666))
mq = call(libc.mq_open(f"/{own}".encode(), os.O_RDONLY | os.O_CREAT | os.O_NONBLOCK, 0o666, None))
targets |= {"key": key, "shm": shm, "sem": sem, "msg": msg, "mq": "/" + own}
check("System V memory")(lambda: ctypes.string_at(memory, 4096) == bytes(4096))
check("System V semaphore")(lambda: call(libc.semctl(sem, 0, 12)) == 0)  # GETVAL
check("System V queue")(lambda: libc.msgrcv(msg, bytes(64), 32, 0, 0o4000) < 0)
check("POSIX queue")(lambda: libc.mq_receive(mq, bytes(8192), 8192, None) < 0)

# Files.
def is_as_before(path, before):
    now = os.stat(path)
    unchanged = (now.st_mode, now.st_uid, now.st_gid) == (before.st_mode, before.st_uid, before.st_gid)
    # Surmise itself writes to standard error.
    if path == targets["standard error"]:
        return unchanged and open(path).read().startswith("before\n")
    return unchanged and now.st_ctime_ns == before.st_ctime_ns and open(path).read() == "before\n"


for name, path in (("file", f"{work}/file"), ("memory file", f"/dev/shm/{own}"),
                   ("descriptor 9", f"{work}/nine"), ("standard input", f"{work}/input"),
                   ("standard error", f"{work}/error")):
    open(path, "w").write("before\n")
    targets[name] = path
    check(name)(lambda path=path, before=os.stat(path): is_as_before(path, before))
cleanup.append(targets["memory file"])
standard_input = os.open(targets["standard input"], os.O_RDONLY)
standard_error = os.open(targets["standard error"], os.O_WRONLY | os.O_APPEND)
nine = os.open(targets["descriptor 9"], os.O_RDWR)
flags = [fcntl.fcntl(fd, fcntl.F_GETFL) for fd in (standard_input, standard_error)]
check("flags of the streams")(
    lambda: flags == [fcntl.fcntl(fd, fcntl.F_GETFL) for fd in (standard_input, standard_error)])
locked = open("locked", "w")
fcntl.flock(locked, fcntl.LOCK_EX)
targets["locked"] = f"{work}/locked"

# The machine, and this process.
machine = ["/proc/sys/kernel/hostname", "/proc/sys/kernel/domainname", "/proc/sys/kernel/core_pattern",
           "/proc/sys/vm/swappiness", "/proc/sys/kernel/printk", "/proc/swaps", "/proc/mounts"]


def setting(path):
    # Tests of far directories, which run meanwhile, mount these for all to see.
    return [line for line in open(path) if " fuse.surmise " not in line]


values = [setting(path) for path in machine]
check("settings of the machine")(lambda: values == [setting(path) for path in machine])
devices = [(name, os.stat(f"/dev/{name}")) for name in ("null", "zero", "full", "random", "tty")]
check("devices")(lambda: all(os.stat(f"/dev/{name}")[:6] == then[:6] for name, then in devices))


def about_me():
    priorities = [os.getpriority(which, 0) for which in (os.PRIO_PROCESS, os.PRIO_PGRP)]
    return (priorities, libc.syscall(252, 1, 0), os.sched_getaffinity(0), os.sched_getscheduler(0),
            open(f"/proc/{me}/limits").read(), open(f"/proc/{me}/oom_score_adj").read())


mine = about_me()
check("this process")(lambda: about_me() == mine)
signals = []
for number in (signal.SIGUSR1, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, lambda number, frame: signals.append(number))
check("signals to this process")(lambda: not signals)
targets["namespaces"] = {name: os.readlink(f"/proc/self/ns/{name}")
                         for name in ("user", "mnt", "pid", "ipc", "uts", "net")}

# Keyrings of the user and of the session.
description = own.encode()
added = libc.syscall(248, b"user", description, b"v", 1, -4)
targets["serial"], targets["description"] = added, own
check("keys")(lambda: libc.syscall(250, 10, -4, b"user", description + b"-new", 0) < 0)

# The terminal: nothing may be typed into it, nor its discipline be changed.
master, terminal = pty.openpty()
waiting = lambda: struct.unpack("i", fcntl.ioctl(terminal, termios.FIONREAD, bytes(4)))[0]
check("input of the terminal")(lambda: waiting() == 0)
discipline = lambda: fcntl.ioctl(terminal, termios.TIOCGETD, bytes(4))
ldisc = discipline()
check("discipline of the terminal")(lambda: discipline() == ldisc)
modes = fcntl.fcntl(terminal, fcntl.F_GETFL), os.fstat(terminal)[:6]
check("modes of the terminal")(
    lambda: (fcntl.fcntl(terminal, fcntl.F_GETFL), os.fstat(terminal)[:6]) == modes)


def witness():
    """A process in the command's group that tells of a signal."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # The end of the session.
    for number in (signal.SIGUSR1, signal.SIGTERM):
        signal.signal(number, lambda number, frame: open("witness.told", "w").close())
    with open("witness.pid", "w") as file:
        file.write(str(os.getpid()))
    before = os.getpriority(os.PRIO_PROCESS, 0), libc.syscall(252, 1, 0)
    # Else the end of the command would not be seen.
    os.closerange(0, 1024)
    while True:
        time.sleep(0.05)
        if (os.getpriority(os.PRIO_PROCESS, 0), libc.syscall(252, 1, 0)) != before:
            open("witness.told", "w").close()


def become_leader():
    os.setsid()
    fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
    os.dup2(nine, 9)
    if os.fork() == 0:
        witness()


@atexit.register
def remove_targets():
    if os.getpid() != me:
        return
    if os.path.exists("witness.pid"):
        os.kill(int(open("witness.pid").read()), signal.SIGKILL)
    for path in cleanup:
        os.unlink(path)
    libc.shmctl(shm, 0, None)
    libc.semctl(sem, 0, 0)
    libc.msgctl(msg, 0, None)
    libc.mq_unlink(f"/{own}".encode())
    if added > 0:
        libc.syscall(250, 3, added)  # KEYCTL_REVOKE
        libc.syscall(250, 9, added, -4)  # KEYCTL_UNLINK


check("the command's group")(lambda: not os.path.exists("witness.told"))
ends = (standard_input, standard_error) if streams == "files" else (terminal, terminal)
run = subprocess.run(command + [probe, json.dumps(targets)], stdin=ends[0], stderr=ends[1],
                     stdout=subprocess.PIPE, preexec_fn=become_leader,
                     close_fds=False, text=True, timeout=100)
print(run.stdout, end="")
print("status", run.returncode)
time.sleep(0.2)  # The witness looks every 50 ms.
errors = open(targets["standard error"]).read()
for name, untouched in checks.items():
    print(f"outside {name}:", "untouched" if untouched() else "touched")
if errors != "before\n":
    print("errors", repr(errors))
