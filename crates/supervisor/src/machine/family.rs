//! Parents and children: who could tell a process that stands still at its exit from one that has ended.

use std::collections::HashMap;
use std::io;

use rustix::process::{Pid, Signal, getpgid, getsid};
use surmise_linux::proc::{self, Stat, Status, Task};
use surmise_sys::memory;

use super::channels::Channels;
use super::last_closes;
use super::seen::Seen;
use super::task;
use crate::call::Call;
use crate::meeting::Ending;
use crate::objects::heed::{Heed, Mask, mask_of};
use crate::objects::wait::{ChildWait, Outlook, Told, Whom};
use crate::world::Kin;

/// Threads that sleep in the kernel until a child ends, as far as is known.
#[derive(Debug, Default)]
pub(super) struct Sleepers(HashMap<Pid, Until>);

/// What such a thread hears of the end by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Until {
    Child,
    Signal,
}

impl Sleepers {
    /// A thread has made a call: it sleeps in no earlier one.
    pub(super) fn heard(&mut self, call: &Call) {
        self.0.remove(&call.thread());
    }

    /// A call happens.
    pub(super) fn happens(&mut self, call: &Call) {
        if ChildWait::of(call).is_some_and(|wait| wait.sleeps) {
            self.0.insert(call.thread(), Until::Child);
        } else if mask_of(call).is_some() {
            self.0.insert(call.thread(), Until::Signal);
        }
    }

    /// Whether a thread of a process may sleep so.
    pub(super) fn are_in(&mut self, process: Pid) -> bool {
        let mut found = false;
        let catches = || Status::of(process).is_ok_and(|status| status.catches(Signal::CHILD));
        self.0.retain(
            |&thread, until| match task::process_of(thread).ok().flatten() {
                Some(of) => {
                    found |= of == process && (*until == Until::Child || catches());
                    true
                }
                None => false,
            },
        );
        found
    }
}

/// How many pid namespaces the supervisor sees a process in that is in the domain's own: the supervisor's and the domain's.
const DEPTH: usize = 2;

/// How a member would end by a call, if nobody but its parent can tell that it stands still instead.
pub(super) fn ending(
    process: Pid,
    call: &Call,
    kin: &Kin,
    (seen, channels): (&Seen, &Channels),
) -> io::Result<Option<Ending>> {
    let status = Status::of(process)?;
    let (Some(parent), Some(number)) = (status.parent(), status.inner()) else {
        return Ok(None);
    };
    if status.threads() != 1 || seen.may_notice_ends() || !seen.is_parent(parent) {
        return Ok(None);
    }
    let depth = status.pid_namespaces();
    // A parent is in its child's pid namespace or in one around that. Around the domain's own is no process of the domain.
    let is_near = depth <= DEPTH || Status::of(parent)?.pid_namespaces() == depth;
    // The end of a session's leader is told to all of the session.
    let leads = getsid(Some(process))? == process;
    if !is_near || leads || !tells_by_signal(process)? {
        return Ok(None);
    }
    if has_children(process, kin)?
        || last_closes::are_noticed(process, &kin.vessels, (seen, channels))?
    {
        return Ok(None);
    }
    Ok(Some(Ending {
        parent,
        number: number_of(number),
        status: call.arguments()[0] as u8,
    }))
}

/// Whether a process tells its parent of its end by SIGCHLD, as a child does that is no vessel.
pub(super) fn tells_by_signal(process: Pid) -> io::Result<bool> {
    Ok(Stat::of(process)?.tells_by_signal())
}

/// Whether a process has executed a program since its birth.
pub(super) fn has_executed(process: Pid) -> io::Result<bool> {
    Ok(Stat::of(process)?.has_executed())
}

