//! What the file system in memory holds.

use std::collections::{BTreeMap, HashMap};
use std::ffi::{OsStr, OsString};
use std::io;
use std::time::Duration;

use rustix::fs::FileType;
use rustix::io::Errno;
use surmise_fuse::{Attributes, Caller, Entry, KnownAttributes, ROOT, Timestamp};

/// Inode numbers are nodes plus this, to prove that they are apart.
pub const INO_OFFSET: u64 = 1_000_000;

/// When everything was born, in seconds since 1970.
pub const BORN_S: i64 = 1_234_567_890;

pub enum Content {
    File(Vec<u8>),
    Directory(BTreeMap<OsString, u64>),
    Link(OsString),
}

pub struct Object {
    pub content: Content,
    pub attributes: Attributes,
    pub xattrs: BTreeMap<OsString, Vec<u8>>,
    pub references: u64,
}

impl Object {
    pub fn new(node: u64, content: Content, permissions: u32, caller: Caller) -> Self {
        let file_type = match content {
            Content::File(_) => FileType::RegularFile,
            Content::Directory(_) => FileType::Directory,
            Content::Link(_) => FileType::Symlink,
        };
        let born = Timestamp {
            seconds: BORN_S,
            nanoseconds: 5,
        };
        let attributes = Attributes {
            ino: node + INO_OFFSET,
            links: 1,
            mode: file_type.as_raw_mode() | (permissions & 0o7777),
            uid: caller.uid,
            gid: caller.gid,
            block_size: 4096,
            accessed: born,
            modified: born,
            changed: born,
            created: Some(born),
            ..Attributes::default()
        };
        Self {
            content,
            attributes,
            xattrs: BTreeMap::new(),
            references: 0,
        }
    }

    pub fn attributes(&self) -> Attributes {
        let size = match &self.content {
            Content::File(data) => data.len(),
            Content::Directory(names) => names.len(),
            Content::Link(target) => target.len(),
        };
        Attributes {
            size: size as u64,
            ..self.attributes
        }
    }

    pub fn known(&self) -> KnownAttributes {
        KnownAttributes {
            attributes: self.attributes(),
            lifetime: Duration::MAX,
        }
    }

    pub fn data(&mut self) -> io::Result<&mut Vec<u8>> {
        match &mut self.content {
            Content::File(data) => Ok(data),
            _ => Err(Errno::INVAL.into()),
        }
    }

    pub fn names(&mut self) -> io::Result<&mut BTreeMap<OsString, u64>> {
        match &mut self.content {
            Content::Directory(names) => Ok(names),
            _ => Err(Errno::NOTDIR.into()),
        }
    }

    pub fn drop_set_id(&mut self, kill: bool) {
        if kill {
            self.attributes.mode &= !0o6000;
        }
    }
}

pub struct State {
    pub objects: HashMap<u64, Object>,
    pub last_node: u64,
}

impl State {
    pub fn object(&mut self, node: u64) -> io::Result<&mut Object> {
        self.objects
            .get_mut(&node)
            .ok_or_else(|| Errno::STALE.into())
    }

    pub fn child(&mut self, parent: u64, name: &OsStr) -> io::Result<u64> {
        let names = self.object(parent)?.names()?;
        names.get(name).copied().ok_or_else(|| Errno::NOENT.into())
    }

    pub fn entry(&mut self, node: u64) -> io::Result<Entry> {
        let object = self.object(node)?;
        object.references += 1;
        Ok(Entry {
            node,
            generation: 0,
            attributes: object.attributes(),
            entry_lifetime: Duration::MAX,
            attributes_lifetime: Duration::MAX,
        })
    }

    pub fn make(&mut self, caller: Caller, content: Content, permissions: u32) -> u64 {
        self.last_node += 1;
        let object = Object::new(self.last_node, content, permissions, caller);
        self.objects.insert(self.last_node, object);
        self.last_node
    }

    pub fn make_named(
        &mut self,
        caller: Caller,
        (parent, name): (u64, &OsStr),
        content: Content,
        permissions: u32,
    ) -> io::Result<u64> {
        if self.child(parent, name).is_ok() {
            return Err(Errno::EXIST.into());
        }
        let node = self.make(caller, content, permissions);
        self.object(parent)?.names()?.insert(name.to_owned(), node);
        Ok(node)
    }

    pub fn remove(&mut self, parent: u64, name: &OsStr) -> io::Result<()> {
        let node = self.child(parent, name)?;
        self.object(parent)?.names()?.remove(name);
        self.object(node)?.attributes.links -= 1;
        self.drop_unused(node);
        Ok(())
    }

    pub fn drop_unused(&mut self, node: u64) {
        if let Some(object) = self.objects.get(&node)
            && object.references == 0
            && object.attributes.links == 0
        {
            self.objects.remove(&node);
        }
    }

    /// `.`, `..`, then the names.
    pub fn listing(&mut self, node: u64) -> io::Result<Vec<(OsString, u64, u32)>> {
        let names = self.object(node)?.names()?.clone();
        let mut listing = vec![
            (".".into(), node, 0o040_000),
            ("..".into(), ROOT, 0o040_000),
        ];
        for (name, node) in names {
            let mode = self.object(node)?.attributes.mode;
            listing.push((name, node, mode));
        }
        Ok(listing)
    }
}
