//! What the journal writes is read back, and nothing else passes for it.

use surmise_view::FileKind;

use super::fuzzing::frames;
use super::record::Frame;
use crate::plan::Content;

#[test]
fn every_frame_is_read_back_as_it_was_written() {
    for frame in frames() {
        assert_eq!(Frame::decode(&frame.encode()), Some(frame));
    }
}

/// The upper half of a mode alone was written: a kind with permissions is damage.
#[test]
fn a_kind_with_other_bits_is_none() {
    let special = Content::Special {
        kind: FileKind::Fifo,
        device: 6,
    };
    let made = frames()
        .into_iter()
        .find(|frame| matches!(frame, Frame::Staging(staging) if staging.content == special));
    let bytes = made.unwrap().encode();
    let mode = FileKind::Fifo.mode_bits().to_le_bytes();
    let at = bytes.windows(4).position(|word| word == mode).unwrap();
    for bit in 0..12 {
        let mut wrong = bytes.clone();
        wrong[at + bit / 8] |= 1 << (bit % 8);
        assert_eq!(Frame::decode(&wrong), None, "bit {bit}");
    }
}

#[test]
fn a_cut_frame_is_none() {
    for frame in frames() {
        let bytes = frame.encode();
        for end in 0..bytes.len() {
            assert_eq!(Frame::decode(&bytes[..end]), None, "{frame:?}");
        }
    }
}
