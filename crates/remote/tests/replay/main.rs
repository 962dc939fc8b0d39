//! Random changes that were lost are replayed on a file system in memory.

mod model;
mod program;

use surmise_remote::lost::{Begins, Entry, LostChanges, Reader, Replays};
use surmise_remote::object::Name;
use surmise_remote::operation::{Change, NewKind};
use surmise_remote::replay::{Became, Progress, Replay, Step, Told, lines};

use model::{KILLED, Model};
use program::{Client, base, name, root};

const SEEDS: u64 = 1500;

/// A tree, and a client that has changed it.
fn worked(seed: u64, links: bool) -> (Model, Client, fastrand::Rng) {
    let mut random = fastrand::Rng::with_seed(seed);
    let before = base(&mut random, links);
    let mut client = Client::new(before.clone(), 1_000_000);
    for _ in 0..random.usize(1..25) {
        client.step(&mut random);
    }
    (before, client, random)
}

/// Replays until it is killed; what it has noted is appended. Whether it has come to the end.
fn replay(lost: &LostChanges, noted: &mut Vec<Progress>, onto: &mut Model) -> (bool, Vec<Told>) {
    let mut replay = Replay::new(root(), lost);
    noted
        .iter()
        .cloned()
        .for_each(|progress| replay.note(progress));
    let (mut begun, progress) = replay.take_up(onto).expect("looks never fail");
    noted.extend(progress);
    loop {
        let (step, again) = match begun.take() {
            Some(step) => (step, true),
            None => match replay.decide(onto).expect("looks never fail") {
                None => break,
                Some(step) => {
                    noted.push(Progress::Begins(step.clone()));
                    (step, false)
                }
            },
        };
        match replay.carry_out(onto, step, again) {
            Ok(None) => noted.extend(replay.stamp(onto).expect("looks never fail")),
            Ok(Some(errno)) => noted.push(Progress::Failed(errno)),
            Err(errno) => {
                assert_eq!(errno, KILLED);
                return (false, replay.told().to_vec());
            }
        }
    }
    let is_over = replay.finish(onto).is_ok();
    (is_over, replay.told().to_vec())
}

#[test]
fn s63_where_nobody_else_has_changed_anything_a_replay_makes_what_was_lost() {
    let mut changes = 0;
    for seed in 0..SEEDS {
        let (mut onto, client, _) = worked(seed, true);
        changes += client.lost.changes.len();
        let (is_over, told) = replay(&client.lost, &mut Vec::new(), &mut onto);
        assert!(is_over);
        assert_eq!(told, [], "seed {seed}");
        assert_eq!(onto.tree(), client.model.tree(), "seed {seed}");
    }
    assert!(changes > 10_000);
}

#[test]
fn s63_a_replay_that_is_killed_at_any_call_and_goes_on_makes_each_change_once() {
    for seed in 0..SEEDS / 5 {
        let (before, client, _) = worked(seed, true);
        for fuel in 1.. {
            let mut onto = before.clone();
            let mut noted = Vec::new();
            onto.fuel = Some(fuel);
            let (is_over, _) = replay(&client.lost, &mut noted, &mut onto);
            if is_over {
                break;
            }
            onto.fuel = None;
            let (is_over, told) = replay(&client.lost, &mut noted, &mut onto);
            assert!(is_over);
            assert_eq!(told, [], "seed {seed}, fuel {fuel}");
            assert_eq!(onto.tree(), client.model.tree(), "seed {seed}, fuel {fuel}");
            // Once more, it does nothing.
            onto.fuel = Some(0);
            replay(&client.lost, &mut noted, &mut onto);
        }
    }
}

#[test]
fn s63_what_the_server_had_made_before_is_not_made_again() {
    let mut found = 0;
    for seed in 0..SEEDS / 5 {
        let (_, client, _) = worked(seed, true);
        let states = client.before.iter().chain([&client.model]);
        for (made, state) in states.enumerate() {
            let mut onto = state.clone();
            let already = Replay::new(root(), &client.lost).already(&mut onto);
            let already = already.expect("looks never fail");
            assert!(already <= made, "seed {seed}: {already} of {made}");
            found += already;
            let mut noted = vec![Progress::Already(already as u64)];
            let (is_over, told) = replay(&client.lost, &mut noted, &mut onto);
            assert!(is_over);
            assert_eq!(told, [], "seed {seed}, made {made}");
            assert_eq!(onto.tree(), client.model.tree(), "seed {seed}, made {made}");
        }
    }
    assert!(found > 10_000, "{found}");
}

