"""Starts programs by vfork and by posix_spawn, as the library does where it can."""

import os
import subprocess

for number in range(4):
    os.stat(".")
    done = subprocess.run(["/bin/echo", str(number)], capture_output=True, text=True)
    print(done.stdout.strip(), done.returncode)

with open("written", "w") as file:
    subprocess.run(["/bin/echo", "into a file"], stdout=file, check=True)
print(open("written").read().strip())

try:
    subprocess.run(["/no/such/program"])
except FileNotFoundError as error:
    print(error.strerror)

done = subprocess.run(["/bin/sh", "-c", "cat; exit 7"], input=b"to the child", stdout=subprocess.PIPE)
print(done.stdout.decode(), done.returncode)

child = os.posix_spawn("/bin/sh", ["sh", "-c", "exit 3"], os.environ)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
try:
    os.posix_spawn("/no/such/program", ["program"], os.environ)
except FileNotFoundError as error:
    print(error.strerror)
