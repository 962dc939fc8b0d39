//! Makes one file's data another's.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;

use rustix::fs::{FallocateFlags, SeekFrom};
use rustix::io::Errno;
use surmise_view::Borrowed;

/// Bytes moved at a time where the kernel does not copy by itself.
const BUFFER_BYTES: usize = 1 << 17;

/// Makes the data of `to` those of `from`, holes included. What `from` borrows is in `to` already.
/// Nothing is written where neither has data, and shared extents are used where the file system has
/// them. What `to` held before is gone wherever the copy stops, and copying once more makes it whole:
/// what is borrowed is not touched.
pub(crate) fn copy(from: &File, to: &File, borrowed: Option<&Borrowed>) -> io::Result<()> {
    let length = from.metadata()?.len();
    if borrowed.is_none() && rustix::fs::ioctl_ficlone(to, from).is_ok() {
        return to.set_len(length);
    }
    let before = to.metadata()?.len();
    to.set_len(length)?;
    let Some(borrowed) = borrowed else {
        return copy_run(from, to, 0..length, before);
    };
    let mut own = borrowed.runs(length).filter(|run| run.is_own);
    own.try_for_each(|run| copy_run(from, to, run.range, before))
}

/// Copies a range, of which `to` may have held something below `before`.
fn copy_run(from: &File, to: &File, range: Range<u64>, before: u64) -> io::Result<()> {
    let mut at = range.start;
    while at < range.end {
        let data = next_data(from, at, range.end)?;
        clear(to, at, data.start.min(before))?;
        copy_range(from, to, data.start, data.end)?;
        at = data.end;
    }
    Ok(())
}

/// The first run of data at or after `at` and before `end`; an empty one at `end` where there is none.
pub(crate) fn next_data(file: &File, at: u64, end: u64) -> io::Result<Range<u64>> {
    if at >= end {
        return Ok(end..end);
    }
    let start = match rustix::fs::seek(file, SeekFrom::Data(at)) {
        Err(Errno::NXIO) => return Ok(end..end),
        Err(Errno::INVAL) => return Ok(at..end),
        start => start?,
    };
    let hole = rustix::fs::seek(file, SeekFrom::Hole(start))?;
    Ok(start.min(end)..hole.min(end))
}

/// Makes a range read as zeros.
pub(crate) fn clear(file: &File, start: u64, end: u64) -> io::Result<()> {
    if start >= end {
        return Ok(());
    }
    let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    match rustix::fs::fallocate(file, punch, start, end - start) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => {}
        cleared => return Ok(cleared?),
    }
    let zeros = vec![0; BUFFER_BYTES];
    let mut at = start;
    while at < end {
        let run = usize::try_from(end - at).map_or(BUFFER_BYTES, |left| left.min(BUFFER_BYTES));
        file.write_all_at(&zeros[..run], at)?;
        at += run as u64;
    }
    Ok(())
}

fn copy_range(from: &File, to: &File, start: u64, end: u64) -> io::Result<()> {
    let (mut read_at, mut write_at) = (start, start);
    while read_at < end {
        let left = usize::try_from(end - read_at).unwrap_or(usize::MAX);
        let copied = rustix::fs::copy_file_range(
            from.as_fd(),
            Some(&mut read_at),
            to.as_fd(),
            Some(&mut write_at),
            left,
        );
        match copied {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) => {}
            Err(Errno::XDEV | Errno::INVAL | Errno::OPNOTSUPP | Errno::NOSYS | Errno::PERM) => {
                return copy_by_buffer(from, to, read_at, end);
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn copy_by_buffer(from: &File, to: &File, start: u64, end: u64) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut at = start;
    while at < end {
        let run = usize::try_from(end - at).map_or(BUFFER_BYTES, |left| left.min(BUFFER_BYTES));
        from.read_exact_at(&mut buffer[..run], at)?;
        to.write_all_at(&buffer[..run], at)?;
        at += run as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    fn file() -> File {
        tempfile::tempfile().expect("a temporary file")
    }

    fn contents(file: &File) -> Vec<u8> {
        let mut bytes = vec![0; file.metadata().unwrap().len() as usize];
        file.read_exact_at(&mut bytes, 0).unwrap();
        bytes
    }

    #[test]
    fn a_copy_over_old_data_is_exact_and_keeps_holes() {
        let (from, to) = (file(), file());
        to.write_all_at(&[7; 3 << 20], 0).unwrap();
        from.set_len(9 << 20).unwrap();
        from.write_all_at(b"middle", 1 << 20).unwrap();
        from.write_all_at(b"end", (8 << 20) + 5).unwrap();
        copy(&from, &to, None).unwrap();
        assert!(contents(&from) == contents(&to), "the copy differs");
        assert!(
            to.metadata().unwrap().blocks() * 512 < 4 << 20,
            "holes were filled"
        );
    }

    #[test]
    fn a_shorter_copy_cuts_the_rest() {
        let (from, to) = (file(), file());
        to.write_all_at(b"a long text", 0).unwrap();
        from.write_all_at(b"short", 0).unwrap();
        copy(&from, &to, None).unwrap();
        assert_eq!(contents(&to), b"short");
        from.set_len(0).unwrap();
        copy(&from, &to, None).unwrap();
        assert_eq!(contents(&to), b"");
    }
}
