//! What a change means for who may do what, which the letter of its line does not say.
//!
//! A name whose contents changed is one matter; a name that now runs with somebody else's rights is
//! another, and must not look the same to somebody who reads the list before a commit.

mod capabilities;
mod state;

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{major, minor};
use surmise_view::FileKind;

use crate::quote::{quoted, shown_name};
pub(crate) use state::States;
use state::{CAPABILITY, State};

/// One remark on a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Note {
    /// It is neither a file nor a directory.
    Is(Special),
    /// It was of this kind before.
    Was(FileKind),
    /// Its caller gets the rights of this user.
    SetUser(u32),
    /// Its caller gets the rights of this group; what is made in such a directory belongs to
    /// the group.
    SetGroup(u32),
    /// Its caller gets these capabilities, as getcap(8) has them.
    Capabilities(String),
    /// It had capabilities.
    NoCapabilities,
    /// It can be executed, and could not before.
    Executable,
    /// Everybody may write it, and could not before.
    WritableByAll,
    /// Its permission bits before and now.
    Mode(u16, u16),
    /// Its owner before, unless it is new, and now.
    Owner(Option<u32>, u32),
    /// Its group before, unless it is new, and now.
    Group(Option<u32>, u32),
    /// This extended attribute has another value than before.
    Attribute(OsString),
    /// This extended attribute is gone.
    NoAttribute(OsString),
}

/// What a name can lead to besides a file or a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Special {
    /// A symbolic link, with where it leads.
    Link(OsString),
    /// A FIFO.
    Fifo,
    /// A Unix socket.
    Socket,
    /// What overlayfs takes for a name that was removed.
    Whiteout,
    /// A character device, with its number.
    CharacterDevice(u64),
    /// A block device, with its number.
    BlockDevice(u64),
}

impl Note {
    /// Whether somebody may do more because of it than the letter of the change says: these are shown
    /// also where a list is cut short.
    pub fn gives_rights(&self) -> bool {
        match self {
            Self::SetUser(_) | Self::SetGroup(_) | Self::Capabilities(_) | Self::WritableByAll => {
                true
            }
            Self::Is(special) => {
                matches!(
                    special,
                    Special::CharacterDevice(_) | Special::BlockDevice(_)
                )
            }
            _ => false,
        }
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Is(special) => special.fmt(f),
            Self::Was(kind) => write!(f, "was a {}", kind_name(*kind)),
            Self::SetUser(user) => write!(f, "set-user-id {}", id(*user)),
            Self::SetGroup(group) => write!(f, "set-group-id {}", id(*group)),
            Self::Capabilities(text) => write!(f, "capabilities {text}"),
            Self::NoCapabilities => f.write_str("no capabilities"),
            Self::Executable => f.write_str("executable"),
            Self::WritableByAll => f.write_str("writable by all"),
            Self::Mode(old, new) => write!(f, "mode {old:04o} -> {new:04o}"),
            Self::Owner(None, new) => write!(f, "owner {}", id(*new)),
            Self::Owner(Some(old), new) => write!(f, "owner {} -> {}", id(*old), id(*new)),
            Self::Group(None, new) => write!(f, "group {}", id(*new)),
            Self::Group(Some(old), new) => write!(f, "group {} -> {}", id(*old), id(*new)),
            Self::Attribute(name) => write!(f, "attribute {}", shown_name(name)),
            Self::NoAttribute(name) => write!(f, "no attribute {}", shown_name(name)),
        }
    }
}

impl fmt::Display for Special {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = |number: u64| format!("{}:{}", major(number), minor(number));
        match self {
            Self::Link(target) => {
                write!(f, "symbolic link to {}", quoted(target.as_bytes()))
            }
            Self::Fifo => f.write_str("FIFO"),
            Self::Socket => f.write_str("socket"),
            Self::Whiteout => f.write_str("whiteout"),
            Self::CharacterDevice(device) => write!(f, "character device {}", number(*device)),
            Self::BlockDevice(device) => write!(f, "block device {}", number(*device)),
        }
    }
}

/// A user or group. Names are the machine's to choose, but for this one.
fn id(number: u32) -> String {
    match number {
        0 => "root".to_owned(),
        _ => number.to_string(),
    }
}

fn kind_name(kind: FileKind) -> &'static str {
    match kind {
        FileKind::Regular => "file",
        FileKind::Directory => "directory",
        FileKind::Symlink => "symbolic link",
        FileKind::Fifo => "FIFO",
        FileKind::Socket => "socket",
        FileKind::CharacterDevice => "character device",
        FileKind::BlockDevice => "block device",
    }
}

