//! A row that tells how fast a program is that calls fsync(2): as it is, with calls that do nothing
//! (eatmydata), or under external synchrony. Each sample has a file system of its own, made afresh on a disk
//! in memory whose flushes take as long as the row says.

mod postgres;
pub mod posts;
pub mod served;
pub mod workload;

use std::env;
use std::ffi::OsString;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use surmise_testkit::{DelayedDisk, is_installed};

use crate::measure::{Sample, run};
use crate::place::{Place, about, succeed};
use crate::run::{Measured, Side};
use served::Served;
use workload::{PYTHON, SQLITE, Workload};

/// One workload on one disk, set up in two ways.
pub struct Synced {
    /// How long the disk takes to flush.
    pub flush: Duration,
    /// What is done.
    pub work: Work,
    /// What of it is compared.
    pub value: Value,
    /// Under Surmise.
    pub ours: Setup,
    /// With whom that is compared.
    pub peer: Setup,
}

/// What is done.
#[derive(Clone, Copy)]
pub enum Work {
    /// By this program.
    Own(Workload),
    /// Single insertions into a database of SQLite, with a rollback journal.
    Sqlite,
    /// The same, with a write-ahead log.
    SqliteAhead,
    /// Mail and news, as PostMark has them: so many files, and as many transactions.
    Postmark,
    /// To unpack Lua and build it.
    UntarMake,
    /// What a server and its clients do; they tell the value.
    Served(Served),
}

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// The time of all; both sides do the same.
    Time,
    /// Operations a second; one that is slow may do fewer.
    Rate,
}

/// One side of a row.
#[derive(Clone, Copy)]
pub struct Setup {
    /// How ext4 is mounted; its defaults where this is empty.
    pub mount: &'static str,
    /// What the program runs under.
    pub under: Under,
    /// How many operations it does.
    pub count: u32,
}

/// What a program runs under.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Under {
    /// Nothing: its syncs are real.
    Nothing,
    /// A library that has syncs do nothing.
    Eatmydata,
    /// External synchrony.
    Sync,
    /// The same, and each sync has a commit made at once.
    Eager,
    /// External synchrony, and nothing elsewhere can be changed by name.
    Confined,
}

/// How large the disk is. It takes memory for what is ever written.
const DISK_BYTES: u64 = 1 << 30;

/// Tells this program that it has run itself with mounts of its own.
const OWN_MOUNTS: &str = "SURMISE_BENCH_OWN_MOUNTS";

/// Sees to it that what is mounted is seen by this process and its children alone, and goes with them. It
/// becomes another process for that. Returns why that cannot be.
pub fn have_own_mounts() -> Result<(), String> {
    if env::var_os(OWN_MOUNTS).is_some() {
        return Ok(());
    }
    if !rustix::process::geteuid().is_root() {
        return Err("only root can mount a disk".to_owned());
    }
    let own = env::current_exe().map_err(|error| format!("the path of this program: {error}"))?;
    let error = Command::new("unshare")
        .args(["--mount", "--"])
        .arg(own)
        .args(env::args_os().skip(1))
        .env(OWN_MOUNTS, "1")
        .exec();
    Err(format!("unshare: {error}"))
}

impl Synced {
    /// The program that it needs and that is not installed.
    pub fn missing_program(&self) -> Option<&'static str> {
        let of_work = match self.work {
            Work::Own(_) => None,
            Work::Sqlite | Work::SqliteAhead => Some(PYTHON),
            Work::Postmark => Some("postmark"),
            Work::UntarMake => Some("make"),
            // Its programs lie elsewhere.
            Work::Served(served) => return served.missing_program(),
        };
        let eatmydata = (self.peer.under == Under::Eatmydata).then_some("eatmydata");
        let mut needed = of_work.into_iter().chain(eatmydata);
        needed.find(|program| !is_installed(program))
    }
}

/// A row whose disk is there.
pub struct Ready<'a> {
    synced: &'a Synced,
    /// What is unpacked.
    archive: Option<PathBuf>,
    disk: DelayedDisk,
}

impl<'a> Ready<'a> {
    /// Makes the disk.
    pub fn new(place: &Place, synced: &'a Synced) -> Result<Self, String> {
        let at = place.bench().join("disk");
        let archive = match synced.work {
            Work::UntarMake => Some(archive(place)?),
            _ => None,
        };
        let words = place.own(&[
            "disk".into(),
            at.join("served").into(),
            DISK_BYTES.to_string().into(),
            synced.flush.as_micros().to_string().into(),
        ]);
        let mut server = Command::new(&words[0]);
        server.args(&words[1..]).current_dir("/");
        Ok(Self {
            synced,
            archive,
            disk: DelayedDisk::start(&at, &mut server)?,
        })
    }

