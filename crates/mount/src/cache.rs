//! What a mount has read of files, on disk for the next mount of the same source.
//!
//! Nothing here has to be right. The client asks the server whether a file has the bytes of a digest, and what is
//! then taken from the disk has to have that digest. So damage, a torn write, a cache of another time or of another export
//! cost a message, and are never shown. Nothing is flushed.
//!
//! A thread of its own writes. A full disk or another error ends the cache of this mount, and no call fails for that.

mod place;
mod segment;

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use surmise_remote::object::ObjectId;
use surmise_remote::piece::{Digest, PIECE_BYTES, Piece};

use place::Opened;
pub use place::homes;
use segment::{RECORD_BYTES, Segment, Stored};

/// A cache that may have fewer bytes is not worth its files.
pub const BYTES_MIN: u64 = 1 << 20;

/// Bytes that wait to be written. What comes while there are more is not kept.
const QUEUED_BYTES_MAX: usize = 32 << 20;

/// A cache has about so many segments. It is the oldest one that goes.
const SEGMENTS: u64 = 16;
const SEGMENT_BYTES_MAX: u64 = 64 << 20;

/// How often it is looked whether another mount has let go of the cache.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The cache of one mount, as the threads see it that serve programs.
#[derive(Debug, Clone)]
pub struct Cache {
    shared: Arc<Shared>,
    jobs: Sender<Job>,
}

#[derive(Debug, Default)]
struct Shared {
    /// Whether anything can be kept: not while another mount has the cache, nor after an error.
    is_open: AtomicBool,
    index: Mutex<Index>,
    queued_bytes: AtomicUsize,
    /// What it takes on disk.
    bytes: AtomicU64,
}

#[derive(Debug, Default)]
struct Index {
    stored: HashMap<(ObjectId, u64), (u64, Stored)>,
    /// By number; the last one grows.
    segments: BTreeMap<u64, Arc<Segment>>,
    /// Whether it takes so much of what it may that something goes soon.
    is_filling: bool,
}

#[derive(Debug)]
enum Job {
    Keep {
        object: ObjectId,
        offset: u64,
        data: Vec<u8>,
    },
    End,
}

/// What has become of pieces.
#[derive(Debug)]
pub enum News {
    /// These are there.
    Kept(Vec<Piece>),
    /// These are there no more.
    Unkept(Vec<Piece>),
}

/// What writes the cache.
#[derive(Debug)]
pub struct Writer {
    source: String,
    homes: Vec<PathBuf>,
    bytes_max: u64,
    shared: Arc<Shared>,
    jobs: Receiver<Job>,
}

/// The cache of a source that may take so many bytes, in the first of these directories that it can be in, and what has to be
/// run in a thread of its own.
pub fn new(source: &str, bytes_max: u64, homes: Vec<PathBuf>) -> (Cache, Writer) {
    let (sender, jobs) = channel();
    let shared = Arc::new(Shared::default());
    let cache = Cache {
        shared: Arc::clone(&shared),
        jobs: sender,
    };
    let writer = Writer {
        source: source.to_owned(),
        homes,
        bytes_max,
        shared,
        jobs,
    };
    (cache, writer)
}

impl Cache {
    /// Whether so many more bytes can be kept now.
    pub fn has_room(&self, bytes: u32) -> bool {
        let queued = self.shared.queued_bytes.load(Ordering::Relaxed);
        self.shared.is_open.load(Ordering::Relaxed) && queued + bytes as usize <= QUEUED_BYTES_MAX
    }

    /// Keeps a piece, some time later.
    pub fn keep(&self, object: ObjectId, offset: u64, data: Vec<u8>) {
        let bytes = data.len();
        let job = Job::Keep {
            object,
            offset,
            data,
        };
        // First, since the writer takes it off again.
        self.shared.queued_bytes.fetch_add(bytes, Ordering::Relaxed);
        // The writer ends early where nothing can be kept.
        let _ = self.jobs.send(job);
    }

    /// The bytes of a piece, if they are there and undamaged.
    pub fn restore(&self, piece: &Piece) -> Option<Vec<u8>> {
        let place = (piece.object, piece.offset);
        let (segment, stored, is_old) = {
            let index = self.shared.lock();
            let (number, stored) = index.stored.get(&place)?;
            let segment = Arc::clone(index.segments.get(number)?);
            (segment, *stored, index.is_old(*number))
        };
        if stored.piece != *piece {
            return None;
        }
        let data = segment.read(&stored);
        match &data {
            // What is used stays.
            Some(data) if is_old && self.has_room(piece.length) => {
                self.keep(piece.object, piece.offset, data.clone());
            }
            Some(_) => {}
            None => {
                self.shared.lock().stored.remove(&place);
            }
        }
        data
    }

    /// How many bytes it takes on disk.
    pub fn bytes(&self) -> u64 {
        self.shared.bytes.load(Ordering::Relaxed)
    }

