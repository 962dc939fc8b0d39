//! Which Unix sockets of a network namespace have a name (`net/unix`, proc_pid_net(5)).

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::Entry;

/// The flag of a Unix socket that takes connections (`__SO_ACCEPTCON`).
const TAKES_CONNECTIONS: &str = "00010000";
/// The type of a Unix socket for datagrams.
const DATAGRAMS: &str = "0002";

/// A Unix socket with a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnixSocket {
    /// An abstract one begins with `@`, and so do its other zero bytes.
    pub name: Vec<u8>,
    /// Whether it takes connections or datagrams, and is not one end of a connection.
    pub is_server: bool,
}

impl UnixSocket {
    /// Its name in a file system, if it has none of the other kind.
    pub fn path(&self) -> Option<&Path> {
        let is_path = !self.name.starts_with(b"@");
        is_path.then(|| Path::new(OsStr::from_bytes(&self.name)))
    }
}

/// Those of the network namespace that a process or thread is in.
///
/// # Errors
/// As for reading /proc.
pub fn unix_sockets(entry: impl Into<Entry>) -> io::Result<Vec<UnixSocket>> {
    let list = entry.into().read("net/unix")?;
    let lines = list.split(|byte| *byte == b'\n').skip(1);
    Ok(lines.filter_map(parse).collect())
}

fn parse(line: &[u8]) -> Option<UnixSocket> {
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
    let name = rest[1..].to_vec();
    (!name.is_empty()).then_some(UnixSocket {
        name,
        is_server: flags == TAKES_CONNECTIONS || kind == DATAGRAMS,
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn servers_have_names_and_their_clients_have_none() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("a socket");
        let _server = UnixListener::bind(&path).expect("listen");
        let name = path.as_os_str().as_bytes().to_vec();
        let sockets = unix_sockets(Entry::own()).expect("list");
        let found: Vec<_> = sockets
            .iter()
            .filter(|socket| socket.name == name)
            .collect();
        let is_server = true;
        assert_eq!(found, [&UnixSocket { name, is_server }]);
        let line = "0000000000000000: 00000003 00000000 00000000 0001 03 12345";
        assert_eq!(parse(line.as_bytes()), None);
        let line = format!("{line} /run/a");
        let end = parse(line.as_bytes()).expect("a connection's other end");
        assert_eq!(end.path(), Some(Path::new("/run/a")));
        let padded = "0000000000000000: 00000002 00000000 00000000 0002 01   345 @name";
        assert_eq!(parse(padded.as_bytes()).expect("abstract").path(), None);
        assert_eq!((&end.name[..], end.is_server), (&b"/run/a"[..], false));
    }
}
