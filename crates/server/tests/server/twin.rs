//! Random changes, made by a client and by plain calls in another directory; and all that differs then.

use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, RenameFlags, Timespec, Timestamps, XattrFlags};
use surmise_lower::Timestamp;
use surmise_remote::client::{Intent, Request, Response};
use surmise_remote::errno::Errno;
use surmise_remote::object::ObjectId;
use surmise_remote::operation::{NewKind, NewObject, SetAttributes};

use crate::client::Client;

pub struct Twin {
    pub model: tempfile::TempDir,
    pub random: fastrand::Rng,
}

type Outcome = Result<(), i32>;

impl Twin {
    pub fn new(seed: u64) -> Self {
        rustix::process::umask(Mode::empty());
        Self {
            model: tempfile::tempdir().expect("a directory"),
            random: fastrand::Rng::with_seed(seed),
        }
    }

    fn real(&self, path: &Path) -> PathBuf {
        self.model.path().join(path)
    }

    fn directory(&mut self) -> PathBuf {
        let mut at = PathBuf::new();
        while self.random.u8(0..3) > 0 {
            let mut below: Vec<_> = fs::read_dir(self.real(&at))
                .expect("list it")
                .map(|entry| entry.expect("an entry"))
                .filter(|entry| entry.file_type().expect("a kind").is_dir())
                .map(|entry| entry.file_name())
                .collect();
            below.sort();
            let Some(next) = self.random.choice(below) else {
                break;
            };
            at.push(next);
        }
        at
    }

    fn path(&mut self) -> PathBuf {
        let name = [b'a' + self.random.u8(0..5)];
        self.directory().join(std::ffi::OsStr::from_bytes(&name))
    }

    /// One change on both sides, which have to agree on its outcome.
    pub fn step(&mut self, client: &mut Client) {
        let (said, ours, real) = match self.random.u8(0..20) {
            0..=5 => self.create(client),
            6 => self.link(client),
            7..=8 => self.remove(client),
            9..=11 => self.rename(client),
            _ => self.change(client),
        };
        assert_eq!(ours, real, "{said}");
    }

    fn create(&mut self, client: &mut Client) -> (String, Outcome, Outcome) {
        let path = self.path();
        let permissions = self.random.u16(0..0o1000) | 0o700;
        let mode = Mode::from_raw_mode(permissions.into());
        let real = self.real(&path);
        let (kind, outcome) = match self.random.u8(0..6) {
            0..=2 => (
                NewKind::Regular,
                rustix::fs::mknodat(CWD, &real, FileType::RegularFile, mode, 0),
            ),
            3 | 4 => (NewKind::Directory, rustix::fs::mkdir(&real, mode)),
            _ => (
                NewKind::Symlink(b"../../../../etc".to_vec()),
                rustix::fs::symlink("../../../../etc", &real),
            ),
        };
        let new = NewObject {
            kind,
            permissions,
            owner: rustix::process::geteuid().as_raw(),
            group: rustix::process::getegid().as_raw(),
        };
        let said = format!("create {path:?} {new:?}");
        let place = client.place(&path).expect("a place");
        let ours = client.change(Intent::Create { place, new });
        (said, plain(ours), raw(outcome))
    }

    fn link(&mut self, client: &mut Client) -> (String, Outcome, Outcome) {
        let (old, new) = (self.path(), self.path());
        let said = format!("link {old:?} {new:?}");
        let outcome =
            rustix::fs::linkat(CWD, self.real(&old), CWD, self.real(&new), AtFlags::empty());
        let ours = match client.find(&old).expect("look it up") {
            None => Err(Errno::NOENT),
            Some((object, _)) => {
                let place = client.place(&new).expect("a place");
                client.change(Intent::Link { object, place })
            }
        };
        (said, plain(ours), raw(outcome))
    }

    fn remove(&mut self, client: &mut Client) -> (String, Outcome, Outcome) {
        let path = self.path();
        let directory = self.random.bool();
        let said = format!("remove {path:?} {directory}");
        let outcome = match directory {
            true => rustix::fs::rmdir(self.real(&path)),
            false => rustix::fs::unlink(self.real(&path)),
        };
        let place = client.place(&path).expect("a place");
        let ours = client.change(Intent::Remove { place, directory });
        (said, plain(ours), raw(outcome))
    }

