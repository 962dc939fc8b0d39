//! Programs that change a tree at random, as a client would note it.

use std::collections::HashMap;

use surmise_lower::Timestamp;
use surmise_remote::lost::{Before, LostChanges, Undecided};
use surmise_remote::object::{Name, ObjectId, Prefix};
use surmise_remote::operation::{Change, NewKind, NewObject, Operation, Place, SetAttributes};
use surmise_remote::replay::{Moves, Target};

use crate::model::{Model, Path};

pub fn root() -> ObjectId {
    ObjectId::found(0).expect("a number")
}

pub fn name(text: &str) -> Name {
    Name::try_from(text.as_bytes()).expect("a name")
}

/// A tree with some files and directories; if `links`, one file has two names.
pub fn base(random: &mut fastrand::Rng, links: bool) -> Model {
    let mut model = Model::default();
    for number in 0..random.usize(1..12) {
        let path = free(random, &model);
        let kind = match number % 3 {
            0 => NewKind::Directory,
            _ => NewKind::Regular,
        };
        model.put(&path, kind);
        let thing = model.thing(&path).expect("it was made");
        thing.permissions = 0o640;
        if thing.kind == NewKind::Regular {
            thing.data = format!("base {number};").into_bytes();
        }
    }
    let mut files = model.names.keys().filter(|path| !model.is_directory(path));
    if let Some(file) = files.next_back().cloned().filter(|_| links) {
        let other = free(random, &model);
        model.link(&file, &other).expect("it is free");
    }
    model
}

/// A path of some directory and one of few names.
fn any_path(random: &mut fastrand::Rng, model: &Model) -> Path {
    let mut directories: Vec<_> = model
        .names
        .keys()
        .filter(|path| model.is_directory(path))
        .cloned()
        .collect();
    directories.push(Vec::new());
    let mut path = random.choice(directories).expect("the root");
    path.push(name(random.choice(["a", "b", "c", "d"]).expect("one")));
    path
}

fn free(random: &mut fastrand::Rng, model: &Model) -> Path {
    loop {
        let path = any_path(random, model);
        if model.number(&path).is_none() {
            return path;
        }
    }
}

/// What a client that works on a model has done.
pub struct Client {
    pub model: Model,
    pub lost: LostChanges,
    /// The objects of the model's numbers.
    objects: HashMap<u64, ObjectId>,
    made: u32,
    /// When it has begun, in seconds.
    begun: i64,
    /// What was written, each once.
    pub written: Vec<String>,
    /// The model before each change.
    pub before: Vec<Model>,
}

impl Client {
    pub fn new(model: Model, begun: i64) -> Self {
        let id = |number: &u64| ObjectId::found(*number).expect("a number");
        let objects: HashMap<_, _> = model
            .things
            .keys()
            .map(|number| (*number, id(number)))
            .collect();
        let place = |path: &Path| {
            let (last, parent) = path.split_last().expect("not the root");
            let parent = model.number(parent).map_or(root(), |number| id(&number));
            let name = last.clone();
            Place { parent, name }
        };
        let places = model
            .names
            .iter()
            .map(|(path, number)| (id(number), place(path)));
        let places = places.collect();
        Self {
            lost: LostChanges {
                places,
                changes: Vec::new(),
            },
            model,
            objects,
            made: 0,
            begun,
            written: Vec::new(),
            before: Vec::new(),
        }
    }

    /// The model's number of an object.
    pub fn number(&self, object: ObjectId) -> u64 {
        let mut known = self.objects.iter();
        let found = known.find(|(_, one)| **one == object);
        *found.expect("an object of the model").0
    }

    fn object(&self, path: &[Name]) -> ObjectId {
        match self.model.number(path) {
            None => root(),
            Some(number) => self.objects[&number],
        }
    }

    fn place(&self, path: &[Name]) -> Place {
        let (last, parent) = path.split_last().expect("not the root");
        Place {
            parent: self.object(parent),
            name: last.clone(),
        }
    }

    fn before(&mut self, path: &[Name]) -> Option<Before> {
        let found = self.model.look(path).expect("it never fails")?;
        let names = self.model.names.values();
        let links = names.filter(|number| **number == found.number).count();
        (!self.model.is_directory(path)).then_some(Before {
            size: found.size,
            links: u32::try_from(links).expect("few"),
            modified: found.modified,
        })
    }

    fn note(&mut self, change: Change, before: Option<Before>) -> Timestamp {
        let at = Timestamp {
            seconds: self.begun + self.lost.changes.len() as i64,
            nanoseconds: 7,
        };
        let operation = Operation { at, change };
        self.before.push(self.model.clone());
        self.lost.changes.push(Undecided { operation, before });
        at
    }

