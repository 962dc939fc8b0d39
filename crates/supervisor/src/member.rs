//! A process that depends on something undecided.

use std::io;
use std::time::Instant;

use rustix::process::Pid;
use surmise_checkpoint::Change;
use surmise_engine::{CkptId, Extents, GroupId, TaskId, UndoId};

use crate::core::executing::Foreseen;
use crate::world::World;

/// How many calls a process makes after its birth until it is more likely to go on than to execute a program.
const BEFORE_EXECUTION: u64 = 50;

/// The engine's numbers of a process, and its images.
#[derive(Debug)]
pub(crate) struct Member<W: World> {
    pid: Pid,
    pub(crate) process: W::Process,
    pub(crate) task: TaskId,
    pub(crate) group: GroupId,
    /// Oldest first.
    images: Vec<Image<W>>,
    /// The last mark of the view when it got its first image.
    since: Option<u64>,
    /// Of what it changed in the view since its newest image.
    newest_record: Option<UndoId>,
    /// Something of what it changed in the view was undone. Files that its older images have open may have
    /// another size than the kernel believes, until it is asked.
    pub(crate) has_undone: bool,
    /// How many calls it has made since it became a member that were not guessed; none count after it has executed a
    /// program.
    calls: Option<u64>,
    /// Since it became a member it has borne others, which have open what it had.
    is_parent: bool,
    /// Since it became a member a rollback has restored a process.
    has_met_rollback: bool,
    /// That it should bear another has failed: it is not tried again.
    pub(crate) is_barren: bool,
    /// A signal has interrupted its call while that waited.
    pub(crate) is_interrupted: bool,
    /// On what its parent depended when it was born.
    birth: Extents,
    /// Signals that it has taken since any of its images.
    taken: Vec<Taken<W::SignalInfo>>,
    /// Each time that it has set its timer, as far as that may be undone: its newest image then, and what the timer was before.
    timers_set: Vec<(CkptId, W::Timer)>,
    /// Each time that it has executed a program, as far as that may be undone: its newest image then.
    executions: Vec<CkptId>,
    /// What was found out about the program that it is about to execute.
    foreseen: Option<Foreseen>,
    /// It was killed.
    has_perished: bool,
}

/// A signal that was taken.
#[derive(Debug)]
struct Taken<I> {
    signal: I,
    /// The newest image then.
    image: CkptId,
    /// If what has sent it may be undone: a rollback to this image or an older one undoes that, too.
    origin: Option<CkptId>,
}

#[derive(Debug)]
struct Image<W: World> {
    id: CkptId,
    image: W::Image,
    taken: Instant,
    /// The process that holds it was killed.
    is_lost: bool,
}

impl<W: World> Member<W> {
    pub(crate) fn new(pid: Pid, process: W::Process, task: TaskId, group: GroupId) -> Self {
        Self {
            pid,
            process,
            task,
            group,
            images: Vec::new(),
            since: None,
            newest_record: None,
            has_undone: false,
            calls: Some(0),
            is_parent: false,
            has_met_rollback: false,
            is_barren: false,
            is_interrupted: false,
            birth: Extents::default(),
            taken: Vec::new(),
            timers_set: Vec::new(),
            executions: Vec::new(),
            foreseen: None,
            has_perished: false,
        }
    }

    /// It was killed: it makes no call any more, and is not to be restored.
    pub(crate) fn perish(&mut self) {
        self.has_perished = true;
    }

    /// It was born by one that depended on these predictions.
    pub(crate) fn born_by(&mut self, predictions: Extents) {
        self.birth = predictions;
    }

    /// The predictions on which it depends by its birth, decided or not.
    pub(crate) fn birth(&self) -> &Extents {
        &self.birth
    }

    /// Whether it was killed, so that its number may be another's by now.
    pub(crate) fn has_perished(&self) -> bool {
        self.has_perished
    }

    pub(crate) fn pid(&self) -> Pid {
        self.pid
    }

