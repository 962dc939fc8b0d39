//! Pieces of files that the shell has on disk, also those of an earlier mount. The server is asked for them as for other
//! bytes, and told what they are; it sends them only where the file has others.

use std::collections::HashMap;
use std::ops::Range;

use super::{Client, Effect};
use crate::frame::ClientKey;
use crate::object::ObjectId;
use crate::piece::Piece;

/// What is kept counts as so much smaller when it is fetched ahead: it may have been changed, and the server has to read it.
const CHEAPER_BY: u64 = 16;

#[derive(Debug)]
pub(super) struct Kept {
    /// How many bytes a piece has, but for the last one of a file.
    piece_bytes: u64,
    /// By the file, and where they begin.
    pieces: HashMap<(ObjectId, u64), Piece>,
    /// The last piece that was asked for is what the file has. Until then it is taken for what was changed.
    was_right: bool,
}

impl Kept {
    pub(super) fn new(piece_bytes: u64) -> Self {
        Self {
            piece_bytes,
            pieces: HashMap::new(),
            was_right: false,
        }
    }

    pub(super) fn add(&mut self, pieces: Vec<Piece>) {
        let pieces = pieces.into_iter();
        let placed = pieces.map(|piece| ((piece.object, piece.offset), piece));
        self.pieces.extend(placed);
    }

    pub(super) fn remove(&mut self, piece: &Piece) {
        let place = (piece.object, piece.offset);
        // There may be a newer one.
        if self.pieces.get(&place) == Some(piece) {
            self.pieces.remove(&place);
        }
    }

    /// Which bytes to ask for at once, to get those of a file of this size from the first on: a whole piece, if that is kept, or
    /// else what is before the next one.
    pub(super) fn at(
        &self,
        object: ObjectId,
        bytes: Range<u64>,
        size: u64,
    ) -> (Range<u64>, Option<Piece>) {
        let start = bytes.start / self.piece_bytes * self.piece_bytes;
        if let Some(piece) = self.piece(object, start, size) {
            return (piece.offset..piece.end(), Some(*piece));
        }
        let mut end = start + self.piece_bytes;
        while end < bytes.end && self.piece(object, end, size).is_none() {
            end += self.piece_bytes;
        }
        (bytes.start..end.min(bytes.end), None)
    }

    /// A piece that can be what a file of this size has there.
    fn piece(&self, object: ObjectId, start: u64, size: u64) -> Option<&Piece> {
        let piece = self.pieces.get(&(object, start))?;
        let end = size.min(start + self.piece_bytes);
        (piece.length > 0 && piece.end() == end).then_some(piece)
    }

    /// How many bytes the answer is taken to have that brings these.
    pub(super) fn expected_bytes(&self, bytes: &Range<u64>, are_kept: bool) -> u64 {
        let bytes = bytes.end - bytes.start;
        match are_kept && self.was_right {
            true => bytes.div_ceil(CHEAPER_BY),
            false => bytes,
        }
    }

    /// What it costs to fetch a file of this size that no program waits for.
    pub(super) fn cost(&self, object: ObjectId, size: u64) -> u64 {
        match self.piece(object, 0, size) {
            Some(_) => size.div_ceil(CHEAPER_BY),
            None => size,
        }
    }

    /// If a piece was asked for, the file has other bytes there.
    pub(super) fn was_other(&mut self, piece: Option<Piece>) {
        if let Some(piece) = piece {
            self.was_right = false;
            self.remove(&piece);
        }
    }
}

impl Client {
    /// A client with pieces of so many bytes.
    #[doc(hidden)]
    pub fn with_pieces_of(key: ClientKey, bytes: u64) -> Self {
        Self {
            kept: Kept::new(bytes),
            ..Self::new(key)
        }
    }

    /// The server has found in the file what was kept.
    pub(super) fn is_same(&mut self, request: u64, effects: &mut Vec<Effect>) {
        self.ahead.came(request, self.now);
        let fetching = self.fetching.get(request);
        match fetching.and_then(|fetching| fetching.kept) {
            Some(piece) => {
                self.kept.was_right = true;
                effects.push(Effect::Restore(request, piece));
            }
            // The lease went meanwhile. The calls that need the bytes fetch them again.
            None => self.go_on_all(effects),
        }
    }

    /// The shell has looked for a piece that is what the file has; or had, if the file was changed meanwhile.
    pub(super) fn restored(
        &mut self,
        request: u64,
        bytes: Option<Vec<u8>>,
        effects: &mut Vec<Effect>,
    ) {
        let fetching = self.fetching.get(request);
        let kept = fetching.and_then(|fetching| fetching.kept);
        match (bytes, kept) {
            (Some(bytes), Some(piece)) if bytes.len() == piece.length as usize => {
                self.store_data(request, bytes, effects);
            }
            // The calls that need the bytes have them sent.
            (_, Some(piece)) => {
                self.kept.remove(&piece);
                self.fetching.remove(request);
            }
            (_, None) => {}
        }
        self.go_on_all(effects);
    }

    /// Has those pieces of a file kept of which the last bytes have come.
    pub(super) fn keep(&mut self, object: ObjectId, came: Range<u64>, effects: &mut Vec<Effect>) {
        let (size, piece_bytes) = (self.size(object), self.kept.piece_bytes);
        let Some(stored) = self.stored.get(&object) else {
            return;
        };
        let mut start = came.start / piece_bytes * piece_bytes;
        while start < came.end.min(size) {
            let end = size.min(start + piece_bytes);
            if stored.first_missing(start, end).is_none() {
                effects.push(Effect::Keep {
                    object,
                    offset: start,
                    length: u32::try_from(end - start).unwrap_or(u32::MAX),
                });
            }
            start = end;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::piece::Digest;

    fn id() -> ObjectId {
        ObjectId::found(7).expect("a number")
    }

    fn piece(offset: u64, length: u32) -> Piece {
        let (object, digest) = (id(), Digest([0; 32]));
        Piece {
            object,
            offset,
            length,
            digest,
        }
    }

    #[test]
    fn a_piece_is_asked_for_as_a_whole_and_what_is_between_pieces_by_itself() {
        let mut kept = Kept::new(10);
        kept.add(vec![piece(10, 10), piece(40, 5)]);
        assert_eq!(kept.at(id(), 0..45, 45), (0..10, None));
        assert_eq!(kept.at(id(), 3..9, 45), (3..9, None));
        assert_eq!(kept.at(id(), 13..45, 45), (10..20, Some(piece(10, 10))));
        assert_eq!(kept.at(id(), 20..45, 45), (20..40, None));
        assert_eq!(kept.at(id(), 40..45, 45), (40..45, Some(piece(40, 5))));
        // The file has another length: its last piece is another one.
        assert_eq!(kept.at(id(), 40..46, 46), (40..46, None));
        assert_eq!(kept.at(id(), 10..15, 15), (10..15, None));
    }

    #[test]
    fn only_the_piece_that_is_meant_goes() {
        let mut kept = Kept::new(10);
        kept.add(vec![piece(0, 10)]);
        kept.remove(&piece(0, 9));
        kept.was_other(None);
        assert_eq!(kept.at(id(), 0..10, 10).1, Some(piece(0, 10)));
        kept.was_other(Some(piece(0, 10)));
        assert_eq!(kept.at(id(), 0..10, 10).1, None);
    }
}
