"""Threads that make calls while another process sends each of them signals. No call here may be interrupted: their
signals are restarted."""

import os
import signal
import subprocess
import sys
import threading

SENDER = """
import ctypes, sys, time
libc = ctypes.CDLL(None)
TGKILL, SIGUSR1 = 234, 10
process, *threads = map(int, sys.argv[1:])
for _ in range(15):
    for thread in threads:
        libc.syscall(TGKILL, process, thread, SIGUSR1)
    time.sleep(0.004)
"""

taken = 0


def take(*_):
    global taken
    taken += 1


signal.signal(signal.SIGUSR1, take)
signal.siginterrupt(signal.SIGUSR1, False)
done = threading.Event()


def work():
    while not done.is_set():
        os.stat("/etc/passwd")


threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads:
    thread.start()
identifiers = [str(thread.native_id) for thread in threads]
status = subprocess.call([sys.executable, "-c", SENDER, str(os.getpid()), *identifiers])
done.set()
for thread in threads:
    thread.join()
print(status, taken > 0)
