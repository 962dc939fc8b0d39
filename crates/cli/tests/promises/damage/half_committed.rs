//! A commit that was cut short, of a domain that is damaged by then: the commit is finished or taken back as
//! if nothing were wrong, or it stays as it is.

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use surmise_commit::Activity;
use surmise_kept::{Aborted, DecideError, Domain, StateError, StateRoot};
use surmise_testkit::{Facets, Scratch, TreeSnapshot, assert_same_tree, tell};

use super::flip;
use crate::setting::Setting;

/// A file that keeps its inode, one with holes, and names that move.
const SCRIPT: &str = "\
    echo more >> small; printf x | dd of=zeros bs=1 seek=7000 conv=notrunc status=none; \
    rm gone; mkdir made; echo new > made/new; mv moved made/moved; chmod 600 dated; ln small made/link";

const SAME: Facets = Facets {
    ctime: false,
    inode: false,
    ..Facets::EXACT
};

/// In a sample, every so many bytes.
const SAMPLE: usize = 1201;

#[derive(Debug, Default)]
struct Counts {
    finished: usize,
    undone: usize,
    too_late: usize,
    refused: usize,
}

/// A tree with a commit that was cut short.
struct Cut {
    setting: Setting,
    before: TreeSnapshot,
    between: TreeSnapshot,
}

/// S50.
#[test]
fn a_commit_that_was_cut_short_is_finished_undone_or_left_whatever_byte_is_another() {
    let mut counts = Counts::default();
    let stride = match std::env::var_os("SURMISE_EVERY_STEP") {
        Some(_) => 83,
        None => SAMPLE,
    };
    let after = committed();
    let mut tried = 0;
    for steps in [0, 4, 7] {
        let first = cut(steps);
        for path in files(&first.directory()) {
            let length = fs::metadata(first.directory().join(&path)).unwrap().len() as usize;
            // At another place in each file, so that a sample meets all kinds.
            for offset in (tried * 37 % stride % length.max(1)..length).step_by(stride) {
                tried += 1;
                let (is_undo, is_cut) = (tried % 2 == 0, tried % 4 < 2);
                let cut = cut(steps);
                damage(&cut.directory().join(&path), offset as u64, is_cut);
                let what = format!("{steps} eighths, {}, byte {offset}", path.display());
                judge(&cut, &after, is_undo, &what, &mut counts);
            }
        }
    }
    tell(format_args!("{tried} states: {counts:?}"));
    assert!(
        counts.refused > 10 && counts.finished > 1 && counts.undone > 1,
        "{counts:?}"
    );
}

/// S50: what a commit replaced is thrown away only when it cannot be put back.
#[test]
fn an_abort_that_cannot_take_a_commit_back_now_keeps_what_it_takes() {
    let cut = cut(4);
    flip(&cut.directory().join("domain.json"), 1);
    // In the way of the note that an undo leaves.
    let obstacle = cut.directory().join("undone.new");
    fs::create_dir(&obstacle).unwrap();
    let refused = cut.domain().abort();
    assert!(
        matches!(refused, Err(StateError::NotTakenBack { .. })),
        "{refused:?}"
    );
    fs::remove_dir(&obstacle).unwrap();
    assert_eq!(cut.domain().abort().unwrap(), Aborted::Whole);
    let tree = TreeSnapshot::of(cut.setting.scratch.work());
    assert_same_tree(&cut.before, &tree, SAME);
    assert!(!cut.directory().exists());
}

/// S50: what an undo does not need may be damaged.
#[test]
fn a_commit_is_taken_back_of_a_domain_whose_own_changes_are_damaged() {
    let cut = cut(4);
    let log = cut.directory().join("log");
    flip(&log, fs::metadata(&log).unwrap().len() - 1);
    let error = act(&cut.domain(), false).unwrap_err();
    assert!(error.is_damage(), "{error}");
    act(&cut.domain(), true).unwrap();
    let tree = TreeSnapshot::of(cut.setting.scratch.work());
    assert_same_tree(&cut.before, &tree, SAME);
    let error = act(&cut.domain(), false).unwrap_err();
    assert!(error.is_damage(), "{error}");
}

