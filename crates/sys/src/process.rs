//! Processes made by copying the calling one, without an exec.
//!
//! A copied process holds every descriptor of its parent; a role of a domain that kept, say,
//! the state's lock by accident would keep a dead domain alive. So both functions here take
//! the list of descriptors that the child keeps and close all others before its code runs.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};

use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, WaitIdStatus};
use rustix::thread::UnshareFlags;

use crate::descriptors;

/// Exit status of a child whose closure panicked, as Rust's own.
const PANICKED: u8 = 101;

/// A child process that has not been waited for.
///
/// Dropping it neither kills nor reaps the process.
#[derive(Debug)]
pub struct Child {
    pid: Pid,
    pidfd: OwnedFd,
}

impl Child {
    /// Its process id, as this process sees it.
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// Sends `signal`. A child that has ended but is not reaped takes it and does nothing.
    ///
    /// # Errors
    /// As `pidfd_send_signal`: `ESRCH` once it was reaped.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        Ok(rustix::process::pidfd_send_signal(&self.pidfd, signal)?)
    }

    /// Waits for its end and reaps it.
    ///
    /// # Errors
    /// As `waitid`: `ECHILD` when it was reaped before, or is no child of the caller ([`branch`]).
    pub fn wait(&self) -> io::Result<WaitIdStatus> {
        loop {
            match rustix::process::waitid(WaitId::PidFd(self.pidfd.as_fd()), WaitIdOptions::EXITED)
            {
                Ok(Some(status)) => return Ok(status),
                Ok(None) | Err(rustix::io::Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }
}

impl Child {
    /// Waits for its end, without reaping it. Also for who is not its parent.
    ///
    /// # Errors
    /// As `poll`.
    pub fn wait_ended(&self) -> io::Result<()> {
        loop {
            let mut events = [PollFd::new(&self.pidfd, PollFlags::IN)];
            match rustix::event::poll(&mut events, None) {
                Ok(_) => return Ok(()),
                Err(rustix::io::Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }
}

/// The child's pidfd: readable once it has ended.
impl AsFd for Child {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }
}

/// Copies this process; the copy closes all descriptors above 2 but `keep`, runs `child` and
/// exits with the status it returns, without running this program's exit handlers.
///
/// `child` must not touch a captured descriptor that is not in `keep`.
///
/// # Errors
/// As `fork` and `pidfd_open`.
///
/// # Panics
/// When this process has several threads: the copy would hold locks nobody releases.
pub fn fork(keep: &[BorrowedFd<'_>], child: impl FnOnce() -> u8) -> io::Result<Child> {
    fork_keeping(Some(keep), child)
}

/// As [`fork`], but the copy keeps every descriptor that this process opened, since it goes on in its
/// place. What came through an exec from who started this process is closed, but for 0, 1 and 2: they may
/// wait for its end.
///
/// To the copy the children of this process are no children: their ends are seen on their pidfds
/// ([`Child::wait_ended`]), and [`Child::wait`] fails.
///
/// # Errors
/// As `fork` and `pidfd_open`.
///
/// # Panics
/// When this process has several threads.
pub fn branch(child: impl FnOnce() -> u8) -> io::Result<Child> {
    fork_keeping(None, || {
        descriptors::close_inherited();
        child()
    })
}

/// As [`fork`], for a child that owns what it is given, so that it can close it. The caller's copy is
/// dropped. The child keeps the descriptors that `keep` names.
///
/// # Errors
/// As [`fork`].
///
/// # Panics
/// As [`fork`].
pub fn fork_with<T>(
    owned: T,
    keep: impl FnOnce(&T) -> Vec<BorrowedFd<'_>>,
    child: impl FnOnce(T) -> u8,
) -> io::Result<Child> {
    fork_keeping(None, move || {
        descriptors::close_all_but(&keep(&owned));
        child(owned)
    })
}

/// As [`clone`], for a child that owns what it is given; see [`fork_with`].
///
/// # Errors
/// As [`clone`].
///
/// # Panics
/// As [`clone`].
pub fn clone_with<T>(
    namespaces: UnshareFlags,
    owned: T,
    keep: impl FnOnce(&T) -> Vec<BorrowedFd<'_>>,
    child: impl FnOnce(T) -> u8,
) -> io::Result<Child> {
    clone_keeping(namespaces, None, move || {
        descriptors::close_all_but(&keep(&owned));
        child(owned)
    })
}

/// As [`fork`], with the child in new `namespaces`; with a new pid namespace it is its pid 1.
///
/// The C library does not learn of this copy and keeps the parent's thread id in the child's
/// main thread, so the child should fork or exec rather than start threads.
///
/// # Errors
/// As `clone`: `EPERM` or `ENOSPC` where namespaces are forbidden or used up.
///
/// # Panics
/// When this process has several threads.
pub fn clone(
    namespaces: UnshareFlags,
    keep: &[BorrowedFd<'_>],
    child: impl FnOnce() -> u8,
) -> io::Result<Child> {
    clone_keeping(namespaces, Some(keep), child)
}

/// `keep`: what the copy keeps; `None` for everything.
fn clone_keeping(
    namespaces: UnshareFlags,
    keep: Option<&[BorrowedFd<'_>]>,
    child: impl FnOnce() -> u8,
) -> io::Result<Child> {
    use std::os::fd::{FromRawFd, RawFd};

    assert_single_threaded();
    let flags = namespaces.bits() as libc::c_int | libc::CLONE_PIDFD | libc::SIGCHLD;
    let mut pidfd: RawFd = -1;
    // SAFETY: without CLONE_VM and with a null stack this is fork: the child gets a copy of
    // memory and returns on a copy of this stack. CLONE_PIDFD writes one descriptor number to
    // the third argument, which outlives the call. One thread only, as for fork.
    let pid = unsafe {
        libc::syscall(
            libc::SYS_clone,
            flags as libc::c_ulong,
            std::ptr::null_mut::<libc::c_void>(),
            &raw mut pidfd,
            std::ptr::null_mut::<libc::c_int>(),
            0 as libc::c_ulong,
        )
    };
    match pid {
        -1 => Err(io::Error::last_os_error()),
        0 => run(keep, child),
        pid => Ok(Child {
            pid: Pid::from_raw(pid as i32).expect("clone gives the parent a positive pid"),
            // SAFETY: the kernel has just opened this descriptor for us; nobody else owns it.
            pidfd: unsafe { OwnedFd::from_raw_fd(pidfd) },
        }),
    }
}

/// `keep`: what the copy keeps; `None` for everything.
fn fork_keeping(keep: Option<&[BorrowedFd<'_>]>, child: impl FnOnce() -> u8) -> io::Result<Child> {
    assert_single_threaded();
    // SAFETY: the process has one thread (asserted), so the child finds no lock held and no
    // state half-changed by another thread; it may run any code.
    let pid = match unsafe { libc::fork() } {
        -1 => return Err(io::Error::last_os_error()),
        0 => run(keep, child),
        pid => Pid::from_raw(pid).expect("fork gives the parent a positive pid"),
    };
    // The child is not reaped, so its pid cannot have gone to another process.
    let pidfd = rustix::process::pidfd_open(pid, PidfdFlags::empty())?;
    Ok(Child { pid, pidfd })
}

/// The child's whole life. Never returns into the parent's frames, so nothing that they own
/// (descriptors closed here among it) is dropped a second time.
fn run(keep: Option<&[BorrowedFd<'_>]>, child: impl FnOnce() -> u8) -> ! {
    let status = catch_unwind(AssertUnwindSafe(|| {
        if let Some(keep) = keep {
            descriptors::close_all_but(keep);
        }
        child()
    }));
    // SAFETY: ends this process at once; running the parent's exit handlers would flush its
    // buffers a second time.
    unsafe { libc::_exit(i32::from(status.unwrap_or(PANICKED))) }
}

/// Whether this process has one thread, so that it can be copied.
pub fn has_one_thread() -> bool {
    // SAFETY: for a process of one thread unsharing the thread group changes nothing; for
    // any other the kernel refuses with EINVAL. Cheaper than reading /proc.
    unsafe { libc::unshare(libc::CLONE_THREAD) == 0 }
}

fn assert_single_threaded() {
    let alone = has_one_thread();
    assert!(alone, "a process of several threads must not be copied");
}

#[cfg(test)]
mod tests {
    use super::*;

    // Test harnesses have several threads; copies are tested in tests/copies.rs, which has none.
    #[test]
    #[should_panic(expected = "several threads")]
    fn a_process_of_several_threads_is_refused() {
        let (_hold, wait) = std::sync::mpsc::channel::<()>();
        std::thread::spawn(move || wait.recv());
        let _ = fork(&[], || 0);
    }
}
