//! Rows that tell how long a command takes, beside the same command by itself.

use super::{Row, What};
use crate::command::{Command, Peer, Timing};
use crate::inputs::{DATA, Input};
use crate::limit::Limit;

/// Samples that take seconds are fewer.
const PAIRS_OF_LARGE: u32 = 5;

pub(super) const fn whole(
    test: &'static str,
    input: Input,
    inside: &'static [&'static str],
    limit: Limit,
) -> Row {
    row(test, input, inside, limit, Timing::Whole(1), None)
}

pub(super) const fn first(
    test: &'static str,
    input: Input,
    inside: &'static [&'static str],
    limit: Limit,
) -> Row {
    row(test, input, inside, limit, Timing::First, None)
}

pub(super) const fn later(
    test: &'static str,
    input: Input,
    inside: &'static [&'static str],
    limit: Limit,
) -> Row {
    row(test, input, inside, limit, Timing::Later(3), None)
}

/// As `first`, and [`DATA`] has to come from the disk.
pub(super) const fn cold(
    test: &'static str,
    input: Input,
    inside: &'static [&'static str],
    limit: Limit,
) -> Row {
    row(test, input, inside, limit, Timing::First, Some(DATA))
}

pub(super) const fn large(mut row: Row) -> Row {
    row.pairs_max = PAIRS_OF_LARGE;
    row
}

const fn row(
    test: &'static str,
    input: Input,
    inside: &'static [&'static str],
    limit: Limit,
    timing: Timing,
    cold: Option<&'static str>,
) -> Row {
    Row {
        test,
        what: What::Command(Command {
            options: &[],
            inside,
            peer: Peer::Plain,
            timing,
            input,
            cold,
        }),
        limit,
        processor_limit: Limit::None,
        pairs_max: u32::MAX,
    }
}
