//! Symptom a log holds after every way in which an append can be cut short, and that damage is told from
//! that.

mod disk;

use std::fs;
use std::io;
use std::path::Path;

use disk::{Disk, Shared};
use surmise_journal::{
    Damage, Format, HEADER_LENGTH, Journal, OpenError, Recovery, Symptom, is_cut_short, read_at,
    salvage_at, seal_at,
};

const FORMAT: Format = Format {
    tag: "TEST",
    version: 3,
};

const FRAMES: [&[u8]; 4] = [b"one", b"", b"three is longer", &[7; 300]];

type Payloads = Vec<Vec<u8>>;

fn read(bytes: &[u8]) -> Result<(Payloads, Recovery), Damage> {
    let mut disk = Disk::of(bytes);
    let mut seen = Payloads::new();
    let opened = Journal::open(&mut disk, FORMAT, |sequence, payload| {
        assert_eq!(sequence, seen.len() as u64 + 1);
        seen.push(payload.to_vec());
    });
    match opened.map(|(_, recovery)| recovery) {
        Ok(recovery) => Ok((seen, recovery)),
        Err(OpenError::Damaged(damage)) => {
            assert_eq!(disk.bytes, bytes, "a damaged log is left as it is");
            Err(damage)
        }
        Err(other) => panic!("{other}"),
    }
}

/// A log of these frames, of which so many are made durable together.
fn written(payloads: &[&[u8]], durable: usize) -> Vec<u8> {
    let mut disk = Disk::default();
    let mut journal = Journal::create(&mut disk, FORMAT).expect("create");
    for (index, payload) in payloads.iter().enumerate() {
        journal.append(payload).expect("append");
        if index + 1 == durable {
            journal.sync().expect("sync");
        }
    }
    disk.bytes
}

fn sealed(payloads: &[&[u8]]) -> Vec<u8> {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("log");
    fs::write(&path, written(payloads, payloads.len())).expect("written");
    let length = seal_at(&path).expect("sealed");
    let bytes = fs::read(&path).expect("read");
    assert_eq!(length, bytes.len() as u64);
    bytes
}

/// Where each frame ends, the header first.
fn ends(payloads: &[&[u8]]) -> Vec<usize> {
    let mut end = HEADER_LENGTH as usize;
    let mut ends = vec![end];
    ends.extend(payloads.iter().map(|payload| {
        end += 16 + payload.len();
        end
    }));
    ends
}

#[test]
fn every_cut_of_what_was_not_durable_keeps_exactly_the_whole_frames() {
    let bytes = written(&FRAMES, 0);
    let ends = ends(&FRAMES);
    assert_eq!(ends[4], bytes.len());
    for cut in HEADER_LENGTH as usize..=bytes.len() {
        let whole = ends.iter().filter(|end| **end <= cut).count() - 1;
        let (seen, recovery) = read(&bytes[..cut]).expect("cut short");
        assert_eq!(seen, FRAMES[..whole], "cut at {cut}");
        assert_eq!(recovery.dropped_bytes as usize, cut - ends[whole]);
    }
}

#[test]
fn every_cut_of_what_was_durable_is_damage() {
    for (durable, end) in ends(&FRAMES).into_iter().enumerate().skip(1) {
        let bytes = written(&FRAMES, durable);
        for cut in 0..end {
            let damage = read(&bytes[..cut]).expect_err("damage");
            let is_short = matches!(damage.what, Symptom::Short { .. });
            assert!(is_short || cut < HEADER_LENGTH as usize, "{cut}: {damage}");
        }
        for cut in end..=bytes.len() {
            let (seen, _) = read(&bytes[..cut]).expect("cut short");
            assert!(seen.len() >= durable);
        }
    }
}

