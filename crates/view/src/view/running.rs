//! A commit of a domain that goes on.
//!
//! [`View::prepare_commit`] stops every call, and keeps files that the commit removes outside and that a
//! process still holds. The committer makes the real tree what the view shows. [`View::rebase`] takes
//! that in: every node that the kernel knows is found at its real place, and the map begins anew.
//! [`View::go_on`] lets the calls through again. Until then nothing can change inside. So a kill
//! on the way leaves a log that ends at the state that was committed.

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::io;

use rustix::io::Errno;

use super::core::{Core, Found, now};
use super::data::{Lent, is_gone, set_times};
use super::{View, fail};
use crate::borrowed::Borrowed;
use crate::copies::copy_data;
use crate::known::Outlived;
use crate::map::Node;
use crate::record::{Operation, Record};
use crate::types::{Attributes, FileKind, NodeId, ObjectId};

/// What the kernel believes for ever and must ask anew: after a rebase somebody outside may change
/// it.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Stale {
    /// Names, of which some lead nowhere.
    pub entries: Vec<StaleEntry>,
    /// Nodes, for their attributes.
    pub nodes: Vec<NodeId>,
}

/// A name that the kernel must look up again.
#[derive(Debug, PartialEq, Eq)]
pub struct StaleEntry {
    /// The directory.
    pub parent: NodeId,
    /// The name in it.
    pub name: OsString,
    /// Whether it leads to a directory.
    pub is_directory: bool,
}

/// From the preparation of a commit until the domain goes on.
#[derive(Debug, Default)]
pub(super) struct CommitUnderWay {
    kept: Vec<Kept>,
    /// Objects that the kernel goes on writing to, while copies of them are committed.
    passed: Vec<(NodeId, ObjectId)>,
    is_rebased: bool,
    stale: Stale,
}

/// An inode that has no name any more and that a process may hold.
#[derive(Debug)]
struct Kept {
    node: NodeId,
    attributes: Attributes,
    /// The real inode, where it was one.
    inode: Option<Outlived>,
    /// Where it leads, for symbolic links.
    target: OsString,
    xattrs: Vec<(OsString, Vec<u8>)>,
    /// Its data, for regular files.
    object: Option<ObjectId>,
    /// Whether the object was made for this.
    is_copied: bool,
}

impl View {
    /// Prepares for a commit of all that the domain changed: waits for writes under way, stops every
    /// later call until [`View::go_on`], and copies what the commit removes outside and a process may
    /// still hold. The log and the objects that it names do not change from here on.
    ///
    /// No task of the domain may be in a call: it would wait for the end of the commit.
    ///
    /// # Errors
    /// What could not be copied; then nothing is stopped.
    pub fn prepare_commit(&self) -> io::Result<()> {
        let is_busy = || self.locked().commit.is_some();
        // A change of data takes the lock again at its end, so all changes have to end before this takes it. But a
        // change that waits for the end of a commit under way must not be waited for.
        if is_busy() {
            return fail(Errno::BUSY);
        }
        let _stopped = self.changes.stop();
        let mut core = self.locked();
        // What is undecided is no part of what a person agrees to.
        if core.commit.is_some() || core.is_marked() {
            return fail(Errno::BUSY);
        }
        let kept = core.keep()?;
        let stays = kept.iter().map(|kept| kept.node).collect();
        let passed = match core.give_copies(&stays) {
            Ok(passed) => passed,
            Err(error) => {
                core.drop_copies(&kept);
                return Err(error);
            }
        };
        core.commit = Some(CommitUnderWay {
            kept,
            passed,
            ..CommitUnderWay::default()
        });
        self.end_reads();
        Ok(())
    }

    /// The files of which the kernel may have data that the view lacks: those that are open. (The
    /// last data of a mapping are written back when it goes.)
    pub(crate) fn open_files(&self) -> Vec<NodeId> {
        self.locked().known.open_nodes().collect()
    }

    /// Takes in that the real tree has become what the view shows, durably. Nodes stay what they
    /// were; their data, names and attributes are the real ones now. What somebody moved or removed
    /// outside in the same moment is stale (`ESTALE`).
    ///
    /// # Errors
    /// `EINVAL` when nothing was prepared; else what writing the log failed with, and then the domain
    /// must end.
    pub fn rebase(&self) -> io::Result<()> {
        let mut core = self.locked();
        let links = self.links_read(&core);
        core.rebase()?;
        self.renew_reads(&mut core, &links);
        Ok(())
    }

