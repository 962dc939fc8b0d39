//! Signals that a process sends, to itself or to another one.

use std::io;

use rustix::process::{Pid, Signal};
use surmise_linux::proc::{Status, namespace};
use surmise_syscalls::Syscall;

use super::Met;
use crate::machine::task;
use crate::meeting::{Meeting, Sending};

/// Signals that do nothing but have a process take them, and that the kernel sends to no thread for what that does itself.
const SENT: [Signal; 14] = [
    Signal::HUP,
    Signal::INT,
    Signal::QUIT,
    Signal::ABORT,
    Signal::USR1,
    Signal::USR2,
    Signal::ALARM,
    Signal::TERM,
    Signal::URG,
    Signal::VTALARM,
    Signal::PROF,
    Signal::WINCH,
    Signal::IO,
    Signal::POWER,
];

pub(super) fn meet(met: &Met<'_>) -> io::Result<Meeting> {
    let Some((number, signal)) = meant(met.name, &met.arguments) else {
        return Ok(Meeting::Wait);
    };
    let is_sent = |kind: &Signal| kind.as_raw().cast_unsigned() == signal;
    if signal != 0 && !SENT.iter().any(is_sent) {
        return Ok(Meeting::Wait);
    }
    Ok(match receiver(met, number)? {
        Some(to) if would_take(to, signal)? => Meeting::Signal(Sending { to, number: signal }),
        _ => Meeting::Wait,
    })
}

/// To which one process or thread a call sends which signal, by its number where the caller is.
fn meant(name: Syscall, arguments: &[u64; 6]) -> Option<(i32, u32)> {
    // The kernel looks at the lower halves of the registers alone.
    let [first, second, third] = [0, 1, 2].map(|place| arguments[place] as u32);
    let (number, signal) = match name {
        Syscall::Kill | Syscall::Tkill => (first, second),
        // The first thread of a process has its number.
        Syscall::Tgkill if first == second => (first, third),
        _ => return None,
    };
    let number = number as i32;
    (number > 0).then_some((number, signal))
}

/// The process of that number where the caller is, as it is known here.
fn receiver(met: &Met<'_>, number: i32) -> io::Result<Option<Pid>> {
    let number = Pid::from_raw(number);
    let is_it = |process: Pid| {
        let status = Status::of(process);
        status.is_ok_and(|status| status.inner() == number) && is_near(met.process, process)
    };
    if is_it(met.process) {
        return Ok(Some(met.process));
    }
    let parent = task::parent_of(met.process)?;
    if let Some(parent) =
        parent.filter(|parent| met.known.seen.is_parent(*parent) && is_it(*parent))
    {
        return Ok(Some(parent));
    }
    let mut tasks = met.known.seen.bystanders().tasks()?;
    // A process comes with each of its threads.
    tasks.dedup_by_key(|(process, _)| *process);
    let mut processes = tasks.into_iter().map(|(process, _)| process);
    Ok(processes.find(|process| is_it(*process)))
}

/// Whether processes know each other, and users, by the same numbers.
fn is_near(one: Pid, other: Pid) -> bool {
    let is_same = |kind| match (namespace(one, kind), namespace(other, kind)) {
        (Ok(one), Ok(other)) => one == other,
        _ => false,
    };
    one == other || is_same("pid") && is_same("user")
}

/// Whether a process would take a signal at once, as far as is seen while it runs. A caller that only asks finds the process there.
fn would_take(to: Pid, signal: u32) -> io::Result<bool> {
    let status = Status::of(to)?;
    if signal == 0 {
        return Ok(!matches!(status.state(), None | Some('Z' | 'X')));
    }
    // One whose job is stopped takes a signal only when it goes on.
    let runs = !matches!(status.state(), None | Some('T' | 'Z' | 'X'));
    if status.threads() != 1 || !runs {
        return Ok(false);
    }
    let is_noticed = status.catches_number(signal) || status.ignores_number(signal);
    let is_at_once = !status.blocks_number(signal) && !status.has_waiting(signal);
    Ok(is_noticed && is_at_once)
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn only_a_call_to_one_process_says_whom_it_means() {
        const ALL: u64 = u64::MAX;
        let meant = |name, [first, second, third]: [u64; 3]| {
            meant(name, &[first, second, third, ALL, ALL, ALL])
        };
        // The upper halves of the registers are nothing to the kernel.
        let high = 7 << 32;
        assert_eq!(
            meant(Syscall::Kill, [high | 42, high | 10, ALL]),
            Some((42, 10))
        );
        assert_eq!(meant(Syscall::Tkill, [42, 0, ALL]), Some((42, 0)));
        assert_eq!(meant(Syscall::Tgkill, [42, 42, 12]), Some((42, 12)));
        assert_eq!(meant(Syscall::Tgkill, [42, 43, 12]), None, "another thread");
        for group in [0, ALL, 42_u64.wrapping_neg()] {
            assert_eq!(meant(Syscall::Kill, [group, 10, ALL]), None);
        }
        assert_eq!(meant(Syscall::RtSigqueueinfo, [42, 10, 64]), None);
    }

    #[test]
    fn a_signal_is_taken_at_once_by_who_catches_or_ignores_it() {
        const CAUGHT: u32 = 10;
        const IGNORED: u32 = 12;
        const DEADLY: u32 = 1;
        let mut shell = Command::new("sh");
        let script = "trap : USR1; trap '' USR2; read line";
        let shell = shell.args(["-c", script]).stdin(Stdio::piped());
        let mut shell = shell.spawn().expect("a shell");
        let pid = Pid::from_child(&shell);
        let takes = |number| would_take(pid, number).expect("look");
        let begun = Instant::now();
        while !takes(IGNORED) {
            assert!(begun.elapsed() < Duration::from_secs(10), "it never does");
            std::thread::yield_now();
        }
        assert!(takes(CAUGHT) && takes(0) && !takes(DEADLY));
        drop(shell.stdin.take());
        while takes(0) {
            assert!(begun.elapsed() < Duration::from_secs(20), "it goes on");
            std::thread::yield_now();
        }
        shell.wait().expect("wait");
    }
}
