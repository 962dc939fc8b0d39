//! The bytes of the protocol between a speculative caller and an aware server.
//!
//! | where | what |
//! |---|---|
//! | request metadata | `surmise: 1`, or `spec` if a commit has to follow; `surmise-depth`, `surmise-budget`; `surmise-size` |
//! | request stream | the request; of a speculative caller marked, and followed by the commit, an empty message |
//! | reply metadata | `surmise: 1`, from an aware server to a caller that said so |
//! | reply stream | frames, in that case; otherwise one reply, as of any unary method |
//! | trailing metadata | `surmise: 1`, with an error: what the handler came to, when all that was committed was heard |
//! | | `surmise: again`, with an error: undecided for too long, undone, to be sent again |
//!
//! What is marked begins with the byte 7, as no protobuf message does, since that would be of wire type 7. So a
//! server that knows nothing of speculation cannot run what it would not know to undo, and a frame is never taken
//! for a reply, nor a reply for a frame, should the metadata get lost that tell them apart.
//!
//! A frame is marked, and a protobuf message: one of `prediction` (bytes, 1), `actual` (bytes, 2) and `actual_is`
//! (uint32, 3), with `confidence` (float, 4) and `stamp` (5: `clock`, fixed64, 1; `at`, uint64, 2).
//!
//! `surmise-size` is the largest frame that the caller takes, in bytes; 4 MiB, if it does not say so. Predictions that
//! would need a larger one are not sent.

use prost::Message;
use prost::bytes::{Buf, BufMut, Bytes};
use surmise_rpc::{Frame, Stamp};
use tonic::Status;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};

pub const SURMISE: &str = "surmise";
/// The value of `surmise` beside the status of a call that was undecided for too long.
pub const AGAIN: &str = "again";
pub const DEPTH: &str = "surmise-depth";
pub const BUDGET: &str = "surmise-budget";
pub const SIZE: &str = "surmise-size";

/// The largest message that clients of gRPC take, where nobody says otherwise, in bytes.
pub const SIZE_MAX_USUAL: usize = 4 << 20;

/// By how much a frame is at most larger than what it carries, in bytes: the mark, a tag and a length of a field, and
/// a confidence or a stamp.
pub const FRAME_ADDS_MAX: usize = 32;

const MARK: u8 = 7;

/// Messages as they are on the wire, so that one stream carries requests and commits, or frames.
#[derive(Clone, Copy, Debug, Default)]
pub struct Raw;

impl Codec for Raw {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, message: Bytes, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put(message);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(buffer.copy_to_bytes(buffer.remaining())))
    }
}

#[derive(Clone, PartialEq, prost::Message)]
struct WireFrame {
    #[prost(oneof = "Kind", tags = "1, 2, 3")]
    kind: Option<Kind>,
    #[prost(float, tag = "4")]
    confidence: f32,
    #[prost(message, optional, tag = "5")]
    stamp: Option<WireStamp>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum Kind {
    #[prost(bytes = "bytes", tag = "1")]
    Prediction(Bytes),
    #[prost(bytes = "bytes", tag = "2")]
    Actual(Bytes),
    #[prost(uint32, tag = "3")]
    ActualIs(u32),
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
struct WireStamp {
    #[prost(fixed64, tag = "1")]
    clock: u64,
    #[prost(uint64, tag = "2")]
    at: u64,
}

pub fn encode(frame: Frame<Bytes>) -> Bytes {
    let wire = |stamp: Option<Stamp>| {
        stamp.map(|stamp| WireStamp {
            clock: stamp.clock,
            at: stamp.at,
        })
    };
    let (kind, confidence, stamp) = match frame {
        Frame::Prediction { value, confidence } => (Kind::Prediction(value), confidence, None),
        Frame::Actual(value, stamp) => (Kind::Actual(value), 0.0, wire(stamp)),
        Frame::ActualIs(index, stamp) => (Kind::ActualIs(index), 0.0, wire(stamp)),
    };
    let frame = WireFrame {
        kind: Some(kind),
        confidence,
        stamp,
    };
    marked(&frame.encode_to_vec())
}

/// What no protobuf message is.
pub fn marked(message: &[u8]) -> Bytes {
    [&[MARK], message].concat().into()
}

/// What was marked; None, if it was not.
pub fn unmarked(mut bytes: Bytes) -> Option<Bytes> {
    (bytes.first() == Some(&MARK)).then(|| bytes.split_off(1))
}

/// Reads a frame. A kind that this version does not know is an error, since it may decide something.
pub fn decode(bytes: Bytes) -> Result<Frame<Bytes>, Status> {
    let missing = || Status::internal("a reply where a frame was promised");
    let frame: WireFrame = message(unmarked(bytes).ok_or_else(missing)?)?;
    let stamp = frame.stamp.map(|stamp| Stamp {
        clock: stamp.clock,
        at: stamp.at,
    });
    let confidence = frame.confidence;
    Ok(match frame.kind {
        Some(Kind::Prediction(value)) => Frame::Prediction { value, confidence },
        Some(Kind::Actual(value)) => Frame::Actual(value, stamp),
        Some(Kind::ActualIs(index)) => Frame::ActualIs(index, stamp),
        None => return Err(Status::internal("a reply frame of an unknown kind")),
    })
}

/// Decodes a message of a method.
pub fn message<T: Message + Default>(bytes: Bytes) -> Result<T, Status> {
    T::decode(bytes).map_err(|error| Status::internal(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_these_bytes() {
        let stamp = Some(Stamp { clock: 1, at: 2 });
        let frames: [(Frame<Bytes>, &[u8]); 3] = [
            (
                Frame::Prediction {
                    value: "a".into(),
                    confidence: 0.5,
                },
                &[7, 0x0a, 1, b'a', 0x25, 0, 0, 0, 0x3f],
            ),
            (Frame::Actual("".into(), None), &[7, 0x12, 0]),
            (
                Frame::ActualIs(0, stamp),
                &[7, 0x18, 0, 0x2a, 11, 0x09, 1, 0, 0, 0, 0, 0, 0, 0, 0x10, 2],
            ),
        ];
        for (frame, bytes) in frames {
            assert_eq!(encode(frame.clone()), bytes);
            // Neither is taken for the other.
            assert!(WireStamp::decode(bytes).is_err());
            assert!(decode(Bytes::from_static(&bytes[1..])).is_err());
            assert_eq!(decode(Bytes::from_static(bytes)).unwrap(), frame);
        }
        assert!(decode(Bytes::new()).is_err());
        assert!(decode(Bytes::from_static(&[7])).is_err());
    }
}
