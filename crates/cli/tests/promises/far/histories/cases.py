"""Histories that one copy of a directory explains, and others that it does not: of each, the checker (check.py) has to say which."""

import os

import check
import record

ONE, TWO, THREE = range(3)
# Each case: what it is, whether an order explains it, and its calls: program, began, had returned, what it said, the call.
# 7 and 8 are files.
CASES = [
    ("what was created is found", True, [
        (ONE, 0, 1, 7, "create", "a/x"),
        (TWO, 2, 3, [7, 0, 1], "stat", "a/x"),
    ]),
    ("what was created before is not found", False, [
        (ONE, 0, 1, 7, "create", "a/x"),
        (TWO, 2, 3, "ENOENT", "stat", "a/x"),
    ]),
    ("what is created at the same time may be found or not", True, [
        (ONE, 0, 9, 7, "create", "a/x"),
        (TWO, 1, 2, "ENOENT", "stat", "a/x"),
        (TWO, 3, 4, [7, 0, 1], "stat", "a/x"),
    ]),
    ("what was found is not found any more", False, [
        (ONE, 0, 9, 7, "create", "a/x"),
        (TWO, 1, 2, [7, 0, 1], "stat", "a/x"),
        (TWO, 3, 4, "ENOENT", "stat", "a/x"),
    ]),
    ("what one program has seen, another one does not", False, [
        (ONE, 0, 9, 7, "create", "a/x"),
        (TWO, 1, 2, [7, 0, 1], "stat", "a/x"),
        (THREE, 3, 4, [], "list", "a"),
    ]),
    ("two programs create one name", False, [
        (ONE, 0, 9, 7, "create", "a/x"),
        (TWO, 0, 9, 8, "create", "a/x"),
    ]),
    ("a file is in neither directory while it is renamed", False, [
        (ONE, 0, 1, 7, "create", "a/x"),
        (ONE, 2, 9, None, "rename", "a/x", "b/x", 0),
        (TWO, 3, 4, "ENOENT", "open", "b/x"),
        (TWO, 5, 6, "ENOENT", "open", "a/x"),
        (TWO, 7, 8, "ENOENT", "open", "b/x"),
    ]),
    ("a file is seen in both directories while it is renamed", False, [
        (ONE, 0, 1, 7, "create", "a/x"),
        (ONE, 2, 9, None, "rename", "a/x", "b/x", 0),
        (TWO, 3, 4, 7, "open", "b/x"),
        (TWO, 5, 6, 7, "open", "a/x"),
    ]),
    ("two programs rename one file to one name", True, [
        (ONE, 0, 1, 7, "create", "a/x"),
        (ONE, 2, 9, None, "rename", "a/x", "b/x", 0),
        (TWO, 2, 9, None, "rename", "a/x", "b/x", 0),
    ]),
    ("two programs rename one file to two names", False, [
        (ONE, 0, 1, 7, "create", "a/x"),
        (ONE, 2, 9, None, "rename", "a/x", "b/x", 0),
        (TWO, 2, 9, None, "rename", "a/x", "b/y", 0),
    ]),
    ("a program renames a file to a name where it has been for long", False, [
        (ONE, 0, 1, 7, "create", "a/x"),
        (ONE, 2, 3, None, "rename", "a/x", "b/x", 0),
        (TWO, 4, 5, None, "rename", "a/x", "b/x", 0),
    ]),
    ("a file that is renamed in the midst of stat grows then", True, [
        (ONE, 0, 1, 7, "create", "a/x"),
        (ONE, 2, 3, None, "rename", "a/x", "b/x", 0),
        (ONE, 4, 5, None, "append", 7, 100),
        (TWO, 2, 9, [7, 1, 1], "stat", "a/x"),
    ]),
    ("an append is there twice", False, [
        (ONE, 0, 1, 7, "create", "a/x"),
        (ONE, 2, 3, None, "append", 7, 100),
        (TWO, 4, 5, 7, "open", "a/x"),
        (TWO, 6, 7, [100, 100], "read", 7),
    ]),
    ("two appends at the same time are both there", True, [
        (ONE, 0, 1, 7, "create", "a/x"),
        (TWO, 2, 3, 7, "open", "a/x"),
        (ONE, 4, 9, None, "append", 7, 100),
        (TWO, 4, 9, None, "append", 7, 200),
        (ONE, 10, 11, [200, 100], "read", 7),
    ]),
    ("one of two appends is overwritten", False, [
        (ONE, 0, 1, 7, "create", "a/x"),
        (TWO, 2, 3, 7, "open", "a/x"),
        (ONE, 4, 9, None, "append", 7, 100),
        (TWO, 4, 9, None, "append", 7, 200),
        (ONE, 10, 11, [200], "read", 7),
    ]),
    ("a read shows what was overwritten before it began", False, [
        (ONE, 0, 1, 7, "create", "a/x"),
        (TWO, 2, 3, 7, "open", "a/x"),
        (ONE, 4, 5, None, "write", 7, 0, 100),
        (TWO, 6, 7, [100], "read", 7),
        (ONE, 8, 9, None, "write", 7, 0, 200),
        (TWO, 10, 11, [100], "read", 7),
    ]),
    ("two programs see two writes in different orders", False, [
        (ONE, 0, 1, 7, "create", "a/x"),
        (ONE, 2, 3, None, "truncate", 7, 2),
        (TWO, 4, 5, 7, "open", "a/x"),
        (ONE, 6, 20, None, "write", 7, 0, 100),
        (TWO, 6, 20, None, "write", 7, 1, 200),
        (ONE, 21, 22, [100, 200], "read", 7),
        (THREE, 0, 5, "ENOENT", "open", "b/x"),
        (THREE, 7, 8, [0, 100], "read", 7),
    ]),
    ("a link leaves another count", False, [
        (ONE, 0, 1, 7, "create", "a/x"),
        (ONE, 2, 3, None, "link", 7, "b/x"),
        (TWO, 4, 5, [7, 0, 1], "stat", "b/x"),
    ]),
    ("an open file outlives its names, of which none comes again", True, [
        (ONE, 0, 1, 7, "create", "a/x"),
        (ONE, 2, 3, None, "write", 7, 0, 100),
        (TWO, 4, 5, None, "unlink", "a/x"),
        (ONE, 6, 7, [100], "read", 7),
        (ONE, 8, 9, "ENOENT", "link", 7, "a/y"),
    ]),
    ("two programs have one lock", False, [
        (ONE, 0, 1, None, "lock", "flock"),
        (TWO, 2, 3, None, "lock", "flock"),
    ]),
    ("a lock of the other kind is another lock", True, [
        (ONE, 0, 1, None, "lock", "flock"),
        (TWO, 2, 3, None, "lock", "record"),
        (THREE, 4, 5, "EAGAIN", "lock", "record"),
    ]),
    ("a lock that was given back is refused", False, [
        (ONE, 0, 1, None, "lock", "record"),
        (ONE, 2, 3, None, "unlock", "record"),
        (TWO, 4, 5, "EAGAIN", "lock", "record"),
    ]),
    ("a lock that was given back without a connection is refused, and then is not", True, [
        (ONE, 0, 1, None, "lock", "record"),
        (ONE, 2, 3, None, "unlock_late", "record"),
        (TWO, 4, 5, "EAGAIN", "lock", "record"),
        (TWO, 6, 7, None, "lock", "record"),
    ]),
    ("a lock that was given back without a connection is had by two programs", False, [
        (ONE, 0, 1, None, "lock", "record"),
        (ONE, 2, 3, None, "unlock_late", "record"),
        (TWO, 4, 5, None, "lock", "record"),
        (THREE, 6, 7, None, "lock", "record"),
    ]),
    ("a rename does not know a directory that another program has moved", True, [
        (ONE, 0, 1, None, "mkdir", "a/x", 100),
        (TWO, 2, 3, None, "rename", "a/x", "b/x", 0),
        (ONE, 4, 5, "ESTALE", "rename", "b/x", "a/y", 0),
    ]),
    ("a rename does not know a directory that was looked at since", False, [
        (ONE, 0, 1, None, "mkdir", "a/x", 100),
        (TWO, 2, 3, None, "rename", "a/x", "b/x", 0),
        (ONE, 4, 5, "directory", "stat", "b/x"),
        (ONE, 6, 7, "ESTALE", "rename", "b/x", "a/y", 0),
    ]),
    ("a rename does not know a directory that nobody has moved", False, [
        (ONE, 0, 1, None, "mkdir", "a/x", 100),
        (TWO, 2, 3, "ESTALE", "rename", "a/x", "b/x", 0),
    ]),
    ("a file is stale", False, [
        (ONE, 0, 1, 7, "create", "a/x"),
        (TWO, 2, 3, None, "rename", "a/x", "b/x", 0),
        (ONE, 4, 5, "ESTALE", "rename", "b/x", "a/y", 0),
    ]),
    ("an open file that has lost its last name is stale", True, [
        (ONE, 0, 1, 7, "create", "a/x"),
        (TWO, 2, 3, None, "unlink", "a/x"),
        (ONE, 4, 5, "ESTALE", "append", 7, 100),
    ]),
    ("an open file that has a name is stale", False, [
        (ONE, 0, 1, 7, "create", "a/x"),
        (ONE, 2, 3, "ESTALE", "append", 7, 100),
    ]),
    ("a sync fails", False, [
        (ONE, 0, 1, 7, "create", "a/x"),
        (ONE, 2, 3, "EIO", "sync", 7),
    ]),
]


