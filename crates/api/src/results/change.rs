//! One change of a domain.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use serde::{Deserialize, Serialize};
use surmise_diff::{Note, Row};

use crate::text::Text;

/// One change of a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeRow {
    /// `A` (added), `M` (modified), `D` (deleted), `R` (renamed) or `T` (another type of file).
    pub kind: char,
    /// The path; of a deleted name, where it was.
    pub path: String,
    /// Of a renamed name, the old path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// What the change means for who may do what, as `surmise diff` says it after the tab.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Whether one of the notes gives somebody rights.
    #[serde(default, skip_serializing_if = "is_false")]
    pub gives_rights: bool,
    /// Whether it is a directory, or was one if deleted.
    #[serde(default, skip_serializing_if = "is_false")]
    pub is_directory: bool,
    /// The path byte by byte, where it is no UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_exact: Option<Text>,
    /// The old path byte by byte, where it is no UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_exact: Option<Text>,
}

fn is_false(value: &bool) -> bool {
    !value
}

fn exact(path: &Path) -> Option<Text> {
    let is_text = std::str::from_utf8(path.as_os_str().as_bytes()).is_ok();
    (!is_text).then(|| path.into())
}

impl From<&Row> for ChangeRow {
    fn from(row: &Row) -> Self {
        let change = &row.change;
        let from = change.from.as_deref();
        Self {
            kind: change.kind.letter(),
            path: change.path.to_string_lossy().into_owned(),
            from: from.map(|path| path.to_string_lossy().into_owned()),
            notes: row.notes.iter().map(Note::to_string).collect(),
            gives_rights: row.notes.iter().any(Note::gives_rights),
            is_directory: change.is_directory,
            path_exact: exact(&change.path),
            from_exact: from.and_then(exact),
        }
    }
}
