//! A server that ends between any two calls, and the one after it: whatever was made, the directory becomes what the log says.

mod colliding;
mod passing;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use surmise_lower::Timestamp;
use surmise_remote::object::{Body, Name, Object, ObjectId, Prefix};
use surmise_remote::operation::{Change, NewKind, NewObject, Operation, Place, SetAttributes};
use surmise_remote::tree::{Limits, Tree};

use super::fault::tests::{allow, is_over};
use super::redo::Earlier;
use super::{Batch, Directory, Stuck};
use crate::state::State;

const OPERATIONS: usize = 14;

/// What is to come of a log.
struct Expected {
    tree: Tree,
    root: ObjectId,
    data: HashMap<ObjectId, Vec<u8>>,
    /// Objects that no client can name any more.
    dropped: BTreeSet<ObjectId>,
}

/// What happens in a run: an operation, all of a group is made, or an object is dropped.
enum Step {
    Make(Operation),
    Settle,
    Drop(ObjectId),
}

/// The export before the first operation.
fn make_export(path: &Path) {
    fs::create_dir(path.join("d")).expect("mkdir");
    fs::create_dir(path.join("d/e")).expect("mkdir");
    for (name, data) in [("a", "one"), ("d/b", "two"), ("d/e/c", "three")] {
        fs::write(path.join(name), data).expect("write");
    }
    fs::hard_link(path.join("a"), path.join("d/a")).expect("link");
}

fn open(path: &Path) -> Directory {
    let state = State::open(path).expect("the state");
    let (progress, _) = state.progress().expect("the progress");
    let roots = state.roots().expect("the roots");
    Directory::new(roots, progress, 0).expect("the directory")
}

impl Expected {
    fn load(directory: &mut Directory) -> Self {
        let root = directory.root().expect("a root");
        let mut tree = Tree::whole(Limits::default());
        let mut data = HashMap::new();
        let mut left = vec![root];
        while let Some(id) = left.pop() {
            let loaded = directory.load(id).expect("load it");
            if let Body::Names(Some(names)) = &loaded.object.body {
                left.extend(names.values());
            }
            if let Body::Data = loaded.object.body {
                data.insert(id, directory.read(id, 0, 1 << 20).expect("read it"));
            }
            if let Some(parent) = loaded.parent {
                tree.learn_parent(id, parent);
            }
            tree.learn(id, loaded.object);
        }
        Self {
            tree,
            root,
            data,
            dropped: BTreeSet::new(),
        }
    }

    /// What can happen to this tree, and happens; the choice is by names, so that a seed makes the same of each copy.
    fn history(&mut self, random: &mut fastrand::Rng) -> Vec<Step> {
        let mut steps = Vec::new();
        let (mut made, mut number) = (0, 0);
        while made < OPERATIONS {
            number += 1;
            let Some(change) = self.some_change(random, number) else {
                continue;
            };
            let at = Timestamp {
                seconds: i64::from(number) * 1000,
                nanoseconds: number,
            };
            let operation = Operation { at, change };
            if self
                .tree
                .apply_all(std::slice::from_ref(&operation))
                .is_err()
            {
                continue;
            }
            self.change_data(&operation.change);
            steps.push(Step::Make(operation));
            made += 1;
            if random.u8(0..4) == 0 {
                steps.push(Step::Settle);
                self.drop_some(random, &mut steps);
            }
        }
        steps
    }

    fn drop_some(&mut self, random: &mut fastrand::Rng, steps: &mut Vec<Step>) {
        for id in self.nameless() {
            if random.bool() {
                self.dropped.insert(id);
                steps.push(Step::Drop(id));
            }
        }
    }

    fn nameless(&self) -> Vec<ObjectId> {
        let nameless = |id: &ObjectId| {
            let known = self.tree.get(*id).expect("it is known");
            known.attributes.links == 0 && !self.dropped.contains(id)
        };
        let mut all: Vec<_> = self.tree.ids().filter(nameless).collect();
        // Those that were found have other numbers in each copy.
        all.sort_by_key(|id| {
            (
                id.maker(),
                self.tree.get(*id).map(|one| one.attributes.changed),
            )
        });
        all
    }

    fn change_data(&mut self, change: &Change) {
        match change {
            Change::Create { object, new, .. } if new.kind == NewKind::Regular => {
                self.data.insert(*object, Vec::new());
            }
            Change::Resize { object, size, .. } => {
                let data = self.data.get_mut(object).expect("a file");
                data.resize(*size as usize, 0);
            }
            Change::Write {
                object,
                offset,
                data: new,
                ..
            } if !new.is_empty() => {
                let data = self.data.get_mut(object).expect("a file");
                let (offset, end) = (*offset as usize, *offset as usize + new.len());
                data.resize(data.len().max(end), 0);
                data[offset..end].copy_from_slice(new);
            }
            _ => {}
        }
    }

