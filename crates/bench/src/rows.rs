//! What is measured, as data.

mod network;

use crate::command::{Command, Peer};
use crate::exchange::Exchange;
use crate::limit::Limit;
use crate::memory::Memory;

/// Rows whose results go to one file, `target/bench/NAME.json`.
pub struct Suite {
    /// Names the file.
    pub name: &'static str,
    /// In the order they run.
    pub rows: &'static [Row],
}

/// One comparison.
pub struct Row {
    /// Names the row.
    pub test: &'static str,
    /// What runs on both sides.
    pub what: What,
    /// What ours must keep.
    pub limit: Limit,
    /// How many pairs are measured at most, however many are asked for.
    pub pairs_max: u32,
}

/// What runs on both sides of a row.
pub enum What {
    /// A command: its time.
    Command(Command),
    /// A client, with a server outside: what the client says.
    Exchange(Exchange),
    /// The memory of a domain's own processes.
    Memory(Memory),
}

/// Every suite.
pub const SUITES: &[Suite] = &[
    Suite {
        name: "run",
        rows: RUN,
    },
    Suite {
        name: "network",
        rows: network::NETWORK,
    },
];

const RUN: &[Row] = &[
    make_lua("make-lua-j1", &["make", "--silent", "-j1", "generic"]),
    make_lua("make-lua-j2", &["make", "--silent", "-j2", "generic"]),
    Row {
        test: "start-and-end",
        what: What::Command(Command {
            options: &[],
            inside: &["true"],
            peer: Peer::Command(&["unshare", "-Urmpnf", "true"]),
            repeat: 20,
            source: None,
        }),
        limit: Limit::RatioMax(3.0),
        pairs_max: u32::MAX,
    },
];

const fn make_lua(test: &'static str, inside: &'static [&'static str]) -> Row {
    Row {
        test,
        what: What::Command(Command {
            options: &[],
            inside,
            peer: Peer::Plain,
            repeat: 1,
            source: Some("lua5.4"),
        }),
        limit: Limit::RatioMax(1.10),
        pairs_max: u32::MAX,
    }
}
