//! Copies of real data, as far as the file systems do not share blocks.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use rustix::io::Errno;
use surmise_lower::{OpenFile, read_full};

/// How much is copied in one step where the kernel copies.
pub(crate) const COPY_STEP: u64 = 1 << 30;

/// Has a file share the blocks of another, where both are of one file system that can.
pub(crate) fn share_blocks(source: &dyn OpenFile, target: &File) -> bool {
    let source = source.descriptor();
    source.is_some_and(|source| rustix::fs::ioctl_ficlone(target, source).is_ok())
}

/// Copies what is not a hole of a range to the same place in another file, which has holes there.
pub(crate) fn copy_data(source: &dyn OpenFile, target: &File, range: Range<u64>) -> io::Result<()> {
    let end = range.end;
    let mut at = range.start;
    while at < end {
        let Some(data) = source.next_data(at)? else {
            break;
        };
        // The file may have become shorter meanwhile.
        let hole = source.next_hole(data)?.unwrap_or(data).min(end);
        copy_run(source, target, data..hole)?;
        at = hole.max(data + 1);
    }
    Ok(())
}

fn copy_run(source: &dyn OpenFile, target: &File, run: Range<u64>) -> io::Result<()> {
    let (mut from, mut to) = (run.start, run.start);
    let Some(descriptor) = source.descriptor() else {
        return copy_through_memory(source, target, run);
    };
    while from < run.end {
        let step = usize::try_from((run.end - from).min(COPY_STEP)).unwrap_or(usize::MAX);
        let copied =
            rustix::fs::copy_file_range(descriptor, Some(&mut from), target, Some(&mut to), step);
        match copied {
            // Not between these two file systems.
            Err(Errno::XDEV | Errno::INVAL | Errno::OPNOTSUPP | Errno::NOSYS) => {
                return copy_through_memory(source, target, from..run.end);
            }
            Ok(0) => break,
            copied => _ = copied?,
        }
    }
    Ok(())
}

fn copy_through_memory(source: &dyn OpenFile, target: &File, run: Range<u64>) -> io::Result<()> {
    let mut buffer = vec![0; 1 << 17];
    let mut at = run.start;
    while at < run.end {
        let step = usize::try_from(run.end - at).unwrap_or(usize::MAX);
        let step = step.min(buffer.len());
        let length = read_full(source, at, &mut buffer[..step])?;
        if length == 0 {
            break;
        }
        target.write_all_at(&buffer[..length], at)?;
        at += length as u64;
    }
    Ok(())
}
