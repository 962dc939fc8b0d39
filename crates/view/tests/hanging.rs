//! A lower side that does not answer for one file: calls on other files do not wait for that one.
//!
//! A call asks the lower side several times, so each case is played once for each of these questions: the first one
//! hangs, then the second one, until the call ends before it comes to the one that hangs.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::thread::{self, Scope};
use std::time::{Duration, Instant};

use surmise_lower::{Hang, Memory};
use surmise_twins::new_node;
use surmise_view::{
    FileKind, NodeId, OpenHow, RenameMode, SetAttributes, Timestamp, View, ViewConfig,
};
use tempfile::TempDir;

/// How long anything may take that waits for nobody.
const PATIENCE: Duration = Duration::from_secs(20);

/// How often a test looks whether a call waits.
const LOOKS_EVERY: Duration = Duration::from_millis(1);

/// No call asks the lower side for one file so often.
const STOPS_MAX: u64 = 100;

/// The first change borrows from such a file.
const LARGE: usize = 3 << 20;

/// The first change copies such a file.
const SMALL: usize = 300 << 10;

struct World {
    lower: Memory,
    state: TempDir,
    view: View,
    file: NodeId,
    small: NodeId,
    directory: NodeId,
    other: NodeId,
}

impl World {
    fn new() -> Self {
        let lower = Memory::new(7);
        lower
            .change(|tree| {
                tree.make_directory("directory")?;
                tree.write("directory/inside", b"inside")?;
                tree.write("file", &[b'f'; LARGE])?;
                tree.write("small", &[b's'; SMALL])?;
                tree.set_xattr("file", "user.tag", b"1")?;
                tree.write("other", b"other")?;
                tree.make_link("link", "other")
            })
            .unwrap();
        let state = TempDir::new().unwrap();
        let config = ViewConfig {
            speculates: true,
            ..ViewConfig::over(state.path(), Arc::new(lower.clone()))
        };
        let view = View::open(config).unwrap();
        let [file, small, directory, other] =
            ["file", "small", "directory", "other"].map(|name| node(&view, name).unwrap());
        Self {
            lower,
            state,
            view,
            file,
            small,
            directory,
            other,
        }
    }
}

/// The number of objects that the store holds.
fn objects(world: &World) -> usize {
    let shards = fs::read_dir(world.state.path().join("objects")).unwrap();
    let shards = shards.map(|shard| shard.unwrap().path());
    shards
        .map(|shard| fs::read_dir(shard).unwrap().count())
        .sum()
}

fn node(view: &View, name: &str) -> io::Result<NodeId> {
    let found = view.lookup(NodeId::ROOT, OsStr::new(name))?;
    Ok(found
        .map_err(|_| io::Error::from(io::ErrorKind::NotFound))?
        .node)
}

/// Calls on another thread.
fn call<'s, 'e, R: Send + 'e>(
    scope: &'s Scope<'s, 'e>,
    call: impl FnOnce() -> R + Send + 's,
) -> Receiver<R>
where
    'e: 's,
{
    let (sender, receiver) = mpsc::channel();
    scope.spawn(move || {
        // Nobody listens any more where a test has failed.
        let _ = sender.send(call());
    });
    receiver
}

/// Does what a program does, on another file.
fn work(world: &World, round: usize) -> io::Result<()> {
    let view = &world.view;
    let reads = OpenHow {
        reads: true,
        ..OpenHow::default()
    };
    let opened = view.open_file(world.other, reads)?;
    let mut buffer = [0; 16];
    view.read(world.other, 0, &mut buffer)?;
    view.close_file(world.other, opened.number, false);
    view.attributes(world.other)?;
    view.xattr_names(world.other)?;
    node(view, "link")?;
    node(view, "absent").unwrap_err();
    let new = new_node(FileKind::Regular);
    let name = format!("new{round}");
    let made = view.create(NodeId::ROOT, OsStr::new(&name), new)?.node;
    view.write(made, 0, b"data", false)?;
    view.write(world.other, 0, b"O", false)?;
    let (from, to) = (OsStr::new(&name), OsStr::new("moved"));
    view.rename(
        (NodeId::ROOT, from),
        (NodeId::ROOT, to),
        RenameMode::Replace,
    )?;
    let listing = view.open_directory(NodeId::ROOT)?;
    view.read_directory(NodeId::ROOT, listing.handle, true)?;
    view.close_directory(listing.handle);
    view.file_system(made)?;
    Ok(())
}

