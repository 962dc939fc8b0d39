//! Every byte of every file of a kept domain flipped, and every length cut: it is as it was, or damaged.
//!
//! A run takes a sample of the bytes; with `SURMISE_EVERY_STEP=1` it takes all, as `make soak` does.

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use surmise_changes::Changes;
use surmise_diff::Diff;
use surmise_diff::forms::{Contents, Shown, patch};
use surmise_kept::{DecideError, Domain, HeldChannel, StateRoot, Status};
use surmise_testkit::{Facets, Scratch, TreeSnapshot, assert_same_tree, tell};
use surmise_view::Read;

use super::{files, flip, keep};
use crate::setting::Setting;

/// All that a commit goes by.
#[derive(Debug, PartialEq)]
struct Seen {
    status: Status,
    patch: Vec<u8>,
    lines: Vec<String>,
    held: Vec<HeldChannel>,
    reads: Vec<Read>,
}

/// In a sample, every so many bytes; a prime, so that it meets every part of a record.
const SAMPLE: usize = 23;

/// Of the damaged states, a commit is tried of one of so many.
const TRIED: usize = 8;

#[derive(Debug, Default)]
struct Counts {
    same: usize,
    damaged: usize,
}

/// S50.
#[test]
fn a_kept_domain_is_as_it_was_or_damaged_whatever_byte_is_another() {
    let setting = Setting {
        scratch: Scratch::new(),
        user: None,
    };
    keep(&setting);
    let root = StateRoot::at(setting.scratch.state().join("surmise"));
    let open = || root.open("t").expect("it is there, damaged or not");
    let seen = look(&open()).expect("nothing is damaged");
    let (tree, domain) = (TreeSnapshot::of(setting.scratch.work()), open());
    let mut counts = Counts::default();
    let stride = match std::env::var_os("SURMISE_EVERY_STEP") {
        Some(_) => 1,
        None => SAMPLE,
    };
    for path in files(domain.directory()) {
        let whole = fs::read(&path).unwrap();
        let before = (counts.same, counts.damaged);
        for offset in (0..whole.len()).step_by(stride) {
            flip(&path, offset as u64);
            judge(&open(), &seen, &mut counts, &|| {
                format!("{}, byte {offset}", path.display())
            });
            flip(&path, offset as u64);
        }
        for length in (0..whole.len()).step_by(stride) {
            fs::write(&path, &whole[..length]).unwrap();
            judge(&open(), &seen, &mut counts, &|| {
                format!("{}, {length} bytes", path.display())
            });
        }
        fs::write(&path, &whole).unwrap();
        let (same, damaged) = (counts.same - before.0, counts.damaged - before.1);
        let name = path.strip_prefix(domain.directory()).unwrap();
        tell(format_args!(
            "{}: {} bytes, {same} the same, {damaged} damaged",
            name.display(),
            whole.len()
        ));
    }
    assert_same_tree(
        &tree,
        &TreeSnapshot::of(setting.scratch.work()),
        Facets::EXACT,
    );
    assert_eq!(look(&open()).expect("as it was"), seen);
    tell(format_args!("{counts:?}"));
    let (damaged, same) = (counts.damaged * stride, counts.same * stride);
    assert!(damaged > 5000 && same > 1000, "{counts:?}");
    setting.succeed(&["commit", "t"]);
}

/// It is all there, or it is damaged.
fn judge(domain: &Domain, seen: &Seen, counts: &mut Counts, what: &dyn Fn() -> String) {
    match look(domain) {
        Ok(now) => {
            assert_eq!(now, *seen, "{}", what());
            counts.same += 1;
        }
        Err(told) => {
            assert!(told.contains("damaged at byte"), "{}: {told}", what());
            if counts.damaged.is_multiple_of(TRIED) {
                refuse(domain, what);
            }
            counts.damaged += 1;
        }
    }
}

/// No commit touches anything, and reading what is left comes to an end.
fn refuse(domain: &Domain, what: &dyn Fn() -> String) {
    let before = contents(domain.directory());
    let committed = domain
        .clone()
        .commit(&mut |_| ControlFlow::Continue(()), &mut |_, _| Ok(()));
    let error = committed.expect_err("nothing of a damaged domain is committed");
    assert!(error.is_damage(), "{}: {error}", what());
    let is_untouched = before == contents(domain.directory());
    assert!(is_untouched, "{}: something was changed", what());
    if let Ok(salvaged) = domain.salvage() {
        let _ = Changes::of(&salvaged.map);
    }
}

fn look(domain: &Domain) -> Result<Seen, String> {
    let told = |error: DecideError| error.to_string();
    let diff = Diff::without_notes(domain.changes().map_err(told)?);
    let map = domain.contents().map_err(told)?;
    let contents = Contents {
        map: &map,
        directory: domain.directory(),
        root: Path::new("/"),
    };
    let shown = Shown {
        diff: &diff,
        held: &[],
        base: Path::new("/"),
    };
    let mut text = Vec::new();
    patch::write(&shown, &contents, &mut text).map_err(|error| error.to_string())?;
    Ok(Seen {
        status: domain.status(),
        patch: text,
        lines: diff.iter().map(|row| row.line(Path::new("/"))).collect(),
        held: domain.held().map_err(told)?,
        reads: surmise_view::load_reads(domain.directory()).map_err(|error| error.to_string())?,
    })
}

/// What is in all files, but for the number of who holds the lock.
fn contents(directory: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files = files(directory);
    files.retain(|path| !path.ends_with("lock"));
    files
        .into_iter()
        .map(|path| (path.clone(), fs::read(path).unwrap()))
        .collect()
}
