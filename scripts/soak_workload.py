#!/usr/bin/env python3
"""What each domain of scripts/soak-domains does: numbered steps, each fully determined by a seed.

    soak_workload.py SEED FIRST LAST [ALLOWED_PORT HELD_PORT LABEL]

Works in the current directory. Step 0 makes a project. Each later step works with files, builds, uses
git, or talks over loopback; without ports it leaves the talking out. After each step the file
`progress` holds its number, so whoever finds N there must find all of steps 0 to N, and at most a part
of step N + 1, which lies in `areas(SEED, N + 1)`.
"""

import os
import random
import shutil
import socket
import stat
import subprocess
import sys

PROGRAM = """
#include <stdio.h>
#include "value.h"
int other(void);
int main(void) { printf("%d\\n", VALUE + other()); return 0; }
"""
OTHER = '#include "value.h"\nint other(void) { return VALUE * 2; }\n'
MAKEFILE = """
build/program: build/main.o build/other.o
\t$(CC) -o $@ $^
build/%.o: src/%.c src/value.h
\t@mkdir -p build
\t$(CC) -O1 -c -o $@ $<
"""
GIT = {
    "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_AUTHOR_DATE": "1700000000 +0000",
    "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b", "GIT_COMMITTER_DATE": "1700000000 +0000",
    "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null",
}
KINDS = ["files"] * 4 + ["build"] * 2 + ["git"] * 2 + ["allowed"] * 2 + ["held"] * 2
PATIENCE_S = 60


def generator(seed, step):
    return random.Random(f"{seed}:{step}")


def kind(seed, step):
    return generator(seed, step).choice(KINDS)


def areas(seed, step):
    """The paths that a step may change, besides `progress`."""
    return {
        "files": [f"files/{step % 7}"],
        "build": ["src", "build", f"out/{step}"],
        "git": [".git"],
    }.get(kind(seed, step), [f"net/{step}"])


def held_message(seed, step, label):
    """What a step of the kind `held` sends, on a connection of its own."""
    random_ = generator(f"{seed}:held", step)
    return f"{label} {step} {random_.randbytes(random_.choice([1, 50, 2000, 30000])).hex()}\n".encode()


def main():
    seed, first, last = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    network = None
    if len(sys.argv) > 4:
        network = (int(sys.argv[4]), int(sys.argv[5]), sys.argv[6])
    os.environ.update(GIT)
    for step in range(first, last + 1):
        if step == 0:
            make_project()
        else:
            perform(seed, step, network)
        write("progress.new", str(step))
        os.rename("progress.new", "progress")


def perform(seed, step, network):
    random_ = generator(seed, step)
    what = random_.choice(KINDS)
    if what == "files":
        work_with_files(random_, f"files/{step % 7}")
    elif what == "build":
        build(random_, step)
    elif what == "git":
        run("git", "add", "-A")
        run("git", "commit", "-q", "--allow-empty", "-m", f"step {step}")
        run("git", "status", "--short")
    else:
        talk(seed, step, what, network)
        write(f"net/{step}", what)


def make_project():
    for directory in ["src", "out", "net", "files"]:
        os.mkdir(directory)
    write("src/main.c", PROGRAM)
    write("src/other.c", OTHER)
    write("src/value.h", "#define VALUE 1\n")
    write("Makefile", MAKEFILE)
    write(".gitignore", "build/\nprogress*\n")
    for directory in ["out", "net", "files"]:
        write(f"{directory}/kept", "")
    run("git", "init", "-q", "-b", "main")
    run("git", "config", "gc.auto", "0")


def work_with_files(random_, directory):
    shutil.rmtree(directory, ignore_errors=True)
    os.makedirs(f"{directory}/a/b")
    names = []
    for number in range(random_.randint(5, 40)):
        name = f"{directory}/{random_.choice(['', 'a/', 'a/b/'])}{number}"
        with open(name, "wb") as file:
            file.write(random_.randbytes(random_.choice([0, 10, 4096, 5000, 200_000])))
        names.append(name)
    for name in random_.sample(names, len(names) // 2):
        change(random_, name)
    if random_.random() < 0.5:
        os.rename(f"{directory}/a/b", f"{directory}/c")


def change(random_, name):
    what = random_.randrange(8)
    if what == 0:
        os.remove(name)
    elif what == 1:
        os.rename(name, name + "-renamed")
    elif what == 2:
        with open(name, "ab") as file:
            file.write(b"appended")
    elif what == 3:
        os.truncate(name, random_.randrange(9000))
    elif what == 4:
        os.symlink(os.path.basename(name), name + "-symlink")
    elif what == 5:
        os.link(name, name + "-link")
    elif what == 6:
        os.chmod(name, random_.choice([0o600, 0o644, 0o755]))
    else:
        # Over another one, as editors do.
        with open(name + "-new", "wb") as file:
            file.write(random_.randbytes(100))
            os.fsync(file.fileno())
        os.rename(name + "-new", name)


def build(random_, step):
    value = random_.randrange(1_000_000)
    write("src/value.h", f"#define VALUE {value}\n")
    # -B: a header written in the same clock tick as an object would not count as newer.
    run("make", "-sB", "-j2", "build/program")
    output = run("build/program")
    if output != f"{3 * value}\n":
        raise SystemExit(f"the program says {output!r}, not {3 * value}")
    write(f"out/{step}", output)


def talk(seed, step, what, network):
    if network is None:
        return
    allowed, held, label = network
    message = held_message(seed, step, label)
    port = allowed if what == "allowed" else held
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as connection:
        connection.sendall(message)
        connection.shutdown(socket.SHUT_WR)
        # Held output has no answer before consent.
        if what == "allowed":
            answer = b"".join(iter(lambda: connection.recv(65536), b""))
            if answer != message:
                raise SystemExit(f"of {len(message)} bytes {len(answer)} came back, or others")


def run(*command):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def write(path, text):
    with open(path, "w", encoding="ascii") as file:
        file.write(text)


def picture(directory, without=()):
    """Kind, mode, size, links and contents of all below a directory, but for `.git` and `without`."""
    found = {}
    for parent, directories, files in os.walk(directory):
        for name in directories + files:
            path = os.path.join(parent, name)
            relative = os.path.relpath(path, directory)
            if name == ".git" or any(is_below(relative, area) for area in without):
                continue
            status = os.lstat(path)
            content = None
            if stat.S_ISLNK(status.st_mode):
                content = os.readlink(path)
            elif stat.S_ISREG(status.st_mode):
                with open(path, "rb") as file:
                    content = hash(file.read())
            is_directory = stat.S_ISDIR(status.st_mode)
            counts = None if is_directory else (status.st_size, status.st_nlink)
            found[relative] = (oct(status.st_mode), counts, content)
        directories[:] = [name for name in directories if name != ".git"]
    return found


def trace(directory):
    """Inode, mode, size, links and times of all below a directory: who writes there changes it."""
    found = {}
    for parent, directories, files in os.walk(directory):
        for path in [parent] + [os.path.join(parent, name) for name in directories + files]:
            status = os.lstat(path)
            found[path] = (status.st_ino, oct(status.st_mode), status.st_size, status.st_nlink,
                           status.st_mtime_ns, status.st_ctime_ns)
    return found


def is_below(path, area):
    return path == area or path.startswith(area + "/")


if __name__ == "__main__":
    main()