/// Plays `hung` in a new world for each of the questions about `path` that the call asks. That question hangs, others'
/// calls go on meanwhile, and `hung` ends well when the question is answered. There are at least `stops` questions.
fn others_go_on<R>(
    path: &str,
    stops: u64,
    prepare: impl Fn(&World),
    hung: impl Fn(&World) -> io::Result<R> + Sync,
) {
    for after in 0..STOPS_MAX {
        let world = World::new();
        prepare(&world);
        if !others_go_on_at(&world, path, after, &hung) {
            assert!(after >= stops, "{path} was asked for {after} times");
            return;
        }
    }
    panic!("{path} is asked for without end");
}

/// Tells whether `hung` came to that question.
fn others_go_on_at<R>(
    world: &World,
    path: &str,
    after: u64,
    hung: &(impl Fn(&World) -> io::Result<R> + Sync),
) -> bool {
    let hang = world.lower.hang_after(path, after).unwrap();
    thread::scope(|scope| {
        let waiting = call(scope, || hung(world).map(drop));
        if let Some(ended) = ended_before(&hang, &waiting) {
            ended.expect("the call succeeds");
            return false;
        }
        let worked = call(scope, || (0..3).try_for_each(|round| work(world, round)));
        let worked = worked.recv_timeout(PATIENCE);
        let early = waiting.try_recv();
        // Before anything is said, so that a failure ends.
        drop(hang);
        worked.expect("others wait").expect("others' calls succeed");
        assert!(early.is_err(), "it ended without an answer: {early:?}");
        let ended = waiting.recv_timeout(PATIENCE);
        ended.expect("it ends").expect("the call succeeds");
        true
    })
}

/// Waits until a call waits for the end of `hang`; returns what the call ended with where it ended instead.
fn ended_before<R>(hang: &Hang, call: &Receiver<R>) -> Option<R> {
    let begun = Instant::now();
    while !hang.is_met() {
        if let Ok(ended) = call.recv_timeout(LOOKS_EVERY) {
            return Some(ended);
        }
        assert!(begun.elapsed() < PATIENCE, "it neither ends nor asks");
    }
    None
}

const READY: fn(&World) = |_| {};

#[test]
fn a_look_up_holds_up_nobody() {
    others_go_on("file", 1, READY, |world| node(&world.view, "file"));
}

#[test]
fn a_look_at_attributes_holds_up_nobody() {
    others_go_on("file", 1, READY, |world| world.view.attributes(world.file));
}

#[test]
fn an_opening_holds_up_nobody() {
    others_go_on("file", 3, READY, |world| {
        world.view.open_file(world.file, OpenHow::default())
    });
}

#[test]
fn a_first_change_holds_up_nobody() {
    others_go_on("file", 11, READY, |world| {
        world.view.write(world.file, 5, b"changed", true)
    });
}

#[test]
fn a_first_change_that_copies_holds_up_nobody() {
    others_go_on("small", 11, READY, |world| {
        world.view.write(world.small, 5, b"changed", true)
    });
}

#[test]
fn a_cut_holds_up_nobody() {
    let cut = SetAttributes {
        size: Some(100),
        ..SetAttributes::default()
    };
    others_go_on("file", 8, READY, |world| {
        world.view.set_attributes(world.file, cut)
    });
}

