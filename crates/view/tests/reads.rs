//! What a view takes down of what is read through it.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};

use surmise_journal::HEADER_LENGTH;
use surmise_twins::new_node;
use surmise_view::{
    Entry, FileKind, NodeId, OpenHow, Read, ReadsUnknown, RenameMode, View, ViewConfig, load_reads,
};
use tempfile::TempDir;

struct World {
    lower: TempDir,
    state: TempDir,
}

impl World {
    fn new() -> Self {
        let lower = TempDir::new().unwrap();
        fs::create_dir_all(lower.path().join("d/e")).unwrap();
        for name in ["a", "b", "d/e/f"] {
            fs::write(lower.path().join(name), name).unwrap();
        }
        symlink("a", lower.path().join("link")).unwrap();
        Self {
            lower,
            state: TempDir::new().unwrap(),
        }
    }

    fn view(&self) -> View {
        view_of(self.state.path(), self.lower.path())
    }

    fn reads(&self) -> Result<Vec<Read>, ReadsUnknown> {
        load_reads(self.state.path())
    }

    #[track_caller]
    fn assert_reads(&self, wanted: &[&str]) {
        let reads = self.reads().unwrap();
        let paths: Vec<_> = reads.iter().map(|read| read.path.as_path()).collect();
        let wanted: Vec<_> = wanted.iter().map(Path::new).collect();
        assert_eq!(paths, wanted);
    }

    #[track_caller]
    fn assert_not_whole(&self) {
        let reads = self.reads();
        assert!(matches!(reads, Err(ReadsUnknown::NotWhole)), "{reads:?}");
    }

    fn record(&self) -> PathBuf {
        self.state.path().join("reads")
    }
}

fn view_of(state: &Path, lower: &Path) -> View {
    let config = ViewConfig {
        descriptors: 16,
        ..ViewConfig::new(state, lower)
    };
    View::open(config).unwrap()
}

/// What a path leads to, looked up as the kernel does.
fn lookup(view: &View, path: &str) -> Entry {
    let mut entry = None;
    for name in path.split('/') {
        let parent = entry.map_or(NodeId::ROOT, |entry: Entry| entry.node);
        let found = view.lookup(parent, OsStr::new(name)).unwrap();
        entry = Some(found.unwrap_or_else(|_| panic!("no {path}")));
    }
    entry.unwrap()
}

fn open(view: &View, path: &str) -> Entry {
    let found = lookup(view, path);
    view.open_file(found.node, OpenHow::default()).unwrap();
    found
}

fn open_and_close(view: &View, path: &str) -> Entry {
    let found = open(view, path);
    view.close_file(found.node, 0, false);
    found
}

fn create(view: &View, name: &str) -> NodeId {
    let new = new_node(FileKind::Regular);
    let created = view.create(NodeId::ROOT, OsStr::new(name), new);
    created.unwrap().node
}

#[test]
fn each_real_file_that_is_opened_is_there_once_in_its_first_state() {
    let world = World::new();
    let view = world.view();
    let made = create(&view, "made");
    view.open_file(made, OpenHow::default()).unwrap();
    let first = open_and_close(&view, "d/e/f").attributes.identity;
    lookup(&view, "b");
    view.read_link(lookup(&view, "link").node).unwrap();
    fs::write(world.lower.path().join("d/e/f"), "longer than before").unwrap();
    open_and_close(&view, "d/e/f");
    // By another inode under its name, too.
    fs::write(world.lower.path().join("new"), "new").unwrap();
    fs::rename(
        world.lower.path().join("new"),
        world.lower.path().join("d/e/f"),
    )
    .unwrap();
    open_and_close(&view, "d/e/f");
    view.end_reads();
    world.assert_reads(&["d/e/f", "link"]);
    let reads = world.reads().unwrap();
    assert_eq!(reads[0].identity, first);
    let link = fs::symlink_metadata(world.lower.path().join("link")).unwrap();
    assert_eq!(reads[1].identity.inode, link.ino());
}

#[test]
fn a_file_is_recorded_by_its_real_path_whatever_the_domain_calls_it() {
    let world = World::new();
    let view = world.view();
    let (from, to) = (OsStr::new("d"), OsStr::new("moved"));
    let root = NodeId::ROOT;
    view.rename((root, from), (root, to), RenameMode::Replace)
        .unwrap();
    open(&view, "moved/e/f");
    view.end_reads();
    world.assert_reads(&["d/e/f"]);
}

#[test]
fn both_names_of_one_inode_are_recorded() {
    let world = World::new();
    fs::hard_link(world.lower.path().join("a"), world.lower.path().join("z")).unwrap();
    let view = world.view();
    open(&view, "a");
    open(&view, "z");
    view.end_reads();
    world.assert_reads(&["a", "z"]);
}

#[test]
fn a_domain_that_reads_nothing_has_a_whole_record_of_that() {
    let world = World::new();
    let view = world.view();
    world.assert_not_whole();
    view.end_reads();
    world.assert_reads(&[]);
}

