//! What a log holds after every way in which an append can be cut short.

use std::io;

use surmise_journal::{Format, HEADER_LENGTH, Journal, OpenError, Storage};

const FORMAT: Format = Format {
    tag: "TEST",
    version: 3,
};

/// A disk in memory that can be told to fail after some bytes.
#[derive(Debug, Clone, Default)]
struct Disk {
    bytes: Vec<u8>,
    room: Option<usize>,
}

impl Storage for Disk {
    fn read_all(&mut self) -> io::Result<Vec<u8>> {
        Ok(self.bytes.clone())
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let offset = offset as usize;
        let fits = self.room.map_or(bytes.len(), |room| {
            room.saturating_sub(offset).min(bytes.len())
        });
        self.bytes.resize(self.bytes.len().max(offset + fits), 0);
        self.bytes[offset..offset + fits].copy_from_slice(&bytes[..fits]);
        if fits < bytes.len() {
            return Err(io::Error::from(io::ErrorKind::StorageFull));
        }
        Ok(())
    }

    fn truncate(&mut self, length: u64) -> io::Result<()> {
        self.bytes.truncate(length as usize);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn payloads(disk: Disk) -> (Vec<Vec<u8>>, u64) {
    let mut seen = Vec::new();
    let (_, recovery) = Journal::open(disk, FORMAT, |sequence, payload| {
        assert_eq!(sequence, seen.len() as u64 + 1);
        seen.push(payload.to_vec());
    })
    .expect("the header is whole");
    (seen, recovery.dropped_bytes)
}

fn written(payloads: &[&[u8]]) -> Disk {
    let mut disk = Disk::default();
    let mut journal = Journal::create(&mut disk, FORMAT).expect("create");
    for payload in payloads {
        journal.append(payload).expect("append");
    }
    disk
}

impl Storage for &mut Disk {
    fn read_all(&mut self) -> io::Result<Vec<u8>> {
        (**self).read_all()
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        Storage::write_at(&mut **self, offset, bytes)
    }

    fn truncate(&mut self, length: u64) -> io::Result<()> {
        Storage::truncate(&mut **self, length)
    }

    fn sync(&mut self) -> io::Result<()> {
        Storage::sync(&mut **self)
    }
}

#[test]
fn every_cut_keeps_exactly_the_whole_frames() {
    let frames: [&[u8]; 4] = [b"one", b"", b"three is longer", &[0; 300]];
    let disk = written(&frames);
    let mut ends = vec![HEADER_LENGTH as usize];
    for frame in frames {
        ends.push(ends[ends.len() - 1] + 16 + frame.len());
    }
    assert_eq!(ends[4], disk.bytes.len());
    for cut in HEADER_LENGTH as usize..=disk.bytes.len() {
        let mut short = disk.clone();
        short.bytes.truncate(cut);
        let whole = ends.iter().filter(|end| **end <= cut).count() - 1;
        let (seen, dropped) = payloads(short);
        assert_eq!(seen, frames[..whole], "cut at {cut}");
        assert_eq!(dropped as usize, cut - ends[whole]);
    }
}

#[test]
fn every_flipped_bit_drops_its_frame_and_what_follows() {
    let frames: [&[u8]; 3] = [b"alpha", b"beta", b"gamma"];
    let disk = written(&frames);
    for byte in HEADER_LENGTH as usize..disk.bytes.len() {
        for bit in 0..8 {
            let mut damaged = disk.clone();
            damaged.bytes[byte] ^= 1 << bit;
            let (seen, _) = payloads(damaged);
            let before = frames
                .iter()
                .scan(HEADER_LENGTH as usize, |end, frame| {
                    *end += 16 + frame.len();
                    Some(*end)
                })
                .filter(|end| *end <= byte)
                .count();
            assert_eq!(seen, frames[..before], "byte {byte}, bit {bit}");
        }
    }
}

#[test]
fn a_failed_append_leaves_the_log_as_it_was() {
    let mut disk = written(&[b"kept"]);
    disk.room = Some(disk.bytes.len() + 10);
    let (mut journal, _) = Journal::open(disk, FORMAT, |_, _| {}).expect("open");
    let error = journal.append(&[7; 100]).expect_err("the disk is full");
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    assert_eq!(journal.last_sequence(), 1);
}

#[test]
fn appends_go_on_after_a_torn_tail() {
    let mut disk = written(&[b"one", b"two"]);
    disk.bytes.truncate(disk.bytes.len() - 1);
    let (mut journal, recovery) = Journal::open(&mut disk, FORMAT, |_, _| {}).expect("open");
    assert_eq!(recovery.frames, 1);
    assert_eq!(journal.append(b"again").expect("append"), 2);
    assert_eq!(payloads(disk).0, [b"one".to_vec(), b"again".to_vec()]);
}

#[test]
fn other_formats_and_versions_are_refused_by_name() {
    let disk = written(&[]);
    let other = Format {
        tag: "OTHER",
        version: 3,
    };
    let newer = Format {
        version: 4,
        ..FORMAT
    };
    assert!(matches!(
        Journal::open(disk.clone(), other, |_, _| {}),
        Err(OpenError::WrongFormat { found, .. }) if found == "TEST"
    ));
    assert!(matches!(
        Journal::open(disk.clone(), newer, |_, _| {}),
        Err(OpenError::WrongVersion {
            found: 3,
            wanted: 4
        })
    ));
    for length in 0..HEADER_LENGTH as usize {
        let mut short = disk.clone();
        short.bytes.truncate(length);
        assert!(matches!(
            Journal::open(short, FORMAT, |_, _| {}),
            Err(OpenError::NotALog)
        ));
    }
}