    /// What it changes in the view is undone by this record, until its next image.
    pub(crate) fn recorded(&mut self, undo: UndoId) {
        self.newest_record = Some(undo);
    }

    /// The undo record of what it changes in the view, if it has changed anything since its newest image.
    pub(crate) fn newest_record(&self) -> Option<UndoId> {
        self.newest_record
    }

    /// It has made a call that was not guessed.
    pub(crate) fn has_called(&mut self) {
        self.calls = self.calls.map(|calls| calls + 1);
    }

    /// It executes a program.
    pub(crate) fn executes(&mut self) {
        self.calls = None;
        self.is_barren = false;
        self.executions
            .extend(self.images.last().map(|image| image.id));
    }

    /// What will hold when it makes that call again, to execute a program.
    pub(crate) fn foresees(&mut self, foreseen: Foreseen) {
        self.foreseen = Some(foreseen);
    }

    /// What was found out about the program that it is about to execute, for its next call alone.
    pub(crate) fn take_foreseen(&mut self) -> Option<Foreseen> {
        self.foreseen.take()
    }

    /// Whether it was born lately, and is as likely to execute a program as to go on. It needs no image for that unless
    /// it is given a guess before.
    pub(crate) fn may_execute(&self) -> bool {
        self.images.is_empty() && self.calls.is_some_and(|calls| calls < BEFORE_EXECUTION)
    }

    /// It has borne another. Its next change in the view gets a record of its own: the view has to know that others
    /// have open what it had.
    pub(crate) fn has_borne(&mut self) {
        self.is_parent = true;
        self.newest_record = None;
    }

    /// Whether all that it has open now and had not at its oldest image is its own: it was born before the image, and
    /// has borne nobody since.
    pub(crate) fn shares_only_what_it_had(&self) -> bool {
        !self.images.is_empty() && !self.is_parent
    }

    /// The last mark of the view when the process got its first image, if it has had any. It inherited no open file from after that.
    pub(crate) fn since(&self) -> Option<u64> {
        self.since
    }

    /// A rollback has restored a process.
    pub(crate) fn meet_rollback(&mut self) {
        self.has_met_rollback = true;
    }

    /// Whether an open file that others had closed when it became a member or later may be theirs again: a rollback has given it back
    /// to them.
    pub(crate) fn has_met_rollback(&self) -> bool {
        self.has_met_rollback
    }

    /// Keeps a new image. `mark`: the last one of the view.
    pub(crate) fn keep(&mut self, id: CkptId, image: W::Image, (taken, mark): (Instant, u64)) {
        self.newest_record = None;
        self.since.get_or_insert(mark);
        self.images.push(Image {
            id,
            image,
            taken,
            is_lost: false,
        });
    }

    /// When the newest image was taken.
    pub(crate) fn newest(&self) -> Option<Instant> {
        self.images.last().map(|image| image.taken)
    }

    /// A process has ended. If it held an image, that is lost. Returns the image before that one, if it is whole.
    pub(crate) fn lose(&mut self, world: &W, vessel: Pid) -> Option<CkptId> {
        let mut images = self.images.iter();
        let lost = images.position(|image| world.vessel(&image.image) == Some(vessel))?;
        self.images[lost].is_lost = true;
        let before = lost.checked_sub(1).map(|before| &self.images[before])?;
        (!before.is_lost).then_some(before.id)
    }

    /// Whether the newest image is lost.
    pub(crate) fn has_lost_newest(&self) -> bool {
        self.images.last().is_some_and(|image| image.is_lost)
    }

    /// Its images, oldest first.
    pub(crate) fn images(&self) -> impl ExactSizeIterator<Item = &W::Image> {
        self.images.iter().map(|image| &image.image)
    }

    /// Those of its images that are not lost, oldest first.
    pub(crate) fn whole_images(&self) -> impl DoubleEndedIterator<Item = &W::Image> {
        let whole = self.images.iter().filter(|image| !image.is_lost);
        whole.map(|image| &image.image)
    }

    pub(crate) fn newest_image(&self) -> Option<CkptId> {
        self.images.last().map(|image| image.id)
    }

