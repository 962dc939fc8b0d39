//! Changes of many kinds, each made after the one before it, and what is left of them.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use rustix::fs::{Advice, FallocateFlags, fadvise, fallocate};
use surmise_sync::Driver;
use surmise_testkit::BlockLog;

const CHANGES: usize = 1500;
/// Places of files that are written in place, a block each.
const SLOTS: usize = 512;
const BLOCK: usize = 4096;
const LINE: usize = 100;
const LARGE: usize = 128 << 10;
const LARGE_MAX: usize = 60;
const LOGS: usize = 16;

/// One change; each number counts those of its kind.
#[derive(Clone, Copy, Debug)]
enum Change {
    /// A line more in one of several files.
    Append(usize),
    /// Eight bytes in a block that was written before.
    Overwrite(usize),
    /// Eight bytes in a block that was allocated before and never written.
    Fill(usize),
    /// A new file under the name of another.
    Replace,
    Create,
    Unlink(usize),
    AppendLarge(usize),
}

/// A sequence of changes to one directory.
pub struct Work {
    directory: PathBuf,
    changes: Vec<Change>,
}

/// What is known at a moment.
pub struct Mark {
    /// How many flushes the disk had been asked for.
    pub flushes: usize,
    /// How many changes are durable.
    pub changes: usize,
}

/// What a power loss left.
pub struct Left {
    /// The first change that is not there wholly.
    pub first_missing: Option<usize>,
    /// The last change of which anything is there.
    pub last: Option<usize>,
}

impl Work {
    /// Makes what the changes begin with, durably.
    pub fn begin(directory: &Path) -> Self {
        let (directory, mut random) = (directory.to_owned(), Random(11));
        let mut counts = [0_usize; 5];
        let mut next = |kind: usize, max: usize| {
            counts[kind] += 1;
            (counts[kind] <= max).then(|| counts[kind] - 1)
        };
        let mut changes = Vec::new();
        while changes.len() < CHANGES {
            changes.extend(match random.below(7) {
                0 => next(0, CHANGES).map(Change::Append),
                1 => next(1, SLOTS).map(Change::Overwrite),
                2 => next(2, SLOTS).map(Change::Fill),
                3 => Some(Change::Replace),
                4 => Some(Change::Create),
                5 => next(3, SLOTS).map(Change::Unlink),
                _ => next(4, LARGE_MAX).map(Change::AppendLarge),
            });
        }
        let work = Self { directory, changes };
        work.prepare();
        work
    }

    fn prepare(&self) {
        for name in ["made", "unlinked"] {
            fs::create_dir(self.directory.join(name)).expect("make a directory");
        }
        for number in 0..SLOTS {
            File::create(self.unlinked(number)).expect("make a file");
        }
        fs::write(self.directory.join("overwritten"), vec![0; SLOTS * BLOCK]).expect("write");
        let filled = File::create(self.directory.join("filled")).expect("make a file");
        fallocate(&filled, FallocateFlags::empty(), 0, (SLOTS * BLOCK) as u64).expect("allocate");
        fs::write(self.directory.join("current"), "none").expect("write");
        for name in (0..LOGS)
            .map(|log| format!("log{log}"))
            .chain(["large".into()])
        {
            File::create(self.directory.join(name)).expect("make a file");
        }
        let directory = File::open(&self.directory).expect("open the directory");
        rustix::fs::syncfs(&directory).expect("syncfs");
    }

