//! What a call learns of the lower side.
//!
//! A call is decided under the view's lock, and the lower side may take long to answer. So a decision that
//! lacks a fact stops with a question ([`Stop::Ask`]); the lock is let go, the question is answered, and the
//! call is decided anew with all the facts that there are by then ([`View::decide`]). Nothing is changed
//! before the last fact is there, or only what comes out the same again.
//!
//! *Why an answer may be used.* It is of the lower side alone, which anybody may change at any time, so an
//! answer is never older than a change that the call itself could have seen for sure. What the domain has
//! changed meanwhile is seen by the new decision, which may then ask for something else. A commit changes
//! the lower side on the domain's behalf: facts from before a rebase are forgotten.

use std::ffi::{OsStr, OsString};
use std::io;
use std::sync::{Arc, MutexGuard};

use rustix::io::Errno;
use surmise_lower::{Directory, Listed, OpenFile, Space, WatchId, Watcher};

use super::View;
use super::core::Core;
use crate::types::{Attributes, InodeKey, NodeId};

/// A part of a decision.
pub(super) type Step<T> = Result<T, Stop>;

/// Why a decision is not made.
pub(super) enum Stop {
    /// The call fails.
    Failed(io::Error),
    /// A fact is lacking.
    Ask(Question),
}

/// What a call has to know of the lower side, of which node, and where to ask.
pub(super) enum Question {
    Name(NodeId, Arc<dyn Directory>, Box<OsStr>),
    DirectoryItself(NodeId, Arc<dyn Directory>),
    FileItself(NodeId, Arc<dyn OpenFile>),
    Directory(NodeId, Arc<dyn Directory>, Box<OsStr>, InodeKey),
    File(NodeId, Arc<dyn Directory>, Box<OsStr>, InodeKey),
    Test(NodeId, Arc<dyn OpenFile>, fn(&dyn OpenFile) -> bool),
    Listing(NodeId, Arc<dyn Directory>),
    Link(NodeId, Arc<dyn Directory>, Box<OsStr>),
    Xattr(About, Arc<dyn Directory>, Box<OsStr>, Box<OsStr>),
    XattrNames(NodeId, Arc<dyn Directory>, Box<OsStr>),
    Space(NodeId, Arc<dyn Directory>),
    Watch((NodeId, u64), Arc<dyn Directory>, Arc<dyn Watcher>),
}

/// What a call has learned.
#[derive(Default)]
pub(super) struct Facts {
    /// What they hold for, from the first look on.
    since: Option<Since>,
    names: Answers<(NodeId, Box<OsStr>), Option<Attributes>>,
    opened: Answers<NodeId, Attributes>,
    directories: Answers<NodeId, Arc<dyn Directory>>,
    files: Answers<NodeId, Arc<dyn OpenFile>>,
    tests: Answers<NodeId, bool>,
    listings: Answers<NodeId, Arc<Vec<Listed>>>,
    links: Answers<NodeId, OsString>,
    xattrs: Answers<(About, Box<OsStr>), Vec<u8>>,
    xattr_names: Answers<NodeId, Vec<OsString>>,
    spaces: Answers<NodeId, Space>,
    watches: Answers<(NodeId, u64), Option<WatchId>>,
}

#[derive(Debug, Clone, Copy)]
struct Since {
    rebases: u64,
    /// How often changes outside were heard of.
    heard: u64,
}

/// Of what an extended attribute is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum About {
    /// A node's real inode.
    Node(NodeId),
    /// The real directory nearest to it.
    Nearest(NodeId),
}

/// Answers to questions of one kind. A call asks few.
struct Answers<Q, A>(Vec<(Q, Result<A, Errno>)>);

impl<Q, A> Default for Answers<Q, A> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<Q: PartialEq, A: Clone> Answers<Q, A> {
    fn get(&self, is_it: impl Fn(&Q) -> bool) -> Option<Step<A>> {
        let (_, answer) = self.0.iter().find(|(question, _)| is_it(question))?;
        Some(answer.clone().map_err(Stop::from))
    }

    fn add(&mut self, question: Q, answer: io::Result<A>) {
        let answer = answer.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO));
        self.0.push((question, answer));
    }
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        Self::Failed(error)
    }
}

impl From<Errno> for Stop {
    fn from(errno: Errno) -> Self {
        Self::Failed(errno.into())
    }
}

/// The outcome of a step that may have failed without the call's failing; a question is still asked.
pub(super) fn outcome<T>(step: Step<T>) -> Step<io::Result<T>> {
    match step {
        Ok(value) => Ok(Ok(value)),
        Err(Stop::Failed(error)) => Ok(Err(error)),
        Err(ask) => Err(ask),
    }
}

