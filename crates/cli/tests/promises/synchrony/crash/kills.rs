//! S34: whatever of the domain is killed, it ends, and what was shown by then is durable: the power may fail
//! at once.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use surmise_testkit::{BlockLog, surmise_binary, tell};

use super::ledger::states;
use super::programs::{LINES, Program, ROLLBACK};
use super::trial::Trial;
use super::{DISK_BYTES, limit, named};

/// How long the last process of a domain may take to end.
const END_LIMIT: Duration = Duration::from_secs(60);

/// Control, which the caller started, has the name of the command.
const CONTROL: &str = "surmise";

/// The processes of a domain, by the names they give themselves.
const VICTIMS: [&str; 4] = [CONTROL, "surmise-super", "surmise-relay", "surmise-init"];

/// After how many shown lines.
const MOMENTS: [usize; 3] = [1, 7, 20];

/// Seconds after each line, so that the program is still there when it is seen.
const PAUSE: &str = "0.02";

/// Something of the domain is killed while the command runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kill {
    /// The name of the process.
    victim: &'static str,
    /// When so many lines have been shown.
    pub(super) after: usize,
}

/// A process whose end is waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Process {
    pid: i32,
    name: String,
    /// A pid that is used again has another one.
    started: String,
}

impl Process {
    /// What `/proc` tells of it and its parent; `None` once it has ended.
    fn look(pid: i32) -> Option<(Self, i32)> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let (before, after) = stat.rsplit_once(") ")?;
        let words: Vec<_> = after.split(' ').collect();
        // A zombie has let go of everything; its parent may be any process of the machine.
        if words[0] == "Z" || words[0] == "X" {
            return None;
        }
        let process = Self {
            pid,
            name: before.split_once('(')?.1.to_owned(),
            started: (*words.get(19)?).to_owned(),
        };
        Some((process, words[1].parse().ok()?))
    }

    fn is_there(&self) -> bool {
        Self::look(self.pid).is_some_and(|(now, _)| now == *self)
    }
}

/// The process and all that descend from it.
fn family(root: i32) -> Vec<Process> {
    let entries = fs::read_dir("/proc").expect("list /proc").flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let all: Vec<_> = pids.filter_map(Process::look).collect();
    let mut known = vec![root];
    let mut at = 0;
    while let Some(parent) = known.get(at).copied() {
        let children = all.iter().filter(|(_, of)| *of == parent);
        known.extend(children.map(|(child, _)| child.pid));
        at += 1;
    }
    let members = all.into_iter().map(|(process, _)| process);
    members
        .filter(|process| known.contains(&process.pid))
        .collect()
}

impl Kill {
    /// Kills the victim and waits for the end of the whole domain.
    pub(super) fn strike(self, control: u32) {
        let control = i32::try_from(control).expect("a pid");
        let family = family(control);
        let is_victim = |process: &&Process| match self.victim {
            CONTROL => process.pid == control,
            name => process.name == name,
        };
        let victim = family
            .iter()
            .find(is_victim)
            .unwrap_or_else(|| panic!("no {} among {family:?}", self.victim));
        let pid = Pid::from_raw(victim.pid).expect("a pid");
        kill_process(pid, Signal::KILL).expect("kill");
        let deadline = Instant::now() + END_LIMIT;
        while let Some(left) = family.iter().find(|process| process.is_there()) {
            assert!(Instant::now() < deadline, "{left:?} is left after {self:?}");
            thread::sleep(Duration::from_millis(2));
        }
    }
}

fn nothing_shown_is_lost(test: &str, program: &Program) {
    let name = named(&format!("kills::{test}"));
    BlockLog::with(&name, DISK_BYTES, limit(), |disk| {
        let binary = surmise_binary().display().to_string();
        let command = program.command(&[&binary, "sync", "--"], &["sync", "10", PAUSE]);
        for victim in VICTIMS {
            for after in MOMENTS {
                let kill = Kill { victim, after };
                let found = Trial {
                    program,
                    command: &command,
                    options: "data=journal",
                    kill: Some(kill),
                    // The kills share the states.
                    states: states().div_ceil(VICTIMS.len() * MOMENTS.len()),
                }
                .run(disk);
                tell(format_args!("{test}: {kill:?}: {found:?}"));
                assert_eq!(found.wrong(), 0, "{kill:?}: {found:?}");
            }
        }
    });
}

#[test]
fn lines_shown_before_a_kill_are_there() {
    nothing_shown_is_lost("lines_shown_before_a_kill_are_there", &LINES);
}

#[test]
fn transactions_shown_before_a_kill_are_there() {
    nothing_shown_is_lost("transactions_shown_before_a_kill_are_there", &ROLLBACK);
}
