//! Requests in quick succession, which one thread is to serve beside its caller, and what has to go on meanwhile.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use surmise_fuse::{Attributes, Caller, Entry, FileSystem, KnownAttributes, Lookup, ROOT, Session};

/// There once requests were served beside their caller.
const ENOUGH: &str = "enough";
/// Its look-up is not answered before that of [`MEETS`] has come.
const WAITS: &str = "waits";
const MEETS: &str = "meets";

/// Requests between two looks whether they were enough.
const ROUND: usize = 200;

/// A root without entries, but for one.
#[derive(Default)]
pub struct Names<'s> {
    /// Made when [`WAITS`] is looked up.
    sign: PathBuf,
    pub session: OnceLock<&'s Session>,
    met: Mutex<bool>,
    meeting: Condvar,
}

impl Names<'_> {
    pub fn new(sign: PathBuf) -> Self {
        Self {
            sign,
            ..Self::default()
        }
    }
}

impl FileSystem for Names<'_> {
    fn lookup(&self, _: Caller, _: u64, name: &OsStr) -> io::Result<Lookup> {
        let is_enough = || {
            self.session
                .get()
                .is_some_and(|session| session.served_beside() > 0)
        };
        match name.to_str() {
            Some(ENOUGH) if is_enough() => {
                return Ok(Lookup::Found(Entry {
                    node: ROOT + 1,
                    generation: 0,
                    attributes: known(ROOT + 1).attributes,
                    entry_lifetime: Duration::ZERO,
                    attributes_lifetime: Duration::MAX,
                }));
            }
            Some(WAITS) => {
                fs::write(&self.sign, "").unwrap();
                let met = self.met.lock().unwrap();
                let (met, _) = self
                    .meeting
                    .wait_timeout_while(met, crate::PATIENCE, |met| !*met)
                    .unwrap();
                if !*met {
                    return Err(Errno::TIMEDOUT.into());
                }
            }
            Some(MEETS) => {
                *self.met.lock().unwrap() = true;
                self.meeting.notify_all();
            }
            _ => {}
        }
        Ok(Lookup::Absent {
            lifetime: Duration::ZERO,
        })
    }

    fn getattr(&self, _: Caller, node: u64, _: Option<u64>) -> io::Result<KnownAttributes> {
        Ok(known(node))
    }
}

fn known(node: u64) -> KnownAttributes {
    KnownAttributes {
        attributes: Attributes {
            ino: node,
            mode: 0o040_755,
            links: 2,
            ..Attributes::default()
        },
        lifetime: Duration::MAX,
    }
}

/// What the client does.
pub fn exercise(root: &Path, sign: &Path) {
    let begun = Instant::now();
    for round in 0.. {
        for number in 0..ROUND {
            let absent = fs::metadata(root.join(format!("{round}-{number}"))).unwrap_err();
            assert_eq!(absent.kind(), io::ErrorKind::NotFound);
        }
        if fs::metadata(root.join(ENOUGH)).is_ok() {
            break;
        }
        assert!(
            begun.elapsed() < crate::PATIENCE / 2,
            "never beside its caller"
        );
    }
    // Whoever serves: one request's wait keeps no other one from its answer, though one thread alone may take both.
    thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..ROUND {
                let _ = fs::metadata(root.join(number.to_string()));
            }
            let absent = fs::metadata(root.join(WAITS)).unwrap_err();
            assert_eq!(absent.kind(), io::ErrorKind::NotFound);
        });
        while !sign.exists() {
            assert!(begun.elapsed() < crate::PATIENCE, "nobody looks it up");
            thread::sleep(Duration::from_micros(100));
        }
        let _ = fs::metadata(root.join(MEETS));
    });
}
