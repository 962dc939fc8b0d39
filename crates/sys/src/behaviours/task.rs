//! Processes that a trial makes, looks at and ends.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::pipe::PipeFlags;
use rustix::process::{Pid, Signal};

use super::Deviation;
use crate::process::{self, Child};
use crate::ptrace::call::{CLONE, CLONE_VESSEL};
use crate::ptrace::{self, News, Registers, Stop, Stopped};
use crate::seccomp::{
    Answer, Listener, Listening, Notification, Privilege, Program, install_with_listener,
};
use crate::vdso::{self, CALL};

/// How often something is looked at that nobody tells of.
const NAP: Duration = Duration::from_micros(50);

/// Exit status of a process that could not do what it is for.
const FAILED: u8 = 100;

/// Nothing, unless `holds` is false: then what was seen.
pub(super) fn ensure(holds: bool, seen: impl FnOnce() -> String) -> Result<(), Deviation> {
    match holds {
        true => Ok(()),
        false => Err(Deviation::Differs(seen())),
    }
}

/// The end of a trial must not leave a process that waits for ever.
pub(super) fn end_with(parent: Pid) -> io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    // It may have ended before it was asked for.
    match rustix::process::getppid() == Some(parent) {
        true => Ok(()),
        false => Err(Errno::SRCH.into()),
    }
}

/// Kills a child or a tracee, and returns when it has ended.
fn end(process: Pid) {
    let _ = rustix::process::kill_process(process, Signal::KILL);
    while let Ok(News::Stopped(..)) = ptrace::wait(process) {}
}

/// A copy of the trial's process. It ends when this is dropped.
pub(super) struct Task(Child);

