//! Extended attributes of real files.

use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::symlink;

use rustix::fs::XattrFlags;
use rustix::io::Errno;
use surmise_sys::extended::names_bytes_at;
use surmise_testkit::skip;

#[test]
fn names_are_counted_and_links_not_followed() {
    let scratch = tempfile::tempdir().expect("a directory");
    let directory = File::open(scratch.path()).expect("the directory");
    let file = scratch.path().join("file");
    File::create(&file).expect("a file");
    symlink("file", scratch.path().join("link")).expect("a link");
    let count = |name: &str| names_bytes_at(directory.as_fd(), name.as_bytes());
    match count("file") {
        Err(error) if error.raw_os_error() == Some(Errno::NOSYS.raw_os_error()) => {
            return skip("no listxattrat before Linux 6.13");
        }
        bytes => assert_eq!(bytes.expect("a number"), 0),
    }
    match rustix::fs::setxattr(&file, "user.a", b"1", XattrFlags::empty()) {
        Err(Errno::OPNOTSUPP) => skip("no extended attributes here"),
        set => {
            set.expect("an attribute");
            assert_eq!(count("file").expect("a number"), "user.a\0".len());
        }
    }
    assert_eq!(count("link").expect("a number"), 0);
    let missing = count("missing").expect_err("no file");
    assert_eq!(missing.raw_os_error(), Some(Errno::NOENT.raw_os_error()));
}
