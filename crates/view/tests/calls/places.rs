//! What is at a place.

use super::*;
use surmise_view::At;

#[test]
fn what_is_at_a_place_is_what_the_domain_would_find() {
    let world = World::new();
    fs::create_dir(world.lower.path().join("real")).unwrap();
    fs::write(world.lower.path().join("real/gone"), "").unwrap();
    std::os::unix::fs::symlink("real", world.lower.path().join("link")).unwrap();
    let view = world.view();
    let at = |place: &str| view.at(Path::new(place)).unwrap();
    assert_eq!(at("/"), At::Directory);
    assert_eq!(at("/file"), At::File);
    assert_eq!(at("/real/gone"), At::File);
    assert_eq!(at("/link"), At::Link("real".into()));
    for nothing in ["/none", "/none/x", "/file/x", "/link/gone"] {
        assert_eq!(at(nothing), At::Nothing, "{nothing}");
    }

    let real = lookup(&view, NodeId::ROOT, "real").node;
    view.unlink(real, OsStr::new("gone")).unwrap();
    create(&view, real, "pipe", FileKind::Fifo).unwrap();
    let link = NewNode {
        target: "../file".into(),
        ..new(FileKind::Symlink)
    };
    view.create(real, OsStr::new("made"), link).unwrap();
    let (from, to) = (OsStr::new("real"), OsStr::new("moved"));
    let root = NodeId::ROOT;
    view.rename((root, from), (root, to), RenameMode::Replace)
        .unwrap();
    assert_eq!(at("/real/gone"), At::Nothing);
    assert_eq!(at("/moved"), At::Directory);
    assert_eq!(at("/moved/gone"), At::Nothing);
    assert_eq!(at("/moved/pipe"), At::Other);
    assert_eq!(at("/moved/made"), At::Link("../file".into()));
}

/// To look leaves no node behind that nobody would ever forget.
#[test]
fn a_look_holds_nothing() {
    let world = World::new();
    let view = world.view();
    assert_eq!(view.at(Path::new("/file")).unwrap(), At::File);
    let seen = lookup(&view, NodeId::ROOT, "file").node;
    view.forget(seen, 1);
    let gone = view.attributes(seen);
    assert_eq!(errno(gone), Some(Errno::STALE.raw_os_error()));
}
