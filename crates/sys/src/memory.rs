//! The memory of another process, and what it shares with others.
//!
//! Who may trace a process may read and write its memory (ptrace(2), "Ptrace access mode checking").

use std::cmp::Ordering;
use std::io;
use std::ops::Range;
use std::os::fd::RawFd;

use rustix::process::Pid;

use crate::ptrace::call;

/// Bytes of a process' memory.
///
/// # Errors
/// `EFAULT` when not all of it is there and readable; `ESRCH`; `EPERM`.
pub fn read(process: Pid, address: u64, bytes: &mut [u8]) -> io::Result<()> {
    if bytes.is_empty() {
        return Ok(());
    }
    let local = vector(bytes.as_mut_ptr().cast(), bytes.len());
    let remote = vector(address as *mut libc::c_void, bytes.len());
    let pid = process.as_raw_nonzero().get();
    // SAFETY: the kernel writes into `bytes`, no further; the other address is another process'.
    let moved =
        unsafe { libc::process_vm_readv(pid, &raw const local, 1, &raw const remote, 1, 0) };
    whole(moved, bytes.len())
}

/// Overwrites bytes of a process' memory where it may write itself.
///
/// # Errors
/// As [`read`].
pub fn write(process: Pid, address: u64, bytes: &[u8]) -> io::Result<()> {
    if bytes.is_empty() {
        return Ok(());
    }
    let local = vector(bytes.as_ptr().cast_mut().cast(), bytes.len());
    let remote = vector(address as *mut libc::c_void, bytes.len());
    let pid = process.as_raw_nonzero().get();
    // SAFETY: the kernel only reads `bytes`; the other address is another process'.
    let moved =
        unsafe { libc::process_vm_writev(pid, &raw const local, 1, &raw const remote, 1, 0) };
    whole(moved, bytes.len())
}

/// How many ranges a call moves at most (`UIO_MAXIOV`).
pub const RANGES_MAX: usize = 1024;

/// The bytes of ranges of a process' memory, one range after the other; `bytes` is as long as all of them,
/// which are at most [`RANGES_MAX`].
///
/// # Errors
/// As [`read`]: some may have been read then.
pub fn read_ranges(process: Pid, ranges: &[Range<u64>], bytes: &mut [u8]) -> io::Result<()> {
    let local = vector(bytes.as_mut_ptr().cast(), bytes.len());
    let remote = vectors(ranges);
    let (pid, count) = (
        process.as_raw_nonzero().get(),
        remote.len() as libc::c_ulong,
    );
    // SAFETY: the kernel writes into `bytes`, no further; the other addresses are another process', of
    // which `remote` names `count`.
    let moved =
        unsafe { libc::process_vm_readv(pid, &raw const local, 1, remote.as_ptr(), count, 0) };
    whole(moved, bytes.len())
}

/// Overwrites ranges of a process' memory where it may write itself, as [`read_ranges`] reads them.
///
/// # Errors
/// As [`read`]: some may have been written then.
pub fn write_ranges(process: Pid, ranges: &[Range<u64>], bytes: &[u8]) -> io::Result<()> {
    let local = vector(bytes.as_ptr().cast_mut().cast(), bytes.len());
    let remote = vectors(ranges);
    let (pid, count) = (
        process.as_raw_nonzero().get(),
        remote.len() as libc::c_ulong,
    );
    // SAFETY: the kernel only reads `bytes`; the other addresses are another process', of which `remote`
    // names `count`.
    let moved =
        unsafe { libc::process_vm_writev(pid, &raw const local, 1, remote.as_ptr(), count, 0) };
    whole(moved, bytes.len())
}

fn vectors(ranges: &[Range<u64>]) -> Vec<libc::iovec> {
    let vectors = ranges.iter().map(|range| {
        let length = (range.end - range.start) as usize;
        vector(range.start as *mut libc::c_void, length)
    });
    vectors.collect()
}

fn vector(start: *mut libc::c_void, length: usize) -> libc::iovec {
    libc::iovec {
        iov_base: start,
        iov_len: length,
    }
}

fn whole(moved: isize, wanted: usize) -> io::Result<()> {
    match moved {
        -1 => Err(io::Error::last_os_error()),
        moved if moved as usize == wanted => Ok(()),
        // The rest begins at an address where there is nothing.
        _ => Err(io::Error::from_raw_os_error(libc::EFAULT)),
    }
}

