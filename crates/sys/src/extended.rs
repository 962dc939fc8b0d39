//! Extended attributes of what a name leads to.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::io::Errno;

/// `listxattrat` of asm-generic/unistd.h, the same number on all architectures.
const LISTXATTRAT: libc::c_long = 465;

/// How many bytes the names of the extended attributes have, each with its NUL, of what `name` leads to in `directory`. A
/// symbolic link is not followed.
///
/// # Errors
/// As listxattr(2); `ENOSYS` before Linux 6.13.
pub fn names_bytes_at(directory: BorrowedFd<'_>, name: &[u8]) -> io::Result<usize> {
    let name = CString::new(name).map_err(|_| Errno::INVAL)?;
    let list = std::ptr::null_mut::<libc::c_char>();
    // SAFETY: the name ends with a NUL and lives until the call returns; to a list of no bytes nothing is written.
    let bytes = unsafe {
        libc::syscall(
            LISTXATTRAT,
            directory.as_raw_fd(),
            name.as_ptr(),
            libc::AT_SYMLINK_NOFOLLOW,
            list,
            0_usize,
        )
    };
    usize::try_from(bytes).map_err(|_| io::Error::last_os_error())
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsFd;
    use std::os::unix::fs::symlink;

    use rustix::fs::XattrFlags;

    use super::*;

    #[test]
    fn names_are_counted_and_links_not_followed() {
        let scratch = tempfile::tempdir().expect("a directory");
        let directory = File::open(scratch.path()).expect("the directory");
        let file = scratch.path().join("file");
        File::create(&file).expect("a file");
        symlink("file", scratch.path().join("link")).expect("a link");
        let count = |name: &str| names_bytes_at(directory.as_fd(), name.as_bytes());
        match count("file") {
            Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => {
                println!("skipped: before Linux 6.13");
                return;
            }
            bytes => assert_eq!(bytes.expect("a number"), 0),
        }
        match rustix::fs::setxattr(&file, "user.a", b"1", XattrFlags::empty()) {
            Err(Errno::OPNOTSUPP) => println!("skipped: no extended attributes here"),
            set => {
                set.expect("an attribute");
                assert_eq!(count("file").expect("a number"), "user.a\0".len());
            }
        }
        assert_eq!(count("link").expect("a number"), 0);
        let missing = count("missing").expect_err("no file");
        assert_eq!(missing.raw_os_error(), Some(libc::ENOENT));
    }
}
