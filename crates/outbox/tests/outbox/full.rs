//! A disk without space.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use surmise_outbox::{End, HeldState, Outbox, OutboxError, PIECE_MAX, Target, load};
use surmise_testkit::{Scratch, watchdog};

use crate::{child, directory, tcp};

/// What a write says that exceeds the limit on file sizes.
const EFBIG: Option<i32> = Some(27);

const DIRECTORY: &str = "SURMISE_TEST_FULL_OUTBOX";

/// A limit on file sizes, with its signal ignored, is a full disk for every user: writes fail.
const LIMITED: &str = r#"trap "" XFSZ; ulimit -S -f 64; exec "$0" "$@""#;

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
    let [whole, shown, cut] = &held.channels[..] else {
        panic!("{held:?}");
    };
    assert_eq!(whole.state, HeldState::Finished(End::Closed));
    assert_eq!(whole.bytes, 4);
    // Each lost something: the one by the write that failed, the other afterwards.
    for lost in [shown, cut] {
        assert_eq!(lost.state, HeldState::Finished(End::Reset));
        assert_eq!(lost.bytes, 3);
    }

    let held = load(&tight(&directory)).expect("every frame is whole");
    assert_eq!(held.channels.len(), 1);
    assert_eq!(held.channels[0].state, HeldState::Finished(End::Reset));
}

/// The writer of the test above, when it is started as a process of its own.
#[test]
fn fill() {
    let Some(directory) = std::env::var_os(DIRECTORY) else {
        return;
    };
    let directory = PathBuf::from(directory);
    let outbox = Outbox::open(&directory).expect("open");
    let whole = outbox.hold(tcp(80), None);
    outbox.append(whole, b"kept");
    let shown = outbox.hold(Target::Output, None);
    outbox.append(shown, b"one");
    let cut = outbox.hold(tcp(80), None);
    outbox.append(cut, b"one");
    outbox.flush().expect("there is space so far");
    assert!(outbox.failed().is_none());
    outbox.append(cut, &[7; PIECE_MAX]);
    assert!(matches!(outbox.flush(), Err(OutboxError::NotKept(_))));
    assert_eq!(failed_with(&outbox), EFBIG);
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
    fill_to_the_last_bytes(&tight(&directory));
}

/// Leaves no space even for the note that a hold lost something, until the end.
fn fill_to_the_last_bytes(directory: &Path) {
    fs::create_dir(directory).expect("make a directory");
    let outbox = Outbox::open(directory).expect("open");
    let hold = outbox.hold(tcp(80), None);
    outbox.flush().expect("there is space so far");
    let length = fs::metadata(directory.join("outbox"))
        .expect("the outbox")
        .len();
    let limits = getrlimit(Resource::Fsize);
    let space = limits.current.expect("a limit") - length;
    // A frame of data has 29 bytes beside the data, an end has 26 in all.
    outbox.append(hold, &vec![7; space as usize - 29 - 25]);
    outbox.flush().expect("there is space so far");
    outbox.append(hold, b"x");
    outbox.finish(hold, End::Closed);
    assert!(matches!(outbox.flush(), Err(OutboxError::NotKept(_))));
    assert_eq!(failed_with(&outbox), EFBIG);
    assert_eq!(outbox.pending()[0].end, None);
    let raised = Rlimit {
        current: limits.maximum,
        ..limits
    };
    setrlimit(Resource::Fsize, raised).expect("raise the limit");
}

fn failed_with(outbox: &Outbox) -> Option<i32> {
    outbox.failed().and_then(|error| error.raw_os_error())
}

fn tight(directory: &Path) -> PathBuf {
    directory.join("tight")
}
