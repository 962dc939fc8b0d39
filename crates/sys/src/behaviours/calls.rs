//! What holds for stopped threads that make calls: behaviours 4, 5, 6, 12, 14 and 15.

use std::mem::MaybeUninit;
use std::os::fd::AsFd;

use rustix::event::epoll;
use rustix::pipe::PipeFlags;
use rustix::process::Signal;

use super::Deviation;
use super::memory::Pages;
use super::task::{Hand, Task, ensure, hear, interrupted, tell};
use crate::ptrace::call::{GETPID, RSEQ};
use crate::ptrace::{self, News, Queue, RestartableSequences, Stop};

fn own_number(hand: &mut Hand, task: &Task) -> Result<(), Deviation> {
    let result = hand.call(GETPID, [0; 6])?;
    ensure(result == task.pid().as_raw_nonzero().get().into(), || {
        format!("getpid in one step returns {result}")
    })
}

/// 4: a step over the vDSO's `syscall` is one stop, behind it, with the result.
pub(super) fn one_step_is_one_call() -> Result<(), Deviation> {
    let task = Task::idle(&[], || {})?;
    let mut hand = task.halt()?;
    let before = *hand.registers();
    // Each of which demands that its one stop is the step's.
    own_number(&mut hand, &task)?;
    own_number(&mut hand, &task)?;
    hand.go_on(&before.undisturbed())?;
    // Before, it may be about to make the call that it sleeps in.
    task.await_sleep()?;
    let registers = *task.halt_again()?.registers();
    ensure(
        registers.instruction_pointer() == before.instruction_pointer(),
        || "a thread does not go on where it was before it made a call".into(),
    )
}

/// 5: what is sent to a thread that blocks all signals waits through its calls, and comes afterwards.
pub(super) fn blocked_signals_wait() -> Result<(), Deviation> {
    let task = Task::idle(&[], || {})?;
    let mut hand = task.halt()?;
    rustix::process::kill_process(task.pid(), Signal::USR1)?;
    own_number(&mut hand, &task)?;
    own_number(&mut hand, &task)?;
    let waits = task.pending_signals()? & (1 << (libc::SIGUSR1 - 1)) != 0;
    ensure(waits, || "a blocked signal does not wait".into())?;
    let registers = hand.registers().undisturbed();
    hand.go_on(&registers)?;
    match ptrace::wait(task.pid())? {
        News::Stopped(_, Stop::Signal(libc::SIGUSR1)) => Ok(()),
        news => Err(Deviation::Differs(format!(
            "{news:?} in place of a signal that was blocked"
        ))),
    }
}

/// 6: `epoll_wait` reports that it was interrupted when its thread is stopped, and begins again by either
/// form of its registers.
pub(super) fn interrupted_wait_begins_again() -> Result<(), Deviation> {
    let (event_reader, event) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
    let (result_reader, result) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
    let queue = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let data = epoll::EventData::new_u64(0);
    epoll::add(&queue, &event_reader, data, epoll::EventFlags::IN)?;
    let keep = [event_reader.as_fd(), result.as_fd(), queue.as_fd()];
    const READY: u8 = b'r';
    const EVENT: u8 = b'e';
    const OTHERWISE: u8 = b'o';
    let task = Task::start(&keep, || {
        tell(&result, READY);
        let mut space = [MaybeUninit::uninit(); 1];
        let one = epoll::wait(&queue, &mut space, None).is_ok_and(|(events, _)| events.len() == 1);
        tell(&result, if one { EVENT } else { OTHERWISE });
        0
    })?;
    hear(&result_reader)?;
    ptrace::seize(task.pid())?;
    for form in [ptrace::Registers::settled, ptrace::Registers::undisturbed] {
        task.await_sleep()?;
        let hand = task.halt_again()?;
        let registers = *hand.registers();
        ensure(registers.was_interrupted(), || {
            format!(
                "epoll_wait returns {} when its thread is stopped",
                registers.result()
            )
        })?;
        hand.go_on(&form(&registers))?;
    }
    task.await_sleep()?;
    tell(&event, 0);
    ensure(hear(&result_reader)? == EVENT, || {
        "epoll_wait returns from having been stopped".into()
    })
}

