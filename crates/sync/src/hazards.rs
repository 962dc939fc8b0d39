//! Hazards: ways by which a task makes changes that the commits do not order, so that no sync may be put off.
//!
//! The syncer hears when a task opens such a way, and does not hear when the task uses it. So while there is one, syncs
//! are made at once. Now and then the syncer looks at the domain's processes to find out whether it is gone.

use std::fs;
use std::io;
use std::ops::Range;
use std::os::fd::RawFd;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::Pid;
use surmise_linux::proc::{self, Doing, Entry, Status};
use surmise_sys::seccomp::Notification;
use surmise_syscalls::row_numbered;

use crate::driver::Driver;
use crate::maps::{shared_maps, storable_maps};
use crate::reasons::{Reason, program, shown};
use crate::target::{Access, Target, descriptor_path};
use crate::wal_index::{INDEX_END, WalIndexes};

/// How long a look that has found something is good for. It costs more than the syncs that it spares.
const AGAIN: Duration = Duration::from_millis(100);

/// The ways that may be there.
#[derive(Debug)]
pub(crate) struct Hazards {
    /// The file system whose commits are ordered.
    volume: u64,
    /// Its number in the lines of maps.
    superblock: u64,
    /// Whether all other files are a view's.
    is_in_view: bool,
    /// The domain's pid 1, once it was looked for.
    init: Option<Pid>,
    /// Threads that are opening a way, with the call's number.
    opening: Vec<(Pid, u32)>,
    /// Some may be open.
    possible: bool,
    /// When one was last seen, and which.
    seen: Option<(Instant, Reason)>,
    /// Why syncs are real from now on: one of those ways was opened of which no look finds out whether it is gone.
    lasting: Option<Reason>,
    /// Shared maps that are no such way.
    indexes: WalIndexes,
}

impl Hazards {
    pub(crate) fn new(driver: &dyn Driver, is_in_view: bool) -> Self {
        Self {
            volume: driver.device(),
            superblock: driver.superblock(),
            is_in_view,
            init: None,
            opening: Vec::new(),
            possible: false,
            seen: None,
            lasting: None,
            indexes: WalIndexes::default(),
        }
    }

    /// This call is about to open one.
    pub(crate) fn opens(&mut self, call: &Notification) {
        self.opening.push((call.thread, call.number));
        self.possible = true;
    }

    /// This call is about to connect to somebody outside.
    pub(crate) fn connects(&mut self, call: &Notification) {
        self.lasting.get_or_insert_with(|| Reason::Connected {
            program: program(call.thread),
        });
    }

    /// This call is about to map a file elsewhere, which `descriptor` leads to, such that it can be stored into. The
    /// map stays when the descriptor is closed, and maps do not tell files of two subvolumes apart.
    pub(crate) fn maps_elsewhere(&mut self, call: &Notification, descriptor: RawFd) {
        self.lasting.get_or_insert_with(|| {
            let file = fs::read_link(descriptor_path(call.thread, descriptor));
            Reason::MappedElsewhere {
                file: shown(&file.unwrap_or_default()),
                program: program(call.thread),
            }
        });
    }

    /// A call may be about to map anything: what it leads to could not be looked at.
    pub(crate) fn maps_unseen(&mut self, error: &io::Error) {
        self.lasting.get_or_insert_with(|| not_seen(error));
    }

    /// A call asks for a file of the volume to be durable.
    pub(crate) fn asks_for(&mut self, file: &Target) {
        // One that is mapped by now may not have been looked at.
        if self.indexes.have(file.inode()) || self.possible && file.is_named(INDEX_END) {
            self.indexes.want(file.inode());
        }
    }

    /// A call of `thread` asks for what is mapped at some of its addresses to be durable.
    pub(crate) fn asks_for_map(&mut self, thread: Pid, addresses: &Range<u64>) {
        // What cannot be looked at now cannot be later, and is one then.
        let maps = shared_maps(thread, self.superblock).unwrap_or_default();
        for map in maps.iter().filter(|map| map.overlaps(addresses)) {
            self.indexes.want(map.inode);
        }
    }

