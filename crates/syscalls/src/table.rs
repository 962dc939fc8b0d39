//! The table: one file a family, put in order of number at compile time.
//!
//! A line of a family reads: number, name, arguments, what happens under
//! `[consent, prediction, epoch]`, handler, reason.

mod attributes;
mod data;
mod descriptors;
mod exceptions;
mod gone;
mod identity;
mod ipc;
mod memory;
mod mounts;
mod names;
mod network;
mod process;
mod signals;
mod system;
mod time;

use crate::row::Row;

/// The rows in ascending order of number.
pub fn rows() -> impl Iterator<Item = &'static Row> {
    BY_NUMBER.iter().flatten().copied()
}

/// The row of a call, `None` for a number that Linux 6.18 does not know.
pub fn row_numbered(number: u32) -> Option<&'static Row> {
    BY_NUMBER.get(number as usize).copied().flatten()
}

/// The row of a call by the name in the kernel's table.
pub fn row_named(name: &str) -> Option<&'static Row> {
    rows().find(|row| row.name() == name)
}

const FAMILIES: [&[Row]; 14] = [
    attributes::ROWS,
    data::ROWS,
    descriptors::ROWS,
    gone::ROWS,
    identity::ROWS,
    ipc::ROWS,
    memory::ROWS,
    mounts::ROWS,
    names::ROWS,
    network::ROWS,
    process::ROWS,
    signals::ROWS,
    system::ROWS,
    time::ROWS,
];

/// `file_setattr`, the newest call of Linux 6.18.
const LAST: usize = 469;

static BY_NUMBER: [Option<&Row>; LAST + 1] = by_number();

/// Fails to compile if a family is out of order or two rows share a number.
const fn by_number() -> [Option<&'static Row>; LAST + 1] {
    let mut slots = [None; LAST + 1];
    let mut family = 0;
    while family < FAMILIES.len() {
        let rows = FAMILIES[family];
        let mut position = 0;
        while position < rows.len() {
            let row = &rows[position];
            let slot = &mut slots[row.number() as usize];
            assert!(slot.is_none(), "two rows share a number");
            *slot = Some(row);
            position += 1;
            assert!(
                position == rows.len() || row.number() < rows[position].number(),
                "a family is not sorted by number"
            );
        }
        family += 1;
    }
    slots
}
