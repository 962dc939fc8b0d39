//! A lower side that does not answer for one file: nobody else waits for that one.

use std::ffi::OsStr;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread::{self, Scope};
use std::time::Duration;

use surmise_lower::Memory;
use surmise_view::{
    FileKind, NewNode, NodeId, OpenHow, RenameMode, SetAttributes, Timestamp, View, ViewConfig,
};
use tempfile::TempDir;

/// How long anything may take that waits for nobody.
const PATIENCE: Duration = Duration::from_secs(20);

/// How long a call is given to show that it does wait.
const WAITS: Duration = Duration::from_millis(100);

const LARGE: usize = 3 << 20;

struct World {
    lower: Memory,
    _state: TempDir,
    view: View,
    file: NodeId,
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
        let [file, directory, other] =
            ["file", "directory", "other"].map(|name| node(&view, name).unwrap());
        Self {
            lower,
            _state: state,
            view,
            file,
            directory,
            other,
        }
    }
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
    view.open_file(world.other, reads)?;
    let mut buffer = [0; 16];
    view.read(world.other, 0, &mut buffer)?;
    view.close_file(world.other, 0, false);
    view.attributes(world.other)?;
    view.xattr_names(world.other)?;
    node(view, "link")?;
    node(view, "absent").unwrap_err();
    let new = NewNode {
        kind: FileKind::Regular,
        permissions: 0o644,
        uid: 0,
        gid: 0,
        special: 0,
        target: "".into(),
    };
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

/// `hung` waits for what hangs, whatever others do meanwhile, and comes to its end when that does.
fn others_go_on<R: Send>(
    world: &World,
    path: &str,
    hung: impl FnOnce(&World) -> io::Result<R> + Send,
) {
    let hang = world.lower.hang(path).unwrap();
    thread::scope(|scope| {
        let waiting = call(scope, || hung(world).map(drop));
        let early = waiting.recv_timeout(WAITS);
        assert!(
            matches!(early, Err(RecvTimeoutError::Timeout)),
            "it does not wait: {early:?}"
        );
        let worked = call(scope, || (0..3).try_for_each(|round| work(world, round)));
        let worked = worked.recv_timeout(PATIENCE);
        // Before anything is said, so that a failure ends.
        drop(hang);
        worked.expect("others wait").expect("others' calls succeed");
        let ended = waiting.recv_timeout(PATIENCE);
        ended.expect("it ends").expect("the call succeeds");
    });
}

#[test]
fn a_look_up_holds_up_nobody() {
    others_go_on(&World::new(), "file", |world| node(&world.view, "file"));
}

#[test]
fn a_look_at_attributes_holds_up_nobody() {
    others_go_on(&World::new(), "file", |world| {
        world.view.attributes(world.file)
    });
}

#[test]
fn an_opening_holds_up_nobody() {
    others_go_on(&World::new(), "file", |world| {
        world.view.open_file(world.file, OpenHow::default())
    });
}

#[test]
fn a_first_change_holds_up_nobody() {
    others_go_on(&World::new(), "file", |world| {
        world.view.write(world.file, 5, b"changed", true)
    });
}

#[test]
fn a_cut_holds_up_nobody() {
    let cut = SetAttributes {
        size: Some(100),
        ..SetAttributes::default()
    };
    others_go_on(&World::new(), "file", |world| {
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
    others_go_on(&World::new(), "file", |world| {
        world.view.set_attributes(world.file, set)
    });
}

#[test]
fn what_a_changed_file_borrows_holds_up_nobody() {
    let world = World::new();
    world.view.write(world.file, 0, b"changed", false).unwrap();
    others_go_on(&world, "file", |world| {
        let mut buffer = [0; 100];
        let read = world.view.read(world.file, LARGE as u64 - 100, &mut buffer);
        assert_eq!(buffer, [b'f'; 100]);
        read
    });
}

#[test]
fn a_removal_holds_up_nobody() {
    others_go_on(&World::new(), "file", |world| {
        world.view.unlink(NodeId::ROOT, OsStr::new("file"))
    });
}

#[test]
fn extended_attributes_hold_up_nobody() {
    let tag = OsStr::new("user.tag");
    others_go_on(&World::new(), "file", |world| {
        world.view.xattr(world.file, tag)
    });
    others_go_on(&World::new(), "file", |world| {
        world.view.set_xattr(world.file, tag, b"2", 0)
    });
}

#[test]
fn a_listing_holds_up_nobody() {
    others_go_on(&World::new(), "directory", |world| {
        world.view.open_directory(world.directory)
    });
}

#[test]
fn a_directory_on_the_way_holds_up_nobody() {
    others_go_on(&World::new(), "directory", |world| {
        let inside = OsStr::new("inside");
        let found = world.view.lookup(world.directory, inside)?;
        assert!(found.is_ok());
        Ok(())
    });
}

#[test]
fn a_removal_of_a_directory_holds_up_nobody() {
    let world = World::new();
    world
        .lower
        .change(|tree| tree.remove("directory/inside"))
        .unwrap();
    others_go_on(&world, "directory", |world| {
        world
            .view
            .remove_directory(NodeId::ROOT, OsStr::new("directory"))
    });
}