#[test]
fn s63_what_the_server_has_refused_is_made_though_later_changes_are_there() {
    let mut refused = 0;
    for seed in 0..SEEDS / 5 {
        let (_, client, _) = worked(seed, false);
        let changes = client.lost.changes.iter().map(|one| &one.operation.change);
        for (index, change) in changes.clone().enumerate() {
            let Change::Write { object, data, .. } = change else {
                continue;
            };
            let is_of_it = |change: &Change| {
                let of = match change {
                    Change::Write { object, .. } | Change::Resize { object, .. } => Some(object),
                    _ => None,
                };
                of == Some(object)
            };
            let number = client.number(*object);
            let has_name = client.model.names.values().any(|one| *one == number);
            if !has_name || changes.clone().skip(index + 1).any(is_of_it) {
                continue;
            }
            let mut onto = client.model.clone();
            let before = client.before[index].things[&number].clone();
            let thing = onto.things.get_mut(&number).expect("it has a name");
            (thing.data, thing.modified) = (before.data, before.modified);
            let already = Replay::new(root(), &client.lost).already(&mut onto);
            let already = already.expect("looks never fail");
            assert!(
                already <= index,
                "seed {seed}: {already}, and {index} was refused"
            );
            let (is_over, _) = replay(
                &client.lost,
                &mut vec![Progress::Already(already as u64)],
                &mut onto,
            );
            assert!(is_over);
            let all = onto.tree().into_values().map(|thing| thing.data);
            let mut has = all.map(|all| all.windows(data.len()).any(|part| part == *data));
            assert!(has.any(|has| has), "seed {seed}: change {index} is gone");
            refused += 1;
        }
    }
    assert!(refused > 300, "{refused}");
}

#[test]
fn s63_what_others_write_while_a_replay_is_interrupted_is_there_afterwards() {
    let mut written = 0;
    for seed in 0..SEEDS / 5 {
        let (before, client, mut random) = worked(seed, false);
        for fuel in 1.. {
            let mut onto = before.clone();
            let mut noted = Vec::new();
            onto.fuel = Some(fuel);
            if replay(&client.lost, &mut noted, &mut onto).0 {
                break;
            }
            onto.fuel = None;
            let files = onto.tree().into_iter();
            let files = files.filter(|(_, thing)| thing.kind == NewKind::Regular);
            let paths: Vec<_> = files.map(|(path, _)| path).collect();
            let mut texts = Vec::new();
            for path in paths.iter().filter(|_| random.bool()) {
                texts.push(format!("[{}]", texts.len()));
                onto.append(path, texts.last().expect("one"));
            }
            written += texts.len();
            let (is_over, _) = replay(&client.lost, &mut noted, &mut onto);
            assert!(is_over);
            let all: Vec<_> = onto.tree().into_values().map(|thing| thing.data).collect();
            for text in texts {
                let has = |data: &Vec<u8>| {
                    let mut parts = data.windows(text.len());
                    parts.any(|part| part == text.as_bytes())
                };
                assert!(
                    all.iter().any(has),
                    "seed {seed}, fuel {fuel}: {text} is gone"
                );
            }
        }
    }
    assert!(written > 1000, "{written}");
}

