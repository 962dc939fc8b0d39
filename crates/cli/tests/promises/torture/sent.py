"""A process is sent signals by its children, in whatever call it sleeps, and by itself."""
import os
import select
import signal
import time

got = []


def note(number, _):
    got.append(signal.Signals(number).name)


def child(ways, wanted):
    os.stat(".")
    for way in ways:
        way(os.getppid(), signal.SIGUSR1)
        os.stat(".")
    os._exit(wanted)


def kill_by_descriptor(process, number):
    signal.pidfd_send_signal(os.pidfd_open(process), number)


def sleep_until(count, sleep):
    while len(got) < count:
        os.stat(".")
        sleep()


for number in signal.SIGUSR1, signal.SIGUSR2, signal.SIGTERM:
    signal.signal(number, note)
sleeps = [lambda: time.sleep(0.02), lambda: select.select([], [], [], 0.02)]
for round in range(8):
    got.clear()
    way = kill_by_descriptor if round == 7 else os.kill
    pid = os.fork()
    if pid == 0:
        child([way], round)
    if round % 4 != 3:
        sleep_until(1, sleeps[round % 2])
    _, status = os.waitpid(pid, 0)
    os.stat(".")
    os.kill(os.getpid(), signal.SIGTERM)
    signal.raise_signal(signal.SIGUSR2)
    print(round, os.waitstatus_to_exitcode(status), *got)

# To a process that ignores them.
signal.signal(signal.SIGUSR1, signal.SIG_IGN)
pid = os.fork()
if pid == 0:
    time.sleep(0.1)
    os._exit(5)
for number in 0, signal.SIGUSR1, signal.SIGUSR1:
    os.stat(".")
    os.kill(pid, number)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), *got)
