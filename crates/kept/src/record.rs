//! What is written down about a domain: `domain.json`, once, and `exit`, when its command ends.
//!
//! `domain.json`, format 2, is an object with
//! `version` (2), `name`, `command` (program and arguments), `directory` (where it was started),
//! `created` (seconds since 1970), `net` (the policy: `default`, and `rules` of `host`, `port` and
//! `verdict`), `sockets` (paths outside that it reaches), `native` (directories outside
//! that it has as they are; left out where there are none) and `maker`
//! ([`Maker`]; what is not known is left out, and earlier versions of Surmise left out all of it).
//! A string that is not Unicode is an array of its bytes. In format 1, `net` was `"deny"` or
//! `"allow"`, and there were no `sockets`.
//! `exit` is `{"exited": status}` or `{"signaled": number}`.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use surmise_network::{Policy, Verdict};

use crate::boundary::Boundary;
use crate::error::StateError;
use crate::exit::Exit;
use crate::maker::Maker;
use crate::seal;

const RECORD: &str = "domain.json";
const EXIT: &str = "exit";
const VERSION: u32 = 2;

/// How a domain was started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The domain's name.
    pub name: String,
    /// Program and arguments. Empty when the machine failed before the record was on disk.
    pub command: Vec<OsString>,
    /// Where it was started.
    pub directory: PathBuf,
    /// When, in seconds since 1970.
    pub created: u64,
    /// Who made it; `None` where that was not written down.
    pub maker: Option<Maker>,
    /// What crosses its boundary: whom it reaches. The rest of a boundary is a command's, not the
    /// domain's, and not kept.
    pub boundary: Boundary,
    /// Directories that are those outside, read-only: what was read there is not known.
    pub native: Vec<PathBuf>,
    /// Which of them it was to have.
    pub native_kind: Native,
}

/// Which directories of programs, libraries and headers are those outside, read-only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Native {
    /// None.
    None,
    /// Those that the caller can change no more outside: root has none.
    #[default]
    Unchangeable,
    /// Also those that the caller could change outside, but for what is in `/usr/local`.
    All,
}

impl Native {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// A [`Record`] as it is on disk.
#[derive(Serialize, Deserialize)]
struct Stored {
    version: u32,
    name: String,
    command: Vec<Text>,
    directory: Text,
    created: u64,
    net: Net,
    #[serde(default)]
    sockets: Vec<Text>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    native: Vec<Text>,
    #[serde(default, skip_serializing_if = "Native::is_default")]
    native_kind: Native,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    maker: Option<Maker>,
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Net {
    /// Of format 1.
    Word(Verdict),
    Policy(Policy),
}

/// Only enough to tell which format a record has.
#[derive(Deserialize)]
struct Versioned {
    version: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Text {
    Unicode(String),
    Bytes(Vec<u8>),
}

impl Record {
    /// Of a domain that this process makes now.
    pub fn new(name: &str, command: &[OsString], directory: &Path, boundary: &Boundary) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        Self {
            name: name.into(),
            command: command.to_vec(),
            directory: directory.into(),
            // A clock before 1970 is wrong anyway.
            created: now.map(|since| since.as_secs()).unwrap_or_default(),
            maker: Some(Maker::this()),
            boundary: boundary.kept(),
            native: Vec::new(),
            native_kind: Native::default(),
        }
    }

    /// Reads the record of the domain `name` kept in `state`.
    ///
    /// A missing or torn record is no error: a machine may fail in a domain's first moments, and
    /// what is left must still be listed, so that it can be aborted.
    pub(crate) fn read(state: &Path, name: &str) -> Result<Self, StateError> {
        let path = state.join(RECORD);
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(StateError::at(&path)(error)),
        };
        if let Ok(Versioned { version }) = serde_json::from_slice(&bytes)
            && version > VERSION
            // A damaged one says anything; it can be listed and aborted all the same.
            && !seal::is_record_damaged(state, RECORD)
        {
            let known = VERSION;
            return Err(StateError::Version {
                path,
                version,
                known,
            });
        }
        Ok(match serde_json::from_slice::<Stored>(&bytes) {
            Ok(stored) => stored.into(),
            Err(_) => Self::lost(state, name)?,
        })
    }

