"""Bears processes, which bear others, and has them killed at any moment by a process that knows only their numbers."""
import os
import signal
import time

reader, writer = os.pipe()
killer = os.fork()
if killer == 0:
    os.close(writer)
    for line in os.fdopen(reader):
        number, delay = line.split()
        time.sleep(float(delay))
        os.kill(int(number), signal.SIGKILL)
    os._exit(0)
os.close(reader)


def bear_for_ever():
    while True:
        for _ in range(5):
            os.path.exists("/usr")
        child = os.fork()
        if child == 0:
            os.path.exists("/bin")
            os._exit(3)
        number, status = os.waitpid(child, 0)
        assert number == child and os.waitstatus_to_exitcode(status) == 3, status


for turn in range(40):
    child = os.fork()
    if child == 0:
        bear_for_ever()
    for _ in range(3):
        os.path.exists("/usr/lib")
    os.write(writer, b"%d %f\n" % (child, 0.001 * (turn % 17)))
    number, status = os.waitpid(-1, 0)
    assert number == child, (number, child)
    assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL, status
os.close(writer)
assert os.waitpid(-1, 0) == (killer, 0)
try:
    os.waitpid(-1, os.WNOHANG)
    print("there is a child")
except ChildProcessError:
    print("there is no child")
