//! Copies of real data, as far as the file systems do not share blocks.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use rustix::fs::SeekFrom;
use rustix::io::Errno;

/// How much is copied in one step where the kernel copies.
pub(crate) const COPY_STEP: u64 = 1 << 30;

/// Copies what is not a hole of a range to the same place in another file, which has holes there.
pub(crate) fn copy_data(source: &File, target: &File, range: Range<u64>) -> io::Result<()> {
    let end = range.end;
    let mut at = range.start;
    while at < end {
        let data = match rustix::fs::seek(source, SeekFrom::Data(at)) {
            Ok(data) => data,
            Err(Errno::NXIO) => break,
            Err(error) => return Err(error.into()),
        };
        let hole = rustix::fs::seek(source, SeekFrom::Hole(data))?.min(end);
        let (mut from, mut to) = (data, data);
        while from < hole {
            let step = usize::try_from((hole - from).min(COPY_STEP)).unwrap_or(usize::MAX);
            let copied = match rustix::fs::copy_file_range(
                source,
                Some(&mut from),
                target,
                Some(&mut to),
                step,
            ) {
                // Not between these two file systems.
                Err(Errno::XDEV | Errno::INVAL | Errno::OPNOTSUPP | Errno::NOSYS) => {
                    copy_through_memory(source, target, from, hole)?;
                    break;
                }
                copied => copied?,
            };
            if copied == 0 {
                break;
            }
        }
        at = hole.max(data);
    }
    Ok(())
}

fn copy_through_memory(source: &File, target: &File, from: u64, to: u64) -> io::Result<()> {
    let mut buffer = vec![0; 1 << 17];
    let mut at = from;
    while at < to {
        let step = buffer
            .len()
            .min(usize::try_from(to - at).unwrap_or(usize::MAX));
        let length = source.read_at(&mut buffer[..step], at)?;
        if length == 0 {
            break;
        }
        target.write_all_at(&buffer[..length], at)?;
        at += length as u64;
    }
    Ok(())
}

/// Reads at `offset` until `buffer` is full or the file ends; returns the bytes read.
pub(crate) fn read_full(file: &File, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
    let mut done = 0;
    while done < buffer.len() {
        match file.read_at(&mut buffer[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(length) => done += length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}
