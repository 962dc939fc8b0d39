//! What is measured, as data.

mod files;
mod network;
mod programs;
mod remote;
mod rpc;
mod speculation;
mod sync;
mod timed;

use crate::calls::Calls;
use crate::command::{Command, Peer, Timing};
use crate::exchange::Exchange;
use crate::far;
use crate::hearing::Hearing;
use crate::inputs::Input;
use crate::limit::Limit;
use crate::memory::Memory;
use crate::sync::Synced;

/// Rows whose results go to one file, `target/bench/NAME.json`.
pub struct Suite {
    /// Names the file.
    pub name: &'static str,
    /// Whether other programs of the kind are measured besides.
    pub has_rivals: bool,
    /// Whether it makes disks, which takes root.
    pub needs_disks: bool,
    /// In the order they run.
    pub rows: Rows,
}

/// The rows of a suite.
pub enum Rows {
    /// Ours and a peer, in alternating pairs.
    Pairs(&'static [Row]),
    /// File systems over a delay line, which takes root.
    Remote(&'static [far::row::Row]),
}

/// One comparison.
pub struct Row {
    /// Names the row.
    pub test: &'static str,
    /// What runs on both sides.
    pub what: What,
    /// What ours must keep.
    pub limit: Limit,
    /// The same of the processor time, that of Surmise's own processes included.
    pub processor_limit: Limit,
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
    /// A program that calls fsync(2), on file systems of its own.
    Sync(Synced),
    /// Remote calls that depend on each other.
    Calls(Calls),
    /// A system call that is heard or not: its time.
    Hearing(Hearing),
}

impl Row {
    /// The program that both sides need and that is not installed.
    pub fn missing_program(&self) -> Option<&'static str> {
        match &self.what {
            What::Command(command) => command.missing_program(),
            What::Sync(synced) => synced.missing_program(),
            What::Exchange(_) | What::Memory(_) | What::Calls(_) | What::Hearing(_) => None,
        }
    }
}

/// Every suite.
pub const SUITES: &[Suite] = &[
    Suite {
        name: "run",
        has_rivals: true,
        needs_disks: false,
        rows: Rows::Pairs(RUN),
    },
    Suite {
        name: "programs",
        has_rivals: true,
        needs_disks: false,
        rows: Rows::Pairs(programs::PROGRAMS),
    },
    Suite {
        name: "files",
        has_rivals: true,
        needs_disks: false,
        rows: Rows::Pairs(files::FILES),
    },
    Suite {
        name: "network",
        has_rivals: false,
        needs_disks: false,
        rows: Rows::Pairs(network::NETWORK),
    },
    Suite {
        name: "sync",
        has_rivals: false,
        needs_disks: true,
        rows: Rows::Pairs(sync::SYNC),
    },
    Suite {
        name: "rpc",
        has_rivals: false,
        needs_disks: false,
        rows: Rows::Pairs(rpc::RPC),
    },
    Suite {
        name: "speculation",
        has_rivals: false,
        needs_disks: false,
        rows: Rows::Pairs(speculation::SPECULATION),
    },
    Suite {
        name: "remote",
        has_rivals: true,
        needs_disks: false,
        rows: Rows::Remote(remote::REMOTE),
    },
];

const RUN: &[Row] = &[
    make_lua("make-lua-j1", &["make", "--silent", "-j1", "generic"]),
    make_lua("make-lua-j2", &["make", "--silent", "-j2", "generic"]),
    timed::whole(
        "configure",
        Input::Package("jemalloc"),
        &["./configure", "--quiet"],
        Limit::RatioMax(1.08),
    ),
    Row {
        test: "start-and-end",
        what: What::Command(Command {
            options: &[],
            inside: &["true"],
            peer: Peer::Command(&["unshare", "-Urmpnf", "true"]),
            timing: Timing::Whole(20),
            input: Input::Empty,
            cold: None,
        }),
        limit: Limit::RatioMax(3.0),
        processor_limit: Limit::None,
        pairs_max: u32::MAX,
    },
];

const fn make_lua(test: &'static str, inside: &'static [&'static str]) -> Row {
    let input = Input::Package("lua5.4");
    let mut row = timed::whole(test, input, inside, Limit::RatioMax(1.04));
    row.processor_limit = Limit::RatioMax(1.10);
    row
}