impl Task {
    /// One that does `body`, and closes all descriptors above 2 but `keep`.
    pub(super) fn start(keep: &[BorrowedFd<'_>], body: impl FnOnce() -> u8) -> io::Result<Self> {
        let parent = rustix::process::getpid();
        let child = process::fork(keep, || match end_with(parent) {
            Ok(()) => body(),
            Err(_) => FAILED,
        });
        child.map(Self)
    }

    /// One that does `body` and then sleeps. Returns when it does.
    pub(super) fn idle(keep: &[BorrowedFd<'_>], body: impl FnOnce()) -> io::Result<Self> {
        let (reader, writer) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        let keep = [keep, &[writer.as_fd()]].concat();
        let task = Self::start(&keep, || {
            body();
            tell(&writer, 0);
            loop {
                rustix::event::pause();
            }
        })?;
        drop(writer);
        hear(&reader)?;
        task.await_sleep()?;
        Ok(task)
    }

    pub(super) fn pid(&self) -> Pid {
        self.0.pid()
    }

    /// Traces it and stops it.
    pub(super) fn halt(&self) -> Result<Hand, Deviation> {
        ptrace::seize(self.pid())?;
        self.halt_again()
    }

    /// Stops it, which is traced.
    pub(super) fn halt_again(&self) -> Result<Hand, Deviation> {
        ptrace::interrupt(self.pid())?;
        Hand::new(interrupted(self.pid())?)
    }

    /// What it is doing, as one letter (proc_pid_stat(5)).
    pub(super) fn state(&self) -> io::Result<char> {
        let path = format!("/proc/{}/stat", self.pid().as_raw_nonzero());
        let stat = String::from_utf8_lossy(&std::fs::read(path)?).into_owned();
        let state = stat
            .rsplit_once(") ")
            .and_then(|(_, state)| state.chars().next());
        state.ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// The page faults that took no reading, its own and those of the children that it has reaped (proc_pid_stat(5)).
    pub(super) fn faults(&self) -> io::Result<[i64; 2]> {
        let path = format!("/proc/{}/stat", self.pid().as_raw_nonzero());
        let stat = String::from_utf8_lossy(&std::fs::read(path)?).into_owned();
        // From the state on, which is the manual's third field.
        let fields = stat.rsplit_once(") ").map(|(_, fields)| fields);
        let fields: Vec<_> = fields
            .into_iter()
            .flat_map(str::split_ascii_whitespace)
            .collect();
        let field = |number: usize| fields.get(number - 3)?.parse().ok();
        let both = [field(10), field(11)];
        match both {
            [Some(own), Some(children)] => Ok([own, children]),
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    /// Waits until it sleeps in a call that signals interrupt.
    pub(super) fn await_sleep(&self) -> io::Result<()> {
        while self.state()? != 'S' {
            std::thread::sleep(NAP);
        }
        Ok(())
    }

    /// Signals to the whole process that wait, one bit each, signal 1 lowest.
    pub(super) fn pending_signals(&self) -> io::Result<u64> {
        let path = format!("/proc/{}/status", self.pid().as_raw_nonzero());
        let status = std::fs::read_to_string(path)?;
        let mut lines = status.lines();
        let pending = lines.find_map(|line| line.strip_prefix("ShdPnd:"));
        let pending = pending.and_then(|digits| u64::from_str_radix(digits.trim(), 16).ok());
        pending.ok_or_else(|| io::ErrorKind::InvalidData.into())
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        end(self.pid());
    }
}

/// One byte into a pipe. Who cannot be told any more has ended.
pub(super) fn tell(writer: impl AsFd, byte: u8) {
    let _ = rustix::io::write(writer, &[byte]);
}

/// One byte out of a pipe.
pub(super) fn hear(reader: impl AsFd) -> io::Result<u8> {
    let mut byte = [0];
    match rustix::io::retry_on_intr(|| rustix::io::read(reader.as_fd(), &mut byte))? {
        1 => Ok(byte[0]),
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// What a pipe has to say now.
pub(super) fn events(reader: &OwnedFd) -> io::Result<PollFlags> {
    let mut events = [PollFd::new(reader, PollFlags::IN)];
    let at_once = rustix::time::Timespec::default();
    rustix::io::retry_on_intr(|| rustix::event::poll(&mut events, Some(&at_once)))?;
    Ok(events[0].revents())
}

/// A task whose calls are listened to.
pub(super) struct Listened {
    pub(super) task: Task,
    pub(super) listener: Listener,
}

impl Listened {
    pub(super) fn start(
        keep: &[BorrowedFd<'_>],
        body: impl FnOnce() -> u8,
    ) -> Result<Self, Deviation> {
        let program = Program::new(Listening::PREDICTIONS);
        let (reader, writer) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        let keep = [keep, &[writer.as_fd()]].concat();
        let task = Task::start(&keep, || {
            // The lowest free one, which the listener will be: to tell of it would then be a call that
            // waits for an answer.
            let Ok(next) = rustix::io::dup(&writer).map(|next| next.as_raw_fd()) else {
                return FAILED;
            };
            let _ = rustix::io::write(&writer, &next.to_ne_bytes());
            match install_with_listener(&program, Privilege::NoNewPrivileges) {
                Ok(number) if number == next => body(),
                Ok(_) => FAILED,
                Err(error) => {
                    let errno = error.raw_os_error().unwrap_or_default();
                    let _ = rustix::io::write(&writer, &errno.to_ne_bytes());
                    FAILED
                }
            }
        })?;
        drop(writer);
        let next = hear_number(&reader)?;
        let listener = loop {
            if let Some(listener) = Listener::of(task.0.as_fd(), next)? {
                break listener;
            }
            if !events(&reader)?.is_empty() {
                let errno = hear_number(&reader)?;
                return Err(io::Error::from_raw_os_error(errno).into());
            }
            std::thread::sleep(NAP);
        };
        Ok(Self { task, listener })
    }

    /// Its next call that waits for an answer.
    pub(super) fn next(&self) -> Result<Notification, Deviation> {
        loop {
            let mut events = [PollFd::new(&self.listener, PollFlags::IN)];
            rustix::io::retry_on_intr(|| rustix::event::poll(&mut events, None))?;
            if !events[0].revents().contains(PollFlags::IN) {
                return Err(Deviation::Differs("the listened-to process ended".into()));
            }
            if let Some(call) = self.listener.receive()? {
                return Ok(call);
            }
        }
    }

    /// Its next call of a number; all before it happen.
    pub(super) fn next_of(&self, number: libc::c_long) -> Result<Notification, Deviation> {
        loop {
            let call = self.next()?;
            if libc::c_long::from(call.number) == number {
                return Ok(call);
            }
            self.listener.answer(call.id, Answer::Continue)?;
        }
    }

    /// Waits for its end, which must be this status.
    pub(super) fn finish(&self, status: u8, wrong: &str) -> Result<(), Deviation> {
        let end = self.next_of(libc::SYS_exit_group)?;
        ensure(end.arguments[0] == u64::from(status), || wrong.to_owned())
    }
}

fn hear_number(reader: &OwnedFd) -> io::Result<RawFd> {
    let mut number = [0; size_of::<RawFd>()];
    match rustix::io::retry_on_intr(|| rustix::io::read(reader, &mut number))? {
        length if length == number.len() => Ok(RawFd::from_ne_bytes(number)),
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// The next news of a tracee, which must be the stop that it was asked for.
pub(super) fn interrupted(thread: Pid) -> Result<Stopped, Deviation> {
    match ptrace::wait(thread)? {
        News::Stopped(stopped, Stop::Interrupt) => Ok(stopped),
        News::Stopped(_, stop) => Err(Deviation::Differs(format!(
            "{stop:?} in place of the stop that was asked for"
        ))),
        News::Ended(_) => Err(Deviation::Differs("it ends when it is to stop".into())),
    }
}

/// A stopped thread that makes calls for the trial, with all signals blocked.
pub(super) struct Hand {
    thread: Pid,
    /// `None` only during a call.
    stopped: Option<Stopped>,
    registers: Registers,
    mask: u64,
    /// Where there is a `syscall` instruction.
    instruction: u64,
}

impl Hand {
    pub(super) fn new(stopped: Stopped) -> Result<Self, Deviation> {
        let (registers, mask) = (stopped.registers()?, stopped.signal_mask()?);
        stopped.set_signal_mask(!(1 << 4))?;
        let thread = stopped.thread();
        Ok(Self {
            thread,
            stopped: Some(stopped),
            registers,
            mask,
            instruction: vdso::instruction(thread)?,
        })
    }

    pub(super) fn stopped(&self) -> Result<&Stopped, Deviation> {
        Ok(self.stopped.as_ref().ok_or(Errno::SRCH)?)
    }

    /// As it stopped.
    pub(super) fn registers(&self) -> &Registers {
        &self.registers
    }

    /// Where the thread goes on after a call.
    pub(super) fn behind_instruction(&self) -> u64 {
        self.instruction + CALL.len() as u64
    }

    /// Has it make a call, in one step. Returns the result, an error number where that is negative.
    pub(super) fn call(&mut self, number: i64, arguments: [u64; 6]) -> Result<i64, Deviation> {
        let registers = self.registers.calling(self.instruction, number, arguments);
        self.stopped()?.set_registers(&registers)?;
        self.stopped.take().ok_or(Errno::SRCH)?.step()?;
        match ptrace::wait(self.thread)? {
            News::Stopped(stopped, Stop::Signal(libc::SIGTRAP)) => {
                let registers = stopped.registers()?;
                self.stopped = Some(stopped);
                ensure(
                    registers.instruction_pointer() == self.behind_instruction(),
                    || "after one step the thread is not behind the instruction".into(),
                )?;
                Ok(registers.result())
            }
            News::Stopped(_, stop) => Err(Deviation::Differs(format!(
                "{stop:?} in place of the end of a step"
            ))),
            News::Ended(_) => Err(Deviation::Differs("the thread ends in a step".into())),
        }
    }

    /// Has it make a copy of its process as a checkpoint does, with further flags.
    pub(super) fn make_vessel(&mut self, flags: i32) -> Result<Vessel, Deviation> {
        let flags = CLONE_VESSEL | u64::from(flags.cast_unsigned());
        let result = self.call(CLONE, [flags, 0, 0, 0, 0, 0])?;
        match i32::try_from(result) {
            Ok(number @ 1..) => Ok(Vessel(Pid::from_raw(number).ok_or(Errno::SRCH)?)),
            Ok(number) => Err(io::Error::from_raw_os_error(-number).into()),
            Err(_) => Err(Deviation::Differs(format!("clone returns {result}"))),
        }
    }

    /// Lets it go on with these registers, as they were or rewritten.
    pub(super) fn go_on(self, registers: &Registers) -> Result<(), Deviation> {
        let stopped = self.stopped.ok_or(Errno::SRCH)?;
        stopped.set_registers(registers)?;
        stopped.set_signal_mask(self.mask)?;
        Ok(stopped.go_on()?)
    }
}

/// A copy that a task was made to make. It ends when this is dropped.
pub(super) struct Vessel(Pid);

impl Vessel {
    pub(super) fn pid(&self) -> Pid {
        self.0
    }
}

impl Drop for Vessel {
    fn drop(&mut self) {
        end(self.0);
    }
}
