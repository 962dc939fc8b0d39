//! The suite `rpc`: what running ahead saves calls that depend on each other, and what it costs.

use super::{Row, What};
use crate::calls::trial::Trial;
use crate::calls::{self, Calls, Value};
use crate::limit::Limit;

const ETCD: calls::What = calls::What::Etcd {
    reads: 10,
    delay_ms: 50,
};

const BOUNDED: Trial = Trial::Chain {
    calls: 4,
    right: 50,
    wasted: Some(25),
};

pub(super) const RPC: &[Row] = &[
    chain("4-calls-right-0", 4, 0, Limit::RatioMax(1.03)),
    work("4-calls-right-0-work", 4, 0),
    chain("4-calls-right-50", 4, 50, Limit::RatioMax(0.70)),
    work("4-calls-right-50-work", 4, 50),
    chain("4-calls-right-90", 4, 90, Limit::RatioMax(0.40)),
    work("4-calls-right-90-work", 4, 90),
    chain("4-calls-right-100", 4, 100, Limit::RatioMax(0.28)),
    work("4-calls-right-100-work", 4, 100),
    own("4-calls-right-50-waste-25", BOUNDED, Limit::None),
    row(
        "4-calls-right-50-waste-25-work",
        calls::What::Own(BOUNDED),
        Value::Work,
        Limit::None,
    ),
    chain("8-calls-right-90", 8, 90, Limit::RatioMax(0.26)),
    work("8-calls-right-90-work", 8, 90),
    row("etcd-10-reads", ETCD, Value::Main, Limit::RatioMax(0.22)),
    row("etcd-10-reads-work", ETCD, Value::Work, Limit::None),
    own("3-hops", Trial::Hops { servers: 3 }, Limit::RatioMax(0.42)),
    own(
        "3-hops-abort",
        Trial::Abort { servers: 3 },
        Limit::OursMax(2.0),
    ),
    own(
        "null-call",
        Trial::Null { aware: false },
        Limit::AddedMax(20.0),
    ),
    own(
        "null-call-aware",
        Trial::Null { aware: true },
        Limit::AddedMax(60.0),
    ),
    own(
        "saturated-right-90",
        Trial::Saturated { right: 90 },
        Limit::RatioMin(0.9),
    ),
];

const fn chain(test: &'static str, calls: u32, right: u32, limit: Limit) -> Row {
    own(test, unbounded(calls, right), limit)
}

const fn work(test: &'static str, calls: u32, right: u32) -> Row {
    let what = calls::What::Own(unbounded(calls, right));
    row(test, what, Value::Work, Limit::None)
}

const fn unbounded(calls: u32, right: u32) -> Trial {
    Trial::Chain {
        calls,
        right,
        wasted: None,
    }
}

const fn own(test: &'static str, trial: Trial, limit: Limit) -> Row {
    row(test, calls::What::Own(trial), Value::Main, limit)
}

const fn row(test: &'static str, what: calls::What, value: Value, limit: Limit) -> Row {
    Row {
        test,
        what: What::Calls(Calls { what, value }),
        limit,
        processor_limit: Limit::None,
        pairs_max: u32::MAX,
    }
}
