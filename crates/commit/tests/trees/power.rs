//! S6 and S20: a commit of 200 changes of every kind, cut short by a loss of power, is all or nothing:
//! `undo` leaves nothing of it, and `resume` makes all of it real.
//!
//! The tree and the state directory are on a disk that records its writes and flushes. It is put into
//! the states that a loss of power could have left, the file system recovers by its own journal, and
//! then the commit is resumed, and in the same state again undone. A run takes a sample of the states;
//! with `SURMISE_EVERY_STEP=1` it takes all flushes, as `make soak` does.

use std::fs::File;
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::Duration;

use surmise_commit::{Activity, CommitError, Phase, Resumed, pending, undo};
use surmise_testkit::{BlockLog, PowerLoss, TreeSnapshot, tell};

use crate::harness::World;
use crate::kills::tree;

const DISK_BYTES: usize = 24 << 20;
const LIMIT: Duration = Duration::from_secs(3600);

/// Flushes in a sample of a recording's.
const SAMPLE: usize = 6;
/// States tried on a disk of another number.
const RENUMBERED: usize = 16;
/// Random parts of what was written and not flushed, where the commit alone flushes.
const SEEDS: u64 = 8;

/// What somebody else has the file system write before each step of a commit. Its journal is committed
/// every few seconds anyway, so any step may be durable alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meanwhile {
    /// Nothing: only the commit's own flushes count.
    Nothing,
    /// The names and inodes, but no data that wait: somebody flushes a file of theirs.
    Names,
    /// Everything.
    All,
}

#[derive(Debug, Default)]
struct Counts {
    states: usize,
    resumed_to_all: usize,
    resumed_to_nothing: usize,
    undone: usize,
    too_late: usize,
    not_begun: usize,
    failures: usize,
}

/// S6, S20.
#[test]
fn a_commit_of_200_changes_is_all_or_nothing_after_a_power_loss() {
    let test = "power::a_commit_of_200_changes_is_all_or_nothing_after_a_power_loss";
    BlockLog::with(test, DISK_BYTES, LIMIT, |disk| {
        let mut all = Counts::default();
        for (meanwhile, is_undo) in recordings() {
            let counts = lose_power(disk, meanwhile, is_undo);
            all.add(&counts);
        }
        tell(format_args!("power losses: {all:?}"));
        assert_eq!(all.failures, 0);
        assert!(all.resumed_to_all > 3 && all.resumed_to_nothing > 3);
        assert!(all.undone > 3 && all.too_late > 0);
    });
}

/// During what the power fails: a commit or, where it says so, the undo of one that was cut short.
fn recordings() -> Vec<(Meanwhile, bool)> {
    let (names, all) = (Meanwhile::Names, Meanwhile::All);
    let mut recordings = vec![(Meanwhile::Nothing, false), (names, false), (names, true)];
    if is_every() {
        recordings.extend([(Meanwhile::Nothing, true), (all, false), (all, true)]);
    }
    recordings
}

/// S6: at the machine's next start the disk may have another device number.
#[test]
fn a_commit_is_finished_and_undone_on_a_disk_of_another_number() {
    let test = "power::a_commit_is_finished_and_undone_on_a_disk_of_another_number";
    BlockLog::with(test, DISK_BYTES, LIMIT, |disk| {
        disk.make_ext4();
        let mounted = disk.mount();
        let mut world = World::between(mounted.path(), mounted.path(), tree::plant);
        world.act(&tree::acts());
        world.let_go();
        let before = TreeSnapshot::of(world.real());
        Meanwhile::All.write(mounted.path(), 0);
        disk.record();
        let mut steps = 0;
        let report = world.commit_with(None, &mut |_| {
            Meanwhile::Names.write(mounted.path(), steps);
            steps += 1;
            ControlFlow::Continue(())
        });
        assert_eq!(report.expect("a commit"), Default::default());
        let flushes = disk.stop().len();
        drop(mounted);
        let (mut all, mut nothing, mut undone) = (0, 0, 0);
        for flushes in (0..flushes).step_by(flushes / RENUMBERED) {
            let loss = PowerLoss {
                flushes,
                seed: None,
            };
            disk.lose_power(loss);
            let mounted = disk.mount_renumbered();
            match world.resume(&[]) {
                Resumed::Finished(report) => {
                    assert_eq!(report, Default::default(), "{loss:?}");
                    world.assert_same();
                    all += 1;
                }
                Resumed::Undone | Resumed::Nothing => {
                    world.assert_undone(&before);
                    world.assert_commits();
                    nothing += 1;
                }
            }
            drop(mounted);
            disk.lose_power(loss);
            let _mounted = disk.mount_renumbered();
            if pending(&world.state()).unwrap().is_some() && world.undo(&[]) {
                world.assert_undone(&before);
                world.assert_commits();
                undone += 1;
            }
        }
        tell(format_args!(
            "renumbered: {all} finished, {nothing} taken back, {undone} undone"
        ));
        assert!(all > 3 && nothing > 3 && undone > 3);
    });
}

