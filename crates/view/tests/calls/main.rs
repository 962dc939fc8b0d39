//! Single calls of a view whose effect only its attributes or its log show.

mod full;
mod marks;
mod places;
mod touches;

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::io::Errno;
use surmise_twins::new_node;
use surmise_view::{
    Entry, FileKind, Identity, InodeKey, NewNode, NodeId, OpenHow, RenameMode, SetAttributes, View,
    ViewConfig, load,
};
use tempfile::TempDir;

const OWN_GROUP: u32 = 54_321;
const DESCRIPTORS: usize = 64;

struct World {
    lower: TempDir,
    state: TempDir,
}

impl World {
    fn new() -> Self {
        Self::with_state_in(&std::env::temp_dir())
    }

    fn with_state_in(place: &Path) -> Self {
        let lower = TempDir::new().unwrap();
        fs::write(lower.path().join("file"), "old").unwrap();
        Self {
            lower,
            state: TempDir::new_in(place).unwrap(),
        }
    }

    fn view(&self) -> View {
        let config = ViewConfig {
            foreign_groups: vec![self.group()],
            own_group: OWN_GROUP,
            descriptors: DESCRIPTORS,
            speculates: true,
            ..ViewConfig::new(self.state.path(), self.lower.path())
        };
        View::open(config).unwrap()
    }

    /// The group of the real files.
    fn group(&self) -> u32 {
        self.lower.path().metadata().unwrap().gid()
    }
}

fn new(kind: FileKind) -> NewNode {
    NewNode {
        permissions: 0o755,
        uid: 0,
        gid: 0,
        ..new_node(kind)
    }
}

fn create(view: &View, parent: NodeId, name: &str, kind: FileKind) -> io::Result<Entry> {
    view.create(parent, OsStr::new(name), new(kind))
}

fn lookup(view: &View, parent: NodeId, name: &str) -> Entry {
    let found = view.lookup(parent, OsStr::new(name)).unwrap();
    found.unwrap_or_else(|_| panic!("no {name}"))
}

fn errno<T>(result: io::Result<T>) -> Option<i32> {
    result.err().and_then(|error| error.raw_os_error())
}

/// What the map says that the real name led to when the domain first used it.
fn first_use(world: &World, name: &str) -> Option<Identity> {
    let map = load(world.state.path()).unwrap();
    let root = map.node(NodeId::ROOT).unwrap();
    root.entries.get(OsStr::new(name)).unwrap().lower()
}

#[test]
fn what_was_read_is_replaced_in_the_state_in_which_it_was_read() {
    let world = World::new();
    let view = world.view();
    let read = lookup(&view, NodeId::ROOT, "file");
    view.open_file(read.node, OpenHow::default()).unwrap();
    fs::write(world.lower.path().join("file"), "newer and longer").unwrap();
    view.unlink(NodeId::ROOT, OsStr::new("file")).unwrap();
    let recorded = first_use(&world, "file").unwrap();
    assert_eq!(recorded, read.attributes.identity);
}

#[test]
fn another_file_under_a_name_that_was_read_is_not_in_the_state_of_its_first_use() {
    for is_removed in [true, false] {
        let world = World::new();
        let view = world.view();
        let read = lookup(&view, NodeId::ROOT, "file");
        view.open_file(read.node, OpenHow::default()).unwrap();
        let (new, path) = ("new", world.lower.path().join("file"));
        fs::write(world.lower.path().join(new), "longer than before").unwrap();
        fs::rename(world.lower.path().join(new), &path).unwrap();
        let found = lookup(&view, NodeId::ROOT, "file");
        assert_ne!(found.node, read.node);
        view.open_file(found.node, OpenHow::default()).unwrap();
        let recorded = if is_removed {
            view.unlink(NodeId::ROOT, OsStr::new("file")).unwrap();
            first_use(&world, "file").unwrap()
        } else {
            view.write(found.node, 0, b"mine", false).unwrap();
            let map = load(world.state.path()).unwrap();
            let node = map.node(found.node).unwrap();
            node.origin.as_ref().unwrap().identity
        };
        let (before, now) = (read.attributes.identity, found.attributes.identity);
        assert_eq!(recorded.key(), now.key());
        assert_eq!(
            (recorded.size, recorded.changed),
            (before.size, before.changed)
        );
    }
}

