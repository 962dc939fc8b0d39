"""Replaces the dynamic linker's cache while a command is running in a domain, as ldconfig does.

Usage: linker.py DIRECTORY COMMAND..., where DIRECTORY is mounted at /etc, and COMMAND runs a shell that reads its input.
"""

import os
import subprocess
import sys

directory, command = sys.argv[1], sys.argv[2:]
shell = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def ask(line):
    print(line, file=shell.stdin, flush=True)
    return shell.stdout.readline().strip()


print(ask("grep -c ' /etc/ld.so.cache ro' /proc/self/mountinfo || :"))
print(ask("stat -c %s /etc/ld.so.cache"))
with open(f"{directory}/ld.so.cache~", "w", encoding="ascii") as new:
    new.write("new")
os.rename(f"{directory}/ld.so.cache~", f"{directory}/ld.so.cache")
print(ask("until [ $(stat -c %s /etc/ld.so.cache) = 3 ]; do sleep 0.02; done; cat /etc/ld.so.cache; echo"))
shell.stdin.close()
sys.exit(shell.wait())
