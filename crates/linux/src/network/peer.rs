//! To which other socket a Unix socket is connected, found out through sock_diag.

use std::io;
use std::os::fd::BorrowedFd;

use super::owner::{NO_COOKIE, ask};

/// UDIAG_SHOW_PEER of sock_diag(7), and the attribute that answers it.
const SHOW_PEER: u32 = 4;
const PEER: u16 = 2;
/// `unix_diag_msg`: family, type, state, padding, inode, cookie.
const HEADER: usize = 16;

/// The inode of the Unix socket that one with this inode is connected to. `None` when either is gone, is not connected, or is
/// of another network namespace than `diagnostics`, and also when nobody has accepted the connection yet or the kernel cannot tell
/// (it lacks `unix_diag`).
///
/// # Errors
/// As `send` and `recv`.
pub fn peer(diagnostics: BorrowedFd<'_>, inode: u64) -> io::Result<Option<u64>> {
    let Ok(inode) = u32::try_from(inode) else {
        return Ok(None);
    };
    Ok(ask(diagnostics, &request(inode))?.and_then(|answer| parse(&answer, inode)))
}

/// `unix_diag_req`: family, protocol, padding, states, inode, what to show, cookie.
fn request(inode: u32) -> Vec<u8> {
    [
        &[libc::AF_UNIX as u8, 0, 0, 0][..],
        &[0xff; 4],
        &inode.to_ne_bytes(),
        &SHOW_PEER.to_ne_bytes(),
        &NO_COOKIE,
    ]
    .concat()
}

fn parse(answer: &[u8], inode: u32) -> Option<u64> {
    let number = |at: usize| Some(u32::from_ne_bytes(*answer.get(at..)?.first_chunk()?));
    if number(4)? != inode {
        return None;
    }
    let mut rest = answer.get(HEADER..)?;
    while let Some(&[length0, length1, kind0, kind1]) = rest.first_chunk() {
        let length = usize::from(u16::from_ne_bytes([length0, length1]));
        let value = rest.get(4..length)?;
        if u16::from_ne_bytes([kind0, kind1]) == PEER {
            let peer = u32::from_ne_bytes(*value.first_chunk()?);
            // One that is gone, or that nobody has accepted, has no inode.
            return (peer != 0).then_some(peer.into());
        }
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or(&[]);
    }
    None
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::os::unix::net::{UnixListener, UnixStream};

    use super::*;
    use crate::network::diagnostics;

    fn inode(file: impl AsFd) -> u64 {
        rustix::fs::fstat(file).expect("stat").st_ino
    }

    #[test]
    fn each_of_two_connected_sockets_has_the_other_for_its_peer() {
        let diagnostics = diagnostics().expect("a socket");
        let of = |inode| peer(diagnostics.as_fd(), inode).expect("look");
        let (one, other) = UnixStream::pair().expect("a pair");
        let (first, second) = (inode(&one), inode(&other));
        assert_eq!((of(first), of(second)), (Some(second), Some(first)));
        drop(other);
        assert_eq!((of(first), of(second)), (None, None));
        assert_eq!(of(u64::MAX), None);
        let (reader, _writer) = rustix::pipe::pipe().expect("a pipe");
        assert_eq!(of(inode(reader)), None);
    }

    #[test]
    fn a_connection_has_a_peer_once_it_is_accepted() {
        let diagnostics = diagnostics().expect("a socket");
        let of = |inode| peer(diagnostics.as_fd(), inode).expect("look");
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("socket");
        let listener = UnixListener::bind(&path).expect("listen");
        let client = UnixStream::connect(&path).expect("connect");
        assert_eq!((of(inode(&listener)), of(inode(&client))), (None, None));
        let (server, _) = listener.accept().expect("accept");
        assert_eq!(of(inode(&client)), Some(inode(&server)));
        assert_eq!(of(inode(&server)), Some(inode(&client)));
    }
}