#[test]
fn what_was_changed_is_removed_in_the_state_in_which_it_was_changed() {
    let world = World::new();
    let view = world.view();
    let found = lookup(&view, NodeId::ROOT, "file");
    let set = SetAttributes {
        permissions: Some(0o600),
        ..SetAttributes::default()
    };
    view.set_attributes(found.node, set).unwrap();
    fs::write(world.lower.path().join("file"), "newer and longer").unwrap();
    view.unlink(NodeId::ROOT, OsStr::new("file")).unwrap();
    let recorded = first_use(&world, "file").unwrap();
    assert_eq!(recorded, found.attributes.identity);
}

#[test]
fn a_file_changed_after_its_last_name_went_has_no_name() {
    let world = World::new();
    let view = world.view();
    let open = lookup(&view, NodeId::ROOT, "file").node;
    view.open_file(open, OpenHow::default()).unwrap();
    view.unlink(NodeId::ROOT, OsStr::new("file")).unwrap();
    view.write(open, 0, b"unseen", false).unwrap();
    assert_eq!(view.attributes(open).unwrap().attributes.links, 0);
    let map = load(world.state.path()).unwrap();
    let node = map.node(open).unwrap();
    assert_eq!(node.names, -1);
}

/// What is outdated of one place, and true of the other, makes a ring of the two.
#[test]
fn directories_that_change_places_outside_are_stale_and_no_endless_way() {
    let world = World::new();
    let real = world.lower.path();
    fs::create_dir_all(real.join("outer/inner")).unwrap();
    fs::write(real.join("outer/inner/file"), "f").unwrap();
    let view = world.view();
    let outer = lookup(&view, NodeId::ROOT, "outer").node;
    let inner = lookup(&view, outer, "inner").node;
    lookup(&view, inner, "file");
    fs::rename(real.join("outer/inner"), real.join("inner")).unwrap();
    fs::rename(real.join("outer"), real.join("inner/outer")).unwrap();
    // By a descriptor of the one that is kept open.
    assert_eq!(lookup(&view, inner, "outer").node, outer);
    for number in 0..100 {
        fs::create_dir(real.join(number.to_string())).unwrap();
        let other = lookup(&view, NodeId::ROOT, &number.to_string()).node;
        let _ = view.lookup(other, OsStr::new("absent")).unwrap();
    }
    let lost = view.lookup(inner, OsStr::new("file"));
    assert_eq!(errno(lost), Some(Errno::STALE.raw_os_error()));
    let made = create(&view, outer, "new", FileKind::Regular);
    assert_eq!(errno(made), Some(Errno::STALE.raw_os_error()));
}

#[test]
fn names_that_no_file_system_takes_are_refused_in_new_directories_too() {
    let world = World::new();
    let view = world.view();
    let directory = create(&view, NodeId::ROOT, "d", FileKind::Directory).unwrap();
    let (longest, longer) = ("n".repeat(255), "n".repeat(300));
    create(&view, directory.node, &longest, FileKind::Regular).unwrap();
    for parent in [NodeId::ROOT, directory.node] {
        let refused = create(&view, parent, &longer, FileKind::Regular);
        assert_eq!(errno(refused), Some(Errno::NAMETOOLONG.raw_os_error()));
    }
}

