//! Where objects are while changes are made again.

use std::collections::{HashMap, HashSet};

use crate::lost::Undecided;
use crate::object::{Name, ObjectId};
use crate::operation::{Change, Place};

/// The deepest path, in names.
const DEPTH_MAX: usize = 4096;

/// The names of objects, as far as they are known.
#[derive(Debug, Clone)]
pub(super) struct Names {
    pub(super) root: ObjectId,
    /// An object without places has lost its last name.
    places: HashMap<ObjectId, Vec<Place>>,
    /// The names that changes mean by others, since something else had these.
    aliases: HashMap<(ObjectId, Name), Name>,
}

impl Names {
    pub(super) fn new(root: ObjectId, places: &[(ObjectId, Place)]) -> Self {
        let mut all: HashMap<_, Vec<_>> = HashMap::new();
        for (object, place) in places {
            all.entry(*object).or_default().push(place.clone());
        }
        Self {
            root,
            places: all,
            aliases: HashMap::new(),
        }
    }

    /// Whether an object has lost its last name.
    pub(super) fn is_nameless(&self, object: ObjectId) -> bool {
        self.places.get(&object).is_some_and(Vec::is_empty)
    }

    fn place(&self, object: ObjectId) -> Option<&Place> {
        self.places.get(&object)?.first()
    }

    /// The objects from below the root down to one, with their names; `None` if that is not known.
    pub(super) fn chain(&self, object: ObjectId) -> Option<Vec<(ObjectId, Name)>> {
        let mut chain = Vec::new();
        let mut seen = HashSet::new();
        let mut at = object;
        while at != self.root {
            // What was read from a file may lead in a circle.
            if !seen.insert(at) || chain.len() > DEPTH_MAX {
                return None;
            }
            let place = self.place(at)?;
            chain.push((at, place.name.clone()));
            at = place.parent;
        }
        chain.reverse();
        Some(chain)
    }

    pub(super) fn path(&self, object: ObjectId) -> Option<Vec<Name>> {
        let chain = self.chain(object)?;
        Some(chain.into_iter().map(|(_, name)| name).collect())
    }

    pub(super) fn path_at(&self, parent: ObjectId, name: &Name) -> Option<Vec<Name>> {
        let mut path = self.path(parent)?;
        path.push(name.clone());
        Some(path)
    }

    /// The name that a change means.
    pub(super) fn meant(&self, place: &Place) -> Place {
        let alias = self.aliases.get(&(place.parent, place.name.clone()));
        Place {
            parent: place.parent,
            name: alias.unwrap_or(&place.name).clone(),
        }
    }

    /// Where something moves that goes over `replaced`.
    pub(super) fn goal(&self, to: &Place, replaced: Option<ObjectId>) -> Place {
        match replaced {
            Some(_) => self.meant(to),
            None => to.clone(),
        }
    }

    /// Whether nothing is known of where an object is.
    pub(super) fn is_unknown(&self, object: ObjectId) -> bool {
        !self.places.contains_key(&object)
    }

    /// Whether an object has this name for sure.
    pub(super) fn has(&self, object: ObjectId, place: &Place) -> bool {
        let places = self.places.get(&object);
        places.is_some_and(|places| places.contains(place))
    }

    /// An object has this name in the place of the one that it had.
    pub(super) fn put_beside(&mut self, object: ObjectId, place: Place) {
        if let Some(before) = self.place(object).filter(|one| one.parent == place.parent) {
            let mut aliases = self.aliases.iter();
            let known = aliases
                .find(|((parent, _), alias)| *parent == before.parent && **alias == before.name);
            let name = known.map_or(&before.name, |((_, name), _)| name).clone();
            self.aliases
                .insert((place.parent, name), place.name.clone());
        }
        self.places.insert(object, vec![place]);
    }

    /// A change was made, its new name being `beside` if that is given.
    pub(super) fn change(&mut self, undecided: &Undecided, beside: Option<&Name>) {
        match &undecided.operation.change {
            Change::Create { place, object, .. } => {
                let new = self.taken(place, beside);
                self.places.insert(*object, vec![new]);
            }
            Change::Link { object, place } => {
                let new = self.taken(place, beside);
                self.places.entry(*object).or_default().push(new);
            }
            Change::Remove { place, object, .. } => {
                self.lose(*object, &self.meant(place));
                self.free(place);
                let links = undecided.before.map_or(1, |before| before.links);
                if links > 1 && self.is_nameless(*object) {
                    // It still has a name that the client did not know.
                    self.places.remove(object);
                }
            }
            Change::Rename {
                from,
                object,
                to,
                replaced,
                exchange,
            } if *replaced != Some(*object) => {
                let (old, replaces) = (self.meant(from), self.meant(to));
                self.lose(*object, &old);
                if let (Some(replaced), None) = (replaced, beside) {
                    self.lose(*replaced, &replaces);
                    if *exchange {
                        self.places.entry(*replaced).or_default().push(old);
                    }
                }
                if !exchange {
                    self.free(from);
                }
                let new = match replaced {
                    Some(_) if beside.is_none() => replaces,
                    _ => self.taken(to, beside),
                };
                self.places.entry(*object).or_default().insert(0, new);
            }
            _ => {}
        }
    }

    /// A name that changes leave free is taken, or another one in its place.
    fn taken(&mut self, place: &Place, beside: Option<&Name>) -> Place {
        let key = (place.parent, place.name.clone());
        match beside {
            Some(beside) => self.aliases.insert(key, beside.clone()),
            None => self.aliases.remove(&key),
        };
        self.meant(place)
    }

    fn free(&mut self, place: &Place) {
        self.aliases.remove(&(place.parent, place.name.clone()));
    }

    fn lose(&mut self, object: ObjectId, place: &Place) {
        if let Some(places) = self.places.get_mut(&object) {
            places.retain(|one| one != place);
        }
    }

    /// An object's path for people, with slashes.
    pub(super) fn shown(&self, object: ObjectId) -> Vec<u8> {
        match self.path(object) {
            Some(path) => joined(&path),
            None => format!("({object})").into_bytes(),
        }
    }

    /// The path of a name for people.
    pub(super) fn shown_at(&self, place: &Place) -> Vec<u8> {
        let mut path = self.shown(place.parent);
        if !path.is_empty() {
            path.push(b'/');
        }
        path.extend(place.name.as_bytes());
        path
    }

    /// What a change is about, for people: the name that it takes or takes away, or else its object.
    pub(super) fn shown_last(&self, undecided: Option<&Undecided>) -> Vec<u8> {
        let Some(Undecided { operation, .. }) = undecided else {
            return Vec::new();
        };
        match operation.change.places().last() {
            Some(place) => self.shown_at(place),
            None => {
                let object = operation.change.touches().into_iter().next();
                object.map_or_else(Vec::new, |object| self.shown(object))
            }
        }
    }
}

fn joined(path: &[Name]) -> Vec<u8> {
    let names: Vec<_> = path.iter().map(Name::as_bytes).collect();
    names.join(&b'/')
}

/// The name of something that cannot have this one.
pub(super) fn conflict(name: &[u8], number: u32) -> Name {
    let name = Name::with_ending(name, &format!(".conflict-{number}"));
    name.expect("a part of a name with letters behind it is a name")
}