    pub fn step(&mut self, random: &mut fastrand::Rng) {
        let path = any_path(random, &self.model);
        let other = any_path(random, &self.model);
        let is_there = self.model.number(&path).is_some();
        match (is_there, random.u8(0..10)) {
            (false, 0..3) => self.create(&path, NewKind::Directory),
            (false, 3) => self.create(&path, NewKind::Symlink(b"somewhere".to_vec())),
            (false, _) => {
                self.create(&path, NewKind::Regular);
                self.write(random, &path);
            }
            (true, 0..2) => self.remove(&path),
            (true, 2..6) => self.rename(random, &path, &other),
            (true, 6) => self.link(&path, &other),
            (true, 7) => self.chmod(&path),
            (true, _) => self.write(random, &path),
        }
    }

    fn create(&mut self, path: &[Name], kind: NewKind) {
        self.made += 1;
        let object = ObjectId::made(Prefix(1), self.made).expect("a small prefix");
        let new = NewObject {
            kind: kind.clone(),
            permissions: 0o750,
            owner: 1,
            group: 1,
        };
        let place = self.place(path);
        let is_link = matches!(kind, NewKind::Symlink(_));
        let at = self.note(Change::Create { place, object, new }, None);
        let number = self.model.put(path, kind);
        self.objects.insert(number, object);
        self.model.stamp_parent(path, at);
        let thing = self.model.thing(path).expect("it was made");
        thing.modified = at;
        if !is_link {
            thing.permissions = 0o750;
        }
    }

    fn write(&mut self, random: &mut fastrand::Rng, path: &[Name]) {
        let object = self.object(path);
        if self.model.things[&self.model.number(path).expect("there")].kind != NewKind::Regular {
            return;
        }
        if random.bool() {
            let (size, strip) = (0, false);
            let resize = Change::Resize {
                object,
                size,
                strip,
            };
            let before = self.before(path);
            let at = self.note(resize, before);
            self.model.resize(path, 0).expect("a file");
            self.model.thing(path).expect("a file").modified = at;
        }
        let before = self.before(path);
        let text = format!("<{}>", self.lost.changes.len());
        let offset = before.expect("a file").size;
        let write = Change::Write {
            object,
            offset,
            data: text.clone().into_bytes(),
            strip: false,
        };
        let at = self.note(write, before);
        self.model
            .write(path, offset, text.as_bytes())
            .expect("a file");
        self.model.thing(path).expect("a file").modified = at;
        self.written.push(text);
    }

    fn remove(&mut self, path: &[Name]) {
        let directory = self.model.is_directory(path);
        if directory && !self.model.is_empty(path) {
            return;
        }
        let (place, object, before) = (self.place(path), self.object(path), self.before(path));
        let remove = Change::Remove {
            place,
            object,
            directory,
        };
        let at = self.note(remove, before);
        self.model.remove(path, directory).expect("it may go");
        self.model.stamp_parent(path, at);
    }

    fn rename(&mut self, random: &mut fastrand::Rng, path: &[Name], other: &[Name]) {
        let replaced = self.model.number(other).map(|_| self.object(other));
        let object = self.object(path);
        let exchange = replaced.is_some() && random.u8(0..3) == 0;
        let is_directory = self.model.is_directory(path);
        // The kernel has looked at that.
        let is_within = other.starts_with(path) || path.starts_with(other);
        let kinds_differ = replaced.is_some() && is_directory != self.model.is_directory(other);
        let is_full = self.model.is_directory(other) && !self.model.is_empty(other);
        if is_within || replaced == Some(object) || !exchange && (kinds_differ || is_full) {
            return;
        }
        let (from, to) = (self.place(path), self.place(other));
        let before = match exchange {
            true => None,
            false => self.before(other),
        };
        let rename = Change::Rename {
            from,
            object,
            to,
            replaced,
            exchange,
        };
        let at = self.note(rename, before);
        let how = match (exchange, replaced) {
            (true, _) => Moves::Exchange,
            (false, Some(_)) => Moves::Over,
            (false, None) => Moves::ToFree,
        };
        self.model.rename(path, other, how).expect("it may move");
        self.model.stamp_parent(path, at);
        self.model.stamp_parent(other, at);
    }

    fn link(&mut self, path: &[Name], other: &[Name]) {
        if self.model.is_directory(path) || self.model.number(other).is_some() {
            return;
        }
        let (object, place) = (self.object(path), self.place(other));
        let at = self.note(Change::Link { object, place }, None);
        self.model.link(path, other).expect("it may be linked");
        self.model.stamp_parent(other, at);
    }

    fn chmod(&mut self, path: &[Name]) {
        let object = self.object(path);
        if matches!(
            self.model.thing(path).expect("there").kind,
            NewKind::Symlink(_)
        ) {
            return;
        }
        let set = SetAttributes {
            permissions: Some(0o511),
            ..SetAttributes::default()
        };
        self.note(Change::SetAttributes { object, set }, None);
        self.model
            .set_attributes(path, &set)
            .expect("it may be set");
    }
}
