"""Forks, and executes programs in children; checks what children tell and how they end."""
import os
import sys

words = [str(number) * 3 for number in range(50)]
for turn in range(6):
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        words.append("child")
        with open("told%d" % turn, "w") as file:
            file.write("by child %d\n" % turn)
        os.write(writer, ("%d %d" % (len(words), os.path.exists("told0"))).encode())
        os._exit(turn)
    os.close(writer)
    told = os.read(reader, 100).decode()
    os.close(reader)
    number, status = os.waitpid(child, 0)
    assert number == child, (number, child)
    assert os.waitstatus_to_exitcode(status) == turn, status
    assert len(words) == 50, words
    print(turn, told, open("told%d" % turn).read().strip())
for turn in range(4):
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        os.execv("/bin/echo", ["echo", "executed", str(turn)])
    assert os.waitpid(child, 0) == (child, 0)
try:
    os.waitpid(-1, os.WNOHANG)
    print("there is a child")
except ChildProcessError:
    print("there is no child")
