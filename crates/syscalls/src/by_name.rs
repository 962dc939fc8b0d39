//! What a call changes that a path names.

/// What a call changes that its caller names by a path, other than owners, modes, times and attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ByName {
    /// It opens a file for changes to come, and may create or truncate the file.
    Opens,
    /// It changes the contents of a file.
    Contents,
    /// It adds, removes or renames entries of directories.
    Entries,
}
