//! What a server takes as its export grows, and as more clients come: `make bench-server`.
//!
//! A client walks through the whole export, so that the server knows each object and the client has a lease on it. Then clients read
//! files at random, and make new ones. The client is the state machine without a mount, over a Unix socket, and answers what it has a
//! lease on by itself: so what is counted goes to the server. `SURMISE_FILES` is how many files the exports have.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a benchmark talks to the terminal"
)]
#![allow(
    dead_code,
    reason = "what tests of the server start and talk to it by has more than is needed here"
)]

#[path = "../../tests/server/client.rs"]
mod client;
#[path = "../../tests/server/process.rs"]
mod process;
mod tree;

use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use surmise_lower::FileKind;
use surmise_remote::client::{Intent, Request, Response};
use surmise_remote::object::ObjectId;
use surmise_remote::operation::{NewKind, NewObject};

use client::Client;
use process::Process;
use tree::{EACH, Tree};

const FILES: &str = "1000,100000,1000000";

/// How many clients there are, each on its own thread, in an export of so many files.
const CLIENTS: [usize; 3] = [1, 10, 100];
const CLIENTS_FILES: usize = 100_000;

/// How many files are read, and made, in each row.
const READ: usize = 10_000;
const MADE: usize = 10_000;

/// How many calls of a client are out at once.
const OUT: usize = 64;

/// The most memory of a server for an export, in bytes, and at how many files.
const MEMORY_MAX: (usize, u64) = (1_000_000, 400 << 20);

/// How many times longer an operation may take than in the smallest export.
const TIMES_MAX: f64 = 1.5;

fn main() -> ExitCode {
    process::serve_if_told();
    let sizes = std::env::var("SURMISE_FILES").unwrap_or_else(|_| FILES.into());
    let sizes = sizes
        .split(',')
        .map(|size| size.parse().expect("SURMISE_FILES is numbers, by commas"));
    let mut met = true;
    println!("one client:");
    println!("    files  look, us an object  read, us a file  make, us a file  server, MB");
    let mut first = None;
    for files in sizes {
        let row = alone(&Tree::new(files));
        println!(
            "{files:>9} {:>19.1} {:>16.1} {:>16.1} {:>11.1}",
            us(row.look, 1),
            us(row.read, READ),
            us(row.make, MADE),
            row.memory as f64 / 1e6
        );
        let base = *first.get_or_insert(row);
        let is_flat = |of: fn(&Row) -> Duration| {
            of(&row).as_secs_f64() <= of(&base).as_secs_f64() * TIMES_MAX
        };
        met &= is_flat(|row| row.look) && is_flat(|row| row.read) && is_flat(|row| row.make);
        met &= files != MEMORY_MAX.0 || row.memory <= MEMORY_MAX.1;
    }
    println!("clients that read at random in {CLIENTS_FILES} files:");
    println!("  clients  files a second  server, MB");
    let tree = Tree::new(CLIENTS_FILES);
    for clients in CLIENTS {
        let (took, memory) = together(&tree, clients);
        let rate = READ as f64 / took.as_secs_f64();
        println!("{clients:>9} {rate:>15.0} {:>11.1}", memory as f64 / 1e6);
    }
    match met {
        true => ExitCode::SUCCESS,
        false => {
            println!(
                "targets: a file takes at most {TIMES_MAX} times what it takes in the smallest export; {} MB at {} files: missed",
                MEMORY_MAX.1 >> 20,
                MEMORY_MAX.0
            );
            ExitCode::FAILURE
        }
    }
}

#[derive(Clone, Copy)]
struct Row {
    /// At one object.
    look: Duration,
    read: Duration,
    make: Duration,
    memory: u64,
}

fn us(took: Duration, each: usize) -> f64 {
    took.as_secs_f64() * 1e6 / each as f64
}

