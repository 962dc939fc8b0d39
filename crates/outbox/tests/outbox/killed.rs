//! Deliveries that are killed.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use surmise_outbox::{Delivery, End, HeldState, Outbox, Target, load};
use surmise_testkit::{Scratch, watchdog};

use crate::server::{Manner, Server};
use crate::{child, directory, tcp};

const DIRECTORY: &str = "SURMISE_TEST_DELIVERED_OUTBOX";
const ROUNDS: u64 = 12;
const KILLS: u64 = 4;
const HOLDS: usize = 40;

/// What the pieces of the first hold are filled with, those of the next with one more, and so on.
const FILL: u8 = 100;

#[test]
fn a_killed_delivery_sends_everything_once_or_reports_it() {
    let mut random = Random(0x5eed);
    let mut killed = 0;
    for round in 0..ROUNDS {
        let scratch = Scratch::new();
        let directory = directory(&scratch);
        let servers = [Server::start(Manner::Answer), Server::start(Manner::Answer)];
        let wanted = hold_much(&directory, &servers, &mut random);
        for _ in 0..KILLS {
            killed += u64::from(killed_delivery(&directory, &servers, &mut random));
        }
        let last = start(&directory);
        let ended = watchdog::wait(last, "the delivery", Duration::from_secs(60));
        let told = String::from_utf8_lossy(&ended.stdout);
        assert!(ended.status.success(), "{told}");
        for server in &servers {
            watchdog::until("all connections end", watchdog::LIMIT, || server.is_quiet());
        }
        check(&directory, &servers, &wanted, round);
    }
    assert!(
        killed > ROUNDS,
        "only {killed} deliveries were killed on their way"
    );
}

/// Fills an outbox; the bytes of each hold, whose first eight name it.
fn hold_much(directory: &Path, servers: &[Server; 2], random: &mut Random) -> Vec<Vec<u8>> {
    let outbox = Outbox::open(directory).expect("open");
    let mut holds = Vec::new();
    let mut wanted: Vec<Vec<u8>> = Vec::new();
    while wanted.len() < HOLDS {
        let target = match random.below(5) {
            0 => Target::Output,
            other => tcp(servers[other as usize % 2].port),
        };
        holds.push(outbox.hold(target, None));
        wanted.push(holds[holds.len() - 1].0.to_be_bytes().to_vec());
        outbox.append(holds[holds.len() - 1], &wanted[wanted.len() - 1]);
        // A few of the last ones take turns.
        for _ in 0..random.below(6) {
            let index = wanted.len() - 1 - random.below(wanted.len().min(4) as u64) as usize;
            let bytes = vec![FILL + index as u8; 1 + random.below(40_000) as usize];
            outbox.append(holds[index], &bytes);
            wanted[index].extend(bytes);
        }
    }
    for hold in holds {
        outbox.finish(hold, End::Closed);
    }
    wanted
}

fn start(directory: &Path) -> std::process::Child {
    child("killed::deliver", r#"exec "$0" "$@""#)
        .env(DIRECTORY, directory)
        .stdout(Stdio::piped())
        .spawn()
        .expect("start")
}

/// Kills a delivery when it has come a random way; whether it was still running.
fn killed_delivery(directory: &Path, servers: &[Server; 2], random: &mut Random) -> bool {
    let arrived = || servers.iter().map(Server::bytes).sum::<usize>();
    let before = arrived();
    let mut child = start(directory);
    let way = random.below(400_000) as usize;
    let mut is_over = false;
    watchdog::until("the delivery goes its way", Duration::from_secs(60), || {
        is_over = child.try_wait().expect("wait").is_some();
        is_over || arrived() >= before + way
    });
    std::thread::sleep(Duration::from_micros(random.below(3000)));
    is_over = is_over || child.try_wait().expect("wait").is_some();
    if !is_over {
        child.kill().expect("kill the child");
        child.wait().expect("reap the child");
    }
    !is_over
}

fn check(directory: &Path, servers: &[Server; 2], wanted: &[Vec<u8>], round: u64) {
    let mut arrived: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
    for seen in servers.iter().flat_map(Server::seen) {
        // Connections that were made ahead, and not used before the kill, carry nothing.
        if let Some(name) = seen.bytes.first_chunk().copied() {
            let twice = arrived.insert(u64::from_be_bytes(name), seen.bytes);
            assert!(twice.is_none(), "round {round}: {name:?} arrived twice");
        }
    }
    let held = load(directory).expect("load");
    for (channel, wanted) in held.channels.iter().zip(wanted) {
        let what = format!("round {round}, {channel:?}");
        let bytes = match channel.target {
            Target::Output => shown(directory, channel.id.0),
            _ => arrived.remove(&channel.id.0).unwrap_or_default(),
        };
        match channel.state {
            HeldState::Sent => assert!(bytes == *wanted, "{what}: {} bytes", bytes.len()),
            HeldState::Sending => assert!(wanted.starts_with(&bytes), "{what}"),
            _ => panic!("{what}"),
        }
    }
    assert!(
        arrived.is_empty(),
        "round {round}: from nowhere: {arrived:?}"
    );
}

/// What was shown of a hold.
fn shown(directory: &Path, hold: u64) -> Vec<u8> {
    fs::read(directory.join(format!("shown-{hold}"))).unwrap_or_default()
}

/// One delivery of the test above, when it is started as a process of its own.
#[test]
fn deliver() {
    let Some(directory) = std::env::var_os(DIRECTORY) else {
        return;
    };
    let directory = PathBuf::from(directory);
    let delivery = Delivery::prepare(&directory, &mut |_| unreachable!()).expect("reached");
    let delivered = delivery.deliver(&mut |_, bytes| show(&directory, bytes));
    for failure in delivered.failed {
        let told = failure.to_string();
        assert!(told.contains("may have been sent in part"), "{told}");
    }
}

/// Appends a piece to the file of its hold, which its first piece names and its others are filled
/// with.
fn show(directory: &Path, bytes: &[u8]) -> io::Result<()> {
    let hold = match bytes.first_chunk() {
        Some(name) if bytes[0] == 0 => u64::from_be_bytes(*name),
        _ => u64::from(bytes[0] - FILL) + 1,
    };
    let path = directory.join(format!("shown-{hold}"));
    let mut file = File::options().create(true).append(true).open(path)?;
    file.write_all(bytes)
}

/// A small generator (xorshift), so that a failure can be seen again.
pub struct Random(u64);

impl Random {
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit.max(1)
    }
}
