//! The journal of a commit: what a process needs that finishes, or undoes, what another began.
//!
//! # Format, tag `COMMIT`, version 2
//!
//! The file `commit` in the domain's state directory, a log of `surmise-journal`. The log gets this name when
//! all up to frame 9 is durable; what begins to write it uses `commit.new`. A frame is a tag
//! byte and a value. Integers are little-endian; `bytes` is a `u32` length and that many bytes;
//! `optional` is a byte 0, or a byte 1 and the value; `list` is a `u32` count and the values; an
//! index is a `u64`; a `time` is `i64` seconds and `u32` nanoseconds; a `key` is device `u64` and
//! inode `u64`; an `identity` is a key, `st_mode & S_IFMT` `u32`, size `u64`, modified `time`,
//! changed `time`; a `place` is a directory's index and a name (`bytes`).
//!
//! | tag | frame | fields |
//! |---|---|---|
//! | 1 | head | root path bytes |
//! | 2 | directory | key optional, staging optional index, places list, modified optional time |
//! | 3 | staging | place, content, metadata optional |
//! | 4 | aside | place, temporary bytes, expected |
//! | 5 | placement | item, from place, to place, displaces optional expected, home optional bytes |
//! | 6 | edit | key, places list, object optional u64, metadata |
//! | 7 | removal | place, expected, is directory u8, home optional bytes, is kept u8 |
//! | 8 | finish | directory index, metadata |
//! | 9 | stage | none: the plan is whole, staging begins |
//! | 10 | staged | staging index, key, is the object's own inode u8 |
//! | 11 | go | none: the point of no return |
//! | 12 | written | left list of (path bytes, reason u8): names and files are durable, what goes may go |
//! | 13 | end | left list as above: all done |
//! | 14 | link | key, sources list of places, place, to place |
//! | 15 | opened | directory index, permissions u16 |
//! | 16 | made | staging index, size u64, modified `time` |
//! | 17 | pre-image | edit index, metadata, data optional (size u64, sum u32, list of (start u64, length u64)) |
//! | 18 | undo | none: from here on the commit is only taken back |
//! | 19 | reverted | none: what was there is back in place, and what was staged remains to be taken away |
//!
//! Content: a byte 1 (directory), 2 (regular: object optional u64), 3 (symlink: target bytes),
//! 4 (special: `S_IFMT` u32, device u64) or 5 (staged: index). Item: a byte 1 (real: key) or 2 (staged: index). Expected: a byte 1 (inode: key) or 2 (state: identity).
//! Metadata: permissions optional u16, uid optional u32, gid optional u32, xattrs list of (name
//! bytes, value optional bytes), accessed optional time, modified optional time.
//!
//! A pre-image is what an edited inode had before: every piece of metadata that the edit, or the kernel
//! on its way, may change, and which bytes of its data will. Those bytes are in the file
//! `commit.undo/EDIT` at their own offsets; a range that lies in no data of that file was zeros. The sum is
//! the CRC-32C of the bytes of all ranges, one after the other.
//!
//! Frames 9, 11, 12, 13, 18 and 19 are durable before the commit goes on. A journal without frame 11 is undone, and so is one with frame
//! 18; any other with frame 11 is done. Frame 18 never follows frame 12.

mod codec;
mod flagged;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
mod record;
#[cfg(test)]
mod tests;
mod undone;

use std::io;
use std::path::{Path, PathBuf};

use surmise_journal::{Format, Journal as Log, OpenError};

use crate::plan::Plan;
use crate::preimage::{self, Preimage};
pub(crate) use flagged::{Flagged, flagged, note_flagged};
use record::Frame;
pub(crate) use record::{Left, Made, Staged};
pub(crate) use undone::{Undone, note_undone, undone};

const FILE: &str = "commit";

const FORMAT: Format = Format {
    tag: "COMMIT",
    version: 2,
};

/// How far a commit has come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// It is being prepared, and can be undone without a trace.
    #[default]
    Staging,
    /// It is being taken back after its first visible change, and only ever goes on so.
    Undoing,
    /// It has begun, and goes on unless it is told to be taken back.
    Applying,
    /// It is complete.
    Done,
}

/// A commit's journal, open for appending.
#[derive(Debug)]
pub(crate) struct Journal {
    log: Log,
}

