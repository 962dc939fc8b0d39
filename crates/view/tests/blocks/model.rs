//! Random calls on a large file, against a plain one.

use proptest::prelude::*;
use rustix::fs::FallocateFlags;

use crate::world::{Call, SIZE, World};

/// Places near the ends of blocks and of the file, and others.
fn place() -> impl Strategy<Value = u64> {
    let block = (0..SIZE / (1 << 16) + 2, -2..3i64);
    prop_oneof![
        block.prop_map(|(block, off)| (block << 16).saturating_add_signed(off)),
        0..SIZE + (1 << 18),
        (-2..3i64).prop_map(|off| SIZE.saturating_add_signed(off)),
    ]
}

fn length() -> impl Strategy<Value = u64> {
    prop_oneof![
        1..10u64,
        1..1u64 << 13,
        (1..4u64).prop_map(|n| n << 16),
        1..1u64 << 18
    ]
}

fn call() -> impl Strategy<Value = Call> {
    let modes = [
        FallocateFlags::empty(),
        FallocateFlags::KEEP_SIZE,
        FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
        FallocateFlags::ZERO_RANGE,
        FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE,
    ];
    let modes = modes.map(|mode| mode.bits());
    let allocate = (place(), length(), prop::sample::select(modes.to_vec()));
    prop_oneof![
        6 => (place(), length(), 0..250u8)
            .prop_map(|(at, length, fill)| Call::Write { at, length, fill }),
        4 => (place(), length()).prop_map(|(at, length)| Call::Read { at, length }),
        3 => place().prop_map(Call::Truncate),
        3 => allocate.prop_map(|(at, length, mode)| Call::Allocate { at, length, mode }),
        2 => (place(), any::<bool>()).prop_map(|(at, hole)| Call::Seek { at, hole }),
        1 => (place(), place(), length()).prop_map(|(from, to, length)| {
            // The kernel refuses ranges that overlap, before it asks.
            match from.abs_diff(to) {
                0 => Call::Copy { from, to: to + length, length },
                apart => Call::Copy { from, to, length: length.min(apart) },
            }
        }),
        1 => Just(Call::Reopen),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn a_large_file_behaves_as_a_plain_one(calls in prop::collection::vec(call(), 1..25)) {
        let world = World::new();
        let mut opened = world.open();
        for call in &calls {
            opened.call(call);
        }
        opened.compare();
        opened.call(&Call::Reopen);
        opened.compare();
        let real = std::fs::metadata(world.real()).unwrap();
        prop_assert_eq!(real.len(), SIZE, "the real file was changed");
    }
}

#[test]
fn an_append_stores_a_block_of_the_file_system() {
    let world = World::new();
    let mut opened = world.open();
    opened.call(&Call::Write {
        at: SIZE,
        length: 1,
        fill: 7,
    });
    opened.compare();
    assert!(world.stored() <= 1 << 16, "{} bytes", world.stored());
}

#[test]
fn what_was_cut_off_does_not_come_back() {
    // The growing call is made by another view, as after a kill, and by the same.
    for (is_reopened, grow) in [
        (false, Call::Truncate(SIZE)),
        (true, Call::Truncate(SIZE)),
        (
            true,
            Call::Write {
                at: SIZE,
                length: 5,
                fill: 1,
            },
        ),
        (
            true,
            Call::Allocate {
                at: SIZE - 5,
                length: 5,
                mode: 0,
            },
        ),
    ] {
        let world = World::new();
        let mut opened = world.open();
        // From here on it borrows.
        opened.call(&Call::Write {
            at: SIZE,
            length: 1,
            fill: 7,
        });
        // In the middle of a block.
        opened.call(&Call::Truncate(3 * (1 << 16) / 2));
        if is_reopened {
            opened.call(&Call::Reopen);
        }
        opened.call(&grow);
        opened.compare();
        opened.call(&Call::Reopen);
        opened.compare();
    }
}

#[test]
fn the_holes_of_a_real_file_stay_holes() {
    let world = World::new();
    let mut opened = world.open();
    let before = |hole| opened.view.seek(opened.node, 0, hole).unwrap();
    let hole = before(true);
    let data = opened.view.seek(opened.node, hole, false).unwrap();
    assert!(
        hole < data && data < SIZE,
        "the file was planted with a hole"
    );
    opened.call(&Call::Write {
        at: SIZE,
        length: 1,
        fill: 7,
    });
    assert_eq!(opened.view.seek(opened.node, 0, true).unwrap(), hole);
    assert_eq!(opened.view.seek(opened.node, hole, false).unwrap(), data);
    assert_eq!(opened.view.seek(opened.node, data, true).unwrap(), SIZE + 1);
    let errno = |at, hole| {
        let sought = opened.view.seek(opened.node, at, hole);
        sought.unwrap_err().raw_os_error()
    };
    let none = Some(rustix::io::Errno::NXIO.raw_os_error());
    assert_eq!(
        (errno(SIZE + 1, true), errno(SIZE + 1, false)),
        (none, none)
    );
}
