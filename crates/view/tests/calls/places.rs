//! What paths lead to.

use std::collections::HashSet;
use std::path::PathBuf;

use surmise_view::{End, Look, Manner, Target};

use super::*;

/// What a path leads to, of which a link at the end is followed or not.
fn end(view: &View, path: &str, follows: bool, manner: Manner) -> End {
    let target = Target::Path {
        base: PathBuf::from("/"),
        path: path.into(),
        follows,
    };
    let elsewhere = HashSet::from([PathBuf::from("/proc")]);
    let touches = view.touches(&[Look { target, manner }], &elsewhere);
    let ends = touches.unwrap().ends;
    assert_eq!(ends.len(), 1, "{path}");
    ends[0]
}

#[test]
fn a_path_leads_to_what_the_domain_would_find() {
    let world = World::new();
    fs::create_dir(world.lower.path().join("real")).unwrap();
    fs::write(world.lower.path().join("real/gone"), "").unwrap();
    std::os::unix::fs::symlink("real", world.lower.path().join("link")).unwrap();
    let view = world.view();
    let opens = Manner::Opens {
        creates: true,
        changes: true,
    };
    let named = |path| end(&view, path, false, Manner::Binds);
    let followed = |path| end(&view, path, true, opens);
    assert_eq!(named("/"), End::Directory);
    assert_eq!(named("/file"), End::File);
    assert_eq!(named("/link"), End::Link);
    assert_eq!(followed("/link"), End::Directory);
    assert_eq!(named("/link/gone"), End::File);
    for nothing in ["/none", "/none/x", "/file/x", "/link/none"] {
        assert_eq!(named(nothing), End::Nothing, "{nothing}");
        assert_eq!(followed(nothing), End::Nothing, "{nothing}");
    }

    let real = lookup(&view, NodeId::ROOT, "real").node;
    view.unlink(real, OsStr::new("gone")).unwrap();
    create(&view, real, "pipe", FileKind::Fifo).unwrap();
    let link = |name: &str, target: &str| {
        let link = NewNode {
            target: target.into(),
            ..new(FileKind::Symlink)
        };
        view.create(real, OsStr::new(name), link).unwrap();
    };
    link("up", "../file");
    link("to", "pipe");
    link("loop", "loop");
    link("out", "/proc/self");
    let (from, to) = (OsStr::new("real"), OsStr::new("moved"));
    let root = NodeId::ROOT;
    view.rename((root, from), (root, to), RenameMode::Replace)
        .unwrap();
    for (path, wanted) in [
        ("/real/gone", End::Nothing),
        ("/moved", End::Directory),
        ("/moved/gone", End::Nothing),
        ("/moved/pipe", End::Other),
        ("/moved/to", End::Other),
        ("/moved/up", End::File),
        ("/moved/loop", End::Nothing),
        ("/moved/out", End::Unknown),
        ("/moved/out/fd", End::Unknown),
        ("/proc", End::Unknown),
        ("/moved/../proc", End::Unknown),
    ] {
        assert_eq!(followed(path), wanted, "{path}");
    }
    assert_eq!(named("/moved/up"), End::Link);
    assert_eq!(named("/moved/out"), End::Link);
}

#[test]
fn each_look_has_its_end_and_an_inode_has_none() {
    let world = World::new();
    let view = world.view();
    let file = lookup(&view, NodeId::ROOT, "file");
    let path = |path: &str| Target::Path {
        base: PathBuf::from("/"),
        path: path.into(),
        follows: false,
    };
    let targets = [path("file"), Target::Inode(file.inode), path("none")];
    let manner = Manner::Changes;
    let looks = targets.map(|target| Look { target, manner });
    let touches = view.touches(&looks, &HashSet::new()).unwrap();
    assert_eq!(touches.ends, [End::File, End::Unknown, End::Nothing]);
}

/// To look leaves no node behind that nobody would ever forget.
#[test]
fn a_look_holds_nothing() {
    let world = World::new();
    let view = world.view();
    assert_eq!(end(&view, "/file", true, Manner::Passes), End::File);
    let seen = lookup(&view, NodeId::ROOT, "file").node;
    view.forget(seen, 1);
    let gone = view.attributes(seen);
    assert_eq!(errno(gone), Some(Errno::STALE.raw_os_error()));
}