    /// What is known of a domain without its record.
    fn lost(state: &Path, name: &str) -> Result<Self, StateError> {
        let metadata = fs::symlink_metadata(state).map_err(StateError::at(state))?;
        Ok(Self {
            name: name.into(),
            command: Vec::new(),
            directory: PathBuf::from("/"),
            created: u64::try_from(metadata.ctime()).unwrap_or_default(),
            maker: None,
            boundary: Boundary::default(),
            native: Vec::new(),
            native_kind: Native::default(),
        })
    }

    /// Writes it down in the domain's directory `state`.
    ///
    /// # Errors
    /// When the disk fails or is full.
    pub fn write(&self, state: &Path) -> Result<(), StateError> {
        let stored = Stored {
            version: VERSION,
            name: self.name.clone(),
            command: self.command.iter().cloned().map(Text::from).collect(),
            directory: Text::from(self.directory.clone().into_os_string()),
            created: self.created,
            net: Net::Policy(self.boundary.net.clone()),
            sockets: texts(&self.boundary.sockets),
            native: texts(&self.native),
            native_kind: self.native_kind,
            maker: self.maker.clone(),
        };
        let mut json = serde_json::to_vec(&stored).expect("a record is plain data");
        json.push(b'\n');
        replace(state, RECORD, &json)
    }
}

/// How the domain's last command ended; `None` when it did not end, or nobody saw it.
pub(crate) fn read_exit(state: &Path) -> Option<Exit> {
    serde_json::from_slice(&fs::read(state.join(EXIT)).ok()?).ok()
}

/// Writes down in the domain's directory `state` how its last command ended.
///
/// # Errors
/// When the disk fails or is full.
pub fn write_exit(state: &Path, exit: Exit) -> Result<(), StateError> {
    let json = serde_json::to_vec(&exit).expect("an exit is plain data");
    replace(state, EXIT, &json)
}

/// Forgets how the last command ended, because another is about to start.
///
/// # Errors
/// When it cannot be removed.
pub fn clear_exit(state: &Path) -> Result<(), StateError> {
    let path = state.join(EXIT);
    match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(StateError::at(&path)(error)),
        _ => Ok(()),
    }
}

/// Nobody sees a part of the content: a reader finds the old file or the new one. Not durably: to
/// wait for the disk would make every run longer, and what is kept is made durable then
/// ([`Domain::make_durable`](crate::Domain::make_durable)).
fn replace(state: &Path, name: &str, content: &[u8]) -> Result<(), StateError> {
    let path = state.join(name);
    let unfinished = state.join(format!("{name}.new"));
    let write = || -> io::Result<()> {
        let mut file = File::create(&unfinished)?;
        file.write_all(content)?;
        fs::rename(&unfinished, &path)
    };
    write().map_err(|error| {
        // It would take room on a full disk. The first error is the one to tell.
        let _ = fs::remove_file(&unfinished);
        StateError::at(&path)(error)
    })
}

impl From<Stored> for Record {
    fn from(stored: Stored) -> Self {
        Self {
            name: stored.name,
            command: stored.command.into_iter().map(OsString::from).collect(),
            directory: OsString::from(stored.directory).into(),
            created: stored.created,
            maker: stored.maker,
            boundary: Boundary {
                net: match stored.net {
                    Net::Policy(policy) => policy,
                    Net::Word(default) => Policy {
                        default,
                        rules: Vec::new(),
                    },
                },
                sockets: paths(stored.sockets),
                ..Boundary::default()
            },
            native: paths(stored.native),
            native_kind: stored.native_kind,
        }
    }
}

fn texts(paths: &[PathBuf]) -> Vec<Text> {
    let texts = paths
        .iter()
        .map(|path| path.clone().into_os_string().into());
    texts.collect()
}

fn paths(texts: Vec<Text>) -> Vec<PathBuf> {
    let paths = texts.into_iter().map(OsString::from);
    paths.map(PathBuf::from).collect()
}