    fn measure(&self, place: &Place, setup: Setup) -> Result<Sample, String> {
        let mounted = self.disk.fresh_ext4(setup.mount)?;
        let directory = mounted.path().join("work");
        fs::create_dir(&directory).map_err(|error| about("create", &directory, &error))?;
        if let Work::Postmark = self.synced.work {
            workload::write_postmark(&directory, setup.count)?;
        }
        // What the file system's making left to be written is not written during the sample.
        rustix::fs::sync();
        if let Work::Served(served) = self.synced.work {
            return served.sample(place, &directory, setup);
        }
        let volume = format!(
            "{}:{}",
            self.disk.image().display(),
            mounted.path().display()
        );
        let mut options = Vec::new();
        if setup.under == Under::Confined {
            options.extend(["--volume", &volume]);
            // It is mounted for the command alone, over a directory that the command begins in.
            drop(mounted);
            fs::create_dir_all(&directory).map_err(|error| about("create", &directory, &error))?;
        }
        let line = setup
            .under
            .around(place, &options, self.words(place, setup.count));
        let cost = run(&line, place, &directory)?.cost;
        Ok(Sample {
            value: match self.synced.value {
                Value::Time => cost.wall_ms,
                Value::Rate => f64::from(setup.count) * 1e3 / cost.wall_ms,
            },
            user_ms: cost.user_ms,
            system_ms: cost.system_ms,
        })
    }

    fn words(&self, place: &Place, count: u32) -> Vec<OsString> {
        match self.synced.work {
            Work::Own(workload) => {
                let workload = serde_json::to_string(&workload).expect("plain data");
                place.own(&["write".into(), workload.into(), count.to_string().into()])
            }
            Work::Sqlite => sqlite(count, "DELETE"),
            Work::SqliteAhead => sqlite(count, "WAL"),
            Work::Postmark => ["postmark", workload::POSTMARK_FILE]
                .map(OsString::from)
                .to_vec(),
            Work::Served(_) => unreachable!("a server is started otherwise"),
            Work::UntarMake => {
                let script = "tar --extract --file \"$0\" && make --silent -j2 -C lua5.4 generic";
                let archive = self.archive.clone().unwrap_or_default();
                vec!["sh".into(), "-c".into(), script.into(), archive.into()]
            }
        }
    }
}

fn sqlite(count: u32, journal: &str) -> Vec<OsString> {
    [PYTHON, "-c", SQLITE, &count.to_string(), journal]
        .map(OsString::from)
        .to_vec()
}

impl Under {
    /// `options`: of external synchrony.
    fn around(self, place: &Place, options: &[&str], command: Vec<OsString>) -> Vec<OsString> {
        match self {
            Self::Nothing => command,
            Self::Eatmydata => [OsString::from("eatmydata"), "--".into()]
                .into_iter()
                .chain(command)
                .collect(),
            Self::Sync => place.synced(options, &command),
            Self::Eager => place.synced(&[&["--eager"], options].concat(), &command),
            Self::Confined => {
                let confined: &[&str] = &["--elsewhere", "read-only"];
                place.synced(&[confined, options].concat(), &command)
            }
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Nothing => "real fsync",
            Self::Eatmydata => "eatmydata",
            Self::Sync => "surmise sync",
            Self::Eager => "surmise sync --eager",
            Self::Confined => "surmise sync --elsewhere read-only",
        }
    }
}

impl Measured for Ready<'_> {
    fn unit(&self) -> &'static str {
        match (self.synced.work, self.synced.value) {
            (Work::Served(served), _) => served.unit(),
            (_, Value::Time) => "ms",
            (_, Value::Rate) => "1/s",
        }
    }

    fn peer_name(&self) -> String {
        let peer = self.synced.peer;
        let mount = match peer.mount {
            "" => "defaults",
            options => options,
        };
        let flush = self.synced.flush.as_millis();
        let name = peer.under.name();
        format!("{name}, ext4 {mount}; loop device on memory, {flush} ms a flush")
    }

    fn sample(&mut self, place: &Place, side: Side) -> Result<Sample, String> {
        let setup = match side {
            Side::Ours => self.synced.ours,
            Side::Peer => self.synced.peer,
        };
        self.measure(place, setup)
    }
}

/// An archive of Lua's source.
fn archive(place: &Place) -> Result<PathBuf, String> {
    let source = place.source("lua5.4")?;
    let parent = source.parent().ok_or("the source lies in no directory")?;
    place.made("lua5.4.tar", |at| {
        let mut tar = Command::new("tar");
        tar.arg("--create").arg("--file").arg(at);
        succeed(tar.arg("--directory").arg(parent).arg("lua5.4"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_side_runs_under_what_it_says() {
        let scratch = tempfile::tempdir().expect("a directory");
        let place = Place::at(scratch.path());
        let line = |under: Under| {
            let line = under.around(&place, &[], vec!["true".into()]);
            line.join(" ".as_ref()).into_string().expect("plain words")
        };
        assert_eq!(line(Under::Nothing), "true");
        assert_eq!(line(Under::Eatmydata), "eatmydata -- true");
        assert_eq!(line(Under::Sync), "surmise sync -- true");
        assert_eq!(line(Under::Eager), "surmise sync --eager -- true");
        let confined = line(Under::Confined);
        assert_eq!(confined, "surmise sync --elsewhere read-only -- true");
    }
}
