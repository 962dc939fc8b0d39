//! How a volume is known: by ext4's superblock (Documentation/filesystems/ext4/super.rst).

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::VolumeError;

/// The label of each volume.
pub(super) const LABEL: &str = "surmise";

const SUPERBLOCK: u64 = 1024;
const MAGIC: u64 = SUPERBLOCK + 0x38;
const FEATURES: u64 = SUPERBLOCK + 0x5c;
const INCOMPATIBLE: u64 = SUPERBLOCK + 0x60;
const NAME: u64 = SUPERBLOCK + 0x78;

const NO_JOURNAL: &str = "its file system has no journal";

const EXT4: [u8; 2] = [0x53, 0xef];
const HAS_JOURNAL: u8 = 0x04;
const NEEDS_RECOVERY: u8 = 0x04;

/// Opens a volume, if it is one; to be repaired, it may lack its journal.
pub(super) fn open(path: &Path, to_repair: bool) -> Result<File, VolumeError> {
    let file = File::open(path).map_err(error("open", path))?;
    let lack = match lack(&file) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Some("it is too short"),
        result => result.map_err(error("read", path))?,
    };
    match lack {
        None => Ok(file),
        Some(NO_JOURNAL) if to_repair => Ok(file),
        Some(reason) => Err(VolumeError::NotVolume {
            path: path.to_owned(),
            reason,
        }),
    }
}

/// Whether the journal of an open volume holds what is not done yet.
pub(super) fn has_unfinished(file: &File, path: &Path) -> Result<bool, VolumeError> {
    let [features] = read(file, path, INCOMPATIBLE)?;
    Ok(features & NEEDS_RECOVERY != 0)
}

/// Whether an open volume has its journal.
pub(super) fn has_journal(file: &File, path: &Path) -> Result<bool, VolumeError> {
    let [features] = read(file, path, FEATURES)?;
    Ok(features & HAS_JOURNAL != 0)
}

fn read<const N: usize>(file: &File, path: &Path, at: u64) -> Result<[u8; N], VolumeError> {
    let mut bytes = [0; N];
    file.read_exact_at(&mut bytes, at)
        .map_err(error("read", path))?;
    Ok(bytes)
}

pub(super) fn error(what: &'static str, path: &Path) -> impl Fn(io::Error) -> VolumeError {
    let path = path.to_owned();
    move |source| VolumeError::Path {
        what,
        path: path.clone(),
        source,
    }
}

/// What it lacks to be a volume.
fn lack(file: &File) -> io::Result<Option<&'static str>> {
    if !file.metadata()?.is_file() {
        return Ok(Some("it is no file"));
    }
    let (mut magic, mut features, mut name) = ([0; 2], [0; 1], [0; 16]);
    file.read_exact_at(&mut magic, MAGIC)?;
    file.read_exact_at(&mut features, FEATURES)?;
    file.read_exact_at(&mut name, NAME)?;
    let name = name.split(|byte| *byte == 0).next();
    Ok(if magic != EXT4 {
        Some("it holds no ext4 file system")
    } else if name != Some(LABEL.as_bytes()) {
        Some("its file system was made by somebody else")
    } else if features[0] & HAS_JOURNAL == 0 {
        Some(NO_JOURNAL)
    } else {
        None
    })
}
