use std::fs;
use std::path::Path;
use std::thread;

use super::*;

/// A mount's cache, and the thread that writes it.
struct Mounted {
    cache: Cache,
    thread: thread::JoinHandle<()>,
    news: Receiver<News>,
    /// What an earlier mount has left.
    found: Vec<Piece>,
}

impl Mounted {
    fn new(home: &Path, bytes_max: u64) -> Self {
        let (cache, writer) = new("host:src", bytes_max, vec![home.to_owned()]);
        let (sender, news) = channel();
        let (tried, trying) = channel::<()>();
        let thread = thread::spawn(move || {
            let tell = |news| sender.send(news).expect("the test goes on");
            writer.run(|| drop(tried), tell);
        });
        let _ = trying.recv();
        let found = match news.try_recv() {
            Ok(News::Kept(pieces)) => pieces,
            _ => Vec::new(),
        };
        Self {
            cache,
            thread,
            news,
            found,
        }
    }

    /// Ends it; all that became of pieces.
    fn unmount(self) -> Vec<News> {
        self.cache.end();
        self.thread.join().expect("the thread has not failed");
        self.news.try_iter().collect()
    }
}

fn id(number: u64) -> ObjectId {
    ObjectId::found(number).expect("a number")
}

/// Bytes that no other piece has.
fn data(number: u64, length: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(number);
    std::iter::repeat_with(|| random.u8(..))
        .take(length)
        .collect()
}

fn piece(number: u64, length: usize) -> Piece {
    Piece {
        object: id(number),
        offset: 0,
        length: u32::try_from(length).expect("short"),
        digest: Digest::of(&data(number, length)),
    }
}

/// The files of the cache.
fn files(home: &Path) -> Vec<PathBuf> {
    let ours = home.join("surmise/far");
    let mut caches = fs::read_dir(ours).expect("there are caches");
    let cache = caches.next().expect("there is one").expect("an entry");
    let files = fs::read_dir(cache.path()).expect("list");
    files.map(|file| file.expect("an entry").path()).collect()
}

fn bytes_on_disk(home: &Path) -> u64 {
    let files = files(home).into_iter();
    files
        .map(|file| fs::metadata(file).expect("it is there").len())
        .sum()
}

#[test]
fn the_next_mount_finds_what_was_kept() {
    let home = tempfile::tempdir().expect("a directory");
    let first = Mounted::new(home.path(), 1 << 30);
    assert_eq!(first.found, []);
    for number in 1..=20 {
        first.cache.keep(id(number), 0, data(number, 5000));
    }
    // The file was changed.
    first.cache.keep(id(7), 0, data(70, 5000));
    first.unmount();
    let again = Mounted::new(home.path(), 1 << 30);
    assert_eq!(again.found.len(), 20);
    assert_eq!(again.cache.restore(&piece(3, 5000)), Some(data(3, 5000)));
    assert_eq!(again.cache.restore(&piece(7, 5000)), None);
    let changed = Piece {
        object: id(7),
        ..piece(70, 5000)
    };
    assert!(again.found.contains(&changed));
    assert_eq!(again.cache.restore(&changed), Some(data(70, 5000)));
    assert_eq!(again.cache.bytes(), bytes_on_disk(home.path()));
    again.unmount();
}

#[test]
fn a_cache_is_for_its_user_alone() {
    use std::os::unix::fs::PermissionsExt;
    let home = tempfile::tempdir().expect("a directory");
    let mounted = Mounted::new(home.path(), 1 << 30);
    mounted.cache.keep(id(1), 0, data(1, 100));
    mounted.unmount();
    let mode = |path: &Path| fs::metadata(path).expect("stat").permissions().mode() & 0o777;
    assert_eq!(mode(&home.path().join("surmise")), 0o700);
    for file in files(home.path()) {
        assert_eq!(mode(&file), 0o600, "{}", file.display());
    }
}

