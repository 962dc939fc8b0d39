//! What one frame of the outbox says.
//!
//! # Format, tag `OUTBOX`, version 2
//!
//! The file `outbox` in the domain's state directory, a log of `surmise-journal`, made with the first
//! hold. A frame is a tag byte and its fields. Integers are little-endian; `bytes` is a `u32` length
//! and that many bytes; `optional` is a byte 0, or a byte 1 and the value; a `hold` is a `u64`.
//!
//! | tag | frame | fields |
//! |---|---|---|
//! | 1 | [`Record::Opened`] | hold, target, sender optional (pid i32, name bytes) |
//! | 2 | [`Record::Data`] | hold, bytes (at most 65,536) |
//! | 3 | [`Record::Finished`] | hold, end u8: 1 closed, 2 reset |
//! | 4 | [`Record::Dropped`] | hold |
//! | 5 | [`Record::Sending`] | hold |
//! | 6 | [`Record::Sent`] | hold, upto u64, error number i32, 0 for none |
//! | 7 | [`Record::Left`] | hold, upto u64 |
//! | 8 | [`Record::Again`] | hold, from u64 |
//!
//! Target: a byte 1 (TCP: host, port u16), 2 (UDP: host, port u16), 3 (standard output), 4 (standard
//! error) or 5 (terminal). Host: a byte 4 and four bytes, 6 and sixteen bytes, or 0 and a name
//! (`bytes`, UTF-8).
//!
//! Holds ascend in frames 1. Every other frame names a hold that a frame 1 made. No data follows the
//! end, and only frames 3 follow frame 4. Frame 5 is durable before the first byte leaves; `upto` in
//! frame 6 counts from the first byte of the hold. Data behind `upto`, or in frames after frame 6,
//! has not left, and is pending again when the error is 0. A frame 5 without its frame 6 was
//! interrupted: what is before `upto` of the last frame 7 has left, and some, none or all of the rest. It is
//! not sent again unless frame 8 says so, which also may follow a frame 6 with an error: the data from `from`
//! on are pending.

use std::borrow::Cow;
use std::net::IpAddr;

use surmise_journal::Format;

use crate::{End, HoldId, Host, PIECE_MAX, Sender, Target};

pub(crate) const FORMAT: Format = Format {
    tag: "OUTBOX",
    version: 2,
};

/// Bytes of a data frame's payload before the data: tag, hold and length.
pub(crate) const DATA_OFFSET: u64 = 1 + 8 + 4;

/// The payload is no record of this version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Malformed;

/// One fact of the outbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Record<'a> {
    /// A channel is held from here on.
    Opened {
        hold: HoldId,
        target: Target,
        sender: Option<Sender>,
    },
    /// The program sent these bytes, for UDP as one datagram.
    Data { hold: HoldId, bytes: Cow<'a, [u8]> },
    /// The program sends no more.
    Finished { hold: HoldId, end: End },
    /// What is pending will never be sent.
    Dropped { hold: HoldId },
    /// From here on, bytes of the hold may have left.
    Sending { hold: HoldId },
    /// The hold's bytes before `upto` have left; with an error number, no others will.
    Sent { hold: HoldId, upto: u64, errno: i32 },
    /// Of a hold that is being sent, the bytes before `upto` have left so far.
    Left { hold: HoldId, upto: u64 },
    /// Of a hold that was not sent as a whole, the bytes from `from` on are to be sent.
    Again { hold: HoldId, from: u64 },
}

impl Record<'_> {
    pub(crate) fn hold(&self) -> HoldId {
        match self {
            Self::Opened { hold, .. }
            | Self::Data { hold, .. }
            | Self::Finished { hold, .. }
            | Self::Dropped { hold }
            | Self::Sending { hold }
            | Self::Sent { hold, .. }
            | Self::Left { hold, .. }
            | Self::Again { hold, .. } => *hold,
        }
    }

    /// Puts the payload of this record's frame into `payload`, replacing what it holds.
    pub(crate) fn encode(&self, payload: &mut Vec<u8>) {
        payload.clear();
        let tag = match self {
            Self::Opened { .. } => 1,
            Self::Data { .. } => 2,
            Self::Finished { .. } => 3,
            Self::Dropped { .. } => 4,
            Self::Sending { .. } => 5,
            Self::Sent { .. } => 6,
            Self::Left { .. } => 7,
            Self::Again { .. } => 8,
        };
        payload.push(tag);
        payload.extend(self.hold().0.to_le_bytes());
        match self {
            Self::Opened { target, sender, .. } => {
                encode_target(payload, target);
                payload.push(sender.is_some().into());
                if let Some(sender) = sender {
                    payload.extend(sender.pid.to_le_bytes());
                    encode_bytes(payload, sender.name.as_bytes());
                }
            }
            Self::Data { bytes, .. } => encode_bytes(payload, bytes),
            Self::Finished { end, .. } => payload.push(match end {
                End::Closed => 1,
                End::Reset => 2,
            }),
            Self::Dropped { .. } | Self::Sending { .. } => {}
            Self::Sent { upto, errno, .. } => {
                payload.extend(upto.to_le_bytes());
                payload.extend(errno.to_le_bytes());
            }
            Self::Left { upto: offset, .. } | Self::Again { from: offset, .. } => {
                payload.extend(offset.to_le_bytes());
            }
        }
    }
}

