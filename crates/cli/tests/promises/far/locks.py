"""Locks of programs on two mounts, `one` and `two`, of one directory."""

import errno
import fcntl
import os
import select
import signal
import sqlite3
import struct
import subprocess
import sys
import threading

SHARED, EXCLUSIVE, NONE = fcntl.F_RDLCK, fcntl.F_WRLCK, fcntl.F_UNLCK
OF_OPEN_FILES = {fcntl.F_GETLK: 36, fcntl.F_SETLK: 37, fcntl.F_SETLKW: 38}
RECORD = "hhqqi4x"


def opened(path, flags=os.O_RDWR | os.O_CREAT):
    return os.open(path, flags, 0o644)


def record(command, kind, file, start, length, of_open_file):
    if of_open_file:
        command = OF_OPEN_FILES[command]
    wanted = struct.pack(RECORD, kind, os.SEEK_SET, start, length, 0)
    found = fcntl.fcntl(file, command, wanted)
    kind, _, start, length, process = struct.unpack(RECORD, found)
    return kind, start, length, process


def lock(file, kind, start=0, length=0, of_open_file=False):
    record(fcntl.F_SETLK, kind, file, start, length, of_open_file)


def wait(file, kind, start=0, length=0, of_open_file=False):
    record(fcntl.F_SETLKW, kind, file, start, length, of_open_file)


def test(file, kind, start=0, length=0):
    return record(fcntl.F_GETLK, kind, file, start, length, False)


def flock(file, operation):
    fcntl.flock(file, operation)


def times_out(call, *arguments):
    """Whether a signal ended the call, which waits."""

    def ring(*_):
        raise TimeoutError

    signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    try:
        call(*arguments)
        return False
    except TimeoutError:
        return True


def serve():
    """Does what it is told, a line each."""
    for line in sys.stdin:
        try:
            print(repr(eval(line)), flush=True)
        except OSError as error:
            print(errno.errorcode[error.errno], flush=True)


class Program:
    """Another process, which does what it is told."""

    def __init__(self):
        words = [sys.executable, __file__, "serve()"]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(words, stdin=pipe, stdout=pipe, text=True)

    def begin(self, text):
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()

    def waits(self):
        return not select.select([self.process.stdout], [], [], 0.3)[0]

    def said(self):
        return self.process.stdout.readline().strip()

    def does(self, text, expected="None"):
        self.begin(text)
        said = self.said()
        assert said == expected, f"{text}: {said}, not {expected}"

    def opens(self, path):
        self.begin(f"opened({path!r})")
        return int(self.said())

    def kill(self):
        self.process.kill()
        self.process.wait()


def pair():
    """A program on each mount that has the file open."""
    one, two = Program(), Program()
    return one, two, one.opens("one/file"), two.opens("two/file")


def ranges():
    one, beside, two = Program(), Program(), Program()
    a, b, c = one.opens("one/file"), beside.opens("one/file"), two.opens("two/file")
    one.does(f"lock({a}, EXCLUSIVE, 0, 10)")
    two.does(f"lock({c}, SHARED, 5, 10)", "EAGAIN")
    two.does(f"lock({c}, EXCLUSIVE, 10, 5)")
    one.does(f"lock({a}, SHARED, 14, 1)", "EAGAIN")
    # The process of another machine has no number here.
    two.does(f"test({c}, SHARED)", f"({EXCLUSIVE}, 0, 10, 0)")
    one.does(f"test({a}, SHARED, 9)", f"({EXCLUSIVE}, 10, 5, 0)")
    found = f"({EXCLUSIVE}, 0, 10, {one.process.pid})"
    beside.does(f"test({b}, EXCLUSIVE, 0, 10)", found)
    one.does(f"lock({a}, SHARED, 2, 3)")
    two.does(f"lock({c}, SHARED, 3, 1)")
    two.does(f"lock({c}, SHARED, 5, 1)", "EAGAIN")
    two.begin(f"wait({c}, EXCLUSIVE)")
    assert two.waits()
    one.does(f"lock({a}, NONE, 0, 5)")
    assert two.waits()
    one.does(f"lock({a}, NONE)")
    assert two.said() == "None"
    beside.does(f"lock({b}, SHARED, 7, 1)", "EAGAIN")


