//! Calls that fail once: a server goes on when they have passed.

use super::super::fault::tests::{allow, is_over};
use super::super::redo::Earlier;
use super::super::{Batch, Directory, Stuck};
use super::{Expected, Step, make_export, open};

/// A call fails in a way that passes, and what was begun is tried again.
fn pass_after(seed: u64, calls: u64) -> Result<bool, String> {
    let scratch = tempfile::tempdir().expect("a directory");
    make_export(scratch.path());
    let mut directory = open(scratch.path());
    directory.redo(&Earlier::default()).expect("nothing to do");
    let mut expected = Expected::load(&mut directory);
    let steps = expected.history(&mut fastrand::Rng::with_seed(seed));
    allow(Some(calls));
    let mut has_failed = false;
    for step in &steps {
        let mut batch = match step {
            Step::Make(operation) => Batch::new(vec![operation.clone()]),
            _ => Batch::new(Vec::new()),
        };
        let mut perform = |directory: &mut Directory| -> Result<(), Stuck> {
            directory.make_all(&mut batch)?;
            match step {
                Step::Make(_) => Ok(()),
                Step::Settle => Ok(directory.settle()?),
                Step::Drop(object) => {
                    directory.settle()?;
                    Ok(directory.drop_object(*object)?)
                }
            }
        };
        let mut outcome = perform(&mut directory);
        if outcome.is_err() && is_over() {
            has_failed = true;
            allow(None);
            outcome = perform(&mut directory);
        }
        outcome.map_err(|stuck| stuck.to_string())?;
    }
    allow(None);
    directory.settle().map_err(|errno| errno.to_string())?;
    expected.compare(scratch.path(), &mut directory)?;
    Ok(!has_failed)
}

#[test]
fn what_fails_once_is_made_when_it_is_tried_again() {
    rustix::process::umask(rustix::fs::Mode::empty());
    for seed in 0..8 {
        for calls in 0.. {
            let over = pass_after(seed, calls)
                .unwrap_or_else(|error| panic!("seed {seed}, {calls} calls: {error}"));
            if over {
                break;
            }
        }
    }
}
