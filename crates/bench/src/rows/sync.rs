//! The suite `sync`: what external synchrony saves a program that calls fsync(2), and what it costs one that
//! does not.

use std::time::Duration;

use super::{Row, What};
use crate::limit::Limit;
use crate::sync::served::Served;
use crate::sync::workload::Workload;
use crate::sync::{Setup, Synced, Under, Value, Work};

const JOURNAL: &str = "data=journal";

const APPEND: Work = Work::Own(Workload::Append);
const SMALL_FILES: Work = Work::Own(Workload::SmallFiles);

/// So much that eatmydata takes a second at least.
const INSERTIONS: u32 = 20_000;
const POSTMARK: u32 = 10_000;

/// How often a program does something whose syncs cost nothing.
const MANY_APPENDS: u32 = 100_000;
const MANY_INSERTIONS: u32 = 10_000;
const MANY_FILES: u32 = 15_000;

const NOT_SLOWER: Limit = Limit::RatioMin(0.9);
/// In ms: two flushes, and what is written between them.
const ONE_COMMIT: Limit = Limit::AddedMax(3.0);

#[rustfmt::skip]
pub(super) const SYNC: &[Row] = &[
    // Against syncs that do nothing.
    nothing("postmark-nothing", Work::Postmark, POSTMARK, 1.07),
    nothing("untar-make-nothing", Work::UntarMake, 1, 1.03),
    nothing("sqlite-nothing", Work::Sqlite, INSERTIONS, 1.3),
    confined("postmark-confined", Work::Postmark, POSTMARK, 1.07),
    confined("sqlite-confined", Work::Sqlite, INSERTIONS, 1.3),
    bound("append-nothing", APPEND, MANY_APPENDS),
    bound("files-nothing", SMALL_FILES, MANY_FILES),
    ordered("postmark-ordered", Work::Postmark, POSTMARK),
    ordered("untar-make-ordered", Work::UntarMake, 1),
    ordered("sqlite-ordered", Work::Sqlite, INSERTIONS),
    // Against syncs that are real, with so many as take a second or so.
    real("append-0ms", 0, APPEND, (MANY_APPENDS, 10_000), times(10.0)),
    real("sqlite-0ms", 0, Work::Sqlite, (MANY_INSERTIONS, 1500), times(4.0)),
    real("sqlite-wal-0ms", 0, Work::SqliteAhead, (INSERTIONS, 3000), times(4.0)),
    real("files-0ms", 0, SMALL_FILES, (MANY_FILES, 3000), times(5.0)),
    real("append-1ms", 1, APPEND, (MANY_APPENDS, 400), times(100.0)),
    real("sqlite-1ms", 1, Work::Sqlite, (MANY_INSERTIONS, 120), times(60.0)),
    real("sqlite-wal-1ms", 1, Work::SqliteAhead, (INSERTIONS, 300), times(20.0)),
    real("files-1ms", 1, SMALL_FILES, (MANY_FILES, 250), times(60.0)),
    real("append-8ms", 8, APPEND, (MANY_APPENDS, 60), times(200.0)),
    real("sqlite-8ms", 8, Work::Sqlite, (MANY_INSERTIONS, 20), times(100.0)),
    real("sqlite-wal-8ms", 8, Work::SqliteAhead, (INSERTIONS, 60), times(100.0)),
    real("files-8ms", 8, SMALL_FILES, (MANY_FILES, 40), times(150.0)),
    // A database and its clients, inside.
    served("pgbench-inside-1-1ms", 1, Served::Inside(1), (2000, 300), Limit::None),
    served("pgbench-inside-8-1ms", 1, Served::Inside(8), (500, 100), Limit::None),
    served("pgbench-inside-1-8ms", 8, Served::Inside(1), (2000, 50), times(20.0)),
    served("pgbench-inside-8-8ms", 8, Served::Inside(8), (500, 20), times(20.0)),
    // Clients outside, to whom each answer is output.
    outside("pgbench-outside-1", Served::Outside(1), 500, NOT_SLOWER),
    outside("pgbench-outside-8", Served::Outside(8), 100, NOT_SLOWER),
    outside("posts-outside-50", Served::Posts(50), 50, NOT_SLOWER),
    outside("posts-outside-50-p99", Served::PostsP99(50), 50, ONE_COMMIT),
    // Commits for output alone, against one for each sync; about as many lines of output in each.
    eager("append-eager", APPEND, MANY_APPENDS),
    eager("tell-every-100-eager", tell(100), 50_000),
    eager("tell-every-10-eager", tell(10), 5000),
    eager("tell-every-1-eager", tell(1), 500),
    eager("sqlite-eager", Work::Sqlite, INSERTIONS),
    eager("postmark-eager", Work::Postmark, POSTMARK),
];

