//! S23: a running domain is committed, and somebody who takes part is killed: the real tree becomes
//! what the domain was at one moment, by that commit or by the next.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use surmise_kept::{Aborted, Status};
use surmise_testkit::{Outcome, skip, watchdog};

use crate::Test;
use crate::setting::{Roles, Setting};
use crate::strike::{Census, Dice, Victim, rounds, strike};
use crate::writer::{self, Listener};

pub const TESTS: &[Test] = &[
    ("what_is_heard_outside_is_real_already", heard),
    ("control_killed_in_a_commit", |setting| {
        killed(setting, Victim::Control);
    }),
    ("the_view_killed_in_a_commit", |setting| {
        killed(setting, Victim::View);
    }),
    ("the_relay_process_killed_in_a_commit", |setting| {
        killed(setting, Victim::Relay);
    }),
    ("pid_1_killed_in_a_commit", |setting| {
        killed(setting, Victim::Init);
    }),
    ("the_committer_killed", |setting| {
        killed(setting, Victim::Committer);
    }),
    ("the_tracer_killed_in_a_commit", |setting| {
        killed(setting, Victim::Tracer);
    }),
    ("who_commits_killed", |setting| {
        killed(setting, Victim::Client);
    }),
    ("who_commits_asks_to_stop", asked_to_stop),
    ("aborted_in_a_commit", aborted),
];

/// A running domain whose command changes files for ever.
pub struct Restless<'scope> {
    running: ScopedJoinHandle<'scope, Outcome>,
}

/// So many changes wait for a commit.
const MANY: usize = 150;

impl<'scope> Restless<'scope> {
    /// In a thread of its own; goes on where the real tree is. Of its steps every `every`th sends.
    pub fn start<'env: 'scope>(
        scope: &'scope thread::Scope<'scope, 'env>,
        setting: &'env Setting,
        listener: &Listener,
        every: u64,
    ) -> Self {
        let program = writer::install(setting);
        let program = program.into_os_string().into_string().expect("Unicode");
        let (port, every) = (listener.port.to_string(), every.to_string());
        let running = scope.spawn(move || {
            let words = [
                "--name",
                "t",
                "--hold-port",
                &port,
                "--",
                "python3",
                &program,
                &port,
                &every,
            ];
            setting.run_by(&[], &words).seconds(60).outcome()
        });
        Self { running }
    }

    /// Until much waits for a commit.
    pub fn work(&self, setting: &Setting) {
        watchdog::until("much is changed", 3 * watchdog::LIMIT, || {
            assert!(!self.running.is_finished(), "it has ended");
            let domain = setting.root().open("t");
            let changes = domain.ok().and_then(|domain| domain.changes().ok());
            changes.is_some_and(|changes| changes.len() >= MANY)
        });
    }

    pub fn is_over(&self) -> bool {
        self.running.is_finished()
    }

    pub fn outcome(self) -> Outcome {
        self.running.join().expect("an outcome")
    }

    /// Kills it, and throws away what is not committed.
    pub fn end(self, setting: &Setting) {
        let census = strike(setting, Victim::Control, Duration::ZERO, &mut || true);
        census.expect("it runs").end(setting);
        self.outcome();
        let domain = setting.root().open("t").expect("kept");
        domain.abort().expect("abort");
    }
}

pub fn commit(setting: &Setting) -> Outcome {
    setting
        .run_by(&[], &["--commit", "t"])
        .seconds(30)
        .outcome()
}

pub fn has_python() -> bool {
    let found = Command::new("python3").arg("-V").output().is_ok();
    if !found {
        skip("there is no python3");
    }
    found
}

/// Twenty commits in a row of a domain that goes on.
fn heard(setting: &Setting) {
    if !has_python() {
        return;
    }
    let work = setting.scratch.work();
    let listener = Listener::start(work.clone());
    thread::scope(|scope| {
        let domain = Restless::start(scope, setting, &listener, 4);
        domain.work(setting);
        let mut before = 0;
        for _ in 0..20 {
            commit(setting)
                .assert_code(0)
                .assert_stdout_contains("goes on: true");
            let now = writer::step(&work);
            assert!(now >= before, "{now} after {before}");
            before = now;
        }
        domain.end(setting);
    });
    assert!(listener.check() > 0, "nothing was held");
    no_leftovers(&work);
}