    fn rename(&mut self, client: &mut Client) -> (String, Outcome, Outcome) {
        let (from, to) = (self.path(), self.path());
        let exchange = self.random.u8(0..3) == 0;
        let said = format!("rename {from:?} {to:?} {exchange}");
        let flags = match exchange {
            true => RenameFlags::EXCHANGE,
            false => RenameFlags::empty(),
        };
        let (old, new) = (client.place(&from), client.place(&to));
        let outcome = rustix::fs::renameat_with(CWD, self.real(&from), CWD, self.real(&to), flags);
        let ours = client.change(Intent::Rename {
            from: old.expect("a place"),
            to: new.expect("a place"),
            no_replace: false,
            exchange,
        });
        (said, plain(ours), raw(outcome))
    }

    /// A change of what a path leads to, if it leads to anything.
    fn change(&mut self, client: &mut Client) -> (String, Outcome, Outcome) {
        let path = self.path();
        let real = self.real(&path);
        let Ok(found) = fs::symlink_metadata(&real) else {
            return self.create(client);
        };
        let (object, _) = client.find(&path).expect("look").expect("it is there");
        let said = |what: &str| format!("{what} {path:?}");
        if found.is_symlink() {
            return (said("nothing"), Ok(()), Ok(()));
        }
        match self.random.u8(0..6) {
            0 | 1 if found.is_file() => {
                let offset = self.random.u64(0..5000);
                let data = vec![self.random.u8(..); self.random.usize(0..3000)];
                let file = File::options().write(true).open(&real).expect("open");
                file.write_all_at(&data, offset).expect("write");
                let ours = client.change(Intent::Write {
                    object,
                    offset: Some(offset),
                    data,
                    strip: false,
                });
                (said("write"), plain(ours), Ok(()))
            }
            2 if found.is_file() => {
                let size = self.random.u64(0..6000);
                let file = File::options().write(true).open(&real).expect("open");
                file.set_len(size).expect("resize");
                let ours = client.change(Intent::Resize {
                    object,
                    size,
                    strip: false,
                });
                (said("resize"), plain(ours), Ok(()))
            }
            3..=4 => self.set_attributes(client, &path, object),
            _ => self.set_extended(client, &path, object),
        }
    }

    fn set_attributes(
        &mut self,
        client: &mut Client,
        path: &Path,
        object: ObjectId,
    ) -> (String, Outcome, Outcome) {
        let real = self.real(path);
        let mut set = SetAttributes::default();
        if self.random.bool() {
            let permissions = self.random.u16(0..0o1000) | 0o700;
            let mode = Mode::from_raw_mode(permissions.into());
            rustix::fs::chmod(&real, mode).expect("chmod");
            set.permissions = Some(permissions);
        } else {
            let modified = Timestamp {
                seconds: self.random.i64(0..1 << 31),
                nanoseconds: self.random.u32(0..1_000_000_000),
            };
            let time = Timespec {
                tv_sec: modified.seconds,
                tv_nsec: modified.nanoseconds.into(),
            };
            let times = Timestamps {
                last_access: time,
                last_modification: time,
            };
            rustix::fs::utimensat(CWD, &real, &times, AtFlags::empty()).expect("set times");
            set.accessed = Some(modified);
            set.modified = Some(modified);
        }
        let ours = client.change(Intent::SetAttributes { object, set });
        (format!("{set:?} of {path:?}"), plain(ours), Ok(()))
    }

    fn set_extended(
        &mut self,
        client: &mut Client,
        path: &Path,
        object: ObjectId,
    ) -> (String, Outcome, Outcome) {
        let real = self.real(path);
        let value = self.random.bool().then(|| vec![self.random.u8(..); 3]);
        let attribute = format!("user.{}", self.random.u8(0..3));
        let outcome = match &value {
            Some(value) => rustix::fs::setxattr(&real, &attribute, value, XattrFlags::empty()),
            None => rustix::fs::removexattr(&real, &attribute),
        };
        let ours = client.change(Intent::SetExtended {
            object,
            name: attribute.as_bytes().try_into().expect("a name"),
            value,
            create: false,
            replace: false,
        });
        (
            format!("{attribute} of {path:?}"),
            plain(ours),
            raw(outcome),
        )
    }

