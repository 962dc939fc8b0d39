//! Tracing single threads: what only a stopped one can be asked is asked of a [`Stopped`].
//!
//! A supervisor looks into threads, makes them call the kernel, and gives them other registers: for
//! checkpoint and rollback. Or it stops all threads of a domain for a moment ([`seize_alone`]). A thread is
//! named by its number in the caller's pid namespace.

pub mod call;
mod queue;
mod reap;
mod registers;
mod signal;
mod usage;

use std::io;
use std::mem::MaybeUninit;

use rustix::process::Pid;

pub use queue::Queue;
pub use reap::{reap, reap_on_signal};
pub use registers::{Interruption, Registers};
pub use signal::SignalInfo;
pub use usage::{Usage, wait_for_usage};

use registers::{FULL_STATE, GENERAL};

/// How much extended state (x87, SSE, AVX, AMX) a processor may have.
const EXTENDED_MAX: usize = 16 * 1024;

/// What stopped a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// [`interrupt`], or its birth as a tracee.
    Interrupt,
    /// A job's stop by this signal; the thread counts as stopped for its parent.
    Group(i32),
    /// A signal that it is about to take. [`Stopped::step`] ends in one, `SIGTRAP`.
    Signal(i32),
    /// It has made this thread or process, a tracee as well.
    Birth(Pid),
    /// It has executed a program.
    Exec,
}

/// What a wait told of a tracee.
#[derive(Debug)]
pub enum News {
    /// It is stopped.
    Stopped(Stopped, Stop),
    /// It is no more, and reaped as far as its tracer must.
    Ended(Pid),
}

/// A tracee in a stop. Only SIGKILL makes it go on by itself: then its calls fail with `ESRCH`.
#[derive(Debug)]
#[must_use = "dropped, it stays stopped for ever"]
pub struct Stopped {
    thread: Pid,
}

/// Begins to trace a thread, which runs on. What it gives birth to is traced as well, its exec is
/// a stop; it is killed if the tracer ends.
///
/// # Errors
/// `ESRCH` when it has ended; `EPERM` when it is a zombie, is traced, or is not ours to trace.
pub fn seize(thread: Pid) -> io::Result<()> {
    let options = libc::PTRACE_O_TRACECLONE
        | libc::PTRACE_O_TRACEFORK
        | libc::PTRACE_O_TRACEVFORK
        | libc::PTRACE_O_TRACEEXEC
        | libc::PTRACE_O_EXITKILL;
    plain(libc::PTRACE_SEIZE, thread, options as libc::c_ulong)
}

/// As [`seize`], but what the thread gives birth to is not traced, its exec is no stop, and it runs on if
/// the tracer ends.
///
/// # Errors
/// As [`seize`].
pub fn seize_alone(thread: Pid) -> io::Result<()> {
    plain(libc::PTRACE_SEIZE, thread, 0)
}

/// Asks a tracee to stop at its next call boundary; one that is stopped is to stop again when it goes on.
///
/// # Errors
/// `ESRCH` when it has ended.
pub fn interrupt(thread: Pid) -> io::Result<()> {
    plain(libc::PTRACE_INTERRUPT, thread, 0)
}

/// Waits for news of a tracee.
///
/// # Errors
/// `ECHILD` when it is none, any more.
pub fn wait(thread: Pid) -> io::Result<News> {
    loop {
        if let Some(news) = wait_with(thread.as_raw_nonzero().get(), 0)? {
            return Ok(news);
        }
    }
}

/// As [`wait`], but `None` when there are no news.
///
/// # Errors
/// As [`wait`].
pub fn poll(thread: Pid) -> io::Result<Option<News>> {
    wait_with(thread.as_raw_nonzero().get(), libc::WNOHANG)
}

/// News of any tracee or child, if there are some.
///
/// # Errors
/// As `waitpid`, but for `ECHILD`: then there are none.
pub fn poll_any() -> io::Result<Option<News>> {
    match wait_with(-1, libc::WNOHANG) {
        Err(error) if error.raw_os_error() == Some(libc::ECHILD) => Ok(None),
        result => result,
    }
}

