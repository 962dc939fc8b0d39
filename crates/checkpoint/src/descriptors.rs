//! The descriptors of a process: which there are, and where in their files they stand.

use std::cell::OnceCell;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd, RawFd};
use std::os::unix::fs::FileExt;

use rustix::fs::{Mode, OFlags, SeekFrom};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags};
use surmise_linux::proc::{self, Link, Opened};
use surmise_sys::memory;
use surmise_sys::ptrace::call;

use crate::checkpoint::Had;
use crate::error::{RollbackError, restoring};
use crate::held::Hand;
use crate::obstacles;
use crate::scratch::Scratch;
use crate::threads;
use crate::vessel::Vessel;

/// What is kept of the descriptors of a process at one moment. Which there were the vessel knows: it has
/// them, too. The position of a file and its status flags they share, so these are noted before the process changes them.
///
/// No file is open here, but by the vessel: whoever has a file open for writing keeps others from executing it.
#[derive(Debug, Default)]
pub(crate) struct Descriptors {
    /// The descriptors of the vessel, one for each open file, in the order of these; once that was asked for. They never change.
    in_order: OnceCell<Vec<RawFd>>,
    /// By that descriptor of the vessel: where files were whose positions the process has moved.
    positions: BTreeMap<RawFd, u64>,
    /// Likewise: the status flags that the process has changed.
    flags: BTreeMap<RawFd, OFlags>,
}

/// A descriptor that the process has lost, or that leads elsewhere.
struct Lost {
    number: RawFd,
    flags: OFlags,
}

impl Descriptors {
    /// Gives a process back the descriptors that its vessel has, and closes those that it has got since.
    pub(crate) fn restore(
        &self,
        process: Pid,
        vessel: &Vessel,
        hand: &mut Hand<'_>,
        scratch: &mut Scratch,
    ) -> Result<(), RollbackError> {
        let listed = |process| {
            let directory = open_directory(process, "fdinfo")?;
            let numbers = numbers(&directory)?;
            Ok::<_, io::Error>((directory, numbers))
        };
        let failed = restoring("list descriptors");
        let (present, wanted) = listed(process)
            .and_then(|present| Ok((present, listed(vessel.process())?)))
            .map_err(failed)?;
        for &number in &present.1 {
            if wanted.1.binary_search(&number).is_err() {
                let closed = hand.call_raw(call::CLOSE, [number as u64, 0, 0, 0, 0, 0]);
                closed.map_err(restoring("close a descriptor"))?;
            }
        }
        let mut lost = Vec::new();
        for &number in &wanted.1 {
            let found = || {
                let flags = flags(&wanted.0, number)?;
                let is_same = present.1.binary_search(&number).is_ok()
                    && memory::is_same_file((process, number), (vessel.process(), number))?
                    && self::flags(&present.0, number)?.contains(OFlags::CLOEXEC)
                        == flags.contains(OFlags::CLOEXEC);
                Ok::<_, io::Error>((!is_same).then_some(Lost { number, flags }))
            };
            lost.extend(found().map_err(restoring("compare descriptors"))?);
        }
        add(&lost, vessel, hand, scratch).map_err(restoring("add descriptors"))?;
        for (&number, &flags) in &self.flags {
            let set = open(vessel.process(), number)
                .and_then(|file| Ok(rustix::fs::fcntl_setfl(file, flags)?));
            set.map_err(restoring("set the flags of a file"))?;
        }
        let sought = self.seek(vessel);
        sought.map_err(restoring("set the position of a file"))
    }

    /// The descriptor of a vessel that stands for the open file which a process has by this number. An open file may have several
    /// descriptors.
    pub(crate) fn find(
        &self,
        vessel: &Vessel,
        process: Pid,
        number: RawFd,
    ) -> io::Result<Option<RawFd>> {
        let vessel = vessel.process();
        let compare = |held| memory::compare_files((vessel, held), (process, number));
        let in_order = match self.in_order.get() {
            Some(in_order) => in_order,
            None => {
                let in_order = in_order(vessel)?;
                self.in_order.get_or_init(|| in_order)
            }
        };
        // Most stay where they are.
        if in_order.contains(&number) && compare(number).is_ok_and(Ordering::is_eq) {
            return Ok(Some(number));
        }
        let place = search(in_order, compare)?;
        Ok(place.ok().map(|place| in_order[place]))
    }

    /// What of an open file is known that a process has by this number.
    pub(crate) fn had(&self, vessel: &Vessel, process: Pid, number: RawFd) -> io::Result<Had> {
        let held = self.find(vessel, process, number)?;
        Ok(match held.map(|held| self.positions.contains_key(&held)) {
            None => Had::No,
            Some(false) => Had::Unmoved,
            Some(true) => Had::Moved,
        })
    }