    fn some_place(&self, random: &mut fastrand::Rng) -> (Place, Option<ObjectId>) {
        let mut at = self.root;
        while random.u8(0..3) > 0 {
            let names = self.tree.names(at).expect("known");
            let is_directory = |id: &ObjectId| self.tree.get(*id).is_some_and(Object::is_directory);
            let below: Vec<_> = names.values().filter(|id| is_directory(id)).collect();
            let Some(next) = random.choice(below) else {
                break;
            };
            at = *next;
        }
        let bytes = [b'a' + random.u8(0..4)];
        let name = Name::try_from(&bytes[..]).expect("a name");
        let found = self.tree.names(at).expect("known").get(&name).copied();
        (Place { parent: at, name }, found)
    }

    fn some_change(&self, random: &mut fastrand::Rng, number: u32) -> Option<Change> {
        let (place, found) = self.some_place(random);
        Some(match random.u8(0..16) {
            0..=4 => Change::Create {
                place,
                object: ObjectId::made(Prefix(1), number).expect("small"),
                new: NewObject {
                    kind: match random.u8(0..5) {
                        0..=2 => NewKind::Regular,
                        3 => NewKind::Directory,
                        _ => NewKind::Symlink(b"x".to_vec()),
                    },
                    permissions: 0o640,
                    owner: rustix::process::geteuid().as_raw(),
                    group: rustix::process::getegid().as_raw(),
                },
            },
            5 => Change::Link {
                object: found?,
                place: self.some_place(random).0,
            },
            6 | 7 => Change::Remove {
                place,
                object: found?,
                directory: self.tree.get(found?)?.is_directory(),
            },
            8..=11 => {
                let (to, replaced) = self.some_place(random);
                Change::Rename {
                    from: place,
                    object: found?,
                    to,
                    replaced,
                    exchange: random.u8(0..3) == 0,
                }
            }
            _ => self.some_inode_change(random, found)?,
        })
    }

    fn some_inode_change(
        &self,
        random: &mut fastrand::Rng,
        found: Option<ObjectId>,
    ) -> Option<Change> {
        // An object without a name is written to as well.
        let object = found.or_else(|| random.choice(self.nameless()))?;
        Some(match random.u8(0..5) {
            0 => Change::SetAttributes {
                object,
                set: SetAttributes {
                    permissions: Some(random.u16(0..0o7777) | 0o700),
                    ..SetAttributes::default()
                },
            },
            1 => Change::Resize {
                object,
                size: random.u64(0..50),
                strip: false,
            },
            2 => Change::SetExtended {
                object,
                name: Name::try_from(&b"user.x"[..]).expect("a name"),
                value: random.bool().then(|| vec![random.u8(..)]),
            },
            _ => Change::Write {
                object,
                offset: random.u64(0..40),
                data: vec![random.u8(..); random.usize(0..20)],
                strip: random.bool(),
            },
        })
    }

    /// The directory is as the tree says.
    fn compare(&self, path: &Path, directory: &mut Directory) -> Result<(), String> {
        self.compare_below(self.root, path, Path::new(""))?;
        for id in self.nameless() {
            let known = self.tree.get(id).expect("it is known");
            if known.is_directory() {
                continue;
            }
            let loaded = directory
                .load(id)
                .map_err(|errno| format!("{id}: {errno}"))?;
            let (ours, real) = (known.attributes, loaded.object.attributes);
            let picture = |one: surmise_remote::object::Attributes| {
                (one.links, one.permissions, one.size, one.modified)
            };
            same(&format!("{id}"), picture(ours), picture(real))?;
            if let Some(data) = self.data.get(&id) {
                let real = directory.read(id, 0, 1 << 20).expect("read it");
                same(&format!("{id}"), data, &real)?;
            }
        }
        for id in &self.dropped {
            let loaded = directory.load(*id).map(drop);
            same(&format!("{id}"), loaded, Err(rustix::io::Errno::STALE))?;
        }
        Ok(())
    }

    fn compare_below(&self, id: ObjectId, root: &Path, at: &Path) -> Result<(), String> {
        let names = self.tree.names(id).expect("known");
        let ours: BTreeSet<PathBuf> = names
            .keys()
            .map(|name| PathBuf::from(std::ffi::OsStr::from_bytes(name.as_bytes())))
            .collect();
        let real = fs::read_dir(root.join(at)).expect("list it");
        let real = real.map(|entry| PathBuf::from(entry.expect("an entry").file_name()));
        let real: BTreeSet<_> = real.filter(|name| name != Path::new(".surmise")).collect();
        same(&format!("{at:?}"), &ours, &real)?;
        for (name, id) in names {
            let at = at.join(std::ffi::OsStr::from_bytes(name.as_bytes()));
            let known = self.tree.get(*id).expect("known");
            let attributes = &known.attributes;
            let path = root.join(&at);
            let found = fs::symlink_metadata(&path).expect("it is listed");
            let ours = (
                attributes.kind.mode_bits() | u32::from(attributes.permissions),
                u64::from(attributes.links),
                (
                    attributes.modified.seconds,
                    i64::from(attributes.modified.nanoseconds),
                ),
            );
            let real = (
                found.permissions().mode(),
                found.nlink(),
                (found.mtime(), found.mtime_nsec()),
            );
            same(&format!("{at:?} {id}"), ours, real)?;
            let extended = |known: &Object| -> BTreeMap<_, _> { known.extended.clone() };
            let mut value = [0; 8];
            let real = match rustix::fs::lgetxattr(&path, "user.x", &mut value) {
                Ok(length) => Some(value[..length].to_vec()),
                Err(_) => None,
            };
            same(
                &format!("{at:?}"),
                extended(known).into_values().next(),
                real,
            )?;
            match &known.body {
                Body::Names(_) => self.compare_below(*id, root, &at)?,
                Body::Data => {
                    let data = fs::read(&path).expect("read it");
                    same(&format!("{at:?}"), &self.data[id], &data)?;
                }
                _ => {}
            }
        }
        Ok(())
    }
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, ours: T, real: T) -> Result<(), String> {
    match ours == real {
        true => Ok(()),
        false => Err(format!("{what}: {ours:?} and really {real:?}")),
    }
}

