"""Whether histories of programs on one directory are linearizable: whether the calls can be put into one order in which each
lies between its beginning and its end, and says what it would have said on one copy of the directory. A rename may say, too,
what docs/remote.md ("What it does not do") says of it.

    check.py PROGRAMS [EXPORT]

Reads `history.N` of each program (record.py). Each round is searched for all orders, and for all states of the directory
that they lead to (Wing and Gong, with a memory of what was tried); the next round begins in one of these. What is in
EXPORT after the last round has to be one of the last states. Prints how many calls there are; where no order explains a
round, prints the round and exits with 1."""

import itertools
import json
import os
import sys

NO_REPLACE, EXCHANGE = 1, 2
VALUE_BYTES = 8
OF_OPEN_FILES = ["write", "append", "truncate", "read", "fstat", "sync", "link"]
# In place of the program that has a lock: none has it, and the server may not know.
LATE = -1


class State:
    """One copy of the directory: the object of each name, what each file has in it, who has which lock.

    `looked` has what each program that is between the two steps of a call has found by the first name. `moved` has (directory,
    program) where another program has renamed the directory since this program has last met it by its name."""

    def __init__(self, names, files, locks, looked, moved):
        self.names, self.files, self.locks, self.looked, self.moved = names, files, locks, looked, moved
        self.key = (*(frozenset(of.items()) for of in [names, files, locks, looked]), moved)

    def __eq__(self, other):
        return self.key == other.key

    def __hash__(self):
        return hash(self.key)

    def without_nameless(self):
        named = set(self.names.values())
        files = {inode: data for inode, data in self.files.items() if inode in named}
        moved = frozenset(pair for pair in self.moved if pair[0] in named)
        return State(self.names, files, self.locks, self.looked, moved)

    def after(self, program, programs, step, said):
        """The states after this step of a call of this program, if the call may say this."""
        states = set()
        change = Change(self, program, programs, said)
        if said == "ESTALE" and step[0] in OF_OPEN_FILES and not change.links(step[1]):
            # The known one of S55: its last name went while this client held nothing of it, its connection being cut.
            return {self}
        expected = getattr(change, step[0])(*step[1:])
        if expected == said:
            states.add(change.state())
        if step[0] == "rename":
            looks = Change(self, program, programs, said)
            if looks.decide_rename(*step[1:]) == said:
                states.add(looks.state())
        return states

    def tree(self):
        """What of it another look shows, where objects may have other numbers: files with all their names, and directories."""
        by_object = {}
        for name, found in sorted(self.names.items()):
            by_object.setdefault(found, []).append(name)
        return sorted((names, list(self.files[found]) if found in self.files else None) for found, names in by_object.items())


