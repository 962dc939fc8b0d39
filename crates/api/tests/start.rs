//! Domains started from the crate itself, which takes a process with one thread: this program runs its tests itself,
//! one after the other.

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use surmise_api::results::Fate;
use surmise_api::{
    Answer, Event, Guarantee, Launch, Notice, Person, Promise, Question, Redirect, RunError,
    Running, Stream, Streams, Surmise, Then, Through,
};
use surmise_sync::{Driver, Options, Scope};
use surmise_testkit::Scratch;

type Test = fn(&Scratch, &Surmise);

fn main() {
    // A test that hangs ends with the program.
    let limit = rustix::process::Rlimit {
        current: Some(120),
        maximum: Some(120),
    };
    rustix::process::setrlimit(rustix::process::Resource::Cpu, limit).expect("a limit");
    let tests: [(&str, Test); 7] = [
        ("events come, then the result", events_come_then_the_result),
        ("input is passed on", input_is_passed_on),
        ("one that is dropped hangs up", one_that_is_dropped_hangs_up),
        ("several run at a time", several_run_at_a_time),
        (
            "a domain with a real directory has a name",
            a_domain_with_a_real_directory_has_a_name,
        ),
        (
            "a kept domain has no real directory",
            a_kept_domain_has_no_real_directory,
        ),
        (
            "a caller with threads is refused",
            a_caller_with_threads_is_refused,
        ),
    ];
    for (name, test) in tests {
        let scratch = Scratch::new();
        let surmise = Surmise::at(scratch.state().join("surmise"));
        test(&scratch, &surmise);
        surmise_testkit::tell(format_args!("test {name} ... ok"));
    }
}

fn launch(scratch: &Scratch, script: &str) -> Launch {
    Launch {
        command: ["sh", "-c", script].map(Into::into).to_vec(),
        directory: scratch.work(),
        ..Launch::default()
    }
}

const PIPES: Streams = Streams {
    stdin: Redirect::Pipe,
    stdout: Redirect::Pipe,
    stderr: Redirect::Null,
};

fn events(running: &mut Running) -> Vec<Event> {
    std::iter::from_fn(|| running.next_event().expect("heard")).collect()
}

fn put_out(events: &[Event]) -> String {
    let pieces = events.iter().filter_map(|event| match event {
        Event::Output {
            stream: Stream::Stdout,
            data,
        } => Some(String::from_utf8_lossy(data.as_bytes())),
        _ => None,
    });
    pieces.collect()
}

/// Waits for what another process does.
fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn events_come_then_the_result(scratch: &Scratch, surmise: &Surmise) {
    let launch = launch(scratch, "echo hi; echo x > made; exit 4");
    let started = surmise.start(&launch, Then::Keep, PIPES, false);
    let mut running = started.expect("started");
    let events = events(&mut running);
    assert!(matches!(&events[0], Event::Started { name: Some(name) } if name == "sh-1"));
    assert_eq!(put_out(&events), "hi\n");
    assert!(running.is_over());
    let result = running.result().expect("heard").expect("a result");
    assert_eq!((result.exit, result.state), (4, Fate::Kept));
    assert!(!scratch.path("made").exists());
    let domain = surmise.domain(&result.name).expect("kept");
    assert_eq!(domain.pending().expect("read").rows(), result.changes);
    let committed = domain
        .commit_or_keep(&mut |_| std::ops::ControlFlow::Continue(()), &mut |_, _| {
            Ok(())
        });
    assert_eq!(committed.expect("committed").done.changes, 1);
    assert!(scratch.path("made").exists());
    assert!(surmise.domains().expect("read").is_empty());
}

/// A file system that commits in order, as far as a test that loses no power can see.
#[derive(Debug)]
struct Ordered(fs::File);

impl Driver for Ordered {
    fn name(&self) -> &'static str {
        "a test's"
    }

    fn guarantee(&self) -> Guarantee {
        Guarantee::Ordered
    }

    fn device(&self) -> u64 {
        self.0.metadata().expect("metadata").dev()
    }

    fn superblock(&self) -> u64 {
        self.device()
    }

    fn covers_all(&self) -> bool {
        true
    }

    fn covers(&self, _: BorrowedFd<'_>) -> io::Result<bool> {
        Ok(true)
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    fn commit(&self) -> io::Result<()> {
        Ok(rustix::fs::syncfs(&self.0)?)
    }
}

/// As [`launch`], with a directory that is the real one, where syncs are put off.
fn launch_through(scratch: &Scratch, script: &str) -> Launch {
    let directory = scratch.path("real");
    fs::create_dir_all(&directory).expect("create");
    let driver = Ordered(fs::File::open(&directory).expect("open"));
    let synchrony = Options {
        driver: Arc::new(driver),
        promise: Promise::Fsync,
        interval: Duration::from_secs(60),
        eager: false,
        scope: Scope::View,
    };
    Launch {
        through: Some(Through {
            directory,
            synchrony: Some(synchrony),
        }),
        ..launch(scratch, script)
    }
}

