//! Requests to the kernel over netlink: several in one call, each acknowledged.
//!
//! The libraries for it do not say all that a gate needs: netlink-packet-route leaves out a setting of an interface
//! that is to be 0 (`rp_filter`), and netlink-packet-netfilter has no `tproxy` and no `reject`.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType};

use super::Step;

/// Size of the header that every message begins with.
const HEADER: usize = 16;

const REQUEST: u16 = libc::NLM_F_REQUEST as u16;
const ACKNOWLEDGE: u16 = libc::NLM_F_ACK as u16;

/// What a message that makes something asks for: that it be made, and be new.
pub(super) const NEW: u16 = (libc::NLM_F_CREATE | libc::NLM_F_EXCL) as u16;

/// Attributes: each a length, a kind and a value, padded to four bytes.
pub(super) struct Attributes(Vec<u8>);

impl Attributes {
    pub(super) fn new() -> Self {
        Self(Vec::new())
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    pub(super) fn bytes(&mut self, kind: u16, value: &[u8]) {
        let length = 4 + value.len();
        let short = u16::try_from(length).expect("an attribute is short");
        self.0.extend(short.to_ne_bytes());
        self.0.extend(kind.to_ne_bytes());
        self.0.extend(value);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
    }

    /// A number in this machine's byte order, as routing takes it.
    pub(super) fn number(&mut self, kind: u16, value: u32) {
        self.bytes(kind, &value.to_ne_bytes());
    }

    /// A number in network byte order, as netfilter takes it.
    pub(super) fn number_be(&mut self, kind: u16, value: u32) {
        self.bytes(kind, &value.to_be_bytes());
    }

    /// A name with its final zero.
    pub(super) fn name(&mut self, kind: u16, value: &str) {
        self.bytes(kind, &[value.as_bytes(), &[0]].concat());
    }

    pub(super) fn nested(&mut self, kind: u16, fill: impl FnOnce(&mut Self)) {
        let mut inner = Self::new();
        fill(&mut inner);
        self.bytes(kind | libc::NLA_F_NESTED as u16, inner.as_bytes());
    }
}

/// Messages for one call. Each says what it is for, so that an error can.
pub(super) struct Batch {
    bytes: Vec<u8>,
    /// A message's sequence number is its index here.
    steps: Vec<&'static str>,
    acknowledged: usize,
}

impl Batch {
    pub(super) fn new() -> Self {
        Self {
            bytes: Vec::new(),
            steps: Vec::new(),
            acknowledged: 0,
        }
    }

    /// A message that the kernel acknowledges: a header of its kind, then attributes.
    pub(super) fn request(
        &mut self,
        step: &'static str,
        (kind, flags): (u16, u16),
        header: &[u8],
        attributes: &Attributes,
    ) {
        self.acknowledged += 1;
        let flags = flags | ACKNOWLEDGE;
        self.push(step, (kind, flags), header, attributes);
    }

    /// A message that is answered only if it fails.
    pub(super) fn silent(&mut self, step: &'static str, kind: u16, header: &[u8]) {
        self.push(step, (kind, 0), header, &Attributes::new());
    }

