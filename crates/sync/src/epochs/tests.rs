use std::sync::atomic::AtomicU64;
use std::thread;

use rustix::event::{PollFd, PollFlags, poll};

use super::*;
use crate::testing::InMemory;

fn epochs(promise: Promise) -> Epochs {
    Epochs::new(promise).expect("epochs")
}

fn commit(epochs: &Epochs) {
    epochs
        .commit(&InMemory(|| Ok(())), Trigger::Output)
        .expect("commit");
}

#[test]
fn output_before_any_promise_waits_for_nothing() {
    let epochs = epochs(Promise::Fsync);
    assert_eq!(epochs.of_output(), None);
    epochs.release().expect("released");
    assert!(epochs.is_clean());
}

#[test]
fn after_a_stop_nothing_is_released_even_if_nothing_was_promised() {
    for promise in [Promise::Fsync, Promise::Write] {
        let epochs = epochs(promise);
        epochs.stop();
        assert_eq!(epochs.release(), Err(Stopped));
        let epoch = epochs.of_output().expect("an epoch");
        assert!(!epochs.is_durable(epoch) && epochs.await_event(epoch));
    }
}

#[test]
fn held_is_told_from_when_output_was_taken() {
    const SECOND: Duration = Duration::from_secs(1);
    let epochs = epochs(Promise::Fsync);
    epochs.promise();
    let (epoch, now) = (epochs.of_output().expect("an epoch"), Instant::now());
    commit(&epochs);
    let taken = now
        .checked_sub(SECOND)
        .expect("the machine runs for a second");
    epochs.hold(epoch, taken).expect("durable");
    let stats = epochs.stats();
    assert!(
        stats.held == 1 && stats.hold_times.longest >= SECOND,
        "{stats:?}"
    );
}

#[test]
fn output_after_a_promise_waits_for_a_commit_that_begins_later() {
    let epochs = epochs(Promise::Fsync);
    epochs.promise();
    let first = epochs.of_output().expect("an epoch");
    epochs.promise();
    let second = epochs.of_output().expect("an epoch");
    assert!(first < second);
    commit(&epochs);
    assert!(epochs.is_durable(first) && epochs.is_durable(second));
    assert_eq!(epochs.of_output(), None);
}

#[test]
fn a_promise_made_during_a_commit_is_not_kept_by_it() {
    let epochs = epochs(Promise::Fsync);
    epochs.promise();
    let before = epochs.promised();
    let busy = InMemory(|| {
        epochs.promise();
        Ok(())
    });
    epochs.commit(&busy, Trigger::Output).expect("commit");
    assert!(epochs.is_durable(before));
    assert!(epochs.of_output().is_some());
}

#[test]
fn where_every_write_is_promised_all_output_waits() {
    let epochs = epochs(Promise::Write);
    for _ in 0..3 {
        let epoch = epochs.of_output().expect("there may have been writes");
        assert!(!epochs.is_durable(epoch));
        commit(&epochs);
        assert!(epochs.is_durable(epoch));
    }
    assert!(!epochs.is_clean());
}

#[test]
fn many_that_wait_share_a_commit() {
    const WAITING: usize = 8;
    let epochs = epochs(Promise::Fsync);
    let commits = AtomicU64::new(0);
    let disk = InMemory(|| {
        commits.fetch_add(1, SeqCst);
        Ok(())
    });
    epochs.promise();
    thread::scope(|scope| {
        for _ in 0..WAITING {
            scope.spawn(|| epochs.release().expect("released"));
        }
        let wished = epochs.await_wish(Duration::from_secs(30));
        assert_eq!(wished, [Trigger::Output]);
        epochs.commit(&disk, Trigger::Output).expect("commit");
    });
    assert_eq!(commits.load(SeqCst), 1);
    let stats = epochs.stats();
    assert_eq!((stats.put_off, stats.commits.all()), (1, 1));
    // Who comes after the commit does not wait, but somebody has wanted it.
    assert!((1..=WAITING as u64).contains(&stats.held), "{stats:?}");
}

#[test]
fn after_a_failed_commit_nothing_is_released() {
    let epochs = epochs(Promise::Fsync);
    let disk = InMemory(|| Err(Errno::IO.into()));
    epochs.promise();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| epochs.release());
        epochs.await_wish(Duration::from_secs(30));
        let failed = epochs.commit(&disk, Trigger::Output).expect_err("it fails");
        assert_eq!(failed.raw_os_error(), Some(Errno::IO.raw_os_error()));
        assert_eq!(waiting.join().expect("a thread"), Err(Stopped));
    });
    assert_eq!(epochs.release(), Err(Stopped));
    assert_eq!(epochs.stats().commits.all(), 0);
}

#[test]
fn a_poller_hears_of_the_commit_that_it_waits_for() {
    let epochs = epochs(Promise::Fsync);
    let is_ready = || {
        let mut polled = [PollFd::new(&epochs, PollFlags::IN)];
        poll(&mut polled, Some(&Timespec::default())) == Ok(1)
    };
    epochs.promise();
    let epoch = epochs.of_output().expect("an epoch");
    assert!(epochs.await_event(epoch));
    assert!(!is_ready());
    commit(&epochs);
    assert!(is_ready());
    epochs.take_event();
    assert!(!is_ready());
    assert!(!epochs.await_event(epoch));
    // Nobody waits for this one.
    epochs.promise();
    epochs.words.signals[POLLED].store(0, SeqCst);
    commit(&epochs);
    assert!(!is_ready());
}

#[test]
fn nothing_is_wanted_for_a_while() {
    let epochs = epochs(Promise::Fsync);
    assert_eq!(epochs.await_wish(Duration::from_millis(1)), []);
    epochs.want(Trigger::End);
    epochs.want(Trigger::Barrier);
    let wished = epochs.await_wish(Duration::from_secs(30));
    assert_eq!(wished, [Trigger::Barrier, Trigger::End]);
}

#[test]
fn settling_ends_with_the_promises_kept_or_when_nobody_wants_it_any_more() {
    let epochs = epochs(Promise::Fsync);
    assert_eq!(epochs.settle(|| panic!("nothing is promised")), Ok(true));
    epochs.promise();
    assert_eq!(epochs.settle(|| false), Ok(false));
    // Another domain's commit, which wakes nobody here.
    let kept_elsewhere = || {
        epochs.tally.keep(1);
        true
    };
    assert_eq!(epochs.settle(kept_elsewhere), Ok(true));
    epochs.promise();
    epochs.stop();
    assert_eq!(epochs.settle(|| true), Err(Stopped));
}
