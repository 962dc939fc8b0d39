//! A disk without space.

use std::process::Stdio;
use std::time::Duration;

use surmise_outbox::{End, HeldState, Outbox, OutboxError, Target, load};
use surmise_testkit::{Scratch, watchdog};

use crate::{child, directory, tcp};

const DIRECTORY: &str = "SURMISE_TEST_FULL_OUTBOX";

/// A limit on file sizes, with its signal ignored, is a full disk for every user: writes fail.
const LIMITED: &str = r#"trap "" XFSZ; ulimit -f 64; exec "$0" "$@""#;

#[test]
fn output_that_cannot_be_kept_is_told_and_ends_its_channel() {
    let scratch = Scratch::new();
    let directory = directory(&scratch);
    let child = child("full::fill", LIMITED)
        .env(DIRECTORY, &directory)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("start");
    let ended = watchdog::wait(child, "the writer", Duration::from_secs(30));
    let told = String::from_utf8_lossy(&ended.stdout);
    assert!(ended.status.success(), "{told}");
    assert!(told.contains("1 passed"), "{told}");

    let held = load(&directory).expect("every frame is whole");
    let [whole, cut, shown] = &held.channels[..] else {
        panic!("{held:?}");
    };
    assert_eq!(whole.state, HeldState::Finished(End::Closed));
    assert_eq!(whole.bytes, 4);
    assert_eq!(cut.state, HeldState::Finished(End::Reset));
    assert!(cut.bytes > 0 && cut.bytes % 4096 == 0, "{cut:?}");
    // It lost nothing before the failure, and what it lost afterwards is known.
    assert_eq!(shown.state, HeldState::Finished(End::Reset));
    assert_eq!(shown.bytes, 3);
}

/// The writer of the test above, when it is started as a process of its own.
#[test]
fn fill() {
    let Some(directory) = std::env::var_os(DIRECTORY) else {
        return;
    };
    let directory = std::path::PathBuf::from(directory);
    let outbox = Outbox::open(&directory).expect("open");
    let whole = outbox.hold(tcp(80), None);
    outbox.append(whole, b"kept");
    let cut = outbox.hold(tcp(80), None);
    let shown = outbox.hold(Target::Output, None);
    outbox.append(shown, b"one");
    outbox.flush().expect("there is space so far");
    assert!(outbox.failed().is_none());
    watchdog::until("a write fails", watchdog::LIMIT, || {
        outbox.append(cut, &[7; 4096]);
        outbox.failed().is_some()
    });
    assert_eq!(
        outbox.failed().and_then(|error| error.raw_os_error()),
        Some(27)
    );
    assert!(matches!(outbox.flush(), Err(OutboxError::NotKept(_))));
    // Nothing that comes later is kept, small as it is; what was whole ends as it did.
    outbox.append(shown, b"two");
    let refused = outbox.hold(tcp(81), None);
    outbox.append(refused, b"x");
    outbox.finish(cut, End::Closed);
    outbox.finish(whole, End::Closed);
    assert!(matches!(outbox.flush(), Err(OutboxError::NotKept(_))));
    let pending = outbox.pending();
    assert_eq!(pending.len(), 3);
    assert!(pending.iter().all(|pending| pending.hold != refused));
}
