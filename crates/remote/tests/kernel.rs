//! What an operation does to a tree is what Linux does to a directory: random operations on both, and then all
//! that stat(2) and readdir(3) tell is compared.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, RenameFlags};
use rustix::io::Errno;
use surmise_lower::{FileKind, Timestamp};
use surmise_remote::object::{Attributes, Body, Name, Object, ObjectId, Prefix, Versions};
use surmise_remote::operation::{Change, NewKind, NewObject, Operation, Place, SetAttributes};
use surmise_remote::tree::{Limits, Refusal, Tree};

const ROUNDS: u64 = 150;
const STEPS: usize = 120;

/// How often a name that leads somewhere is looked for; there may be none.
const TRIES: usize = 20;

/// A tree and the directory that it stands for.
struct Twins {
    tree: Tree,
    root: ObjectId,
    directory: tempfile::TempDir,
    random: fastrand::Rng,
    next: u32,
}

impl Twins {
    fn new(seed: u64) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let found = fs::metadata(directory.path()).expect("it is there");
        let root = ObjectId::found(found.ino()).expect("an inode number");
        let mut tree = Tree::whole(Limits::default());
        let attributes = Attributes {
            kind: FileKind::Directory,
            permissions: 0o700,
            links: u32::try_from(found.nlink()).expect("few"),
            owner: found.uid(),
            group: found.gid(),
            size: 0,
            device: 0,
            accessed: Timestamp::default(),
            modified: Timestamp::default(),
            changed: Timestamp::default(),
        };
        tree.learn(root, Object::new(attributes, Versions::default()));
        tree.learn_names(root, BTreeMap::new())
            .expect("a directory");
        Self {
            tree,
            root,
            directory,
            random: fastrand::Rng::with_seed(seed),
            next: 1,
        }
    }

    /// A directory of the tree, and its path.
    fn some_directory(&mut self) -> (ObjectId, PathBuf) {
        let (mut at, mut path) = (self.root, self.directory.path().to_owned());
        while self.random.u8(0..3) > 0 {
            let names = self.tree.names(at).expect("all names are known");
            let below = names
                .iter()
                .filter(|(_, id)| self.tree.get(**id).is_some_and(Object::is_directory));
            let below: Vec<_> = below.collect();
            let Some((name, id)) = self.random.choice(below) else {
                break;
            };
            path.push(OsStr::from_bytes(name.as_bytes()));
            at = *id;
        }
        (at, path)
    }

    /// A place, the path of it, and what is there.
    fn some_place(&mut self) -> (Place, PathBuf, Option<ObjectId>) {
        let (parent, path) = self.some_directory();
        let name = [b'a' + self.random.u8(0..4)];
        let name = Name::try_from(&name[..]).expect("a name");
        let path = path.join(OsStr::from_bytes(name.as_bytes()));
        let led = self.tree.names(parent).expect("names").get(&name).copied();
        (Place { parent, name }, path, led)
    }

    fn new_object(&mut self) -> ObjectId {
        self.next += 1;
        ObjectId::made(Prefix(1), self.next).expect("a small prefix")
    }

    /// One change of both; what each says of it.
    fn step(&mut self) -> (String, Result<(), Errno>, Result<(), Errno>) {
        let (change, real) = match self.random.u8(0..12) {
            0..=4 => self.create(),
            5 => self.link(),
            6 | 7 => self.remove(),
            8 | 9 => self.rename(),
            _ => self.change_file(),
        };
        let at = Timestamp {
            seconds: 1,
            nanoseconds: 0,
        };
        let said = format!("{change:?}");
        let operation = Operation { at, change };
        let ours = match self.tree.apply_all(&[operation]) {
            Ok(()) => Ok(()),
            Err((_, Refusal::Errno(errno))) => Err(Errno::from_raw_os_error(errno.0)),
            Err((_, other)) => panic!("{said}: {other}"),
        };
        (said, ours, real)
    }

    fn create(&mut self) -> (Change, Result<(), Errno>) {
        let (place, path, _) = self.some_place();
        let mode = Mode::from_raw_mode(0o750);
        let (kind, real) = match self.random.u8(0..5) {
            0 => (NewKind::Regular, make_node(&path, FileType::RegularFile)),
            1 | 2 => (NewKind::Directory, rustix::fs::mkdir(&path, mode)),
            3 => {
                let target = "x".repeat(self.random.usize(1..4));
                let real = errno(symlink(&target, &path));
                (NewKind::Symlink(target.into_bytes()), real)
            }
            _ => (NewKind::Fifo, make_node(&path, FileType::Fifo)),
        };
        let change = Change::Create {
            place,
            object: self.new_object(),
            new: NewObject {
                kind,
                permissions: 0o750,
                owner: rustix::process::geteuid().as_raw(),
                group: rustix::process::getegid().as_raw(),
            },
        };
        (change, real)
    }

    fn link(&mut self) -> (Change, Result<(), Errno>) {
        for _ in 0..TRIES {
            let (_, old, led) = self.some_place();
            let (place, new, _) = self.some_place();
            if let Some(object) = led {
                let real = rustix::fs::linkat(CWD, &old, CWD, &new, rustix::fs::AtFlags::empty());
                return (Change::Link { object, place }, real);
            }
        }
        self.create()
    }

    fn remove(&mut self) -> (Change, Result<(), Errno>) {
        let (place, path, led) = self.some_place();
        let directory = self.random.bool();
        let real = if directory {
            rustix::fs::rmdir(&path)
        } else {
            rustix::fs::unlink(&path)
        };
        let change = Change::Remove {
            place,
            object: led.unwrap_or(self.root),
            directory,
        };
        (change, real)
    }

    fn rename(&mut self) -> (Change, Result<(), Errno>) {
        let (from, old, led) = self.some_place();
        let (to, new, replaced) = self.some_place();
        let exchange = self.random.u8(0..4) == 0;
        let flags = if exchange {
            RenameFlags::EXCHANGE
        } else {
            RenameFlags::empty()
        };
        let real = rustix::fs::renameat_with(CWD, &old, CWD, &new, flags);
        let change = Change::Rename {
            from,
            object: led.unwrap_or(self.root),
            to,
            replaced,
            exchange,
        };
        (change, real)
    }

    fn change_file(&mut self) -> (Change, Result<(), Errno>) {
        for _ in 0..TRIES {
            let (_, path, led) = self.some_place();
            let known = led.and_then(|object| Some((object, self.tree.get(object)?)));
            let Some((object, known)) = known else {
                continue;
            };
            let (is_regular, is_link) = (
                known.attributes.kind == FileKind::Regular,
                known.attributes.kind == FileKind::Symlink,
            );
            let size = self.random.u64(0..10_000);
            match self.random.u8(0..3) {
                0 if is_regular => {
                    let file = File::options().write(true).open(&path).expect("open it");
                    return (
                        Change::Resize {
                            object,
                            size,
                            strip: false,
                        },
                        errno(file.set_len(size)),
                    );
                }
                1 if is_regular => {
                    let file = File::options().write(true).open(&path).expect("open it");
                    let data = vec![1; self.random.usize(0..100)];
                    let real = errno(file.write_all_at(&data, size));
                    let change = Change::Write {
                        object,
                        offset: size,
                        data,
                        strip: false,
                    };
                    return (change, real);
                }
                _ if !is_link => {
                    let permissions = self.random.u16(0..0o1000) | 0o700;
                    let mode = Permissions::from_mode(permissions.into());
                    let change = Change::SetAttributes {
                        object,
                        set: SetAttributes {
                            permissions: Some(permissions),
                            ..SetAttributes::default()
                        },
                    };
                    return (change, errno(fs::set_permissions(&path, mode)));
                }
                _ => {}
            }
        }
        self.create()
    }

    /// Compares a directory and all below it.
    fn compare(&self, directory: ObjectId, path: &Path) -> Result<(), String> {
        let names = self.tree.names(directory).expect("all names are known");
        let real = fs::read_dir(path).expect("list it");
        let mut real: Vec<_> = real
            .map(|entry| entry.expect("an entry").file_name())
            .collect();
        real.sort();
        let ours: Vec<_> = names
            .keys()
            .map(|name| OsStr::from_bytes(name.as_bytes()).to_owned())
            .collect();
        same(path, &ours, &real)?;
        for (name, id) in names {
            let path = path.join(OsStr::from_bytes(name.as_bytes()));
            let known = self.tree.get(*id).expect("all objects are known");
            let found = fs::symlink_metadata(&path).expect("it is listed");
            let ours = &known.attributes;
            same(&path, ours.kind.mode_bits(), found.mode() & 0o170_000)?;
            same(&path, u64::from(ours.links), found.nlink())?;
            same(&path, u32::from(ours.permissions), found.mode() & 0o7777)?;
            match &known.body {
                Body::Data => same(&path, ours.size, found.size())?,
                Body::Target(target) => {
                    let real = fs::read_link(&path).expect("a link");
                    same(&path, OsStr::from_bytes(target), real.as_os_str())?;
                }
                Body::Names(_) => {
                    same(&path, self.tree.parent(*id), Some(directory))?;
                    self.compare(*id, &path)?;
                }
                Body::Nothing => {}
            }
        }
        Ok(())
    }
}