fn wait_with(which: libc::pid_t, options: libc::c_int) -> io::Result<Option<News>> {
    let mut status = 0;
    // SAFETY: writes the status, which outlives the call.
    let pid = unsafe { libc::waitpid(which, &raw mut status, options | libc::__WALL) };
    news(pid, status)
}

/// What waitpid(2) has told by this result and status; `None` if nothing.
fn news(pid: libc::pid_t, status: libc::c_int) -> io::Result<Option<News>> {
    if pid == -1 {
        let error = io::Error::last_os_error();
        return match error.kind() {
            io::ErrorKind::Interrupted => Ok(None),
            _ => Err(error),
        };
    }
    let Some(thread) = Pid::from_raw(pid) else {
        return Ok(None);
    };
    if !libc::WIFSTOPPED(status) {
        return Ok(Some(News::Ended(thread)));
    }
    let stopped = Stopped { thread };
    let stop = stopped.stop(libc::WSTOPSIG(status), status >> 16);
    Ok(Some(News::Stopped(stopped, stop)))
}

impl Stopped {
    /// A tracee that is stopped now, whether or not a wait has told so; `None` for one that is not.
    pub fn now(thread: Pid) -> Option<Self> {
        let stopped = Self { thread };
        stopped.signal().is_ok().then_some(stopped)
    }

    /// The thread.
    pub fn thread(&self) -> Pid {
        self.thread
    }

    fn stop(&self, signal: i32, event: i32) -> Stop {
        match event {
            0 => Stop::Signal(signal),
            libc::PTRACE_EVENT_STOP if signal == libc::SIGTRAP => Stop::Interrupt,
            libc::PTRACE_EVENT_STOP => Stop::Group(signal),
            libc::PTRACE_EVENT_EXEC => Stop::Exec,
            // Fails only for a thread that was killed; its end is the next news.
            _ => self.message().map_or(Stop::Interrupt, Stop::Birth),
        }
    }

    fn message(&self) -> Option<Pid> {
        let mut message: libc::c_ulong = 0;
        // SAFETY: writes the message, which outlives the call.
        let result = unsafe {
            libc::ptrace(
                libc::PTRACE_GETEVENTMSG,
                self.thread.as_raw_nonzero(),
                std::ptr::null_mut::<libc::c_void>(),
                &raw mut message,
            )
        };
        (result == 0)
            .then(|| Pid::from_raw(message as i32))
            .flatten()
    }

    /// The general registers.
    ///
    /// # Errors
    /// `ESRCH` when it was killed, as everywhere here.
    pub fn registers(&self) -> io::Result<Registers> {
        let mut registers = MaybeUninit::<libc::user_regs_struct>::uninit();
        let size = size_of::<libc::user_regs_struct>();
        let written = self.get_set(GENERAL, registers.as_mut_ptr().cast(), size)?;
        if written != size {
            return Err(io::Error::other(
                "the thread's registers are not those of x86-64",
            ));
        }
        // SAFETY: the kernel has filled it to the last byte.
        Ok(Registers::new(unsafe { registers.assume_init() }))
    }

    /// Gives it other general registers.
    ///
    /// # Errors
    /// `ESRCH`.
    pub fn set_registers(&self, registers: &Registers) -> io::Result<()> {
        let raw = registers.raw();
        let bytes = std::ptr::from_ref(raw).cast_mut().cast();
        self.set_set(GENERAL, bytes, size_of_val(raw))
    }

    /// Floating point and vector registers, as the kernel lays them out (`XSAVE`).
    ///
    /// # Errors
    /// `ESRCH`.
    pub fn extended_state(&self) -> io::Result<Box<[u8]>> {
        let mut state = vec![0_u8; EXTENDED_MAX];
        let written = self.get_set(FULL_STATE, state.as_mut_ptr().cast(), EXTENDED_MAX)?;
        state.truncate(written);
        Ok(state.into_boxed_slice())
    }

    /// Gives it back what [`Self::extended_state`] told of it or of a copy of it.
    ///
    /// # Errors
    /// `ESRCH`; `EINVAL` for bytes that are no such state.
    pub fn set_extended_state(&self, state: &[u8]) -> io::Result<()> {
        self.set_set(FULL_STATE, state.as_ptr().cast_mut().cast(), state.len())
    }