    /// Lets calls through again, after a rebase or instead of one, and returns what the kernel has
    /// to be told. Without a commit under way there is nothing to do.
    ///
    /// # Errors
    /// What writing the log failed with; then calls go through, and the domain must end.
    pub fn go_on(&self) -> io::Result<Stale> {
        let mut core = self.locked();
        let Some(commit) = core.commit.take() else {
            return Ok(Stale::default());
        };
        self.gone_on.notify_all();
        if !commit.is_rebased {
            let copied = commit.kept.into_iter().filter(|kept| kept.is_copied);
            core.objects.leave(copied.filter_map(|kept| kept.object));
            core.take_back(commit.passed)?;
            self.reads().reopen();
        }
        Ok(commit.stale)
    }

    /// Removes the objects that rebases made superfluous. The next opening of the view removes what
    /// this does not.
    ///
    /// # Errors
    /// What the first failed removal says; the rest is not tried.
    pub fn sweep(&self) -> io::Result<()> {
        let (store, garbage) = {
            let mut core = self.locked();
            (core.objects.store(), core.objects.take_left())
        };
        garbage
            .into_iter()
            .try_for_each(|object| store.remove(object))
    }
}

impl Core {
    /// Keeps every inode that the commit takes away and that a process may hold.
    fn keep(&mut self) -> io::Result<Vec<Kept>> {
        let lost = self.lost();
        let mut kept = Vec::with_capacity(lost.len());
        for node in lost {
            match self.keep_one(node) {
                Ok(one) => kept.push(one),
                // Somebody outside has removed it: stale before, stale afterwards.
                Err(error) if is_gone(&error) => {}
                Err(error) => {
                    self.drop_copies(&kept);
                    return Err(error);
                }
            }
        }
        Ok(kept)
    }

    fn drop_copies(&self, kept: &[Kept]) {
        for kept in kept.iter().filter(|kept| kept.is_copied) {
            if let Some(object) = kept.object {
                self.objects.discard(object);
            }
        }
    }

    fn keep_one(&mut self, id: NodeId) -> io::Result<Kept> {
        let found = Found {
            node: id,
            lower: None,
        };
        let attributes = self.decide_at_once(|core, facts| core.stored_attributes(facts, found));
        let (attributes, _) = attributes?;
        let inode = self.hold(id, &attributes)?;
        let target = match attributes.identity.kind {
            FileKind::Symlink => self.decide_at_once(|core, facts| core.target(facts, id))?,
            _ => OsString::new(),
        };
        let mut xattrs = Vec::new();
        let names = self.decide_at_once(|core, facts| core.xattr_names(facts, id))?;
        for name in names {
            // Some are shown by name only, and only to root.
            if let Ok(value) = self.decide_at_once(|core, facts| core.xattr(facts, id, &name)) {
                xattrs.push((name, value));
            }
        }
        let own = self.map.node(id).and_then(|node| node.object);
        let is_copied = own.is_none() && attributes.identity.kind == FileKind::Regular;
        // The commit takes away what lends.
        self.complete(id, &attributes)?;
        Ok(Kept {
            node: id,
            attributes,
            inode,
            target,
            xattrs,
            object: match is_copied {
                true => Some(self.copy_real(id, &attributes)?),
                false => own,
            },
            is_copied,
        })
    }

    /// An object, which nothing names yet, with all of a node's real data.
    fn copy_real(&mut self, id: NodeId, shown: &Attributes) -> io::Result<ObjectId> {
        let new =
            self.decide_at_once(|core, facts| core.plan_copy_of(facts, id, shown, u64::MAX, false));
        Ok(new?.make()?.object)
    }

    /// Puts all that a node's object borrows into it.
    fn complete(&mut self, id: NodeId, shown: &Attributes) -> io::Result<()> {
        if self.borrowed(id).is_none() {
            return Ok(());
        }
        let file = self.object(id)?;
        self.cut_borrowed(id, &file)?;
        let Some(limit) = self.borrowed(id).map(Borrowed::limit) else {
            return Ok(());
        };
        let lent = self.decide_at_once(|core, facts| core.lent(facts, id, &(0..limit)));
        if let Some(Lent { borrowed, real }) = lent? {
            if borrowed.check(&*real).is_err() {
                return fail(Errno::STALE);
            }
            for run in borrowed.runs(limit).filter(|run| !run.is_own) {
                copy_data(&*real, &file, run.range)?;
            }
            borrowed.check(&*real)?;
            set_times(&file, shown)?;
        }
        let cut = Record::Cut { node: id, limit: 0 };
        self.perform(vec![cut], now())
    }

    /// Has the real inode of a node outlive its names.
    fn hold(&mut self, id: NodeId, attributes: &Attributes) -> io::Result<Option<Outlived>> {
        if self.map.node(id).is_some_and(|node| node.origin.is_none()) {
            return Ok(None);
        }
        let place = self.decide_at_once(|core, facts| core.lower_place(facts, id));
        let (directory, name) = place?;
        Ok(Some(Outlived {
            number: self.inode_number(id, &attributes.identity),
            _inode: directory.hold(&name)?,
        }))
    }

