//! Changes that may have to be undone: those of one process that speculates.
//!
//! While something is undecided, that process is the only one that changes anything, or looks: the supervisor
//! has all others wait. So the undo log is the view's, an object a record, and need not know which process did
//! what. A file gets a new object at its first change since a mark ([`super::objects`]). So data are undone
//! by the map alone.
//!
//! Two kinds of change cannot be undone. A file that other processes have open may be mapped by them, and they would
//! see changed data without a request. And there may be no space left for a copy. Such a change is [`Postponed`]
//! until all is decided.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::io;
use std::sync::OnceLock;

use rustix::io::Errno;
use rustix::process::Pid;
use surmise_fuse::Postponed;
use surmise_linux::proc::{self, Status};

use super::core::{Core, now};
use super::facts::Step;
use super::running::{Stale, StaleEntry};
use super::{View, fail};
use crate::known::Place;
use crate::record::Record;
use crate::types::{FileKind, MarkId, NodeId};

/// What the view knows of a process that speculates, besides what the map keeps.
#[derive(Debug, Default)]
pub(super) struct Undecided {
    /// The process whose changes they are.
    process: u32,
    /// By process: it may share with others what it opened before this mark.
    shared_before: HashMap<u32, MarkId>,
    /// Its threads' numbers where the device was opened, once they were asked for.
    threads: Option<HashSet<u32>>,
    /// Nodes outside the map that lost a name, and since which mark.
    lost_names: Vec<(MarkId, NodeId)>,
    /// Nodes whose change had to wait: the kernel may have put it into its cache before it asked.
    waited: HashSet<NodeId>,
    /// Nodes that the kernel forgot and that a mark kept.
    forgotten: HashSet<NodeId>,
    /// Nodes that got data of their own: going back to a mark, they are real files again, and used.
    provided: HashSet<NodeId>,
    /// Calls that would wait for a decision fail: their process is about to be rolled back.
    gives_up: bool,
}

/// Who has opened a file: a thread, as the kernel tells of it, and the newest mark then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Opener {
    thread: u32,
    mark: Option<MarkId>,
}

/// The open files of each node, where somebody speculates.
#[derive(Debug)]
pub(super) struct Openers {
    are_kept: bool,
    by_node: HashMap<NodeId, Vec<Opener>>,
}

/// The role that is asked to have everything decided.
#[derive(Default)]
pub(super) struct Decider(OnceLock<Box<dyn Fn() + Send + Sync>>);

impl fmt::Debug for Decider {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Decider")
    }
}

impl View {
    /// `ask` is called, from any thread, when a call waits until nothing is undecided.
    pub fn ask_for_decision_by(&self, ask: impl Fn() + Send + Sync + 'static) {
        // There is one who decides.
        let _ = self.decider.0.set(Box::new(ask));
    }

    /// Later changes can be undone to here. All of them are this process', by its number in the caller's
    /// namespace; `has_borne` says that others may share what it has open. That need not be said a second time of the
    /// same files.
    ///
    /// # Errors
    /// `EBUSY` during a commit; else what writing the log failed with.
    pub fn mark(&self, process: u32, has_borne: bool) -> io::Result<MarkId> {
        let _stopped = self.changes.stop();
        let mut core = self.locked();
        if core.commit.is_some() {
            return fail(Errno::BUSY);
        }
        let mark = MarkId(core.map.last_mark().0 + 1);
        core.perform(vec![Record::Mark(mark)], now())?;
        core.undecided.process = process;
        if has_borne {
            core.undecided.shared_before.insert(process, mark);
        }
        core.undecided.threads = None;
        Ok(mark)
    }

    /// What was changed between a mark and the next newer one stays, unless what was before it does not.
    ///
    /// # Errors
    /// What writing the log or removing an object failed with.
    pub fn keep(&self, mark: MarkId) -> io::Result<()> {
        let mut core = self.locked();
        let superseded = core.map.superseded_by_keeping(mark).map_err(not_there)?;
        let older = core.map.mark_before(mark);
        core.perform(vec![Record::Keep(mark)], now())?;
        match older {
            Some(older) => core.undecided.move_losses(mark, older),
            None => core.undecided.lost_names.retain(|&(lost, _)| lost != mark),
        }
        core.objects.leave(superseded);
        core.tidy_undecided();
        drop(core);
        self.sweep()
    }

