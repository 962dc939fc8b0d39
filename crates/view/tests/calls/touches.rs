//! Which undecided marks a call meets, and which cells it has in common with others.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::path::PathBuf;

use surmise_view::{
    FileKind, Look, Manner, MarkId, NodeId, SetAttributes, Share, Target, Touches, View,
};

use crate::{World, create, lookup};

fn touches(view: &View, path: &str, manner: Manner) -> Touches {
    let target = Target::Path {
        base: PathBuf::from("/"),
        path: path.into(),
        follows: true,
    };
    let elsewhere = HashSet::from([PathBuf::from("/proc")]);
    view.touches(&[Look { target, manner }], &elsewhere)
        .unwrap()
}

fn marks(view: &View, path: &str, manner: Manner) -> Vec<MarkId> {
    let touches = touches(view, path, manner);
    assert!(!touches.in_doubt, "{path}");
    touches.marks.into_iter().collect()
}

fn mark(view: &View) -> MarkId {
    view.mark(std::process::id(), false).unwrap()
}

#[test]
fn a_name_is_met_where_it_is_made_and_where_it_was_removed() {
    let world = World::new();
    let view = world.view();
    let made = mark(&view);
    create(&view, NodeId::ROOT, "made", FileKind::Regular).unwrap();
    let removed = mark(&view);
    view.unlink(NodeId::ROOT, OsStr::new("file")).unwrap();
    for manner in [Manner::Passes, Manner::Looks] {
        assert_eq!(marks(&view, "made", manner), [made]);
        assert_eq!(marks(&view, "file", manner), [removed]);
        assert_eq!(marks(&view, "nothing", manner), []);
    }
    let opens = |creates| Manner::Opens {
        creates,
        changes: false,
    };
    assert_eq!(marks(&view, "new", opens(true)), [], "names commute");
    assert_eq!(marks(&view, "file", opens(true)), [removed]);
    assert_eq!(
        marks(&view, "/", opens(false)),
        [],
        "it looks at nothing yet"
    );
    assert_eq!(marks(&view, "/", Manner::Looks), [made, removed], "times");
    assert_eq!(marks(&view, "/", Manner::Lists), [made, removed]);
}

#[test]
fn an_inode_is_met_by_each_of_its_names_and_by_its_number() {
    let world = World::new();
    let view = world.view();
    let file = lookup(&view, NodeId::ROOT, "file");
    view.link(file.node, NodeId::ROOT, OsStr::new("twin"))
        .unwrap();
    let changed = mark(&view);
    let private = SetAttributes {
        permissions: Some(0o600),
        ..SetAttributes::default()
    };
    view.set_attributes(file.node, private).unwrap();
    let linked = mark(&view);
    view.link(file.node, NodeId::ROOT, OsStr::new("third"))
        .unwrap();
    for name in ["file", "twin"] {
        assert_eq!(marks(&view, name, Manner::Passes), [changed]);
        assert_eq!(marks(&view, name, Manner::Looks), [changed, linked]);
        assert_eq!(marks(&view, name, Manner::Links), [changed]);
    }
    let opened = |manner| {
        let target = Target::Inode(file.inode);
        let touches = view
            .touches(&[Look { target, manner }], &HashSet::new())
            .unwrap();
        let marks: Vec<MarkId> = touches.marks.into_iter().collect();
        (marks, touches.cells)
    };
    let cells = |share| vec![(file.inode, share)];
    assert_eq!(
        opened(Manner::Passes),
        (vec![changed], cells(Share::Passes))
    );
    let all = vec![changed, linked];
    assert_eq!(opened(Manner::Changes), (all, cells(Share::Changes)));
}