/// Either all is read that was there, or it is damage; and nothing is read that was not there.
#[test]
fn every_flipped_bit_of_a_sealed_log_changes_nothing_or_is_damage() {
    let bytes = sealed(&FRAMES);
    let (mut same, mut damaged) = (0, 0);
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        match read(&flipped) {
            Ok((seen, _)) => {
                assert_eq!(seen, FRAMES, "bit {bit}");
                same += 1;
            }
            Err(_) => damaged += 1,
        }
    }
    // Symptom is between the marks means nothing, and one of two marks is enough.
    let meaningless = (HEADER_LENGTH as usize - 24) * 8;
    assert_eq!(
        (same, damaged),
        (meaningless, bytes.len() * 8 - meaningless)
    );
    for cut in 0..bytes.len() {
        read(&bytes[..cut]).expect_err("a sealed log is never shorter");
    }
    let longer = [&bytes[..], b"x"].concat();
    let damage = read(&longer).expect_err("a sealed log is never longer");
    assert_eq!(damage.what, Symptom::BehindSeal);
    assert_eq!(damage.offset as usize, bytes.len());
}

#[test]
fn an_unreadable_frame_with_a_whole_one_behind_it_is_damage() {
    let bytes = written(&FRAMES, 0);
    let ends = ends(&FRAMES);
    for byte in ends[0]..bytes.len() {
        let mut flipped = bytes.clone();
        flipped[byte] ^= 0x10;
        let frame = ends.iter().filter(|end| **end <= byte).count() - 1;
        match read(&flipped) {
            // Of the last frame nobody can say that it is not one that was cut short.
            Ok((seen, _)) => {
                assert_eq!(frame, 3);
                assert_eq!(seen, FRAMES[..3]);
            }
            Err(damage) => {
                assert_eq!(damage.what, Symptom::Before, "byte {byte}");
                assert_eq!(damage.offset as usize, ends[frame]);
            }
        }
    }
}

#[test]
fn what_can_be_read_of_a_damaged_log_is_read() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("log");
    let bytes = sealed(&FRAMES);
    let salvaged = |path: &Path| {
        let mut seen = Vec::new();
        let salvage = salvage_at(path, FORMAT, |sequence, payload| {
            seen.push((sequence, payload.to_vec()));
        });
        (seen, salvage.expect("readable"))
    };
    for (byte, frame) in [
        (0, None),
        (600, None),
        (1600 - 50, Some(1)),
        (bytes.len() - 1, Some(4)),
    ] {
        let mut flipped = bytes.clone();
        flipped[byte] ^= 1;
        fs::write(&path, &flipped).expect("written");
        let (seen, salvage) = salvaged(&path);
        let numbers: Vec<_> = (1..=4).filter(|number| Some(*number) != frame).collect();
        assert_eq!(
            seen.iter().map(|seen| seen.0).collect::<Vec<_>>(),
            numbers,
            "{byte}"
        );
        let lost = frame.map_or(0, |frame| 16 + FRAMES[frame as usize - 1].len());
        assert_eq!(salvage.unread_bytes as usize, lost);
        assert_eq!(fs::read(&path).expect("read"), flipped, "left as it is");
    }
    for cut in 0..bytes.len() {
        fs::write(&path, &bytes[..cut]).expect("written");
        let whole = ends(&FRAMES).iter().filter(|end| **end <= cut).count();
        assert_eq!(salvaged(&path).0.len(), whole.saturating_sub(1));
    }
}

/// Whatever a power loss leaves, what was durable is there, and nothing of it is called damage.
#[test]
fn a_power_loss_takes_only_what_was_not_durable() {
    let mut random = fastrand::Rng::with_seed(7);
    let (mut lost, mut holes) = (0, 0);
    for _ in 0..4000 {
        let mut disk = Disk::default();
        let mut journal = Journal::create(&mut disk, FORMAT).expect("create");
        journal.sync().expect("sync");
        let (mut all, mut durable) = (Payloads::new(), 0);
        for _ in 0..random.usize(1..12) {
            let payload: Vec<u8> = (0..random.usize(0..900)).map(|_| random.u8(1..)).collect();
            journal.append(&payload).expect("append");
            all.push(payload);
            if random.u8(0..4) == 0 {
                journal.sync().expect("sync");
                durable = all.len();
            }
        }
        for _ in 0..8 {
            let bytes = disk.after_power_loss(&mut random);
            let (seen, recovery) = read(&bytes).expect("a power loss is no damage");
            assert!((durable..=all.len()).contains(&seen.len()));
            assert_eq!(seen, all[..seen.len()]);
            lost += usize::from(seen.len() < all.len());
            holes += usize::from(recovery.dropped_bytes > 0);
        }
    }
    assert!(lost > 1000 && holes > 1000, "{lost} {holes}");
}