const fn tell(every: u32) -> Work {
    Work::Own(Workload::AppendAndTell(every))
}

const fn times(min: f64) -> Limit {
    Limit::RatioMin(min)
}

const fn on(mount: &'static str, under: Under, count: u32) -> Setup {
    Setup {
        mount,
        under,
        count,
    }
}

/// A server and its clients inside, against real syncs on ext4 as it is by default.
const fn served(
    test: &'static str,
    flush_ms: u64,
    served: Served,
    counts: (u32, u32),
    limit: Limit,
) -> Row {
    real(test, flush_ms, Work::Served(served), counts, limit)
}

/// A server whose clients are outside, against real syncs on the same file system.
const fn outside(test: &'static str, served: Served, count: u32, limit: Limit) -> Row {
    let peer = on(JOURNAL, Under::Nothing, count);
    against(test, Work::Served(served), peer, limit)
}

const fn row(test: &'static str, synced: Synced, limit: Limit) -> Row {
    Row {
        test,
        what: What::Sync(synced),
        limit,
        processor_limit: Limit::None,
        pairs_max: 5,
    }
}

/// Against eatmydata on the same file system.
const fn nothing(test: &'static str, work: Work, count: u32, ratio_max: f64) -> Row {
    against(
        test,
        work,
        on(JOURNAL, Under::Eatmydata, count),
        Limit::RatioMax(ratio_max),
    )
}

/// The same on a volume that nobody else sees, where nothing elsewhere can be changed by name.
const fn confined(test: &'static str, work: Work, count: u32, ratio_max: f64) -> Row {
    let peer = on(JOURNAL, Under::Eatmydata, count);
    let synced = Synced {
        flush: Duration::from_millis(1),
        work,
        value: Value::Time,
        ours: on(JOURNAL, Under::Confined, count),
        peer,
    };
    row(test, synced, Limit::RatioMax(ratio_max))
}

/// The same without a limit: what is left to gain against real syncs.
const fn bound(test: &'static str, work: Work, count: u32) -> Row {
    against(
        test,
        work,
        on(JOURNAL, Under::Eatmydata, count),
        Limit::None,
    )
}

/// Against eatmydata on ext4 as it is by default.
const fn ordered(test: &'static str, work: Work, count: u32) -> Row {
    against(test, work, on("", Under::Eatmydata, count), Limit::None)
}

/// Against commits at once.
const fn eager(test: &'static str, work: Work, count: u32) -> Row {
    against(test, work, on(JOURNAL, Under::Eager, count), Limit::None)
}

/// Against something that does the same, on the disk of the headline.
const fn against(test: &'static str, work: Work, peer: Setup, limit: Limit) -> Row {
    let synced = Synced {
        flush: Duration::from_millis(1),
        work,
        value: Value::Time,
        ours: on(JOURNAL, Under::Sync, peer.count),
        peer,
    };
    row(test, synced, limit)
}

/// Against real syncs on ext4 as it is by default. `counts` are ours and the peer's.
const fn real(
    test: &'static str,
    flush_ms: u64,
    work: Work,
    counts: (u32, u32),
    limit: Limit,
) -> Row {
    let synced = Synced {
        flush: Duration::from_millis(flush_ms),
        work,
        value: Value::Rate,
        ours: on(JOURNAL, Under::Sync, counts.0),
        peer: on("", Under::Nothing, counts.1),
    };
    row(test, synced, limit)
}