/// What a journal holds.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    pub(crate) root: PathBuf,
    pub(crate) plan: Plan,
    pub(crate) staged: Vec<Staged>,
    pub(crate) made: Vec<Made>,
    pub(crate) preimages: Vec<Preimage>,
    pub(crate) phase: Phase,
    pub(crate) is_reverted: bool,
    /// What was left, once names and files are written.
    pub(crate) written: Option<Vec<Left>>,
}

/// Why a journal could not be read.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The log itself.
    #[error("{file}: {source}")]
    Open {
        /// Its name in the state directory.
        file: &'static str,
        /// What is wrong.
        source: OpenError,
    },
    /// A frame that no Surmise of this version writes.
    #[error("{file}: record {frame} is malformed")]
    Malformed {
        /// The log's name in the state directory.
        file: &'static str,
        /// Which frame, counted from 1.
        frame: u64,
    },
}

/// Why the journal of a commit could not be removed for good.
#[derive(Debug, thiserror::Error)]
pub enum ForgetError {
    /// The journal cannot be read.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The commit is not complete. Only [`crate::resume`] ends it.
    #[error("the commit is not complete: {0:?}")]
    Incomplete(Phase),
    /// What the file system says.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Journal {
    /// Starts the journal of a plan, with all of the plan in it. There is a journal when this returns, and none
    /// of a part of the plan whenever it is cut short.
    pub(crate) fn start(directory: &Path, root: &Path, plan: &Plan) -> Result<Self, OpenError> {
        // What a kill left of an earlier commit, whose journal is gone.
        preimage::remove(directory)?;
        let unfinished = directory.join("commit.new");
        remove_file(&unfinished)?;
        let log = Log::create_at(&unfinished, FORMAT)?;
        let mut journal = Self { log };
        journal.append(&Frame::Head {
            root: root.as_os_str().to_owned(),
        })?;
        for frame in Frame::of_plan(plan) {
            journal.append(&frame)?;
        }
        journal.append(&Frame::Stage)?;
        journal.log.sync()?;
        std::fs::rename(unfinished, path(directory))?;
        std::fs::File::open(directory)?.sync_all()?;
        Ok(journal)
    }

    /// Reads a journal back; `None` when there is none.
    pub(crate) fn open(directory: &Path) -> Result<Option<(Self, Contents)>, JournalError> {
        let mut reading = Reading::default();
        let opened = Log::open_at(&path(directory), FORMAT, |sequence, payload| {
            reading.take(sequence, payload);
        });
        let found = reading.finish(opened.map(|(log, _)| log))?;
        Ok(found.map(|(log, contents)| (Self { log }, contents)))
    }

    /// Notes what was staged.
    pub(crate) fn staged(&mut self, staged: Staged) -> io::Result<()> {
        self.append(&Frame::Staged(staged))
    }

    /// Notes in which state a staged file is, so that a later change of it can be told.
    pub(crate) fn made(&mut self, made: Made) -> io::Result<()> {
        self.append(&Frame::Made(made))
    }

    /// Notes what an inode had before its edit.
    pub(crate) fn preimage(&mut self, preimage: Preimage) -> io::Result<()> {
        self.append(&Frame::Preimage(preimage))
    }

    /// From here on the commit is only taken back.
    pub(crate) fn undo(&mut self) -> io::Result<()> {
        self.append(&Frame::Undo)?;
        self.log.sync()
    }

    /// Everything is back where it was, but for what was staged.
    pub(crate) fn reverted(&mut self) -> io::Result<()> {
        self.append(&Frame::Reverted)?;
        self.log.sync()
    }

    /// From here on the commit is made, unless it is told to be taken back.
    pub(crate) fn go(&mut self) -> io::Result<()> {
        self.append(&Frame::Go)?;
        self.log.sync()
    }

    /// Names and files are durable; nothing of what goes is needed any more.
    pub(crate) fn written(&mut self, left: &[Left]) -> io::Result<()> {
        self.append(&Frame::Written {
            left: left.to_vec(),
        })?;
        self.log.sync()
    }

    /// Nothing remains.
    pub(crate) fn end(&mut self, left: &[Left]) -> io::Result<()> {
        self.append(&Frame::End {
            left: left.to_vec(),
        })?;
        self.log.sync()
    }