fn make_node(path: &Path, kind: FileType) -> Result<(), Errno> {
    rustix::fs::mknodat(CWD, path, kind, Mode::from_raw_mode(0o750), 0)
}

fn errno(outcome: std::io::Result<()>) -> Result<(), Errno> {
    outcome.map_err(|error| Errno::from_io_error(&error).expect("an error number"))
}

fn same<T: PartialEq + std::fmt::Debug>(path: &Path, ours: T, real: T) -> Result<(), String> {
    if ours == real {
        return Ok(());
    }
    Err(format!("{}: {ours:?} and really {real:?}", path.display()))
}

#[test]
fn a_tree_does_what_linux_does() {
    // Of permissions the umask would take some.
    rustix::process::umask(Mode::empty());
    let (mut made, mut refused) = (0, 0);
    for seed in 0..ROUNDS {
        let mut twins = Twins::new(seed);
        let mut history = Vec::new();
        for _ in 0..STEPS {
            let (said, ours, real) = twins.step();
            history.push(said);
            assert_eq!(ours, real, "seed {seed}: {}", history.join("\n"));
            match ours {
                Ok(()) => made += 1,
                Err(_) => refused += 1,
            }
        }
        if let Err(difference) = twins.compare(twins.root, twins.directory.path()) {
            panic!("seed {seed}: {difference}\n{}", history.join("\n"));
        }
    }
    // Neither half of the comparison is empty.
    assert!(
        made > 1_000 && refused > 1_000,
        "{made} made, {refused} refused"
    );
}

