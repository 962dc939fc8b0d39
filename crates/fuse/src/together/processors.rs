//! Which processors there are, who runs on which, and how many want to.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;

use rustix::fs::{CWD, Mode, OFlags};
use rustix::thread::{CpuSet, Pid, sched_getaffinity, sched_setaffinity};

/// A line of /proc/PID/stat is shorter.
const STAT_BYTES: usize = 1024;
/// `processor` in proc_pid_stat(5), counted from behind the name, which may hold anything.
const PROCESSOR_FIELD: usize = 36;

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
        let mut bytes = [0; STAT_BYTES];
        let read = stat.read_at(&mut bytes, 0);
        if read.is_err() {
            // Another thread may get its number.
            self.last = None;
        }
        processor_in(&bytes[..read.ok()?])
    }
}

fn processor_in(stat: &[u8]) -> Option<usize> {
    let name_end = stat.iter().rposition(|&byte| byte == b')')?;
    let fields = std::str::from_utf8(&stat[name_end + 1..]).ok()?;
    fields
        .split_ascii_whitespace()
        .nth(PROCESSOR_FIELD)?
        .parse()
        .ok()
}

/// Has the calling thread run on this processor only.
pub(super) fn stay_on(processor: usize) -> io::Result<()> {
    let mut only = CpuSet::new();
    if processor >= CpuSet::MAX_CPU {
        return Err(io::ErrorKind::Unsupported.into());
    }
    only.set(processor);
    Ok(sched_setaffinity(None, &only)?)
}

/// Has a thread run on the calling thread's processor.
pub(super) fn have_stay_here(thread: Pid) {
    let mut here = CpuSet::new();
    let processor = rustix::thread::sched_getcpu();
    if processor < CpuSet::MAX_CPU {
        here.set(processor);
        // As for `Allowed::give_to`.
        let _ = sched_setaffinity(Some(thread), &here);
    }
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
            stay_on(processor).expect("one of those that are allowed");
            assert_eq!(callers.processor(number), Some(processor));
        }
        allowed.give_to(own);
        let again = Allowed::here().expect("a set");
        assert_eq!(again.count(), allowed.count());
        assert_eq!(callers.processor(u32::MAX), None);
        assert!(callers.processor(number).is_some());
    }

    #[test]
    fn names_cannot_disguise_a_processor() {
        let stat = |name: &str| {
            let fields: Vec<_> = (3..=52).map(|number| number.to_string()).collect();
            format!("7 ({name}) {}\n", fields.join(" "))
        };
        for name in ["sh", ") S 1 2 (", "a b c"] {
            assert_eq!(processor_in(stat(name).as_bytes()), Some(39));
        }
        assert_eq!(processor_in(b""), None);
        assert_eq!(processor_in(b"7 (sh) S 1"), None);
    }

    #[test]
    fn those_that_want_to_run_are_counted() {
        assert_eq!(runnable_in("0.20 0.18 0.12 3/80 11206\n"), Some(3));
        assert_eq!(runnable_in("0.20"), None);
        assert!(runnable().is_some_and(|count| count > 0), "this one runs");
    }
}