#[test]
fn a_file_has_a_file_system_when_the_directory_that_last_named_it_is_gone() {
    let world = World::new();
    let view = world.view();
    let file = create(&view, NodeId::ROOT, "new", FileKind::Regular).unwrap();
    let directory = create(&view, NodeId::ROOT, "d", FileKind::Directory).unwrap();
    let name = OsStr::new("again");
    view.link(file.node, directory.node, name).unwrap();
    view.unlink(directory.node, name).unwrap();
    view.remove_directory(NodeId::ROOT, OsStr::new("d"))
        .unwrap();
    view.forget(directory.node, 1);
    let blocks = view.file_system(NodeId::ROOT).unwrap().blocks;
    assert_eq!(view.file_system(file.node).unwrap().blocks, blocks);
}

#[test]
fn any_change_of_data_takes_file_capabilities_away() {
    let world = World::new();
    let view = world.view();
    let capability = OsStr::new("security.capability");
    let node = create(&view, NodeId::ROOT, "new", FileKind::Regular)
        .unwrap()
        .node;
    let truncate = SetAttributes {
        size: Some(0),
        ..SetAttributes::default()
    };
    let changes: [&dyn Fn(); 3] = [
        &|| view.write(node, 0, b"data", false).unwrap(),
        &|| assert!(view.set_attributes(node, truncate).is_ok()),
        &|| view.allocate(node, 0, 10, 0).unwrap(),
    ];
    for change in changes {
        view.set_xattr(node, capability, b"value", 0).unwrap();
        change();
        let gone = Some(Errno::NODATA.raw_os_error());
        assert_eq!(errno(view.xattr(node, capability)), gone);
    }
}

#[test]
fn attributes_that_the_real_file_system_does_not_take_are_refused() {
    let world = World::new();
    let view = world.view();
    let made = create(&view, NodeId::ROOT, "new", FileKind::Regular).unwrap();
    let real = lookup(&view, NodeId::ROOT, "file");
    for node in [made.node, real.node, NodeId::ROOT] {
        let refused = view.set_xattr(node, OsStr::new("com.example.x"), b"1", 0);
        assert_eq!(errno(refused), Some(Errno::OPNOTSUPP.raw_os_error()));
    }
}

#[test]
fn a_group_that_is_shown_as_another_is_kept() {
    let world = World::new();
    let view = world.view();
    let shown = lookup(&view, NodeId::ROOT, "file");
    assert_eq!(shown.attributes.gid, OWN_GROUP);
    let set = SetAttributes {
        uid: Some(shown.attributes.uid),
        ..SetAttributes::default()
    };
    view.set_attributes(shown.node, set).unwrap();
    let share = SetAttributes {
        permissions: Some(0o2775),
        ..SetAttributes::default()
    };
    view.set_attributes(NodeId::ROOT, share).unwrap();
    let made = create(&view, NodeId::ROOT, "new", FileKind::Regular).unwrap();
    let map = load(world.state.path()).unwrap();
    for node in [shown.node, made.node] {
        assert_eq!(map.node(node).unwrap().gid, world.group());
        assert_eq!(view.attributes(node).unwrap().attributes.gid, OWN_GROUP);
    }
}

#[test]
fn a_kill_before_the_first_operation_was_written_leaves_a_view_without_changes() {
    for log in [None, Some(&b""[..]), Some(&b"SURMISEJ"[..])] {
        let world = World::new();
        let objects = world.state.path().join("objects/0000");
        fs::create_dir_all(&objects).unwrap();
        fs::write(objects.join("1"), "").unwrap();
        if let Some(bytes) = log {
            fs::write(world.state.path().join("log"), bytes).unwrap();
        }
        assert_eq!(load(world.state.path()).unwrap().operations(), 0);
        let view = world.view();
        create(&view, NodeId::ROOT, "new", FileKind::Regular).unwrap();
        assert_eq!(load(world.state.path()).unwrap().operations(), 1);
    }
}

