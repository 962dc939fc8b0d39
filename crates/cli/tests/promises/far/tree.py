"""Prints what is below a directory, but for the server's own state: kinds, permissions, data, and times of files."""
import hashlib
import os
import stat
import sys

top = sys.argv[1]
for above, directories, files in os.walk(top):
    directories.sort()
    if ".surmise" in directories:
        directories.remove(".surmise")
    for name in sorted(directories + files):
        path = os.path.join(above, name)
        found = os.lstat(path)
        words = [os.path.relpath(path, top), oct(found.st_mode)]
        if stat.S_ISLNK(found.st_mode):
            words.append(os.readlink(path))
        elif stat.S_ISREG(found.st_mode):
            with open(path, "rb") as file:
                words.append(hashlib.sha256(file.read()).hexdigest())
            words.append(str(found.st_mtime_ns))
        print(*words)
