//! What `stat` says (proc_pid_stat(5)): the kernel tells it sooner than `status`, which says more.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use rustix::process::{Pid, Signal};

use super::Entry;
use super::entry::number;

/// The first of the fields that stand after the name, as the manual numbers them: the state.
const AFTER_NAME: usize = 3;

/// The longest line, of 49 numbers and a name, is shorter.
const BYTES_MAX: usize = 2048;

/// Of a process or a thread, at one moment.
#[derive(Clone, Debug)]
pub struct Stat(String);

impl Stat {
    /// That of an entry.
    ///
    /// # Errors
    /// As for reading /proc.
    pub fn of(entry: impl Into<Entry>) -> io::Result<Self> {
        Ok(Self(entry.into().text("stat")?))
    }

    /// That of the moment, of a file `stat` that is open.
    ///
    /// # Errors
    /// `ESRCH` where the process or thread has ended; else as for reading /proc.
    pub fn read(stat: &File) -> io::Result<Self> {
        let mut bytes = [0; BYTES_MAX];
        let length = stat.read_at(&mut bytes, 0)?;
        Ok(Self(String::from_utf8_lossy(&bytes[..length]).into_owned()))
    }

    /// Whether it executes nothing any more.
    pub fn is_zombie(&self) -> bool {
        matches!(self.field(3), Some("Z" | "X"))
    }

    /// The parent of the process, if the caller can see it.
    pub fn parent(&self) -> Option<Pid> {
        self.field(4).and_then(number)
    }

    /// Whether the process leads its session. Both numbers are the caller's pid namespace's.
    pub fn leads_session(&self, process: Pid) -> bool {
        self.field(6).and_then(number) == Some(process)
    }

    /// Whether the process has executed a program since its birth (PF_FORKNOEXEC of the kernel).
    pub fn has_executed(&self) -> bool {
        const BORN_ALONE: i64 = 0x40;
        let flags = self.count(9);
        flags.is_none_or(|flags| flags & BORN_ALONE == 0)
    }

    /// What the process has used by itself, in clock ticks: its own time and the kernel's.
    pub fn times(&self) -> [i64; 2] {
        [14, 15].map(|field| self.count(field).unwrap_or(0))
    }

    /// The processor on which the thread runs, or ran last.
    pub fn processor(&self) -> Option<usize> {
        self.field(39)?.parse().ok()
    }

    /// Whether the process tells its parent of its end by SIGCHLD, as a child does that is no vessel.
    pub fn tells_by_signal(&self) -> bool {
        self.count(38) == Some(Signal::CHILD.as_raw().into())
    }

    fn count(&self, number: usize) -> Option<i64> {
        self.field(number)?.parse().ok()
    }

    fn field(&self, number: usize) -> Option<&str> {
        // The name before may hold anything, also `)`.
        let (_, fields) = self.0.rsplit_once(')')?;
        fields.split_ascii_whitespace().nth(number - AFTER_NAME)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_are_those_of_the_manual() {
        let fields: Vec<_> = (4..=52).map(|number| number.to_string()).collect();
        let stat = Stat(format!("7 (a) b) Z {}", fields.join(" ")));
        assert!(stat.is_zombie() && !stat.tells_by_signal());
        assert_eq!(stat.parent(), Pid::from_raw(4));
        assert!(stat.leads_session(Pid::from_raw(6).expect("a number")));
        assert_eq!(stat.times(), [14, 15]);
        assert_eq!(stat.processor(), Some(39));
        let sleeping = Stat("7 (a) Z) S 4 5".into());
        assert!(!sleeping.is_zombie() && !sleeping.tells_by_signal() && sleeping.has_executed());
        assert_eq!(sleeping.times(), [0, 0]);
        assert_eq!(sleeping.processor(), None);
    }

    #[test]
    fn a_child_tells_by_its_signal_and_is_a_zombie_until_it_is_reaped() {
        let own = Stat::of(Entry::own()).expect("own");
        assert!(!own.is_zombie());
        let mut child = std::process::Command::new("true").spawn().expect("spawn");
        let pid = Pid::from_child(&child);
        let begun = std::time::Instant::now();
        let ended = loop {
            let stat = Stat::of(pid).expect("its stat");
            assert_eq!(stat.parent(), Some(rustix::process::getpid()));
            assert!(stat.tells_by_signal() && stat.has_executed());
            assert!(begun.elapsed().as_secs() < 10, "it does not end");
            if stat.is_zombie() {
                break stat;
            }
            std::thread::yield_now();
        };
        assert!(!ended.leads_session(pid));
        child.wait().expect("wait");
    }
}
