//! What holds for copies that a stopped thread is made to make: behaviours 3 and 13.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use rustix::event::PollFlags;
use rustix::pipe::PipeFlags;
use rustix::process::Pid;

use super::Deviation;
use super::task::{Task, Vessel, end_with, ensure, events, interrupted};
use crate::process;
use crate::ptrace::call::{CLOSE, WAIT_ALL, WAIT4};

const ANY_CHILD: u64 = u64::MAX;
const AT_ONCE: u64 = libc::WNOHANG as u64;
const NO_CHILD: i64 = -(libc::ECHILD as i64);

/// 3: a vessel is traced from its birth and stopped before its first instruction; it has
/// descriptors of its own until it ends; its maker gets no event of its birth, no signal of its end, and waits for no such child unless it asks
/// for all.
pub(super) fn birth_is_quiet() -> Result<(), Deviation> {
    let (reader, writer) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
    let number = writer.as_raw_fd();
    let task = Task::idle(&[writer.as_fd()], || {})?;
    drop(writer);
    let mut hand = task.halt()?;
    // Whose one stop is its step's, so there was no event.
    let vessel = hand.make_vessel(0)?;
    let born = interrupted(vessel.pid())?;
    let registers = born.registers()?;
    ensure(
        (registers.instruction_pointer(), registers.result()) == (hand.behind_instruction(), 0),
        || "a vessel executes something before it stops".into(),
    )?;
    let result = hand.call(CLOSE, [number as u64, 0, 0, 0, 0, 0])?;
    ensure(result == 0 && events(&reader)?.is_empty(), || {
        "a vessel loses a descriptor that its maker closes".into()
    })?;
    let unseen = |result: i64| {
        ensure(result == NO_CHILD, || {
            format!("wait4 of a vessel's maker returns {result}")
        })
    };
    unseen(hand.call(WAIT4, [ANY_CHILD, 0, AT_ONCE, 0, 0, 0])?)?;
    let inner = i64::from(vessel.pid().as_raw_nonzero().get());
    drop(vessel);
    ensure(events(&reader)? == PollFlags::HUP, || {
        "a vessel that has ended keeps a descriptor open".into()
    })?;
    unseen(hand.call(WAIT4, [ANY_CHILD, 0, AT_ONCE, 0, 0, 0])?)?;
    ensure(task.pending_signals()? == 0, || {
        "a vessel's maker gets a signal of its end".into()
    })?;
    let reaped = hand.call(WAIT4, [inner as u64, 0, WAIT_ALL, 0, 0, 0])?;
    ensure(reaped == inner, || {
        format!("wait4 for a vessel that has ended returns {reaped}")
    })
}

/// 13: /proc lists the children of a thread, the one that it has made last at the end.
pub(super) fn newest_child_is_listed_last() -> Result<(), Deviation> {
    let task = Task::idle(&[], || {
        let parent = rustix::process::getpid();
        let child = process::fork(&[], || {
            if end_with(parent).is_ok() {
                rustix::event::pause();
            }
            0
        });
        // Found missing below.
        drop(child);
    })?;
    let mut hand = task.halt()?;
    let mut expected = children(task.pid())?;
    ensure(expected.len() == 1, || {
        format!("{} of one child are listed", expected.len())
    })?;
    let vessels = [hand.make_vessel(0)?, hand.make_vessel(0)?];
    expected.extend(vessels.each_ref().map(Vessel::pid));
    let listed = children(task.pid())?;
    ensure(listed == expected, || {
        format!("children made as {expected:?} are listed as {listed:?}")
    })
}

/// The children of a process' first thread, in the order of the list.
pub(super) fn children(thread: Pid) -> io::Result<Vec<Pid>> {
    let number = thread.as_raw_nonzero();
    let path = format!("/proc/{number}/task/{number}/children");
    let list = std::fs::read_to_string(path)?;
    let numbers = list.split_ascii_whitespace();
    Ok(numbers
        .filter_map(|number| Pid::from_raw(number.parse().ok()?))
        .collect())
}