#[test]
fn an_inode_number_that_was_used_again_is_another_file() {
    let world = World::new();
    let view = world.view();
    let read = lookup(&view, NodeId::ROOT, "file");
    view.open_file(read.node, OpenHow::default()).unwrap();
    let path = world.lower.path().join("file");
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    view.remove_directory(NodeId::ROOT, OsStr::new("file"))
        .unwrap();
    let recorded = first_use(&world, "file").unwrap();
    let found = path.metadata().unwrap();
    let key = InodeKey {
        device: found.dev(),
        inode: found.ino(),
    };
    assert_eq!((recorded.key(), recorded.kind), (key, FileKind::Directory));
}

/// Runs a test of this binary once more where mounts are its own; false where that cannot be.
fn is_alone_with_mounts(test: &str) -> bool {
    const INSIDE: &str = "SURMISE_TEST_OWN_MOUNTS";
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    if rustix::process::geteuid().is_root() {
        let mut words = std::process::Command::new("unshare");
        words.args(["--mount", "--propagation", "private"]);
        words.arg(std::env::current_exe().unwrap());
        words.args(["--exact", test]).env(INSIDE, "1");
        assert!(words.status().unwrap().success());
    }
    false
}

#[test]
fn what_something_is_mounted_on_can_be_neither_removed_nor_moved() {
    let test = "what_something_is_mounted_on_can_be_neither_removed_nor_moved";
    if !is_alone_with_mounts(test) {
        return;
    }
    let world = World::new();
    fs::create_dir(world.lower.path().join("dir")).unwrap();
    let (file, directory) = (OsStr::new("file"), OsStr::new("dir"));
    for name in [file, directory] {
        let path = world.lower.path().join(name);
        let mut mount = std::process::Command::new("mount");
        mount.arg("--bind").arg(&path).arg(&path);
        assert!(mount.status().unwrap().success());
    }
    let view = world.view();
    let busy = Some(Errno::BUSY.raw_os_error());
    assert_eq!(errno(view.unlink(NodeId::ROOT, file)), busy);
    assert_eq!(errno(view.remove_directory(NodeId::ROOT, directory)), busy);
    for name in [file, directory] {
        let to = (NodeId::ROOT, OsStr::new("new"));
        let moved = view.rename((NodeId::ROOT, name), to, RenameMode::Replace);
        assert_eq!(errno(moved), busy);
    }
    for name in [file, directory] {
        let mut umount = std::process::Command::new("umount");
        umount.arg(world.lower.path().join(name));
        assert!(umount.status().unwrap().success());
    }
}

#[test]
fn a_listing_is_made_anew_when_its_reader_begins_again() {
    let world = World::new();
    let view = world.view();
    let handle = view.open_directory(NodeId::ROOT).unwrap().handle;
    let names = |rewind| {
        let listing = view.read_directory(NodeId::ROOT, handle, rewind).unwrap();
        listing.len()
    };
    let before = names(true);
    create(&view, NodeId::ROOT, "newcomer", FileKind::Regular).unwrap();
    assert_eq!(names(false), before, "the same listing is read on");
    assert_eq!(names(true), before + 1);
    view.close_directory(handle);
    assert_eq!(
        errno(view.read_directory(NodeId::ROOT, handle, true)),
        Some(9),
        "a closed handle"
    );
}

/// The kernel lists a directory that has not changed by itself, and asks only when that is over.
#[test]
fn a_reader_who_began_in_the_kernels_memory_is_given_a_new_listing() {
    let world = World::new();
    let view = world.view();
    let own = create(&view, NodeId::ROOT, "own", FileKind::Directory).unwrap();
    create(&view, own.node, "goes", FileKind::Regular).unwrap();
    assert!(!view.open_directory(own.node).unwrap().is_unchanged);
    let opened = view.open_directory(own.node).unwrap();
    assert!(opened.is_unchanged);
    view.unlink(own.node, OsStr::new("goes")).unwrap();
    let listing = view.read_directory(own.node, opened.handle, true).unwrap();
    assert_eq!(listing.len(), 2, "{listing:?}");
}
