"""Changes files in steps, one after the other, for ever: writer.py PORT EVERY

After step S each file I holds what the last step up to S with S % FILES == I has left there, and
`counter` says S. So whoever sees the directory knows whether it is that of one moment. Every EVERYth
step sends its number on a connection of its own.
"""

import os
import socket
import sys

FILES = 200


def text(step):
    return f"{step} " * (1 + step * 7919 % 400) + "\n"


def write(path, words):
    with open("next", "w", encoding="ascii") as file:
        file.write(words)
    os.rename("next", path)


def main():
    port, every = int(sys.argv[1]), int(sys.argv[2])
    if not os.path.exists("counter"):
        os.makedirs("d", exist_ok=True)
        write("counter", f"{0:020}\n")
    with open("counter", encoding="ascii") as file:
        step = int(file.read())
    while True:
        step += 1
        path = f"d/{step % FILES}"
        if step % 11:
            write(path, text(step))
        elif os.path.exists(path):
            os.remove(path)
        # In its place, as a data base does.
        with open("counter", "r+", encoding="ascii") as file:
            file.write(f"{step:020}\n")
        if step % every == 0:
            with socket.create_connection(("127.0.0.1", port)) as connection:
                connection.sendall(f"{step}\n".encode())


main()