/// 12: what a stopped thread has registered for restartable sequences is told, and can be changed.
pub(super) fn restartable_sequences_are_told() -> Result<(), Deviation> {
    const UNREGISTER: u64 = 1;
    let pages = Pages::map(1)?;
    let task = Task::idle(&[], || {})?;
    let mut hand = task.halt()?;
    let tell = |hand: &Hand| Ok::<_, Deviation>(hand.stopped()?.restartable_sequences()?);
    let register = |hand: &mut Hand, area: RestartableSequences, how: u64| {
        let (size, signature) = (area.size.into(), area.signature.into());
        hand.call(RSEQ, [area.address, size, how, signature, 0, 0])
    };
    // Which the C library has registered, if it does so.
    let first = tell(&hand)?;
    if first.address != 0 {
        let result = register(&mut hand, first, UNREGISTER)?;
        ensure(result == 0 && tell(&hand)?.address == 0, || {
            format!("unregistering {first:?} returns {result}")
        })?;
    }
    let area = RestartableSequences {
        address: pages.address(),
        size: 32,
        signature: 0x5355_524d,
    };
    let result = register(&mut hand, area, 0)?;
    let told = tell(&hand)?;
    ensure(result == 0 && told == area, || {
        format!("registering {area:?} returns {result} and tells {told:?}")
    })
}

/// 14: a signal that a thread was about to take waits again where it was taken from, if the thread blocks it by
/// then: behind those that came since, with all that is told of it. Nothing is executed before the next stop.
pub(super) fn refused_signal_waits_again() -> Result<(), Deviation> {
    let task = Task::idle(&[], || {})?;
    let hand = task.halt()?;
    let mask = hand.stopped()?.signal_mask()?;
    let undisturbed = hand.registers().undisturbed();
    rustix::process::kill_process(task.pid(), Signal::USR1)?;
    hand.go_on(&undisturbed)?;
    let News::Stopped(taking, Stop::Signal(libc::SIGUSR1)) = ptrace::wait(task.pid())? else {
        return Err(Deviation::Differs("a signal does not come".into()));
    };
    let (signal, before) = (taking.signal()?, taking.registers()?);
    rustix::process::kill_process(task.pid(), Signal::USR2)?;
    taking.set_signal_mask(mask)?;
    ptrace::interrupt(task.pid())?;
    taking.go_on_with(&signal)?;
    let stopped = interrupted(task.pid())?;
    let waiting = stopped.queued(Queue::Process)?;
    let numbers: Vec<_> = waiting.iter().map(|info| info.number()).collect();
    let is_back = waiting.last() == Some(&signal) && stopped.registers()? == before;
    ensure(is_back && stopped.queued(Queue::Thread)?.is_empty(), || {
        format!("signals {numbers:?} wait in place of one that was not taken")
    })
}

/// 15: a wait for a stop tells what wait4(2) would tell of the process if it ended now.
pub(super) fn usage_is_told() -> Result<(), Deviation> {
    /// Where `struct rusage` has the page faults that took no reading.
    const FAULTS: usize = 8;
    let task = Task::idle(&[], || {
        // Its end is waited for where it is dropped.
        drop(Task::start(&[], || 0));
    })?;
    ptrace::seize(task.pid())?;
    ptrace::interrupt(task.pid())?;
    let (news, usage) = ptrace::wait_for_usage(task.pid())?;
    ensure(matches!(news, News::Stopped(_, Stop::Interrupt)), || {
        format!("{news:?} in place of a stop")
    })?;
    let [own, children] = task.faults()?;
    ensure(children > 0 && usage[FAULTS] == own + children, || {
        format!("{usage:?} where the faults are {own} and {children}")
    })
}