/// A mark that goes out with frames may reach the disk without them.
#[test]
fn a_mark_beside_frames_tells_only_of_earlier_ones() {
    let mut random = fastrand::Rng::with_seed(13);
    let mut marked = 0;
    for _ in 0..40 {
        let disk = Shared::default();
        let mut journal = Journal::create(disk.clone(), FORMAT).expect("create");
        journal.sync().expect("sync");
        let mut all = Payloads::new();
        let flushed = random.usize(1..6);
        for index in 0..=flushed {
            all.push(vec![random.u8(1..); random.usize(1..60_000)]);
            journal.append(&all[index]).expect("append");
            let before = disk.0.borrow().bytes.clone();
            if index < flushed {
                journal.sync_behind().expect("sync");
                continue;
            }
            // The power goes before the last flush is done.
            disk.0.borrow_mut().failing_syncs = 1;
            journal.sync_behind().expect_err("the disk fails");
            marked += usize::from(disk.0.borrow().bytes != before);
        }
        for _ in 0..8 {
            let bytes = disk.0.borrow().after_power_loss(&mut random);
            let (seen, _) = read(&bytes).expect("no damage");
            assert!(seen.len() >= flushed && seen == all[..seen.len()]);
        }
    }
    assert!(marked > 5, "{marked}");
}

/// As the last test, of the moments in which a seal is broken and a mark is written.
#[test]
fn a_power_loss_while_a_mark_is_written_is_no_damage() {
    let mut random = fastrand::Rng::with_seed(11);
    for _ in 0..500 {
        let mut disk = Disk::of(&sealed(&FRAMES));
        let (mut journal, recovery) = Journal::open(&mut disk, FORMAT, |_, _| {}).expect("open");
        assert!(recovery.is_sealed);
        journal.append(b"behind").expect("append");
        for _ in 0..8 {
            let bytes = disk.after_power_loss(&mut random);
            let (seen, _) = read(&bytes).expect("a power loss is no damage");
            assert!(seen.starts_with(&FRAMES.map(<[u8]>::to_vec)));
        }
    }
}

#[test]
fn a_failed_append_leaves_the_log_as_it_was() {
    let mut disk = Disk::of(&written(&[b"kept"], 1));
    disk.room = Some(disk.bytes.len() + 10);
    let (mut journal, _) = Journal::open(&mut disk, FORMAT, |_, _| {}).expect("open");
    let error = journal.append(&[7; 100]).expect_err("the disk is full");
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    assert_eq!(journal.last_sequence(), 1);
    assert_eq!(read(&disk.bytes).expect("whole").0, [b"kept".to_vec()]);
}

#[test]
fn appends_go_on_after_a_torn_tail() {
    let bytes = written(&[b"one", b"two"], 1);
    let mut disk = Disk::of(&bytes[..bytes.len() - 1]);
    let (mut journal, recovery) = Journal::open(&mut disk, FORMAT, |_, _| {}).expect("open");
    assert_eq!(recovery.frames, 1);
    assert_eq!(journal.append(b"again").expect("append"), 2);
    let (seen, _) = read(&disk.bytes).expect("whole");
    assert_eq!(seen, [b"one".to_vec(), b"again".to_vec()]);
}

#[test]
fn a_log_is_read_while_its_owner_appends() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("log");
    let mut journal = Journal::create_at(&path, FORMAT).expect("create");
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for number in 0_u64..2000 {
                journal.append(&number.to_le_bytes()).expect("append");
                journal.sync().expect("sync");
            }
        });
        let mut last = 0;
        while !writer.is_finished() {
            let recovery = read_at(&path, FORMAT, |_, _| {}).expect("never damaged");
            assert!(recovery.frames >= last);
            last = recovery.frames;
        }
    });
}

