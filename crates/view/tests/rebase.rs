//! A rebase in the log: cut anywhere, and what a later opening makes of it.

use std::ffi::OsStr;
use std::fs;
use std::ops::ControlFlow;
use std::path::Path;

use rustix::io::Errno;
use surmise_changes::Changes;
use surmise_commit::Request;
use surmise_journal::{FRAME_HEADER_LENGTH, HEADER_LENGTH};
use surmise_twins::new_node;
use surmise_view::{FileKind, Map, Node, NodeId, OpenHow, Operation, View, ViewConfig, load};
use tempfile::TempDir;

struct World {
    lower: TempDir,
    state: TempDir,
}

impl World {
    fn new() -> Self {
        let lower = TempDir::new().unwrap();
        for name in ["kept", "removed", "changed", "other"] {
            fs::write(lower.path().join(name), name).unwrap();
        }
        Self {
            lower,
            state: TempDir::new().unwrap(),
        }
    }

    fn view(&self) -> View {
        view_of(self.state.path(), self.lower.path())
    }

    fn map(&self) -> Map {
        load(self.state.path()).unwrap()
    }

    fn log(&self) -> Vec<u8> {
        fs::read(self.state.path().join("log")).unwrap()
    }

    fn lower(&self, name: &str) -> String {
        fs::read_to_string(self.lower.path().join(name)).unwrap()
    }

    fn commit(&self) {
        let map = self.map();
        let request = Request {
            name: "t",
            directory: self.state.path(),
            map: &map,
            root: self.lower.path(),
            keep: None,
        };
        let report = surmise_commit::commit(&request, &mut |_| ControlFlow::Continue(()));
        assert!(report.unwrap().left.is_empty());
    }

    fn objects(&self) -> usize {
        let shards = fs::read_dir(self.state.path().join("objects")).unwrap();
        let count = |shard: &Path| fs::read_dir(shard).unwrap().count();
        shards.map(|shard| count(&shard.unwrap().path())).sum()
    }
}

fn view_of(state: &Path, lower: &Path) -> View {
    let config = ViewConfig {
        descriptors: 16,
        ..ViewConfig::new(state, lower)
    };
    View::open(config).unwrap()
}

fn lookup(view: &View, name: &str) -> NodeId {
    let found = view.lookup(NodeId::ROOT, OsStr::new(name)).unwrap();
    found.unwrap_or_else(|_| panic!("no {name}")).node
}

fn create(view: &View, name: &str) -> NodeId {
    let new = new_node(FileKind::Regular);
    view.create(NodeId::ROOT, OsStr::new(name), new)
        .unwrap()
        .node
}

fn read(view: &View, node: NodeId) -> String {
    let mut bytes = [0; 100];
    let length = view.read(node, 0, &mut bytes).unwrap();
    String::from_utf8_lossy(&bytes[..length]).into_owned()
}

fn sorted(map: &Map) -> Vec<(NodeId, Node)> {
    let mut nodes: Vec<_> = map.nodes().map(|(id, node)| (id, node.clone())).collect();
    nodes.sort_by_key(|(id, _)| *id);
    nodes
}

/// The map that the whole frames of a log give.
fn folded(log: &[u8]) -> Map {
    const HEAD: usize = FRAME_HEADER_LENGTH as usize;
    let mut map = Map::default();
    let mut rest = log.get(HEADER_LENGTH as usize..).unwrap_or_default();
    while let Some((length, _)) = rest.split_first_chunk::<4>() {
        let end = HEAD + u32::from_le_bytes(*length) as usize;
        let Some(payload) = rest.get(HEAD..end) else {
            break;
        };
        map.apply(&Operation::decode(payload).unwrap()).unwrap();
        rest = &rest[end..];
    }
    map.prune();
    map
}