/// Records it, and loses power in it.
fn lose_power(disk: &BlockLog, meanwhile: Meanwhile, is_undo: bool) -> Counts {
    disk.make_ext4();
    let mounted = disk.mount();
    let mut world = World::between(mounted.path(), mounted.path(), tree::plant);
    world.act(&tree::acts());
    assert!(world.lines().len() >= 200, "{}", world.lines().len());
    world.let_go();
    let before = TreeSnapshot::of(world.real());
    let mut steps = 0;
    let mut on_progress = |_| {
        meanwhile.write(mounted.path(), steps);
        steps += 1;
        ControlFlow::Continue(())
    };
    if is_undo {
        // By then names have moved and files were written, and nothing is removed.
        let cut = world.commit_with(None, &mut |now| match now.activity {
            Activity::Apply if now.done > now.total / 2 => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        });
        assert!(matches!(cut, Err(CommitError::Stopped)), "{cut:?}");
        assert_eq!(pending(&world.state()).unwrap(), Some(Phase::Applying));
    }
    Meanwhile::All.write(mounted.path(), 0);
    disk.record();
    match is_undo {
        false => assert_eq!(
            world.commit_with(None, &mut on_progress).expect("a commit"),
            Default::default()
        ),
        true => undo(&world.state(), &mut on_progress).expect("an undo"),
    }
    let blocks = disk.stop();
    drop(mounted);
    let mut counts = Counts::default();
    for loss in states(&blocks, meanwhile) {
        let checked = || {
            let is_all = check(disk, &world, &before, loss, &mut counts);
            let is_over = loss.flushes == blocks.len() - 1;
            assert!(
                !is_over || is_all != is_undo,
                "it returned and was not durable"
            );
        };
        let checked = catch_unwind(AssertUnwindSafe(checked));
        counts.states += 1;
        if checked.is_err() {
            counts.failures += 1;
            tell(format_args!(
                "failed: {meanwhile:?}, undo {is_undo}, {loss:?}"
            ));
        }
    }
    let (flushes, blocks) = (blocks.len() - 1, blocks.iter().sum::<usize>());
    let what = if is_undo { "undo" } else { "commit" };
    tell(format_args!(
        "{what} of {steps} steps, {flushes} flushes and {blocks} blocks; meanwhile written: \
         {meanwhile:?}; {counts:?}"
    ));
    counts
}

/// The states to try, of a recording with so many blocks before each flush and behind the last.
fn states(blocks: &[usize], meanwhile: Meanwhile) -> Vec<PowerLoss> {
    let last = blocks.len() - 1;
    let stride = match (is_every(), meanwhile) {
        (false, _) => blocks.len().div_ceil(SAMPLE),
        (true, Meanwhile::All) => 3,
        (true, _) => 1,
    };
    let seeds = |flushes: usize| match meanwhile {
        Meanwhile::Nothing if is_every() => (0..SEEDS).map(Some).chain([None]).collect(),
        // Two of three with a part of what was not flushed.
        _ => vec![(!flushes.is_multiple_of(3)).then_some(flushes as u64)],
    };
    let flushes = (0..last).step_by(stride).chain([last]);
    let losses = flushes.flat_map(|flushes| {
        let seeds = seeds(flushes).into_iter();
        seeds.map(move |seed| PowerLoss { flushes, seed })
    });
    losses.collect()
}

fn is_every() -> bool {
    std::env::var_os("SURMISE_EVERY_STEP").is_some()
}

/// After a loss of power: resumed, and in the same state once more undone. Whether resuming led to all.
fn check(
    disk: &BlockLog,
    world: &World,
    before: &TreeSnapshot,
    loss: PowerLoss,
    counts: &mut Counts,
) -> bool {
    disk.lose_power(loss);
    let mounted = disk.mount();
    let is_all = match world.resume(&[]) {
        Resumed::Finished(report) => {
            assert_eq!(report, Default::default());
            world.assert_same();
            counts.resumed_to_all += 1;
            true
        }
        Resumed::Undone | Resumed::Nothing => {
            world.assert_undone(before);
            // The domain is kept, whole.
            world.assert_commits();
            counts.resumed_to_nothing += 1;
            false
        }
    };
    drop(mounted);
    disk.lose_power(loss);
    let _mounted = disk.mount();
    if pending(&world.state()).expect("a journal").is_none() {
        world.assert_undone(before);
        counts.not_begun += 1;
    } else if world.undo(&[]) {
        world.assert_undone(before);
        // Else resuming did the same.
        if is_all {
            world.assert_commits();
        }
        counts.undone += 1;
    } else {
        counts.too_late += 1;
    }
    is_all
}

impl Meanwhile {
    fn write(self, place: &Path, step: u64) {
        match self {
            Self::Nothing => {}
            Self::Names => {
                let mut options = File::options();
                let file = options.write(true).create(true).truncate(false);
                let file = file.open(place.join("elsewhere")).expect("a file");
                file.write_all_at(b"!", step).expect("written");
                file.sync_all().expect("flushed");
            }
            Self::All => {
                let place = File::open(place).expect("a directory");
                rustix::fs::syncfs(place).expect("flushed");
            }
        }
    }
}

impl Counts {
    fn add(&mut self, more: &Self) {
        self.states += more.states;
        self.resumed_to_all += more.resumed_to_all;
        self.resumed_to_nothing += more.resumed_to_nothing;
        self.undone += more.undone;
        self.too_late += more.too_late;
        self.not_begun += more.not_begun;
        self.failures += more.failures;
    }
}
