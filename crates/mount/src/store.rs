//! What is kept of files' data. The client knows which bytes of that are right.
//!
//! Small files are kept in memory. A larger file is kept in a file of its own without a name, so that its memory is the
//! kernel's page cache. Both have a limit; then what goes was not used for longest.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use surmise_remote::object::ObjectId;

/// Up to this size a file is kept in memory, in bytes.
const SMALL_BYTES_MAX: u64 = 64 << 10;

/// How many larger files are kept; each takes a descriptor.
const LARGE_MAX: usize = 512;

/// Data by objects.
#[derive(Debug)]
pub struct Store {
    /// Where files without a name are made.
    directory: PathBuf,
    files: HashMap<ObjectId, Kept>,
    small: Limited,
    large: Limited,
    clock: u64,
}

/// Files of one kind, by when they were last used.
#[derive(Debug)]
struct Limited {
    used: BTreeMap<u64, ObjectId>,
    bytes: u64,
    bytes_max: u64,
}

#[derive(Debug)]
struct Kept {
    data: Data,
    /// Its length.
    bytes: u64,
    used: u64,
}

#[derive(Debug)]
enum Data {
    Memory(Vec<u8>),
    File(File),
}

impl Store {
    /// An empty one, which keeps as many bytes of small files in memory, and of large ones in files in this directory.
    pub fn new(directory: PathBuf, small_bytes_max: u64, large_bytes_max: u64) -> Self {
        let limited = |bytes_max| Limited {
            used: BTreeMap::new(),
            bytes: 0,
            bytes_max,
        };
        Self {
            directory,
            files: HashMap::new(),
            small: limited(small_bytes_max),
            large: limited(large_bytes_max),
            clock: 0,
        }
    }

    /// Keeps bytes.
    ///
    /// # Errors
    /// Of the file in which large files are kept; then nothing is kept of this one any more.
    pub fn write(&mut self, object: ObjectId, offset: u64, data: &[u8]) -> io::Result<()> {
        let end = offset + data.len() as u64;
        let end = self
            .files
            .get(&object)
            .map_or(end, |kept| end.max(kept.bytes));
        let mut kept = self.take(object, end)?;
        match &mut kept.data {
            Data::Memory(bytes) => {
                bytes.resize(end as usize, 0);
                bytes[offset as usize..][..data.len()].copy_from_slice(data);
            }
            Data::File(file) => file.write_all_at(data, offset)?,
        }
        kept.bytes = end;
        self.put(object, kept);
        Ok(())
    }

    /// Cuts a file, or lets it grow by zeros.
    ///
    /// # Errors
    /// As for [`Self::write`].
    pub fn resize(&mut self, object: ObjectId, size: u64) -> io::Result<()> {
        let mut kept = self.take(object, size)?;
        match &mut kept.data {
            Data::Memory(bytes) => bytes.resize(size as usize, 0),
            Data::File(file) => file.set_len(size)?,
        }
        kept.bytes = size;
        self.put(object, kept);
        Ok(())
    }

    /// Keeps nothing of a file.
    pub fn discard(&mut self, object: ObjectId) {
        if let Some(kept) = self.files.remove(&object) {
            let limited = self.limited(&kept.data);
            limited.bytes -= kept.bytes;
            limited.used.remove(&kept.used);
        }
    }

    /// Fills the buffer with bytes that are all kept.
    ///
    /// # Errors
    /// Of the file, or when they are not.
    pub fn read(&mut self, object: ObjectId, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        if buffer.is_empty() {
            return Ok(());
        }
        let kept = self.files.remove(&object).ok_or(io::ErrorKind::NotFound)?;
        let limited = self.limited(&kept.data);
        limited.bytes -= kept.bytes;
        limited.used.remove(&kept.used);
        let read = match &kept.data {
            Data::Memory(bytes) => {
                let end = offset as usize + buffer.len();
                let there = bytes.get(offset as usize..end);
                there
                    .map(|there| buffer.copy_from_slice(there))
                    .ok_or(io::ErrorKind::UnexpectedEof.into())
            }
            Data::File(file) => file.read_exact_at(buffer, offset),
        };
        self.put(object, kept);
        read
    }

