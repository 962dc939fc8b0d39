//! A table by name that most nodes do not need.

use std::collections::{BTreeMap, btree_map};
use std::ffi::OsStr;

/// Values by name, in order. An empty one is a word long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table<V> {
    /// `None` when it is empty.
    rows: Option<Box<Rows<V>>>,
}

/// Behind a pointer, so that it is one word of each node and not three.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Rows<V>(BTreeMap<Box<OsStr>, V>);

impl<V> Table<V> {
    /// The value of a name.
    pub fn get(&self, name: &OsStr) -> Option<&V> {
        self.rows.as_ref()?.0.get(name)
    }

    /// Whether a name is in it.
    pub fn contains_key(&self, name: &OsStr) -> bool {
        self.get(name).is_some()
    }

    /// Every name and its value, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&OsStr, &V)> {
        let rows = self.rows.iter().flat_map(|rows| rows.0.iter());
        rows.map(|(name, value)| (&**name, value))
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.rows.is_none()
    }

    pub(super) fn get_mut(&mut self, name: &OsStr) -> Option<&mut V> {
        self.rows.as_mut()?.0.get_mut(name)
    }

    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.rows.iter_mut().flat_map(|rows| rows.0.values_mut())
    }

    pub(super) fn insert(&mut self, name: &OsStr, value: V) {
        let empty = || Box::new(Rows(BTreeMap::new()));
        let rows = self.rows.get_or_insert_with(empty);
        rows.0.insert(name.into(), value);
    }

    pub(super) fn remove(&mut self, name: &OsStr) {
        if let Some(rows) = &mut self.rows {
            rows.0.remove(name);
            if rows.0.is_empty() {
                self.rows = None;
            }
        }
    }
}

impl<V> Default for Table<V> {
    fn default() -> Self {
        Self { rows: None }
    }
}

impl<V> IntoIterator for Table<V> {
    type Item = (Box<OsStr>, V);
    type IntoIter = btree_map::IntoIter<Box<OsStr>, V>;

    fn into_iter(self) -> Self::IntoIter {
        let rows = self.rows.map_or_else(BTreeMap::new, |rows| rows.0);
        rows.into_iter()
    }
}
