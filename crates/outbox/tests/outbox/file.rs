//! The bytes of the file.

use std::fs;
use std::io;
use std::path::Path;

use surmise_journal::{Format, Journal, OpenError, read_at};
use surmise_outbox::{End, HeldState, HoldId, Host, Outbox, OutboxError, Resend, Target, load};
use surmise_testkit::Scratch;

use crate::{curl, directory, tcp, udp};

const FORMAT: Format = Format {
    tag: "OUTBOX",
    version: 2,
};

/// One frame of every kind, with every kind of target; calls `each` after every frame.
fn every_record(directory: &Path, mut each: impl FnMut()) {
    let outbox = Outbox::open(directory).expect("open");
    let mut step = |act: &mut dyn FnMut(&Outbox)| {
        act(&outbox);
        outbox.flush().expect("flush");
        each();
    };
    let six = Host::Address("::1".parse().expect("an address"));
    step(&mut |outbox| {
        outbox.hold(tcp(8080), curl());
    });
    step(&mut |outbox| outbox.append(HoldId(1), b"GET / HTTP/1.1\r\n"));
    step(&mut |outbox| {
        outbox.hold(Target::Udp(six.clone(), 53), None);
    });
    step(&mut |outbox| outbox.append(HoldId(2), b""));
    let name = Host::Name("example.org".into());
    step(&mut |outbox| {
        outbox.hold(Target::Tcp(name.clone(), 443), None);
    });
    step(&mut |outbox| outbox.finish(HoldId(1), End::Closed));
    step(&mut |outbox| outbox.finish(HoldId(3), End::Reset));
    step(&mut |outbox| outbox.drop_hold(HoldId(3)).expect("drop"));
    step(&mut |outbox| outbox.mark_sending(&[HoldId(1)]).expect("mark"));
    step(&mut |outbox| outbox.mark_sent(HoldId(1), 16).expect("mark"));
    step(&mut |outbox| outbox.mark_sending(&[HoldId(2)]).expect("mark"));
    step(&mut |outbox| outbox.mark_left(HoldId(2), 0));
    let refused = io::Error::from_raw_os_error(111);
    step(&mut |outbox| outbox.mark_failed(HoldId(2), 0, &refused).expect("mark"));
    step(&mut |outbox| {
        assert_eq!(outbox.send_again(Resend::Whole).expect("again"), 1);
    });
    for target in [Target::Output, Target::Error, Target::Terminal] {
        step(&mut |outbox| {
            outbox.hold(target.clone(), None);
        });
    }
}

#[test]
fn every_frame_is_as_documented() {
    let scratch = Scratch::new();
    let directory = directory(&scratch);
    every_record(&directory, || {});
    let mut frames = Vec::new();
    read_at(&directory.join("outbox"), FORMAT, |_, payload| {
        frames.push(payload.to_vec());
    })
    .expect("a log");
    let hold = |tag: u8, hold: u8| vec![tag, hold, 0, 0, 0, 0, 0, 0, 0];
    let with = |tag, id, fields: &[&[u8]]| [hold(tag, id), fields.concat()].concat();
    let wanted = [
        with(
            1,
            1,
            &[
                &[1, 4, 127, 0, 0, 1, 0x90, 0x1f, 1, 41, 0, 0, 0, 4, 0, 0, 0],
                b"curl",
            ],
        ),
        with(2, 1, &[&[16, 0, 0, 0], b"GET / HTTP/1.1\r\n"]),
        with(1, 2, &[&[2, 6], &[0; 15], &[1, 53, 0, 0]]),
        with(2, 2, &[&[0, 0, 0, 0]]),
        with(1, 3, &[&[1, 0, 11, 0, 0, 0], b"example.org", &[0xbb, 1, 0]]),
        with(3, 1, &[&[1]]),
        with(3, 3, &[&[2]]),
        hold(4, 3),
        hold(5, 1),
        with(6, 1, &[&[16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]]),
        hold(5, 2),
        with(7, 2, &[&[0, 0, 0, 0, 0, 0, 0, 0]]),
        with(6, 2, &[&[0, 0, 0, 0, 0, 0, 0, 0, 111, 0, 0, 0]]),
        with(8, 2, &[&[0, 0, 0, 0, 0, 0, 0, 0]]),
        with(1, 4, &[&[3, 0]]),
        with(1, 5, &[&[4, 0]]),
        with(1, 6, &[&[5, 0]]),
    ];
    assert_eq!(frames, wanted);
}