impl From<OsString> for Text {
    fn from(string: OsString) -> Self {
        string.into_string().map_or_else(
            |string| Self::Bytes(string.as_bytes().to_vec()),
            Self::Unicode,
        )
    }
}

impl From<Text> for OsString {
    fn from(text: Text) -> Self {
        match text {
            Text::Unicode(string) => string.into(),
            Text::Bytes(bytes) => Self::from_vec(bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use surmise_network::Rule;

    fn record() -> Record {
        Record {
            name: "t-1".into(),
            command: vec!["sh".into(), OsString::from_vec(vec![0xff, b'a']), "".into()],
            directory: OsString::from_vec(b"/tmp/\xfe".to_vec()).into(),
            created: 1_700_000_000,
            maker: Some(Maker {
                label: Some("ci".into()),
                login: Some(1000),
                ..Maker::default()
            }),
            boundary: Boundary {
                net: Policy {
                    default: Verdict::Allow,
                    rules: vec![Rule {
                        host: "example.org".parse().expect("a host"),
                        port: Some(80),
                        verdict: Verdict::Hold,
                    }],
                },
                sockets: vec!["/run/agent".into()],
                ..Boundary::default()
            },
            native: vec!["/usr/lib".into()],
            native_kind: Native::All,
        }
    }

    #[test]
    fn a_record_reads_back_as_it_was_written() {
        let state = tempfile::tempdir().expect("a directory");
        record().write(state.path()).expect("write");
        assert_eq!(Record::read(state.path(), "t-1").expect("read"), record());
    }

    #[test]
    fn a_record_of_format_1_is_read() {
        let state = tempfile::tempdir().expect("a directory");
        let old = "{\"version\":1,\"name\":\"t-1\",\"command\":[\"sh\"],\"directory\":\"/\",\
                   \"created\":1,\"net\":\"deny\"}";
        fs::write(state.path().join("domain.json"), old).expect("write");
        let record = Record::read(state.path(), "t-1").expect("read");
        assert_eq!(record.boundary, Boundary::default());
        assert_eq!(record.maker, None);
        assert!(record.native.is_empty());
    }

    #[test]
    fn the_format_is_as_documented() {
        let state = tempfile::tempdir().expect("a directory");
        record().write(state.path()).expect("write");
        let json = fs::read_to_string(state.path().join("domain.json")).expect("read");
        assert_eq!(
            json,
            "{\"version\":2,\"name\":\"t-1\",\"command\":[\"sh\",[255,97],\"\"],\
             \"directory\":[47,116,109,112,47,254],\"created\":1700000000,\
             \"net\":{\"default\":\"allow\",\"rules\":[{\"host\":\"example.org\",\"port\":80,\
             \"verdict\":\"hold\"}]},\"sockets\":[\"/run/agent\"],\"native\":[\"/usr/lib\"],\
             \"native_kind\":\"all\",\"maker\":{\"label\":\"ci\",\"login\":1000}}\n"
        );
        write_exit(state.path(), Exit::Signaled(9)).expect("write");
        let json = fs::read_to_string(state.path().join("exit")).expect("read");
        assert_eq!(json, "{\"signaled\":9}");
        assert_eq!(read_exit(state.path()), Some(Exit::Signaled(9)));
    }

    #[test]
    fn a_torn_record_is_a_lost_one_and_a_newer_one_is_refused() {
        let state = tempfile::tempdir().expect("a directory");
        let path = state.path().join("domain.json");
        for torn in ["", "{\"version\":1,\"na"] {
            fs::write(&path, torn).expect("write");
            let lost = Record::read(state.path(), "t-1").expect("a lost record");
            assert_eq!((lost.name.as_str(), lost.command.len()), ("t-1", 0));
        }
        fs::write(&path, "{\"version\":3,\"colour\":1}").expect("write");
        let error = Record::read(state.path(), "t-1").expect_err("a newer format");
        assert!(matches!(error, StateError::Version { version: 3, .. }));
    }
}
