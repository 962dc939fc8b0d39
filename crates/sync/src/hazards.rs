//! What makes it wrong to put a sync off: ways by which a task changes what the commits do not order.
//!
//! Such ways are heard of when they are opened, and their use is not. So while there are any, syncs are
//! made at once. When they are gone is found out by looking at the domain's processes, now and then.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::time::{Duration, Instant};

use rustix::fs::{major, minor};
use rustix::io::Errno;
use rustix::process::Pid;
use surmise_sys::seccomp::Notification;
use surmise_sys::tracing;

use crate::target::{Access, Target};

/// How long a look that has found something is good for. It costs more than the syncs that it spares.
const AGAIN: Duration = Duration::from_millis(100);

/// The ways that may be there.
#[derive(Debug)]
pub(crate) struct Hazards {
    /// The file system whose commits are ordered.
    volume: u64,
    /// The domain's pid 1, once it was looked for.
    init: Option<Pid>,
    /// Threads that are opening a way, with the call's number.
    opening: Vec<(Pid, u32)>,
    /// Some may be open.
    possible: bool,
    /// When one was last seen.
    seen: Option<Instant>,
    /// A socket leads to somebody outside. Whether it was closed is not found out.
    is_connected: bool,
}

impl Hazards {
    pub(crate) fn new(volume: u64) -> Self {
        Self {
            volume,
            init: None,
            opening: Vec::new(),
            possible: false,
            seen: None,
            is_connected: false,
        }
    }

    /// This call is about to open one.
    pub(crate) fn opens(&mut self, call: &Notification) {
        self.opening.push((call.thread, call.number));
        self.possible = true;
    }

    /// This call is about to connect to somebody outside.
    pub(crate) fn connects(&mut self) {
        self.is_connected = true;
    }

    /// Whether there are any, as seen by a call of `thread`.
    pub(crate) fn exist(&mut self, thread: Pid) -> bool {
        if self.is_connected {
            return true;
        }
        if !self.possible || self.seen.is_some_and(|seen| seen.elapsed() < AGAIN) {
            return self.possible;
        }
        // What cannot be looked at may be one.
        self.possible = self.look(thread).unwrap_or(true);
        self.seen = self.possible.then(Instant::now);
        self.possible
    }

    fn look(&mut self, thread: Pid) -> io::Result<bool> {
        self.opening
            .retain(|&(thread, number)| is_in_call(thread, number));
        if !self.opening.is_empty() {
            return Ok(true);
        }
        let init = match self.init {
            Some(init) => init,
            None => *self.init.insert(init_of(thread)?),
        };
        let tasks = tracing::tasks(init)?;
        let processes: BTreeSet<_> = tasks
            .iter()
            .map(|task| task.process.as_raw_nonzero())
            .collect();
        for process in processes {
            match self.has_hazard(process.get()) {
                Err(error) if is_gone(&error) => {}
                Ok(false) => {}
                found => return found,
            }
        }
        Ok(false)
    }

    fn has_hazard(&self, process: i32) -> io::Result<bool> {
        for entry in fs::read_dir(format!("/proc/{process}/fd"))? {
            let link = entry?.path();
            let writes = Access::at(&link)?.is_some_and(|access| access.writes);
            if writes && Target::at(link)?.is_some_and(|target| is_elsewhere(&target, self.volume))
            {
                return Ok(true);
            }
        }
        let maps = fs::read(format!("/proc/{process}/maps"))?;
        let mut maps = maps.split(|byte| *byte == b'\n');
        Ok(maps.any(|map| is_shared_map(map, self.volume)))
    }
}

/// Whether what is written there may outlive a loss of power, or be seen outside, before what was written
/// to the volume earlier does.
pub(crate) fn is_elsewhere(target: &Target, volume: u64) -> bool {
    let is_ordered = target.is_file() && target.device() == volume;
    !is_ordered && !target.is_harmless()
}

/// A line of proc_pid_maps(5): whether stores there change a file of the volume, in no order.
fn is_shared_map(line: &[u8], volume: u64) -> bool {
    let line = String::from_utf8_lossy(line);
    let mut words = line.split_ascii_whitespace().skip(1);
    let (Some(rights), Some(device)) = (words.next(), words.nth(1)) else {
        return false;
    };
    rights.ends_with('s') && device == format!("{:02x}:{:02x}", major(volume), minor(volume))
}

/// Whether a thread may still be in the call that it was let make.
fn is_in_call(thread: Pid, number: u32) -> bool {
    match fs::read_to_string(format!("/proc/{}/syscall", thread.as_raw_nonzero())) {
        Ok(text) => text
            .split_ascii_whitespace()
            .next()
            .is_some_and(|word| word == "running" || word == number.to_string()),
        Err(error) => !is_gone(&error),
    }
}

/// The pid 1 of a thread's pid namespace, which is among its ancestors.
fn init_of(thread: Pid) -> io::Result<Pid> {
    let mut task = thread;
    loop {
        let status = fs::read(format!("/proc/{}/status", task.as_raw_nonzero()))?;
        let status = String::from_utf8_lossy(&status);
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
        let own = field("NSpid:").and_then(|numbers| numbers.split_ascii_whitespace().last());
        if own == Some("1") {
            return Ok(task);
        }
        let parent = field("PPid:").and_then(|number| Pid::from_raw(number.trim().parse().ok()?));
        task = parent.ok_or(io::ErrorKind::NotFound)?;
    }
}

fn is_gone(error: &io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    matches!(errno, Some(Errno::NOENT | Errno::SRCH))
}

#[cfg(test)]
mod tests {
    use rustix::fs::makedev;

    use super::*;

    #[test]
    fn a_shared_map_of_the_volume_is_found_by_its_device() {
        let volume = makedev(7, 17);
        let is_shared = |line: &str| is_shared_map(line.as_bytes(), volume);
        assert!(is_shared(
            "7f00-7f10 rw-s 00000000 07:11 42   /mnt/database-shm"
        ));
        // It may become writable again.
        assert!(is_shared(
            "7f00-7f10 r--s 00000000 07:11 42   /mnt/database-shm"
        ));
        assert!(!is_shared(
            "7f00-7f10 rw-p 00000000 07:11 42   /mnt/program"
        ));
        assert!(!is_shared(
            "7f00-7f10 rw-s 00000000 00:01 42   /dev/zero (deleted)"
        ));
        assert!(!is_shared(""));
    }
}