/// S12: at every byte the log is the state before an operation, or after it. S50: what was durable is not missing.
#[test]
fn a_log_with_a_rebase_may_be_cut_at_any_byte() {
    let world = World::new();
    let view = world.view();
    view.write(create(&view, "new"), 0, b"new", false).unwrap();
    let (held, changed) = (lookup(&view, "removed"), lookup(&view, "changed"));
    view.unlink(NodeId::ROOT, OsStr::new("removed")).unwrap();
    view.write(changed, 0, b"CH", false).unwrap();
    let before = world.log();
    view.prepare_commit().unwrap();
    world.commit();
    assert_eq!(world.log(), before, "a preparation writes nothing");
    view.rebase().unwrap();
    surmise_commit::forget(world.state.path()).unwrap();
    view.go_on().unwrap();
    let rebased = world.log();
    assert!(sorted(&world.map()).is_empty());
    view.write(held, 0, b"R", false).unwrap();
    view.write(changed, 0, b"ch", false).unwrap();
    let log = world.log();
    for cut in 0..=log.len() {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("log");
        fs::write(&path, &log[..cut]).unwrap();
        if let Err(lacking) = load(directory.path()) {
            assert!(lacking.to_string().contains("damaged at byte"), "{lacking}");
            assert!(cut < rebased.len(), "cut at {cut}: {lacking}");
            continue;
        }
        let is_new = cut < HEADER_LENGTH as usize;
        assert!(
            is_new || cut >= rebased.len(),
            "cut at {cut}: it lacks what was durable"
        );
        let wanted = sorted(&folded(&log[..cut]));
        assert_eq!(
            sorted(&load(directory.path()).unwrap()),
            wanted,
            "cut at {cut}"
        );
        drop(view_of(directory.path(), world.lower.path()));
        assert_eq!(
            sorted(&load(directory.path()).unwrap()),
            wanted,
            "opened, cut at {cut}"
        );
        let changes = Changes::of(&load(directory.path()).unwrap()).len();
        assert_eq!(changes, usize::from(cut == log.len()), "cut at {cut}");
    }
}

#[test]
fn what_nothing_names_is_gone_when_the_view_is_opened_again() {
    let world = World::new();
    let view = world.view();
    let held = lookup(&view, "removed");
    view.unlink(NodeId::ROOT, OsStr::new("removed")).unwrap();
    view.prepare_commit().unwrap();
    world.commit();
    view.rebase().unwrap();
    surmise_commit::forget(world.state.path()).unwrap();
    view.go_on().unwrap();
    view.sweep().unwrap();
    assert_eq!(
        (read(&view, held).as_str(), world.objects()),
        ("removed", 1)
    );
    drop(view);
    let view = world.view();
    assert_eq!(world.objects(), 0);
    assert!(
        view.lookup(NodeId::ROOT, OsStr::new("removed"))
            .unwrap()
            .is_err()
    );
    assert!(Changes::of(&world.map()).is_empty());
}

#[test]
fn what_is_forgotten_leaves_no_object() {
    let world = World::new();
    let view = world.view();
    let held = lookup(&view, "removed");
    view.unlink(NodeId::ROOT, OsStr::new("removed")).unwrap();
    view.prepare_commit().unwrap();
    world.commit();
    view.rebase().unwrap();
    view.go_on().unwrap();
    view.forget(held, 1);
    view.sweep().unwrap();
    assert_eq!(world.objects(), 0);
}

#[test]
fn a_commit_that_is_given_up_changes_nothing() {
    let world = World::new();
    let view = world.view();
    let (held, changed) = (lookup(&view, "removed"), lookup(&view, "changed"));
    view.write(changed, 0, b"CH", false).unwrap();
    view.unlink(NodeId::ROOT, OsStr::new("removed")).unwrap();
    let before = (world.log(), sorted(&world.map()));
    assert_eq!(
        errno(view.rebase()),
        Some(Errno::INVAL),
        "nothing was prepared"
    );
    view.prepare_commit().unwrap();
    assert_eq!(view.go_on().unwrap(), surmise_view::Stale::default());
    view.sweep().unwrap();
    assert_eq!((world.log(), sorted(&world.map())), before);
    assert_eq!(world.objects(), 1);
    assert_eq!(
        (read(&view, held).as_str(), read(&view, changed).as_str()),
        ("removed", "CHanged")
    );
    assert_eq!(world.lower("changed"), "changed");
}

