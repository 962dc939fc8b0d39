//! Files that hold nodes' data, open.

use std::collections::HashSet;
use std::fs::File;
use std::num::NonZeroUsize;
use std::sync::Arc;

use lru::LruCache;
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

/// The files that were used last.
#[derive(Debug)]
pub(super) struct Files {
    /// The object where there is one, else the real file. An open one outlives its name.
    data: LruCache<NodeId, Data>,
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
            lenders: LruCache::new(slots),
            given: HashSet::new(),
        }
    }

    /// The file that holds a node's data, where it is open.
    pub(super) fn get(&mut self, id: NodeId) -> Option<&Data> {
        self.data.get(&id)
    }

    /// Likewise of one that is not used by that.
    pub(super) fn peek(&self, id: NodeId) -> Option<&Data> {
        self.data.peek(&id)
    }

    pub(super) fn put(&mut self, id: NodeId, data: Data) {
        self.data.put(id, data);
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
