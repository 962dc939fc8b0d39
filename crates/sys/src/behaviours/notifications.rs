//! What holds for calls that wait for an answer: behaviours 1, 2, 8 and 16.

use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::pipe::PipeFlags;
use rustix::process::{Pid, Signal};

use super::Deviation;
use super::task::{Listened, ensure, events, interrupted};
use crate::ptrace::{self, Interruption};
use crate::seccomp::Answer;

/// A process group that no call returns by itself: it is beyond the largest number of a process.
const GROUP: i32 = 1 << 24;

/// How many answers are given among signals.
const ANSWERS: i32 = 100;
/// How many of them are between two that come after a signal.
const PAUSE: i32 = 20;

/// A call that waits for an answer and has no effect.
fn group() -> Result<i32, Errno> {
    rustix::process::getpgid(None).map(Pid::as_raw_pid)
}

/// 1: a thread that is asked to stop while its call was received stops when that is answered, before it
/// executes anything, and its registers hold the answer.
pub(super) fn stop_follows_the_answer() -> Result<(), Deviation> {
    let listened = Listened::start(&[], || u8::from(group() == Ok(GROUP)))?;
    let (task, listener) = (&listened.task, &listened.listener);
    let call = listened.next_of(libc::SYS_getpgid)?;
    ptrace::seize(task.pid())?;
    ptrace::interrupt(task.pid())?;
    let early = || Deviation::Differs("a thread stops before its call is answered".into());
    // Once it has taken notice of being asked, it waits so that only a kill ends the wait.
    while task.state()? != 'D' {
        if ptrace::poll(task.pid())?.is_some() {
            return Err(early());
        }
        std::thread::yield_now();
    }
    if ptrace::poll(task.pid())?.is_some() {
        return Err(early());
    }
    let answered = listener.answer(call.id, Answer::Value(GROUP.into()))?;
    ensure(answered, || "the call of a thread to stop has gone".into())?;
    let stopped = interrupted(task.pid())?;
    let registers = stopped.registers()?;
    ensure(registers.result() == GROUP.into(), || {
        format!(
            "a thread stops with the result {}, not the answer",
            registers.result()
        )
    })?;
    ensure(
        registers.instruction_pointer() == call.instruction_pointer,
        || "a thread goes on after its answer before it stops".into(),
    )?;
    stopped.go_on()?;
    listened.finish(1, "a thread that was stopped does not get its answer")
}

static SIGNALS: AtomicU32 = AtomicU32::new(0);

extern "C" fn count(_: libc::c_int) {
    SIGNALS.fetch_add(1, Ordering::SeqCst);
}

/// 2: a received call waits for its answer, and that takes effect, whatever signals come. The answers are numbered: a call
/// that is made again after its answer gets one too high. Signals come while a call waits and while its answer is on its way;
/// not without end, since a thread that does nothing but take signals makes no calls.
pub(super) fn answers_survive_signals() -> Result<(), Deviation> {
    // Here, for both processes: in the listened-to one it would be a call that waits for an answer.
    // SAFETY: the handler does nothing but add to an atomic number.
    let before = unsafe { libc::signal(libc::SIGUSR1, count as *const () as libc::sighandler_t) };
    if before == libc::SIG_ERR {
        return Err(std::io::Error::last_os_error().into());
    }
    let listened = Listened::start(&[], || {
        while SIGNALS.load(Ordering::SeqCst) == 0 {
            std::hint::spin_loop();
        }
        u8::from((1..=ANSWERS).all(|wanted| group() == Ok(wanted)))
    })?;
    let signal = || rustix::process::kill_process(listened.task.pid(), Signal::USR1);
    signal()?;
    let mut given = 0;
    while given < ANSWERS {
        let call = listened.next()?;
        ensure(libc::c_long::from(call.number) == libc::SYS_getpgid, || {
            format!("after {given} answers in a row one is lost")
        })?;
        signal()?;
        // Mostly the answer is faster than the signal; here it waits for that.
        while given % PAUSE == 0
            && listened.task.state()? != 'D'
            && listened.listener.is_valid(call.id)?
        {
            std::thread::yield_now();
        }
        let answer = Answer::Value(i64::from(given) + 1);
        // Else it would be made again, though what was answered may have been done.
        ensure(listened.listener.answer(call.id, answer)?, || {
            "a received call has gone when a signal came".into()
        })?;
        signal()?;
        given += 1;
    }
    listened.finish(1, "an answer that was accepted is lost")
}

/// 16: a received call is answered by a result of the kernel's own, for a signal that waits. Its thread takes the signal, and the call
/// begins again or fails with `EINTR`.
pub(super) fn answer_interrupts() -> Result<(), Deviation> {
    // SAFETY: the handler does nothing but add to an atomic number.
    let before = unsafe { libc::signal(libc::SIGUSR1, count as *const () as libc::sighandler_t) };
    if before == libc::SIG_ERR {
        return Err(std::io::Error::last_os_error().into());
    }
    let listened = Listened::start(&[], || {
        let begun_again = group() == Ok(GROUP) && SIGNALS.load(Ordering::SeqCst) == 1;
        let interrupted = group() == Err(Errno::INTR) && SIGNALS.load(Ordering::SeqCst) == 2;
        u8::from(begun_again && interrupted)
    })?;
    let answer = |how: Option<Interruption>| {
        let call = listened.next_of(libc::SYS_getpgid)?;
        if how.is_some() {
            rustix::process::kill_process(listened.task.pid(), Signal::USR1)?;
        }
        let result = how.map_or(GROUP.into(), Interruption::result);
        let answered = listened.listener.answer(call.id, Answer::Value(result))?;
        ensure(answered, || {
            "a received call has gone when a signal came".into()
        })
    };
    for how in [Some(Interruption::Never), None, Some(Interruption::Always)] {
        answer(how)?;
    }
    listened.finish(1, "a call is not interrupted by its answer")
}

/// 8: while a call waits for its answer its process is given a descriptor in place of one that it has.
pub(super) fn descriptor_is_replaced() -> Result<(), Deviation> {
    let (old_reader, old) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
    let (new_reader, new) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
    let number = old.as_raw_fd();
    let listened = Listened::start(&[old.as_fd()], || {
        let _ = group();
        u8::from(rustix::io::write(&old, b"x") == Ok(1))
    })?;
    // The last one outside the process.
    drop(old);
    let pid = listened.task.pid();
    let call = listened.next_of(libc::SYS_getpgid)?;
    let added = listened
        .listener
        .add_descriptor(call.id, new.as_fd(), Some(number), true)?;
    ensure(added == Some(number), || {
        format!("a descriptor meant to be {number} becomes {added:?}")
    })?;
    let path = format!("/proc/{}/fdinfo/{number}", pid.as_raw_nonzero());
    let flags = std::fs::read_to_string(path)?;
    // O_CLOEXEC and O_WRONLY.
    ensure(flags.contains("flags:\t02000001"), || {
        "a descriptor that was given is not closed by exec".into()
    })?;
    listened
        .listener
        .answer(call.id, Answer::Value(GROUP.into()))?;
    listened.finish(1, "a descriptor that was given cannot be used")?;
    // Closed by the process itself, on its way out of the call.
    ensure(events(&old_reader)? == PollFlags::HUP, || {
        "a descriptor that was replaced stays open".into()
    })?;
    ensure(events(&new_reader)?.contains(PollFlags::IN), || {
        "a descriptor that was given leads elsewhere".into()
    })
}