    /// Nothing more comes: the writer ends when it has written all.
    pub fn end(&self) {
        // It may have ended.
        let _ = self.jobs.send(Job::End);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Index> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Index {
    /// Whether a segment goes before half of the others have.
    fn is_old(&self, number: u64) -> bool {
        let newer = self.segments.range(number..).count();
        self.is_filling && newer * 2 > self.segments.len()
    }
}

impl Writer {
    /// Opens the cache, and keeps what it is told to until that ends. While another mount has the cache, nothing is kept.
    /// `tried` is called when it is known for the first time what is there, or that nothing can be had.
    pub fn run(self, tried: impl FnOnce(), tell: impl Fn(News)) {
        let mut tried = Some(tried);
        let opened = loop {
            let opened = place::open(&self.homes, &self.source);
            if let Ok(Some(opened)) = opened {
                break opened;
            }
            tried.take().into_iter().for_each(|tried| tried());
            // Without a place for it there is none.
            if opened.is_err() || self.ends_within(LOOK_EVERY) {
                return;
            }
        };
        // What cannot be read now may be read by the next mount.
        let loaded = self.load(&opened, &tell);
        tried.into_iter().for_each(|tried| tried());
        if loaded.is_ok() && self.keep_all(&opened, &tell).is_err() {
            self.give_up(&opened, &tell);
        }
    }

    /// Whether the mount ends within this time.
    fn ends_within(&self, patience: Duration) -> bool {
        let end = Instant::now() + patience;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            match self.jobs.recv_timeout(left) {
                Ok(Job::Keep { data, .. }) => self.has_done(&data),
                Ok(Job::End) | Err(RecvTimeoutError::Disconnected) => return true,
                Err(RecvTimeoutError::Timeout) => return false,
            }
        }
    }

    fn has_done(&self, data: &[u8]) {
        let bytes = data.len();
        self.shared.queued_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Finds what is there.
    fn load(&self, opened: &Opened, tell: &impl Fn(News)) -> std::io::Result<()> {
        let all = segment::load_all(&opened.directory)?;
        let mut index = self.shared.lock();
        for (number, segment, stored) in all {
            let stored = stored.into_iter();
            let places = stored.map(|one| ((one.piece.object, one.piece.offset), (number, one)));
            index.stored.extend(places);
            index.segments.insert(number, Arc::new(segment));
        }
        let pieces = index.stored.values().map(|(_, one)| one.piece).collect();
        self.count(&mut index);
        drop(index);
        self.shared.is_open.store(true, Ordering::Relaxed);
        tell(News::Kept(pieces));
        Ok(())
    }

    fn count(&self, index: &mut Index) -> u64 {
        let bytes = index.segments.values().map(|segment| segment.bytes()).sum();
        index.is_filling = bytes > self.bytes_max / 2;
        self.shared.bytes.store(bytes, Ordering::Relaxed);
        bytes
    }

    fn keep_all(&self, opened: &Opened, tell: &impl Fn(News)) -> std::io::Result<()> {
        self.make_room(opened, 0, tell);
        loop {
            let Ok(Job::Keep {
                object,
                offset,
                data,
            }) = self.jobs.recv()
            else {
                return Ok(());
            };
            let kept = self.keep(opened, (object, offset), &data, tell);
            self.has_done(&data);
            kept?;
        }
    }

    fn keep(
        &self,
        opened: &Opened,
        (object, offset): (ObjectId, u64),
        data: &[u8],
        tell: &impl Fn(News),
    ) -> std::io::Result<()> {
        let piece = Piece {
            object,
            offset,
            length: u32::try_from(data.len()).unwrap_or(u32::MAX),
            digest: Digest::of(data),
        };
        let is_there = {
            let index = self.shared.lock();
            let stored = index.stored.get(&(object, offset));
            stored.is_some_and(|(number, one)| one.piece == piece && !index.is_old(*number))
        };
        if is_there {
            return Ok(());
        }
        // A record, and the head of a segment.
        self.make_room(opened, data.len() as u64 + 2 * RECORD_BYTES, tell);
        let (number, segment) = self.growing(opened, data.len() as u64)?;
        // Not under the lock, for which programs wait.
        let stored = segment.append(piece, data)?;
        let mut index = self.shared.lock();
        index.stored.insert((object, offset), (number, stored));
        self.count(&mut index);
        drop(index);
        tell(News::Kept(vec![piece]));
        Ok(())
    }

    /// The segment that grows: the last one, while it has room.
    fn growing(&self, opened: &Opened, more: u64) -> std::io::Result<(u64, Arc<Segment>)> {
        let bytes_max = (self.bytes_max / SEGMENTS).clamp(2 * PIECE_BYTES, SEGMENT_BYTES_MAX);
        let mut index = self.shared.lock();
        let last = index.segments.last_key_value();
        if let Some((number, last)) = last
            && last.bytes() + more <= bytes_max
        {
            return Ok((*number, Arc::clone(last)));
        }
        let number = last.map_or(1, |(number, _)| number + 1);
        let segment = Arc::new(Segment::create(&opened.directory, number)?);
        index.segments.insert(number, Arc::clone(&segment));
        Ok((number, segment))
    }

    /// Lets go of the oldest segments until there is room for so many bytes more.
    fn make_room(&self, opened: &Opened, more: u64, tell: &impl Fn(News)) {
        loop {
            let mut index = self.shared.lock();
            if self.count(&mut index) + more <= self.bytes_max {
                return;
            }
            let Some((oldest, _)) = index.segments.pop_first() else {
                return;
            };
            segment::remove(&opened.directory, oldest);
            let went = |(number, one): &(u64, Stored)| (*number == oldest).then_some(one.piece);
            let went: Vec<_> = index.stored.values().filter_map(went).collect();
            index.stored.retain(|_, (number, _)| *number != oldest);
            self.count(&mut index);
            drop(index);
            tell(News::Unkept(went));
        }
    }

    /// The disk is full or broken: nothing is kept any more, and what was gives its room back.
    fn give_up(&self, opened: &Opened, tell: &impl Fn(News)) {
        self.shared.is_open.store(false, Ordering::Relaxed);
        let mut index = self.shared.lock();
        for number in std::mem::take(&mut index.segments).into_keys() {
            segment::remove(&opened.directory, number);
        }
        let stored = std::mem::take(&mut index.stored);
        self.count(&mut index);
        drop(index);
        tell(News::Unkept(
            stored.into_values().map(|(_, one)| one.piece).collect(),
        ));
    }
}

#[cfg(test)]
mod tests;
