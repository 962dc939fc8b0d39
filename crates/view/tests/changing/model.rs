//! The model: what the domain changed, by name, over the tree in memory as it is now.
//!
//! Others move no inode and replace no directory, so where an inode was found is where it is.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use rustix::io::Errno;
use surmise_lower::{Attributes, Directory, Lower, Memory};
use surmise_view::FileKind;

/// What a path is in a picture: its permission bits, and its data where it is a file.
pub type Picture = BTreeMap<String, (u16, Option<Vec<u8>>)>;

#[derive(Debug, Clone)]
pub struct Model {
    lower: Memory,
    nodes: Vec<Node>,
    /// Which node a real inode has become.
    adopted: HashMap<u64, usize>,
}

#[derive(Debug, Clone)]
struct Node {
    kind: FileKind,
    /// Where its real inode is, and which one it is.
    real: Option<(String, u64)>,
    /// When it was adopted, or made.
    first_permissions: u16,
    permissions: Option<u16>,
    data: Option<Vec<u8>>,
    /// What names lead to, and whether the real directory had them at the first change.
    entries: BTreeMap<String, (Option<usize>, bool)>,
}

/// What a path leads to.
#[derive(Debug, Clone, PartialEq)]
enum Found {
    Node(usize),
    /// A real inode that the domain did not change.
    Real(String, Attributes),
}

impl Model {
    pub fn new(lower: Memory) -> Self {
        let mut model = Self {
            lower,
            nodes: Vec::new(),
            adopted: HashMap::new(),
        };
        let root = model.real("").expect("a root");
        model.adopt(Found::Real(String::new(), root));
        model
    }

    pub fn create(&mut self, path: &str, kind: FileKind) -> Result<(), Errno> {
        let (directory, name) = self.parent(path)?;
        if self.child(&directory, name).is_ok() {
            return Err(Errno::EXIST);
        }
        let directory = self.adopt(directory);
        let new = Node {
            kind,
            real: None,
            first_permissions: 0o644,
            permissions: None,
            data: (kind == FileKind::Regular).then(Vec::new),
            entries: BTreeMap::new(),
        };
        self.nodes.push(new);
        self.bind(directory, name, Some(self.nodes.len() - 1));
        Ok(())
    }

    pub fn unlink(&mut self, path: &str, wants_directory: bool) -> Result<(), Errno> {
        let (directory, name) = self.parent(path)?;
        let found = self.child(&directory, name)?;
        match (self.kind(&found) == FileKind::Directory, wants_directory) {
            (true, false) => return Err(Errno::ISDIR),
            (false, true) => return Err(Errno::NOTDIR),
            (true, true) if !self.names(&found).is_empty() => return Err(Errno::NOTEMPTY),
            _ => {}
        }
        let directory = self.adopt(directory);
        self.bind(directory, name, None);
        Ok(())
    }

    pub fn rename(&mut self, from: &str, to: &str) -> Result<(), Errno> {
        let (old, old_name) = self.parent(from)?;
        let (new, new_name) = self.parent(to)?;
        let source = self.child(&old, old_name)?;
        if let Ok(target) = self.child(&new, new_name) {
            if target == source {
                return Ok(());
            }
            let is_directory = |found| self.kind(found) == FileKind::Directory;
            match (is_directory(&source), is_directory(&target)) {
                (true, false) => return Err(Errno::NOTDIR),
                (false, true) => return Err(Errno::ISDIR),
                (true, true) if !self.names(&target).is_empty() => return Err(Errno::NOTEMPTY),
                _ => {}
            }
        }
        let source = self.adopt(source);
        let (old, new) = (self.adopt(old), self.adopt(new));
        self.bind(old, old_name, None);
        self.bind(new, new_name, Some(source));
        Ok(())
    }

    /// Has `change` change the data of a file.
    pub fn write(&mut self, path: &str, change: impl FnOnce(&mut Vec<u8>)) -> Result<(), Errno> {
        let found = self.find(path)?;
        let mut data = self.data(&found).ok_or(Errno::INVAL)?;
        change(&mut data);
        let node = self.adopt(found);
        self.nodes[node].data = Some(data);
        Ok(())
    }

    pub fn permit(&mut self, path: &str, permissions: u16) -> Result<(), Errno> {
        let found = self.find(path)?;
        let node = self.adopt(found);
        self.nodes[node].permissions = Some(permissions);
        Ok(())
    }

    pub fn is_file(&self, path: &str) -> bool {
        let found = self.find(path);
        found.is_ok_and(|found| self.kind(&found) == FileKind::Regular)
    }

    /// Whether the domain would lose something should the real inode at a real path go: it has changed the
    /// inode, and not its data.
    pub fn rests_on(&self, path: &str) -> bool {
        let Some(real) = self.real(path) else {
            return false;
        };
        let node = self.adopted.get(&real.identity.inode);
        node.is_some_and(|node| self.nodes[*node].data.is_none())
    }

    pub fn is_real_directory(&self, path: &str) -> bool {
        let real = self.real(path);
        real.is_some_and(|real| real.identity.kind == FileKind::Directory)
    }

    pub fn picture(&self) -> Picture {
        let mut picture = Picture::new();
        self.add_to(&mut picture, "", &Found::Node(0));
        picture
    }

    fn add_to(&self, picture: &mut Picture, above: &str, directory: &Found) {
        for name in self.names(directory) {
            let found = self.child(directory, &name).expect("a listed name");
            let path = format!("{above}/{name}");
            picture.insert(path.clone(), (self.permissions(&found), self.data(&found)));
            if self.kind(&found) == FileKind::Directory {
                self.add_to(picture, &path, &found);
            }
        }
    }

