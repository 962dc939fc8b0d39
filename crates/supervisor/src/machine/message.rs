//! The header of a message (recvmsg(2)), in a process' memory.

use std::io;

use rustix::process::Pid;
use surmise_sys::memory;

use super::task;

/// MSG_DONTWAIT, MSG_NOSIGNAL and MSG_CMSG_CLOEXEC of recv(2) and send(2): what there is, they give and take as without.
pub(super) const PLAIN: u32 = DONT_WAIT | 0x4000 | 0x4000_0000;
/// MSG_DONTWAIT.
pub(super) const DONT_WAIT: u32 = 0x40;
/// Pieces of one call: the C library has two for its files.
const PIECES_MAX: u64 = 16;

/// Where `struct msghdr` has its fields: name, pieces and how many, control and its length, flags.
const NAME: u64 = 0;
const PIECES: u64 = 16;
const PIECES_NUMBER: u64 = 24;
const CONTROL: u64 = 32;
const CONTROL_LENGTH: u64 = 40;
const FLAGS: u64 = 48;

/// What a message is made of.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Message {
    /// The address and length of each piece.
    pub(super) pieces: Vec<(u64, u64)>,
    /// Whether it has an address.
    pub(super) has_name: bool,
    /// Whether it has room for more than bytes.
    pub(super) has_control: bool,
}

/// Whether a header has room for more than bytes.
pub(super) fn has_control(process: Pid, header: u64) -> io::Result<bool> {
    let field = |at: u64| task::word(process, header.wrapping_add(at));
    Ok(field(CONTROL)? != 0 && field(CONTROL_LENGTH)? != 0)
}

/// What a header says; `None` where that is too much.
pub(super) fn read(process: Pid, header: u64) -> io::Result<Option<Message>> {
    let field = |at: u64| task::word(process, header.wrapping_add(at));
    let (first, number) = (field(PIECES)?, field(PIECES_NUMBER)?);
    let pieces = pieces(process, first, number)?;
    let message = |pieces| -> io::Result<Message> {
        Ok(Message {
            pieces,
            has_name: field(NAME)? != 0,
            has_control: has_control(process, header)?,
        })
    };
    pieces.map(message).transpose()
}

/// The addresses and lengths that `struct iovec`s name (readv(2)); `None` where they are many.
pub(super) fn pieces(process: Pid, first: u64, number: u64) -> io::Result<Option<Vec<(u64, u64)>>> {
    if number > PIECES_MAX {
        return Ok(None);
    }
    let addresses = (0..number).map(|index| first.wrapping_add(16 * index));
    let pair = |at: u64| -> io::Result<(u64, u64)> {
        let length = task::word(process, at.wrapping_add(8))?;
        Ok((task::word(process, at)?, length))
    };
    addresses
        .map(pair)
        .collect::<io::Result<Vec<_>>>()
        .map(Some)
}

/// Tells by a header that nothing but bytes has come: no flag, and no control message.
pub(super) fn tell(process: Pid, header: u64) -> io::Result<()> {
    // What a call is told by that is made after all comes last.
    memory::write(process, header.wrapping_add(FLAGS), &0_u32.to_ne_bytes())?;
    let length = header.wrapping_add(CONTROL_LENGTH);
    memory::write(process, length, &0_u64.to_ne_bytes())
}

#[cfg(test)]
mod tests {
    use std::ptr::{from_mut, from_ref};

    use super::*;

    #[test]
    fn a_header_says_what_a_message_is_made_of() {
        let own = rustix::process::getpid();
        let (mut one, mut other, mut control) = ([0_u8; 3], [0_u8; 5], [0_u8; 64]);
        let pieces = [one.as_mut_ptr(), other.as_mut_ptr()].map(|piece| piece as u64);
        let pairs = [[pieces[0], 3], [pieces[1], 5]];
        let mut header = [0_u64, 0, from_ref(&pairs) as u64, 2, 0, 0, u64::MAX];
        let read = |header: &mut [u64; 7]| read(own, from_mut(header) as u64).expect("read");
        let wanted = Message {
            pieces: vec![(pieces[0], 3), (pieces[1], 5)],
            has_name: false,
            has_control: false,
        };
        assert_eq!(read(&mut header).as_ref(), Some(&wanted));
        header[0] = pieces[0];
        (header[4], header[5]) = (control.as_mut_ptr() as u64, 64);
        let full = Message {
            has_name: true,
            has_control: true,
            ..wanted
        };
        assert_eq!(read(&mut header).as_ref(), Some(&full));
        tell(own, from_mut(&mut header) as u64).expect("tell");
        assert_eq!((header[5], header[6]), (0, u64::MAX << 32));
        header[3] = PIECES_MAX + 1;
        assert_eq!(read(&mut header), None);
        assert!(super::read(own, 8).is_err(), "there is nothing");
    }
}
