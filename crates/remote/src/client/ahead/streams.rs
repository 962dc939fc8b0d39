//! Large files that are read from front to back.

use std::collections::HashMap;
use std::ops::Range;

use crate::object::ObjectId;

/// How much is fetched ahead of the reader, in bytes, at first and at most.
const AHEAD_FIRST: u64 = 256 << 10;
const AHEAD_MAX: u64 = 8 << 20;

/// How far a reader may jump back. The kernel reads ahead by several requests, which come in any order.
const BACK_MAX: u64 = 1 << 20;

/// The readers of large files.
#[derive(Debug, Default)]
pub(super) struct Streams {
    readers: HashMap<ObjectId, Reader>,
}

#[derive(Debug)]
struct Reader {
    /// Up to where it has read.
    at: u64,
    /// Up to where was planned.
    upto: u64,
    ahead: u64,
}

impl Streams {
    /// Bytes of a file are read. Which bytes are to be fetched ahead of that.
    pub(super) fn read(
        &mut self,
        object: ObjectId,
        bytes: Range<u64>,
        size: u64,
    ) -> Option<Range<u64>> {
        let known = self.readers.get_mut(&object);
        let goes_on = |reader: &&mut Reader| {
            let at = reader.at;
            (at.saturating_sub(BACK_MAX)..=at.max(reader.upto)).contains(&bytes.start)
        };
        let Some(reader) = known.filter(goes_on) else {
            self.readers.remove(&object);
            if bytes.start > 0 {
                // Somewhere else: the first read there tells nothing of the next.
                let (at, upto) = (bytes.end, bytes.end);
                let ahead = AHEAD_FIRST / 2;
                self.readers.insert(object, Reader { at, upto, ahead });
                return None;
            }
            let upto = (bytes.end + AHEAD_FIRST).min(size);
            let reader = Reader {
                at: bytes.end,
                upto,
                ahead: AHEAD_FIRST,
            };
            self.readers.insert(object, reader);
            return Some(bytes.end..upto);
        };
        reader.at = reader.at.max(bytes.end);
        let start = reader.upto.max(reader.at);
        if start - reader.at >= reader.ahead / 2 || start >= size {
            return None;
        }
        reader.ahead = (reader.ahead * 2).min(AHEAD_MAX);
        reader.upto = (start + reader.ahead).min(size);
        Some(start..reader.upto)
    }

    pub(super) fn forget(&mut self, object: ObjectId) {
        self.readers.remove(&object);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: u64 = 100 << 20;
    const STEP: u64 = 128 << 10;

    #[test]
    fn a_reader_from_front_to_back_finds_all_but_the_first_bytes() {
        let file = ObjectId::numbered(1);
        let mut streams = Streams::default();
        let mut planned = STEP;
        for at in (0..SIZE).step_by(STEP as usize) {
            assert!(at == 0 || at < planned, "{at} was not planned");
            if let Some(next) = streams.read(file, at..at + STEP, SIZE) {
                assert_eq!(next.start, planned, "each byte is planned once");
                planned = next.end;
            }
        }
        assert_eq!(planned, SIZE);
    }

    #[test]
    fn a_reader_that_jumps_gets_nothing_ahead() {
        let file = ObjectId::numbered(1);
        let mut streams = Streams::default();
        for at in [50 << 20, 3 << 20, 80 << 20, 20 << 20] {
            assert_eq!(streams.read(file, at..at + 4096, SIZE), None);
        }
    }
}