class Change:
    """A step of a call of a program on a state. The method of its name returns what the call says."""

    def __init__(self, before, program, programs, said):
        self.names, self.files, self.locks = dict(before.names), dict(before.files), dict(before.locks)
        self.moved, self.looked = set(before.moved), dict(before.looked)
        self.program, self.programs, self.said = program, programs, said

    def state(self):
        return State(self.names, self.files, self.locks, self.looked, frozenset(self.moved))

    def is_directory(self, name):
        return self.names[name] not in self.files

    def links(self, inode):
        return sum(other == inode for other in self.names.values())

    def meet(self, name):
        """Linux knows afterwards where a directory of this name is. What another call finds there, the server may have told."""
        self.moved.discard((self.names.get(name), self.program))

    def create(self, name):
        if name in self.names:
            return "EEXIST"
        # The server chooses the number, and can take one that nothing has any more.
        if not isinstance(self.said, int) or self.links(self.said):
            return "another number"
        self.names[name], self.files[self.said] = self.said, ()
        return self.said

    def open(self, name):
        self.meet(name)
        if name not in self.names:
            return "ENOENT"
        return "EISDIR" if self.is_directory(name) else self.names[name]

    def look(self, name):
        """The first step of a call: what it finds, it goes on with."""
        self.looked[self.program] = self.names.get(name)
        if self.said != "ESTALE":
            self.meet(name)
        return self.said

    def attributes(self):
        """The second step of stat. Linux takes no lock for both, on a disk neither."""
        found = self.looked.pop(self.program)
        if found is None:
            return "ENOENT"
        if found not in self.files:
            return "directory"
        return [found, len(self.files[found]), self.links(found)]

    def link(self, inode, new):
        if new in self.names:
            return "EEXIST"
        if not self.links(inode):
            return "ENOENT"
        self.names[new] = inode
        return None

    def unlink(self, name):
        if name not in self.names:
            return "ENOENT"
        if self.is_directory(name):
            return "EISDIR"
        del self.names[name]
        return None

    def mkdir(self, name, number):
        if name in self.names:
            return "EEXIST"
        self.names[name] = -number
        return None

    def rmdir(self, name):
        if name not in self.names:
            return "ENOENT"
        if not self.is_directory(name):
            return "ENOTDIR"
        del self.names[name]
        return None

    def rename(self, name, new, flags):
        """The second step of rename, where what is at the names at that moment decides."""
        self.looked.pop(self.program)
        met = [self.names[one] for one in [name, new] if one in self.names]
        if self.said == "ESTALE" and self.may_be_stale(met, name, new):
            return self.said
        if name not in self.names:
            return "ENOENT"
        if flags == EXCHANGE:
            return self.exchange(name, new)
        refusal = self.refusal(self.names[name], new, flags)
        if refusal is not None or self.names[name] == self.names.get(new):
            return refusal
        self.move(self.names.pop(name), new)
        return None

    def decide_rename(self, _name, new, flags):
        """The second step of rename, where Linux decides by its two looks, and asks no file system. A disk changes nothing
        between them (docs/remote.md)."""
        found = self.looked.pop(self.program)
        if found is None:
            return "ENOENT"
        if flags == EXCHANGE and new not in self.names:
            return "ENOENT"
        refusal = self.refusal(found, new, flags)
        if refusal is not None or found == self.names.get(new):
            return refusal
        return "no refusal"

    def refusal(self, found, new, flags):
        """What of the new name refuses a rename of this object."""
        if flags == EXCHANGE or new not in self.names:
            return None
        if flags == NO_REPLACE:
            return "EEXIST"
        if found == self.names[new] or (found in self.files) == (self.names[new] in self.files):
            return None
        return "EISDIR" if found in self.files else "ENOTDIR"

    def exchange(self, name, new):
        if new not in self.names:
            return "ENOENT"
        old, other = self.names[name], self.names[new]
        self.move(old, new)
        self.move(other, name)
        return None

    def move(self, found, new):
        self.names[new] = found
        if found not in self.files:
            self.moved.update((found, program) for program in range(self.programs) if program != self.program)

    def may_be_stale(self, met, name, new):
        """Where Linux does not know what moved meanwhile (docs/remote.md)."""
        return parent(name) != parent(new) and any((found, self.program) in self.moved for found in met)

    def list(self, above):
        return sorted(name.partition("/")[2] for name in self.names if parent(name) == above)

    def lock(self, kind):
        holder = self.locks.get(kind)
        is_unlocked_late = holder == LATE and self.said == "EAGAIN"
        if holder not in [None, LATE] or is_unlocked_late:
            return "EAGAIN"
        self.locks[kind] = self.program
        return None

    def unlock(self, kind):
        if self.locks.pop(kind, None) != self.program:
            return "not its own"
        return None

    def unlock_late(self, kind):
        """Where connections are cut: the server may hear of it after the call (docs/remote.md)."""
        said = self.unlock(kind)
        self.locks[kind] = LATE
        return said

    def write(self, inode, at, value):
        data = self.files[inode] + (0,) * (at - len(self.files[inode]))
        self.files[inode] = (*data[:at], value, *data[at + 1:])

    def append(self, inode, value):
        self.files[inode] = (*self.files[inode], value)

    def truncate(self, inode, length):
        self.files[inode] = (self.files[inode] + (0,) * length)[:length]

    def read(self, inode):
        return list(self.files[inode])

    def fstat(self, inode):
        return [len(self.files[inode]), self.links(inode)]

    def sync(self, _inode):
        return None


def parent(name):
    return name.partition("/")[0]


