//! Signals taken over for a while: masks, ignored signals, and signals read from a descriptor.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::process::Signal;

/// The signal mask that a thread had, to be given back to it or to a copy of the process.
#[derive(Clone, Copy)]
pub struct SavedMask(libc::sigset_t);

/// Blocks `signals` in this thread and returns the mask from before.
///
/// # Errors
/// As `sigprocmask`.
pub fn block(signals: &[Signal]) -> io::Result<SavedMask> {
    change_mask(libc::SIG_BLOCK, signals)
}

/// Lets `signals` come through in this thread and returns the mask from before. One that waits
/// takes effect at once.
///
/// # Errors
/// As `sigprocmask`.
pub fn unblock(signals: &[Signal]) -> io::Result<SavedMask> {
    change_mask(libc::SIG_UNBLOCK, signals)
}

fn change_mask(how: libc::c_int, signals: &[Signal]) -> io::Result<SavedMask> {
    let set = set_of(signals);
    let mut before = MaybeUninit::uninit();
    // SAFETY: both point to sigset_t's that live through the call.
    check(unsafe { libc::pthread_sigmask(how, &raw const set, before.as_mut_ptr()) })?;
    // SAFETY: the call succeeded and has filled it.
    Ok(SavedMask(unsafe { before.assume_init() }))
}

impl SavedMask {
    /// Makes it this thread's mask again.
    ///
    /// # Errors
    /// As `sigprocmask`.
    pub fn restore(&self) -> io::Result<()> {
        // SAFETY: the mask is a filled sigset_t; the previous one is not asked for.
        check(unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, std::ptr::null_mut())
        })
    }
}

/// What a process did on a signal, to be given back to it or to a copy of it.
#[derive(Clone, Copy)]
pub struct SavedAction {
    signal: Signal,
    action: libc::sigaction,
}

/// Ignores `signal` and returns what was done on it before.
///
/// # Errors
/// As `sigaction`: `EINVAL` for `KILL` and `STOP`.
pub fn ignore(signal: Signal) -> io::Result<SavedAction> {
    replace(signal, libc::SIG_IGN)
}

/// Does on `signal` what every new program does, and returns what was done on it before.
///
/// # Errors
/// As `sigaction`: `EINVAL` for `KILL` and `STOP`.
pub fn reset(signal: Signal) -> io::Result<SavedAction> {
    replace(signal, libc::SIG_DFL)
}

fn replace(signal: Signal, handler: libc::sighandler_t) -> io::Result<SavedAction> {
    let before = SavedAction::current(signal)?;
    let mut action = before.action;
    action.sa_sigaction = handler;
    action.sa_flags = 0;
    SavedAction { signal, action }.restore()?;
    Ok(before)
}

/// Whether this process ignores `signal`.
///
/// # Errors
/// As `sigaction`.
pub fn is_ignored(signal: Signal) -> io::Result<bool> {
    Ok(SavedAction::current(signal)?.action.sa_sigaction == libc::SIG_IGN)
}

impl SavedAction {
    fn current(signal: Signal) -> io::Result<Self> {
        let mut action = MaybeUninit::uninit();
        // SAFETY: no new action is set; the current one is written to a live sigaction.
        check(unsafe { libc::sigaction(signal.as_raw(), std::ptr::null(), action.as_mut_ptr()) })?;
        // SAFETY: the call succeeded and has filled it.
        let action = unsafe { action.assume_init() };
        Ok(Self { signal, action })
    }

    /// Makes it what this process does on the signal again.
    ///
    /// # Errors
    /// As `sigaction`.
    pub fn restore(&self) -> io::Result<()> {
        // SAFETY: the action is SIG_IGN, SIG_DFL, or was in force in this process or in the one it is
        // a copy of, so a handler in it is a function that exists here.
        check(unsafe {
            libc::sigaction(
                self.signal.as_raw(),
                &raw const self.action,
                std::ptr::null_mut(),
            )
        })
    }
}

/// Blocked signals, read from a descriptor.
#[derive(Debug)]
pub struct SignalFd(OwnedFd);

impl SignalFd {
    /// A descriptor for `signals`, which the caller has blocked. Closed on exec.
    ///
    /// # Errors
    /// As `signalfd`.
    pub fn new(signals: &[Signal]) -> io::Result<Self> {
        let set = set_of(signals);
        // SAFETY: points to a filled sigset_t; -1 asks for a new descriptor.
        let fd =
            unsafe { libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) };
        check(fd)?;
        // SAFETY: the kernel has just opened it for us; nobody else owns it.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// The next pending signal, if there is one. Never waits.
    ///
    /// # Errors
    /// As `read`.
    pub fn next(&self) -> io::Result<Option<Signal>> {
        let mut info = [0_u8; size_of::<libc::signalfd_siginfo>()];
        match rustix::io::read(&self.0, &mut info) {
            Ok(_) => {
                // ssi_signo is the first field.
                let number = u32::from_ne_bytes([info[0], info[1], info[2], info[3]]);
                Ok(Signal::from_named_raw(number as i32))
            }
            Err(rustix::io::Errno::AGAIN) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }
}

/// Readable while a signal is pending.
impl AsFd for SignalFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn set_of(signals: &[Signal]) -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: sigemptyset fills the whole set; sigaddset only changes a filled one.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for signal in signals {
            libc::sigaddset(set.as_mut_ptr(), signal.as_raw());
        }
        set.assume_init()
    }
}

fn check(result: libc::c_int) -> io::Result<()> {
    match result {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}