    /// Calls that wait for a decision, and those that would, fail with `EINTR` until the next undoing.
    pub fn give_up(&self) {
        let mut core = self.locked();
        // Without a mark there is nothing to undo, and who speculates next is not the one to roll back.
        core.undecided.gives_up = core.map.is_marked();
    }

    /// Everything is as it was at the mark, which is gone, and so are newer ones. Returns what the kernel
    /// has to be told; it has old data of these nodes, too.
    ///
    /// # Errors
    /// What writing the log or removing an object failed with.
    pub fn undo(&self, mark: MarkId) -> io::Result<Stale> {
        let _stopped = self.changes.stop();
        let mut core = self.locked();
        let stale = core.undo(mark)?;
        let nodes = stale.nodes.iter().copied();
        let open: Vec<NodeId> = nodes.filter(|id| core.known.is_open(*id)).collect();
        drop(core);
        for id in open {
            // A descriptor keeps a real file, whatever becomes of its name outside. What cannot be read is
            // looked up again when it is needed.
            let _ = self.decide_under(
                || Ok(self.locked()),
                |core, facts| core.file(facts, id).map(drop),
            );
        }
        self.sweep()?;
        Ok(stale)
    }

    /// The last byte of an open file, and where it is.
    pub(crate) fn last_byte(&self, node: NodeId) -> Option<(u64, u8)> {
        let is_file = {
            let mut core = self.locked();
            core.known.is_open(node) && core.kind(node).ok()? == FileKind::Regular
        };
        let size = is_file.then(|| self.attributes(node).ok())??.attributes;
        let offset = size.identity.size.checked_sub(1)?;
        let mut byte = [0];
        // What cannot be read now could not be through a mapping, either.
        (self.read(node, offset, &mut byte).ok()? == 1).then_some((offset, byte[0]))
    }

    /// Whether something is undecided.
    pub(crate) fn is_marked(&self) -> bool {
        self.locked().map.is_marked()
    }

    /// Whether nothing is undecided, or what waits for that is to fail.
    pub(crate) fn is_decided(&self) -> bool {
        let core = self.locked();
        let is_decided = !core.map.is_marked() || core.undecided.gives_up;
        drop(core);
        if !is_decided && let Some(ask) = self.decider.0.get() {
            ask();
        }
        is_decided
    }
}

impl Core {
    /// Refuses a change of data that others might see.
    pub(super) fn check_unshared(&mut self, id: NodeId) -> Step<()> {
        if !self.map.is_marked() || !self.is_open_elsewhere(id) {
            return Ok(());
        }
        self.undecided.waited.insert(id);
        Err(self.postponed().into())
    }

    /// The kernel gave back the last reference to a node.
    pub(super) fn drop_forgotten(&mut self, id: NodeId) {
        if self.map.is_kept_by_mark(id) {
            self.undecided.forgotten.insert(id);
        } else if let Some(object) = self.map.drop_nameless(id) {
            self.objects.discard(object);
        }
    }

    /// A node has data of the domain's own by now.
    pub(super) fn forget_use(&mut self, id: NodeId) {
        match self.map.is_marked() {
            true => _ = self.undecided.provided.insert(id),
            false => self.known.forget_use(id),
        }
    }

    /// A node outside the map has lost a name.
    pub(super) fn note_lost_name(&mut self, id: NodeId) {
        self.known.lose_name(id);
        if let Some(mark) = self.map.newest_mark() {
            self.undecided.lost_names.push((mark, id));
        }
    }

    pub(super) fn note_opener(&mut self, id: NodeId, thread: u32) {
        let mark = self.map.newest_mark();
        self.openers.add(id, Opener { thread, mark });
    }

    fn undo(&mut self, mark: MarkId) -> io::Result<Stale> {
        let touched = self.map.touched_since(mark).map_err(not_there)?;
        let superseded = self.map.superseded_by_undoing(mark).map_err(not_there)?;
        let adopted: Vec<_> = touched
            .born
            .iter()
            .filter(|&&id| id != NodeId::ROOT)
            .filter_map(|&id| Some((id, self.map.node(id)?.origin.clone()?)))
            .collect();
        self.perform(vec![Record::Undo(mark)], now())?;
        for (id, origin) in adopted {
            self.known.given_up(id, Place::from(&*origin));
        }
        for (_, id) in self.undecided.take_losses(mark) {
            self.known.regain_name(id);
        }
        let nodes = touched.nodes.into_iter().chain(touched.born);
        let waited = std::mem::take(&mut self.undecided.waited);
        let nodes: Vec<NodeId> = nodes.chain(waited).collect();
        for id in &nodes {
            self.files.close_all(*id);
            self.believed.listed.forget(*id);
        }
        self.objects.leave(superseded);
        self.undecided.gives_up = false;
        self.undecided.shared_before.clear();
        self.tidy_undecided();
        let names = touched.names.into_iter();
        Ok(Stale {
            entries: names
                .map(|(parent, name, is_directory)| StaleEntry {
                    parent,
                    name,
                    is_directory,
                })
                .collect(),
            nodes,
        })
    }

