//! Which files processes have open for writing, and which they execute.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use rustix::process::Pid;
use surmise_linux::proc::{self, Entry};

use super::seen::names::Names;
use super::{Learnt, Machine, reach, unless_out_of_reach};
use crate::call::Call;
use crate::objects::files::Target;
use crate::world::{Claim, Claims, Still};

/// What processes that hold images have open for writing, and what they execute: it never changes.
#[derive(Debug, Default)]
pub(super) struct Written {
    opened: HashMap<Pid, Vec<u64>>,
    programs: HashMap<Pid, Option<Target>>,
}

impl Claims for Machine {
    fn claim(&self, call: &Call) -> Option<Claim> {
        reach::claim(call.name(), call.arguments())
    }

    fn denied(&mut self, claim: Claim, still: &[Still]) -> io::Result<Vec<(Pid, Target)>> {
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
                    denied.extend(found.map(|inode| (one.process, Target::Inode(inode))));
                }
                Claim::Writes => {
                    let found = unless_out_of_reach(written.program(*one), None)?;
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
    fn program(&mut self, still: Still) -> io::Result<Option<Target>> {
        if let Some(known) = self.programs.get(&still.process) {
            return Ok(known.clone());
        }
        let found = program(still.process)?;
        if still.is_image {
            self.programs.insert(still.process, found.clone());
        }
        Ok(found)
    }
}

fn written(process: Pid, names: &Names) -> io::Result<Vec<u64>> {
    let mut opened = proc::opened(process)?;
    opened.retain(|(_, file)| file.is_for_writing() && names.is_view(file.mount));
    Ok(opened.iter().filter_map(|(_, file)| file.inode).collect())
}

/// The program that a process executes, by its name inside; `None` if it has no name any more.
fn program(process: Pid) -> io::Result<Option<Target>> {
    let path = fs::read_link(Entry::from(process).path("exe"))?;
    let is_removed = path.as_os_str().as_bytes().ends_with(b" (deleted)");
    let is_named = !is_removed && path.is_absolute() && path.to_str().is_some();
    Ok(is_named.then(|| Target::Path {
        base: PathBuf::from("/"),
        path,
        follows: false,
    }))
}
