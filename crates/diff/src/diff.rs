//! The changes of a view as they are shown: in order, each with its notes.

use std::io;
use std::path::{Path, PathBuf};

use surmise_changes::{Change, Changes};
use surmise_view::Map;

use crate::notes::{Note, States};

/// A change, and what it means for who may do what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// The change.
    pub change: Change,
    /// What its letter does not say.
    pub notes: Vec<Note>,
}

/// The changes of a view, in the order in which they first happened.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Diff {
    rows: Vec<Row>,
}

impl Diff {
    /// All changes in `map`, with notes, for which what was there before is looked at in the real directory
    /// `root`. Only what cannot be told from the map is looked at.
    ///
    /// # Errors
    /// When `root` cannot be opened.
    pub fn of(map: &Map, root: &Path) -> io::Result<Self> {
        let states = States::new(map, root)?;
        let rows = Changes::of(map).into_iter().map(|change| Row {
            notes: states.notes(&change),
            change,
        });
        Ok(Self {
            rows: rows.collect(),
        })
    }

    /// Changes of which no more is to be told.
    pub fn without_notes(changes: Changes) -> Self {
        let rows = changes.into_iter().map(|change| Row {
            change,
            notes: Vec::new(),
        });
        Self {
            rows: rows.collect(),
        }
    }

    /// Only those at or below one of `paths` (absolute), before or after; all when `paths` is empty.
    #[must_use]
    pub fn below(mut self, paths: &[PathBuf]) -> Self {
        if !paths.is_empty() {
            self.rows.retain(|row| row.change.is_below(paths));
        }
        self
    }

    /// In order.
    pub fn iter(&self) -> std::slice::Iter<'_, Row> {
        self.rows.iter()
    }

    /// The changes without their notes, in order.
    pub fn changes(&self) -> impl Iterator<Item = &Change> {
        self.rows.iter().map(|row| &row.change)
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether nothing changed.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

#[cfg(test)]
impl From<Vec<Row>> for Diff {
    fn from(rows: Vec<Row>) -> Self {
        Self { rows }
    }
}

#[cfg(test)]
impl Row {
    /// A change of a file, without notes.
    pub(crate) fn of(kind: surmise_changes::ChangeKind, path: &str) -> Self {
        let change = Change {
            kind,
            path: path.into(),
            from: None,
            is_directory: false,
            node: None,
            old: None,
            replaces: None,
        };
        Self {
            change,
            notes: Vec::new(),
        }
    }
}

impl<'a> IntoIterator for &'a Diff {
    type Item = &'a Row;
    type IntoIter = std::slice::Iter<'a, Row>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}
