//! S56 and S57: losses of power of the server.
//!
//! The export is on a disk that records what it is written (root). Two mounts change it, each in a directory of its own,
//! and look at what the other has done; the server is killed and ended meanwhile. The disk is put into states that a
//! loss of power could have left, and on each of them a server starts.

mod worker;

use std::fs::{self, File};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use surmise_testkit::{
    BlockLog, Facets, PowerLoss, Scratch, TreeSnapshot, differences, surmise_binary, tell,
};

use super::{Far, Mount, Server, process_with};
use crate::setting::Setting;
use worker::Worker;

const DISK_BYTES: usize = 64 << 20;

/// States from one recording, where many are wanted: the next ones are of other changes.
const BATCH: usize = 100;

/// The mounts, and the directories of the export in which they work.
const NAMES: [&str; 2] = ["one", "two"];

/// How many states are tried, unless SURMISE_STATES says so.
const STATES: usize = 20;

/// How many times a worker goes on for a while.
const TURNS: usize = 60;

/// Before which turns the server is killed, or ended.
const ENDS: [(usize, Signal); 3] = [(20, Signal::KILL), (35, Signal::KILL), (50, Signal::TERM)];

/// How long a server may take to begin or to end.
const SERVER_MAX: Duration = Duration::from_secs(30);

/// What losses of power left.
#[derive(Debug, Default)]
struct Counts {
    changes: usize,
    promises: usize,
    flushes: usize,
    states: usize,
    /// The log had something that was not in the directory.
    redone: usize,
    wrong: usize,
}

#[test]
fn s56_what_was_promised_outlives_a_loss_of_power() {
    let test = "far::power::s56_what_was_promised_outlives_a_loss_of_power";
    let states = number("SURMISE_STATES").unwrap_or(STATES as u64) as usize;
    let limit = Duration::from_secs(300 + 3 * states as u64);
    BlockLog::with(test, DISK_BYTES, limit, |disk| {
        let mut counts = Counts::default();
        while counts.states < states {
            let seed = number("SURMISE_SEED").unwrap_or_else(|| fastrand::u64(..));
            tell(format_args!("SURMISE_SEED={seed}"));
            let setting = Setting {
                scratch: Scratch::new(),
                user: None,
            };
            let far = Far::new(&setting).expect("root can mount");
            let (workers, parts) = record(disk, &far, seed, &mut counts);
            let last = PowerLoss {
                flushes: parts - 1,
                seed: None,
            };
            let some = BATCH.min(states - counts.states) - 1;
            for loss in PowerLoss::spread(parts, some).chain([last]) {
                counts.states += 1;
                if let Err(wrong) = lose_power(disk, loss, &workers, &mut counts) {
                    counts.wrong += 1;
                    tell(format_args!("seed {seed}, {loss:?}: {wrong}"));
                }
            }
        }
        tell(format_args!("losses of power of a server: {counts:?}"));
        assert_eq!(counts.wrong, 0);
        assert!(counts.redone > 0);
    });
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().expect("a number"))
}

/// Two clients work while the disk is recorded. Returns what they did, and how many parts the recording is cut into by its
/// flushes.
fn record(disk: &BlockLog, far: &Far<'_>, seed: u64, counts: &mut Counts) -> ([Worker; 2], usize) {
    disk.make_ext4();
    let mounted = disk.mount();
    let export = mounted.path().join("export");
    for name in NAMES {
        let directory = export.join(name).join("a");
        fs::create_dir_all(&directory).expect("make");
        fs::write(directory.join("b"), name).expect("write");
        fs::hard_link(directory.join("b"), export.join(name).join("c")).expect("link");
    }
    rustix::fs::syncfs(File::open(mounted.path()).expect("open")).expect("sync");
    disk.record();
    let source = format!("near:{}", export.display());
    let mounts = NAMES.map(|name| far.mount_from(&source, name));
    let mut workers = [0, 1].map(|at| Worker::new(NAMES[at], &mounts[at].path(), seed + at as u64));
    work(disk, &export, &mounts, &mut workers);
    let parts = disk.stop().len();
    let errors = fs::read_to_string(export.join(".surmise/errors")).unwrap_or_default();
    assert_eq!(errors, "");
    for worker in &mut workers {
        worker.let_go();
        counts.changes += worker.changes();
        counts.promises += worker.promises();
    }
    counts.flushes += parts - 1;
    drop(mounts);
    end_server(&export, Signal::KILL);
    (workers, parts)
}