/// Whether a member with one thread has children that would be somebody else's after its end, and that are no vessels.
fn has_children(process: Pid, kin: &Kin) -> io::Result<bool> {
    let thread = process;
    for child in proc::children(Task { process, thread })? {
        if !kin.has(child) && !task::is_zombie(child, child).unwrap_or(true) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn children(process: Pid) -> io::Result<Vec<Pid>> {
    let mut children = Vec::new();
    for thread in proc::threads(process)? {
        children.extend(proc::children(Task { process, thread })?);
    }
    Ok(children)
}

/// The children of a process that have ended and wait to be reaped, vessels left out.
pub(super) fn zombies(process: Pid) -> io::Result<Vec<Pid>> {
    let mut zombies = children(process)?;
    zombies.retain(|&child| {
        Stat::of(child).is_ok_and(|stat| stat.is_zombie() && stat.tells_by_signal())
    });
    Ok(zombies)
}

/// A child that has ended with which a caller is content and that its process has not collected, and the child's number where that is.
pub(super) fn ended(call: &Call, whom: Whom, kin: &Kin) -> io::Result<Option<(Pid, u64)>> {
    let status = Status::of(call.thread())?;
    let Some(process) = task::process_of(call.thread())?.filter(|_| !status.ignores(Signal::CHILD))
    else {
        return Ok(None);
    };
    for child in zombies(process)? {
        if !kin.collected.contains(&child) && is_content(call, whom, child)? {
            let number = Status::of(child)?.inner();
            return Ok(number.map(|number| (child, number_of(number))));
        }
    }
    Ok(None)
}

fn number_of(process: Pid) -> u64 {
    process.as_raw_nonzero().get().unsigned_abs().into()
}

/// Whether a call is content with a child.
pub(super) fn is_content(call: &Call, whom: Whom, child: Pid) -> io::Result<bool> {
    let is_numbered =
        |found: Option<Pid>, number| found.is_some_and(|found| number_of(found) == number);
    Ok(match whom {
        Whom::Any => true,
        Whom::One(number) => is_numbered(Status::of(child)?.inner(), number),
        Whom::OwnGroup => getpgid(Some(call.thread()))? == getpgid(Some(child))?,
        Whom::Group(group) => is_numbered(Status::of(child)?.inner_group(), group),
    })
}

/// Whether a caller can be told now of the end of a child: by its memory, and by a signal that it takes at once or not at
/// all.
pub(super) fn may_be_told(call: &Call, told: &Told, seen: &Seen) -> io::Result<bool> {
    if seen.may_notice_ends() || seen.reaps_by_itself() {
        return Ok(false);
    }
    let status = Status::of(call.thread())?;
    if status.ignores(Signal::CHILD) {
        return Ok(false);
    }
    Ok(told.memory.iter().all(|(address, bytes)| {
        let mut there = vec![0; bytes.len()];
        memory::read(call.thread(), *address, &mut there).is_ok()
            && memory::write(call.thread(), *address, &there).is_ok()
    }))
}

/// What becomes of a signal that tells a thread of the end of a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// It takes the signal.
    Taken,
    /// The signal waits until the thread takes it.
    Waits,
    /// The thread does not notice it.
    Nowhere,
}

/// What becomes of the signal now that tells a thread of the end of a child.
pub(super) fn way_of_signal(thread: Pid) -> io::Result<Way> {
    let status = Status::of(thread)?;
    Ok(match status.blocks(Signal::CHILD) {
        true => Way::Waits,
        false if status.catches(Signal::CHILD) => Way::Taken,
        false => Way::Nowhere,
    })
}

/// What a call makes of a signal of this number, were it to come now.
pub(super) fn heeds(call: &Call, number: u32) -> io::Result<Heed> {
    let status = Status::of(call.thread())?;
    // Without a mask that can be read the call fails by itself.
    if is_let_in(call, &status, number) != Some(true) || !status.catches_number(number) {
        return Ok(Heed::None);
    }
    Ok(
        match (status.has_waiting(number), status.blocks_number(number)) {
            (true, _) => Heed::Waiting,
            (false, true) => Heed::Within,
            (false, false) => Heed::Interrupted,
        },
    )
}

/// Whether a call lets in a signal of this number while it sleeps, by the mask of signals that it has; `None` where it has no such mask.
pub(super) fn is_let_in(call: &Call, status: &Status, number: u32) -> Option<bool> {
    let place = 1_u64 << (number - 1);
    let thread = call.thread();
    let word = |address| task::word(thread, address).ok();
    let blocks = || Some(status.blocks_number(number));
    let is_blocked = match mask_of(call)? {
        Mask::Own | Mask::At(0) | Mask::Behind(0) => blocks(),
        Mask::At(address) => word(address).map(|mask| mask & place != 0),
        Mask::Behind(behind) => word(behind).and_then(|address| match address {
            0 => blocks(),
            _ => word(address).map(|mask| mask & place != 0),
        }),
    };
    Some(is_blocked == Some(false))
}

/// Whether a process does not notice the signal that tells it of the end of a child, which it does not block: by default
/// it is ignored.
pub(super) fn ignores_ends(thread: Pid) -> io::Result<bool> {
    Ok(!Status::of(thread)?.catches(Signal::CHILD))
}

/// What becomes of a call by which a member waits for its children, if none of those that it is content with has ended
/// without the member's knowing.
pub(super) fn childless(
    process: Pid,
    call: &Call,
    wait: ChildWait,
    kin: &Kin,
) -> io::Result<Outlook> {
    let mut has_any = false;
    for child in children(process)? {
        if kin.has(child) {
            continue;
        }
        let stat = Stat::of(child).ok();
        let is_none = stat.as_ref().is_some_and(|stat| !stat.tells_by_signal());
        if is_none || !is_content(call, wait.whom, child)? {
            continue;
        }
        if stat.is_none_or(|stat| stat.is_zombie()) {
            return Ok(Outlook::Unknown);
        }
        has_any = true;
    }
    Ok(match (has_any, wait.sleeps) {
        (false, _) => Outlook::Told(wait.told_none()),
        // It might have been told of a stop.
        (true, _) if wait.tells_of_stops => Outlook::Unknown,
        (true, false) => Outlook::Told(wait.told_nothing()),
        (true, true) => Outlook::Sleeps,
    })
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    use surmise_sys::seccomp::Notification;
    use surmise_syscalls::{Syscall, row_of};

    use super::*;

    #[test]
    fn a_child_that_has_ended_waits_to_be_reaped_and_tells_by_a_signal() {
        let own = rustix::process::getpid();
        let mut child = Command::new("true").spawn().expect("a child");
        let pid = Pid::from_raw(child.id() as i32).expect("a number");
        assert!(tells_by_signal(pid).expect("look"));
        let begun = Instant::now();
        while !zombies(own).expect("look").contains(&pid) {
            assert!(begun.elapsed() < Duration::from_secs(10), "it does not end");
            std::thread::yield_now();
        }
        child.wait().expect("reap");
        assert!(!zombies(own).expect("look").contains(&pid));
    }

    #[test]
    fn a_shells_child_has_executed_nothing_until_it_executes_a_program() {
        let child_of = |script| {
            let mut shell = Command::new("sh");
            let mut shell = shell.args(["-c", script]).stdin(Stdio::piped()).spawn();
            let shell = shell.as_mut().expect("a shell");
            let pid = Pid::from_raw(shell.id() as i32).expect("a number");
            let begun = Instant::now();
            // It reads until its input is closed.
            let has = loop {
                assert!(begun.elapsed() < Duration::from_secs(10), "{script}");
                let found = children(pid).expect("look");
                let name = found.first().and_then(|child| proc::name(*child).ok());
                match (found.first(), name) {
                    (Some(child), Some(name)) if script.contains(&name) => {
                        break has_executed(*child).expect("look");
                    }
                    _ => std::thread::yield_now(),
                }
            };
            assert!(has_executed(pid).expect("look"), "the shell itself");
            drop(shell.stdin.take());
            shell.wait().expect("its end");
            has
        };
        assert!(child_of("cat; :"));
        assert!(!child_of("(read sh); :"));
    }

    /// What becomes of a call by which a shell waits for children, with each of these options, once there are those that
    /// `awaited` finds.
    fn outlooks(
        script: &str,
        options: &[u64],
        awaited: impl Fn(Pid) -> Option<i32>,
    ) -> Vec<Outlook> {
        let mut shell = Command::new("sh");
        let shell = shell.args(["-c", script]).stdin(Stdio::piped());
        // What it executes reads until it is dropped.
        let mut shell = shell.spawn().expect("a shell");
        let pid = Pid::from_raw(shell.id() as i32).expect("a number");
        let begun = Instant::now();
        let whom = loop {
            if let Some(whom) = awaited(pid) {
                break whom;
            }
            assert!(begun.elapsed() < Duration::from_secs(10), "{script}");
            std::thread::yield_now();
        };
        let outlooks = options.iter().map(|&options| {
            let row = row_of(Syscall::Wait4);
            let notification = Notification {
                id: 0,
                thread: pid,
                number: row.number(),
                arguments: [whom as u64, 0, options, 0, 0, 0],
                instruction_pointer: 0,
            };
            let call = Call { notification, row };
            let wait = ChildWait::of(&call).expect("a wait");
            childless(pid, &call, wait, &Kin::default()).expect("look")
        });
        let outlooks = outlooks.collect();
        drop(shell.stdin.take());
        shell.wait().expect("its end");
        outlooks
    }

    /// Nothing, WNOHANG, WUNTRACED of wait4(2).
    const OPTIONS: [u64; 3] = [0, 1, 2];
    /// Any child, for wait4(2).
    const ALL: i32 = -1;

    fn are_those_of_one_that_runs(outlooks: &[Outlook]) {
        let [Outlook::Sleeps, Outlook::Told(told), Outlook::Unknown] = outlooks else {
            panic!("{outlooks:?}");
        };
        assert_eq!(told.result, 0);
    }

    #[test]
    fn a_call_sleeps_for_a_child_only_while_all_children_run() {
        let has_child = |shell| (!children(shell).expect("look").is_empty()).then_some(ALL);
        are_those_of_one_that_runs(&outlooks("cat; :", &OPTIONS, has_child));
        let has_zombie = |shell| (!zombies(shell).expect("look").is_empty()).then_some(ALL);
        let ended = outlooks("true & exec cat", &OPTIONS, has_zombie);
        assert!(ended.iter().all(|outlook| *outlook == Outlook::Unknown));
        let none = outlooks("exec cat", &OPTIONS[..2], |_| Some(ALL));
        let is_none = |outlook: &Outlook| matches!(outlook, Outlook::Told(told) if told.result < 0);
        assert!(none.iter().all(is_none), "{none:?}");
    }

    #[test]
    fn a_child_that_has_ended_is_nothing_to_a_call_that_asks_for_another() {
        let other_than_zombie = |shell| {
            let zombies = zombies(shell).expect("look");
            let others = children(shell).expect("look");
            let other = others.iter().find(|child| !zombies.contains(child));
            let other = other.map(|other| other.as_raw_nonzero().get());
            other.filter(|_| zombies.len() == 1)
        };
        let script = "exec 3<&0; true & cat <&3 & exec cat";
        are_those_of_one_that_runs(&outlooks(script, &OPTIONS, other_than_zombie));
    }
}