/// Whatever a crash leaves of the files, and whatever becomes of them, no other bytes come out than those that went in.
#[test]
fn damage_is_never_shown() {
    let home = tempfile::tempdir().expect("a directory");
    let lengths = [1000, 1, 3000, 40_000];
    let mut undamaged = 0;
    for seed in 0..100 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mounted = Mounted::new(home.path(), 1 << 30);
        for (number, length) in (1..).zip(lengths) {
            mounted.cache.keep(id(number), 0, data(number, length));
        }
        mounted.unmount();
        let files = files(home.path());
        let file = random.choice(&files).expect("there are files");
        let mut bytes = fs::read(file).expect("read");
        match random.u8(0..4) {
            0 => bytes.truncate(random.usize(0..=bytes.len())),
            1 => bytes.extend(data(seed, random.usize(1..200))),
            // A block that was not written before the power failed.
            2 if !bytes.is_empty() => {
                let start = random.usize(0..bytes.len());
                let end = bytes.len().min(start + 4096);
                bytes[start..end].fill(0);
            }
            _ if !bytes.is_empty() => {
                let at = random.usize(0..bytes.len());
                bytes[at] ^= 1 << random.u8(0..8);
            }
            _ => {}
        }
        fs::write(file, bytes).expect("write");
        let again = Mounted::new(home.path(), 1 << 30);
        for found in &again.found {
            let number = found.object.number();
            let length = lengths[usize::try_from(number).expect("few") - 1];
            assert_eq!(*found, piece(number, length), "seed {seed}");
            if let Some(bytes) = again.cache.restore(found) {
                assert_eq!(bytes, data(number, length), "seed {seed}");
                undamaged += 1;
            }
        }
        // What was damaged is kept anew.
        for (number, length) in (1..).zip(lengths) {
            again.cache.keep(id(number), 0, data(number, length));
        }
        again.unmount();
    }
    assert!((200..400).contains(&undamaged), "{undamaged}");
}

#[test]
fn it_takes_no_more_than_it_may_and_what_is_used_stays() {
    let home = tempfile::tempdir().expect("a directory");
    let most = 4 << 20;
    let mounted = Mounted::new(home.path(), most);
    let length = 100_000;
    let used = piece(1, length);
    let mut kept = 0;
    for number in 1..=200 {
        mounted.cache.keep(id(number), 0, data(number, length));
        while kept < number {
            match mounted.news.recv().expect("it is kept") {
                News::Kept(pieces) => kept = kept.max(pieces[0].object.number()),
                News::Unkept(pieces) => assert!(!pieces.contains(&used)),
            }
        }
        assert!(bytes_on_disk(home.path()) <= most, "{number}");
        assert!(mounted.cache.restore(&used).is_some(), "{number}");
    }
    assert_eq!(mounted.cache.restore(&piece(2, length)), None);
    mounted.unmount();
    let again = Mounted::new(home.path(), most);
    // Most of it is of use.
    assert!(again.found.len() > 25, "{}", again.found.len());
    again.unmount();
    // With less room, less is there.
    let smaller = Mounted::new(home.path(), 1 << 20);
    smaller.unmount();
    assert!(bytes_on_disk(home.path()) <= 1 << 20);
}

#[test]
fn one_mount_at_a_time_has_the_cache() {
    let home = tempfile::tempdir().expect("a directory");
    let first = Mounted::new(home.path(), 1 << 30);
    let second = Mounted::new(home.path(), 1 << 30);
    second.cache.keep(id(1), 0, data(1, 100));
    first.cache.keep(id(2), 0, data(2, 100));
    first.unmount();
    // It waits for the first one's end.
    let found = second.news.recv().expect("it gets the cache");
    assert!(matches!(found, News::Kept(pieces) if pieces == [piece(2, 100)]));
    assert_eq!(second.cache.restore(&piece(2, 100)), Some(data(2, 100)));
    second.unmount();
}

#[test]
fn a_cache_that_cannot_be_written_is_dropped() {
    let home = tempfile::tempdir().expect("a directory");
    let mounted = Mounted::new(home.path(), 8 << 20);
    mounted.cache.keep(id(1), 0, data(1, 100));
    assert!(matches!(mounted.news.recv(), Ok(News::Kept(pieces)) if pieces == [piece(1, 100)]));
    // What is open can be written; another segment cannot be made.
    fs::remove_dir_all(home.path().join("surmise")).expect("remove");
    for number in 2..20 {
        mounted.cache.keep(id(number), 0, data(number, 100_000));
    }
    let mut went = Vec::new();
    while went.is_empty() {
        if let News::Unkept(pieces) = mounted.news.recv().expect("it is dropped") {
            went = pieces;
        }
    }
    assert!(went.contains(&piece(1, 100)));
    assert_eq!(mounted.cache.restore(&piece(1, 100)), None);
    assert_eq!(mounted.cache.bytes(), 0);
    // Nothing fails for that.
    mounted.cache.keep(id(1), 0, data(1, 100));
    assert!(mounted.unmount().is_empty());
}

#[test]
fn without_a_place_nothing_is_kept_and_nothing_fails() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let mounted = Mounted::new(file.path(), 1 << 30);
    mounted.cache.keep(id(1), 0, data(1, 100));
    assert_eq!(mounted.cache.restore(&piece(1, 100)), None);
    assert!(mounted.unmount().is_empty());
}
