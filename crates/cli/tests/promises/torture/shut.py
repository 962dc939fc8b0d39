import os
import selectors
import subprocess
import sys


def run(script, **more):
    told = subprocess.run(["sh", "-c", script], capture_output=True, text=True, **more)
    print(told.returncode, told.stdout[-40:], len(told.stdout), repr(told.stderr), flush=True)


run("echo one; test -e /none; echo two >&2; exit 3")
run("cat; test -e /usr", input="a text\n" * 3000)
run("read line; echo $line; exec <&-; test -e /none; exit 4", input="first\nsecond\n")
print(subprocess.check_output("echo a | cat | tr a b", shell=True), flush=True)

child = subprocess.Popen(["sh", "-c", "echo out; echo err >&2"], stdout=-1, stderr=-1)
with selectors.DefaultSelector() as selector:
    for file in (child.stdout, child.stderr):
        selector.register(file, selectors.EVENT_READ)
    got = []
    while selector.get_map():
        for key, _ in selector.select():
            piece = os.read(key.fd, 100)
            got.append(piece)
            if not piece:
                selector.unregister(key.fileobj)
print(child.wait(), sorted(got), flush=True)

first = subprocess.Popen(["sh", "-c", "for n in 3 1 2; do echo $n; done"], stdout=-1)
second = subprocess.Popen(["sort"], stdin=first.stdout, stdout=-1)
first.stdout.close()
print(second.communicate(), first.wait(), second.returncode, flush=True)

child = subprocess.Popen(["sh", "-c", "echo begun; while :; do test -e /; done"], stdout=-1)
print(child.stdout.readline(), flush=True)
child.kill()
print(child.stdout.read(), child.wait(), flush=True)

reader = subprocess.Popen(["head", "-n1"], stdin=-1, stdout=-1)
try:
    while True:
        reader.stdin.write(b"line\n" * 100)
        reader.stdin.flush()
except BrokenPipeError:
    print("broken", reader.stdout.read(), flush=True)
try:
    reader.stdin.close()
except BrokenPipeError:
    pass
print(reader.wait())
sys.exit(5)