    /// Makes the changes, while a driver commits now and then and the kernel is asked to write what it has,
    /// as it does by itself when it has much. Tells what was durable when.
    pub fn run(&self, disk: &BlockLog, driver: Option<&dyn Driver>) -> Vec<Mark> {
        let (done, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
        thread::scope(|scope| {
            let committer = scope.spawn(|| {
                let (mut marks, mut random) = (Vec::new(), Random(7));
                while !is_over.load(Ordering::SeqCst) {
                    thread::sleep(Duration::from_millis(1 + random.below(20) as u64));
                    let changes = done.load(Ordering::SeqCst);
                    if let Some(driver) = driver {
                        driver.commit().expect("commit");
                        let flushes = disk.flushes();
                        marks.push(Mark { flushes, changes });
                    }
                }
                marks
            });
            scope.spawn(|| {
                let mut random = Random(5);
                while !is_over.load(Ordering::SeqCst) {
                    thread::sleep(Duration::from_millis(1 + random.below(6) as u64));
                    let names = ["overwritten", "filled", "large", "log3", "current"];
                    let name = names[random.below(names.len())];
                    self.write_back(name);
                }
            });
            for (number, &change) in self.changes.iter().enumerate() {
                self.make(number, change);
                done.store(number + 1, Ordering::SeqCst);
                if number % 8 == 0 {
                    thread::sleep(Duration::from_micros(500));
                }
            }
            is_over.store(true, Ordering::SeqCst);
            committer.join().expect("the committer")
        })
    }

    /// Dirty pages that nobody needs any more are written: posix_fadvise(2).
    fn write_back(&self, name: &str) {
        // It is replaced now and then.
        if let Ok(file) = File::open(self.directory.join(name)) {
            fadvise(&file, 0, None, Advice::DontNeed).expect("posix_fadvise");
        }
    }

    fn make(&self, number: usize, change: Change) {
        let write = |name: &str, at: usize, data: &[u8]| {
            let file = File::options().write(true).open(self.directory.join(name));
            file.and_then(|file| file.write_all_at(data, at as u64))
                .expect("write");
        };
        match change {
            Change::Append(count) => write(&log(count), count / LOGS * LINE, &line(number)),
            Change::Overwrite(count) => write("overwritten", place(count), &word(number)),
            Change::Fill(count) => write("filled", place(count), &word(number)),
            Change::AppendLarge(count) => write("large", count * LARGE, &large(number)),
            Change::Replace => {
                let (new, current) = (self.directory.join("new"), self.directory.join("current"));
                let mut file = File::create(&new).expect("make a file");
                write!(file, "{number}").expect("write");
                drop(file);
                fs::rename(new, current).expect("rename");
            }
            Change::Create => fs::write(self.made(number), word(number)).expect("make a file"),
            Change::Unlink(count) => fs::remove_file(self.unlinked(count)).expect("unlink"),
        }
    }

    /// What of the changes is there.
    pub fn look(&self, directory: &Path) -> Left {
        assert_eq!(directory, self.directory, "mounted elsewhere");
        let read = |name: &str| fs::read(directory.join(name)).unwrap_or_default();
        let logs: Vec<_> = (0..LOGS).map(|log| read(&format!("log{log}"))).collect();
        let (overwritten, filled, big) = (read("overwritten"), read("filled"), read("large"));
        // A replaced file that has no content, or a part of it, is later than all and wholly there never.
        let current = String::from_utf8_lossy(&read("current")).into_owned();
        let current = match current.as_str() {
            "none" => None,
            number => Some(number.parse().unwrap_or(usize::MAX)),
        };
        let part = |data: &[u8], at: usize, length: usize| {
            data.get(at..data.len().min(at + length))
                .unwrap_or_default()
                .to_owned()
        };
        let seen = |wanted: &[u8], found: &[u8]| (found == wanted, !found.is_empty());
        let exactly = |is_there: bool| (is_there, is_there);
        let mut left = Left {
            first_missing: None,
            last: None,
        };
        for (number, &change) in self.changes.iter().enumerate() {
            let (is_whole, is_seen) = match change {
                Change::Append(count) => seen(
                    &line(number),
                    &part(&logs[count % LOGS], count / LOGS * LINE, LINE),
                ),
                Change::Overwrite(count) => {
                    exactly(part(&overwritten, place(count), 8) == word(number))
                }
                Change::Fill(count) => exactly(part(&filled, place(count), 8) == word(number)),
                Change::AppendLarge(count) => {
                    seen(&large(number), &part(&big, count * LARGE, LARGE))
                }
                Change::Replace => {
                    let is_whole = current.is_some_and(|c| c != usize::MAX && c >= number);
                    (is_whole, current == Some(number))
                }
                Change::Create => match fs::read(self.made(number)) {
                    Ok(found) => (found == word(number), true),
                    Err(_) => (false, false),
                },
                Change::Unlink(count) => exactly(!self.unlinked(count).exists()),
            };
            if !is_whole {
                left.first_missing.get_or_insert(number);
            }
            if is_seen {
                left.last = Some(number);
            }
        }
        left
    }

    fn made(&self, number: usize) -> PathBuf {
        self.directory.join("made").join(number.to_string())
    }

    fn unlinked(&self, count: usize) -> PathBuf {
        self.directory.join("unlinked").join(count.to_string())
    }
}

fn log(count: usize) -> String {
    format!("log{}", count % LOGS)
}

fn line(number: usize) -> Vec<u8> {
    let mut line = format!("{number:0width$}\n", width = LINE - 1);
    line.truncate(LINE);
    line.into_bytes()
}

/// Never zero, as which a block begins.
fn word(number: usize) -> Vec<u8> {
    (number as u64 + 1).to_le_bytes().to_vec()
}

fn large(number: usize) -> Vec<u8> {
    word(number).repeat(LARGE / 8)
}

/// Where the count-th small change of a file goes: far from the one before.
fn place(count: usize) -> usize {
    count * 197 % SLOTS * BLOCK + count % 8 * 512
}

/// SplitMix64: the same work each time.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((word ^ (word >> 31)) % bound as u64) as usize
    }
}
