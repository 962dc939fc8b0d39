"""A process hands ends of pipes to a program outside, and goes on: that program tells it what it has read there."""
import array
import os
import socket
import sys


def guess(number):
    """What is written depends on what may be guessed wrongly."""
    try:
        os.stat(f"nothing{number}")
        return "there"
    except OSError as error:
        return f"{error.errno}"


def say(descriptor, *words):
    os.write(descriptor, " ".join(map(str, words)).encode() + b"\n")


def rights(*descriptors):
    return [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))]


def taken(client):
    _, control, _, _ = client.recvmsg(1, socket.CMSG_SPACE(4))
    descriptors = array.array("i")
    descriptors.frombytes(control[0][2])
    return descriptors[0]


def hand_pipe(client):
    reader, writer = os.pipe()
    say(writer, "before", guess(0))
    client.sendmsg([b"t"], rights(reader))
    os.close(reader)
    return writer


def hand_fifo(client):
    """The end that is handed stays open here, too, or nobody inside would be left to read what is written."""
    os.mkfifo("fifo")
    reader = os.open("fifo", os.O_RDONLY | os.O_NONBLOCK)
    writer = os.open("fifo", os.O_WRONLY)
    os.set_blocking(reader, True)
    say(writer, "before", guess(0))
    client.sendmsg([b"t"], rights(reader))
    os.unlink("fifo")
    return writer


def hand_by_child(client):
    """The child is sent the end by its parent, and sends it on. The parent keeps it."""
    here, there = socket.socketpair()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(writer)
        os.close(reader)
        client.sendmsg([b"t"], rights(taken(there)))
        os._exit(0)
    say(writer, "before", guess(0))
    here.sendmsg([b"x"], rights(reader))
    os.waitpid(child, 0)
    return writer


def hand_socket(client):
    """Its other end and a copy of the one that is handed stay here."""
    here, there = socket.socketpair()
    say(here.fileno(), "before", guess(0))
    client.sendmsg([b"t"], rights(there.fileno()))
    kept.append(there)
    return here.detach()


def be_handed(client):
    client.send(b"g")
    return taken(client)


kept = []
ways = {way.__name__: way for way in (hand_pipe, hand_fifo, hand_by_child, hand_socket, be_handed)}
client = socket.socket(socket.AF_UNIX)
client.connect("agent")
end = ways[sys.argv[1]](client)
for number in range(12):
    say(end, number, guess(number))
say(end, "end")
os.close(end)
with client.makefile() as read:
    print(read.read(), end="")