    /// Notes in all images what the process is about to change: the newest first, as far as older ones do not know. A lost one is never
    /// restored.
    pub(crate) fn note(&mut self, world: &W, change: Change) {
        let whole = self.images.iter_mut().filter(|image| !image.is_lost);
        for image in whole.rev() {
            if !world.note(&self.process, &mut image.image, change) {
                return;
            }
        }
    }

    /// It takes a signal. If what has sent that may be undone, a rollback to `origin` or an older image does that.
    pub(crate) fn has_taken(&mut self, world: &W, signal: W::SignalInfo, origin: Option<CkptId>) {
        for change in world.changes(&signal) {
            self.note(world, change);
        }
        // Without an image it is destroyed, and nobody is left to send it to.
        if let Some(image) = self.newest_image() {
            self.taken.push(Taken {
                signal,
                image,
                origin,
            });
        }
    }

    /// The newest image when it has set its timer, if that may be undone.
    pub(crate) fn timer_set_at(&self) -> Option<CkptId> {
        self.timers_set.last().map(|(image, _)| *image)
    }

    /// It has set its timer, which was this before.
    pub(crate) fn has_set_timer(&mut self, before: W::Timer) {
        let last = self.timer_set_at();
        let newest = self.newest_image().filter(|newest| last != Some(*newest));
        self.timers_set
            .extend(newest.map(|newest| (newest, before)));
    }

    /// It goes back to an image. Returns what its timer was then, if it has set the timer since, and the signals that it is to be
    /// sent again.
    pub(crate) fn undo_signals(&mut self, id: CkptId) -> (Option<W::Timer>, Vec<W::SignalInfo>) {
        // A newer image has a greater number, and a rollback leaves nothing here of newer images. So both lists are in the order of
        // their images.
        let kept = self.timers_set.partition_point(|(image, _)| *image < id);
        let timer = self.timers_set.split_off(kept).into_iter().next();
        let kept = self.taken.partition_point(|taken| taken.image < id);
        let undone = self.taken.split_off(kept).into_iter();
        let sent = undone.filter(|taken| taken.origin.is_none_or(|image| image < id));
        let signals = sent.map(|taken| taken.signal).collect();
        (timer.map(|(_, before)| before), signals)
    }

    /// It goes back to an image. Returns how many programs it has executed since, or tried to.
    pub(crate) fn undo_executions(&mut self, id: CkptId) -> usize {
        let kept = self.executions.partition_point(|image| *image < id);
        self.executions.split_off(kept).len()
    }

    /// Destroys an image, if it is still there.
    pub(crate) fn discard(&mut self, world: &mut W, id: CkptId) -> io::Result<()> {
        let Some(place) = self.images.iter().position(|image| image.id == id) else {
            return Ok(());
        };
        let image = self.images.remove(place).image;
        let oldest = self.images.first().map(|image| image.id);
        let may_be_undone = |image: CkptId| oldest.is_some_and(|oldest| oldest <= image);
        self.taken.retain(|taken| may_be_undone(taken.image));
        self.timers_set.retain(|(image, _)| may_be_undone(*image));
        self.executions.retain(|image| may_be_undone(*image));
        world.discard(image, Some(&mut self.process))
    }

    /// Takes out an image to be restored, and destroys all newer ones: none may share pages with the
    /// process then.
    pub(crate) fn take(&mut self, world: &mut W, id: CkptId) -> io::Result<Option<W::Image>> {
        let Some(place) = self.images.iter().position(|image| image.id == id) else {
            return Ok(None);
        };
        (self.newest_record, self.foreseen) = (None, None);
        for newer in self.images.drain(place + 1..) {
            world.discard(newer.image, Some(&mut self.process))?;
        }
        Ok(self.images.pop().map(|image| image.image))
    }

    /// Destroys all images of a process that has ended.
    pub(crate) fn destroy(self, world: &mut W) -> io::Result<()> {
        for image in self.images {
            world.discard(image.image, None)?;
        }
        Ok(())
    }
}