    fn get_set(&self, set: i32, bytes: *mut libc::c_void, size: usize) -> io::Result<usize> {
        let mut vector = libc::iovec {
            iov_base: bytes,
            iov_len: size,
        };
        // SAFETY: writes at most `size` bytes, for which the caller has room, and the length.
        let result = unsafe {
            libc::ptrace(
                libc::PTRACE_GETREGSET,
                self.thread.as_raw_nonzero(),
                set as libc::c_ulong,
                &raw mut vector,
            )
        };
        outcome(result).map(|_| vector.iov_len)
    }

    fn set_set(&self, set: i32, bytes: *mut libc::c_void, size: usize) -> io::Result<()> {
        let mut vector = libc::iovec {
            iov_base: bytes,
            iov_len: size,
        };
        // SAFETY: reads `size` bytes, which the caller has.
        let result = unsafe {
            libc::ptrace(
                libc::PTRACE_SETREGSET,
                self.thread.as_raw_nonzero(),
                set as libc::c_ulong,
                &raw mut vector,
            )
        };
        outcome(result).map(drop)
    }

    /// The signals that it blocks, one bit each, signal 1 lowest.
    ///
    /// # Errors
    /// `ESRCH`.
    pub fn signal_mask(&self) -> io::Result<u64> {
        let mut mask = 0_u64;
        // SAFETY: writes eight bytes, the size that is named.
        let result = unsafe {
            libc::ptrace(
                PTRACE_GETSIGMASK,
                self.thread.as_raw_nonzero(),
                size_of::<u64>(),
                &raw mut mask,
            )
        };
        outcome(result).map(|_| mask)
    }

    /// Has it block these signals.
    ///
    /// # Errors
    /// `ESRCH`.
    pub fn set_signal_mask(&self, mask: u64) -> io::Result<()> {
        // SAFETY: reads eight bytes, the size that is named.
        let result = unsafe {
            libc::ptrace(
                PTRACE_SETSIGMASK,
                self.thread.as_raw_nonzero(),
                size_of::<u64>(),
                &raw const mask,
            )
        };
        outcome(result).map(drop)
    }

    /// The signal of a [`Stop::Signal`].
    ///
    /// # Errors
    /// `ESRCH`.
    pub fn signal(&self) -> io::Result<SignalInfo> {
        let mut info = MaybeUninit::<libc::siginfo_t>::uninit();
        // SAFETY: writes a siginfo_t, for which there is room.
        let result = unsafe {
            libc::ptrace(
                libc::PTRACE_GETSIGINFO,
                self.thread.as_raw_nonzero(),
                std::ptr::null_mut::<libc::c_void>(),
                info.as_mut_ptr(),
            )
        };
        outcome(result)?;
        // SAFETY: the call succeeded and has filled it.
        Ok(SignalInfo::new(unsafe { info.assume_init() }))
    }

    /// Whether it is in a [`Stop::Interrupt`].
    ///
    /// # Errors
    /// `ESRCH`.
    pub fn is_interrupted(&self) -> io::Result<bool> {
        let signal = self.signal()?;
        Ok(signal.is_stop() && signal.number() == libc::SIGTRAP)
    }

    /// What the kernel knows of its restartable sequences (rseq(2)).
    ///
    /// # Errors
    /// `ESRCH`; `EIO` on a kernel before 5.13.
    pub fn restartable_sequences(&self) -> io::Result<RestartableSequences> {
        let mut raw = [0_u64; 3];
        // SAFETY: writes at most the size that is named, for which there is room.
        let result = unsafe {
            libc::ptrace(
                PTRACE_GET_RSEQ_CONFIGURATION,
                self.thread.as_raw_nonzero(),
                size_of_val(&raw),
                raw.as_mut_ptr(),
            )
        };
        outcome(result)?;
        Ok(RestartableSequences {
            address: raw[0],
            size: raw[1] as u32,
            signature: (raw[1] >> 32) as u32,
        })
    }

    /// Lets it execute one instruction; the next news are its end or [`Stop::Signal`] with `SIGTRAP`.
    ///
    /// # Errors
    /// `ESRCH`.
    pub fn step(self) -> io::Result<()> {
        plain(libc::PTRACE_SINGLESTEP, self.thread, 0)
    }