fn killed(setting: &Setting, victim: Victim) {
    if !has_python() {
        return;
    }
    let work = setting.scratch.work();
    let listener = Listener::start(work.clone());
    let mut dice = Dice(0xc0 + u64::from(setting.user()));
    let mut usual = Duration::from_millis(100);
    let (mut longest, mut hits, mut finished) = (Duration::ZERO, 0, 0);
    let rounds = rounds(6);
    for _ in 0..rounds {
        let before = writer::step(&work);
        thread::scope(|scope| {
            let domain = Restless::start(scope, setting, &listener, 25);
            domain.work(setting);
            let started = Instant::now();
            let client = scope.spawn(|| commit(setting));
            let pause = dice.up_to(usual);
            let census = strike_in_commit(setting, victim, pause, &|| !client.is_finished());
            let told = client.join().expect("an outcome");
            let Some(census) = census else {
                usual = (usual + started.elapsed()) / 2;
                goes_on(setting, domain, &told, before);
                return;
            };
            hits += 1;
            if victim == Victim::Client {
                client_is_gone(setting, domain, before);
                return;
            }
            if [Victim::Tracer, Victim::Committer].contains(&victim) && !ends(&domain) {
                // It was no longer needed, or nothing was committed.
                goes_on_uncommitted(setting, domain, before);
                return;
            }
            longest = longest.max(census.end(setting));
            domain.outcome();
            finished += usize::from(finish(setting, &told, before));
        });
        listener.check();
    }
    eprintln!(
        "{hits} of {rounds} kills of {victim:?} hit a commit as user {}: longest end {longest:?}, \
         {finished} finished by the next",
        setting.user()
    );
}

/// Those who live for a commit only are waited for.
fn strike_in_commit(
    setting: &Setting,
    victim: Victim,
    pause: Duration,
    meanwhile: &dyn Fn() -> bool,
) -> Option<Census> {
    let for_a_commit = [Victim::Committer, Victim::Tracer, Victim::Client];
    if for_a_commit.contains(&victim) {
        return strike(setting, victim, pause / 2, &mut || meanwhile());
    }
    thread::sleep(pause);
    strike(setting, victim, Duration::ZERO, &mut || true)
}

/// Whether the domain ends within a while.
fn ends(domain: &Restless<'_>) -> bool {
    let start = Instant::now();
    while !domain.is_over() && start.elapsed() < Duration::from_secs(2) {
        thread::sleep(Duration::from_millis(10));
    }
    domain.is_over()
}

/// After the end: what the commit did is whole or can be finished; returns whether it had to be.
/// `told`: what became of the commit that was hit.
fn finish(setting: &Setting, told: &Outcome, before: u64) -> bool {
    let work = setting.scratch.work();
    let Ok(domain) = setting.root().open("t") else {
        // Who committed saw the end, and did what was left to do.
        told.assert_code(0).assert_stdout_contains("goes on: false");
        assert!(writer::step(&work) > before);
        no_leftovers(&work);
        return true;
    };
    let status = domain.status();
    if status == Status::Unsent {
        // Who committed saw the end, and did what was left; but for output that was being sent at the kill (S51).
        told.assert_code(0).assert_stdout_contains("unsent: ");
        assert!(writer::step(&work) > before);
        assert_eq!(domain.abort().expect("abort"), Aborted::Unsent);
        no_leftovers(&work);
        return true;
    }
    let pending = status == Status::Committing;
    if !pending {
        assert!(matches!(status, Status::Interrupted), "{status:?}");
        assert!(writer::step(&work) >= before);
        no_leftovers(&work);
    }
    let committed = commit(setting);
    committed
        .assert_code(0)
        .assert_stdout_contains("goes on: false");
    assert!(writer::step(&work) >= before);
    no_leftovers(&work);
    for domain in setting.root().list().expect("list") {
        // The kill came while held output was sent: how far, nobody knows (S51).
        assert_eq!(domain.status(), Status::Unsent, "{committed:?}");
        committed.assert_stdout_contains("unsent: ");
        let aborted = domain.abort().expect("abort");
        assert_eq!(aborted, Aborted::Unsent);
    }
    pending
}

/// Nobody was killed in time.
fn goes_on(setting: &Setting, domain: Restless<'_>, told: &Outcome, before: u64) {
    told.assert_code(0);
    assert!(writer::step(&setting.scratch.work()) > before);
    domain.end(setting);
}

fn goes_on_uncommitted(setting: &Setting, domain: Restless<'_>, before: u64) {
    let work = setting.scratch.work();
    assert!(writer::step(&work) >= before);
    commit(setting).assert_code(0);
    assert!(writer::step(&work) > before);
    no_leftovers(&work);
    domain.end(setting);
}

