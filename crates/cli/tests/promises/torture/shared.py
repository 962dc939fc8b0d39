"""Files are changed while a child has one mapped so that it could write there: each change waits for a decision."""

import mmap
import os

with open("shared", "wb") as file:
    file.write(b"x" * 4096)
mapped, done = os.pipe(), os.pipe()
if os.fork() == 0:
    with open("shared", "r+b") as file:
        memory = mmap.mmap(file.fileno(), 4096)
        os.write(mapped[1], b".")
        os.read(done[0], 1)
    os._exit(0)
os.read(mapped[0], 1)
for number in range(3):
    with open(f"other{number}", "w") as file:
        file.write("y")
    with open("shared", "r+b") as file:
        file.write(b"z")
os.write(done[1], b".")
print("exited with", os.waitstatus_to_exitcode(os.wait()[1]))