#[test]
fn s63_what_others_have_written_and_what_was_lost_are_both_there_afterwards() {
    let (mut conflicts, mut left) = (0, 0);
    for seed in 0..SEEDS {
        let (onto, client, mut random) = worked(seed, false);
        let mut others = Client::new(onto, 2_000_000);
        for _ in 0..random.usize(1..12) {
            others.step(&mut random);
        }
        let mut onto = others.model.clone();
        for thing in onto.things.values_mut() {
            // Those of the client are in angle brackets, too.
            thing
                .data
                .iter_mut()
                .filter(|byte| **byte == b'<')
                .for_each(|byte| *byte = b'[');
        }
        let theirs = onto.tree();
        let (is_over, told) = replay(&client.lost, &mut Vec::new(), &mut onto);
        assert!(is_over);
        conflicts += told.len();
        let has = |bytes: &[u8]| {
            let mut all = onto.tree().into_values();
            all.any(|thing| {
                thing
                    .data
                    .windows(bytes.len().max(1))
                    .any(|part| part == bytes)
            })
        };
        for (path, thing) in &theirs {
            let is_new = thing.data.contains(&b'[');
            assert!(!is_new || has(&thing.data), "seed {seed}: {path:?} is gone");
        }
        for text in &client.written {
            let is_there = client.model.tree().values().any(|thing| {
                thing
                    .data
                    .windows(text.len())
                    .any(|part| part == text.as_bytes())
            });
            assert!(
                !is_there || has(text.as_bytes()),
                "seed {seed}: {text} is not made"
            );
        }
        left += told
            .iter()
            .filter(|told| matches!(told.what, Became::Left(..)))
            .count();
    }
    assert!(conflicts > 1000 && left > 100, "{conflicts} {left}");
}

fn path(text: &str) -> Vec<Name> {
    text.split('/').map(name).collect()
}

#[test]
fn what_stands_in_the_way_keeps_its_name() {
    let mut before = Model::default();
    before.put(&path("d"), NewKind::Directory);
    before.put(&path("d/f"), NewKind::Regular);
    let mut client = Client::new(before.clone(), 1_000_000);
    let mut random = fastrand::Rng::with_seed(1);
    while client.lost.changes.len() < 4 {
        client.step(&mut random);
    }
    // All is gone.
    let mut onto = Model::default();
    let (is_over, told) = replay(&client.lost, &mut Vec::new(), &mut onto);
    assert!(is_over);
    let is_beside = |told: &Told| !matches!(told.what, Became::Beside(_));
    assert!(told.iter().all(is_beside), "{told:?}");
    assert!(
        !onto.names.contains_key(&path("d")),
        "{:?}",
        onto.names.keys()
    );
}

#[test]
fn a_file_is_read_as_it_was_written() {
    for seed in 0..50 {
        let (mut onto, client, _) = worked(seed, true);
        let begins = Begins {
            source: "host:src".to_owned(),
            mount_point: b"/mnt".to_vec(),
            root: root(),
            at: surmise_lower::Timestamp::default(),
            why: "a test".to_owned(),
        };
        let mut frames: Vec<_> = client.lost.frames(begins.clone()).collect();
        let read = |frames: &[Vec<u8>], boot: &[u8]| {
            let mut reader = Reader::new(boot.to_vec());
            frames
                .iter()
                .for_each(|frame| reader.take(frame).expect("an entry"));
            reader.end().expect("a file")
        };
        let file = read(&frames, b"1");
        assert_eq!((&file.begins, &file.lost), (&begins, &client.lost));
        assert!(lines(root(), &file.lost).len() <= file.lost.changes.len());
        let mut noted = Vec::new();
        replay(&file.lost, &mut noted, &mut onto);
        let replays = Entry::Replays(Replays {
            onto: b"/mnt".to_vec(),
            boot: b"1".to_vec(),
        });
        frames.push(replays.encode());
        let half = noted.len() / 2;
        for (index, progress) in noted.iter().enumerate() {
            if index == half {
                frames.push(Entry::Synced.encode());
            }
            frames.push(Entry::Progress(progress.clone()).encode());
        }
        assert_eq!(read(&frames, b"1").progress, noted);
        // The machine was started again: what was not synced may be gone.
        assert_eq!(read(&frames, b"2").progress, noted[..half]);
        frames.push(Entry::Over.encode());
        assert!(read(&frames, b"1").is_over);
        let late = Entry::Progress(Progress::Begins(Step::Make {
            beside: None,
            moves: None,
        }));
        let mut reader = Reader::new(Vec::new());
        assert!(reader.take(&late.encode()).is_err());
    }
}
