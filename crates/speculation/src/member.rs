//! A process that depends on something undecided.

use std::io;
use std::os::fd::RawFd;
use std::time::Instant;

use rustix::process::Pid;
use surmise_checkpoint::{Change, Checkpoint, Process};
use surmise_engine::{CkptId, GroupId, TaskId, UndoId};

/// The engine's numbers of a process, and its images.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) process: Process,
    pub(crate) task: TaskId,
    pub(crate) group: GroupId,
    /// Oldest first.
    images: Vec<Image>,
    /// Of what it changed in the view since its newest image.
    newest_record: Option<UndoId>,
    /// Something of what it changed in the view was undone. Files that its older images have open may have
    /// another size than the kernel believes, until it is asked.
    pub(crate) has_undone: bool,
}

#[derive(Debug)]
struct Image {
    id: CkptId,
    checkpoint: Checkpoint,
    taken: Instant,
}

impl Member {
    pub(crate) fn new(process: Process, task: TaskId, group: GroupId) -> Self {
        Self {
            process,
            task,
            group,
            images: Vec::new(),
            newest_record: None,
            has_undone: false,
        }
    }

    /// What it changes in the view is undone by this record, until its next image.
    pub(crate) fn recorded(&mut self, undo: UndoId) {
        self.newest_record = Some(undo);
    }

    /// The undo record of what it changes in the view, if it has changed anything since its newest image.
    pub(crate) fn newest_record(&self) -> Option<UndoId> {
        self.newest_record
    }

    /// Keeps a new image.
    pub(crate) fn keep(&mut self, id: CkptId, checkpoint: Checkpoint) {
        self.newest_record = None;
        self.images.push(Image {
            id,
            checkpoint,
            taken: Instant::now(),
        });
    }

    /// When the newest image was taken.
    pub(crate) fn newest(&self) -> Option<Instant> {
        self.images.last().map(|image| image.taken)
    }

    pub(crate) fn images(&self) -> usize {
        self.images.len()
    }

    /// Whether this is one of its vessels.
    pub(crate) fn has_vessel(&self, process: Pid) -> bool {
        let mut images = self.images.iter();
        images.any(|image| image.checkpoint.vessel() == process)
    }

    /// Notes in all images what the process is about to change.
    pub(crate) fn note(&mut self, change: Change) {
        for image in &mut self.images {
            image.checkpoint.note(self.process.pid(), change);
        }
    }

    /// Whether it had an open file at its oldest image that it has by this number now.
    pub(crate) fn had(&self, number: RawFd) -> bool {
        let mut images = self.images.iter();
        images.any(|image| image.checkpoint.has(self.process.pid(), number))
    }

    /// Destroys an image, if it is still there.
    pub(crate) fn discard(&mut self, id: CkptId) -> io::Result<()> {
        match self.images.iter().position(|image| image.id == id) {
            Some(place) => self
                .images
                .remove(place)
                .checkpoint
                .discard(&mut self.process),
            None => Ok(()),
        }
    }

    /// Takes out an image to be restored, and destroys all newer ones: none may share pages with the
    /// process then.
    pub(crate) fn take(&mut self, id: CkptId) -> io::Result<Option<Checkpoint>> {
        let Some(place) = self.images.iter().position(|image| image.id == id) else {
            return Ok(None);
        };
        self.newest_record = None;
        for newer in self.images.drain(place + 1..) {
            newer.checkpoint.discard(&mut self.process)?;
        }
        Ok(self.images.pop().map(|image| image.checkpoint))
    }

    /// Destroys all images of a process that has ended.
    pub(crate) fn destroy(self) -> io::Result<()> {
        for image in self.images {
            image.checkpoint.destroy()?;
        }
        Ok(())
    }
}
