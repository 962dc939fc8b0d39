//! Which Unix sockets of a network namespace have a name, as /proc/PID/net lists them.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The flag of a Unix socket that takes connections (`__SO_ACCEPTCON`).
const TAKES_CONNECTIONS: &str = "00010000";
/// The type of a Unix socket for datagrams.
const DATAGRAMS: &str = "0002";

/// The names of Unix sockets, in the network namespace of `task`, that take connections or datagrams; an
/// abstract one begins with `@`, and so do its other zero bytes. None where they cannot be read.
pub(crate) fn unix_names(task: &Path) -> Vec<Vec<u8>> {
    let list = fs::read(task.join("net/unix")).unwrap_or_default();
    let lines = list.split(|byte| *byte == b'\n').skip(1);
    lines.filter_map(unix_name).map(<[u8]>::to_vec).collect()
}

fn unix_name(line: &[u8]) -> Option<&[u8]> {
    /// Address, references, protocol, flags, type, state, inode.
    const BEFORE: usize = 7;
    let mut words = [""; BEFORE];
    let mut rest = line;
    for word in &mut words {
        rest = rest.trim_ascii_start();
        let end = rest.iter().position(|byte| *byte == b' ')?;
        *word = std::str::from_utf8(&rest[..end]).ok()?;
        rest = &rest[end..];
    }
    let [.., flags, kind, _state, _inode] = words;
    let name = &rest[1..];
    let is_server = flags == TAKES_CONNECTIONS || kind == DATAGRAMS;
    (is_server && !name.is_empty()).then_some(name)
}

/// The last part of a path that is a socket's name.
pub(crate) fn file_name(name: &[u8]) -> Option<&OsStr> {
    (!name.starts_with(b"@"))
        .then(|| Path::new(OsStr::from_bytes(name)).file_name())
        .flatten()
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    const OWN: &str = "/proc/thread-self";

    #[test]
    fn servers_with_names_are_found_and_their_clients_are_not() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("a socket");
        let _server = UnixListener::bind(&path).expect("listen");
        let names = unix_names(Path::new(OWN));
        let found = |name: &Vec<u8>| name == path.as_os_str().as_bytes();
        assert_eq!(names.iter().filter(|name| found(name)).count(), 1);
        assert_eq!(
            file_name(path.as_os_str().as_bytes()),
            Some(OsStr::new("a socket"))
        );
        assert_eq!(file_name(b"@/tmp/x"), None);
        let line = "0000000000000000: 00000003 00000000 00000000 0001 03 12345 /run/a";
        assert_eq!(unix_name(line.as_bytes()), None, "a connection's other end");
    }
}
