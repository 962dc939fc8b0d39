"""A file gets bytes on the mount `one` while it gets another name or other permissions on the mount `two`."""

import multiprocessing
import os
import random
import time

ROUNDS = 300
# About as long as a change takes.
DELAY_MAX_S = 0.003
WAIT_MAX_S = 60


def append(barrier):
    with open("one/file", "ab", buffering=0) as file:
        for _ in range(ROUNDS):
            barrier.wait(WAIT_MAX_S)
            time.sleep(random.random() * DELAY_MAX_S)
            file.write(b"x")
            barrier.wait(WAIT_MAX_S)
            barrier.wait(WAIT_MAX_S)


def main():
    with open("one/file", "xb"):
        pass
    barrier = multiprocessing.Barrier(2)
    other = multiprocessing.Process(target=append, args=(barrier,))
    other.start()
    wrong = []
    for round_ in range(ROUNDS):
        permissions = 0o600 + round_ % 0o100
        barrier.wait(WAIT_MAX_S)
        time.sleep(random.random() * DELAY_MAX_S)
        if round_ % 2 == 0:
            os.link("two/file", f"two/{round_}")
        else:
            os.chmod("two/file", permissions)
        barrier.wait(WAIT_MAX_S)
        found = [os.stat(f"{mount}/file") for mount in ["one", "two"]]
        for mount, of in zip(["one", "two"], found):
            if of.st_size != round_ + 1 or of.st_nlink != round_ // 2 + 2:
                wrong.append((round_, mount, of.st_size, of.st_nlink))
        barrier.wait(WAIT_MAX_S)
    other.join()
    assert other.exitcode == 0
    assert not wrong, f"round, mount, size and number of names: {wrong}"


if __name__ == "__main__":
    main()
