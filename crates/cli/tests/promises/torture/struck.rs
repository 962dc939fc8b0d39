//! S31: somebody outside kills processes of a domain that speculates. Each kill is final, and the parent is told of it.
//!
//! `SURMISE_KILLS=200` shares so many kills among the kinds of guesses; without it, there are a few.

use std::os::fd::OwnedFd;
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use rustix::time::Timespec;
use surmise_linux::proc::{self, Entry, Task};
use surmise_testkit::{Outcome, tell};

use crate::setting::{Setting, as_each_user};

/// How long a process may take to end that was killed, or whose domain has ended.
const ENDING: Duration = Duration::from_secs(10);

/// Guesses that are right, that are wrong now and then, and that are all wrong.
const GUESSES: [[&str; 2]; 3] = [
    ["--predict-right", "1:30ms"],
    ["--predict-right", "1:30ms:0.2"],
    ["--torture", "7:0.1"],
];

/// Whatever is undecided then, be it its birth.
#[test]
fn a_process_that_is_killed_from_outside_has_ended_so() {
    as_each_user(|setting| {
        for guesses in GUESSES {
            let kills = kills() / GUESSES.len();
            // A child is born by one that speculates, bears others, and ends in no other way.
            let child = "(while test -e /etc/passwd; do cat /etc/passwd >copy || exit 4; done)";
            let script = format!(
                "n=0; while [ $n -lt {kills} ]; do test -e /usr; {child}; echo $?; n=$((n + 1)); done"
            );
            let (outcome, needed) = strike(setting, guesses, &script);
            outcome.assert_code(0);
            outcome.assert_stdout(&"137\n".repeat(kills));
            tell(format_args!("{guesses:?}: {needed} kills"));
            // One more is needed only where a child was killed that should never have been born.
            assert!(needed == kills || guesses != GUESSES[0]);
        }
    });
}

/// Runs a script, kills its children as long as it runs, and waits until none of the domain's processes is left. Returns how
/// many were killed, too.
fn strike(setting: &Setting, guesses: [&str; 2], script: &str) -> (Outcome, usize) {
    // By this its processes are found.
    let mark = setting.scratch.root().display().to_string();
    let script = format!("{script} # {mark}");
    let [option, value] = guesses;
    let arguments = ["run", "--dry-run", option, value, "--", "sh", "-c", &script];
    let mut seen = Vec::new();
    let (outcome, kills) = thread::scope(|scope| {
        let run = scope.spawn(|| setting.surmise(&arguments).outcome());
        let mut kills = 0;
        while !run.is_finished() {
            kills += usize::from(kill_one(&mark, kills, &mut seen));
        }
        (run.join().expect("an outcome"), kills)
    });
    await_ends(&seen);
    (outcome, kills)
}

/// False if there was none to be killed, or it has ended before.
fn kill_one(mark: &str, kills: usize, seen: &mut Vec<OwnedFd>) -> bool {
    thread::sleep(Duration::from_millis(1));
    let Some(init) = init(mark) else {
        return false;
    };
    // What pid 1 starts is a copy of it at first.
    let is_command = |child: &Pid| proc::name(*child).is_ok_and(|name| name == "sh");
    let command = children(init).into_iter().find(is_command);
    let of_command = command.map_or(Vec::new(), children);
    let Some(victim) = of_command.into_iter().find(|&child| !is_vessel(child)) else {
        return false;
    };
    let Ok(held) = pidfd_open(victim, PidfdFlags::empty()) else {
        return false;
    };
    // At moments of all kinds: 37 and 61 have no divisor in common.
    thread::sleep(Duration::from_millis(37 * (kills as u64 + 1) % 61));
    let below = descendants(init).into_iter();
    *seen = below
        .filter_map(|one| pidfd_open(one, PidfdFlags::empty()).ok())
        .collect();
    if has_ended(&held) || pidfd_send_signal(&held, Signal::KILL).is_err() {
        return false;
    }
    await_ends(std::slice::from_ref(&held));
    true
}

fn await_ends(processes: &[OwnedFd]) {
    let begun = Instant::now();
    while !processes.iter().all(has_ended) {
        assert!(begun.elapsed() < ENDING, "processes are left");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Pid 1 of the domain whose command line has a mark.
pub(super) fn init(mark: &str) -> Option<Pid> {
    let is_marked = |process: &Pid| {
        let line = Entry::from(*process).read("cmdline").unwrap_or_default();
        String::from_utf8_lossy(&line).contains(mark)
    };
    let is_init = |process: &Pid| proc::name(*process).is_ok_and(|name| name == "surmise-init");
    let mut all = proc::processes().expect("list /proc").into_iter();
    all.find(|process| is_init(process) && is_marked(process))
}

pub(super) fn children(process: Pid) -> Vec<Pid> {
    let threads = proc::threads(process).unwrap_or_default().into_iter();
    let listed = threads.flat_map(|thread| proc::children(Task { process, thread }));
    listed.flatten().collect()
}

fn descendants(process: Pid) -> Vec<Pid> {
    let mut all = children(process);
    let mut next = 0;
    while let Some(&one) = all.get(next) {
        all.extend(children(one));
        next += 1;
    }
    all
}

/// Whether a process holds an image: its parent would not be told of its end by a signal (proc_pid_stat(5)).
fn is_vessel(process: Pid) -> bool {
    /// Where `exit_signal` is, from the state on.
    const PLACE: usize = 35;
    let stat = Entry::from(process).read("stat").unwrap_or_default();
    let stat = String::from_utf8_lossy(&stat);
    let fields = stat.rsplit_once(')').map(|(_, fields)| fields);
    fields.and_then(|fields| fields.split_ascii_whitespace().nth(PLACE)) == Some("0")
}

/// Whether a process has ended, be it a zombie.
fn has_ended(process: &OwnedFd) -> bool {
    let mut events = [PollFd::new(process, PollFlags::IN)];
    rustix::event::poll(&mut events, Some(&Timespec::default())) != Ok(0)
}

/// How many there are to be.
fn kills() -> usize {
    let wanted = std::env::var("SURMISE_KILLS");
    wanted.map_or(12, |count| {
        count.parse().expect("SURMISE_KILLS is a number")
    })
}
