//! What holds of any bytes where a log should be. Ordinary tests ask it of mutated logs, and targets in
//! `fuzz/` of whatever libFuzzer finds.

use std::io;

use crate::{Format, Journal, Recovery, Storage, scan};

const FORMAT: Format = Format {
    tag: "FUZZ",
    version: 1,
};

/// A log in memory.
#[derive(Default)]
struct Memory(Vec<u8>);

impl Storage for &mut Memory {
    fn read_all(&mut self) -> io::Result<Vec<u8>> {
        Ok(self.0.clone())
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let offset = offset as usize;
        self.0.resize(self.0.len().max(offset + bytes.len()), 0);
        self.0[offset..offset + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn truncate(&mut self, length: u64) -> io::Result<()> {
        self.0.truncate(length as usize);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A log: it is recovered or refused; what was recovered is recovered again, whole, and can be gone on
/// with. Whether it was a log.
///
/// # Panics
/// When that does not hold.
pub fn log(bytes: &[u8]) -> bool {
    let mut memory = Memory(bytes.to_vec());
    let Some((frames, recovery)) = recovered(&mut memory) else {
        assert_eq!(memory.0, bytes, "what is refused is left alone");
        let mut last = 0;
        let salvage = scan::salvage(bytes, |sequence, _| {
            assert!(sequence > last);
            last = sequence;
        });
        assert!(salvage.unread_bytes <= bytes.len() as u64);
        return false;
    };
    assert!(bytes.starts_with(&memory.0));
    assert_eq!(
        (bytes.len() - memory.0.len()) as u64,
        recovery.dropped_bytes
    );
    let whole = Recovery {
        dropped_bytes: 0,
        ..recovery
    };
    let kept = memory.0.clone();
    assert_eq!(recovered(&mut memory), Some((frames.clone(), whole)));
    assert_eq!(memory.0, kept);
    let (mut journal, _) = Journal::open(&mut memory, FORMAT, |_, _| {}).expect("it was one");
    let sequence = journal.append(b"more").expect("memory takes it");
    assert_eq!(sequence, recovery.frames + 1);
    journal.sync().expect("memory takes it");
    let (found, recovery) = recovered(&mut memory).expect("it was one");
    assert_eq!(found, [frames, vec![b"more".to_vec()]].concat());
    assert!(!recovery.is_sealed && recovery.dropped_bytes == 0);
    true
}

/// Payloads, of which the first are made durable, and damage to the log that holds them: what is recovered
/// is the first of them and all that are durable, or nothing, and then the log is left alone. Whether
/// anything was recovered.
///
/// # Panics
/// When that does not hold.
pub fn damaged(bytes: &[u8]) -> bool {
    let Some((&[count, durable, at_low, at_high, how], rest)) = bytes.split_first_chunk::<5>()
    else {
        return false;
    };
    let mut memory = Memory::default();
    let mut journal = Journal::create(&mut memory, FORMAT).expect("memory takes it");
    let length = rest.len() / usize::from(count).max(1);
    let payloads: Vec<_> = rest.chunks(length.max(1)).map(<[u8]>::to_vec).collect();
    let durable = payloads.len().min(usize::from(durable & 0x7f));
    for (number, payload) in payloads.iter().enumerate() {
        if number == durable {
            journal.sync().expect("memory takes it");
        }
        journal.append(payload).expect("memory takes it");
    }
    if durable == payloads.len() {
        journal.sync().expect("memory takes it");
    }
    let at = usize::from(u16::from_le_bytes([at_low, at_high])) % memory.0.len();
    // Less than a sector, so that not both marks are hit.
    let piece = at..memory.0.len().min(at + usize::from(how & 63) + 1);
    match how >> 6 {
        0 => memory.0.truncate(at),
        1 => memory.0[at] ^= how,
        2 => memory.0[piece].fill(0),
        _ => drop(memory.0.drain(piece)),
    }
    let was = memory.0.clone();
    let Some((frames, _)) = recovered(&mut memory) else {
        assert_eq!(memory.0, was, "what is damaged is left alone");
        return false;
    };
    assert!(payloads.starts_with(&frames));
    assert!(frames.len() >= durable, "{} of {durable}", frames.len());
    log(&was);
    true
}

/// The payloads, which are numbered from 1, and what is said of them.
fn recovered(memory: &mut Memory) -> Option<(Vec<Vec<u8>>, Recovery)> {
    let mut frames = Vec::new();
    let (_, recovery) = Journal::open(memory, FORMAT, |sequence, payload| {
        frames.push(payload.to_vec());
        assert_eq!(sequence, frames.len() as u64);
    })
    .ok()?;
    assert_eq!(recovery.frames, frames.len() as u64);
    Some((frames, recovery))
}

/// Logs as they are written, of several lengths, each also with a frame that is not durable.
pub fn log_seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    let mut memory = Memory::default();
    drop(Journal::create(&mut memory, FORMAT).expect("memory takes it"));
    for payload in [&b""[..], b"a", b"payload", &[0; 40]] {
        seeds.push(memory.0.clone());
        let (mut journal, _) = Journal::open(&mut memory, FORMAT, |_, _| {}).expect("it is one");
        journal.append(payload).expect("memory takes it");
        journal.sync().expect("memory takes it");
        let mut more = Memory(memory.0.clone());
        let (mut journal, _) = Journal::open(&mut more, FORMAT, |_, _| {}).expect("it is one");
        journal.append(b"not durable").expect("memory takes it");
        seeds.push(more.0);
    }
    seeds.push(memory.0);
    seeds
}

/// Damage of each sort, to what is durable and behind it.
pub fn damage_seeds() -> Vec<Vec<u8>> {
    let seed = |(at, how): (u16, u8)| {
        let [low, high] = at.to_le_bytes();
        [&[3, 2, low, high, how][..], b"first payloads and last ones"].concat()
    };
    let (mark, durable, last) = (1030, 1560, 1610);
    let places = [mark, durable, last].into_iter();
    let kinds = |at| [(at, 1), (at, 64), (at, 128), (at, 192)];
    places.flat_map(kinds).map(seed).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use surmise_testkit::mutations;

    use super::*;

    #[test]
    fn the_seeds_are_logs() {
        assert!(log_seeds().iter().all(|seed| log(seed)));
        assert!(damage_seeds().iter().any(|seed| damaged(seed)));
        assert!(damage_seeds().iter().any(|seed| !damaged(seed)));
    }

    proptest! {
        #[test]
        fn any_bytes_are_recovered_or_refused(bytes in mutations(log_seeds())) {
            log(&bytes);
        }

        #[test]
        fn of_a_damaged_log_its_beginning_is_recovered(bytes in mutations(damage_seeds())) {
            damaged(&bytes);
        }
    }
}
