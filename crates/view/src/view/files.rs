//! Files that hold nodes' data, open.

use std::collections::HashSet;
use std::fs::File;
use std::num::NonZeroUsize;
use std::sync::Arc;

use lru::LruCache;
use surmise_fuse::Backing;
use surmise_lower::OpenFile;

use crate::types::NodeId;

/// The file that holds a node's data.
#[derive(Debug, Clone)]
pub(super) enum Data {
    /// Of the object store.
    Object(Arc<File>),
    /// Of the lower side.
    Real(Arc<dyn OpenFile>),
}

impl Data {
    /// What both can: be read.
    pub(super) fn reader(&self) -> &dyn OpenFile {
        match self {
            Self::Object(file) => &**file,
            Self::Real(file) => &**file,
        }
    }
}

/// What is known of passing a file through.
#[derive(Debug, Default)]
pub(super) enum Passage {
    /// Nothing.
    #[default]
    Unknown,
    /// It is not worth while.
    Needless,
    /// It was passed through, and may be again without being registered again.
    Registered(Backing),
}

/// Tells an open file from one that held the same node's data before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileNumber(u64);

#[derive(Debug)]
struct Held {
    data: Data,
    number: FileNumber,
    passage: Passage,
}

/// The files that were used last.
#[derive(Debug)]
pub(super) struct Files {
    /// The object where there is one, else the real file. An open one outlives its name.
    data: LruCache<NodeId, Held>,
    /// How many were put there so far.
    numbers: u64,
    /// Real files from which objects borrow.
    lenders: LruCache<NodeId, Arc<dyn OpenFile>>,
    /// Those whose data the kernel is being given.
    given: HashSet<NodeId>,
}

impl Files {
    /// So many, and as many lenders.
    pub(super) fn new(slots: NonZeroUsize) -> Self {
        Self {
            data: LruCache::new(slots),
            numbers: 0,
            lenders: LruCache::new(slots),
            given: HashSet::new(),
        }
    }

    /// The file that holds a node's data, where it is open.
    pub(super) fn get(&mut self, id: NodeId) -> Option<&Data> {
        self.data.get(&id).map(|held| &held.data)
    }

    /// Likewise of one that is not used by that.
    pub(super) fn peek(&self, id: NodeId) -> Option<&Data> {
        self.data.peek(&id).map(|held| &held.data)
    }

    pub(super) fn put(&mut self, id: NodeId, data: Data) {
        self.numbers += 1;
        let held = Held {
            data,
            number: FileNumber(self.numbers),
            passage: Passage::Unknown,
        };
        self.data.put(id, held);
    }

    /// The number of the file that holds a node's data, and what is known of passing it through; that is unknown from now on.
    pub(super) fn take_passage(&mut self, id: NodeId) -> Option<(FileNumber, Passage)> {
        let held = self.data.peek_mut(&id)?;
        Some((held.number, std::mem::take(&mut held.passage)))
    }

    /// Keeps what is known of passing a file through, where that file still holds the node's data.
    pub(super) fn keep_passage(&mut self, id: NodeId, number: FileNumber, passage: Passage) {
        if let Some(held) = self.data.peek_mut(&id)
            && held.number == number
        {
            held.passage = passage;
        }
    }

    /// Another file holds the node's data by now.
    pub(super) fn close(&mut self, id: NodeId) {
        self.data.pop(&id);
    }

    /// The real file from which a node's object borrows, where it is open.
    pub(super) fn lender(&mut self, id: NodeId) -> Option<&Arc<dyn OpenFile>> {
        self.lenders.get(&id)
    }

    pub(super) fn put_lender(&mut self, id: NodeId, file: Arc<dyn OpenFile>) {
        self.lenders.put(id, file);
    }

    /// Nothing that is open of the node is right any more, or needed.
    pub(super) fn close_all(&mut self, id: NodeId) {
        self.close(id);
        self.lenders.pop(&id);
    }

    /// The kernel is being given a node's data from now on.
    pub(super) fn begin_giving(&mut self, id: NodeId) {
        self.given.insert(id);
    }

    pub(super) fn end_giving(&mut self, id: NodeId) {
        self.given.remove(&id);
    }

    pub(super) fn is_given(&self, id: NodeId) -> bool {
        self.given.contains(&id)
    }
}