    fn rebase(&mut self) -> io::Result<()> {
        let Some(commit) = self.commit.take_if(|commit| !commit.is_rebased) else {
            return fail(Errno::INVAL);
        };
        let CommitUnderWay { kept, passed, .. } = commit;
        let moved = self.moved_directories();
        let operation = operation(&kept);
        let written = self.write(&operation);
        if let Err(error) = written {
            // Still prepared, so that nothing goes on.
            self.commit = Some(CommitUnderWay {
                kept,
                passed,
                ..CommitUnderWay::default()
            });
            return Err(error);
        }
        self.rebases += 1;
        let before = self.map.take_nodes();
        self.take_in(&operation);
        drop(operation);
        let kept_nodes: HashSet<NodeId> = kept.iter().map(|kept| kept.node).collect();
        for kept in kept {
            if let Some(inode) = kept.inode {
                self.known.outlived(kept.node, inode);
            }
        }
        // Removed inside, and outside before that.
        let lost = self.known.held().filter(|(_, known)| known.lost_names > 0);
        for id in lost.map(|(id, _)| id).collect::<Vec<_>>() {
            self.known.adopted(id);
        }
        for id in before.keys().chain(&kept_nodes) {
            self.files.close_all(*id);
        }
        self.directories.close_all();
        self.relocate(moved, &before);
        self.renew_uses();
        self.own_again(&passed)?;
        self.renumber_listings();
        self.believed.listed.clear();
        let still: HashSet<ObjectId> = self
            .map
            .nodes()
            .filter_map(|(_, node)| node.object)
            .collect();
        let objects = before.values().filter_map(|node| node.object);
        self.objects
            .leave(objects.filter(|object| !still.contains(object)));
        self.commit = Some(CommitUnderWay {
            is_rebased: true,
            stale: self.stale(before, &kept_nodes),
            ..CommitUnderWay::default()
        });
        self.sync()
    }

    /// What is open is used, under the new consent, in the state in which it is now; so are links, of
    /// which the kernel keeps where they lead.
    fn renew_uses(&mut self) {
        self.used_names.clear();
        let mut uses: HashSet<NodeId> = self.known.forget_uses().collect();
        uses.retain(|id| self.known.is_open(*id));
        uses.extend(self.known.held_links());
        for id in uses {
            let found = self.decide_at_once(|core, facts| core.lower_attributes(facts, id));
            let Ok(attributes) = found else {
                continue;
            };
            if attributes.identity.kind == FileKind::Symlink {
                self.known.note_use(id, &attributes.identity);
                continue;
            }
            // A node without a place has failed above.
            let _ = self.note_use(id, attributes.identity);
        }
    }

    fn stale(&mut self, before: HashMap<NodeId, Box<Node>>, kept: &HashSet<NodeId>) -> Stale {
        let directories = before
            .iter()
            .filter(|(_, node)| node.kind == FileKind::Directory);
        let directories: HashSet<NodeId> = directories.map(|(id, _)| *id).collect();
        let mut stale = Stale::default();
        let absent = self.believed.take_absent().into_iter();
        stale
            .entries
            .extend(absent.map(|(parent, name)| StaleEntry {
                parent,
                name,
                is_directory: false,
            }));
        for (id, node) in before {
            if !self.known.is_held(id) || kept.contains(&id) {
                continue;
            }
            if node.object.is_some() || node.origin.is_none() {
                stale.nodes.push(id);
            }
            let entries = node.entries.into_iter().map(|(name, binding)| StaleEntry {
                parent: id,
                name: name.into_os_string(),
                is_directory: binding.target.is_some_and(|to| directories.contains(&to)),
            });
            stale.entries.extend(entries);
        }
        stale
    }
}

/// The operation that says that everything was committed but what is kept.
fn operation(kept: &[Kept]) -> Operation {
    let mut records = vec![Record::Rebase];
    for kept in kept {
        let Attributes {
            identity,
            permissions,
            uid,
            gid,
            special,
            accessed,
            ..
        } = kept.attributes;
        records.push(Record::Create {
            node: kept.node,
            device: identity.device,
            kind: identity.kind,
            permissions,
            uid,
            gid,
            special,
            object: kept.object,
            target: kept.target.clone(),
        });
        if kept.object.is_none() {
            records.push(Record::Times {
                node: kept.node,
                accessed: Some(accessed),
                modified: Some(identity.modified),
            });
        }
        for (name, value) in &kept.xattrs {
            records.push(Record::Xattr {
                node: kept.node,
                name: name.clone(),
                value: Some(value.clone()),
            });
        }
    }
    Operation {
        time: now(),
        records,
    }
}
