//! The suite `network`: what the network boundary costs, and what a domain takes of memory.

use super::{Row, What};
use crate::command::{Command, Peer};
use crate::exchange::Exchange;
use crate::exchange::client::Work;
use crate::limit::Limit;
use crate::memory::{Memory, Touch};

/// Long enough that the start of a connection does not count.
const BULK_BYTES: u64 = 256_000_000;

pub(super) const NETWORK: &[Row] = &[
    exchange(
        "redis-get",
        0,
        Work::RedisGet { requests: 100_000 },
        Limit::RatioMin(0.5),
    ),
    exchange(
        "ping-pong",
        0,
        Work::PingPong { rounds: 20_000 },
        Limit::AddedMax(25.0),
    ),
    exchange(
        "send-1ms",
        1,
        Work::Send { bytes: BULK_BYTES },
        Limit::RatioMin(0.95),
    ),
    exchange(
        "receive-1ms",
        1,
        Work::Receive { bytes: BULK_BYTES },
        Limit::RatioMin(0.95),
    ),
    exchange(
        "redis-get-1ms",
        1,
        Work::RedisGet { requests: 40_000 },
        Limit::RatioMin(0.95),
    ),
    exchange(
        "connect",
        0,
        Work::Connect { connections: 1000 },
        Limit::None,
    ),
    exchange("send", 0, Work::Send { bytes: BULK_BYTES }, Limit::None),
    exchange(
        "receive",
        0,
        Work::Receive { bytes: BULK_BYTES },
        Limit::None,
    ),
    Row {
        test: "start-allow",
        what: What::Command(Command {
            options: &["--net", "allow"],
            inside: &["true"],
            peer: Peer::Options(&["--net", "deny"]),
            repeat: 20,
            source: None,
        }),
        limit: Limit::None,
        pairs_max: u32::MAX,
    },
    memory("memory-read-100k", Touch::Read),
    memory("memory-write-100k", Touch::Write),
];

const fn exchange(test: &'static str, delay_ms: u64, work: Work, limit: Limit) -> Row {
    Row {
        test,
        what: What::Exchange(Exchange { work, delay_ms }),
        limit,
        pairs_max: u32::MAX,
    }
}

const fn memory(test: &'static str, touch: Touch) -> Row {
    Row {
        test,
        what: What::Memory(Memory {
            files: 100_000,
            touch,
        }),
        limit: Limit::OursMax(64.0),
        // One takes half a minute, and they hardly differ.
        pairs_max: 3,
    }
}