def check(histories, found=None):
    """Why no order explains the histories of the programs, or None.

    A history is a list of [round, call, what it said, when it began, when it had returned]. `found` is the tree after it."""
    rounds = [by_round(history) for history in histories]
    states = {State({}, {}, {}, {}, frozenset())}
    for round_ in sorted(set(itertools.chain(*rounds))):
        calls = [history.get(round_, []) for history in rounds]
        before, states = states, search(states, calls)
        if not states:
            return show(round_, before, calls)
    trees = [state.tree() for state in states]
    if found is not None and found not in trees:
        return "\n".join([f"the directory is {found} at the end, and none of:", *map(str, trees)])
    return None


def by_round(history):
    return {round_: list(calls) for round_, calls in itertools.groupby(history, key=lambda call: call[0])}


def search(states, histories):
    """All states that an order of the calls leads to from one of these states."""
    histories = [[step for call in history for step in steps(call)] for history in histories]
    reached = {(0,) * len(histories): states}
    for _ in range(sum(map(len, histories))):
        following = {}
        for position, states_here in reached.items():
            for number, call in may_be_next(histories, position):
                after = set()
                for state in states_here:
                    after |= state.after(number, len(histories), call[1], call[2])
                if after:
                    moved = (*position[:number], position[number] + 1, *position[number + 1:])
                    following.setdefault(moved, set()).update(after)
        reached = following
    return {state.without_nameless() for states_here in reached.values() for state in states_here}


def steps(call):
    """The calls that look a name up and then do something with what they have found are two steps."""
    round_, (kind, *arguments), *rest = call
    if kind == "stat":
        return [[round_, ["look", *arguments], *rest], [round_, ["attributes"], *rest]]
    if kind == "rename":
        return [[round_, ["look", arguments[0]], *rest], [round_, ["rename", *arguments], *rest]]
    return [call]


def may_be_next(histories, position):
    """What began after another call had returned comes after that one."""
    nexts = [(number, history[at]) for number, (history, at) in enumerate(zip(histories, position)) if at < len(history)]
    earliest_end = min(call[4] for _, call in nexts)
    return [(number, call) for number, call in nexts if call[3] <= earliest_end]


def show(round_, states, histories):
    calls = [(number, call) for number, history in enumerate(histories) for call in history]
    calls.sort(key=lambda each: each[1][3])
    first = calls[0][1][3]
    lines = [f"round {round_} cannot be put into an order; before it one of:"]
    lines += [f"  {state.names} {state.files} locks {state.locks} moved {sorted(state.moved)}" for state in states]
    lines += [
        f"  program {number}, {(began - first) / 1e6:.3f} to {(ended - first) / 1e6:.3f} ms: {' '.join(map(str, call))} = {said}"
        for number, (_, call, said, began, ended) in calls
    ]
    return "\n".join(lines)


def read(programs):
    histories = []
    for number in range(programs):
        with open(f"history.{number}", encoding="ascii") as file:
            histories.append([json.loads(line) for line in file])
    return histories


def tree_of(directory):
    """As State.tree, of a real directory."""
    by_object = {}
    for above in ["a", "b"]:
        for entry in sorted(os.scandir(os.path.join(directory, above)), key=lambda entry: entry.name):
            by_object.setdefault(entry.inode(), []).append((f"{above}/{entry.name}", entry))
    tree = []
    for found in by_object.values():
        values = None
        if found[0][1].is_file():
            with open(found[0][1].path, "rb") as file:
                data = file.read()
            values = [int.from_bytes(data[at:at + VALUE_BYTES], "little") for at in range(0, len(data), VALUE_BYTES)]
        tree.append(([name for name, _ in found], values))
    return sorted(tree)


def main(programs, export=None):
    histories = read(int(programs))
    violation = check(histories, tree_of(export) if export else None)
    if violation is not None:
        print(violation)
        sys.exit(1)
    said = [call[2] for history in histories for call in history]
    told = f"{said.count('ESTALE')} say ESTALE as it is documented"
    print(f"{len(said)} calls in an order that one copy explains, {told}")


if __name__ == "__main__":
    main(*sys.argv[1:])
