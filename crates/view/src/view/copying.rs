//! New objects for nodes' data: for a real file that is about to change, and for an object that going back
//! to a mark needs as it is.
//!
//! What is to be copied is planned under the view's lock and copied without it, as long as it may take. Then
//! the new object is installed, if the plan still holds. The node's [`Change`] is held all the while, so
//! nobody else changes its data or gives it another object, and no mark, undoing or commit is in between.

use std::fs::File;
use std::io;
use std::sync::{Arc, MutexGuard};

use rustix::fs::Timestamps;
use rustix::io::Errno;
use surmise_lower::OpenFile;

use super::change::Change;
use super::core::{Core, Found, now};
use super::data::set_times;
use super::facts::{Facts, Step};
use super::fail;
use super::files::Data;
use crate::copies::{copy_data, share_blocks};
use crate::record::Record;
use crate::store::ObjectStore;
use crate::types::{Attributes, FileKind, NodeId, ObjectId};

/// Real files up to this size are copied whole at their first change; of larger ones the object
/// borrows. From 256 KiB on borrowing is the quicker (0.3 ms, and 0.6 ms for a copy of 1 MiB), but a
/// copy is nobody else's to change.
const COPIED_BYTES_MAX: u64 = 1 << 20;

/// What has to happen before a node's data may change.
enum Plan {
    /// Nothing: they are in this object.
    Ready(Arc<File>),
    /// A new object.
    Make(Box<New>),
}

/// An object to make, which nothing names yet.
pub(super) struct New {
    store: ObjectStore,
    object: ObjectId,
    source: Source,
    /// How many bytes of the source it needs at most.
    limit: u64,
    /// The times that it is to have.
    shown: Attributes,
    may_borrow: bool,
}

enum Source {
    /// A real file; `None` for an empty one.
    Real(Option<Arc<dyn OpenFile>>),
    Object(Arc<File>),
}

/// An object that was made.
pub(super) struct Made {
    pub(super) object: ObjectId,
    file: File,
    lender: Option<Lender>,
}

/// A real file from which a new object borrows all that is below a limit.
struct Lender {
    file: Arc<dyn OpenFile>,
    real: Attributes,
    limit: u64,
}

impl<'v> Change<'v> {
    /// The object that holds the node's data, made first where there is none. `kill` takes set-id bits and
    /// capabilities away before.
    pub(super) fn writable(&self, kill: bool) -> io::Result<Arc<File>> {
        let lock = || Ok(self.view().core());
        self.prepare(u64::MAX, lock, |core, facts, id| {
            if kill {
                core.drop_privileges(facts, id)?;
            }
            core.check_written(id)
        })
    }

    /// Sets the size of a regular file.
    pub(super) fn resize(&self, size: u64) -> io::Result<()> {
        let lock = || self.view().free_of_readers(self.node());
        let file = self.prepare(size, lock, |core, _, id| core.check_unshared(id))?;
        self.view().locked().cut_borrowed(self.node(), &file)?;
        file.set_len(size)?;
        // Even to the same size: POSIX wants new times of a truncate that succeeds.
        let times = Timestamps {
            last_access: super::attributes::timespec(None),
            last_modification: super::attributes::timespec(Some(now())),
        };
        Ok(rustix::fs::futimens(&file, &times)?)
    }

    /// The node's object, where it has one, is about to change in what going back to a mark restores.
    pub(super) fn renew(&self) -> io::Result<()> {
        let has_object = self.view().core().has_object(self.node());
        if has_object {
            self.prepare(u64::MAX, || Ok(self.view().core()), |_, _, _| Ok(()))?;
        }
        Ok(())
    }

    /// Has the node's first `limit` bytes be in an object that may change.
    fn prepare(
        &self,
        limit: u64,
        lock: impl Fn() -> io::Result<MutexGuard<'v, Core>>,
        check: impl Fn(&mut Core, &Facts, NodeId) -> Step<()>,
    ) -> io::Result<Arc<File>> {
        let (view, id) = (self.view(), self.node());
        // Once for the object, and once to find that it is there.
        loop {
            let plan = view.decide_under(&lock, |core, facts| {
                check(core, facts, id)?;
                core.plan_change(facts, id, limit)
            });
            let new = match plan? {
                Plan::Ready(file) => return Ok(file),
                Plan::Make(new) => new,
            };
            let made = new.make();
            let made = made.map_err(|error| view.locked().without_space(error))?;
            let (object, file) = (made.object, Arc::new(made.file));
            let lender = made.lender.as_ref();
            let installed = view.decide_under(&lock, |core, facts| {
                core.install(facts, id, object, &file, lender)
            });
            if let Err(error) = installed {
                // The first error is the one to tell; what stays is swept up later.
                let _ = new.store.remove(object);
                return Err(view.locked().without_space(error));
            }
        }
    }
}