    /// While more is kept than may be: lets go of what was not used for longest, and says of which file.
    pub fn evict(&mut self) -> Option<ObjectId> {
        let too_many = |limited: &Limited, files_max| {
            let is_full = limited.bytes > limited.bytes_max || limited.used.len() > files_max;
            limited.used.values().next().copied().filter(|_| is_full)
        };
        let object =
            too_many(&self.small, usize::MAX).or_else(|| too_many(&self.large, LARGE_MAX))?;
        self.discard(object);
        Some(object)
    }

    /// Takes what is kept of a file out of the store, in a place where this size fits.
    fn take(&mut self, object: ObjectId, size: u64) -> io::Result<Kept> {
        let before = self.files.remove(&object);
        if let Some(kept) = &before {
            let limited = self.limited(&kept.data);
            limited.bytes -= kept.bytes;
            limited.used.remove(&kept.used);
        }
        let (data, bytes) = match before {
            Some(Kept { data, bytes, .. }) => (data, bytes),
            None => (Data::Memory(Vec::new()), 0),
        };
        let data = match data {
            Data::Memory(small) if size > SMALL_BYTES_MAX => {
                let file = tempfile::tempfile_in(&self.directory)?;
                file.write_all_at(&small, 0)?;
                Data::File(file)
            }
            data => data,
        };
        let used = 0;
        Ok(Kept { data, bytes, used })
    }

    fn put(&mut self, object: ObjectId, mut kept: Kept) {
        self.clock += 1;
        kept.used = self.clock;
        let limited = self.limited(&kept.data);
        limited.bytes += kept.bytes;
        limited.used.insert(kept.used, object);
        self.files.insert(object, kept);
    }

    fn limited(&mut self, data: &Data) -> &mut Limited {
        match data {
            Data::Memory(_) => &mut self.small,
            Data::File(_) => &mut self.large,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u64) -> ObjectId {
        ObjectId::found(number).expect("a number")
    }

    fn read(store: &mut Store, object: ObjectId, offset: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        store.read(object, offset, &mut bytes).expect("kept");
        bytes
    }

    #[test]
    fn a_file_that_grows_moves_to_a_file_of_its_own() {
        let directory = tempfile::tempdir().expect("a directory");
        let mut store = Store::new(directory.path().to_owned(), 1 << 20, 1 << 40);
        store.write(id(1), 2, b"abc").expect("kept");
        store.write(id(1), 1 << 33, b"far").expect("kept");
        store.write(id(1), 3, b"B").expect("kept");
        assert_eq!(read(&mut store, id(1), 2, 3), b"aBc");
        assert_eq!(read(&mut store, id(1), 1 << 33, 3), b"far");
        assert_eq!((store.small.bytes, store.large.bytes), (0, (1 << 33) + 3));
        store.resize(id(1), 3).expect("cut");
        store.resize(id(1), 5).expect("grown");
        assert_eq!(read(&mut store, id(1), 2, 3), b"a\0\0");
        assert_eq!(store.large.bytes, 5);
    }

    #[test]
    fn what_was_not_used_for_longest_goes() {
        let directory = tempfile::tempdir().expect("a directory");
        let mut store = Store::new(directory.path().to_owned(), 10, 1 << 20);
        store.write(id(1), 0, b"12345").expect("kept");
        store.write(id(2), 0, b"12345").expect("kept");
        assert_eq!(store.evict(), None);
        read(&mut store, id(1), 0, 5);
        store.write(id(3), 0, b"1").expect("kept");
        assert_eq!((store.evict(), store.evict()), (Some(id(2)), None));
        store.resize(id(1), 1).expect("cut");
        store.discard(id(3));
        assert_eq!(store.small.bytes, 1);
        assert!(store.read(id(2), 0, &mut [0]).is_err());
        for large in 10..12 {
            store.resize(id(large), 1 << 20).expect("grown");
        }
        assert_eq!((store.evict(), store.evict()), (Some(id(10)), None));
    }
}
