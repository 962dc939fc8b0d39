//! Where a log's bytes live.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Storage under one log. A trait so that tests can put a fake disk under it, with every state that
/// a crash may leave.
pub trait Storage {
    /// Everything stored.
    fn read_all(&mut self) -> io::Result<Vec<u8>>;
    /// Writes all of `bytes` at `offset`; after an error any part of them may be stored.
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()>;
    /// Cuts the storage to `length` bytes.
    fn truncate(&mut self, length: u64) -> io::Result<()>;
    /// Returns when everything written is durable.
    fn sync(&mut self) -> io::Result<()>;
}

impl Storage for File {
    fn read_all(&mut self) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; usize::try_from(self.metadata()?.len()).map_err(io::Error::other)?];
        self.read_exact_at(&mut bytes, 0)?;
        Ok(bytes)
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.write_all_at(bytes, offset)
    }

    fn truncate(&mut self, length: u64) -> io::Result<()> {
        self.set_len(length)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()
    }
}