/// A call that comes while the commit is under way belongs to the next consent.
#[test]
fn a_call_waits_for_the_end_of_the_commit() {
    let world = World::new();
    let view = world.view();
    let changed = lookup(&view, "changed");
    view.write(changed, 0, b"CH", false).unwrap();
    view.prepare_commit().unwrap();
    std::thread::scope(|scope| {
        let late = scope.spawn(|| view.write(changed, 0, b"later", false));
        world.commit();
        view.rebase().unwrap();
        assert!(!late.is_finished());
        surmise_commit::forget(world.state.path()).unwrap();
        view.go_on().unwrap();
        late.join().unwrap().unwrap();
    });
    assert_eq!(world.lower("changed"), "CHanged");
    assert_eq!(read(&view, changed), "latered");
    assert_eq!(Changes::of(&world.map()).len(), 1);
}

#[test]
fn what_somebody_moved_in_the_same_moment_is_stale() {
    let world = World::new();
    let view = world.view();
    let (changed, other) = (lookup(&view, "changed"), lookup(&view, "other"));
    let new = create(&view, "new");
    view.write(changed, 0, b"CH", false).unwrap();
    view.write(new, 0, b"new", false).unwrap();
    view.prepare_commit().unwrap();
    world.commit();
    let at = |name: &str| world.lower.path().join(name);
    fs::rename(at("changed"), at("elsewhere")).unwrap();
    fs::remove_file(at("new")).unwrap();
    fs::create_dir(at("new")).unwrap();
    view.rebase().unwrap();
    view.go_on().unwrap();
    for node in [changed, new] {
        assert_eq!(errno(view.attributes(node)), Some(Errno::STALE));
        assert_eq!(errno(view.write(node, 0, b"x", false)), Some(Errno::STALE));
    }
    assert_eq!(read(&view, other), "other");
    // By its name it is found again, as the node that it was.
    assert_eq!(read(&view, lookup(&view, "elsewhere")), "CHanged");
}

/// Conflicts are judged from the rebase on.
#[test]
fn what_changes_outside_after_a_rebase_is_a_conflict_with_the_next_commit_only() {
    let world = World::new();
    let view = world.view();
    let (changed, other) = (lookup(&view, "changed"), lookup(&view, "other"));
    for node in [changed, other] {
        view.open_file(node, OpenHow::default()).unwrap();
    }
    view.write(changed, 0, b"CH", false).unwrap();
    // Read inside and changed outside: nothing that this commit is about.
    fs::write(world.lower.path().join("other"), "changed outside").unwrap();
    view.prepare_commit().unwrap();
    world.commit();
    view.rebase().unwrap();
    surmise_commit::forget(world.state.path()).unwrap();
    view.go_on().unwrap();
    view.write(other, 0, b"now", false).unwrap();
    view.prepare_commit().unwrap();
    world.commit();
    view.rebase().unwrap();
    surmise_commit::forget(world.state.path()).unwrap();
    view.go_on().unwrap();
    assert_eq!(world.lower("other"), "nownged outside");
    fs::write(world.lower.path().join("changed"), "somebody else's").unwrap();
    view.write(changed, 0, b"mine", false).unwrap();
    let map = world.map();
    let request = Request {
        name: "t",
        directory: world.state.path(),
        map: &map,
        root: world.lower.path(),
        keep: None,
    };
    let conflict = surmise_commit::check(&request);
    assert!(
        matches!(conflict, Err(surmise_commit::CommitError::Conflicts(_))),
        "{conflict:?}"
    );
}

fn errno<T>(result: std::io::Result<T>) -> Option<Errno> {
    let code = result.err()?.raw_os_error()?;
    Some(Errno::from_raw_os_error(code))
}
