//! Copying pages from one process to another.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use rustix::io::Errno;
use rustix::process::Pid;
use surmise_sys::memory;
use surmise_sys::pagemap::PAGE;

/// How many bytes are copied at once: few enough to be in the processor's cache when they are written.
const BATCH: u64 = 256 << 10;

/// Copies pages of one process to another, where they are mapped as well. `ranges` are of whole pages.
/// Returns how many.
///
/// Pages that changed lie scattered, so many of them are moved by a call. That respects their protection;
/// what the process itself may not write, or has no page of, goes by /proc instead.
pub(crate) fn copy(from: Pid, to: Pid, ranges: &[Range<u64>]) -> io::Result<u64> {
    let mut buffer = Vec::new();
    let mut batch = Vec::new();
    let mut size = 0;
    let mut copied = 0;
    for range in ranges {
        let mut at = range.start;
        while at < range.end {
            let end = range.end.min(at + BATCH - size);
            batch.push(at..end);
            size += end - at;
            at = end;
            if size == BATCH || batch.len() == memory::RANGES_MAX {
                copy_batch(from, to, &batch, size, &mut buffer)?;
                copied += size / PAGE;
                size = 0;
                batch.clear();
            }
        }
    }
    if size > 0 {
        copy_batch(from, to, &batch, size, &mut buffer)?;
    }
    Ok(copied + size / PAGE)
}

fn copy_batch(
    from: Pid,
    to: Pid,
    batch: &[Range<u64>],
    size: u64,
    buffer: &mut Vec<u8>,
) -> io::Result<()> {
    buffer.resize(size as usize, 0);
    let moved = memory::read_ranges(from, batch, buffer)
        .and_then(|()| memory::write_ranges(to, batch, buffer));
    if moved.is_ok() {
        return Ok(());
    }
    let (from, to) = (memory_of(from)?, memory_of(to)?);
    batch
        .iter()
        .try_for_each(|range| force(&from, &to, range.clone(), buffer))
}

/// As [`copy`], whatever the protection of the pages, one range.
fn force(from: &File, to: &File, range: Range<u64>, buffer: &mut Vec<u8>) -> io::Result<()> {
    let size = range.end - range.start;
    buffer.resize(size as usize, 0);
    match from.read_exact_at(buffer, range.start) {
        Ok(()) => to.write_all_at(buffer, range.start),
        // Somewhere is a page behind the end of a file: nobody can have read that.
        Err(_) if size > PAGE => range
            .step_by(PAGE as usize)
            .try_for_each(|page| force(from, to, page..page + PAGE, buffer)),
        Err(error) if error.raw_os_error() == Some(Errno::IO.raw_os_error()) => Ok(()),
        Err(error) => Err(error),
    }
}

/// All of a process' memory: who traces the process may read and write it.
pub(crate) fn memory_of(process: Pid) -> io::Result<File> {
    let path = format!("/proc/{}/mem", process.as_raw_nonzero());
    File::options().read(true).write(true).open(path)
}