    /// Where a file was that a process has by this number; `None` where the process had it not, or has not moved it since.
    pub(crate) fn noted_position(
        &self,
        vessel: &Vessel,
        process: Pid,
        number: RawFd,
    ) -> io::Result<Option<u64>> {
        if self.positions.is_empty() {
            return Ok(None);
        }
        let held = self.find(vessel, process, number)?;
        Ok(held.and_then(|held| self.positions.get(&held).copied()))
    }

    /// The process is about to move the position of a file. True if that may be news to what is kept of an earlier moment, too.
    pub(crate) fn note_moved(&mut self, vessel: &Vessel, process: Pid, number: RawFd) -> bool {
        let held = match self.find(vessel, process, number) {
            Ok(Some(held)) => held,
            // A rollback closes what the process has opened since.
            Ok(None) => return false,
            Err(_) => return true,
        };
        let Entry::Vacant(unnoted) = self.positions.entry(held) else {
            return false;
        };
        // What is not there cannot be moved.
        if let Ok(opened) = Opened::of(process, number) {
            unnoted.insert(opened.position);
        }
        true
    }

    /// The process is about to change the status flags of a file.
    pub(crate) fn note_flags(&mut self, vessel: &Vessel, process: Pid, number: RawFd) {
        if let Ok(Some(held)) = self.find(vessel, process, number)
            && let Entry::Vacant(unnoted) = self.flags.entry(held)
            && let Ok(opened) = Opened::of(process, number)
            // Those of a place nobody can change.
            && !opened.flags.contains(OFlags::PATH)
        {
            unnoted.insert(opened.flags - OFlags::CLOEXEC);
        }
    }

    /// Only what the process itself has moved: others may share a file, and move it, too.
    fn seek(&self, vessel: &Vessel) -> io::Result<()> {
        for (&number, &position) in &self.positions {
            let file = open(vessel.process(), number)?;
            // What has no position was not moved.
            let now = rustix::fs::seek(&file, SeekFrom::Current(0));
            if now.is_ok_and(|now| now != position) {
                rustix::fs::seek(&file, SeekFrom::Start(position))?;
            }
        }
        Ok(())
    }
}

/// Of each open file of a vessel the lowest descriptor, in the order of the files.
fn in_order(vessel: Pid) -> io::Result<Vec<RawFd>> {
    let mut in_order: Vec<RawFd> = Vec::new();
    let directory = open_directory(vessel, "fd")?;
    for number in numbers(&directory)? {
        let compare = |held| memory::compare_files((vessel, held), (vessel, number));
        if let Err(place) = search(&in_order, compare)? {
            in_order.insert(place, number);
        }
    }
    Ok(in_order)
}

/// Where among descriptors in order one is that equals what they are compared with, or else where that belongs.
fn search(
    in_order: &[RawFd],
    compare: impl Fn(RawFd) -> io::Result<Ordering>,
) -> io::Result<Result<usize, usize>> {
    let (mut start, mut end) = (0, in_order.len());
    while start < end {
        let middle = start.midpoint(end);
        match compare(in_order[middle])? {
            Ordering::Equal => return Ok(Ok(middle)),
            Ordering::Less => start = middle + 1,
            Ordering::Greater => end = middle,
        }
    }
    Ok(Err(start))
}

/// Has the kernel ask for the sizes of the files that a process has open: it appends and copies by what it believes.
///
/// The process looks, which may where its tracer may not. Nor does a look wait for a lock of the file: another process may hold
/// that while it waits for what comes after this.
pub(crate) fn learn_sizes(hand: &mut Hand<'_>, process: Pid) -> io::Result<()> {
    /// Of `struct stat` (stat(2)).
    const STAT_SIZE: usize = 144;
    let mut files = Vec::new();
    proc::each_link(process, |number, link| match link {
        Link::Other(path) if path.starts_with('/') && !path.starts_with("/dev/") => {
            files.push(number)
        }
        _ => {}
    })?;
    for number in files {
        let asking = |place| (call::FSTAT, [number as u64, place, 0, 0, 0, 0]);
        hand.ask::<STAT_SIZE>(asking)?;
    }
    Ok(())
}