/// The commit has ended one way or the other; the domain goes on, and can be committed.
fn client_is_gone(setting: &Setting, domain: Restless<'_>, before: u64) {
    let work = setting.scratch.work();
    let start = Instant::now();
    while commit(setting).code != 0 {
        assert!(start.elapsed() < watchdog::LIMIT, "it cannot be committed");
    }
    assert!(writer::step(&work) > before);
    no_leftovers(&work);
    domain.end(setting);
}

/// Ctrl-C of who commits, before the point of no return and after it.
fn asked_to_stop(setting: &Setting) {
    if !has_python() {
        return;
    }
    let work = setting.scratch.work();
    let listener = Listener::start(work.clone());
    thread::scope(|scope| {
        let domain = Restless::start(scope, setting, &listener, 25);
        domain.work(setting);
        // A commit that waits for a role that is stopped is given up, and that is told.
        let relay = Victim::Relay.find(setting).expect("it runs");
        Roles::signal(relay, Signal::STOP);
        let told = commit(setting);
        Roles::signal(relay, Signal::CONT);
        told.assert_code(1)
            .assert_stderr_contains("the relay process of the domain is stopped");
        // As early as it can be, over and over: a commit may be too quick for that.
        let started = Instant::now();
        loop {
            let before = writer::step(&work);
            let told = commit_until(setting, "--commit-until-any");
            watchdog::until("it goes on", watchdog::LIMIT, || {
                Victim::Tracer.find(setting).is_none()
            });
            if told
                .stderr
                .contains("the commit was stopped before its end")
            {
                assert_eq!(writer::step(&work), before, "it was committed");
                break;
            }
            assert!(started.elapsed() < watchdog::LIMIT, "{told:?}");
        }
        // Some of these are stopped beyond the point of no return, some are too quick for that.
        for _ in 0..5 {
            domain.work(setting);
            let before = writer::step(&work);
            let told = commit_until(setting, "--commit-until-apply");
            client_is_served(setting);
            assert!(writer::step(&work) > before, "not committed: {told:?}");
            no_leftovers(&work);
        }
        domain.end(setting);
    });
    listener.check();
}

/// As soon as what the commit before has released is sent, for which no process is there any more.
fn commit_until(setting: &Setting, how: &str) -> Outcome {
    let started = Instant::now();
    loop {
        let words = [how, "t"];
        let told = setting.run_by(&[], &words).outcome();
        if !told.stderr.contains("a commit is under way") {
            return told;
        }
        assert!(started.elapsed() < watchdog::LIMIT, "{told:?}");
    }
}

/// Waits until no commit is under way.
fn client_is_served(setting: &Setting) {
    watchdog::until("the commit ends", watchdog::LIMIT, || {
        Victim::Committer.find(setting).is_none() && Victim::Tracer.find(setting).is_none()
    });
}

/// An abort from a third process, at any moment of a commit.
fn aborted(setting: &Setting) {
    if !has_python() {
        return;
    }
    let work = setting.scratch.work();
    let listener = Listener::start(work.clone());
    let mut dice = Dice(0xab);
    for _ in 0..rounds(6) {
        let before = writer::step(&work);
        thread::scope(|scope| {
            let domain = Restless::start(scope, setting, &listener, 25);
            domain.work(setting);
            let client = scope.spawn(|| commit(setting));
            thread::sleep(dice.up_to(Duration::from_millis(150)));
            let census = Census::take(setting);
            let thrown = setting.root().open("t").expect("it runs").abort();
            let told = client.join().expect("an outcome");
            domain.outcome();
            census.end(setting);
            match thrown {
                Ok(_) => assert!(writer::step(&work) >= before),
                // It came too late: the commit is finished as it was begun.
                Err(surmise_kept::StateError::Committing { .. }) => {
                    finish(setting, &told, before);
                }
                // It had ended, and who committed was quicker.
                Err(surmise_kept::StateError::Unknown { .. }) => {
                    finish(setting, &told, before);
                }
                Err(error) => panic!("{error}"),
            }
            no_leftovers(&work);
            assert!(setting.root().list().expect("list").is_empty());
        });
        listener.check();
    }
}

#[track_caller]
pub fn no_leftovers(directory: &Path) {
    for entry in fs::read_dir(directory).expect("list").flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        assert!(!name.starts_with(".surmise-"), "{name} is left");
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            no_leftovers(&entry.path());
        }
    }
}