impl View {
    /// Decides a call: under the lock, which is let go while the lower side is asked.
    pub(super) fn decide<R>(
        &self,
        decide: impl FnMut(&mut Core, &Facts) -> Step<R>,
    ) -> io::Result<R> {
        self.decide_under(|| Ok(self.core()), decide)
    }

    /// [`View::decide`] under a lock that is only had under some condition.
    pub(super) fn decide_under<'v, R>(
        &'v self,
        lock: impl Fn() -> io::Result<MutexGuard<'v, Core>>,
        mut decide: impl FnMut(&mut Core, &Facts) -> Step<R>,
    ) -> io::Result<R> {
        let mut facts = Facts::default();
        loop {
            let mut core = lock()?;
            facts.keep_true(&core);
            match decide(&mut core, &facts) {
                Ok(decided) => return Ok(decided),
                Err(Stop::Failed(error)) => return Err(error),
                Err(Stop::Ask(question)) => {
                    drop(core);
                    question.answer(&mut facts);
                }
            }
        }
    }
}

impl Core {
    /// Decides with the lock held while the lower side is asked. For when all calls wait anyhow: around a
    /// commit.
    pub(super) fn decide_at_once<R>(
        &mut self,
        mut decide: impl FnMut(&mut Self, &Facts) -> Step<R>,
    ) -> io::Result<R> {
        let mut facts = Facts::default();
        facts.keep_true(self);
        loop {
            match decide(self, &facts) {
                Ok(decided) => return Ok(decided),
                Err(Stop::Failed(error)) => return Err(error),
                Err(Stop::Ask(question)) => question.answer(&mut facts),
            }
        }
    }
}

impl Facts {
    fn keep_true(&mut self, core: &Core) {
        if self.since.is_none_or(|since| since.rebases != core.rebases) {
            *self = Self::default();
            self.since = Some(Since {
                rebases: core.rebases,
                heard: core.believed.watches.heard(),
            });
        }
    }

    /// Whether no change outside was heard of since the first question. What was, the kernel may have been
    /// told before it is told the facts.
    pub(super) fn are_of_now(&self, core: &Core) -> bool {
        self.since
            .is_some_and(|since| since.heard == core.believed.watches.heard())
    }

    /// What a name in a directory is, if that was asked.
    pub(super) fn known_name(
        &self,
        parent: NodeId,
        name: &OsStr,
    ) -> Option<Step<Option<Attributes>>> {
        self.names
            .get(|(at, known)| *at == parent && **known == *name)
    }

    /// What a name in a directory is.
    pub(super) fn name(
        &self,
        parent: NodeId,
        directory: &Arc<dyn Directory>,
        name: &OsStr,
    ) -> Step<Option<Attributes>> {
        self.known_name(parent, name)
            .unwrap_or_else(|| ask(Question::Name(parent, Arc::clone(directory), name.into())))
    }

    /// What an open directory is.
    pub(super) fn directory_itself(
        &self,
        id: NodeId,
        directory: &Arc<dyn Directory>,
    ) -> Step<Attributes> {
        let known = self.opened.get(|known| *known == id);
        known.unwrap_or_else(|| ask(Question::DirectoryItself(id, Arc::clone(directory))))
    }

    /// What an open file is.
    pub(super) fn file_itself(&self, id: NodeId, file: &Arc<dyn OpenFile>) -> Step<Attributes> {
        let known = self.opened.get(|known| *known == id);
        known.unwrap_or_else(|| ask(Question::FileItself(id, Arc::clone(file))))
    }

    /// Opens a node's directory, which must be this inode.
    pub(super) fn directory(
        &self,
        id: NodeId,
        parent: &Arc<dyn Directory>,
        name: &OsStr,
        key: InodeKey,
    ) -> Step<Arc<dyn Directory>> {
        let known = self.directories.get(|known| *known == id);
        known.unwrap_or_else(|| {
            ask(Question::Directory(
                id,
                Arc::clone(parent),
                name.into(),
                key,
            ))
        })
    }

    /// Opens a node's file, which must be this inode.
    pub(super) fn file(
        &self,
        id: NodeId,
        directory: &Arc<dyn Directory>,
        name: &OsStr,
        key: InodeKey,
    ) -> Step<Arc<dyn OpenFile>> {
        let known = self.files.get(|known| *known == id);
        known.unwrap_or_else(|| ask(Question::File(id, Arc::clone(directory), name.into(), key)))
    }

    /// Whether a test of a node's open file holds.
    pub(super) fn holds(
        &self,
        id: NodeId,
        file: &Arc<dyn OpenFile>,
        test: fn(&dyn OpenFile) -> bool,
    ) -> Step<bool> {
        let known = self.tests.get(|known| *known == id);
        known.unwrap_or_else(|| ask(Question::Test(id, Arc::clone(file), test)))
    }

