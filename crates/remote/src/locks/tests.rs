//! The table beside one that keeps each byte by itself.

use std::collections::BTreeMap;

use super::*;

const BYTES: u64 = 24;

/// What each owner holds on each byte, where number [`BYTES`] stands for all behind the others.
#[derive(Default)]
struct Bytes(BTreeMap<(Api, u64, u64), Hold>);

impl Bytes {
    fn is_free(&self, attempt: &Attempt) -> bool {
        let Some(wanted) = attempt.hold else {
            return true;
        };
        self.0.iter().all(|(&(api, owner, byte), hold)| {
            api != attempt.api
                || owner == attempt.owner
                || !(attempt.first..=attempt.last).contains(&byte)
                || (*hold, wanted) == (Hold::Shared, Hold::Shared)
        })
    }

    fn set(&mut self, attempt: &Attempt) {
        for byte in attempt.first..=attempt.last.min(BYTES) {
            let key = (attempt.api, attempt.owner, byte);
            match attempt.hold {
                Some(hold) => self.0.insert(key, hold),
                None => self.0.remove(&key),
            };
        }
    }
}

fn some_attempt(random: &mut fastrand::Rng) -> Attempt {
    let first = random.u64(0..BYTES);
    Attempt {
        api: [Api::Fcntl, Api::Flock][usize::from(random.bool())],
        owner: random.u64(0..4),
        first,
        last: match random.u8(0..6) {
            0 => u64::MAX,
            _ => random.u64(first..BYTES),
        },
        hold: [None, Some(Hold::Shared), Some(Hold::Exclusive)][random.usize(0..3)],
        how: How::Try,
        process: 1,
    }
}

fn covered(bytes: &Bytes, attempt: &Attempt, hold: Hold) -> bool {
    let mut range = attempt.first..=attempt.last.min(BYTES);
    range.all(|byte| bytes.0.get(&(attempt.api, attempt.owner, byte)) >= Some(&hold))
}

#[test]
fn ranges_are_split_merged_and_replaced_as_single_bytes_would_be() {
    for seed in 0..60 {
        let mut random = fastrand::Rng::with_seed(seed);
        let (mut table, mut bytes) = (Table::default(), Bytes::default());
        for _ in 0..200 {
            let attempt = some_attempt(&mut random);
            let said = format!("seed {seed}: {attempt:?} in {table:?}");
            let is_free = table.obstacles(attempt.owner, &attempt).next().is_none();
            assert_eq!(is_free, bytes.is_free(&attempt), "{said}");
            for hold in [Hold::Shared, Hold::Exclusive] {
                let holds = table.holds_all(attempt.owner, &attempt, hold);
                assert_eq!(holds, covered(&bytes, &attempt, hold), "{said}");
            }
            if is_free {
                table.set(attempt.owner, &attempt);
                bytes.set(&attempt);
            }
            compare(&table, &bytes, &said);
        }
    }
}

fn compare(table: &Table<u64>, bytes: &Bytes, said: &str) {
    let all = table.all(|owner| owner);
    let mut spread = BTreeMap::new();
    for lock in &all {
        for byte in lock.first..=lock.last.min(BYTES) {
            let before = spread.insert((lock.api, lock.owner, byte), lock.hold);
            assert_eq!(before, None, "{said}: two pieces have one byte");
        }
    }
    assert_eq!(spread, bytes.0, "{said}");
    for pair in all.windows(2) {
        let (one, next) = (&pair[0], &pair[1]);
        let is_alike = (one.api, one.owner, one.hold) == (next.api, next.owner, next.hold);
        let touches = one.last.checked_add(1) == Some(next.first);
        assert!(
            !is_alike || !touches,
            "{said}: {one:?} and {next:?} are one"
        );
    }
    assert_eq!(table.count(), all.len(), "{said}");
    assert_eq!(table.is_empty(), all.is_empty(), "{said}");
}

#[test]
fn one_lock_of_the_whole_file_is_lifted_from_the_middle() {
    let whole = Attempt {
        api: Api::Fcntl,
        owner: 1,
        first: 0,
        last: u64::MAX,
        hold: Some(Hold::Exclusive),
        how: How::Wait,
        process: 5,
    };
    let mut table = Table::default();
    table.set(1, &whole);
    let middle = Attempt {
        first: 10,
        last: 19,
        hold: None,
        ..whole
    };
    table.set(1, &middle);
    let ranges: Vec<_> = table
        .all(|owner| owner)
        .iter()
        .map(|lock| (lock.first, lock.last))
        .collect();
    assert_eq!(ranges, [(0, 9), (20, u64::MAX)]);
    let other = Attempt {
        owner: 2,
        hold: Some(Hold::Shared),
        ..middle
    };
    assert_eq!(table.obstacles(2, &other).next(), None);
    let further = Attempt { last: 20, ..other };
    let (owner, found) = table
        .obstacles(2, &further)
        .next()
        .expect("it is in the way");
    assert_eq!((owner, found.first, found.process), (1, 20, 5));
    assert!(table.lift_all(|owner| owner == 1) == 2 && table.is_empty());
}
