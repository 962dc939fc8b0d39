//! Servers that are killed at any moment, under load.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use surmise_remote::client::{Intent, Response};
use surmise_remote::object::ObjectId;
use surmise_remote::operation::{NewKind, NewObject};
use surmise_testkit::tell;

use crate::client::Client;
use crate::process::Process;
use crate::twin::{Twin, compare_shown};

const COUNTER: &str = "counter";

/// How often the server is killed, unless SURMISE_KILLS says so.
const KILLS: u64 = 20;

/// How long a server may take to begin.
const START_MAX: Duration = Duration::from_secs(30);

/// What was synced by then.
type Synced = Arc<AtomicU64>;

pub fn a_server_that_is_killed_loses_nothing() {
    let kills = std::env::var("SURMISE_KILLS").ok();
    let kills = kills.map_or(KILLS, |text| text.parse().expect("a number"));
    let seed = std::env::var("SURMISE_SEED").ok();
    let seed = seed.map_or_else(|| fastrand::u64(..), |text| text.parse().expect("a number"));
    tell(format_args!("SURMISE_SEED={seed}"));
    let export = tempfile::tempdir().expect("a directory");
    let mut twin = Twin::new(seed);
    let synced = Synced::default();
    let (done, ended) = mpsc::channel();
    let killer = {
        let (export, synced) = (export.path().to_owned(), synced.clone());
        let mut random = fastrand::Rng::with_seed(seed);
        let mut server = Process::start(&export);
        wait_for(&export);
        thread::spawn(move || {
            for _ in 0..kills {
                thread::sleep(Duration::from_millis(random.u64(1..120)));
                let promised = synced.load(Ordering::SeqCst);
                server.kill();
                server = Process::start(&export);
                wait_for(&export);
                let found = fs::read_to_string(export.join(COUNTER)).unwrap_or_default();
                let found = found.trim().parse().unwrap_or(0);
                assert!(promised <= found, "{promised} was synced, {found} is there");
            }
            done.send(()).expect("the test waits");
            server
        })
    };
    let mut client = Client::new(export.path(), 1);
    let mut count = Counter::new(&mut client, &twin);
    let mut steps = 0;
    while ended.try_recv().is_err() && !killer.is_finished() {
        twin.step(&mut client);
        steps += 1;
        // Objects whose last name has gone are dropped.
        if steps % 7 == 0 && !client.known.is_empty() {
            let known = client.known[steps % client.known.len()];
            client.forget(known);
        }
        if twin.random.u8(0..10) == 0 {
            count.up(&mut client, &twin, &synced);
        }
    }
    let server = killer.join().expect("the server was killed and started");
    client.sync().expect("sync");
    assert!(client.lost.is_empty(), "{:?}", client.lost);
    client.leave();
    server.stop();
    tell(format_args!("{steps} changes"));
    twin.compare(export.path());
    let server = Process::start(export.path());
    let mut client = Client::new(export.path(), 2);
    compare_shown(&mut client, export.path());
    client.leave();
    server.stop();
}

/// A file of a client that has left is found again by its inode number alone.
pub fn what_a_client_before_has_made_is_not_lost() {
    let export = tempfile::tempdir().expect("a directory");
    let write = |client: &mut Client, object, data: &[u8]| {
        let write = Intent::Write {
            object,
            offset: Some(0),
            data: data.to_vec(),
            strip: false,
        };
        client.change(write).expect("write");
        client.sync().expect("sync");
    };
    let server = Process::start(export.path());
    let mut first = Client::new(export.path(), 1);
    let object = create(&mut first, "a");
    write(&mut first, object, b"one");
    first.leave();
    // Its log has no short one in its place.
    server.kill();
    let server = Process::start(export.path());
    let mut second = Client::new(export.path(), 2);
    let found = second.find(Path::new("a")).expect("look");
    let (object, _) = found.expect("it is there");
    write(&mut second, object, b"two");
    server.kill();
    // A loss of power takes what was not flushed.
    let path = export.path().join("a");
    let made = fs::metadata(&path).expect("it is there");
    fs::write(&path, "one").expect("write");
    let file = fs::File::options().write(true).open(&path).expect("open");
    file.set_modified(made.modified().expect("a time"))
        .expect("set it");
    let server = Process::start(export.path());
    wait_for(export.path());
    assert_eq!(fs::read(&path).expect("read it"), b"two");
    server.stop();
}