fn run(directory: &mut Directory, steps: &[Step]) -> Result<(), Stuck> {
    for step in steps {
        match step {
            Step::Make(operation) => {
                directory.make_all(&mut Batch::new(vec![operation.clone()]))?
            }
            Step::Settle => directory.settle()?,
            // A client lets go when all is made.
            Step::Drop(object) => {
                directory.settle()?;
                directory.drop_object(*object)?;
            }
        }
    }
    Ok(directory.settle()?)
}

fn log_of(steps: &[Step]) -> Vec<&Operation> {
    let operations = steps.iter().filter_map(|step| match step {
        Step::Make(operation) => Some(operation),
        _ => None,
    });
    operations.collect()
}

/// Of data that was not flushed, a loss of power may take any. Names are there. `before` is what each file held when the log
/// began.
fn lose_data(path: &Path, before: &HashMap<u64, Vec<u8>>, random: &mut fastrand::Rng) {
    let mut entries: Vec<_> = fs::read_dir(path)
        .expect("list it")
        .map(|entry| entry.expect("an entry"))
        .collect();
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let found = entry.metadata().expect("it is listed");
        if found.is_dir() {
            if entry.file_name() == ".surmise" {
                lose_data(&entry.path().join("nameless"), before, random);
            } else {
                lose_data(&entry.path(), before, random);
            }
        } else if found.is_file() && random.bool() {
            let file = File::options()
                .write(true)
                .open(entry.path())
                .expect("open");
            match before.get(&found.ino()) {
                Some(data) => {
                    file.set_len(data.len() as u64).expect("cut");
                    file.write_all_at(data, 0).expect("write");
                }
                None => file.set_len(random.u64(0..=found.len())).expect("cut"),
            }
            // Times are kept as names are.
            file.set_modified(found.modified().expect("a time"))
                .expect("set it");
        }
    }
}

/// Ends after so many calls, and starts again; whether it came to its end before.
fn crash_after(seed: u64, calls: u64, power: bool) -> Result<bool, String> {
    let scratch = tempfile::tempdir().expect("a directory");
    let path = scratch.path();
    make_export(path);
    let mut directory = open(path);
    directory.redo(&Earlier::default()).expect("nothing to do");
    let mut expected = Expected::load(&mut directory);
    let before = expected.data.clone();
    let mut random = fastrand::Rng::with_seed(seed);
    let steps = expected.history(&mut random);
    let operations = log_of(&steps);
    allow(Some(calls));
    let outcome = run(&mut directory, &steps);
    let ended = is_over();
    allow(None);
    if !ended {
        outcome.map_err(|stuck| stuck.to_string())?;
    }
    drop(directory);
    if power {
        // The inodes of the others may have been given to new files.
        let kept = before
            .into_iter()
            .filter(|(id, _)| !expected.dropped.contains(id));
        let kept = kept.map(|(id, data)| (id.number(), data)).collect();
        lose_data(path, &kept, &mut random);
    }
    let earlier = || Earlier {
        operations: operations.clone(),
        has_clients: true,
        ..Earlier::default()
    };
    // The next server may end early, too.
    let mut directory = open(path);
    allow(Some(random.u64(0..40)));
    let _ = directory.redo(&earlier());
    allow(None);
    drop(directory);
    let mut directory = open(path);
    directory
        .redo(&earlier())
        .map_err(|stuck| stuck.to_string())?;
    if ended {
        // Which objects had been dropped by then is not known: of these the client lets go again.
        for id in expected.dropped.clone() {
            directory
                .drop_object(id)
                .map_err(|errno| errno.to_string())?;
        }
    }
    expected.compare(path, &mut directory)?;
    Ok(!ended)
}

#[test]
fn whatever_was_made_before_a_crash_the_log_is_made_after_it() {
    let seeds = std::env::var("SURMISE_SEEDS").ok();
    let seeds: u64 = seeds.map_or(8, |text| text.parse().expect("a number"));
    rustix::process::umask(rustix::fs::Mode::empty());
    let mut crashes = 0;
    for seed in 0..seeds {
        for calls in 0.. {
            let over = crash_after(seed, calls, calls % 2 == 1)
                .unwrap_or_else(|error| panic!("seed {seed}, {calls} calls: {error}"));
            crashes += 1;
            if over {
                break;
            }
        }
    }
    assert!(crashes > 300, "{crashes}");
}