    fn append(&mut self, frame: &Frame) -> io::Result<()> {
        self.log.append(&frame.encode()).map(drop)
    }
}

/// Removes the journal of a commit that is complete, for good: neither a kill nor a power loss brings
/// it back. For a domain that goes on: call it when the view's log says that everything was committed
/// ([`surmise_view::View::rebase`]), and before the domain changes anything more. Without a journal
/// there is nothing to do.
///
/// # Errors
/// [`ForgetError`]; the domain must not go on then.
pub fn forget(directory: &Path) -> Result<(), ForgetError> {
    match pending(directory)? {
        None | Some(Phase::Done) => {}
        Some(phase) => return Err(ForgetError::Incomplete(phase)),
    }
    discard(directory)?;
    Ok(std::fs::File::open(directory)?.sync_all()?)
}

/// Removes the journal of a commit that changed nothing, or that is complete, and then its pre-images.
pub(crate) fn discard(directory: &Path) -> io::Result<()> {
    remove_file(&path(directory))?;
    remove_file(&directory.join("commit.new"))?;
    preimage::remove(directory)
}

fn remove_file(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// How far the journal in a domain's state directory says that a commit has come; `None` when none
/// has begun.
///
/// # Errors
/// [`JournalError`] when there is a journal that cannot be read.
pub fn pending(directory: &Path) -> Result<Option<Phase>, JournalError> {
    let mut reading = Reading::default();
    let read = surmise_journal::read_at(&path(directory), FORMAT, |sequence, payload| {
        reading.take(sequence, payload);
    });
    let found = reading.finish(read)?;
    Ok(found.map(|(_, contents)| contents.phase))
}

/// A journal that is being read.
#[derive(Default)]
struct Reading {
    contents: Contents,
    frames: u64,
    /// Whether all of the plan is there.
    has_plan: bool,
    malformed: Option<u64>,
}

impl Reading {
    fn take(&mut self, sequence: u64, payload: &[u8]) {
        self.frames = sequence;
        match Frame::decode(payload) {
            Some(frame) => {
                self.has_plan |= matches!(frame, Frame::Stage);
                self.contents.take(frame);
            }
            None => self.malformed = self.malformed.or(Some(sequence)),
        }
    }

    /// What is in the journal, with what came of opening it; `None` where there is no journal.
    fn finish<T>(
        self,
        opened: Result<T, OpenError>,
    ) -> Result<Option<(T, Contents)>, JournalError> {
        match (opened, self.malformed) {
            (Err(OpenError::Io(error)), _) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            (Err(source), _) => Err(JournalError::Open { file: FILE, source }),
            (Ok(opened), None) if self.has_plan => Ok(Some((opened, self.contents))),
            (Ok(_), malformed) => Err(JournalError::Malformed {
                file: FILE,
                frame: malformed.unwrap_or(self.frames),
            }),
        }
    }
}

impl Contents {
    fn take(&mut self, frame: Frame) {
        match frame {
            Frame::Head { root } => self.root = root.into(),
            Frame::Directory(directory) => self.plan.directories.push(directory),
            Frame::Staging(staging) => self.plan.stagings.push(staging),
            Frame::Opened(opened) => self.plan.opened.push(opened),
            Frame::Link(link) => self.plan.links.push(link),
            Frame::Aside(aside) => self.plan.asides.push(aside),
            Frame::Placement(placement) => self.plan.placements.push(placement),
            Frame::Edit(edit) => self.plan.edits.push(edit),
            Frame::Removal(removal) => self.plan.removals.push(removal),
            Frame::Finish(finish) => self.plan.finishes.push(finish),
            Frame::Stage => self.phase = Phase::Staging,
            Frame::Staged(staged) => self.staged.push(staged),
            Frame::Made(made) => self.made.push(made),
            Frame::Preimage(preimage) => self.preimages.push(preimage),
            Frame::Undo => self.phase = Phase::Undoing,
            Frame::Reverted => self.is_reverted = true,
            Frame::Go => self.phase = Phase::Applying,
            Frame::Written { left } => self.written = Some(left),
            Frame::End { left } => {
                self.written = Some(left);
                self.phase = Phase::Done;
            }
        }
    }
}

fn path(directory: &Path) -> PathBuf {
    directory.join(FILE)
}