def ends():
    """A lock goes with what it belongs to."""
    one, two, a, c = pair()
    one.does(f"lock({a}, EXCLUSIVE)")
    two.does(f"lock({c}, EXCLUSIVE)", "EAGAIN")
    # Any descriptor of the file is closed.
    again = one.opens("one/file")
    one.does(f"os.close({again})")
    two.does(f"lock({c}, EXCLUSIVE)")
    two.does(f"lock({c}, NONE)")
    # An open file that two descriptors have.
    one.does(f"flock({a}, fcntl.LOCK_EX)")
    other = 100
    one.does(f"os.dup2({a}, {other})", str(other))
    one.does(f"os.close({a})")
    two.does(f"flock({c}, fcntl.LOCK_SH | fcntl.LOCK_NB)", "EAGAIN")
    # A lock of the other kind is another thing.
    two.does(f"lock({c}, EXCLUSIVE)")
    two.does(f"lock({c}, NONE)")
    one.does(f"os.close({other})")
    two.does(f"flock({c}, fcntl.LOCK_SH)")
    two.does(f"flock({c}, fcntl.LOCK_UN)")
    # A lock of an open file, not of its process.
    a, again = one.opens("one/file"), one.opens("one/file")
    one.does(f"lock({a}, EXCLUSIVE, 0, 0, True)")
    one.does(f"lock({again}, EXCLUSIVE, 0, 0, True)", "EAGAIN")
    one.does(f"os.close({again})")
    two.does(f"lock({c}, SHARED)", "EAGAIN")
    one.does(f"os.close({a})")
    two.does(f"wait({c}, SHARED)")
    two.does(f"lock({c}, NONE)")
    # A process that is killed, while it has both.
    a = one.opens("one/file")
    one.does(f"lock({a}, EXCLUSIVE)")
    one.does(f"flock({a}, fcntl.LOCK_EX)")
    two.begin(f"(wait({c}, SHARED), flock({c}, fcntl.LOCK_SH))")
    assert two.waits()
    one.kill()
    assert two.said() == "(None, None)"


def upgrades():
    """flock(2) lets go of the lock that it had before it waits for another. Which of the two is first is open, as on a disk."""
    one, two, a, c = pair()
    one.does(f"flock({a}, fcntl.LOCK_SH)")
    two.does(f"flock({c}, fcntl.LOCK_SH)")
    one.begin(f"flock({a}, fcntl.LOCK_EX)")
    assert one.waits()
    two.begin(f"flock({c}, fcntl.LOCK_EX)")
    first, file, second = (one, a, two) if two.waits() else (two, c, one)
    assert first.said() == "None"
    assert second.waits()
    first.does(f"flock({file}, fcntl.LOCK_UN)")
    assert second.said() == "None"


def signals():
    one, two, beside = Program(), Program(), Program()
    a, b, c = one.opens("one/file"), beside.opens("one/file"), two.opens("two/file")
    for call in ["wait", "flock"]:
        kind = {"wait": "EXCLUSIVE", "flock": "fcntl.LOCK_EX"}[call]
        one.does(f"{call}({a}, {kind})")
        two.does(f"times_out({call}, {c}, {kind})", "True")
        beside.does(f"times_out({call}, {b}, {kind})", "True")
        killed = Program()
        file = killed.opens("two/file")
        killed.begin(f"{call}({file}, {kind})")
        assert killed.waits()
        killed.kill()
        lifts = {"wait": "NONE", "flock": "fcntl.LOCK_UN"}[call]
        one.does(f"{call}({a}, {lifts})")
        # The killed program did not get the lock.
        beside.does(f"{call}({b}, {kind})")
        beside.does(f"{call}({b}, {lifts})")