    fn push(
        &mut self,
        step: &'static str,
        (kind, flags): (u16, u16),
        header: &[u8],
        attributes: &Attributes,
    ) {
        let length = (HEADER + header.len()).next_multiple_of(4) + attributes.as_bytes().len();
        let sequence = self.steps.len() as u32;
        self.steps.push(step);
        self.bytes.extend((length as u32).to_ne_bytes());
        self.bytes.extend(kind.to_ne_bytes());
        self.bytes.extend((flags | REQUEST).to_ne_bytes());
        self.bytes.extend(sequence.to_ne_bytes());
        self.bytes.extend(0_u32.to_ne_bytes());
        self.bytes.extend(header);
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
        self.bytes.extend(attributes.as_bytes());
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// A netlink socket. The kernel answers a request before the call that sends it returns, so no
/// call here waits.
pub(super) struct Socket(OwnedFd);

impl Socket {
    /// Without a protocol it is for routing, whose number is 0.
    pub(super) fn open(protocol: Option<Protocol>) -> io::Result<Self> {
        Ok(Self(rustix::net::socket_with(
            AddressFamily::NETLINK,
            SocketType::RAW,
            SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
            protocol,
        )?))
    }

    /// Sends all messages and takes all acknowledgements.
    ///
    /// # Errors
    /// The first one that the kernel reports, with the step that it is about. Whether other messages
    /// took effect depends on the protocol.
    pub(super) fn transact(&self, batch: &Batch) -> io::Result<()> {
        let about = |sequence: u32, error: io::Error| {
            let step = batch.steps.get(sequence as usize).copied();
            Step::failed(step.unwrap_or("ask the kernel"), error)
        };
        rustix::net::send(&self.0, &batch.bytes, SendFlags::empty())
            .map_err(|errno| about(u32::MAX, errno.into()))?;
        let mut buffer = [0; 8192];
        let mut wanted = batch.acknowledged;
        while wanted > 0 {
            let (received, _) = rustix::net::recv(&self.0, &mut buffer[..], RecvFlags::empty())
                .map_err(|errno| about(u32::MAX, errno.into()))?;
            for message in messages(&buffer[..received]) {
                match message.error() {
                    Some(0) => wanted = wanted.saturating_sub(1),
                    Some(errno) => {
                        let error = io::Error::from_raw_os_error(errno);
                        return Err(about(message.sequence, error));
                    }
                    None => {}
                }
            }
        }
        Ok(())
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl From<Socket> for OwnedFd {
    fn from(socket: Socket) -> Self {
        socket.0
    }
}

/// A message that the kernel sent.
pub(super) struct Message<'a> {
    pub(super) kind: u16,
    pub(super) sequence: u32,
    /// What follows the header.
    pub(super) payload: &'a [u8],
}

impl Message<'_> {
    /// The error number of an answer that has one; 0 is success.
    pub(super) fn error(&self) -> Option<i32> {
        let number = self.payload.first_chunk()?;
        (self.kind == libc::NLMSG_ERROR as u16).then(|| -i32::from_ne_bytes(*number))
    }
}

/// The messages of one datagram; what is cut off ends it.
pub(super) fn messages(mut datagram: &[u8]) -> impl Iterator<Item = Message<'_>> {
    std::iter::from_fn(move || {
        let length = u32::from_ne_bytes(*datagram.first_chunk()?) as usize;
        let message = datagram.get(..length)?;
        let payload = message.get(HEADER..)?;
        let [_, _, _, _, kind0, kind1, _, _, sequence @ ..] = *message.first_chunk::<12>()?;
        datagram = datagram.get(length.next_multiple_of(4)..).unwrap_or(&[]);
        Some(Message {
            kind: u16::from_ne_bytes([kind0, kind1]),
            sequence: u32::from_ne_bytes(sequence),
            payload,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_padded_and_nest() {
        let mut attributes = Attributes::new();
        attributes.name(3, "eth0");
        attributes.nested(7, |inner| inner.number_be(1, 0x0102_0304));
        let expected = [
            &9_u16.to_ne_bytes()[..],
            &3_u16.to_ne_bytes(),
            b"eth0\0\0\0\0",
            &12_u16.to_ne_bytes(),
            &0x8007_u16.to_ne_bytes(),
            &8_u16.to_ne_bytes(),
            &1_u16.to_ne_bytes(),
            &[1, 2, 3, 4],
        ];
        assert_eq!(attributes.as_bytes(), expected.concat());
    }

    #[test]
    fn what_was_written_is_read_back() {
        let mut batch = Batch::new();
        let mut attributes = Attributes::new();
        attributes.bytes(1, b"x");
        batch.request("one", (20, NEW), &[1, 2], &attributes);
        batch.silent("two", libc::NLMSG_ERROR as u16, &(-2_i32).to_ne_bytes());
        let read: Vec<_> = messages(batch.as_bytes()).collect();
        assert_eq!(read.len(), 2);
        assert_eq!((read[0].kind, read[0].sequence), (20, 0));
        assert_eq!(read[0].payload[..4], [1, 2, 0, 0]);
        assert_eq!(read[0].payload.len(), 12);
        assert_eq!(read[0].error(), None);
        assert_eq!((read[1].sequence, read[1].error()), (1, Some(2)));
    }

    #[test]
    fn a_cut_datagram_ends_at_its_last_whole_message() {
        let mut batch = Batch::new();
        batch.silent("one", 1, &[1, 2, 3, 4]);
        let whole = batch.as_bytes().len();
        batch.silent("two", 2, &[5, 6, 7, 8]);
        for end in 0..batch.as_bytes().len() {
            let count = messages(&batch.as_bytes()[..end]).count();
            assert_eq!(count, usize::from(end >= whole), "cut at {end}");
        }
    }

    #[test]
    fn a_length_below_the_header_is_no_message() {
        assert_eq!(messages(&[0; 64]).count(), 0);
        let mut short = [0; 64];
        short[0] = 4;
        assert_eq!(messages(&short).count(), 0);
    }
}
