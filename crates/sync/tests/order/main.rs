//! S32: after a power loss at any moment, what was committed is there, and no change is there without all
//! that were made before it.
//!
//! A disk that remembers its writes is put into states in which a loss of power could have left it.
//! `SURMISE_STATES=1000` has so many tried for each setting; without it, a few.

mod work;

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use surmise_sync::{Guarantee, NoDriver, driver_of};
use surmise_testkit::{BlockLog, PowerLoss, tell};
use work::{Left, Work};

const DISK_BYTES: usize = 96 << 20;
const LIMIT: Duration = Duration::from_secs(1800);

#[test]
fn ext4_with_journaled_data_keeps_the_order() {
    let test = "ext4_with_journaled_data_keeps_the_order";
    BlockLog::with(test, DISK_BYTES, LIMIT, |disk| {
        disk.make_ext4();
        let found = losses(disk, "data=journal", Commits::ByDriver);
        tell(format_args!("data=journal: {found:?}"));
        assert_eq!((found.unordered, found.lost), (0, 0));
    });
}

#[test]
fn ext4_with_marked_files_and_no_delayed_allocation_keeps_the_order() {
    let test = "ext4_with_marked_files_and_no_delayed_allocation_keeps_the_order";
    BlockLog::with(test, DISK_BYTES, LIMIT, |disk| {
        disk.make_ext4();
        mark(disk, true);
        let found = losses(disk, "nodelalloc", Commits::ByDriver);
        tell(format_args!("nodelalloc and attribute j: {found:?}"));
        assert_eq!((found.unordered, found.lost), (0, 0));
    });
}

/// What makes the two tests above mean something: the same work where nobody keeps the order.
#[test]
fn ext4_as_it_comes_does_not_keep_the_order_and_has_no_driver() {
    let test = "ext4_as_it_comes_does_not_keep_the_order_and_has_no_driver";
    BlockLog::with(test, DISK_BYTES, LIMIT, |disk| {
        disk.make_ext4();
        let found = losses(disk, "", Commits::Never);
        tell(format_args!("ext4 as it comes: {found:?}"));
        assert!(found.unordered > found.states / 4, "{found:?}");
        for (options, marked, reason) in [
            ("", false, "without data=journal"),
            ("", true, "need the mount option nodelalloc"),
            ("data=writeback", false, "data=writeback"),
            ("data=journal,nobarrier", false, "nobarrier"),
            (
                "data=journal,journal_async_commit",
                false,
                "journal_async_commit",
            ),
        ] {
            mark(disk, marked);
            let mounted = disk.mount_with(options);
            match driver_of(mounted.path()) {
                Err(NoDriver::Unordered { reason: told, .. }) => {
                    assert!(told.contains(reason), "{options}: {told}");
                }
                other => panic!("{options}: {other:?}"),
            }
        }
    });
}

#[test]
fn a_driver_covers_its_own_file_system_alone() {
    let test = "a_driver_covers_its_own_file_system_alone";
    BlockLog::with(test, DISK_BYTES, LIMIT, |disk| {
        disk.make_ext4();
        let old = disk.mount();
        std::fs::write(old.path().join("old"), "made before").expect("write");
        drop(old);
        mark(disk, true);
        let mounted = disk.mount_with("nodelalloc");
        let driver = driver_of(mounted.path()).expect("a driver");
        std::fs::write(mounted.path().join("new"), "made since").expect("write");
        let covers = |path: &Path| {
            let file = std::fs::File::open(path).expect("open");
            driver.covers(std::os::fd::AsFd::as_fd(&file)).expect("ask")
        };
        assert!(covers(&mounted.path().join("new")) && covers(mounted.path()));
        assert!(!covers(&mounted.path().join("old")));
        assert!(!covers(Path::new("/proc/self/status")));
    });
}

/// Gives the root directory the attribute `j`, or takes it away. chattr(1) would do it, with
/// `CAP_SYS_RESOURCE`.
fn mark(disk: &BlockLog, is_marked: bool) {
    // It has extents, as every new directory.
    let flags = if is_marked { "0x84000" } else { "0x80000" };
    let status = Command::new("debugfs")
        .args(["-w", "-R", &format!("set_inode_field / flags {flags}")])
        .arg(disk.device())
        .stderr(Stdio::null())
        .status();
    assert!(status.expect("start debugfs").success());
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Commits {
    /// At random moments, as well as whatever else the kernel writes.
    ByDriver,
    /// The kernel alone writes.
    Never,
}

/// What power losses left.
#[derive(Debug, Default)]
struct Found {
    states: usize,
    /// A change was there, and an earlier one was not.
    unordered: usize,
    /// A change was not there that had been committed.
    lost: usize,
    /// How many changes were there at most.
    changes_max: usize,
}

fn losses(disk: &BlockLog, options: &str, commits: Commits) -> Found {
    let mounted = disk.mount_with(options);
    let driver = (commits == Commits::ByDriver).then(|| {
        let driver = driver_of(mounted.path()).unwrap_or_else(|lack| panic!("{options}: {lack}"));
        assert_eq!(driver.guarantee(), Guarantee::Ordered);
        driver
    });
    let work = Work::begin(mounted.path());
    disk.record();
    let marks = work.run(disk, driver.as_deref());
    let flushes = disk.stop().len();
    drop((driver, mounted));
    let mut found = Found::default();
    let states = states();
    for state in 0..states {
        // Every third state is exactly what a flush left.
        let seed = (state % 3 > 0).then_some(state as u64);
        let loss = PowerLoss {
            flushes: state * flushes / states,
            seed,
        };
        disk.lose_power(loss);
        let recovered = disk.mount_with(options);
        let Left {
            first_missing,
            last,
        } = work.look(recovered.path());
        found.states += 1;
        found.changes_max = found.changes_max.max(last.map_or(0, |last| last + 1));
        if first_missing.is_some_and(|missing| Some(missing) < last) {
            found.unordered += 1;
        }
        let committed = marks.iter().rev().find(|mark| mark.flushes <= loss.flushes);
        let committed = committed.map_or(0, |mark| mark.changes);
        if first_missing.is_some_and(|missing| missing < committed) {
            found.lost += 1;
        }
    }
    assert!(
        found.changes_max > 50,
        "hardly anything was written: {found:?}"
    );
    found
}

fn states() -> usize {
    let states = std::env::var("SURMISE_STATES");
    states.map_or(45, |states| {
        states.parse().expect("SURMISE_STATES is a number")
    })
}
