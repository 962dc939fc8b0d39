//! A process that changes a large file through a view and is killed at any moment.
//!
//! The test starts itself again as the process to be killed. That makes calls in an order that its
//! seed gives, and after each it notes how many it has made. Whoever opens the view afterwards must
//! find the calls that were noted, and of the next one, byte by byte, the old or the new.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::FallocateFlags;
use rustix::process::{Resource, Rlimit};
use tempfile::TempDir;

use crate::world::{Call, SIZE, find, on_plain, on_view, open_view, plant, read_plain, read_view};

const CALLS: u64 = 4000;
const WORLD: &str = "SURMISE_BLOCKS_WORLD";
const SEED: &str = "SURMISE_BLOCKS_SEED";
const AT: &str = "SURMISE_BLOCKS_AT";

/// Where the process that is killed by its own write may not write any more.
const END: u64 = 3 * (1 << 16) + 5;

/// Where its write would end, at a block's end.
const END_OF_WRITE: u64 = 6 << 16;

/// The `index`th call of a seed.
fn call(seed: u64, index: u64) -> Call {
    let mut state = seed ^ index.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut next = |below: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let at = next(SIZE + (1 << 16));
    let scale = 1 + next(18);
    let length = 1 + next(1 << scale);
    match next(20) {
        0 => Call::Truncate(at),
        1 => Call::Truncate(SIZE),
        2 => Call::Allocate {
            at,
            length,
            mode: (FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE).bits(),
        },
        _ => Call::Write {
            at,
            length,
            fill: next(255) as u8 + 1,
        },
    }
}

/// Not a test by itself: what the test below starts.
#[test]
fn killed_at_random_changes() {
    let (Ok(world), Ok(seed)) = (std::env::var(WORLD), std::env::var(SEED)) else {
        return;
    };
    let (world, seed) = (Path::new(&world), seed.parse().unwrap());
    let view = open_view(&world.join("lower"), &world.join("state"));
    let node = find(&view);
    let noted = File::create(world.join("noted")).unwrap();
    for index in 0..CALLS {
        on_view(&view, node, &call(seed, index)).unwrap();
        noted.write_all_at(&(index + 1).to_le_bytes(), 0).unwrap();
    }
}

/// Not a test by itself either. A write at or behind the limit is a deadly signal.
#[test]
fn killed_by_its_own_write() {
    let (Ok(world), Ok(at)) = (std::env::var(WORLD), std::env::var(AT)) else {
        return;
    };
    let (world, at): (_, u64) = (Path::new(&world), at.parse().unwrap());
    let view = open_view(&world.join("lower"), &world.join("state"));
    let node = find(&view);
    view.write(node, SIZE, b"borrows from here on", false)
        .unwrap();
    let limit = Rlimit {
        current: Some(END),
        maximum: Some(END),
    };
    rustix::process::setrlimit(Resource::Fsize, limit).unwrap();
    let write = Call::Write {
        at,
        length: END_OF_WRITE - at,
        fill: 255,
    };
    let _ = on_view(&view, node, &write);
}

/// What is killed inside a write leaves no block that holds neither what it held nor what was written.
#[test]
fn a_kill_inside_a_write_leaves_every_block_old_or_new() {
    // The kill is in the middle of the data, where no block has to be completed and where the first
    // has; in the last block; at the first byte that completes a block.
    for at in [1 << 16, (1 << 16) + 100, END - 1, END, END + 70_000] {
        let world = planted();
        let status = start(world.path(), "kills::killed_by_its_own_write", AT, at)
            .wait()
            .unwrap();
        assert!(status.signal().is_some(), "{status}: nothing was killed");
        let view = open_view(&world.path().join("lower"), &world.path().join("state"));
        let found = read_view(&view, find(&view), 0, SIZE).unwrap();
        let plain = fs::read(world.path().join("plain")).unwrap();
        let written = at..END_OF_WRITE;
        for (index, (found, old)) in found.iter().zip(&plain).enumerate() {
            let is_new = *found == 255 && written.contains(&(index as u64));
            assert!(found == old || is_new, "byte {index} of a write at {at}");
        }
    }
}

#[test]
fn a_kill_at_random_loses_no_call_and_mixes_no_sides() {
    for seed in 0..40 {
        let world = planted();
        let name = "kills::killed_at_random_changes";
        let mut child = start(world.path(), name, SEED, seed);
        // From before the first call to far behind it.
        let begun = Instant::now();
        while !world.path().join("noted").exists() && begun.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_micros(seed * seed * 20));
        child.kill().unwrap();
        child.wait().unwrap();
        check(world.path(), seed);
    }
}

/// A real tree, a place for a view's state, and a plain file as the real one.
fn planted() -> TempDir {
    let world = TempDir::new().unwrap();
    let path = |name: &str| world.path().join(name);
    fs::create_dir(path("lower")).unwrap();
    fs::create_dir(path("state")).unwrap();
    plant(&path("lower/file"));
    plant(&path("plain"));
    world
}

/// This program again, for one of its tests.
fn start(world: &Path, test: &str, name: &str, value: u64) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test])
        .env(WORLD, world)
        .env(name, value.to_string())
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

fn check(world: &Path, seed: u64) {
    let plain = File::options()
        .read(true)
        .write(true)
        .open(world.join("plain"))
        .unwrap();
    let mut noted = [0; 8];
    let known = File::open(world.join("noted")).unwrap();
    let made = match read_plain(&known, 0, &mut noted) {
        8 => u64::from_le_bytes(noted),
        _ => 0,
    };
    for index in 0..made {
        on_plain(&plain, &call(seed, index)).unwrap();
    }
    let before = whole(&plain);
    if made < CALLS {
        on_plain(&plain, &call(seed, made)).unwrap();
    }
    let after = whole(&plain);
    let view = open_view(&world.join("lower"), &world.join("state"));
    let node = find(&view);
    let size = view.attributes(node).unwrap().attributes.identity.size;
    let found = read_view(&view, node, 0, size).unwrap();
    let sizes = before.len().min(after.len())..=before.len().max(after.len());
    assert!(sizes.contains(&found.len()), "seed {seed}, call {made}");
    if found == before || found == after {
        return;
    }
    for (at, byte) in found.iter().enumerate() {
        let is_known = [before.get(at), after.get(at)].contains(&Some(byte))
            // A write that had made the file longer and not yet come so far.
            || *byte == 0 && at >= before.len();
        assert!(is_known, "seed {seed}, call {made}, byte {at}");
    }
}

fn whole(file: &File) -> Vec<u8> {
    let mut bytes = vec![0; file.metadata().unwrap().len() as usize];
    read_plain(file, 0, &mut bytes);
    bytes
}