/// Where a thread's list of robust futexes begins, and the size of its head, in bytes
/// (get_robust_list(2)).
///
/// # Errors
/// `ESRCH`; `EPERM`.
pub fn robust_list(thread: Pid) -> io::Result<(u64, u64)> {
    let (mut head, mut size) = (0_u64, 0_u64);
    // SAFETY: writes two words, which outlive the call.
    let result = unsafe {
        libc::syscall(
            libc::SYS_get_robust_list,
            thread.as_raw_nonzero().get(),
            &raw mut head,
            &raw mut size,
        )
    };
    match result {
        0 => Ok((head, size)),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Whether two processes have one memory: threads, or a child of vfork and its parent.
///
/// # Errors
/// `ESRCH`; `EPERM`; `ENOSYS` on a kernel without kcmp(2).
pub fn is_shared(one: Pid, other: Pid) -> io::Result<bool> {
    const KCMP_VM: libc::c_int = 1;
    compare(one, other, KCMP_VM, 0, 0).map(Ordering::is_eq)
}

/// Whether two descriptors of two processes are of one open file: they share its offset and flags.
///
/// # Errors
/// As [`is_shared`]; `EBADF`.
pub fn is_same_file(one: (Pid, RawFd), other: (Pid, RawFd)) -> io::Result<bool> {
    compare_files(one, other).map(Ordering::is_eq)
}

/// Compares the open files that two descriptors of two processes are of. Their order means nothing, but it is one, and stays the
/// same as long as the files are open: files can be sorted by it (kcmp(2)).
///
/// # Errors
/// As [`is_same_file`].
pub fn compare_files(one: (Pid, RawFd), other: (Pid, RawFd)) -> io::Result<Ordering> {
    const KCMP_FILE: libc::c_int = 0;
    compare(one.0, other.0, KCMP_FILE, one.1, other.1)
}

fn compare(
    one: Pid,
    other: Pid,
    what: libc::c_int,
    first: RawFd,
    second: RawFd,
) -> io::Result<Ordering> {
    // SAFETY: takes five numbers.
    let result = unsafe {
        libc::syscall(
            libc::SYS_kcmp,
            one.as_raw_nonzero().get(),
            other.as_raw_nonzero().get(),
            what,
            libc::c_long::from(first),
            libc::c_long::from(second),
        )
    };
    match result {
        0 => Ok(Ordering::Equal),
        1 => Ok(Ordering::Less),
        2 => Ok(Ordering::Greater),
        -1 => Err(io::Error::last_os_error()),
        // They differ, and the kernel has no order of such.
        _ => Err(io::ErrorKind::Unsupported.into()),
    }
}

/// Whether the kernel tells which memory barriers a process has registered for (membarrier(2)): since Linux 6.3.
pub fn are_barriers_told() -> bool {
    // SAFETY: takes numbers only, and changes nothing.
    let told = unsafe { libc::syscall(libc::SYS_membarrier, call::GET_REGISTRATIONS, 0, 0) };
    told >= 0
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU8;

    use super::*;

    fn range_of<T>(bytes: &[T]) -> Range<u64> {
        let start = bytes.as_ptr() as u64;
        start..start + bytes.len() as u64
    }

    #[test]
    fn scattered_ranges_are_moved_in_order() {
        let own = rustix::process::getpid();
        let from = *b"one, two, three";
        let ranges = [range_of(&from[10..]), range_of(&from[..3])];
        let mut read = [0; 8];
        read_ranges(own, &ranges, &mut read).expect("read");
        assert_eq!(&read, b"threeone");

        let to = [const { AtomicU8::new(0) }; 15];
        let ranges = [range_of(&to[10..]), range_of(&to[..3])];
        write_ranges(own, &ranges, &read).expect("write");
        let written = to.map(AtomicU8::into_inner);
        assert_eq!(&written, b"one\0\0\0\0\0\0\0three");
    }

    #[test]
    fn a_range_where_nothing_is_makes_it_an_error() {
        let own = rustix::process::getpid();
        let from = *b"one";
        let nowhere = 8..16;
        let failed = read_ranges(own, &[range_of(&from), nowhere], &mut [0; 11]);
        let error = failed.expect_err("there is nothing").raw_os_error();
        assert_eq!(error, Some(libc::EFAULT));
    }
}
