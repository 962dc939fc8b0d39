//! Nothing is left of thousands of checkpoints.

use std::fs;
use std::path::Path;
use std::process::Command;

use rustix::process::Pid;

use surmise_testkit::{is_root, tell};

use crate::commands::Commands;
use crate::tracee::Tracee;

/// What a program and its supervisor hold, while the program stands in a call.
#[derive(Debug)]
struct Held {
    /// Vessels, and zombies of them.
    children: usize,
    /// The program, and nothing else.
    children_of_supervisor: usize,
    descriptors: usize,
    descriptors_of_supervisor: usize,
    mappings: usize,
    /// In KiB, as all that follows.
    resident: u64,
    resident_of_supervisor: u64,
    /// Of the program's own data.
    anonymous: u64,
    /// Of that, each page divided by how many processes map it.
    anonymous_proportional: u64,
}

impl Held {
    fn now(program: Pid) -> Self {
        let own = rustix::process::getpid();
        let rollup = read(program, "smaps_rollup");
        Self {
            children: words(program, &children(program)),
            children_of_supervisor: words(own, &children(own)),
            descriptors: entries(program, "fd"),
            descriptors_of_supervisor: entries(own, "fd"),
            mappings: read(program, "maps").lines().count(),
            resident: kib(&rollup, "Rss:"),
            resident_of_supervisor: kib(&read(own, "status"), "VmRSS:"),
            anonymous: kib(&rollup, "Anonymous:"),
            anonymous_proportional: kib(&rollup, "Pss_Anon:"),
        }
    }
}

/// How much more may be resident, in KiB: what allocators keep, and what is read of files.
const SLACK: u64 = 512;

pub fn nothing_is_left(programs: &Path) {
    let rounds = if is_root() { 10_000 } else { 2_000 };
    tell(format_args!(
        "{rounds} checkpoints, of which one in four is affirmed"
    ));
    let program = &programs.join("rounds");
    let (mut early, mut late) = (None, None);
    let mut commands = Commands::new(1).between(|discards, program| {
        if discards == rounds / 10 && early.is_none() {
            early = Some(Held::now(program));
        }
        // Not at the end, when the program has told how it went, and has a buffer for that.
        if discards == rounds - 1 {
            late = Some(Held::now(program));
        }
    });
    let number = rounds.to_string();
    let mut command = Command::new(program);
    let mut tracee = Tracee::start(command.args([&number, "16", "8", "0"]), None);
    let (output, status) = tracee.run(&mut commands);
    assert_eq!((output.as_str(), status), ("rounds ok\n", Some(0)));
    assert_eq!(commands.rollbacks, rounds - rounds / 4);
    drop(commands);
    let (early, late) = (early.expect("a tenth"), late.expect("the end"));
    let told = format!("{early:?}, then {late:?}");
    assert_eq!(late.children, 0, "vessels: {told}");
    assert_eq!(late.children_of_supervisor, 1, "{told}");
    assert_eq!(late.descriptors, early.descriptors, "{told}");
    assert_eq!(
        late.descriptors_of_supervisor, early.descriptors_of_supervisor,
        "{told}"
    );
    assert_eq!(late.mappings, early.mappings, "{told}");
    assert!(late.resident <= early.resident + SLACK, "{told}");
    assert!(
        late.resident_of_supervisor <= early.resident_of_supervisor + SLACK,
        "{told}"
    );
    // No page of the program has another owner: those of the vessels are free.
    assert_eq!(late.anonymous_proportional, late.anonymous, "{told}");
}

fn read(process: Pid, name: &str) -> String {
    let path = format!("/proc/{}/{name}", process.as_raw_nonzero());
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn children(process: Pid) -> String {
    format!("task/{}/children", process.as_raw_nonzero())
}

fn words(process: Pid, name: &str) -> usize {
    read(process, name).split_ascii_whitespace().count()
}

fn entries(process: Pid, name: &str) -> usize {
    let path = format!("/proc/{}/{name}", process.as_raw_nonzero());
    fs::read_dir(path).expect("list").count()
}

fn kib(text: &str, field: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(field));
    let number = line.and_then(|line| line.split_ascii_whitespace().next());
    number.expect(field).parse().expect(field)
}
