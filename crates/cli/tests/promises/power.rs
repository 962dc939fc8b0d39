//! S1, S12, S20: power losses during and after `surmise run` and `surmise commit`.
//!
//! The tree, the home and the state are on a disk that records what it is written (root). It is put into
//! states that a loss of power could have left.

use std::fs::File;
use std::time::Duration;

use surmise_testkit::{
    BlockLog, Facets, Mounted, PowerLoss, Scratch, TreeSnapshot, assert_same_tree, tell,
};

use crate::setting::Setting;

const DISK_BYTES: usize = 48 << 20;
const LIMIT: Duration = Duration::from_secs(300);
/// States tried for each flush: the disk lacks all that was not flushed, or a part of it.
const SEEDS: [Option<u64>; 2] = [None, Some(1)];

/// Changes of every kind; large enough for objects that borrow blocks.
const SCRIPT: &str = "\
    echo more >> small; printf x >> large; echo new > new; mkdir -p made/below; mv moved made/; \
    rm gone; ln large link; ln -s new symlink; chmod 600 small; touch -d @1000000 dated; \
    i=0; while [ $i -lt 50 ]; do echo $i > made/below/$i; i=$((i + 1)); done";

fn plant(scratch: &Scratch) {
    for name in ["small", "moved", "gone", "dated"] {
        scratch.file(name, name);
    }
    scratch.file("large", vec![b'y'; 3 << 20]);
}

/// An empty file system, with a place to work in.
fn begin(disk: &BlockLog) -> (Mounted, Setting) {
    disk.make_ext4();
    let mounted = disk.mount();
    let setting = Setting {
        scratch: Scratch::below(mounted.path()),
        user: None,
    };
    (mounted, setting)
}

/// Does it, and returns the states in which a loss of power meanwhile or afterwards leaves the disk.
fn record(disk: &BlockLog, scratch: &Scratch, act: impl FnOnce()) -> Vec<PowerLoss> {
    rustix::fs::syncfs(File::open(scratch.root()).unwrap()).unwrap();
    disk.record();
    act();
    let flushes = 0..disk.stop().len();
    let losses = flushes.flat_map(|flushes| SEEDS.map(|seed| PowerLoss { flushes, seed }));
    losses.collect()
}

/// S1, S12: the domain is whole once `run` has returned; before, the real tree is untouched and the
/// domain, if there is one, can be aborted.
#[test]
fn a_power_loss_after_a_run_keeps_its_domain() {
    let test = "power::a_power_loss_after_a_run_keeps_its_domain";
    BlockLog::with(test, DISK_BYTES, LIMIT, |disk| {
        let (mounted, setting) = begin(disk);
        let twin = setting.twin();
        plant(&setting.scratch);
        plant(&twin.scratch);
        let run = ["sh", "-ec", SCRIPT];
        twin.plain(&run).outcome().assert_success();
        let (before, after) = (
            TreeSnapshot::of(setting.scratch.work()),
            TreeSnapshot::of(twin.scratch.work()),
        );
        let losses = record(disk, &setting.scratch, || drop(setting.run_script(SCRIPT)));
        let diff = setting.succeed(&["diff", "t"]).stdout;
        drop(mounted);

        let last = losses.last().expect("a state").flushes;
        let mut kept = 0;
        for loss in &losses {
            disk.lose_power(*loss);
            let _mounted = disk.mount();
            let tree = TreeSnapshot::of(setting.scratch.work());
            assert_same_tree(&before, &tree, Facets::EXACT);
            if loss.flushes == last {
                setting.succeed(&["diff", "t"]).assert_stdout(&diff);
                setting.succeed(&["commit", "t"]);
                let tree = TreeSnapshot::of(setting.scratch.work());
                assert_same_tree(&after, &tree, Facets::SAME_RESULT);
            } else if setting.succeed(&["list", "--names"]).stdout == "t\n" {
                kept += 1;
                setting.succeed(&["abort", "t"]);
                let tree = TreeSnapshot::of(setting.scratch.work());
                assert_same_tree(&before, &tree, Facets::EXACT);
            }
        }
        tell(format_args!(
            "losses of power during and after a run: {} states, {kept} with a part of the domain",
            losses.len()
        ));
    });
}

/// S20: once `commit` has returned, all of it is there; before, commit finishes it.
#[test]
fn a_power_loss_in_a_commit_leaves_it_to_be_finished() {
    let test = "power::a_power_loss_in_a_commit_leaves_it_to_be_finished";
    BlockLog::with(test, DISK_BYTES, LIMIT, |disk| {
        let (mounted, setting) = begin(disk);
        plant(&setting.scratch);
        setting.run_script(SCRIPT);
        let losses = record(disk, &setting.scratch, || {
            drop(setting.succeed(&["commit", "t"]))
        });
        let after = TreeSnapshot::of(setting.scratch.work());
        drop(mounted);

        let same = Facets {
            ctime: false,
            inode: false,
            ..Facets::EXACT
        };
        let last = losses.last().expect("a state").flushes;
        let mut finished = 0;
        for loss in &losses {
            disk.lose_power(*loss);
            let _mounted = disk.mount();
            if loss.flushes == last {
                let tree = TreeSnapshot::of(setting.scratch.work());
                assert_same_tree(&after, &tree, same);
            }
            if setting.succeed(&["list", "--names"]).stdout == "t\n" {
                finished += 1;
                setting.succeed(&["commit", "t"]);
            }
            let tree = TreeSnapshot::of(setting.scratch.work());
            assert_same_tree(&after, &tree, same);
        }
        tell(format_args!(
            "losses of power during and after a commit: {} states, {finished} to be finished",
            losses.len()
        ));
    });
}

/// S20: the domain of a commit right after a run has not been made durable by then. A commit that is finished
/// after a power loss goes by its log, which tells which data an object has got.
#[test]
fn a_power_loss_in_a_commit_right_after_a_run_leaves_it_to_be_finished() {
    let test = "power::a_power_loss_in_a_commit_right_after_a_run_leaves_it_to_be_finished";
    BlockLog::with(test, DISK_BYTES, LIMIT, |disk| {
        let (mounted, setting) = begin(disk);
        plant(&setting.scratch);
        let before = TreeSnapshot::of(setting.scratch.work());
        let change =
            "printf x | dd of=large bs=1 seek=1000000 conv=notrunc status=none; echo new > new";
        let losses = record(disk, &setting.scratch, || {
            let run = ["run", "--name", "t", "--commit", "--", "sh", "-ec", change];
            drop(setting.succeed(&run));
        });
        let after = TreeSnapshot::of(setting.scratch.work());
        drop(mounted);

        let mut finished = 0;
        for loss in &losses {
            disk.lose_power(*loss);
            let _mounted = disk.mount();
            let list = setting.succeed(&["list"]).stdout;
            if list.contains("committing") {
                finished += 1;
                setting.succeed(&["commit", "t"]);
            } else if list.contains("interrupted") {
                setting.succeed(&["abort", "t"]);
            }
            let tree = TreeSnapshot::of(setting.scratch.work());
            let is_committed = setting.scratch.path("new").exists();
            let wanted = if is_committed { &after } else { &before };
            assert_same_tree(wanted, &tree, Facets::SAME_RESULT);
        }
        tell(format_args!(
            "losses of power during a commit right after a run: {} states, {finished} to be finished",
            losses.len()
        ));
        assert!(finished > 0);
    });
}