#[test]
fn a_record_that_is_cut_anywhere_is_whole_only_behind_an_end_mark() {
    let world = World::new();
    let mut wholes: Vec<(Vec<u8>, Vec<PathBuf>)> = Vec::new();
    let mut end = |view: &View| {
        view.end_reads();
        let paths = world.reads().unwrap().into_iter().map(|read| read.path);
        wholes.push((fs::read(world.record()).unwrap(), paths.collect()));
    };
    let view = world.view();
    open(&view, "a");
    open(&view, "d/e/f");
    end(&view);
    drop(view);
    let view = world.view();
    open(&view, "b");
    end(&view);
    // The second one at the length of the first is none: that there is more to come had been durable.
    assert!(wholes[0].0.len() < wholes[1].0.len());
    let cuts = wholes.iter().flat_map(|(record, paths)| {
        (0..=record.len())
            .map(move |cut| (record, cut, (cut == record.len()).then(|| paths.clone())))
    });
    for (record, cut, wanted) in cuts {
        let state = TempDir::new().unwrap();
        fs::write(state.path().join("reads"), &record[..cut]).unwrap();
        let paths = |reads: Vec<Read>| reads.into_iter().map(|read| read.path).collect();
        let found: Option<Vec<PathBuf>> = load_reads(state.path()).ok().map(paths);
        assert_eq!(found, wanted, "cut at {cut}");
        // Entering it does not make it more than it is.
        let view = view_of(state.path(), world.lower.path());
        view.end_reads();
        drop(view);
        assert_eq!(load_reads(state.path()).ok().map(paths), wanted);
    }
    // Neither is one of which a byte in the middle is another, unless that byte says nothing.
    let (record, all) = &wholes[1];
    let mut same = 0;
    for at in 0..record.len() {
        let state = TempDir::new().unwrap();
        let mut record = record.clone();
        record[at] ^= 1;
        fs::write(state.path().join("reads"), &record).unwrap();
        if let Ok(reads) = load_reads(state.path()) {
            let paths: Vec<_> = reads.into_iter().map(|read| read.path).collect();
            assert_eq!(&paths, all, "another byte at {at}");
            same += 1;
        }
    }
    // What is between the marks says nothing, and one of two marks is enough.
    assert_eq!(same as u64, HEADER_LENGTH - 24);
}

#[test]
fn a_killed_view_leaves_no_whole_record_and_no_later_one_does() {
    let world = World::new();
    let view = world.view();
    open(&view, "a");
    create(&view, "made");
    drop(view);
    world.assert_not_whole();
    let view = world.view();
    open(&view, "b");
    view.end_reads();
    world.assert_not_whole();
}

#[test]
fn a_domain_that_is_entered_again_has_one_record_of_all_its_runs() {
    let world = World::new();
    let view = world.view();
    let first = open(&view, "a").attributes.identity;
    create(&view, "made");
    view.end_reads();
    drop(view);
    fs::write(world.lower.path().join("a"), "changed outside").unwrap();
    let view = world.view();
    world.assert_not_whole();
    open(&view, "a");
    open(&view, "b");
    view.end_reads();
    world.assert_reads(&["a", "b"]);
    assert_eq!(world.reads().unwrap()[0].identity, first);
}

#[test]
fn of_a_domain_without_a_record_nothing_is_known() {
    let world = World::new();
    let view = world.view();
    create(&view, "made");
    view.end_reads();
    drop(view);
    fs::remove_file(world.record()).unwrap();
    let view = world.view();
    open(&view, "a");
    view.end_reads();
    let reads = world.reads();
    assert!(matches!(reads, Err(ReadsUnknown::Absent)), "{reads:?}");
}

#[test]
fn a_preparation_makes_the_record_whole_and_a_commit_begins_it_anew() {
    let world = World::new();
    let view = world.view();
    open_and_close(&view, "a");
    open(&view, "d/e/f");
    view.read_link(lookup(&view, "link").node).unwrap();
    create(&view, "made");
    view.prepare_commit().unwrap();
    world.assert_reads(&["a", "d/e/f", "link"]);
    // It is refused, and the domain goes on.
    view.go_on().unwrap();
    world.assert_not_whole();
    open_and_close(&view, "a");
    open_and_close(&view, "b");
    view.prepare_commit().unwrap();
    world.assert_reads(&["a", "d/e/f", "link", "b"]);
    // It is made.
    fs::write(world.lower.path().join("made"), "").unwrap();
    fs::write(world.lower.path().join("d/e/f"), "changed").unwrap();
    view.rebase().unwrap();
    view.go_on().unwrap();
    world.assert_not_whole();
    open_and_close(&view, "b");
    view.end_reads();
    world.assert_reads(&["d/e/f", "link", "b"]);
    let now = fs::metadata(world.lower.path().join("d/e/f")).unwrap();
    assert_eq!(world.reads().unwrap()[0].identity.size, now.size());
}

#[test]
fn a_commit_begins_a_new_record_also_where_the_old_one_is_lost() {
    let world = World::new();
    let view = world.view();
    open_and_close(&view, "a");
    create(&view, "made");
    drop(view);
    let view = world.view();
    open_and_close(&view, "b");
    view.read_link(lookup(&view, "link").node).unwrap();
    view.prepare_commit().unwrap();
    world.assert_not_whole();
    fs::write(world.lower.path().join("made"), "").unwrap();
    view.rebase().unwrap();
    view.go_on().unwrap();
    open_and_close(&view, "a");
    view.end_reads();
    world.assert_reads(&["link", "a"]);
}

#[test]
fn many_reads_take_little_space() {
    const MANY: usize = 3000;
    let world = World::new();
    let path = |index| format!("d/e/a-file-in-a-tree-{index:08}");
    for index in 0..MANY {
        fs::write(world.lower.path().join(path(index)), "").unwrap();
    }
    let view = world.view();
    for _ in 0..2 {
        for index in 0..MANY {
            open_and_close(&view, &path(index));
        }
    }
    // In large pieces, and not at each open.
    let early = fs::metadata(world.record()).unwrap().len();
    assert_eq!(early / (64 << 10), 3, "{early} bytes");
    view.end_reads();
    assert_eq!(world.reads().unwrap().len(), MANY);
    let length = fs::metadata(world.record()).unwrap().len() as usize;
    assert!(length < 100 * MANY, "{length} bytes");
}
