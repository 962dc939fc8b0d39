//! Bytes for tests of decoders.

use proptest::prelude::*;
use proptest::sample::Index;

/// One of `seeds`, changed in a few places and cut somewhere, or wholly random bytes. `seeds` are what
/// the encoder writes: from random bytes alone a decoder is never met far from its first check.
pub fn mutations(seeds: Vec<Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    let change = (any::<Index>(), any::<u8>(), 0..4u8);
    let changes = prop::collection::vec(change, 0..6);
    let seed = prop::sample::select(seeds);
    let mutated = (seed, changes, prop::option::of(any::<Index>()));
    let mutated = mutated.prop_map(|(mut bytes, changes, end)| {
        for (at, byte, how) in changes {
            change_at(&mut bytes, at, byte, how);
        }
        if let Some(end) = end {
            bytes.truncate(end.index(bytes.len() + 1));
        }
        bytes
    });
    prop_oneof![
        4 => mutated,
        1 => prop::collection::vec(any::<u8>(), 0..300),
    ]
}

fn change_at(bytes: &mut Vec<u8>, at: Index, byte: u8, how: u8) {
    let place = at.index(bytes.len() + 1);
    match how {
        0 => bytes.insert(place, byte),
        1 if place < bytes.len() => drop(bytes.remove(place)),
        // Where numbers are compared, their ends are what is met least by chance.
        2 if place < bytes.len() => bytes[place] = if byte < 0x80 { 0 } else { 0xff },
        _ if place < bytes.len() => bytes[place] = byte,
        _ => bytes.push(byte),
    }
}
