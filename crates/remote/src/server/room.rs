//! Whether the file system has room for what clients want made. A refusal before the verdict is better than a promise that
//! has to wait for space.

use std::collections::VecDeque;

use crate::operation::{Change, Operation};

#[derive(Debug)]
pub(super) struct Room {
    /// What the shell has told last.
    left: u64,
    /// The records that are not made, and how many bytes each takes.
    unmade: VecDeque<(u64, u64)>,
    unmade_bytes: u64,
}

impl Room {
    /// Nothing is known of it.
    pub(super) fn unknown() -> Self {
        Self {
            left: u64::MAX,
            unmade: VecDeque::new(),
            unmade_bytes: 0,
        }
    }

    pub(super) fn is(&mut self, bytes: u64) {
        self.left = bytes;
    }

    /// Which of these operations there is no room for. Those that make room always have enough.
    pub(super) fn lacking(&self, operations: &[Operation]) -> Option<usize> {
        let wanted = self.unmade_bytes.saturating_add(bytes_of(operations));
        match wanted > self.left {
            true => operations.iter().position(takes_room),
            false => None,
        }
    }

    pub(super) fn recorded(&mut self, record: u64, operations: &[Operation]) {
        let bytes = bytes_of(operations);
        self.unmade.push_back((record, bytes));
        self.unmade_bytes += bytes;
    }

    pub(super) fn made(&mut self, upto: u64) {
        while let Some((record, bytes)) = self.unmade.front()
            && *record <= upto
        {
            self.unmade_bytes -= bytes;
            self.unmade.pop_front();
        }
    }
}

fn bytes_of(operations: &[Operation]) -> u64 {
    operations.iter().map(|one| one.bytes() as u64).sum()
}

fn takes_room(operation: &Operation) -> bool {
    match &operation.change {
        Change::Create { .. } => true,
        Change::Write { data, .. } => !data.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use surmise_lower::Timestamp;

    use super::*;
    use crate::object::ObjectId;

    fn operation(change: Change) -> Operation {
        let at = Timestamp {
            seconds: 0,
            nanoseconds: 0,
        };
        Operation { at, change }
    }

    #[test]
    fn what_is_not_made_takes_room_until_it_is() {
        let object = ObjectId::found(1).expect("small");
        let write = |bytes| {
            operation(Change::Write {
                object,
                offset: 0,
                data: vec![0; bytes],
                strip: false,
            })
        };
        let cut = operation(Change::Resize {
            object,
            size: 0,
            strip: false,
        });
        let mut room = Room::unknown();
        let large = [cut.clone(), write(10_000)];
        assert_eq!(room.lacking(&large), None);
        room.is(15_000);
        assert_eq!(room.lacking(&large), None);
        room.recorded(7, &large);
        assert_eq!(room.lacking(&large), Some(1));
        assert_eq!(room.lacking(&[cut]), None);
        room.made(6);
        assert_eq!(room.lacking(&large), Some(1));
        room.made(7);
        assert_eq!(room.lacking(&large), None);
    }
}