#[test]
fn a_log_is_read_while_its_seal_is_broken() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("log");
    // So long that a seal is broken while it is read.
    let long = vec![7; 32 << 20];
    fs::write(&path, sealed(&[&long])).expect("written");
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for _ in 0..20 {
                let (mut journal, _) = Journal::open_at(&path, FORMAT, |_, _| {}).expect("open");
                journal.append(b"behind").expect("append");
                seal_at(&path).expect("sealed");
            }
        });
        while !writer.is_finished() {
            read_at(&path, FORMAT, |_, _| {}).expect("never damaged");
        }
    });
}

#[test]
fn other_formats_and_versions_are_refused_by_name() {
    let bytes = written(&[], 0);
    let open = |bytes: &[u8], format| {
        let mut disk = Disk::of(bytes);
        Journal::open(&mut disk, format, |_, _| {}).map(|_| ())
    };
    let other = Format {
        tag: "OTHER",
        version: 3,
    };
    let newer = Format {
        version: 4,
        ..FORMAT
    };
    assert!(matches!(
        open(&bytes, other),
        Err(OpenError::WrongFormat { found, .. }) if found == "TEST"
    ));
    assert!(matches!(
        open(&bytes, newer),
        Err(OpenError::WrongVersion {
            found: 3,
            wanted: 4
        })
    ));
    for length in 0..HEADER_LENGTH as usize {
        let short = open(&bytes[..length], FORMAT);
        let error = short.expect_err("a part of a header is no log");
        assert!(error.is_cut_short(), "{length}: {error}");
    }
}

/// Symptom was cut short is made anew, so nothing else may be taken for that.
#[test]
fn only_a_part_of_a_new_header_was_cut_short() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("log");
    let is_cut_short = |bytes: &[u8]| {
        fs::write(&path, bytes).expect("written");
        is_cut_short(&path)
    };
    let empty = written(&[], 0);
    for length in 0..empty.len() {
        assert!(is_cut_short(&empty[..length]), "{length}");
    }
    assert!(!is_cut_short(&empty));
    // The first mark of this one follows what its header begins with.
    let durable = written(&FRAMES, 1);
    for length in 513..durable.len() {
        assert!(!is_cut_short(&durable[..length]), "{length}");
    }
    // A log of the first version: its first frame follows the 24 bytes that say whose it is.
    let earlier = [&empty[..24], &[1, 0, 0, 0, 9, 9, 9, 9, 1], &[0; 7], b"x"].concat();
    assert!(!is_cut_short(&earlier));
    let newer = Format {
        version: 4,
        ..FORMAT
    };
    let mut disk = Disk::of(&earlier);
    let refused = Journal::open(&mut disk, newer, |_, _| {}).map(drop);
    assert!(
        matches!(refused, Err(OpenError::WrongVersion { found: 3, .. })),
        "{refused:?}"
    );
}

/// The kernel tells once that the disk did not take something, and forgets it.
#[test]
fn after_a_failed_sync_nothing_is_called_durable() {
    let mut disk = Disk::of(&written(&FRAMES, FRAMES.len()));
    disk.failing_syncs = 1;
    let (mut journal, _) = Journal::open(&mut disk, FORMAT, |_, _| {}).expect("open");
    journal.append(b"lost").expect("append");
    journal.sync().expect_err("the disk fails");
    journal.append(b"later").expect("append");
    journal.sync().expect_err("nobody knows what the disk has");
    let cut = *ends(&FRAMES).last().expect("an end");
    assert_eq!(read(&disk.bytes[..cut]).expect("whole").0, FRAMES);
}

/// A seal counts as broken only when the disk has said so.
#[test]
fn a_seal_that_could_not_be_broken_is_broken_by_the_next_append() {
    let mut random = fastrand::Rng::with_seed(5);
    let mut disk = Disk::of(&sealed(&FRAMES));
    disk.failing_syncs = 1;
    let (mut journal, _) = Journal::open(&mut disk, FORMAT, |_, _| {}).expect("open");
    journal.append(b"first").expect_err("the disk fails");
    journal.append(b"second").expect("append");
    for _ in 0..100 {
        let bytes = disk.after_power_loss(&mut random);
        let (seen, _) = read(&bytes).expect("a power loss is no damage");
        assert!(seen.starts_with(&FRAMES.map(<[u8]>::to_vec)));
    }
}
