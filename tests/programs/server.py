#!/usr/bin/env python3
"""A server that forks its four workers beforehand, with five clients, on a Unix socket.

Any worker may get any client, so only what all of them did together is told. In the end the workers are told to leave by
a signal, and are reaped."""

import os
import signal
import socket
import sys

WORKERS = 4
CLIENTS = 5
REQUESTS = 12
SOCKET = "socket"


def main():
    if sys.argv[1:] == ["prepare"]:
        return
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(SOCKET)
    listener.listen(CLIENTS)
    # So that no worker is told to leave before it can hear it.
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    counts_out, counts_in = os.pipe()
    workers = [start(serve, listener, counts_in) for _ in range(WORKERS)]
    os.close(counts_in)
    listener.close()
    clients = [start(ask, number) for number in range(CLIENTS)]
    print("clients:", [reap(client) for client in clients])
    for number in range(CLIENTS):
        with open(f"answers{number}", encoding="ascii") as answers:
            print(f"client {number}:", answers.read().split()[-1])
    for worker in workers:
        os.kill(worker, signal.SIGTERM)
    print("workers:", [reap(worker) for worker in workers])
    with os.fdopen(counts_out) as counts:
        print("answered:", sum(int(line) for line in counts))
    os.unlink(SOCKET)


def start(work, *arguments):
    """Forks; the child's status is what `work` returns."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        status = 99
        try:
            status = work(*arguments)
        finally:
            os._exit(status)
    return child


def reap(child):
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


class Told(Exception):
    """The signal to leave has come."""


def serve(listener, counts):
    """A worker: answers one client after the other, until it is told to leave."""
    def tell(_number, _frame):
        raise Told
    signal.signal(signal.SIGTERM, tell)
    answered = 0
    try:
        while True:
            # It hears the signal between two clients only.
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
            connection, _ = listener.accept()
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
            with connection, connection.makefile("rw") as lines:
                for line in lines:
                    word, number = line.split()
                    lines.write(f"{word.upper()} {int(number) ** 2}\n")
                    lines.flush()
                    answered += 1
    except Told:
        os.write(counts, f"{answered}\n".encode())
        return 3


def ask(number):
    """A client: each request is a line, and so is its answer."""
    with socket.socket(socket.AF_UNIX) as connection, open(f"answers{number}", "w", encoding="ascii") as answers:
        connection.connect(SOCKET)
        with connection.makefile("rw") as lines:
            for request in range(REQUESTS):
                lines.write(f"client{number} {request}\n")
                lines.flush()
                answer = lines.readline()
                if answer != f"CLIENT{number} {request ** 2}\n":
                    return 1
                answers.write(answer)
    return 0


main()