    /// Compares the export with the model.
    pub fn compare(&self, export: &Path) {
        let mut differences = Vec::new();
        compare(self.model.path(), export, &mut differences);
        assert!(differences.is_empty(), "{}", differences.join("\n"));
    }
}

/// What a client shows is what is in the directory, to the nanosecond.
pub fn compare_shown(client: &mut Client, export: &Path) {
    for path in paths_below(export) {
        let found = fs::symlink_metadata(export.join(&path)).expect("it is listed");
        let shown = client.find(&path).expect("look it up");
        let (object, shown) = shown.unwrap_or_else(|| panic!("{path:?} is not shown"));
        let real = (
            found.mode(),
            found.nlink(),
            found.uid(),
            found.gid(),
            (found.mtime(), found.mtime_nsec() as u32),
        );
        let ours = (
            shown.kind.mode_bits() | u32::from(shown.permissions),
            u64::from(shown.links),
            shown.owner,
            shown.group,
            (shown.modified.seconds, shown.modified.nanoseconds),
        );
        assert_eq!(ours, real, "{path:?} is {object}");
        if found.is_file() {
            assert_eq!(shown.size, found.size(), "{path:?}");
            let data = client.read(object, 0, 1 << 20).expect("read it");
            assert!(
                data == fs::read(export.join(&path)).expect("read"),
                "{path:?}"
            );
        }
        if found.is_dir() {
            let names = client.call(Request::Names(object)).expect("list it");
            let Response::Names(names) = names else {
                panic!("{names:?}");
            };
            let real = fs::read_dir(export.join(&path)).expect("list").count();
            assert_eq!(names.len(), real, "{path:?}");
        }
    }
}

pub fn paths_below(root: &Path) -> Vec<PathBuf> {
    try_paths_below(root).expect("list it")
}

/// As [`paths_below`], of a directory that may be changed meanwhile.
pub fn try_paths_below(root: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    let mut left = vec![PathBuf::new()];
    while let Some(at) = left.pop() {
        for entry in fs::read_dir(root.join(&at))? {
            let entry = entry?;
            let path = at.join(entry.file_name());
            if path == Path::new(".surmise") {
                continue;
            }
            if entry.file_type()?.is_dir() {
                left.push(path.clone());
            }
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

pub fn compare(model: &Path, export: &Path, differences: &mut Vec<String>) {
    let (ours, real) = (paths_below(export), paths_below(model));
    if ours != real {
        differences.push(format!("{ours:?}\nand not {real:?}"));
        return;
    }
    for path in real {
        let picture = |root: &Path| {
            let full = root.join(&path);
            let found = fs::symlink_metadata(&full).expect("it is listed");
            let data = found.is_file().then(|| fs::read(&full).expect("read"));
            let target = found
                .is_symlink()
                .then(|| fs::read_link(&full).expect("read"));
            let extended: Vec<_> = (0..3)
                .map(|number| {
                    let mut value = [0; 16];
                    let name = format!("user.{number}");
                    let length = rustix::fs::lgetxattr(&full, name, &mut value);
                    length.map(|length| value[..length].to_vec()).ok()
                })
                .collect();
            let size = if found.is_dir() { 0 } else { found.size() };
            let owner = (found.uid(), found.gid());
            (
                found.mode(),
                found.nlink(),
                size,
                owner,
                data,
                target,
                extended,
            )
        };
        let (ours, real) = (picture(export), picture(model));
        if ours != real {
            differences.push(format!("{path:?}: {ours:?}\nand not {real:?}"));
        }
    }
}

fn plain(outcome: Result<Response, Errno>) -> Outcome {
    outcome.map(drop).map_err(|errno| errno.0)
}

fn raw(outcome: rustix::io::Result<()>) -> Outcome {
    outcome.map_err(|errno| errno.raw_os_error())
}