    /// Drops what was kept for the sake of marks, once there are none.
    fn tidy_undecided(&mut self) {
        if self.map.is_marked() {
            return;
        }
        self.undecided.gives_up = false;
        self.undecided.waited.clear();
        for id in std::mem::take(&mut self.undecided.provided) {
            if self.has_object(id) {
                self.known.forget_use(id);
            }
        }
        for id in std::mem::take(&mut self.undecided.forgotten) {
            if !self.known.is_held(id) {
                self.objects.leave(self.map.drop_nameless(id));
            }
        }
    }

    /// Whether others than the process that speculates may have a file open, or mapped.
    fn is_open_elsewhere(&mut self, id: NodeId) -> bool {
        let Some(openers) = self.openers.by_node.get(&id) else {
            return false;
        };
        let process = self.undecided.process;
        let shared_before = self.undecided.shared_before.get(&process).copied();
        let asked = self.undecided.threads.is_some();
        let threads = self
            .undecided
            .threads
            .get_or_insert_with(|| threads(process));
        let is_own = |threads: &HashSet<u32>| {
            let mut openers = openers.iter();
            openers.all(|opener| threads.contains(&opener.thread) && opener.mark >= shared_before)
        };
        if is_own(threads) {
            return false;
        }
        if asked {
            // It may have more of them by now.
            *threads = self::threads(process);
        }
        !is_own(threads)
    }

    /// What a change fails with where undecided ones may take the space that it lacks.
    pub(super) fn without_space(&self, error: io::Error) -> io::Error {
        match error.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::NOSPC | Errno::DQUOT) if self.map.is_marked() => self.postponed(),
            _ => error,
        }
    }

    /// What a call fails with that has to wait for a decision.
    fn postponed(&self) -> io::Error {
        match self.undecided.gives_up {
            true => Errno::INTR.into(),
            false => Postponed.into(),
        }
    }
}

impl Openers {
    /// None yet; they are kept where changes may have to be undone.
    pub(super) fn of(speculates: bool) -> Self {
        Self {
            are_kept: speculates,
            by_node: HashMap::new(),
        }
    }

    pub(super) fn are_kept(&self) -> bool {
        self.are_kept
    }

    fn add(&mut self, id: NodeId, opener: Opener) {
        if self.are_kept {
            self.by_node.entry(id).or_default().push(opener);
        }
    }

    /// An open file of a thread's is gone.
    pub(super) fn remove(&mut self, id: NodeId, thread: u32) {
        let Some(openers) = self.by_node.get_mut(&id) else {
            return;
        };
        let oldest = openers.iter().position(|opener| opener.thread == thread);
        if let Some(place) = oldest {
            openers.swap_remove(place);
        }
        if openers.is_empty() {
            self.by_node.remove(&id);
        }
    }
}

impl Undecided {
    fn move_losses(&mut self, from: MarkId, to: MarkId) {
        for (mark, _) in &mut self.lost_names {
            if *mark == from {
                *mark = to;
            }
        }
    }

    fn take_losses(&mut self, since: MarkId) -> Vec<(MarkId, NodeId)> {
        let losses = self
            .lost_names
            .extract_if(.., |&mut (mark, _)| mark >= since);
        losses.collect()
    }
}

/// The numbers of a process' threads in the innermost namespace that they are in.
fn threads(process: u32) -> HashSet<u32> {
    let process = i32::try_from(process).ok().and_then(Pid::from_raw);
    let threads = process.map_or_else(Vec::new, |process| {
        proc::threads(process).unwrap_or_default()
    });
    let inner = |thread: Pid| Status::of(thread).ok()?.inner();
    let inner = threads.into_iter().filter_map(inner);
    inner
        .map(|inner| inner.as_raw_nonzero().get().unsigned_abs())
        .collect()
}

fn not_there(mark: crate::map::Inconsistent) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, mark)
}