impl Core {
    /// A change of data removes file capabilities, whatever user makes the change.
    fn plan_change(&mut self, facts: &Facts, id: NodeId, limit: u64) -> Step<Plan> {
        if !self.has_object(id) {
            return Ok(Plan::Make(self.plan_copy(facts, id, limit)?.into()));
        }
        let by = self.changer(id)?;
        if self.map.owns_object(id, by) {
            self.drop_set_capability(facts, id)?;
            return Ok(Plan::Ready(self.object(id)?));
        }
        let found = Found {
            node: id,
            lower: None,
        };
        let (shown, _) = self.attributes_of(facts, found)?;
        let source = Source::Object(self.object(id)?);
        Ok(Plan::Make(self.plan(source, shown, limit, false).into()))
    }

    /// Plans an object for the first `limit` bytes of a real file.
    fn plan_copy(&mut self, facts: &Facts, id: NodeId, limit: u64) -> Step<New> {
        let found = Found {
            node: id,
            lower: None,
        };
        let (shown, _) = self.attributes_of(facts, found)?;
        if shown.identity.kind != FileKind::Regular {
            return fail(Errno::INVAL);
        }
        let new = self.plan_copy_of(facts, id, &shown, limit, true)?;
        if self.map.node(id).is_none() {
            // Before the copy, so that a change outside while it runs is seen as one.
            self.note_use(id, shown.identity)?;
        }
        Ok(new)
    }

    /// Likewise of one that is known. Of a large file the object borrows what it may.
    pub(super) fn plan_copy_of(
        &mut self,
        facts: &Facts,
        id: NodeId,
        shown: &Attributes,
        limit: u64,
        may_borrow: bool,
    ) -> Step<New> {
        let limit = limit.min(shown.identity.size);
        let source = match limit {
            0 => None,
            _ => Some(self.open_lower(facts, id)?),
        };
        Ok(self.plan(Source::Real(source), *shown, limit, may_borrow))
    }

    fn plan(&mut self, source: Source, shown: Attributes, limit: u64, may_borrow: bool) -> New {
        New {
            store: self.objects.store(),
            object: self.objects.next(),
            source,
            limit,
            shown,
            may_borrow,
        }
    }

    /// Gives a node the object that was made for it.
    fn install(
        &mut self,
        facts: &Facts,
        id: NodeId,
        object: ObjectId,
        file: &Arc<File>,
        lender: Option<&Lender>,
    ) -> Step<()> {
        let mut records = Vec::new();
        let is_first = !self.has_object(id);
        if is_first {
            self.adopt(facts, id, &mut records)?;
            self.drop_capability(facts, id, &mut records)?;
        }
        match (lender, self.borrowed(id)) {
            (Some(Lender { real, limit, .. }), _) => records.push(Record::Borrow {
                node: id,
                object,
                from: real.identity,
                allocated: real.blocks,
                limit: *limit,
            }),
            (None, Some(borrowed)) => records.extend(borrowed.records(id, object)),
            (None, None) => records.push(Record::Content { node: id, object }),
        }
        self.perform(records, now())?;
        if is_first {
            self.forget_use(id);
        }
        self.files.put(id, Data::Object(Arc::clone(file)));
        if let Some(lender) = lender {
            self.files.put_lender(id, Arc::clone(&lender.file));
        }
        Ok(())
    }
}

impl New {
    /// Makes it. May take long.
    ///
    /// # Errors
    /// What could not be copied; then there is none.
    pub(super) fn make(&self) -> io::Result<Made> {
        let file = self.store.create(self.object)?;
        let filled = self.fill(&file).and_then(|lender| {
            set_times(&file, &self.shown)?;
            Ok(lender)
        });
        let lender = filled.inspect_err(|_| {
            // What stays is swept up later.
            let _ = self.store.remove(self.object);
        })?;
        Ok(Made {
            object: self.object,
            file,
            lender,
        })
    }

    fn fill(&self, object: &File) -> io::Result<Option<Lender>> {
        let (source, size): (&dyn OpenFile, u64) = match &self.source {
            Source::Real(None) => return Ok(None),
            Source::Real(Some(real)) => (&**real, self.limit),
            Source::Object(old) => (&**old, old.metadata()?.len().min(self.limit)),
        };
        if share_blocks(source, object) {
            return Ok(None);
        }
        match &self.source {
            Source::Real(Some(file)) if size > COPIED_BYTES_MAX && self.may_borrow => {
                let real = file.attributes()?;
                let limit = real.identity.size.min(size);
                object.set_len(limit)?;
                Ok(Some(Lender {
                    file: Arc::clone(file),
                    real,
                    limit,
                }))
            }
            _ => {
                object.set_len(size)?;
                copy_data(source, object, 0..size)?;
                Ok(None)
            }
        }
    }
}