def histories_of(calls):
    histories = [[], [], []]
    for program, began, ended, said, *call in calls:
        histories[program].append([0, call, said, began, ended])
    return histories


def judge_cases():
    for what, explained, calls in CASES:
        violation = check.check(histories_of(calls))
        assert (violation is None) == explained, f"{what}: {violation}"


def judge_ends():
    calls = [(ONE, 0, 1, 7, "create", "a/x"), (ONE, 2, 3, None, "link", 7, "b/x"), (ONE, 4, 5, None, "append", 7, 100)]
    for tree, explained in [
        ([(["a/x", "b/x"], [100])], True),
        ([(["a/x", "b/x"], [])], False),
        ([(["a/x"], [100]), (["b/x"], [100])], False),
        ([(["a/x"], [100])], False),
    ]:
        violation = check.check(histories_of(calls), tree)
        assert (violation is None) == explained, f"{tree}: {violation}"


def judge_spoiled():
    """Of a history of a directory of this machine, each call that shows something is made to show what was never there."""
    os.mkdir("plain")
    record.main(48, 1, "-", "plain")
    histories = check.read(1)
    violation = check.check(histories, check.tree_of("plain"))
    assert violation is None, violation
    spoiled = 0
    for call in [call for history in histories for call in history]:
        said = call[2]
        for wrong in never_said(call[1][0], said):
            call[2] = wrong
            assert check.check(histories) is not None, f"{call} and not {said}"
            spoiled += 1
        call[2] = said
    return spoiled


def never_said(call, said):
    """In place of what it said, what no order explains, whatever the others did at the same time."""
    if call == "read":
        return [[*said, 1]]
    if call in ["stat", "fstat"] and isinstance(said, list):
        return [[*said[:-1], said[-1] + 9]]
    if call == "list":
        return [[*said, "zz"]]
    if said is None:
        return ["EIO"]
    return []


if __name__ == "__main__":
    judge_cases()
    judge_ends()
    count = judge_spoiled()
    assert count > 100, count
    print(f"{len(CASES)} histories judged, {count} spoiled ones found")
