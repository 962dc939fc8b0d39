//! What a test starts to commit a domain: `caller ROOT --commit NAME`.

use std::ops::ControlFlow;
use std::process::ExitCode;

use rustix::process::Signal;
use surmise_commit::Activity;
use surmise_kept::{After, StateRoot};
use surmise_sys::signals::{self, SignalFd};

/// What of a commit's progress asks it to stop.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// Whatever is heard.
    Any,
    /// The first news from beyond the point of no return.
    Apply,
}

/// Commits it, and tells on standard output what came of it. Ctrl-C asks it to stop, as does its progress.
pub fn main(root: &StateRoot, name: &str, until: Option<Until>) -> ExitCode {
    let asked = [Signal::INT, Signal::TERM];
    let _mask = signals::block(&asked).expect("block signals");
    let stop = SignalFd::new(&asked).expect("watch signals");
    let domain = match root.open(name) {
        Ok(domain) => domain,
        Err(error) => return failed(&error),
    };
    let committed = domain.commit(
        &mut |progress| {
            let is_far = match until {
                None => false,
                Some(Until::Any) => true,
                Some(Until::Apply) => progress.activity == Activity::Apply,
            };
            match is_far || matches!(stop.next(), Ok(Some(_))) {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        },
        &mut |_, _| Ok(()),
    );
    match committed {
        Ok(committed) => {
            assert!(committed.done.left.is_empty(), "{:?}", committed.done.left);
            for (target, sent, why) in &committed.done.unsent {
                println!("unsent: {target}: {why} ({sent} sent)");
            }
            println!(
                "committed {}, goes on: {}",
                committed.done.changes,
                committed.domain == After::RunsOn
            );
            ExitCode::SUCCESS
        }
        Err(error) => failed(&error),
    }
}

fn failed(error: &dyn std::error::Error) -> ExitCode {
    eprintln!("error: {error}");
    ExitCode::FAILURE
}
