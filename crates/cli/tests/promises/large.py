"""Random calls on a large file that is there already, against a model in memory.

    large.py FILE SEED CALLS

Reads, writes, shared mappings, sizes, holes and copies, through a descriptor from before the first
change and ones from after it. fsx(1) does that for files that begin empty. Ends with status 1 at the
first difference.
"""
import ctypes
import mmap
import os
import random
import sys

PUNCH_HOLE, ZERO_RANGE, KEEP_SIZE = 2, 16, 1
path, seed, calls = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
rng = random.Random(seed)
libc = ctypes.CDLL(None, use_errno=True)
with open(path, "rb") as file:
    model = bytearray(file.read())
before = os.open(path, os.O_RDONLY)
after = os.open(path, os.O_RDWR)
SIZE = len(model)
what = "nothing"


def need(holds):
    if not holds:
        sys.exit(f"{path}, seed {seed}: differs after {what}")


def put(at, data):
    if data and at > len(model):
        model.extend(bytes(at - len(model)))
    model[at:at + len(data)] = data


def place():
    near = rng.choice([rng.randrange(SIZE + 100000), rng.randrange(SIZE >> 16) << 16, len(model)])
    return max(0, near + rng.randrange(-3, 4))


def length():
    return rng.choice([1, 4096, 65536, rng.randrange(1, 9000), rng.randrange(1, 200000)])


def read():
    at, size = place(), length()
    descriptor = rng.choice([before, after])
    need(os.pread(descriptor, size, at) == bytes(model[at:at + size]))
    return f"read {at} {size}"


def write():
    at, data = place(), bytes([rng.randrange(1, 256)]) * length()
    need(os.pwrite(after, data, at) == len(data))
    put(at, data)
    return f"write {at} {len(data)}"


def map_():
    if len(model) < 2:
        return "map of nothing"
    at = rng.randrange(len(model) - 1)
    data = bytes([rng.randrange(1, 256)]) * min(length(), len(model) - at)
    with mmap.mmap(after, len(model)) as memory:
        need(memory[at:at + len(data)] == bytes(model[at:at + len(data)]))
        memory[at:at + len(data)] = data
    model[at:at + len(data)] = data
    return f"map {at} {len(data)}"


def truncate():
    size = place()
    os.ftruncate(after, size)
    if size < len(model):
        del model[size:]
    else:
        model.extend(bytes(size - len(model)))
    return f"truncate {size}"


def allocate():
    at, size = place(), length()
    mode = rng.choice([0, KEEP_SIZE, PUNCH_HOLE | KEEP_SIZE, ZERO_RANGE | KEEP_SIZE])
    done = libc.fallocate(after, mode, ctypes.c_long(at), ctypes.c_long(size))
    if done == 0 and mode == 0 and at + size > len(model):
        model.extend(bytes(at + size - len(model)))
    if done == 0 and mode & (PUNCH_HOLE | ZERO_RANGE):
        size = max(0, min(size, len(model) - at))
        model[at:at + size] = bytes(size)
    return f"fallocate {mode} {at} {size}: {done}"


def seek():
    at = place()
    for whence in (os.SEEK_DATA, os.SEEK_HOLE):
        try:
            found = os.lseek(after, at, whence)
        except OSError:
            need(whence == os.SEEK_DATA or at >= len(model))
            found = len(model)
        if whence == os.SEEK_DATA:
            need(not any(model[at:found]))
    return f"seek {at}"


def copy():
    source, target, size = place(), place(), length()
    size = min(size, abs(source - target), max(0, len(model) - source))
    done = 0
    while done < size:
        copied = os.copy_file_range(after, after, size - done, source + done, target + done)
        need(copied > 0)
        done += copied
    put(target, model[source:source + size])
    return f"copy {source} {target} {size}"


for _ in range(calls):
    what = rng.choice([read, read, write, write, write, map_, truncate, allocate, seek, copy])()
    need(os.fstat(after).st_size == len(model))
    if rng.randrange(50) == 0:
        os.posix_fadvise(after, 0, 0, os.POSIX_FADV_DONTNEED)
        need(os.pread(after, len(model) + 1, 0) == bytes(model))
need(os.pread(before, len(model) + 1, 0) == bytes(model))
