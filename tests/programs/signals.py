#!/usr/bin/env python3
"""Calls that no signal may interrupt, while signals arrive all the time.

Handlers of Python's are installed without SA_RESTART, and Python does not make these calls again by itself: if one fails
with EINTR, the program hears of it. Plainly none does."""

import errno
import os
import random
import signal
import sys

ROUNDS = 150
# When the signal comes after the timer was set, at most. A call takes a fraction of that, or some times that if it is heard.
LATEST_S = 3e-5

arrived = 0


def main():
    if sys.argv[1:] == ["prepare"]:
        return
    random.seed(1)
    signal.signal(signal.SIGALRM, note)
    signal.signal(signal.SIGUSR1, note)
    os.mkdir("directory")
    for call in [stat, access, make_pipe, send, fork, rename, make_directory, read_link, list_names, change_mode]:
        print(call.__name__, "interrupted", sum(is_interrupted(call) for _ in range(ROUNDS)))
    signal.setitimer(signal.ITIMER_REAL, 0)
    print("some signals arrived" if arrived > ROUNDS else f"FAILED: {arrived} signals arrived")


def note(_number, _frame):
    global arrived
    arrived += 1


def is_interrupted(call):
    try:
        signal.setitimer(signal.ITIMER_REAL, 1e-6 + random.random() * LATEST_S)
        call()
    except OSError as error:
        if error.errno != errno.EINTR:
            raise
        return True
    return False


def stat():
    os.stat("directory")


def access():
    # It tells of no error.
    if not os.access(".", os.R_OK):
        raise InterruptedError(errno.EINTR, "access")


def make_pipe():
    for end in os.pipe():
        os.close(end)


def send():
    os.kill(os.getpid(), signal.SIGUSR1)


def fork():
    child = os.fork()
    if child == 0:
        os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def rename():
    # To and fro.
    try:
        os.rename("directory", "renamed")
    except FileNotFoundError:
        os.rename("renamed", "directory")


def make_directory():
    # By turns.
    try:
        os.mkdir("made")
    except FileExistsError:
        os.rmdir("made")


def read_link():
    os.readlink("/proc/self/exe")


def list_names():
    os.listdir(".")


def change_mode():
    os.chmod(".", 0o755)


main()
