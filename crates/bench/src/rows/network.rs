//! The suite `network`: what the network boundary costs, and what a domain takes of memory.

use super::{Row, What};
use crate::command::{Command, Peer, Timing};
use crate::exchange::Exchange;
use crate::exchange::client::Work;
use crate::exchange::link::Link;
use crate::inputs::Input;
use crate::limit::Limit;
use crate::memory::{Memory, Touch};

/// Long enough that the start of a connection does not count.
const BULK_BYTES: u64 = 256_000_000;

/// A link that takes 1 ms, and never has too much to do.
const MS: Option<Link> = Some(Link {
    delay_ms: 1,
    bytes_per_s: None,
});

/// A link that takes 1 ms and carries 1 Gbit/s.
const MS_GBIT: Option<Link> = Some(Link {
    delay_ms: 1,
    bytes_per_s: Some(125_000_000),
});

/// As `redis-benchmark` does without options.
const GET: Work = Work::RedisGet {
    clients: 50,
    requests: 100_000,
};
/// A few clients, so that the link decides: it takes four threads a connection to make one.
const GET_BY_FEW: Work = Work::RedisGet {
    clients: 4,
    requests: 20_000,
};
const SEND: Work = Work::Send { bytes: BULK_BYTES };
const RECEIVE: Work = Work::Receive { bytes: BULK_BYTES };
const PING_PONG: Work = Work::PingPong { rounds: 20_000 };
const CONNECT: Work = Work::Connect { connections: 1000 };

pub(super) const NETWORK: &[Row] = &[
    exchange("redis-get", None, GET, Limit::RatioMin(0.5)),
    exchange("ping-pong", None, PING_PONG, Limit::AddedMax(25.0)),
    exchange("send-1ms", MS, SEND, Limit::RatioMin(0.95)),
    exchange("receive-1ms", MS, RECEIVE, Limit::RatioMin(0.95)),
    exchange("send-1ms-gbit", MS_GBIT, SEND, Limit::RatioMin(0.95)),
    exchange("receive-1ms-gbit", MS_GBIT, RECEIVE, Limit::RatioMin(0.95)),
    exchange("redis-get-1ms", MS, GET_BY_FEW, Limit::RatioMin(0.95)),
    exchange("redis-get-1ms-50", MS, GET, Limit::RatioMin(0.95)),
    exchange("connect", None, CONNECT, Limit::None),
    exchange("send", None, SEND, Limit::None),
    exchange("receive", None, RECEIVE, Limit::None),
    Row {
        test: "start-allow",
        what: What::Command(Command {
            options: &["--net", "allow"],
            inside: &["true"],
            peer: Peer::Options(&["--net", "deny"]),
            timing: Timing::Whole(20),
            input: Input::Empty,
            cold: None,
        }),
        limit: Limit::None,
        processor_limit: Limit::None,
        pairs_max: u32::MAX,
    },
    memory("memory-read-100k", Touch::Read),
    memory("memory-write-100k", Touch::Write),
];

const fn exchange(test: &'static str, link: Option<Link>, work: Work, limit: Limit) -> Row {
    Row {
        test,
        what: What::Exchange(Exchange { work, link }),
        limit,
        processor_limit: Limit::None,
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
        processor_limit: Limit::None,
        // One takes half a minute, and they hardly differ.
        pairs_max: 3,
    }
}