#[test]
fn every_cut_keeps_exactly_the_whole_frames_and_is_gone_on_from_or_is_damage() {
    let scratch = Scratch::new();
    let directory = directory(&scratch);
    let path = directory.join("outbox");
    let mut states = vec![(0, load(&directory).expect("nothing"))];
    every_record(&directory, || {
        let length = fs::metadata(&path).expect("the outbox").len() as usize;
        states.push((length, load(&directory).expect("load")));
    });
    let bytes = fs::read(&path).expect("read");
    assert_eq!(states.len(), 18);
    assert_eq!(states[17].0, bytes.len());
    // From where a cut takes the newest mark, or what that mark says: the notes on what leaves are made durable,
    // and a cut of those would have it sent twice.
    let durable = 513..states[14].0;
    for cut in 0..=bytes.len() {
        fs::write(&path, &bytes[..cut]).expect("write");
        if durable.contains(&cut) {
            for error in [load(&directory).err(), Outbox::open(&directory).err()] {
                let is_damage = matches!(error, Some(OutboxError::Open(OpenError::Damaged(_))));
                assert!(is_damage, "cut at {cut}: {error:?}");
            }
            continue;
        }
        let whole = states.iter().rev().find(|(length, _)| *length <= cut);
        let (_, wanted) = whole.expect("the first state has no bytes");
        assert_eq!(&load(&directory).expect("load"), wanted, "cut at {cut}");

        let outbox = Outbox::open(&directory).expect("open");
        let hold = outbox.hold(udp(7), None);
        outbox.append(hold, b"later");
        drop(outbox);
        let mut held = load(&directory).expect("load");
        let added = held.channels.pop().expect("a hold");
        assert_eq!(&held, wanted, "cut at {cut}, gone on");
        assert_eq!(added.id, HoldId(wanted.channels.len() as u64 + 1));
        assert_eq!(added.first_line.as_deref(), Some("later"));
        fs::remove_file(&path).expect("remove");
    }
}

#[test]
fn the_states_of_all_holds_are_told() {
    let scratch = Scratch::new();
    let directory = directory(&scratch);
    every_record(&directory, || {});
    let held = load(&directory).expect("load");
    let states: Vec<_> = held.channels.iter().map(|channel| channel.state).collect();
    let wanted = [
        HeldState::Sent,
        HeldState::Open,
        HeldState::Dropped,
        HeldState::Open,
        HeldState::Open,
        HeldState::Open,
    ];
    assert_eq!(states, wanted);
    assert_eq!(held.channels[0].sender, curl());
    assert_eq!(held.pending().count(), 4);
}

#[test]
fn what_no_surmise_writes_is_refused_by_the_number_of_its_frame() {
    let opened = |hold: u8| vec![1, hold, 0, 0, 0, 0, 0, 0, 0, 3, 0];
    let plain = |tag: u8| vec![tag, 1, 0, 0, 0, 0, 0, 0, 0];
    let with = |tag: u8, fields: &[u8]| [plain(tag), fields.to_vec()].concat();
    let mut long = with(2, &65_537u32.to_le_bytes());
    long.resize(long.len() + 65_537, b'x');
    let bad = [
        vec![],
        plain(0),
        plain(7),
        plain(9),
        // Nothing of it is being sent, and nothing has failed.
        with(7, &[0; 8]),
        with(8, &[0; 8]),
        opened(1),
        opened(0),
        plain(2),
        with(2, &[2, 0, 0, 0, b'x']),
        with(2, &[0, 0, 0, 0]),
        long,
        with(3, &[0]),
        with(3, &[3]),
        with(4, &[0]),
        with(5, &[0]),
        with(6, &[0; 12]),
        [opened(2), vec![0]].concat(),
        vec![2, 9, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, b'x'],
        vec![1, 2, 0, 0, 0, 0, 0, 0, 0, 6, 0],
        vec![1, 2, 0, 0, 0, 0, 0, 0, 0, 1, 5, 0],
        vec![1, 2, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0xff, 1, 0, 0],
    ];
    for payload in bad {
        let scratch = Scratch::new();
        let directory = directory(&scratch);
        let path = directory.join("outbox");
        let mut journal = Journal::create_at(&path, FORMAT).expect("create");
        journal.append(&opened(1)).expect("append");
        journal.append(&payload).expect("append");
        let loaded = load(&directory).expect_err("malformed");
        assert!(matches!(loaded, OutboxError::Malformed(2)), "{payload:?}");
        let opened = Outbox::open(&directory).expect_err("malformed");
        assert!(matches!(opened, OutboxError::Malformed(2)), "{payload:?}");
    }
}

#[test]
fn another_version_is_refused_by_name() {
    let scratch = Scratch::new();
    let directory = directory(&scratch);
    let newer = Format {
        version: FORMAT.version + 1,
        ..FORMAT
    };
    Journal::create_at(&directory.join("outbox"), newer).expect("create");
    for error in [
        load(&directory).expect_err("another version"),
        Outbox::open(&directory).expect_err("another version"),
    ] {
        let OutboxError::Open(OpenError::WrongVersion { found: 3, .. }) = error else {
            panic!("{error}");
        };
    }
}

#[test]
fn nothing_is_made_before_the_first_hold() {
    let scratch = Scratch::new();
    let directory = directory(&scratch);
    let outbox = Outbox::open(&directory).expect("open");
    outbox.flush().expect("flush");
    assert!(outbox.pending().is_empty());
    assert!(!directory.join("outbox").exists());
    drop(outbox);
    assert_eq!(load(&directory).expect("load").channels, []);
}