#[test]
fn a_group_that_is_refused_changes_nothing() {
    for seed in 0..200 {
        let mut twins = Twins::new(seed);
        for _ in 0..STEPS {
            let _ = twins.step();
        }
        let before = format!("{:?}", sorted(&twins.tree));
        let mut group = Vec::new();
        for _ in 0..10 {
            let (place, _, led) = twins.some_place();
            let change = match led {
                Some(object) => Change::Remove {
                    place,
                    object,
                    directory: twins.tree.get(object).is_some_and(Object::is_directory),
                },
                None => Change::Create {
                    place,
                    object: twins.new_object(),
                    new: NewObject {
                        kind: NewKind::Directory,
                        permissions: 0o755,
                        owner: 0,
                        group: 0,
                    },
                },
            };
            group.push(Operation {
                at: Timestamp::default(),
                change,
            });
        }
        // The last one fails in any case.
        group.push(Operation {
            at: Timestamp::default(),
            change: Change::Resize {
                object: twins.root,
                size: 0,
                strip: false,
            },
        });
        assert!(twins.tree.apply_all(&group).is_err());
        assert_eq!(format!("{:?}", sorted(&twins.tree)), before, "seed {seed}");
    }
}

fn sorted(tree: &Tree) -> BTreeMap<ObjectId, (Object, Option<ObjectId>)> {
    let known = |id| Some((id, (tree.get(id)?.clone(), tree.parent(id))));
    tree.ids().filter_map(known).collect()
}