/// Changes elsewhere are kept in the domain, which a caller finds by the name.
fn a_domain_with_a_real_directory_has_a_name(scratch: &Scratch, surmise: &Surmise) {
    let launch = launch_through(scratch, "echo x > made; echo x > real/made");
    let started = surmise.start(&launch, Then::Keep, PIPES, false);
    let mut running = started.expect("started");
    let events = events(&mut running);
    let first = &events[0];
    assert!(
        matches!(first, Event::Started { name: Some(name) } if name == "sh-1"),
        "{first:?}"
    );
    let result = running.result().expect("heard").expect("a result");
    assert_eq!((result.exit, result.changes.len()), (0, 1), "{result:?}");
    assert!(scratch.path("real/made").exists() && !scratch.path("made").exists());
    surmise
        .domain("sh-1")
        .expect("kept")
        .abort()
        .expect("abort");
}

struct Nobody;

impl Person for Nobody {
    fn is_there(&self) -> bool {
        false
    }

    fn ask(&self, question: &Question) -> Answer {
        panic!("{question:?}")
    }

    fn tell(&self, _: &Notice) -> Option<String> {
        None
    }
}

fn a_kept_domain_has_no_real_directory(scratch: &Scratch, surmise: &Surmise) {
    let first = launch(scratch, "echo x > made");
    let started = surmise.start(&first, Then::Keep, PIPES, false);
    let mut running = started.expect("started");
    events(&mut running);
    let result = running.result().expect("heard").expect("a result");
    let domain = surmise.domain(&result.name).expect("kept");
    let later = launch_through(scratch, "echo x > real/made");
    let refused = Surmise::shell(&domain, &later, &Nobody).expect_err("refused");
    assert!(matches!(refused, RunError::Combination { .. }), "{refused}");
    assert!(!scratch.path("real/made").exists());
    domain.abort().expect("abort");
}

fn input_is_passed_on(scratch: &Scratch, surmise: &Surmise) {
    let launch = launch(scratch, "sort");
    let started = surmise.start(&launch, Then::Abort, PIPES, false);
    let mut running = started.expect("started");
    let lines: Vec<_> = (0..20_000)
        .rev()
        .map(|line| format!("{line:05}\n"))
        .collect();
    running.write(lines.concat().as_bytes()).expect("taken");
    running.close_input();
    assert!(running.write(b"late").is_err());
    let sorted: String = lines.iter().rev().map(String::as_str).collect();
    assert_eq!(put_out(&events(&mut running)), sorted);
    let result = running.result().expect("heard").expect("a result");
    assert_eq!((result.exit, result.state), (0, Fate::Unchanged));
}

fn is_running(process: &Path) -> bool {
    let stat = fs::read_to_string(process.join("stat")).unwrap_or_default();
    let state = stat.rsplit_once(") ").map(|(_, state)| state.to_owned());
    state.is_some_and(|state| !state.starts_with('Z'))
}

fn one_that_is_dropped_hangs_up(scratch: &Scratch, surmise: &Surmise) {
    let launch = Launch {
        name: Some("t".into()),
        ..launch(scratch, "echo x > made; echo; exec sleep 600")
    };
    let started = surmise.start(&launch, Then::Keep, PIPES, false);
    let mut running = started.expect("started");
    while !matches!(running.next_event(), Ok(Some(Event::Output { .. }))) {}
    let domain = surmise.domain("t").expect("it runs");
    let surmise_api::Status::Running { pid } = domain.status() else {
        panic!("{:?}", domain.status());
    };
    drop(running);
    until("control has ended", || {
        !is_running(Path::new(&format!("/proc/{pid}")))
    });
    let exit = surmise_api::Exit::Signaled(Signal::HUP.as_raw());
    assert_eq!(domain.status(), surmise_api::Status::Ended { exit });
    assert_eq!(domain.changes().expect("read").len(), 1);
    domain.abort().expect("aborted");
}

fn several_run_at_a_time(scratch: &Scratch, surmise: &Surmise) {
    let mut all: Vec<_> = ["a", "b", "c"]
        .iter()
        .map(|name| {
            let launch = Launch {
                name: Some((*name).into()),
                ..launch(scratch, &format!("cat > {name}"))
            };
            let started = surmise.start(&launch, Then::CommitIfZero, PIPES, false);
            started.expect("started")
        })
        .collect();
    for running in &mut all {
        assert!(matches!(
            running.next_event(),
            Ok(Some(Event::Started { .. }))
        ));
    }
    for (running, text) in all.iter_mut().zip(["1", "2", "3"]) {
        running.write(text.as_bytes()).expect("taken");
        running.close_input();
    }
    for running in all {
        let result = running.result().expect("heard").expect("a result");
        assert_eq!(result.state, Fate::Committed);
    }
    let read = ["a", "b", "c"].map(|name| fs::read_to_string(scratch.path(name)).expect("read"));
    assert_eq!(read, ["1", "2", "3"]);
}

fn a_caller_with_threads_is_refused(scratch: &Scratch, surmise: &Surmise) {
    let launch = launch(scratch, "true");
    let refused = std::thread::scope(|scope| {
        let thread = scope.spawn(|| surmise.start(&launch, Then::Keep, PIPES, false).map(drop));
        thread.join().expect("no panic")
    });
    assert!(matches!(refused, Err(RunError::Threads)), "{refused:?}");
    assert!(surmise.domains().expect("read").is_empty());
}
