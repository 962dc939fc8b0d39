//! Changes of files' data, which happen outside the view's lock: one at a time of each file.
//!
//! A writer into a borrowed block first completes the block from the real file, then writes, and then has the
//! log say that the block is the object's. No other thread may write to the block meanwhile, or the completion would
//! overwrite its bytes. And no thread may cut the file, or the bytes that were cut off would come back. So a
//! [`Change`] is taken before the view's lock, and kept until the record is written. Reads need none:
//! they are planned under the lock, and a block's bytes in the real file stay what they were.

use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::{Condvar, Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::core::{Core, now};
use super::{View, WHOLE};
use crate::borrowed::{BLOCK_BYTES, Borrowed};
use crate::record::Record;
use crate::types::NodeId;

/// The nodes whose data are being changed.
#[derive(Debug, Default)]
pub(super) struct Changes {
    nodes: Mutex<HashSet<NodeId>>,
    ended: Condvar,
    /// Held shared by every change: nobody prepares a commit meanwhile.
    writes: RwLock<()>,
}

/// The right to change the data of a node. To be taken before the lock, never under it.
pub(super) struct Change<'v> {
    view: &'v View,
    node: NodeId,
    _writing: RwLockReadGuard<'v, ()>,
}

impl Changes {
    /// Waits for the changes under way, and keeps others from beginning.
    pub(super) fn stop(&self) -> RwLockWriteGuard<'_, ()> {
        self.writes.write().expect(WHOLE)
    }
}

impl View {
    /// Waits until nobody else changes the data of the node.
    pub(super) fn change(&self, node: NodeId) -> Change<'_> {
        let changes = &self.changes;
        let taken = |nodes: &mut HashSet<NodeId>| nodes.contains(&node);
        let nodes = changes.nodes.lock().expect(WHOLE);
        let mut nodes = changes.ended.wait_while(nodes, taken).expect(WHOLE);
        nodes.insert(node);
        drop(nodes);
        Change {
            view: self,
            node,
            _writing: changes.writes.read().expect(WHOLE),
        }
    }
}

impl Drop for Change<'_> {
    fn drop(&mut self) {
        let changes = &self.view.changes;
        // A panic elsewhere ends the view; here it would hide the first.
        if let Ok(mut nodes) = changes.nodes.lock() {
            nodes.remove(&self.node);
            changes.ended.notify_all();
        }
    }
}

impl<'v> Change<'v> {
    pub(super) fn view(&self) -> &'v View {
        self.view
    }

    /// Whose data may be changed.
    pub(super) fn node(&self) -> NodeId {
        self.node
    }

    /// Has `act` write a range of the node's object, or make it read as zeros.
    pub(super) fn overwrite<R>(
        &self,
        object: &File,
        range: Range<u64>,
        act: impl FnOnce() -> io::Result<R>,
    ) -> io::Result<R> {
        let Some((blocks, limit)) = self.borrowed(object, &range)? else {
            return act();
        };
        let start = blocks.start * BLOCK_BYTES;
        let end = blocks.end.saturating_mul(BLOCK_BYTES).min(limit);
        self.complete(object, start..range.start)?;
        self.complete(object, range.end.min(end)..end)?;
        let done = act()?;
        let own = Record::Own {
            node: self.node,
            first: blocks.start,
            end: blocks.end,
        };
        self.view.locked().perform(vec![own], now())?;
        Ok(done)
    }

    /// Has `act` do what may make the object longer and changes no byte.
    pub(super) fn extend<R>(
        &self,
        object: &File,
        act: impl FnOnce() -> io::Result<R>,
    ) -> io::Result<R> {
        self.view.locked().cut_borrowed(self.node, object)?;
        act()
    }

    /// The blocks in which a range lies and of which the object lacks some, and where its own bytes
    /// begin.
    fn borrowed(&self, object: &File, range: &Range<u64>) -> io::Result<Option<(Range<u64>, u64)>> {
        let mut core = self.view.locked();
        core.cut_borrowed(self.node, object)?;
        let Some(borrowed) = core.borrowed(self.node) else {
            return Ok(None);
        };
        let limit = borrowed.limit();
        let blocks = Borrowed::blocks(range, limit);
        let is_own = borrowed.owns_all(&blocks);
        Ok((!is_own).then_some((blocks, limit)))
    }

    /// Puts into the object what it borrows of a range that is less than a block.
    fn complete(&self, object: &File, range: Range<u64>) -> io::Result<()> {
        let lent = self.view.decide_under(
            || Ok(self.view.locked()),
            |core, facts| core.lent(facts, self.node, &range),
        )?;
        let Some(lent) = lent else { return Ok(()) };
        let length = range.end - range.start;
        let mut bytes = vec![0; usize::try_from(length).expect("less than a block")];
        lent.borrowed
            .read(object, &*lent.real, range.start, &mut bytes)?;
        object.write_all_at(&bytes, range.start)
    }
}

impl Core {
    /// What a node's object borrows, where it borrows something.
    pub(super) fn borrowed(&self, id: NodeId) -> Option<&Borrowed> {
        self.map.node(id)?.borrowed.as_deref()
    }
}