#[test]
fn a_link_is_followed_and_what_is_mounted_elsewhere_is_in_doubt() {
    let world = World::new();
    let view = world.view();
    create(&view, NodeId::ROOT, "directory", FileKind::Directory).unwrap();
    let directory = lookup(&view, NodeId::ROOT, "directory").node;
    let link = |name: &str, target: &str| {
        let new = surmise_view::NewNode {
            target: target.into(),
            ..surmise_twins::new_node(FileKind::Symlink)
        };
        view.create(directory, OsStr::new(name), new).unwrap();
    };
    link("up", "../file");
    link("loop", "loop");
    link("self", "/proc/self");
    let linked = mark(&view);
    link("new", "up");
    let changed = mark(&view);
    let file = lookup(&view, NodeId::ROOT, "file");
    view.write(file.node, 0, b"new", false).unwrap();
    assert_eq!(marks(&view, "directory/up", Manner::Passes), [changed]);
    assert_eq!(
        marks(&view, "directory/../directory/new", Manner::Passes),
        [linked, changed]
    );
    assert_eq!(marks(&view, "directory/loop", Manner::Passes), []);
    for elsewhere in ["directory/self", "/proc", "/proc/self/fd/3"] {
        assert!(touches(&view, elsewhere, Manner::Passes).in_doubt);
    }
}

#[test]
fn a_program_is_met_with_its_interpreters() {
    let world = World::new();
    let view = world.view();
    let write = |name: &str, data: &str| {
        let made = create(&view, NodeId::ROOT, name, FileKind::Regular).unwrap();
        view.write(made.node, 0, data.as_bytes(), false).unwrap();
        made.node
    };
    write("outer", "#!/inner -x\n");
    let inner = write("inner", "#!/empty\n");
    write("empty", "");
    write("odd", "exit 0\n");
    assert_eq!(marks(&view, "outer", Manner::Executes), []);
    let changed = mark(&view);
    let private = SetAttributes {
        permissions: Some(0o700),
        ..SetAttributes::default()
    };
    view.set_attributes(inner, private).unwrap();
    assert_eq!(marks(&view, "outer", Manner::Executes), [changed]);
    assert_eq!(marks(&view, "outer", Manner::Looks), []);
    assert!(touches(&view, "odd", Manner::Executes).in_doubt);
}

/// Both have the directory in common, and commute there.
#[test]
fn two_new_names_share_no_cell_but_their_directory() {
    let world = World::new();
    let view = world.view();
    let cells = |name: &str| touches(&view, name, Manner::Binds).cells;
    let (one, other) = (cells("one"), cells("other"));
    let shared: Vec<_> = one.iter().filter(|cell| other.contains(cell)).collect();
    let root = view.attributes(NodeId::ROOT).unwrap().inode;
    assert_eq!(shared, [&(root, Share::Commutes)]);
    assert!(one.iter().any(|(_, share)| *share == Share::Changes));
    assert_eq!(one, cells("/one"), "each time the same");
}

/// A file that is not in the map: what it lost is known by its link count alone.
#[test]
fn an_open_file_is_met_by_the_name_that_it_lost() {
    let world = World::new();
    let view = world.view();
    let file = lookup(&view, NodeId::ROOT, "file");
    let opened = |manner| {
        let target = Target::Inode(file.inode);
        let touches = view
            .touches(&[Look { target, manner }], &HashSet::new())
            .unwrap();
        touches.marks.into_iter().collect::<Vec<_>>()
    };
    let removed = mark(&view);
    view.unlink(NodeId::ROOT, OsStr::new("file")).unwrap();
    assert_eq!(opened(Manner::Looks), [removed]);
    assert_eq!(opened(Manner::Passes), []);
    view.undo(&[removed]).unwrap();
    assert_eq!(opened(Manner::Looks), []);
}

/// To search it takes a right, also on the way back.
#[test]
fn a_directory_is_met_by_a_path_that_leaves_it() {
    let world = World::new();
    let view = world.view();
    create(&view, NodeId::ROOT, "directory", FileKind::Directory).unwrap();
    let directory = lookup(&view, NodeId::ROOT, "directory").node;
    let closed = mark(&view);
    let private = SetAttributes {
        permissions: Some(0),
        ..SetAttributes::default()
    };
    view.set_attributes(directory, private).unwrap();
    assert_eq!(marks(&view, "directory/../file", Manner::Passes), [closed]);
    assert_eq!(marks(&view, "file", Manner::Passes), []);
}