def many():
    """More calls wait than the mount has threads, and the one that all wait for gets through."""
    count = 80
    holder = opened("one/file")
    fcntl.flock(holder, fcntl.LOCK_EX)
    os.write(holder, b"0")

    def add():
        file = opened("one/file")
        fcntl.flock(file, fcntl.LOCK_EX)
        number = int(os.pread(file, 9, 0))
        os.pwrite(file, str(number + 1).encode(), 0)
        os.close(file)

    threads = [threading.Thread(target=add) for _ in range(count)]
    for thread in threads:
        thread.start()
    other = Program()
    file = other.opens("two/file")
    other.begin(f"flock({file}, fcntl.LOCK_EX)")
    assert other.waits()
    os.mkdir("one/made-meanwhile")
    assert os.path.isdir("two/made-meanwhile")
    fcntl.flock(holder, fcntl.LOCK_UN)
    assert other.said() == "None"
    other.does(f"flock({file}, fcntl.LOCK_UN)")
    for thread in threads:
        thread.join()
    assert int(os.pread(holder, 9, 0)) == count


def count(mount, call, rounds):
    """Adds to a number in a file."""
    for _ in range(rounds):
        with open(f"{mount}/number", "r+") as file:
            call(file, fcntl.LOCK_EX)
            number = int(file.read())
            file.seek(0)
            file.write(str(number + 1))
            file.flush()
            if number % 3 == 0:
                call(file, fcntl.LOCK_UN)


def insert(mount, rounds):
    database = sqlite3.connect(f"{mount}/database", timeout=60, isolation_level=None)
    for _ in range(rounds):
        database.execute("begin immediate")
        database.execute("update numbers set number = number + 1")
        database.execute("commit")


def both(work):
    """Has two processes work, one on each mount."""
    words = [sys.executable, __file__]
    workers = [subprocess.Popen([*words, work.format(mount)]) for mount in ("one", "two")]
    assert [worker.wait() for worker in workers] == [0, 0]


def numbers():
    for call in ["fcntl.flock", "fcntl.lockf"]:
        with open("one/number", "w") as file:
            file.write("0")
        both(f"count('{{}}', {call}, 100)")
        with open("two/number") as file:
            assert file.read() == "200", call


def database():
    made = sqlite3.connect("one/database")
    made.execute("create table numbers (number)")
    made.execute("insert into numbers values (0)")
    made.commit()
    both("insert('{}', 40)")
    for mount in ["one", "two"]:
        again = sqlite3.connect(f"{mount}/database")
        assert again.execute("select number from numbers").fetchall() == [(80,)]
        assert again.execute("pragma integrity_check").fetchall() == [("ok",)]


def restart(server):
    """The server is killed while a lock is held, and another follows."""
    one, two, a, c = pair()
    one.does(f"lock({a}, EXCLUSIVE, 0, 10)")
    two.does(f"lock({c}, EXCLUSIVE, 10, 10)")
    os.kill(server, signal.SIGKILL)
    two.does(f"lock({c}, EXCLUSIVE, 5, 1)", "EAGAIN")
    one.does(f"lock({a}, EXCLUSIVE, 15, 1)", "EAGAIN")
    two.begin(f"wait({c}, SHARED, 0, 1)")
    assert two.waits()
    one.does(f"lock({a}, NONE)")
    assert two.said() == "None"


def given_up(client):
    """The client of `one` is not heard of for longer than the lease, while another waits for a lock."""
    one, two, a, c = pair()
    one.does(f"lock({a}, EXCLUSIVE)")
    one.does(f"os.fsync({a})")
    os.kill(client, signal.SIGSTOP)
    two.does(f"wait({c}, EXCLUSIVE)")
    os.kill(client, signal.SIGCONT)
    one.does(f"os.fsync({a})", "EIO")
    one.does(f"lock({a}, EXCLUSIVE)", "EAGAIN")
    two.does(f"lock({c}, NONE)")
    again = one.opens("one/file")
    one.does(f"lock({again}, EXCLUSIVE)")
    one.does(f"os.fsync({again})")


def polled(client):
    """As before, where the other does not wait, but tries again and again."""
    one, two, a, c = pair()
    one.does(f"lock({a}, EXCLUSIVE)")
    two.does(f"lock({c}, EXCLUSIVE)", "EAGAIN")
    os.kill(client, signal.SIGSTOP)
    two.begin(f"lock({c}, EXCLUSIVE)")
    while two.said() == "EAGAIN":
        two.begin(f"lock({c}, EXCLUSIVE)")
    os.kill(client, signal.SIGCONT)
    one.does(f"os.fsync({a})", "EIO")


if __name__ == "__main__":
    eval(sys.argv[1])
