//! A view of a large real file, and a plain file that the same calls are made on.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, SeekFrom};
use rustix::io::Errno;
use surmise_view::{NodeId, OpenHow, SetAttributes, View, ViewConfig};
use tempfile::TempDir;

/// Larger than what is copied whole, no multiple of a block, and no multiple of a page.
pub const SIZE: u64 = (1 << 20) + 5 * (1 << 16) + 777;

/// One call on both sides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Call {
    Write { at: u64, length: u64, fill: u8 },
    Read { at: u64, length: u64 },
    Truncate(u64),
    Allocate { at: u64, length: u64, mode: u32 },
    Seek { at: u64, hole: bool },
    Copy { from: u64, to: u64, length: u64 },
    Reopen,
}

pub struct World {
    pub lower: TempDir,
    pub state: TempDir,
    plain: PathBuf,
    _plain_directory: TempDir,
}

pub struct Opened<'w> {
    world: &'w World,
    pub view: View,
    pub node: NodeId,
    plain: File,
}

impl World {
    pub fn new() -> Self {
        let (lower, plain) = (TempDir::new().unwrap(), TempDir::new().unwrap());
        let world = Self {
            state: TempDir::new().unwrap(),
            plain: plain.path().join("file"),
            lower,
            _plain_directory: plain,
        };
        for path in [world.real(), world.plain.clone()] {
            plant(&path);
        }
        world
    }

    pub fn real(&self) -> PathBuf {
        self.lower.path().join("file")
    }

    pub fn open(&self) -> Opened<'_> {
        let view = open_view(self.lower.path(), self.state.path());
        let node = find(&view);
        let plain = File::options().read(true).write(true).open(&self.plain);
        Opened {
            world: self,
            view,
            node,
            plain: plain.unwrap(),
        }
    }

    /// Bytes that the objects take.
    pub fn stored(&self) -> u64 {
        let mut bytes = 0;
        for shard in fs::read_dir(self.state.path().join("objects")).unwrap() {
            for object in fs::read_dir(shard.unwrap().path()).unwrap() {
                bytes += object.unwrap().metadata().unwrap().blocks() * 512;
            }
        }
        bytes
    }
}

impl Opened<'_> {
    pub fn call(&mut self, call: &Call) {
        match *call {
            Call::Read { at, length } => self.compare_range(at, length),
            Call::Seek { at, hole } => self.check_seek(at, hole),
            Call::Reopen => {
                let world = self.world;
                // Nothing is written when a view goes, so this is what a kill leaves.
                self.view = open_view(world.lower.path(), world.state.path());
                self.node = find(&self.view);
            }
            _ => {
                let view = on_view(&self.view, self.node, call);
                let plain = on_plain(&self.plain, call);
                let errno = |result: io::Result<u64>| result.map_err(|error| error.raw_os_error());
                assert_eq!(errno(view), errno(plain), "{call:?}");
            }
        }
    }

    pub fn compare(&self) {
        let size = self.plain.metadata().unwrap().len();
        let shown = self.view.attributes(self.node).unwrap().attributes;
        assert_eq!(shown.identity.size, size);
        self.compare_range(0, size + 1);
    }

    fn compare_range(&self, at: u64, length: u64) {
        let view = read_view(&self.view, self.node, at, length).unwrap();
        let mut plain = vec![0; length as usize];
        let read = read_plain(&self.plain, at, &mut plain);
        if view == plain[..read] {
            return;
        }
        let differs = (0..read.max(view.len())).find(|i| view.get(*i) != plain[..read].get(*i));
        panic!("differs at {differs:?}, in {length} bytes from {at}");
    }

    /// What is passed over as a hole holds nothing, and what is at an end is the end.
    fn check_seek(&self, at: u64, hole: bool) {
        let size = self.plain.metadata().unwrap().len();
        let found = match self.view.seek(self.node, at, hole) {
            Ok(found) => found,
            Err(error) => {
                assert_eq!(error.raw_os_error(), Some(Errno::NXIO.raw_os_error()));
                assert!(!hole || at >= size, "the end is a hole");
                size
            }
        };
        assert!(found >= at.min(size) && found <= size.max(at));
        let is_zero = |from: u64, to: u64| {
            let bytes = read_view(&self.view, self.node, from, to.saturating_sub(from)).unwrap();
            bytes.iter().all(|byte| *byte == 0)
        };
        if !hole {
            assert!(is_zero(at, found), "data at {at}..{found} were not found");
        } else if found < size {
            let next = self.view.seek(self.node, found, false).unwrap_or(size);
            assert!(next > found, "a hole and data at {found}");
            assert!(is_zero(found, next));
            let plain = rustix::fs::seek(&self.plain, SeekFrom::Data(at)).unwrap_or(size);
            assert!(plain >= found || plain >= at);
        }
    }
}