/// When the log has become long, a short one takes its place, and the server is killed soon after.
pub fn a_long_log_is_replaced_by_a_short_one() {
    const CHUNK: usize = 512 << 10;
    const LONG: u64 = 64 << 20;
    let export = tempfile::tempdir().expect("a directory");
    let mut server = Process::start_with(export.path(), 30_000, false);
    let mut client = Client::new(export.path(), 1);
    let objects = ["a", "b"].map(|name| create(&mut client, name));
    // One of them has no name by then.
    let place = client.place(Path::new("b")).expect("a place");
    let directory = false;
    client
        .change(Intent::Remove { place, directory })
        .expect("remove");
    let mut longest = 0;
    for round in 0..320_usize {
        let write = Intent::Write {
            object: objects[round % 2],
            offset: Some((round / 2 % 4 * CHUNK) as u64),
            data: vec![round as u8; CHUNK],
            strip: false,
        };
        client.change(write).expect("write");
        if round % 20 == 19 {
            client.sync().expect("sync");
            let log = fs::metadata(export.path().join(".surmise/log")).expect("a log");
            longest = longest.max(log.len());
        }
        if round % 100 == 99 {
            server.kill();
            server = Process::start_with(export.path(), 30_000, false);
        }
    }
    assert!(longest < 2 * LONG, "{longest}");
    let whole: Vec<u8> = [312, 314, 316, 318]
        .into_iter()
        .flat_map(|round: usize| vec![round as u8; CHUNK])
        .collect();
    // A client that has nothing in its store yet.
    let mut other = Client::new(export.path(), 2);
    let found = other.find(Path::new("a")).expect("look");
    let (found, _) = found.expect("it is there");
    let mut read = Vec::new();
    for part in 0..4 {
        let offset = (part * CHUNK) as u64;
        read.extend(other.read(found, offset, CHUNK as u32).expect("read"));
        client.pump();
    }
    assert!(read == whole);
    other.leave();
    client.leave();
    server.stop();
    let names = fs::read_dir(export.path().join(".surmise/nameless")).expect("list it");
    assert_eq!(names.count(), 0);
    let log = fs::metadata(export.path().join(".surmise/log")).expect("a log");
    assert!(log.len() < 4096, "{}", log.len());
}

/// Makes a file.
pub fn create(client: &mut Client, path: &str) -> ObjectId {
    let place = client.place(Path::new(path)).expect("a place");
    let new = NewObject {
        kind: NewKind::Regular,
        permissions: 0o644,
        owner: rustix::process::geteuid().as_raw(),
        group: rustix::process::getegid().as_raw(),
    };
    match client.change(Intent::Create { place, new }) {
        Ok(Response::Object(object, _)) => object,
        other => panic!("{path}: {other:?}"),
    }
}

/// A file that counts on both sides, and what of it was synced.
struct Counter {
    object: ObjectId,
    value: u64,
}

impl Counter {
    fn new(client: &mut Client, twin: &Twin) -> Self {
        let object = create(client, COUNTER);
        fs::write(twin.model.path().join(COUNTER), "").expect("write");
        rustix::fs::chmod(
            twin.model.path().join(COUNTER),
            rustix::fs::Mode::from_raw_mode(0o644),
        )
        .expect("chmod");
        Self { object, value: 0 }
    }

    fn up(&mut self, client: &mut Client, twin: &Twin, synced: &Synced) {
        self.value += 1;
        let text = format!("{:08}", self.value);
        fs::write(twin.model.path().join(COUNTER), &text).expect("write");
        let write = Intent::Write {
            object: self.object,
            offset: Some(0),
            data: text.into_bytes(),
            strip: false,
        };
        client.change(write).expect("write");
        client.sync().expect("sync");
        synced.store(self.value, Ordering::SeqCst);
    }
}

pub fn wait_for(export: &Path) {
    let deadline = Instant::now() + START_MAX;
    while std::os::unix::net::UnixStream::connect(export.join(".surmise/socket")).is_err() {
        assert!(Instant::now() < deadline, "the server does not begin");
        thread::sleep(Duration::from_millis(2));
    }
}