    /// As [`Self::step`], with a signal that it blocks: the kernel queues it again, with all that is told of
    /// it, where that came from which the thread has stopped for. Only in a [`Stop::Signal`].
    ///
    /// # Errors
    /// `ESRCH`.
    pub fn step_with(self, signal: &SignalInfo) -> io::Result<()> {
        self.set_signal(signal)?;
        let number = signal.number() as libc::c_ulong;
        plain(libc::PTRACE_SINGLESTEP, self.thread, number)
    }

    /// Makes its end no stop: who is killed ends at once, and its memory is freed without its tracer. Nor
    /// is anything else a stop that was one by [`seize`].
    ///
    /// # Errors
    /// `ESRCH`.
    pub fn end_without_stop(&self) -> io::Result<()> {
        let options = libc::PTRACE_O_EXITKILL as libc::c_ulong;
        plain(libc::PTRACE_SETOPTIONS, self.thread, options)
    }

    /// Lets it go on, traced.
    ///
    /// # Errors
    /// `ESRCH`.
    pub fn go_on(self) -> io::Result<()> {
        plain(libc::PTRACE_CONT, self.thread, 0)
    }

    /// Lets it go on, traced, with a signal. Only in a [`Stop::Signal`]; elsewhere the kernel forgets it.
    ///
    /// # Errors
    /// `ESRCH`.
    pub fn go_on_with(self, signal: &SignalInfo) -> io::Result<()> {
        self.set_signal(signal)?;
        plain(
            libc::PTRACE_CONT,
            self.thread,
            signal.number() as libc::c_ulong,
        )
    }

    /// Lets a job that is stopped stay so, until somebody continues it ([`Stop::Interrupt`] tells that).
    ///
    /// # Errors
    /// `ESRCH`.
    pub fn stay_stopped(self) -> io::Result<()> {
        plain(libc::PTRACE_LISTEN, self.thread, 0)
    }

    /// Lets it go on untraced.
    ///
    /// # Errors
    /// `ESRCH`.
    pub fn detach(self) -> io::Result<()> {
        plain(libc::PTRACE_DETACH, self.thread, 0)
    }

    /// Lets it go on untraced, with a signal. Only in a [`Stop::Signal`].
    ///
    /// # Errors
    /// `ESRCH`.
    pub fn detach_with(self, signal: &SignalInfo) -> io::Result<()> {
        self.set_signal(signal)?;
        plain(
            libc::PTRACE_DETACH,
            self.thread,
            signal.number() as libc::c_ulong,
        )
    }

    fn set_signal(&self, signal: &SignalInfo) -> io::Result<()> {
        // SAFETY: reads a siginfo_t, which outlives the call.
        let result = unsafe {
            libc::ptrace(
                libc::PTRACE_SETSIGINFO,
                self.thread.as_raw_nonzero(),
                std::ptr::null_mut::<libc::c_void>(),
                std::ptr::from_ref(signal.raw()),
            )
        };
        outcome(result).map(drop)
    }
}

/// Where a thread keeps the area that the kernel tells it of being preempted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RestartableSequences {
    /// 0: it has none.
    pub address: u64,
    /// In bytes.
    pub size: u32,
    /// What stands before each abort handler.
    pub signature: u32,
}

// Of the kernel's ptrace.h; the C library's crate lacks them for this target.
const PTRACE_GETSIGMASK: libc::c_uint = 0x420a;
const PTRACE_SETSIGMASK: libc::c_uint = 0x420b;
const PTRACE_GET_RSEQ_CONFIGURATION: libc::c_uint = 0x420f;

/// A request without an address, for which `data` is no address either.
fn plain(request: libc::c_uint, thread: Pid, data: libc::c_ulong) -> io::Result<()> {
    let none = std::ptr::null_mut::<libc::c_void>();
    // SAFETY: none of the requests above reads or writes this process' memory.
    outcome(unsafe { libc::ptrace(request, thread.as_raw_nonzero(), none, data) }).map(drop)
}

fn outcome(result: libc::c_long) -> io::Result<libc::c_long> {
    match result {
        -1 => Err(io::Error::last_os_error()),
        result => Ok(result),
    }
}
