//! The suite `speculation`: what predictions cost that are right, and are decided 30 ms later as they would be
//! if a server far away had to be asked. The time that calls wait for a decision is what there is to save.

use super::{Row, What};
use crate::command::{Command, Peer, Timing};
use crate::hearing::{Hearing, Listener};
use crate::inputs::{Input, Made};
use crate::limit::Limit;

/// Each call that can be predicted is.
const RIGHT: &[&str] = &["--predict-right", "1:30ms", "--json", "--stats"];

/// As many calls are predicted as leave the programs something to do between two wrong ones, and a tenth is wrong.
const TENTH_WRONG: &[&str] = &["--predict-right", "0.05:30ms:0.1", "--json", "--stats"];
const TWENTIETH_RIGHT: &[&str] = &["--predict-right", "0.05:30ms", "--json", "--stats"];

const RECORD: &str = "git add . && git commit --quiet --message=All";

/// What a script does with ordinary tools: each stage is a process of its own, and there are three such lines.
const PIPELINE: &str = "set -e
for word in value static File; do
    find . -name '*.c' | sort | xargs cat | grep \"$word\" | tr -cs 'a-z0-9' '\\n' | sort | uniq -c |
        sort -rn | sed -n '1,20p' >\"$word.txt\"
done
cat ./*.txt | wc -l";

/// It talks to each program through pipes, and waits for its end.
const SUBPROCESSES: &str = "\
import subprocess
for number in range(10):
    told = subprocess.run(['wc', '-c'], input=b'x' * 1000, capture_output=True, check=True)
    assert told.stdout.split() == [b'1000']
    subprocess.check_call(['true'])
";

/// In ns, as it was before there was one supervisor.
const HEARD: Limit = Limit::OursMax(3700.0);

#[rustfmt::skip]
pub(super) const SPECULATION: &[Row] = &[
    right("make-lua-right", Input::Package("lua5.4"), &["make", "--silent", "-j2", "generic"]),
    right("git-commit-right", Input::Copy(Made::Unrecorded(50)), &["sh", "-c", RECORD]),
    right("pipeline-right", Input::Copy(Made::Tree(50)), &["sh", "-c", PIPELINE]),
    right("subprocess-right", Input::Empty, &["/usr/bin/python3", "-c", SUBPROCESSES]),
    right("cargo-right", Input::Copy(Made::Crate), &["cargo", "build", "--quiet", "--offline"]),
    wrong("subprocess-wrong", Input::Empty, &["/usr/bin/python3", "-c", SUBPROCESSES]),
    hearing("call-heard", Listener::Supervisor, Listener::Filter, HEARD),
    hearing("call-unheard", Listener::Filter, Listener::Nobody, Limit::None),
];

const fn right(test: &'static str, input: Input, inside: &'static [&'static str]) -> Row {
    of(test, input, inside, [RIGHT, &[]])
}

/// Beside the same predictions without wrong ones: what is left is what those cost.
const fn wrong(test: &'static str, input: Input, inside: &'static [&'static str]) -> Row {
    of(test, input, inside, [TENTH_WRONG, TWENTIETH_RIGHT])
}

const fn of(
    test: &'static str,
    input: Input,
    inside: &'static [&'static str],
    [options, peer]: [&'static [&'static str]; 2],
) -> Row {
    Row {
        test,
        what: What::Command(Command {
            options,
            inside,
            peer: Peer::Options(peer),
            timing: Timing::Whole(1),
            input,
            cold: None,
        }),
        limit: Limit::None,
        processor_limit: Limit::None,
        pairs_max: u32::MAX,
    }
}

const fn hearing(test: &'static str, ours: Listener, peer: Listener, limit: Limit) -> Row {
    Row {
        test,
        what: What::Hearing(Hearing { ours, peer }),
        limit,
        processor_limit: Limit::None,
        pairs_max: u32::MAX,
    }
}
