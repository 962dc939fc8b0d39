//! A file system in memory that is as dumb as possible: names by paths, objects by numbers.

use std::collections::{BTreeMap, HashMap};

use surmise_lower::{FileKind, Timestamp};
use surmise_remote::errno::Errno;
use surmise_remote::object::Name;
use surmise_remote::operation::{NewKind, SetAttributes};
use surmise_remote::replay::{Found, Moves, Target};

pub type Path = Vec<Name>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Thing {
    pub kind: NewKind,
    pub data: Vec<u8>,
    pub permissions: u16,
    pub modified: Timestamp,
}

#[derive(Debug, Clone, Default)]
pub struct Model {
    pub names: BTreeMap<Path, u64>,
    pub things: HashMap<u64, Thing>,
    pub last: u64,
    /// After so many changes the replay is killed.
    pub fuel: Option<u64>,
    pub clock: i64,
    /// When a name of the root was changed last.
    pub root_modified: Timestamp,
}

/// No file system gives this: the replay is killed.
pub const KILLED: Errno = Errno(4000);

impl Model {
    pub fn number(&self, path: &[Name]) -> Option<u64> {
        self.names.get(path).copied()
    }

    pub fn thing(&mut self, path: &[Name]) -> Result<&mut Thing, Errno> {
        let number = self.number(path).ok_or(Errno::NOENT)?;
        self.things.get_mut(&number).ok_or(Errno::IO)
    }

    pub fn is_directory(&self, path: &[Name]) -> bool {
        let thing = self
            .number(path)
            .and_then(|number| self.things.get(&number));
        path.is_empty() || thing.is_some_and(|thing| thing.kind == NewKind::Directory)
    }

    pub fn is_empty(&self, path: &[Name]) -> bool {
        !self
            .names
            .keys()
            .any(|one| one.len() > path.len() && one.starts_with(path))
    }

    pub fn put(&mut self, path: &[Name], kind: NewKind) -> u64 {
        self.last += 1;
        let thing = Thing {
            kind,
            data: Vec::new(),
            permissions: 0o600,
            modified: self.time(),
        };
        self.things.insert(self.last, thing);
        self.names.insert(path.to_vec(), self.last);
        self.last
    }

    fn time(&mut self) -> Timestamp {
        self.clock += 1;
        Timestamp {
            seconds: self.clock,
            nanoseconds: 1,
        }
    }

    /// Gives the directory of a path the time of a change.
    pub fn stamp_parent(&mut self, path: &[Name], at: Timestamp) {
        match self.thing(&path[..path.len() - 1]) {
            Ok(parent) => parent.modified = at,
            Err(_) => self.root_modified = at,
        }
    }

    /// Others write to the end of a file.
    pub fn append(&mut self, path: &[Name], text: &str) {
        let modified = self.time();
        let thing = self.thing(path).expect("it is there");
        thing.data.extend(text.as_bytes());
        thing.modified = modified;
    }

    pub fn move_all(&mut self, from: &[Name], to: &[Name]) {
        let is_below = |path: &Path| path.starts_with(from);
        let moved: Vec<_> = self
            .names
            .keys()
            .filter(|path| is_below(path))
            .cloned()
            .collect();
        for path in moved {
            let number = self.names.remove(&path).expect("it was listed");
            let new = [to, &path[from.len()..]].concat();
            self.names.insert(new, number);
        }
    }

    /// What is there at each path: kind, data, permissions and, of files, the time.
    pub fn tree(&self) -> BTreeMap<Path, Thing> {
        let each = self.names.iter().map(|(path, number)| {
            let mut thing = self.things[number].clone();
            if thing.kind != NewKind::Regular {
                thing.modified = Timestamp::default();
            }
            (path.clone(), thing)
        });
        each.collect()
    }

    fn may_be_made(&self, path: &[Name]) -> Result<(), Errno> {
        match path.split_last() {
            Some((_, parent)) if self.is_directory(parent) => Ok(()),
            _ => Err(Errno::NOENT),
        }
    }

    /// A change is made. It is killed before that, or after.
    fn changes<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T, Errno>) -> Result<T, Errno> {
        match &mut self.fuel {
            None => work(self),
            Some(0) => Err(KILLED),
            Some(1) => {
                self.fuel = Some(0);
                work(self).and(Err(KILLED))
            }
            Some(fuel) => {
                *fuel -= 1;
                work(self)
            }
        }
    }
}