fn alone(tree: &Tree) -> Row {
    let server = Process::start_with(tree.path(), 600_000, false);
    let mut client = Client::new(tree.path(), 1);
    let (root, begun) = (client.root(), Instant::now());
    let files = walk(&mut client, root);
    let look = begun.elapsed() / u32::try_from(tree.files()).expect("few enough");
    assert_eq!(files.len(), tree.files());
    let memory = memory_of(server.number());
    let begun = Instant::now();
    read(&mut client, &files, READ, 1);
    let read = begun.elapsed();
    let begun = Instant::now();
    make(&mut client, MADE);
    let make = begun.elapsed();
    client.leave();
    server.stop();
    tree.remove_made();
    Row {
        look,
        read,
        make,
        memory,
    }
}

/// How long so many clients take for all their reads, each in a directory of its own, and the server's memory then.
fn together(tree: &Tree, clients: usize) -> (Duration, u64) {
    let server = Process::start_with(tree.path(), 600_000, false);
    let (ready, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    // A client that others wait for has to go on.
    let wait_for_all = |client: &mut Client, count: &AtomicUsize| {
        count.fetch_add(1, Ordering::Relaxed);
        while count.load(Ordering::Relaxed) < clients {
            client.pump();
        }
    };
    let one = &|number: usize| {
        let mut client = Client::new(tree.path(), number as u8 + 1);
        let directory = client.find(&Tree::directory(number)).expect("look");
        let (directory, _) = directory.expect("it is there");
        let files = walk(&mut client, directory);
        wait_for_all(&mut client, &ready);
        let begun = Instant::now();
        read(&mut client, &files, READ / clients, number as u64);
        let took = begun.elapsed();
        wait_for_all(&mut client, &done);
        client.leave();
        took
    };
    let slowest = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..clients)
            .map(|number| scope.spawn(move || one(number)))
            .collect();
        let took = threads
            .into_iter()
            .map(|thread| thread.join().expect("a client"));
        took.max().unwrap_or_default()
    });
    let memory = memory_of(server.number());
    server.stop();
    (slowest, memory)
}

/// Looks at all that is below a directory, and returns the files.
fn walk(client: &mut Client, root: ObjectId) -> Vec<ObjectId> {
    let (mut left, mut files) = (vec![root], Vec::new());
    while let Some(directory) = left.pop() {
        let Ok(Response::Names(names)) = client.call(Request::Names(directory)) else {
            panic!("a directory is listed");
        };
        for name in names.into_keys() {
            match client.call(Request::Lookup(directory, name)) {
                Ok(Response::Entry(Some((object, found)))) => match found.kind {
                    FileKind::Regular => files.push(object),
                    _ => left.push(object),
                },
                other => panic!("{other:?}"),
            }
        }
    }
    files
}

fn read(client: &mut Client, files: &[ObjectId], count: usize, seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut left = count;
    while left > 0 {
        let out = left.min(OUT);
        let tokens: Vec<_> = (0..out)
            .map(|_| {
                let object = files[random.usize(..files.len())];
                client.begin(Request::Read {
                    object,
                    offset: 0,
                    length: 4096,
                })
            })
            .collect();
        for token in tokens {
            let read = client.finish(token);
            assert_eq!(read, Ok(Response::Stored(EACH as u32)));
        }
        left -= out;
    }
}

/// Makes empty files in a new directory, and waits until all are durable.
fn make(client: &mut Client, count: usize) {
    let create = |client: &mut Client, path: &Path, kind| {
        let place = client.place(path).expect("a place");
        let new = NewObject {
            kind,
            permissions: 0o755,
            owner: 0,
            group: 0,
        };
        let made = client.change(Intent::Create { place, new });
        made.expect("room for it");
    };
    let directory = Path::new(tree::MADE);
    create(client, directory, NewKind::Directory);
    for number in 0..count {
        let path = directory.join(format!("new{number}"));
        create(client, &path, NewKind::Regular);
    }
    client.sync().expect("durable");
}

/// What of a process is in memory, in bytes.
fn memory_of(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    kilobytes.map_or(0, |number: u64| number << 10)
}
