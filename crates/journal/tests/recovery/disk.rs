//! A disk in memory that can be full, can fail, and can lose its power.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io;
use std::rc::Rc;

use surmise_journal::Storage;

/// What a power loss takes or leaves as a whole, in bytes.
const BLOCK: usize = 512;

#[derive(Debug, Clone, Default)]
pub(crate) struct Disk {
    pub(crate) bytes: Vec<u8>,
    /// How many bytes fit.
    pub(crate) room: Option<usize>,
    /// How many of the next flushes fail.
    pub(crate) failing_syncs: usize,
    /// What a power loss cannot take.
    durable: Vec<u8>,
    /// Blocks that were written since.
    dirty: BTreeSet<usize>,
}

impl Disk {
    pub(crate) fn of(bytes: &[u8]) -> Self {
        Self {
            bytes: bytes.to_vec(),
            durable: bytes.to_vec(),
            ..Self::default()
        }
    }

    /// A state in which a power loss may leave it: of what was not flushed, any blocks are there, and the
    /// file has any length between the old one and the new.
    pub(crate) fn after_power_loss(&self, random: &mut fastrand::Rng) -> Vec<u8> {
        let (old, new) = (self.durable.len(), self.bytes.len());
        let mut bytes = self.durable.clone();
        bytes.resize(random.usize(old.min(new)..=old.max(new)), 0);
        for block in &self.dirty {
            let range = block * BLOCK..((block + 1) * BLOCK).min(new).min(bytes.len());
            if !range.is_empty() && random.bool() {
                bytes[range.clone()].copy_from_slice(&self.bytes[range]);
            }
        }
        bytes
    }
}

impl Storage for &mut Disk {
    fn read_all(&mut self) -> io::Result<Vec<u8>> {
        Ok(self.bytes.clone())
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let offset = offset as usize;
        let fits = self.room.map_or(bytes.len(), |room| {
            room.saturating_sub(offset).min(bytes.len())
        });
        self.bytes.resize(self.bytes.len().max(offset + fits), 0);
        self.bytes[offset..offset + fits].copy_from_slice(&bytes[..fits]);
        self.dirty
            .extend(offset / BLOCK..(offset + fits).div_ceil(BLOCK));
        if fits < bytes.len() {
            return Err(io::Error::from(io::ErrorKind::StorageFull));
        }
        Ok(())
    }

    fn truncate(&mut self, length: u64) -> io::Result<()> {
        self.bytes.truncate(length as usize);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        if self.failing_syncs > 0 {
            self.failing_syncs -= 1;
            return Err(io::Error::other("the disk fails"));
        }
        self.durable = self.bytes.clone();
        self.dirty.clear();
        Ok(())
    }
}

/// A disk that a test looks at while a log has it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Shared(pub(crate) Rc<RefCell<Disk>>);

impl Storage for Shared {
    fn read_all(&mut self) -> io::Result<Vec<u8>> {
        (&mut *self.0.borrow_mut()).read_all()
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        (&mut *self.0.borrow_mut()).write_at(offset, bytes)
    }

    fn truncate(&mut self, length: u64) -> io::Result<()> {
        (&mut *self.0.borrow_mut()).truncate(length)
    }

    fn sync(&mut self) -> io::Result<()> {
        (&mut *self.0.borrow_mut()).sync()
    }
}
