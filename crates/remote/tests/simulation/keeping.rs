//! What a client's machine keeps of files on its disk: it outlives the client, and some of it gets damaged.

use std::collections::BTreeMap;

use surmise_remote::client::Event;
use surmise_remote::object::ObjectId;
use surmise_remote::piece::{Digest, Piece};

use crate::world::World;

/// So small that files have several.
pub const PIECE_BYTES: u64 = 8;

/// By file and offset.
pub type Kept = BTreeMap<(ObjectId, u64), (Piece, Vec<u8>)>;

impl World {
    /// Puts bytes of the store on the disk.
    pub fn keep(&mut self, machine: usize, object: ObjectId, (offset, length): (u64, u32)) {
        let one = &mut self.machines[machine];
        let start = usize::try_from(offset).expect("small");
        let stored = &one.store[&object];
        let bytes = stored[start..start + length as usize].to_vec();
        let piece = Piece {
            object,
            offset,
            length,
            digest: Digest::of(&bytes),
        };
        let before = one.kept.insert((object, offset), (piece, bytes));
        if let Some((before, _)) = before {
            self.tell_client(machine, Event::Unkept(vec![before]));
        }
        self.tell_client(machine, Event::Kept(vec![piece]));
    }

    /// Another client on the machine is told what is there.
    pub fn remember_kept(&mut self, machine: usize, kept: Kept) {
        let pieces = kept.values().map(|(piece, _)| *piece).collect();
        self.machines[machine].kept = kept;
        self.tell_client(machine, Event::Kept(pieces));
    }

    /// The disk has looked for a piece. Now and then it is damaged, or gone.
    pub fn restore(&mut self, (machine, session): (usize, u64), request: u64, piece: &Piece) {
        let is_damaged = self.random.u8(0..8) == 0;
        let one = &mut self.machines[machine];
        if one.session != session {
            return;
        }
        let kept = one.kept.get_mut(&(piece.object, piece.offset));
        let bytes = kept.and_then(|(_, bytes)| {
            if is_damaged && let Some(first) = bytes.first_mut() {
                *first ^= 1;
            }
            (Digest::of(bytes) == piece.digest).then(|| bytes.clone())
        });
        self.told.restored += u64::from(bytes.is_some());
        self.tell_client(machine, Event::Restored(request, bytes));
    }
}