    /// One of them, as seen by a call of `thread`, if there are any.
    pub(crate) fn find(&mut self, thread: Pid) -> Option<Reason> {
        if self.lasting.is_some() {
            return self.lasting.clone();
        }
        if !self.indexes.stand() {
            self.possible = true;
        }
        if !self.possible {
            return None;
        }
        let seen = self.seen.take();
        if let Some((when, _)) = &seen
            && when.elapsed() < AGAIN
        {
            self.seen = seen;
        } else {
            // What cannot be looked at may be one.
            let found = self
                .look(thread)
                .unwrap_or_else(|error| Some(not_seen(&error)));
            self.possible = found.is_some();
            self.seen = found.map(|reason| (Instant::now(), reason));
        }
        self.seen.as_ref().map(|(_, reason)| reason.clone())
    }

    fn look(&mut self, thread: Pid) -> io::Result<Option<Reason>> {
        self.opening
            .retain(|&(thread, number)| is_in_call(thread, number));
        if let Some(&(thread, number)) = self.opening.first() {
            return Ok(Some(Reason::Opening {
                call: row_numbered(number).map_or_else(String::new, |row| row.name().to_string()),
                program: program(thread),
            }));
        }
        let init = match self.init {
            Some(init) => init,
            None => *self.init.insert(init_of(thread)?),
        };
        let tasks = proc::tasks(init)?;
        let mut processes: Vec<_> = tasks.iter().map(|task| task.process).collect();
        processes.sort_unstable_by_key(|process| process.as_raw_pid());
        processes.dedup();
        self.indexes.clear();
        for process in processes {
            match self.hazard_of(process, init) {
                Err(error) if proc::is_gone(&error) => {}
                Ok(None) => {}
                found => return found,
            }
        }
        Ok(None)
    }

    fn hazard_of(&mut self, process: Pid, init: Pid) -> io::Result<Option<Reason>> {
        for entry in fs::read_dir(Entry::from(process).path("fd"))? {
            let link = entry?.path();
            let writes = Access::at(&link)?.is_some_and(|access| access.writes);
            let target = match writes {
                true => Target::at(link.clone()),
                false => Ok(None),
            };
            let target = match target {
                Err(error) if self.is_in_view && is_of_view(&error) => None,
                target => target?,
            };
            if target.is_some_and(|target| is_elsewhere(&target, self.volume)) {
                return Ok(Some(Reason::OpenElsewhere {
                    // It may be closed by now.
                    file: shown(&fs::read_link(link).unwrap_or_default()),
                    program: program(process),
                }));
            }
        }
        let maps = storable_maps(process, self.superblock)?;
        // A path of a map begins where all processes of the domain began. One that has another root by now may be
        // asked by pid 1's, which an ordinary user may not look at.
        let roots = [process, init].map(|of| Entry::from(of).path("root"));
        // All of them are of the volume: who maps a file of another subvolume is not looked at any more.
        let mut maps = maps.iter();
        let hazard = maps.find(|map| !self.indexes.take(map, &roots, self.volume));
        Ok(hazard.map(|map| Reason::Mapped {
            file: shown(&map.path),
            program: program(process),
        }))
    }
}

/// Whether a file could not be looked at since it is a view's: its attributes are for nobody outside.
pub(crate) fn is_of_view(error: &io::Error) -> bool {
    Errno::from_io_error(error) == Some(Errno::ACCESS)
}

/// What cannot be looked at may be anything.
pub(crate) fn not_seen(error: &io::Error) -> Reason {
    Reason::NotSeen {
        error: error.to_string(),
    }
}

/// Whether what is written there may outlive a loss of power, or be seen outside, before what was written
/// to the volume earlier does.
pub(crate) fn is_elsewhere(target: &Target, volume: u64) -> bool {
    let is_ordered = target.is_file() && target.device() == volume;
    !is_ordered && !target.is_harmless()
}

/// Whether a thread may still be in the call that it was let make.
fn is_in_call(thread: Pid, number: u32) -> bool {
    match proc::doing(thread) {
        Ok(Doing::Running) => true,
        Ok(Doing::Calling(call)) => call.number == number,
        Ok(Doing::Sleeping) => false,
        Err(error) => !proc::is_gone(&error),
    }
}

/// The pid 1 of a thread's pid namespace, which is among its ancestors.
fn init_of(thread: Pid) -> io::Result<Pid> {
    let mut task = thread;
    loop {
        let status = Status::of(task)?;
        if status.inner().is_some_and(Pid::is_init) {
            return Ok(task);
        }
        task = status.parent().ok_or(io::ErrorKind::NotFound)?;
    }
}
