//! Telling a log that was cut short from one that is damaged.
//!
//! All frames that a mark calls durable are there, or the log is damaged. Behind the mark a kill may have cut the last
//! frame short, and a power loss may have taken any page: then a block of zeros is in its place. Only these two
//! make a frame unreadable. So a frame is damaged if it is unreadable, has no such block, and has a whole frame behind
//! it.

use crate::frame::{self, Frame};
use crate::header::{self, HEADER_LENGTH, Mark};
use crate::{Damage, Recovery, Salvage, Symptom};

/// The smallest piece of a file that a power loss takes as a whole, in bytes.
const BLOCK: usize = 512;

/// Calls `each` with every whole frame behind the header.
pub(crate) fn scan(bytes: &[u8], mut each: impl FnMut(u64, &[u8])) -> Result<Recovery, Damage> {
    let length = bytes.len() as u64;
    if length < HEADER_LENGTH {
        return Err(Damage::at(length, Symptom::Header));
    }
    let mark = Mark::newest(bytes)?;
    let mut at = HEADER_LENGTH as usize;
    let mut frames = 0;
    let mut frames_at_mark = None;
    loop {
        if at as u64 == mark.end {
            frames_at_mark = Some(frames);
        }
        let next = frames + 1;
        let Some(frame) = Frame::decode(&bytes[at..], |sequence| sequence == next) else {
            break;
        };
        frames = next;
        each(frame.sequence, frame.payload);
        at += frame.length();
    }
    if frames_at_mark != Some(mark.frames) {
        return Err(match at as u64 {
            at if length < mark.end => Damage::at(
                at,
                Symptom::Short {
                    length,
                    was: mark.end,
                },
            ),
            at => Damage::at(at, Symptom::Durable),
        });
    }
    if header::has_more_than_sealed(bytes) {
        return Err(Damage::at(mark.end, Symptom::BehindSeal));
    }
    let rest = &bytes[at..];
    if !rest.is_empty() && !has_hole(bytes, at) && next_frame(&rest[1..], frames + 1).is_some() {
        return Err(Damage::at(at as u64, Symptom::Before));
    }
    Ok(Recovery {
        frames,
        dropped_bytes: rest.len() as u64,
        is_sealed: mark.is_sealed,
    })
}

/// Calls `each` with every frame that can be read, whatever is between them.
pub(crate) fn salvage(bytes: &[u8], mut each: impl FnMut(u64, &[u8])) -> Salvage {
    let mut salvage = Salvage::default();
    let mut rest = bytes.get(HEADER_LENGTH as usize..).unwrap_or_default();
    let mut last = 0;
    while let Some((skipped, frame)) = next_frame(rest, last) {
        salvage.unread_bytes += skipped as u64;
        salvage.frames += 1;
        each(frame.sequence, frame.payload);
        last = frame.sequence;
        rest = &rest[skipped + frame.length()..];
    }
    salvage.unread_bytes += rest.len() as u64;
    salvage
}

/// The first whole frame in `bytes` that comes after the frame numbered `last`, and how many bytes are
/// before it.
fn next_frame(bytes: &[u8], last: u64) -> Option<(usize, Frame<'_>)> {
    // Those that are missing were in these bytes, and none was shorter than its header.
    let max = last + 1 + bytes.len() as u64 / frame::FRAME_HEADER_LENGTH;
    let wanted = |sequence| last < sequence && sequence <= max;
    (0..bytes.len()).find_map(|skipped| Some((skipped, Frame::decode(&bytes[skipped..], wanted)?)))
}

/// Whether the unreadable frame at `at` reaches into a block that a power loss took. Of the block in which
/// the frame begins it may have left what was there before.
fn has_hole(bytes: &[u8], at: usize) -> bool {
    let end = at + frame::claimed_length(&bytes[at..]).max(frame::FRAME_HEADER_LENGTH as usize);
    let mut begin = at;
    while begin < end.min(bytes.len()) {
        let next = (begin / BLOCK + 1) * BLOCK;
        let block = &bytes[begin..next.min(bytes.len())];
        if block.iter().all(|byte| *byte == 0) {
            return true;
        }
        begin = next;
    }
    false
}