impl Target for Model {
    fn look(&mut self, path: &[Name]) -> Result<Option<Found>, Errno> {
        if path.is_empty() {
            return Ok(Some(Found {
                kind: FileKind::Directory,
                number: 0,
                size: 0,
                modified: self.root_modified,
                target: None,
            }));
        }
        let Some(number) = self.number(path) else {
            return Ok(None);
        };
        let thing = &self.things[&number];
        Ok(Some(Found {
            kind: thing.kind.kind(),
            number,
            size: thing.data.len() as u64,
            modified: thing.modified,
            target: match &thing.kind {
                NewKind::Symlink(target) => Some(target.clone()),
                _ => None,
            },
        }))
    }

    fn make(&mut self, path: &[Name], kind: &NewKind) -> Result<(), Errno> {
        self.changes(|model| {
            model.may_be_made(path)?;
            if model.number(path).is_some() {
                return Err(Errno::EXIST);
            }
            model.put(path, kind.clone());
            Ok(())
        })
    }

    fn copy(&mut self, from: &[Name], to: &[Name], again: bool) -> Result<(), Errno> {
        self.changes(|model| {
            let thing = model.thing(from)?.clone();
            if model.number(to).is_some() {
                let is_copy = model.thing(to)?.data == thing.data;
                return if again && is_copy {
                    Ok(())
                } else {
                    Err(Errno::EXIST)
                };
            }
            model.put(to, NewKind::Regular);
            *model.thing(to)? = thing;
            Ok(())
        })
    }

    fn same(&mut self, path: &[Name], offset: u64, data: &[u8]) -> Result<u64, Errno> {
        let offset = usize::try_from(offset).expect("small");
        let found = &self.thing(path)?.data;
        let found = found.get(offset..).unwrap_or_default();
        let same = found
            .iter()
            .zip(data)
            .take_while(|(one, other)| one == other);
        Ok(same.count() as u64)
    }

    fn write(&mut self, path: &[Name], offset: u64, data: &[u8]) -> Result<(), Errno> {
        self.changes(|model| {
            let modified = model.time();
            let thing = model.thing(path)?;
            let offset = usize::try_from(offset).expect("small");
            let end = offset + data.len();
            thing.data.resize(thing.data.len().max(end), 0);
            thing.data[offset..end].copy_from_slice(data);
            thing.modified = modified;
            Ok(())
        })
    }

    fn resize(&mut self, path: &[Name], size: u64) -> Result<(), Errno> {
        self.changes(|model| {
            let modified = model.time();
            let thing = model.thing(path)?;
            thing.data.resize(usize::try_from(size).expect("small"), 0);
            thing.modified = modified;
            Ok(())
        })
    }

    fn set_attributes(&mut self, path: &[Name], set: &SetAttributes) -> Result<(), Errno> {
        self.changes(|model| {
            let thing = model.thing(path)?;
            thing.permissions = set.permissions.unwrap_or(thing.permissions);
            thing.modified = set.modified.unwrap_or(thing.modified);
            Ok(())
        })
    }

    fn set_extended(&mut self, _: &[Name], _: &Name, _: Option<&[u8]>) -> Result<(), Errno> {
        Ok(())
    }

    fn link(&mut self, from: &[Name], to: &[Name]) -> Result<(), Errno> {
        self.changes(|model| {
            model.may_be_made(to)?;
            if model.number(to).is_some() {
                return Err(Errno::EXIST);
            }
            let number = model.number(from).ok_or(Errno::NOENT)?;
            model.names.insert(to.to_vec(), number);
            Ok(())
        })
    }

    fn remove(&mut self, path: &[Name], directory: bool) -> Result<(), Errno> {
        self.changes(|model| {
            model.thing(path)?;
            if directory && !model.is_empty(path) {
                return Err(Errno::NOTEMPTY);
            }
            model.names.remove(path);
            Ok(())
        })
    }

    fn rename(&mut self, from: &[Name], to: &[Name], how: Moves) -> Result<(), Errno> {
        self.changes(|model| {
            model.may_be_made(to)?;
            model.thing(from)?;
            if to.starts_with(from) {
                return Err(Errno::INVAL);
            }
            match (how, model.number(to).is_some()) {
                (Moves::ToFree, true) => return Err(Errno::EXIST),
                (Moves::Exchange, false) => return Err(Errno::NOENT),
                (Moves::Exchange, true) => {
                    let aside = vec![Name::try_from(&b"aside"[..]).expect("a name")];
                    model.move_all(to, &aside);
                    model.move_all(from, to);
                    model.move_all(&aside, from);
                    return Ok(());
                }
                (Moves::Over, true) if model.is_directory(to) && !model.is_empty(to) => {
                    return Err(Errno::NOTEMPTY);
                }
                _ => {}
            }
            model.move_all(from, to);
            Ok(())
        })
    }
}
