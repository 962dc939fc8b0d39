//! Which processors there are, who runs on which, and how many want to.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{CWD, Mode, OFlags};
use rustix::thread::{CpuSet, Pid, sched_getaffinity, sched_setaffinity};
use surmise_linux::proc::Stat;

/// Where the callers of requests run, from a directory such as /proc.
#[derive(Debug)]
pub(super) struct Callers {
    processes: OwnedFd,
    last: Option<(u32, File)>,
}

impl Callers {
    /// `processes` is a mount of procfs in the callers' namespace.
    pub(super) fn new(processes: OwnedFd) -> Self {
        Self {
            processes,
            last: None,
        }
    }

    /// On which processor this thread runs, or ran last; `None` of one that has ended.
    pub(super) fn processor(&mut self, thread: u32) -> Option<usize> {
        if self.last.as_ref().is_none_or(|(last, _)| *last != thread) {
            let path = format!("{thread}/stat");
            let flags = OFlags::RDONLY | OFlags::CLOEXEC;
            let stat = rustix::fs::openat(self.processes.as_fd(), path, flags, Mode::empty());
            self.last = stat.ok().map(|stat| (thread, stat.into()));
        }
        let (_, stat) = self.last.as_ref()?;
        let stat = Stat::read(stat);
        if stat.is_err() {
            // Another thread may get its number.
            self.last = None;
        }
        stat.ok()?.processor()
    }
}

/// Has a thread, or the calling one, run on this processor only.
///
/// # Errors
/// As `sched_setaffinity`, and `Unsupported` for a processor with a larger number than it takes.
pub(super) fn bind(thread: Option<Pid>, processor: usize) -> io::Result<()> {
    if processor >= CpuSet::MAX_CPU {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let mut only = CpuSet::new();
    only.set(processor);
    Ok(sched_setaffinity(thread, &only)?)
}

/// The processors that the calling thread may run on.
#[derive(Debug)]
pub(super) struct Allowed(CpuSet);

impl Allowed {
    pub(super) fn here() -> io::Result<Self> {
        Ok(Self(sched_getaffinity(None)?))
    }

    pub(super) fn count(&self) -> u32 {
        self.0.count()
    }

    /// Lets a thread run on all of them.
    pub(super) fn give_to(&self, thread: Pid) {
        // Fails only for a thread that has ended, or where somebody has restricted this process meanwhile.
        let _ = sched_setaffinity(Some(thread), &self.0);
    }
}

/// How many threads of the machine want to run; `None` where that cannot be known.
pub(super) fn runnable() -> Option<u32> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let file = rustix::fs::openat(CWD, "/proc/loadavg", flags, Mode::empty()).ok()?;
    let mut bytes = [0; 128];
    let length = rustix::io::read(file, &mut bytes[..]).ok()?;
    runnable_in(std::str::from_utf8(&bytes[..length]).ok()?)
}

/// The first number of the fourth field, `1/80` (proc_loadavg(5)).
fn runnable_in(load: &str) -> Option<u32> {
    let (runnable, _) = load.split_ascii_whitespace().nth(3)?.split_once('/')?;
    runnable.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn processes() -> OwnedFd {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        rustix::fs::openat(CWD, "/proc", flags, Mode::empty()).expect("/proc")
    }

    #[test]
    fn a_thread_is_found_where_it_stays() {
        let allowed = Allowed::here().expect("a set");
        let own = rustix::thread::gettid();
        let number = own.as_raw_nonzero().get().cast_unsigned();
        let mut callers = Callers::new(processes());
        for processor in (0..CpuSet::MAX_CPU).filter(|&number| allowed.0.is_set(number)) {
            bind(None, processor).expect("one of those that are allowed");
            assert_eq!(callers.processor(number), Some(processor));
        }
        allowed.give_to(own);
        let again = Allowed::here().expect("a set");
        assert_eq!(again.count(), allowed.count());
        assert_eq!(callers.processor(u32::MAX), None);
        assert!(callers.processor(number).is_some());
    }

    #[test]
    fn those_that_want_to_run_are_counted() {
        assert_eq!(runnable_in("0.20 0.18 0.12 3/80 11206\n"), Some(3));
        assert_eq!(runnable_in("0.20"), None);
        assert!(runnable().is_some_and(|count| count > 0), "this one runs");
    }
}