impl<'a> Record<'a> {
    /// The record in a frame's payload.
    pub(crate) fn decode(payload: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader { rest: payload };
        let tag = reader.u8()?;
        let hold = HoldId(u64::from_le_bytes(reader.array()?));
        let record = match tag {
            1 => Self::Opened {
                hold,
                target: reader.target()?,
                sender: reader.sender()?,
            },
            2 => Self::Data {
                hold,
                bytes: Cow::Borrowed(reader.bytes()?),
            },
            3 => Self::Finished {
                hold,
                end: match reader.u8()? {
                    1 => End::Closed,
                    2 => End::Reset,
                    _ => return Err(Malformed),
                },
            },
            4 => Self::Dropped { hold },
            5 => Self::Sending { hold },
            6 => Self::Sent {
                hold,
                upto: u64::from_le_bytes(reader.array()?),
                errno: i32::from_le_bytes(reader.array()?),
            },
            7 => Self::Left {
                hold,
                upto: u64::from_le_bytes(reader.array()?),
            },
            8 => Self::Again {
                hold,
                from: u64::from_le_bytes(reader.array()?),
            },
            _ => return Err(Malformed),
        };
        let is_whole = reader.rest.is_empty();
        let fits = !matches!(&record, Self::Data { bytes, .. } if bytes.len() > PIECE_MAX);
        (is_whole && fits).then_some(record).ok_or(Malformed)
    }
}

fn encode_target(payload: &mut Vec<u8>, target: &Target) {
    match target {
        Target::Tcp(host, port) => encode_peer(payload, 1, host, *port),
        Target::Udp(host, port) => encode_peer(payload, 2, host, *port),
        Target::Output => payload.push(3),
        Target::Error => payload.push(4),
        Target::Terminal => payload.push(5),
    }
}

fn encode_peer(payload: &mut Vec<u8>, tag: u8, host: &Host, port: u16) {
    payload.push(tag);
    match host {
        Host::Address(IpAddr::V4(address)) => {
            payload.push(4);
            payload.extend(address.octets());
        }
        Host::Address(IpAddr::V6(address)) => {
            payload.push(6);
            payload.extend(address.octets());
        }
        Host::Name(name) => {
            payload.push(0);
            encode_bytes(payload, name.as_bytes());
        }
    }
    payload.extend(port.to_le_bytes());
}

fn encode_bytes(payload: &mut Vec<u8>, bytes: &[u8]) {
    let length = u32::try_from(bytes.len()).expect("names and pieces are short");
    payload.extend(length.to_le_bytes());
    payload.extend(bytes);
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn u8(&mut self) -> Result<u8, Malformed> {
        self.array().map(|[byte]| byte)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (array, rest) = self.rest.split_first_chunk().ok_or(Malformed)?;
        self.rest = rest;
        Ok(*array)
    }

    fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let length = u32::from_le_bytes(self.array()?) as usize;
        let (bytes, rest) = self.rest.split_at_checked(length).ok_or(Malformed)?;
        self.rest = rest;
        Ok(bytes)
    }

    fn text(&mut self) -> Result<String, Malformed> {
        String::from_utf8(self.bytes()?.to_vec()).map_err(|_| Malformed)
    }

    fn target(&mut self) -> Result<Target, Malformed> {
        Ok(match self.u8()? {
            1 => {
                let (host, port) = self.peer()?;
                Target::Tcp(host, port)
            }
            2 => {
                let (host, port) = self.peer()?;
                Target::Udp(host, port)
            }
            3 => Target::Output,
            4 => Target::Error,
            5 => Target::Terminal,
            _ => return Err(Malformed),
        })
    }

    fn peer(&mut self) -> Result<(Host, u16), Malformed> {
        let host = match self.u8()? {
            0 => Host::Name(self.text()?),
            4 => Host::Address(self.array::<4>()?.into()),
            6 => Host::Address(self.array::<16>()?.into()),
            _ => return Err(Malformed),
        };
        Ok((host, u16::from_le_bytes(self.array()?)))
    }

    fn sender(&mut self) -> Result<Option<Sender>, Malformed> {
        match self.u8()? {
            0 => Ok(None),
            1 => Ok(Some(Sender {
                pid: i32::from_le_bytes(self.array()?),
                name: self.text()?,
            })),
            _ => Err(Malformed),
        }
    }
}
