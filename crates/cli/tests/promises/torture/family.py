import os
import signal
import time


def look():
    for name in ["/", "/etc/passwd", "/none", "/usr/lib"]:
        os.path.exists(name)


def bear(status):
    child = os.fork()
    if child == 0:
        look()
        os.write(1, b"child %d\n" % status)
        os._exit(status)
    return child


for status in range(4):
    child = bear(status)
    found, told, usage = os.wait4(-1, 0)
    assert found == child and usage.ru_maxrss > 0
    print(os.waitstatus_to_exitcode(told), flush=True)
    look()
    child = bear(10 + status)
    info = os.waitid(os.P_PID, child, os.WEXITED)
    assert info.si_pid == child and info.si_uid == os.getuid()
    print(info.si_status, info.si_code == os.CLD_EXITED, flush=True)
told = []
signal.signal(signal.SIGCHLD, lambda *_: told.append(os.waitpid(-1, 0)))
for status in range(20, 24):
    child = bear(status)
    while not told:
        time.sleep(0.001)
    assert told.pop() == (child, status << 8)
    look()
signal.signal(signal.SIGCHLD, signal.SIG_DFL)
child = os.fork()
if child == 0:
    look()
    os.kill(os.getpid(), signal.SIGTERM)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