#[test]
fn a_change_of_attributes_holds_up_nobody() {
    let set = SetAttributes {
        permissions: Some(0o600),
        modified: Some(Timestamp::default()),
        ..SetAttributes::default()
    };
    others_go_on("file", 2, READY, |world| {
        world.view.set_attributes(world.file, set)
    });
}

#[test]
fn what_a_changed_file_borrows_holds_up_nobody() {
    let change = |world: &World| world.view.write(world.file, 0, b"changed", false).unwrap();
    others_go_on("file", 2, change, |world| {
        let mut buffer = [0; 100];
        let read = world.view.read(world.file, LARGE as u64 - 100, &mut buffer);
        assert_eq!(buffer, [b'f'; 100]);
        read
    });
}

#[test]
fn a_removal_holds_up_nobody() {
    others_go_on("file", 1, READY, |world| {
        world.view.unlink(NodeId::ROOT, OsStr::new("file"))
    });
}

#[test]
fn extended_attributes_hold_up_nobody() {
    let tag = OsStr::new("user.tag");
    others_go_on("file", 1, READY, |world| world.view.xattr(world.file, tag));
    others_go_on("file", 2, READY, |world| {
        world.view.set_xattr(world.file, tag, b"2", 0)
    });
}

#[test]
fn a_listing_holds_up_nobody() {
    others_go_on("directory", 4, READY, |world| {
        world.view.open_directory(world.directory)
    });
}

#[test]
fn a_directory_on_the_way_holds_up_nobody() {
    others_go_on("directory", 2, READY, |world| {
        let inside = OsStr::new("inside");
        let found = world.view.lookup(world.directory, inside)?;
        assert!(found.is_ok());
        Ok(())
    });
}

#[test]
fn a_removal_of_a_directory_holds_up_nobody() {
    let empty = |world: &World| {
        let removed = world.lower.change(|tree| tree.remove("directory/inside"));
        removed.unwrap();
    };
    others_go_on("directory", 4, empty, |world| {
        world
            .view
            .remove_directory(NodeId::ROOT, OsStr::new("directory"))
    });
}

/// A node gets one object, however many threads change it first, and no change of theirs is lost.
#[test]
fn two_first_changes_of_one_file_make_one_object() {
    for (path, size, filled) in [("file", LARGE, b'f'), ("small", SMALL, b's')] {
        let stops = (0..STOPS_MAX).find(|after| !two_change(path, size, filled, *after));
        let stops = stops.unwrap_or_else(|| panic!("{path} is asked for without end"));
        assert!(stops >= 8, "{path} was asked for {stops} times");
    }
}

/// Tells whether the first change came to that question.
fn two_change(path: &str, size: usize, filled: u8, after: u64) -> bool {
    let world = World::new();
    let view = &world.view;
    let id = node(view, path).unwrap();
    let hang = world.lower.hang_after(path, after).unwrap();
    let is_met = thread::scope(|scope| {
        let first = call(scope, || view.write(id, 0, b"first", false));
        let ended = ended_before(&hang, &first);
        let is_met = ended.is_none();
        let second = call(scope, || view.write(id, size as u64 - 6, b"second", false));
        if is_met {
            // It waits for the first, or for what the first waits for.
            thread::sleep(LOOKS_EVERY * 10);
            second.try_recv().unwrap_err();
        }
        drop(hang);
        for (ended, waiting) in [(ended, first), (None, second)] {
            let ended = ended.unwrap_or_else(|| waiting.recv_timeout(PATIENCE).expect("it ends"));
            ended.expect("the change succeeds");
        }
        is_met
    });
    let mut data = vec![0; size];
    assert_eq!(view.read(id, 0, &mut data).unwrap(), size);
    let between = data[5..size - 6].iter();
    assert_eq!(
        (&data[..5], &data[size - 6..]),
        (&b"first"[..], &b"second"[..])
    );
    assert!(between.copied().all(|byte| byte == filled), "data are lost");
    assert_eq!(objects(&world), 1, "after {after}");
    is_met
}
