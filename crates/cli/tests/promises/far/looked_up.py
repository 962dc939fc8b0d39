"""A file on the mount `two` is looked up while a program on the mount `one` gives it another name."""

import multiprocessing
import os
import random
import time

ROUNDS = 400
# About as long as a look-up takes.
DELAY_MAX_S = 0.003
WAIT_MAX_S = 60


def link(barrier):
    for round_ in range(ROUNDS):
        os.close(os.open(f"one/{round_}", os.O_CREAT | os.O_RDWR))
        barrier.wait(WAIT_MAX_S)
        time.sleep(random.random() * DELAY_MAX_S)
        os.link(f"one/{round_}", "one/again")
        barrier.wait(WAIT_MAX_S)
        barrier.wait(WAIT_MAX_S)
        os.unlink(f"one/{round_}")
        os.unlink("one/again")


def main():
    barrier = multiprocessing.Barrier(2)
    other = multiprocessing.Process(target=link, args=(barrier,))
    other.start()
    links = []
    for round_ in range(ROUNDS):
        barrier.wait(WAIT_MAX_S)
        file = os.open(f"two/{round_}", os.O_RDONLY)
        barrier.wait(WAIT_MAX_S)
        links.append(os.fstat(file).st_nlink)
        os.close(file)
        barrier.wait(WAIT_MAX_S)
    other.join()
    assert other.exitcode == 0
    assert links == [2] * ROUNDS, f"{links.count(1)} of {ROUNDS} have only their first name"


if __name__ == "__main__":
    main()
