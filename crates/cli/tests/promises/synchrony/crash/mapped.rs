//! S35: a program that stores into a shared map what it has synced elsewhere before: while it has one, syncs are real.
//! S47: those of an index of SQLite are not. So here is also what becomes of a map that is taken for an index and is
//! none.

use std::fs;
use std::path::Path;

use surmise_testkit::{BlockLog, surmise_binary, tell};

use super::ledger::states;
use super::programs::Program;
use super::trial::{Found, Trial};
use super::{DISK_BYTES, limit, named};

const STORES: Program = Program::new("stores", STORING, records_before_stores);

/// How many records, and how many of them for a line that is shown.
const COUNTS: [&str; 2] = ["1000", "30"];

/// So few have something wrong that it should be looked for in more.
const STATES_MIN: usize = 60;

/// How often it is looked for: the processes may hardly come to their turn.
const TRIES: usize = 5;

/// The kernel protects what is mapped when a transaction is closed, page after page. So what is stored in a page
/// before its turn, but after the next transaction has begun, comes into the one that is closed, and a write that was
/// made before comes into the next one.
///
/// Here records are written and synced, and the number of each is then stored in a map. Two more maps have their pages
/// protected first, or last, and a hundred processes look at them, so that it takes long. All three are files of names
/// as are given, or have the name and the looks of indexes of SQLite.
const STORING: &str = r#"
import mmap, os, sqlite3, sys, time
PAGE, PAGES, COUNT, EVERY = 4096, 96, int(sys.argv[2]), int(sys.argv[3])
bases = []
def mapped(name):
    if sys.argv[1] == "plain":
        file = os.open(name, os.O_RDWR | os.O_CREAT, 0o600)
    else:
        base = sqlite3.connect(name, isolation_level=None)
        assert base.execute("pragma journal_mode=wal").fetchone() == ("wal",)
        base.execute("create table rows (n)")
        bases.append(base)
        file = os.open(name + "-shm", os.O_RDWR)
    # Behind what SQLite has there.
    os.ftruncate(file, (32 << 10) + PAGES * PAGE)
    return mmap.mmap(file, PAGES * PAGE, offset=32 << 10)
before, stored, after = mapped("before"), mapped("stored"), mapped("after")
for child in range(100):
    if os.fork() == 0:
        before[::PAGE], after[::PAGE]
        time.sleep(1000)
records = os.open("records", os.O_RDWR | os.O_CREAT, 0o600)
os.write(records, bytes(COUNT * PAGE))
os.fsync(records)
for n in range(1, 1 + COUNT):
    os.pwrite(records, b"%d" % n, (n - 1) * PAGE)
    os.fsync(records)
    stored[:4] = n.to_bytes(4, sys.byteorder)
    if n % 10 == 0:
        for other in before, after:
            for page in range(PAGES):
                other[page * PAGE] = n & 255
    if n % EVERY == 0:
        print(n, flush=True)
os._exit(0)
"#;

/// How many records there are, where none is missing that was synced before what is stored.
fn records_before_stores(directory: &Path) -> Option<usize> {
    let read = |name: &str| fs::read(directory.join(name)).unwrap_or_default();
    let records = read("records");
    let records = records.chunks(4096).take_while(|record| record[0] != 0);
    let records = records.count();
    let stored = ["stored", "stored-shm"].map(|name| {
        let number = read(name).get(32 << 10..)?.get(..4)?.try_into().ok()?;
        Some(u32::from_ne_bytes(number) as usize)
    });
    let stored = stored.into_iter().flatten().max().unwrap_or(0);
    (stored <= records).then_some(records)
}

/// What is left of the program whose maps are such.
fn power_losses(disk: &BlockLog, maps: &str) -> Found {
    let binary = surmise_binary().display().to_string();
    // It has to come to its turn while the kernel protects pages.
    let first = ["nice", "-n", "-20", &binary, "sync", "--"];
    let command = STORES.command(&first, &[maps, COUNTS[0], COUNTS[1]]);
    let found = Trial {
        program: &STORES,
        command: &command,
        options: "data=journal",
        kill: None,
        states: states().max(STATES_MIN),
    }
    .run(disk);
    tell(format_args!("{maps}: {found:?}"));
    found
}

#[test]
fn stores_that_follow_a_sync_do_not_come_before_it() {
    let test = named("mapped::stores_that_follow_a_sync_do_not_come_before_it");
    BlockLog::with(&test, DISK_BYTES, limit(), |disk| {
        let found = power_losses(disk, "plain");
        assert_eq!(found.wrong(), 0, "{found:?}");
    });
}

/// What makes the test above mean something: so it would be with every map, were any taken for disposable.
#[test]
fn stores_come_first_where_a_map_is_taken_for_an_index() {
    let test = named("mapped::stores_come_first_where_a_map_is_taken_for_an_index");
    BlockLog::with(&test, DISK_BYTES, limit(), |disk| {
        let mut tries = (0..TRIES).map(|_| power_losses(disk, "index"));
        assert!(tries.any(|found| found.wrong() > 0), "none is wrong");
    });
}
