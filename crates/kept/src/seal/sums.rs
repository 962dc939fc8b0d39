//! The sums of a file, block by block.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use rustix::fs::SeekFrom;
use rustix::io::Errno;

/// Bytes of one block.
pub(super) const BLOCK: usize = 64 << 10;

/// The number of each block that is not all zeros, and its sum.
pub(super) type Sums = Vec<(u64, u32)>;

/// The sums of a file of so many bytes. Whether zeros are a hole does not matter: a file system may make one
/// of the other.
pub(super) fn sums(file: &File, length: u64) -> io::Result<Sums> {
    let mut sums = Sums::new();
    let mut bytes = vec![0; BLOCK];
    let mut at = 0;
    while at < length {
        at = match rustix::fs::seek(file, SeekFrom::Data(at)) {
            Err(Errno::NXIO) => break,
            // Of a file system that does not know.
            Err(Errno::INVAL) => at,
            data => data? / BLOCK as u64 * BLOCK as u64,
        };
        if at >= length {
            // It has grown since.
            break;
        }
        let size = usize::try_from(length - at).map_or(BLOCK, |left| left.min(BLOCK));
        let block = &mut bytes[..size];
        file.read_exact_at(block, at)?;
        if block.iter().any(|byte| *byte != 0) {
            sums.push((at / BLOCK as u64, crc32c::crc32c(block)));
        }
        at += size as u64;
    }
    Ok(sums)
}

/// The first block that is in one of both only, or has another sum.
pub(super) fn first_difference(one: &Sums, two: &Sums) -> Option<u64> {
    let differs = one.iter().zip(two).find(|(one, two)| one != two);
    match (differs, one.len().cmp(&two.len())) {
        (Some((one, two)), _) => Some(one.0.min(two.0)),
        (None, std::cmp::Ordering::Less) => Some(two[one.len()].0),
        (None, std::cmp::Ordering::Equal) => None,
        (None, std::cmp::Ordering::Greater) => Some(one[two.len()].0),
    }
}