pub fn open_view(lower: &Path, state: &Path) -> View {
    let config = ViewConfig {
        descriptors: 16,
        ..ViewConfig::new(state, lower)
    };
    View::open(config).unwrap()
}

pub fn find(view: &View) -> NodeId {
    let found = view.lookup(NodeId::ROOT, OsStr::new("file")).unwrap();
    let node = found.expect("the file").node;
    view.open_file(node, OpenHow::default()).unwrap();
    node
}

pub fn on_view(view: &View, node: NodeId, call: &Call) -> io::Result<u64> {
    match *call {
        Call::Write { at, length, fill } => {
            view.write(node, at, &bytes(length, fill), false)?;
            Ok(0)
        }
        Call::Truncate(size) => {
            let set = SetAttributes {
                size: Some(size),
                ..SetAttributes::default()
            };
            let shown = view.set_attributes(node, set)?.attributes;
            assert_eq!(shown.identity.size, size);
            Ok(0)
        }
        Call::Allocate { at, length, mode } => {
            view.allocate(node, at, length, mode)?;
            Ok(0)
        }
        Call::Copy { from, to, length } => {
            // As the kernel asks: for what is there when the call begins.
            let size = view.attributes(node)?.attributes.identity.size;
            let length = length.min(size.saturating_sub(from));
            let mut done = 0;
            while done < length {
                let (from, to) = ((node, from + done), (node, to + done));
                match view.copy_range(from, to, length - done)? as u64 {
                    0 => break,
                    copied => done += copied,
                }
            }
            Ok(done)
        }
        _ => unreachable!("not a change"),
    }
}

pub fn on_plain(file: &File, call: &Call) -> io::Result<u64> {
    match *call {
        Call::Write { at, length, fill } => {
            file.write_all_at(&bytes(length, fill), at)?;
            Ok(0)
        }
        Call::Truncate(size) => {
            file.set_len(size)?;
            Ok(0)
        }
        Call::Allocate { at, length, mode } => {
            let flags = FallocateFlags::from_bits(mode).unwrap();
            rustix::fs::fallocate(file, flags, at, length)?;
            Ok(0)
        }
        Call::Copy { from, to, length } => {
            // Of one piece, so that a range that was copied is not copied on.
            let mut bytes = vec![0; length as usize];
            let read = read_plain(file, from, &mut bytes);
            file.write_all_at(&bytes[..read], to)?;
            Ok(read as u64)
        }
        _ => unreachable!("not a change"),
    }
}

pub fn read_view(view: &View, node: NodeId, at: u64, length: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; length as usize];
    let read = view.read(node, at, &mut bytes)?;
    bytes.truncate(read);
    Ok(bytes)
}

pub fn read_plain(file: &File, at: u64, buffer: &mut [u8]) -> usize {
    let mut done = 0;
    loop {
        match file.read_at(&mut buffer[done..], at + done as u64).unwrap() {
            0 => return done,
            read => done += read,
        }
    }
}

/// A file with a hole in its middle and nowhere else a zero.
pub fn plant(path: &Path) {
    let file = File::create_new(path).unwrap();
    let third = SIZE / 3;
    let pattern = |from: u64, to: u64| -> Vec<u8> {
        // A period that no block has.
        (from..to).map(|at| (at % 251) as u8 + 1).collect()
    };
    file.write_all_at(&pattern(0, third), 0).unwrap();
    file.write_all_at(&pattern(2 * third, SIZE), 2 * third)
        .unwrap();
    file.sync_all().unwrap();
}

fn bytes(length: u64, fill: u8) -> Vec<u8> {
    vec![fill; length as usize]
}