/// Whether a relative of a process has the same open file: what one reads is read for both. Looks at its
/// parent, its siblings and its children, save for its vessels.
///
/// # Errors
/// As for reading /proc.
pub fn is_shared_with_relatives(
    process: Pid,
    number: RawFd,
    is_vessel: impl Fn(Pid) -> bool,
) -> io::Result<bool> {
    let mut relatives = obstacles::children(process)?;
    if let Some(parent) = obstacles::parent(process)? {
        relatives.push(parent);
        // A vessel of the parent is among them: what that holds a rollback gives back to the parent. Or they are none of
        // the domain's.
        let siblings = obstacles::children(parent).unwrap_or_default().into_iter();
        relatives.extend(siblings.filter(|&sibling| sibling != process));
    }
    relatives.retain(|&relative| !is_vessel(relative));
    // It may have ended, or be no process of the domain.
    let has_by = |relative, other| {
        let is_same = memory::is_same_file((process, number), (relative, other));
        is_same.unwrap_or(false)
    };
    // Most of those who have it have it by the same number.
    if relatives.iter().any(|&relative| has_by(relative, number)) {
        return Ok(true);
    }
    Ok(relatives.into_iter().any(|relative| {
        let listed = open_directory(relative, "fd").and_then(|directory| numbers(&directory));
        let mut others = listed.unwrap_or_default().into_iter();
        others.any(|other| has_by(relative, other))
    }))
}

fn add(
    lost: &[Lost],
    vessel: &Vessel,
    hand: &mut Hand<'_>,
    scratch: &mut Scratch,
) -> io::Result<()> {
    let is_place = |lost: &&Lost| lost.flags.contains(OFlags::PATH);
    // The kernel adds none of these for a supervisor.
    for lost in lost.iter().filter(is_place) {
        reopen(lost, vessel, hand, scratch)?;
    }
    let mut files = Vec::new();
    for lost in lost.iter().filter(|lost| !is_place(lost)) {
        files.push((lost, open(vessel.process(), lost.number)?));
    }
    if files.is_empty() {
        return Ok(());
    }
    hand.meanwhile(|gate, call| {
        for (lost, file) in &files {
            let close_on_exec = lost.flags.contains(OFlags::CLOEXEC);
            gate.add_descriptor(call, file.as_fd(), lost.number, close_on_exec)?;
        }
        Ok(())
    })
}

/// Has the process open once more what it only names (O_PATH of open(2)): such a descriptor has no state.
fn reopen(
    lost: &Lost,
    vessel: &Vessel,
    hand: &mut Hand<'_>,
    scratch: &mut Scratch,
) -> io::Result<()> {
    let close_on_exec = lost.flags & OFlags::CLOEXEC;
    // A link that the kernel follows by itself, and no further.
    let path = format!("/proc/{}/fd/{}\0", vessel.inner(), lost.number);
    let path = scratch.write(hand, path.as_bytes())?;
    let flags = (OFlags::PATH | OFlags::CLOEXEC).bits();
    let opened = hand.call(call::OPENAT, [call::HERE, path, flags.into(), 0, 0, 0])?;
    let number = lost.number as u64;
    if opened != number {
        let flags = close_on_exec.bits();
        hand.call(call::DUP3, [opened, number, flags.into(), 0, 0, 0])?;
        hand.call(call::CLOSE, [opened, 0, 0, 0, 0, 0])?;
    } else if close_on_exec.is_empty() {
        const SET_FLAGS: u64 = 2;
        hand.call(call::FCNTL, [number, SET_FLAGS, 0, 0, 0, 0])?;
    }
    Ok(())
}

fn open(process: Pid, number: RawFd) -> io::Result<OwnedFd> {
    if number < 0 {
        return Err(Errno::BADF.into());
    }
    let pidfd = rustix::process::pidfd_open(process, PidfdFlags::empty())?;
    let file = rustix::process::pidfd_getfd(pidfd, number, PidfdGetfdFlags::empty())?;
    Ok(file)
}

fn open_directory(process: Pid, name: &str) -> io::Result<OwnedFd> {
    let path = format!("/proc/{}/{name}", process.as_raw_nonzero());
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

/// Rising.
fn numbers(directory: &OwnedFd) -> io::Result<Vec<RawFd>> {
    let mut numbers = threads::numbers(directory)?;
    numbers.sort_unstable();
    Ok(numbers)
}

/// The flags of the file and of the descriptor (proc_pid_fdinfo(5)).
fn flags(directory: &OwnedFd, number: RawFd) -> io::Result<OFlags> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let name = number.to_string();
    let file = File::from(rustix::fs::openat(directory, name, flags, Mode::empty())?);
    let mut text = [0; 128];
    let length = file.read_at(&mut text, 0)?;
    let text = String::from_utf8_lossy(&text[..length]);
    let line = text.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = line.and_then(|digits| u32::from_str_radix(digits.trim(), 8).ok());
    let unknown = || io::Error::other("a descriptor that /proc does not describe");
    flags.map(OFlags::from_bits_retain).ok_or_else(unknown)
}
