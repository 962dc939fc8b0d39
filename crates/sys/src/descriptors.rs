//! Descriptors by number: closed by range, compared, and passed to the next program.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

use rustix::io::{Errno, FdFlags};

/// The first descriptor after standard input, output and error.
const FIRST: u32 = 3;

/// Closes every descriptor from 3 up that is not in `keep`.
///
/// Only for a process just copied, which never returns into frames that own a closed one.
pub(crate) fn close_all_but(keep: &[BorrowedFd<'_>]) {
    let mut kept: Vec<u32> = keep.iter().map(|fd| fd.as_raw_fd() as u32).collect();
    kept.sort_unstable();
    let mut from = FIRST;
    for fd in kept.into_iter().filter(|&fd| fd >= FIRST) {
        if from < fd {
            // Fails only for a bad range or flag.
            let _ = close_range(from, fd - 1, 0);
        }
        from = fd + 1;
    }
    let _ = close_range(from, u32::MAX, 0);
}

/// Closes every descriptor from 3 up that came through an exec.
///
/// Only for a process just copied, which uses none of them: see [`inherited`].
pub(crate) fn close_inherited() {
    // Without a /proc they stay open, and only somebody who waits for their end notices.
    let Ok(entries) = std::fs::read_dir("/proc/self/fd") else {
        return;
    };
    let numbers = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let numbers: Vec<u32> = numbers.filter(|&number| number >= FIRST).collect();
    for number in numbers {
        if inherited(number as RawFd).is_ok() {
            // Fails only for a bad range or flag.
            let _ = close_range(number, number, 0);
        }
    }
}

/// Marks every descriptor from 3 up to be closed by the next exec, so that the new program
/// gets standard input, output and error and nothing that this process inherited or opened.
///
/// # Errors
/// As `close_range`; `ENOSYS` before Linux 5.9, `EINVAL` before 5.11.
pub fn close_on_exec() -> io::Result<()> {
    close_range(FIRST, u32::MAX, libc::CLOSE_RANGE_CLOEXEC)
}

/// Whether two descriptors are of one open file description, which has one offset and one set of
/// flags.
///
/// # Errors
/// As `kcmp`: `ENOSYS` in a kernel without it, `EPERM` where a filter refuses it.
pub fn same_description(one: BorrowedFd<'_>, two: BorrowedFd<'_>) -> io::Result<bool> {
    const KCMP_FILE: libc::c_int = 0;
    let own = std::process::id();
    let (one, two) = (one.as_raw_fd(), two.as_raw_fd());
    // SAFETY: takes five integers and touches no memory of this process.
    match unsafe { libc::syscall(libc::SYS_kcmp, own, own, KCMP_FILE, one, two) } {
        -1 => Err(io::Error::last_os_error()),
        order => Ok(order == 0),
    }
}

/// The descriptor with this number that the program was started with.
///
/// # Errors
/// `EBADF` where there is none. What this process opened itself is none: it is closed by an exec, and
/// what came through one is not.
pub fn inherited(number: RawFd) -> io::Result<BorrowedFd<'static>> {
    if number < 0 {
        return Err(Errno::BADF.into());
    }
    // SAFETY: whether it is open is asked next, and the flag that tells it from what this program
    // opened: an inherited descriptor has no owner here who could close it.
    let fd = unsafe { BorrowedFd::borrow_raw(number) };
    if rustix::io::fcntl_getfd(fd)?.contains(FdFlags::CLOEXEC) {
        return Err(Errno::BADF.into());
    }
    Ok(fd)
}

/// Makes `place` the same as `fd`, for the next program to have under that number. What it was before
/// is closed.
///
/// # Errors
/// As `dup2`.
pub fn put(fd: BorrowedFd<'_>, place: BorrowedFd<'static>) -> io::Result<()> {
    // SAFETY: takes two integers. A descriptor borrowed for ever has no owner who counts on what it
    // is.
    match unsafe { libc::dup2(fd.as_raw_fd(), place.as_raw_fd()) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

fn close_range(first: u32, last: u32, flags: libc::c_uint) -> io::Result<()> {
    // SAFETY: takes three integers and touches no memory. What closing does to owners is
    // argued by the callers above.
    match unsafe { libc::syscall(libc::SYS_close_range, first, last, flags) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Whether anybody has the inode of `file` open for writing, or mapped so. `file` is open for reading only.
///
/// # Errors
/// As fcntl(2) for `F_SETLEASE`: `EACCES` for who neither owns the file nor may lease it, `EINVAL` where
/// the file system knows no leases.
pub fn has_writers(file: impl AsFd) -> io::Result<bool> {
    is_leased(file.as_fd(), libc::F_RDLCK).map(|leased| !leased)
}

/// Whether anybody has the inode of `file` open or mapped, but for `file` itself, which is open for reading only.
///
/// # Errors
/// As [`has_writers`].
pub fn has_others(file: impl AsFd) -> io::Result<bool> {
    is_leased(file.as_fd(), libc::F_WRLCK).map(|leased| !leased)
}

/// As in `asm-generic/fcntl.h`; libc does not have it.
const F_SETSIG: libc::c_int = 10;

/// Whether a file can be leased, which it is for this moment only.
fn is_leased(file: BorrowedFd<'_>, kind: libc::c_int) -> io::Result<bool> {
    let fd = file.as_raw_fd();
    // An open of the file at this moment breaks the lease, and the kernel signals its holder. SIGIO would end this process;
    // SIGURG is ignored.
    // SAFETY: sets a property of a descriptor that outlives the call; no memory is passed.
    unsafe { libc::fcntl(fd, F_SETSIG, libc::SIGURG) };
    // SAFETY: a lease is set and dropped on a descriptor that outlives both calls; no memory is passed.
    if unsafe { libc::fcntl(fd, libc::F_SETLEASE, kind) } == 0 {
        // SAFETY: as above.
        unsafe { libc::fcntl(fd, libc::F_SETLEASE, libc::F_UNLCK) };
        return Ok(true);
    }
    match io::Error::last_os_error() {
        error if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
        error => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn a_copy_has_the_same_description_and_another_open_has_not() {
        let one = File::open("/dev/null").expect("open");
        let copy = one.try_clone().expect("duplicate");
        let other = File::open("/dev/null").expect("open");
        let same = |two: &File| same_description(one.as_fd(), two.as_fd()).expect("compare");
        assert!(same(&copy));
        assert!(!same(&other));
    }

    #[test]
    fn a_writer_is_known_as_long_as_it_has_the_file_open() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("file");
        let writer = File::create(&path).expect("create");
        let reader = File::open(&path).expect("open");
        assert!(has_writers(&reader).expect("ask"));
        assert!(has_others(&reader).expect("ask"));
        drop(writer);
        assert!(!has_writers(&reader).expect("ask"));
        assert!(!has_others(&reader).expect("ask"));
        let other = File::open(&path).expect("open");
        assert!(!has_writers(&reader).expect("ask"));
        assert!(has_others(&reader).expect("ask"));
        drop(other);
        File::options()
            .write(true)
            .open(&path)
            .expect("the lease is gone");
    }

    #[test]
    fn what_this_program_opened_is_not_inherited() {
        let file = File::open("/dev/null").expect("open");
        assert!(inherited(file.as_raw_fd()).is_err());
        assert!(inherited(-1).is_err());
        assert!(inherited(2).is_ok());
    }
}