/// What there is to say of a name that now leads to `new` and led to `old`; of a name that was not
/// there, or of which it cannot be known, everything is new. What `user` makes belongs to that user and
/// group.
fn compare(old: Option<&State>, new: &State, user: (u32, u32)) -> Vec<Note> {
    let mut notes = Vec::new();
    let was = old.map(|old| old.kind).filter(|kind| *kind != new.kind);
    let special = special(new);
    if special != old.and_then(self::special) {
        notes.extend(special.map(Note::Is));
    }
    notes.extend(was.map(Note::Was));
    // Nothing of another type of file can be compared.
    let old = old.filter(|old| old.kind == new.kind);
    rights(old, new, &mut notes);
    if let Some(old) = old
        && new.kind != FileKind::Symlink
        && old.permissions != new.permissions
    {
        notes.push(Note::Mode(old.permissions, new.permissions));
    }
    let before = |of: fn(&State) -> u32, own: u32| old.map_or(own, of);
    if new.uid != before(|state| state.uid, user.0) {
        notes.push(Note::Owner(old.map(|old| old.uid), new.uid));
    }
    if new.gid != before(|state| state.gid, user.1) {
        notes.push(Note::Group(old.map(|old| old.gid), new.gid));
    }
    attributes(old, new, &mut notes);
    notes
}

fn special(state: &State) -> Option<Special> {
    Some(match state.kind {
        FileKind::Regular | FileKind::Directory => return None,
        FileKind::Symlink => Special::Link(state.target.clone()),
        FileKind::Fifo => Special::Fifo,
        FileKind::Socket => Special::Socket,
        FileKind::CharacterDevice if state.special == 0 => Special::Whiteout,
        FileKind::CharacterDevice => Special::CharacterDevice(state.special),
        FileKind::BlockDevice => Special::BlockDevice(state.special),
    })
}

/// What a file gives to those that execute or write it. Rights that it lends are told with every change
/// of it: new contents get them, too.
fn rights(old: Option<&State>, new: &State, notes: &mut Vec<Note>) {
    const SET_USER: u16 = 0o4000;
    const SET_GROUP: u16 = 0o2000;
    const STICKY: u16 = 0o1000;
    let is_file = new.kind == FileKind::Regular;
    let is_directory = new.kind == FileKind::Directory;
    let has = |bits: u16| new.permissions & bits != 0;
    let had = |bits: u16| old.is_some_and(|old| old.permissions & bits != 0);
    if is_file && has(SET_USER) {
        notes.push(Note::SetUser(new.uid));
    }
    if has(SET_GROUP) && (is_file || is_directory && !had(SET_GROUP)) {
        notes.push(Note::SetGroup(new.gid));
    }
    match new.xattrs.get(OsStr::new(CAPABILITY)) {
        Some(value) => notes.push(Note::Capabilities(capabilities::text(value))),
        None if old.is_some_and(|old| old.xattrs.contains_key(OsStr::new(CAPABILITY))) => {
            notes.push(Note::NoCapabilities);
        }
        None => {}
    }
    if is_file && has(0o111) && !had(0o111) {
        notes.push(Note::Executable);
    }
    // Links have no permissions, and in a sticky directory nobody touches the files of others.
    let guarded = new.kind == FileKind::Symlink || is_directory && has(STICKY);
    if has(0o002) && !had(0o002) && !guarded {
        notes.push(Note::WritableByAll);
    }
}

