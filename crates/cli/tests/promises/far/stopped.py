"""Stops one of the threads by which a process serves a mount, until a file is there."""
import ctypes
import os
import sys
import time

ATTACH, DETACH, ANY_CHILD = 16, 17, 0x40000000

process, stopped, go = int(sys.argv[1]), sys.argv[2], sys.argv[3]
tasks = f"/proc/{process}/task"
threads = [int(task) for task in os.listdir(tasks) if open(f"{tasks}/{task}/comm").read() == "serve\n"]
call = ctypes.CDLL(None, use_errno=True).ptrace
call.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
assert call(ATTACH, threads[0], None, None) == 0, os.strerror(ctypes.get_errno())
os.waitpid(threads[0], ANY_CHILD)
open(stopped, "w").close()
while not os.path.exists(go):
    time.sleep(0.02)
assert call(DETACH, threads[0], None, None) == 0, os.strerror(ctypes.get_errno())
