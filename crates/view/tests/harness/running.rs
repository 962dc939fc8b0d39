//! What is open, and commits around it.

use std::fs::{self, File};
use std::io;
use std::ops::ControlFlow;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags};
use surmise_changes::Changes;
use surmise_commit::{Phase, Report, Request};
use surmise_view::{FileKind, NodeId};

use super::plain::{at, name_inodes, seen};
use super::{Pair, Parts, Picture, Under, picture_tree};

/// One inode that is open on both sides.
pub struct Held {
    node: NodeId,
    plain: OwnedFd,
}

impl Held {
    fn plain_path(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.plain.as_raw_fd()).into()
    }
}

impl Pair {
    pub(super) fn hold(&mut self, parts: &Parts) {
        let Ok((node, _)) = self.node(parts) else {
            return;
        };
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let path = at(self.plain.path(), parts).unwrap();
        let plain = rustix::fs::openat(CWD, path, flags, Mode::empty()).unwrap();
        self.held.push(Held { node, plain });
    }

    /// Writes to an open file, whatever has become of its names.
    pub(super) fn write_held(&mut self, index: usize, offset: u64, bytes: &[u8]) {
        let files = self.held.iter().filter(|held| {
            let found = self.view().attributes(held.node).unwrap();
            found.attributes.identity.kind == FileKind::Regular
        });
        let files: Vec<_> = files.collect();
        if files.is_empty() {
            return;
        }
        let held = files[index % files.len()];
        let file = File::options().write(true).open(held.plain_path()).unwrap();
        file.write_all_at(bytes, offset).unwrap();
        self.view().write(held.node, offset, bytes, false).unwrap();
    }

    pub(super) fn forget(&mut self) {
        let kept = |node: &NodeId| self.held.iter().any(|held| held.node == *node);
        let mut lookups = self.lookups.borrow_mut();
        let forgotten: Vec<_> = lookups.extract_if(|node, _| !kept(node)).collect();
        drop(lookups);
        for (node, count) in forgotten {
            self.view().forget(node, count);
        }
        // All names are seen again, as after an opening.
        self.compare();
    }

    /// Commits as control does, and goes on with the same view.
    pub(super) fn commit(&mut self) {
        let view = self.view();
        let state = self.state.path();
        view.prepare_commit().unwrap();
        assert!(view.prepare_commit().is_err(), "prepared twice");
        let map = surmise_view::load(state).unwrap();
        let request = Request {
            name: "t",
            directory: state,
            map: &map,
            root: self.on_disk_at(),
            keep: None,
        };
        let mut on_progress = |_| ControlFlow::Continue(());
        let report = surmise_commit::commit(&request, &mut on_progress).unwrap();
        assert_eq!(report, Report::default());
        assert_eq!(surmise_commit::pending(state).unwrap(), Some(Phase::Done));
        view.rebase().unwrap();
        surmise_commit::forget(state).unwrap();
        assert_eq!(surmise_commit::pending(state).unwrap(), None);
        assert!(Changes::of(&surmise_view::load(state).unwrap()).is_empty());
        view.go_on().unwrap();
        view.sweep().unwrap();
        self.compare_lower();
        self.compare();
    }

    fn on_disk_at(&self) -> &Path {
        match &self.lower {
            Under::Disk(lower) => lower.path(),
            Under::Memory(_) => panic!("what is committed is on disk"),
        }
    }

    /// The real tree is what the plain one is.
    fn compare_lower(&self) {
        let (mut lower, mut plain) = (Picture::new(), Picture::new());
        picture_tree(self.on_disk_at(), &mut lower);
        picture_tree(self.plain.path(), &mut plain);
        for picture in [&mut lower, &mut plain] {
            name_inodes(picture);
        }
        assert_eq!(lower, plain, "the real tree");
    }

    /// What is open, under paths that come before all others.
    pub(super) fn picture_held(&self, view: &mut Picture, plain: &mut Picture) {
        for (index, held) in self.held.iter().enumerate() {
            let name = PathBuf::from(format!("#{index}"));
            let found = self.view().attributes(held.node).unwrap();
            view.insert(name.clone(), self.see(&found));
            let metadata = fs::metadata(held.plain_path()).unwrap();
            let content = held_content(held, &metadata).unwrap();
            plain.insert(name, seen(&metadata, content));
        }
    }

    /// The number of objects that the store holds.
    pub fn objects(&self) -> usize {
        let Ok(shards) = fs::read_dir(self.state.path().join("objects")) else {
            return 0;
        };
        let objects = |shard: &Path| fs::read_dir(shard).unwrap().count();
        shards.map(|shard| objects(&shard.unwrap().path())).sum()
    }
}

fn held_content(held: &Held, metadata: &fs::Metadata) -> io::Result<Vec<u8>> {
    if metadata.is_file() {
        return fs::read(held.plain_path());
    }
    if metadata.is_symlink() {
        let target = rustix::fs::readlinkat(&held.plain, "", Vec::new())?;
        return Ok(target.into_bytes());
    }
    Ok(Vec::new())
}
