//! The view against the real thing: the same calls on a view of one tree and on a copy of that tree
//! must fail alike and end alike, and a view read back from its log must be the view that wrote it.

mod harness;

use std::ffi::OsString;

use harness::{Call, Pair};
use proptest::prelude::*;

fn name() -> impl Strategy<Value = OsString> {
    prop::sample::select(&["a", "b", "c", "d"][..]).prop_map(OsString::from)
}

fn path() -> impl Strategy<Value = Vec<OsString>> {
    prop::collection::vec(name(), 1..4)
}

fn call() -> impl Strategy<Value = Call> {
    let bytes = prop::collection::vec(any::<u8>(), 0..20);
    prop_oneof![
        3 => path().prop_map(Call::CreateFile),
        2 => path().prop_map(Call::CreateDirectory),
        1 => (path(), name()).prop_map(|(path, target)| Call::CreateSymlink(path, target)),
        3 => path().prop_map(Call::Unlink),
        2 => path().prop_map(Call::RemoveDirectory),
        4 => (path(), path()).prop_map(|(from, to)| Call::Rename(from, to)),
        1 => (path(), path()).prop_map(|(from, to)| Call::RenameNoReplace(from, to)),
        1 => (path(), path()).prop_map(|(from, to)| Call::Exchange(from, to)),
        2 => (path(), path()).prop_map(|(from, to)| Call::Link(from, to)),
        4 => (path(), 0..30u64, bytes).prop_map(|(path, at, bytes)| Call::Write(path, at, bytes)),
        1 => (path(), 0..30u64).prop_map(|(path, size)| Call::Truncate(path, size)),
        // The owner keeps all rights: who may do what is the kernel's to check, above the view.
        1 => (path(), 0..0o100u16).prop_map(|(path, mode)| Call::Chmod(path, 0o700 | mode)),
        1 => (path(), 0..1_000_000i64).prop_map(|(path, time)| Call::SetModified(path, time)),
        1 => Just(Call::Reopen),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn a_view_behaves_as_the_tree_that_it_shows(
        calls in prop::collection::vec(call(), 1..40),
        is_on_disk: bool,
    ) {
        let mut pair = match is_on_disk {
            true => Pair::on_disk(&std::env::temp_dir()),
            false => Pair::new(),
        };
        let before = pair.lower_snapshot();
        for call in &calls {
            pair.call(call);
        }
        pair.compare();
        pair.call(&Call::Reopen);
        pair.compare();
        prop_assert_eq!(before, pair.lower_snapshot(), "the real tree was changed");
    }
}

/// Calls, of which some are undone.
fn undecided_call() -> impl Strategy<Value = Call> {
    prop_oneof![
        16 => call(),
        3 => Just(Call::Mark),
        2 => any::<usize>().prop_map(Call::Keep),
        3 => any::<usize>().prop_map(Call::Undo),
        1 => Just(Call::Forget),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// Going back to a mark brings back what was there, and nothing stays in the store that no file needs.
    #[test]
    fn a_view_goes_back_to_its_marks(calls in prop::collection::vec(undecided_call(), 1..60)) {
        let mut pair = Pair::new();
        let before = pair.lower_snapshot();
        for call in &calls {
            pair.call(call);
            if matches!(call, Call::Undo(_)) {
                pair.compare();
            }
        }
        pair.keep_all();
        pair.compare();
        pair.call(&Call::Forget);
        let objects = pair.objects();
        pair.call(&Call::Reopen);
        pair.compare();
        prop_assert_eq!(objects, pair.objects(), "what an opening would have swept up");
        prop_assert_eq!(before, pair.lower_snapshot(), "the real tree was changed");
    }
}

/// Changes of one file between many marks.
fn marked_change() -> impl Strategy<Value = Call> {
    let file = || vec![OsString::from("a")];
    let bytes = prop::collection::vec(any::<u8>(), 1..20);
    prop_oneof![
        1 => Just(Call::CreateFile(file())),
        1 => Just(Call::Unlink(file())),
        5 => (0..30u64, bytes).prop_map(move |(at, bytes)| Call::Write(file(), at, bytes)),
        3 => (0..0o100u16).prop_map(move |mode| Call::Chmod(file(), 0o700 | mode)),
        6 => Just(Call::Mark),
        3 => any::<usize>().prop_map(Call::Keep),
        1 => any::<usize>().prop_map(Call::Undo),
        1 => Just(Call::Forget),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Whichever marks are kept, those that are left lead back to all data that were there.
    #[test]
    fn a_file_goes_back_to_any_mark_that_is_left(
        calls in prop::collection::vec(marked_change(), 1..30),
    ) {
        let mut pair = Pair::new();
        for call in &calls {
            pair.call(call);
            if matches!(call, Call::Undo(_)) {
                pair.compare();
            }
        }
        pair.undo_all();
        pair.compare();
        pair.call(&Call::Forget);
        let objects = pair.objects();
        pair.call(&Call::Reopen);
        pair.compare();
        prop_assert_eq!(objects, pair.objects(), "what an opening would have swept up");
    }
}

/// Calls around commits.
fn running_call() -> impl Strategy<Value = Call> {
    let bytes = prop::collection::vec(any::<u8>(), 0..20);
    let write = (any::<usize>(), 0..30u64, bytes);
    prop_oneof![
        16 => call(),
        4 => path().prop_map(Call::Hold),
        3 => write.prop_map(|(held, at, bytes)| Call::WriteHeld(held, at, bytes)),
        1 => Just(Call::Forget),
        2 => Just(Call::Commit),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    /// What is open stays so across a commit, and the next commit is of what was done since.
    #[test]
    fn a_view_goes_on_after_a_commit(
        calls in prop::collection::vec(running_call(), 1..40),
        elsewhere: bool,
    ) {
        // On another file system objects are copied, on the same they become the files.
        let place = if elsewhere { "/dev/shm".into() } else { std::env::temp_dir() };
        let mut pair = Pair::on_disk(&place);
        pair.compare();
        for call in &calls {
            pair.call(call);
            if matches!(call, Call::Reopen) {
                // All names are seen: of an inode with names that it has not seen, a view that goes
                // on may lose the last that it knows.
                pair.compare();
            }
        }
        pair.call(&Call::Commit);
        pair.call(&Call::Reopen);
        prop_assert_eq!(pair.objects(), 0, "nothing is changed, so nothing is stored");
        pair.compare();
    }
}

/// What is kept for who has it open may never have been in the map.
#[test]
fn a_file_that_loses_its_names_in_two_commits_can_still_be_written_to() {
    let path = |name: &str| vec![OsString::from(name)];
    let mut pair = Pair::on_disk(&std::env::temp_dir());
    pair.compare();
    for call in [
        Call::Hold(path("a")),
        Call::Unlink(path("b")),
        Call::Commit,
        Call::Unlink(path("a")),
        Call::Commit,
        Call::WriteHeld(0, 0, vec![b'x']),
    ] {
        pair.call(&call);
    }
    pair.compare();
}
