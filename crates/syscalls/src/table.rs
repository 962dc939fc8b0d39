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
use crate::syscall::Syscall;

/// The rows in ascending order of number.
pub fn rows() -> impl Iterator<Item = &'static Row> {
    BY_NAME.iter().copied()
}

/// The row of a call, `None` for a number that Linux 6.18 does not know.
pub fn row_numbered(number: u32) -> Option<&'static Row> {
    BY_NUMBER.get(number as usize).copied().flatten()
}

/// The row of a call.
pub const fn row_of(name: Syscall) -> &'static Row {
    BY_NAME[name as usize]
}

/// The row of a call by the name in the kernel's table, where that is text from elsewhere.
pub fn row_named(name: &str) -> Option<&'static Row> {
    rows().find(|row| row.name().as_str() == name)
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

static BY_NAME: [&Row; Syscall::COUNT] = by_name();

/// Fails to compile if a name has no row or several, or if names are not in the order of numbers.
const fn by_name() -> [&'static Row; Syscall::COUNT] {
    let mut named = [&FAMILIES[0][0]; Syscall::COUNT];
    let mut count = 0;
    let mut number = 0;
    while number <= LAST {
        if let Some(row) = BY_NUMBER[number] {
            assert!(
                row.name() as usize == count,
                "rows and names are not in one order"
            );
            named[count] = row;
            count += 1;
        }
        number += 1;
    }
    assert!(count == Syscall::COUNT, "a name has no row");
    named
}
