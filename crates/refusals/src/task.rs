//! What is asked of a task that calls.

use std::io;
use std::os::fd::{OwnedFd, RawFd};

use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags};
use surmise_linux::proc::{self, Status};

/// The process of a thread.
fn process_of(thread: Pid) -> Option<Pid> {
    Status::of(thread).ok()?.process()
}

/// The program of a thread's process, as `ps` shows it. Threads may have other names.
pub(crate) fn program_of(thread: Pid) -> Option<String> {
    proc::name(process_of(thread)?).ok()
}

/// A copy of a descriptor of a thread's process.
pub(crate) fn descriptor_of(thread: Pid, descriptor: RawFd) -> io::Result<OwnedFd> {
    if descriptor < 0 {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let process = process_of(thread).ok_or(io::ErrorKind::NotFound)?;
    let pidfd = rustix::process::pidfd_open(process, PidfdFlags::empty())?;
    let copy = rustix::process::pidfd_getfd(pidfd, descriptor, PidfdGetfdFlags::empty());
    Ok(copy?)
}

/// Whether a process has this number in the pid namespace of a thread; `None` if that is not known.
pub(crate) fn has_process(thread: Pid, number: u64) -> Option<bool> {
    let own = proc::namespace(thread, "pid").ok()?;
    let is_it = |process: &Pid| {
        // One that has ended meanwhile has no status.
        let inner = Status::of(*process).ok().and_then(|status| status.inner());
        inner.is_some_and(|inner| u64::from(inner.as_raw_nonzero().get().unsigned_abs()) == number)
            && proc::namespace(*process, "pid").is_ok_and(|found| found == own)
    };
    Some(proc::processes().ok()?.iter().any(is_it))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_its_processs_program() {
        let named = std::thread::Builder::new().name("worker".into());
        let thread = named.spawn(|| {
            let thread = rustix::thread::gettid();
            let own = rustix::process::getpid().as_raw_nonzero().get();
            let has = |number| has_process(thread, number);
            (
                program_of(thread),
                has(own.unsigned_abs().into()),
                has(1 << 40),
            )
        });
        let (program, has, lacks) = thread.expect("spawn").join().expect("no panic");
        assert_eq!(program, proc::name(rustix::process::getpid()).ok());
        assert_eq!((has, lacks), (Some(true), Some(false)));
    }
}