fn attributes(old: Option<&State>, new: &State, notes: &mut Vec<Note>) {
    let told_apart = |name: &OsStr| name != CAPABILITY;
    for (name, value) in &new.xattrs {
        let before = old.and_then(|old| old.xattrs.get(name));
        if told_apart(name) && before != Some(value) {
            notes.push(Note::Attribute(name.clone()));
        }
    }
    for name in old.into_iter().flat_map(|old| old.xattrs.keys()) {
        if told_apart(name) && !new.xattrs.contains_key(name) {
            notes.push(Note::NoAttribute(name.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const USER: (u32, u32) = (1000, 1000);

    fn file(permissions: u16) -> State {
        State {
            kind: FileKind::Regular,
            permissions,
            uid: USER.0,
            gid: USER.1,
            special: 0,
            target: OsString::new(),
            xattrs: Default::default(),
        }
    }

    fn said(old: Option<&State>, new: &State) -> String {
        let notes = compare(old, new, USER);
        let notes: Vec<_> = notes.iter().map(Note::to_string).collect();
        notes.join(", ")
    }

    #[test]
    fn of_what_is_as_usual_nothing_is_said() {
        let directory = State {
            kind: FileKind::Directory,
            ..file(0o775)
        };
        assert_eq!(said(None, &file(0o644)), "");
        assert_eq!(said(None, &directory), "");
        assert_eq!(said(Some(&file(0o755)), &file(0o755)), "");
    }

    #[test]
    fn rights_that_a_file_lends_are_said_with_every_change_of_it() {
        let root = State {
            uid: 0,
            ..file(0o4755)
        };
        assert_eq!(
            said(None, &root),
            "set-user-id root, executable, owner root"
        );
        assert_eq!(said(Some(&root), &root), "set-user-id root");
        assert_eq!(
            said(Some(&file(0o755)), &file(0o2755)),
            "set-group-id 1000, mode 0755 -> 2755"
        );
    }

    #[test]
    fn a_mode_is_said_when_it_changes() {
        assert_eq!(
            said(Some(&file(0o644)), &file(0o757)),
            "executable, writable by all, mode 0644 -> 0757"
        );
        assert_eq!(said(Some(&file(0o600)), &file(0o644)), "mode 0600 -> 0644");
        assert_eq!(said(None, &file(0o666)), "writable by all");
    }

    #[test]
    fn a_shared_directory_is_one_that_all_may_write_unless_it_is_sticky() {
        let directory = |permissions| State {
            kind: FileKind::Directory,
            ..file(permissions)
        };
        assert_eq!(said(None, &directory(0o777)), "writable by all");
        assert_eq!(said(None, &directory(0o1777)), "");
        assert_eq!(said(None, &directory(0o2775)), "set-group-id 1000");
    }

    #[test]
    fn owners_are_said_where_they_are_not_what_they_would_be() {
        let given = State {
            uid: 0,
            gid: 7,
            ..file(0o644)
        };
        assert_eq!(said(None, &given), "owner root, group 7");
        assert_eq!(
            said(Some(&file(0o644)), &given),
            "owner 1000 -> root, group 1000 -> 7"
        );
        assert_eq!(said(Some(&given), &given), "");
    }

    #[test]
    fn what_is_no_file_is_said_with_where_it_leads() {
        let of = |kind, special, target: &str| State {
            kind,
            special,
            target: target.into(),
            ..file(0o777)
        };
        let link = of(FileKind::Symlink, 0, "/etc/a, \"b\"\n");
        assert_eq!(said(None, &link), r#"symbolic link to "/etc/a, \"b\"\n""#);
        assert_eq!(said(Some(&link), &link), "");
        assert_eq!(
            said(Some(&of(FileKind::Symlink, 0, "x")), &link),
            r#"symbolic link to "/etc/a, \"b\"\n""#
        );
        assert_eq!(
            said(Some(&file(0o644)), &link),
            r#"symbolic link to "/etc/a, \"b\"\n", was a file"#
        );
        assert_eq!(
            said(Some(&link), &file(0o755)),
            "was a symbolic link, executable"
        );
        let device = of(FileKind::CharacterDevice, 0, "");
        assert_eq!(said(None, &device), "whiteout, writable by all");
        let device = of(FileKind::BlockDevice, rustix::fs::makedev(8, 1), "");
        assert_eq!(said(None, &device), "block device 8:1, writable by all");
    }

    #[test]
    fn attributes_are_said_when_they_come_change_and_go() {
        let with = |pairs: &[(&str, &str)]| State {
            xattrs: pairs
                .iter()
                .map(|(name, value)| ((*name).into(), value.as_bytes().into()))
                .collect(),
            ..file(0o644)
        };
        let old = with(&[("user.a", "1"), ("user.b", "1"), ("user.c", "1")]);
        let new = with(&[("user.a", "1"), ("user.b", "2"), ("user.d, \n", "1")]);
        assert_eq!(
            said(Some(&old), &new),
            r#"attribute user.b, attribute "user.d, \n", no attribute user.c"#
        );
        let capable = with(&[(CAPABILITY, "\x01\0\0\x02\0\x20\0\0\0\0\0\0\0\0\0\0\0\0\0\0")]);
        assert_eq!(said(None, &capable), "capabilities cap_net_raw=ep");
        assert_eq!(said(Some(&capable), &old), {
            "no capabilities, attribute user.a, attribute user.b, attribute user.c"
        });
    }
}