    /// The names in a directory.
    pub(super) fn listing(
        &self,
        id: NodeId,
        directory: &Arc<dyn Directory>,
    ) -> Step<Arc<Vec<Listed>>> {
        let known = self.listings.get(|known| *known == id);
        known.unwrap_or_else(|| ask(Question::Listing(id, Arc::clone(directory))))
    }

    /// Where a symbolic link leads.
    pub(super) fn link(
        &self,
        id: NodeId,
        directory: &Arc<dyn Directory>,
        name: &OsStr,
    ) -> Step<OsString> {
        let known = self.links.get(|known| *known == id);
        known.unwrap_or_else(|| ask(Question::Link(id, Arc::clone(directory), name.into())))
    }

    /// The value of an extended attribute.
    pub(super) fn xattr(
        &self,
        about: About,
        directory: &Arc<dyn Directory>,
        name: &OsStr,
        attribute: &OsStr,
    ) -> Step<Vec<u8>> {
        let is_it = |(of, known): &(About, Box<OsStr>)| *of == about && **known == *attribute;
        self.xattrs.get(is_it).unwrap_or_else(|| {
            ask(Question::Xattr(
                about,
                Arc::clone(directory),
                name.into(),
                attribute.into(),
            ))
        })
    }

    /// The names of the extended attributes.
    pub(super) fn xattr_names(
        &self,
        id: NodeId,
        directory: &Arc<dyn Directory>,
        name: &OsStr,
    ) -> Step<Vec<OsString>> {
        let known = self.xattr_names.get(|known| *known == id);
        known.unwrap_or_else(|| ask(Question::XattrNames(id, Arc::clone(directory), name.into())))
    }

    /// Space and limits at the real directory nearest to a node.
    pub(super) fn space(&self, id: NodeId, directory: &Arc<dyn Directory>) -> Step<Space> {
        let known = self.spaces.get(|known| *known == id);
        known.unwrap_or_else(|| ask(Question::Space(id, Arc::clone(directory))))
    }

    /// Watches a directory. `removals` tells how many watches were given up: one that was made before may be
    /// gone.
    pub(super) fn watch(
        &self,
        id: NodeId,
        directory: &Arc<dyn Directory>,
        watcher: &Arc<dyn Watcher>,
        removals: u64,
    ) -> Step<Option<WatchId>> {
        let known = self.watches.get(|known| *known == (id, removals));
        known.unwrap_or_else(|| {
            ask(Question::Watch(
                (id, removals),
                Arc::clone(directory),
                Arc::clone(watcher),
            ))
        })
    }
}

impl Question {
    /// Asks the lower side. May take long.
    fn answer(self, facts: &mut Facts) {
        match self {
            Self::Name(parent, directory, name) => {
                let found = directory.lookup(&name);
                facts.names.add((parent, name), found);
            }
            Self::DirectoryItself(id, directory) => facts.opened.add(id, directory.attributes()),
            Self::FileItself(id, file) => facts.opened.add(id, file.attributes()),
            Self::Directory(id, parent, name, key) => {
                let opened = parent.directory(&name).and_then(|opened| {
                    let found = opened.attributes()?;
                    is_same(found, key).map(|()| opened)
                });
                facts.directories.add(id, opened);
            }
            Self::File(id, directory, name, key) => {
                let opened = directory.open(&name).and_then(|opened| {
                    let found = opened.attributes()?;
                    is_same(found, key).map(|()| opened)
                });
                facts.files.add(id, opened);
            }
            Self::Test(id, file, test) => facts.tests.add(id, Ok(test(&*file))),
            Self::Listing(id, directory) => {
                facts.listings.add(id, directory.list().map(Arc::new));
            }
            Self::Link(id, directory, name) => facts.links.add(id, directory.read_link(&name)),
            Self::Xattr(about, directory, name, attribute) => {
                let value = directory.xattr(&name, &attribute);
                facts.xattrs.add((about, attribute), value);
            }
            Self::XattrNames(id, directory, name) => {
                facts.xattr_names.add(id, directory.xattr_names(&name));
            }
            Self::Space(id, directory) => facts.spaces.add(id, directory.space()),
            Self::Watch(id, directory, watcher) => {
                facts.watches.add(id, Ok(watcher.add(&*directory)));
            }
        }
    }
}

fn ask<T>(question: Question) -> Step<T> {
    Err(Stop::Ask(question))
}

/// # Errors
/// `ESTALE` where it is not.
fn is_same(found: Attributes, key: InodeKey) -> io::Result<()> {
    match found.identity.key() == key {
        true => Ok(()),
        false => Err(Errno::STALE.into()),
    }
}
