//! Processes that adopt the orphans below them.
//!
//! A process' vessels are its children, so when it is killed they are orphans: the process that adopts them would wait for
//! children that nobody has borne. As a rule that is the domain's pid 1, which is this program's own.

use std::collections::HashSet;
use std::io;

use rustix::process::Pid;

use surmise_syscalls::Syscall;

use crate::machine::task;

/// Those of a domain, beside its pid 1.
#[derive(Debug, Default)]
pub(crate) struct Reapers(HashSet<Pid>);

impl Reapers {
    /// Whether a call makes its process one.
    pub(crate) fn are_made_by(name: Syscall, arguments: &[u64; 6]) -> bool {
        /// PR_SET_CHILD_SUBREAPER of prctl(2).
        const SET_SUBREAPER: u64 = 36;
        name == Syscall::Prctl && arguments[0] == SET_SUBREAPER
    }

    /// A process becomes one, until it ends: that it may want to be none any more is not worth knowing.
    pub(crate) fn add(&mut self, process: Pid) {
        self.0.insert(process);
    }

    /// Whether a process descends from one.
    pub(crate) fn are_above(&self, process: Pid) -> io::Result<bool> {
        let mut next = process;
        while !self.0.is_empty()
            && let Some(parent) = task::parent_of(next)?
        {
            if self.0.contains(&parent) {
                return Ok(true);
            }
            next = parent;
        }
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_descendant_of_one_has_one_above() {
        let own = rustix::process::getpid();
        let parent = rustix::process::getppid().expect("a parent");
        let mut reapers = Reapers::default();
        assert!(!reapers.are_above(own).expect("look"));
        reapers.add(own);
        assert!(
            !reapers.are_above(own).expect("look"),
            "it has its own parent"
        );
        reapers.add(parent);
        assert!(reapers.are_above(own).expect("look"));
    }

    #[test]
    fn one_call_makes_reapers() {
        let asks = |name, option| Reapers::are_made_by(name, &[option, 1, 0, 0, 0, 0]);
        assert!(asks(Syscall::Prctl, 36));
        assert!(!asks(Syscall::Prctl, 15) && !asks(Syscall::Kill, 36));
    }
}