    fn parent<'p>(&self, path: &'p str) -> Result<(Found, &'p str), Errno> {
        let (above, name) = path.rsplit_once('/').unwrap_or(("", path));
        let found = self.find(above)?;
        match self.kind(&found) {
            FileKind::Directory => Ok((found, name)),
            _ => Err(Errno::NOTDIR),
        }
    }

    fn find(&self, path: &str) -> Result<Found, Errno> {
        let mut names = path.split('/').filter(|name| !name.is_empty());
        names.try_fold(Found::Node(0), |at, name| match self.kind(&at) {
            FileKind::Directory => self.child(&at, name),
            _ => Err(Errno::NOTDIR),
        })
    }

    fn child(&self, directory: &Found, name: &str) -> Result<Found, Errno> {
        if let Found::Node(node) = directory
            && let Some((target, _)) = self.nodes[*node].entries.get(name)
        {
            return target.map(Found::Node).ok_or(Errno::NOENT);
        }
        let real = self.real_path(directory).ok_or(Errno::NOENT)?;
        let path = format!("{real}/{name}");
        let attributes = self.real(&path).ok_or(Errno::NOENT)?;
        let adopted = self.adopted(&path, &attributes).map(Found::Node);
        Ok(adopted.unwrap_or(Found::Real(path, attributes)))
    }

    fn names(&self, directory: &Found) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        if let Some(path) = self.real_path(directory) {
            let listed = self.open(&path).and_then(|real| real.list().ok());
            let listed = listed.into_iter().flatten();
            names.extend(listed.map(|entry| entry.name.into_string().expect("plain names")));
        }
        if let Found::Node(node) = directory {
            for (name, (target, _)) in &self.nodes[*node].entries {
                match target {
                    Some(_) => names.insert(name.clone()),
                    None => names.remove(name),
                };
            }
        }
        names
    }

    fn adopted(&self, path: &str, attributes: &Attributes) -> Option<usize> {
        let adopted = *self.adopted.get(&attributes.identity.inode)?;
        let node = &self.nodes[adopted];
        let is_here = node.real.as_ref().is_some_and(|(at, _)| at == path);
        (is_here && node.kind == attributes.identity.kind).then_some(adopted)
    }

    fn adopt(&mut self, found: Found) -> usize {
        let (path, attributes) = match found {
            Found::Node(node) => return node,
            Found::Real(path, attributes) => (path, attributes),
        };
        // Another name of the same call may have brought it.
        if let Some(node) = self.adopted(&path, &attributes) {
            return node;
        }
        self.nodes.push(Node {
            kind: attributes.identity.kind,
            real: Some((path, attributes.identity.inode)),
            first_permissions: attributes.permissions,
            permissions: None,
            data: None,
            entries: BTreeMap::new(),
        });
        let node = self.nodes.len() - 1;
        self.adopted.insert(attributes.identity.inode, node);
        node
    }

    fn bind(&mut self, directory: usize, name: &str, target: Option<usize>) {
        let real = self.nodes[directory].real.as_ref();
        let is_real = real.is_some_and(|(path, _)| self.real(&format!("{path}/{name}")).is_some());
        let entries = &mut self.nodes[directory].entries;
        let entry = entries.entry(name.to_owned()).or_insert((None, is_real));
        entry.0 = target;
        if *entry == (None, false) {
            // As if it had never been.
            entries.remove(name);
        }
    }

    fn kind(&self, found: &Found) -> FileKind {
        match found {
            Found::Node(node) => self.nodes[*node].kind,
            Found::Real(_, attributes) => attributes.identity.kind,
        }
    }

    fn permissions(&self, found: &Found) -> u16 {
        let node = match found {
            Found::Node(node) => &self.nodes[*node],
            Found::Real(_, attributes) => return attributes.permissions,
        };
        let real = node.real.as_ref().filter(|_| node.data.is_none());
        let real = real.and_then(|(path, _)| self.real(path));
        let otherwise = real.map_or(node.first_permissions, |real| real.permissions);
        node.permissions.unwrap_or(otherwise)
    }

    /// The data of a file.
    fn data(&self, found: &Found) -> Option<Vec<u8>> {
        let path = match found {
            Found::Node(node) => match &self.nodes[*node] {
                Node {
                    data: Some(data), ..
                } => return Some(data.clone()),
                Node { real, kind, .. } if *kind == FileKind::Regular => &real.as_ref()?.0,
                _ => return None,
            },
            Found::Real(path, attributes) => match attributes.identity.kind {
                FileKind::Regular => path,
                _ => return None,
            },
        };
        let (above, name) = path.rsplit_once('/')?;
        let file = self.open(above)?.open(name.as_ref()).ok()?;
        let mut data = vec![0; 4096];
        let length = surmise_lower::read_full(&*file, 0, &mut data).ok()?;
        data.truncate(length);
        Some(data)
    }

    fn real_path(&self, found: &Found) -> Option<String> {
        match found {
            Found::Node(node) => self.nodes[*node].real.clone().map(|(path, _)| path),
            Found::Real(path, _) => Some(path.clone()),
        }
    }

    fn real(&self, path: &str) -> Option<Attributes> {
        match path.rsplit_once('/') {
            None => self.open("")?.attributes().ok(),
            Some((above, name)) => self.open(above)?.lookup(name.as_ref()).ok()?,
        }
    }

    fn open(&self, path: &str) -> Option<std::sync::Arc<dyn Directory>> {
        let names = path.split('/').filter(|name| !name.is_empty());
        names
            .into_iter()
            .try_fold(self.lower.root().ok()?, |at, name| {
                at.directory(name.as_ref()).ok()
            })
    }
}