/// S12: who keeps a domain whose commit was cut short has it durable, too.
#[test]
fn a_domain_whose_commit_was_cut_short_is_made_durable_and_can_be_finished() {
    let cut = cut(4);
    cut.domain().make_durable().unwrap();
    act(&cut.domain(), false).unwrap();
    let tree = TreeSnapshot::of(cut.setting.scratch.work());
    assert_same_tree(&committed(), &tree, Facets::SAME_RESULT);
}

fn judge(cut: &Cut, after: &TreeSnapshot, is_undo: bool, what: &str, counts: &mut Counts) {
    let tree = || TreeSnapshot::of(cut.setting.scratch.work());
    match act(&cut.domain(), is_undo) {
        Ok(()) if is_undo => {
            assert_same_tree(&cut.before, &tree(), SAME);
            counts.undone += 1;
        }
        Ok(()) => {
            assert_same_tree(after, &tree(), Facets::SAME_RESULT);
            counts.finished += 1;
        }
        Err(error) => {
            let told = error.to_string();
            let is_too_late = told.contains("has begun to remove");
            assert!(is_too_late || told.contains("damaged"), "{what}: {told}");
            assert_same_tree(&cut.between, &tree(), Facets::EXACT);
            match is_too_late {
                true => counts.too_late += 1,
                false => counts.refused += 1,
            }
            if !is_too_late {
                cut.domain()
                    .abort()
                    .unwrap_or_else(|error| panic!("{what}: {error}"));
            }
        }
    }
}

fn act(domain: &Domain, is_undo: bool) -> Result<(), DecideError> {
    let mut on_progress = |_| ControlFlow::Continue(());
    match is_undo {
        true => domain.undo_commit(&mut on_progress),
        false => domain
            .clone()
            .commit(&mut on_progress, &mut |_, _| Ok(()))
            .map(drop),
    }
}

fn damage(path: &Path, offset: u64, is_cut: bool) {
    match is_cut {
        true => fs::File::options()
            .write(true)
            .open(path)
            .unwrap()
            .set_len(offset)
            .unwrap(),
        false => flip(path, offset),
    }
}

impl Cut {
    fn domain(&self) -> Domain {
        StateRoot::at(self.setting.scratch.state().join("surmise"))
            .open("t")
            .unwrap()
    }

    fn directory(&self) -> PathBuf {
        self.setting.scratch.state().join("surmise/t")
    }
}

/// A domain that is kept, of a tree that is always the same.
fn kept() -> Setting {
    let setting = Setting {
        scratch: Scratch::new(),
        user: None,
    };
    for name in ["small", "moved", "gone", "dated"] {
        setting.scratch.file(name, format!("{name}\n"));
    }
    setting.scratch.file("zeros", vec![0; 8000]);
    setting.run_script(SCRIPT);
    setting
}

/// Cut short when so many eighths of its steps are applied.
fn cut(steps: usize) -> Cut {
    let setting = kept();
    let before = TreeSnapshot::of(setting.scratch.work());
    let domain = StateRoot::at(setting.scratch.state().join("surmise"))
        .open("t")
        .unwrap();
    let stopped = domain.commit(
        &mut |progress| match progress.activity {
            Activity::Apply if progress.done * 8 >= progress.total * steps => {
                ControlFlow::Break(())
            }
            _ => ControlFlow::Continue(()),
        },
        &mut |_, _| Ok(()),
    );
    assert!(stopped.is_err(), "{stopped:?}");
    let between = TreeSnapshot::of(setting.scratch.work());
    Cut {
        setting,
        before,
        between,
    }
}

fn committed() -> TreeSnapshot {
    let setting = kept();
    setting.succeed(&["commit", "t"]);
    TreeSnapshot::of(setting.scratch.work())
}

/// The files of a domain whose bytes matter, relative to its directory.
fn files(directory: &Path) -> Vec<PathBuf> {
    let mut files = super::files(directory);
    // An object that has a name outside by now is no longer the domain's.
    files.retain(|path| {
        use std::os::unix::fs::MetadataExt;
        !path.ends_with("lock") && fs::metadata(path).unwrap().nlink() == 1
    });
    let relative = |path: PathBuf| path.strip_prefix(directory).unwrap().to_owned();
    files.into_iter().map(relative).collect()
}