/// The clients work by turns.
fn work(disk: &BlockLog, export: &Path, mounts: &[Mount<'_>; 2], workers: &mut [Worker; 2]) {
    let flushes = || disk.flushes();
    for turn in 0..TURNS {
        let end = ENDS.iter().find(|(before, _)| *before == turn);
        if let Some((_, signal)) = end {
            // The next server tells of a file as missing that lost its name before this one began, and was closed since.
            workers.iter_mut().for_each(Worker::let_go);
            end_server(export, *signal);
        }
        let at = turn % 2;
        let worker = &mut workers[at];
        for _ in 0..worker.random.usize(1..12) {
            worker.change();
        }
        match worker.random.u8(0..5) {
            // What was changed by its leases, and is sent to the next server, is seen as soon as that gives leases.
            _ if end.is_some() => worker.is_seen(&mounts[1 - at].path(), flushes),
            0 | 1 => worker.sync(flushes),
            2 => worker.is_seen(&mounts[1 - at].path(), flushes),
            _ => {}
        }
    }
    for worker in workers {
        worker.sync(flushes);
    }
}

/// Ends the server of an export in this way, and waits for that. The next one is started by whom it serves.
fn end_server(export: &Path, signal: Signal) {
    let words = ["serve".as_ref(), export.as_os_str()];
    let number = process_with(&words).expect("a server");
    let process = Pid::from_raw(number).expect("a process");
    kill_process(process, signal).expect("it runs");
    let deadline = Instant::now() + SERVER_MAX;
    while process_with(&words) == Some(number) {
        assert!(Instant::now() < deadline, "the server does not end");
        thread::sleep(Duration::from_millis(2));
    }
}

/// Loses power and starts a server on what is left.
fn lose_power(
    disk: &BlockLog,
    loss: PowerLoss,
    workers: &[Worker; 2],
    counts: &mut Counts,
) -> Result<(), String> {
    disk.lose_power(loss);
    let mounted = disk.mount();
    let export = mounted.path().join("export");
    let look = || NAMES.map(|name| TreeSnapshot::of(export.join(name)));
    let before = look();
    let _server = serve(&export)?;
    let found = look();
    let is_same = |at: usize| differences(&before[at], &found[at], Facets::EXACT).is_empty();
    counts.redone += usize::from(!(is_same(0) && is_same(1)));
    for (worker, found) in workers.iter().zip(&found) {
        worker.check(found, loss.flushes)?;
    }
    let lost = fs::read_dir(export.join(".surmise/lost")).expect("list it");
    match lost.count() {
        0 => Ok(()),
        lost => Err(format!("{lost} files are in .surmise/lost")),
    }
}

/// A server that has begun, and has nothing to say.
fn serve(export: &Path) -> Result<Server, String> {
    let errors = tempfile::NamedTempFile::new().expect("a file");
    let server = Command::new(surmise_binary())
        .args(["serve", "--lease", "1"])
        .arg(export)
        .stderr(errors.reopen().expect("open it"))
        .spawn()
        .expect("start the server");
    let mut server = Server(server);
    let said = || fs::read_to_string(errors.path()).expect("read it");
    let deadline = Instant::now() + SERVER_MAX;
    while UnixStream::connect(export.join(".surmise/socket")).is_err() {
        if let Some(status) = server.0.try_wait().expect("wait") {
            return Err(format!("the server does not start: {status}\n{}", said()));
        }
        if Instant::now() > deadline {
            return Err(format!("the server does not begin\n{}", said()));
        }
        thread::sleep(Duration::from_millis(2));
    }
    let said = said();
    // The line that it serves may be half there.
    let (lines, _) = said.rsplit_once('\n').unwrap_or_default();
    match lines
        .lines()
        .find(|line| !line.starts_with("surmise: serving "))
    {
        None => Ok(server),
        Some(line) => Err(format!("the server says: {line}")),
    }
}
