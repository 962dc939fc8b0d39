//! Which files processes have open for writing, and which they execute.

use std::collections::HashMap;
use std::io;
use std::os::fd::AsRawFd;

use rustix::fs::{Mode, OFlags};
use rustix::process::Pid;
use surmise_linux::proc::{self, Entry, Opened};

use super::seen::names::Names;
use super::{Learnt, Machine, reach, unless_out_of_reach};
use crate::call::Call;
use crate::world::{Claim, Claims, Still};

/// What processes that hold images have open for writing, and what they execute: it never changes.
#[derive(Debug, Default)]
pub(super) struct Written {
    opened: HashMap<Pid, Vec<u64>>,
    programs: HashMap<Pid, Option<u64>>,
}

impl Claims for Machine {
    fn claim(&self, call: &Call) -> Option<Claim> {
        reach::claim(call.name(), call.arguments())
    }

    fn denied(&mut self, claim: Claim, still: &[Still]) -> io::Result<Vec<(Pid, u64)>> {
        let Some(Learnt { seen, written, .. }) = &mut self.learnt else {
            return Ok(Vec::new());
        };
        let mut denied = Vec::new();
        written.forget_all_but(still);
        for one in still {
            match claim {
                Claim::Executes => {
                    let found = written.of(*one, seen.names());
                    let found = unless_out_of_reach(found, Vec::new())?.into_iter();
                    denied.extend(found.map(|inode| (one.process, inode)));
                }
                Claim::Writes => {
                    let found = unless_out_of_reach(written.program(*one, seen.names()), None)?;
                    denied.extend(found.map(|program| (one.process, program)));
                }
            }
        }
        Ok(denied)
    }
}

impl Written {
    fn forget_all_but(&mut self, still: &[Still]) {
        let is_there = |process: &Pid| still.iter().any(|one| one.process == *process);
        self.opened.retain(|process, _| is_there(process));
        self.programs.retain(|process, _| is_there(process));
    }

    /// The numbers of the view's inodes that a process has open for writing.
    fn of(&mut self, still: Still, names: &Names) -> io::Result<Vec<u64>> {
        if let Some(known) = self.opened.get(&still.process) {
            return Ok(known.clone());
        }
        let found = written(still.process, names)?;
        if still.is_image {
            self.opened.insert(still.process, found.clone());
        }
        Ok(found)
    }

    /// As [`program`].
    fn program(&mut self, still: Still, names: &Names) -> io::Result<Option<u64>> {
        if let Some(known) = self.programs.get(&still.process) {
            return Ok(*known);
        }
        let found = program(still.process, names)?;
        if still.is_image {
            self.programs.insert(still.process, found);
        }
        Ok(found)
    }
}

fn written(process: Pid, names: &Names) -> io::Result<Vec<u64>> {
    let mut opened = proc::opened(process)?;
    opened.retain(|(_, file)| file.is_for_writing() && names.is_view(file.mount));
    Ok(opened.iter().filter_map(|(_, file)| file.inode).collect())
}

/// The number of the inode that a process executes, if the inode is the view's.
fn program(process: Pid, names: &Names) -> io::Result<Option<u64>> {
    // The view answers nobody outside the domain. What the kernel says of a descriptor it knows without asking.
    let path = Entry::from(process).path("exe");
    let program = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    let opened = Opened::of(Entry::own(), program.as_raw_fd())?;
    Ok(opened.inode.filter(|_| names.is_view(opened.mount)))
}
