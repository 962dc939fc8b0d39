//! How often a program waits for the network.

mod world;

use world::{World, export, id, name, nothing, reads, touches};

#[test]
fn a_walk_through_many_objects_waits_for_few_answers() {
    for (directories, files, is_backwards, most) in [
        (100, 100, false, 4.0),
        (100, 100, true, 4.0),
        (1, 10_000, false, 4.0),
        (1000, 100, false, 15.0),
        (1000, 100, true, 15.0),
    ] {
        let mut world = World::new(export(directories, files, 10), 1);
        world.is_backwards = is_backwards;
        let cold = world.waits(|world| world.walk(0, &mut nothing));
        let warm = world.waits(|world| world.walk(0, &mut nothing));
        assert!(cold <= most, "{directories} by {files}: {cold}");
        assert_eq!(warm, 0.0, "{directories} by {files}");
    }
}

#[test]
fn small_files_that_are_read_in_order_come_by_many() {
    let mut world = World::new(export(10, 100, 4000), 1);
    let cold = world.waits(|world| world.walk(0, &mut reads(0)));
    assert!(cold <= 6.0, "{cold}");
    let warm = world.waits(|world| world.walk(0, &mut reads(0)));
    assert_eq!(warm, 0.0);
}

#[test]
fn a_walk_where_another_client_was_waits_for_few_answers() {
    let mut world = World::new(export(10, 100, 4000), 2);
    world.walk(0, &mut nothing);
    let read = world.waits(|world| world.walk(1, &mut nothing));
    assert!(read <= 24.0, "to read what the other may change: {read}");
    let changed = world.waits(|world| world.walk(0, &mut touches(0)));
    assert!(changed <= 24.0, "to change what the other reads: {changed}");
    let read = world.waits(|world| world.walk(1, &mut nothing));
    assert!(read <= 24.0, "to read what the other has changed: {read}");
}

/// Each reads what the other has written in its turn, and writes another file.
#[test]
fn clients_that_write_one_directory_in_turns_wait_for_few_answers() {
    let mut world = World::new(export(1, 10, 10), 2);
    let directory = world.names(0, id(2)).remove(0);
    for turn in 0..8 {
        let client = turn % 2;
        let waited = world.waits(|world| {
            let (parent, _) = world.find(client, id(2), directory.clone());
            if turn > 0 {
                let last = name(&format!("turn{}", turn - 1));
                let (object, attributes) = world.find(client, parent, last);
                reads(client)(world, object, attributes.size);
            }
            world.write_new(client, parent, name(&format!("turn{turn}")));
        });
        // When both know the directory: two to read it, one for the data, and two to change the directory.
        assert!(turn < 2 || waited <= 5.0, "turn {turn}: {waited}");
    }
}

#[test]
fn what_an_earlier_mount_has_read_is_not_sent_again() {
    for (directories, files, size) in [(10, 100, 4000), (1, 4, 3_000_000)] {
        let all = usize::try_from(directories * files * size).expect("small");
        let mut world = World::new(export(directories, files, size), 1);
        let cold = world.waits(|world| world.walk(0, &mut reads(0)));
        assert!(world.sent_bytes >= all);
        world.unmount(0);
        world.sent_bytes = 0;
        let again = world.mount();
        let warm = world.waits(|world| world.walk(again, &mut reads(again)));
        assert_eq!(world.sent_bytes, 0);
        // All of it is asked for, but nothing waits longer for that than for the bytes.
        assert!(warm <= cold, "{warm} in place of {cold}");
        world.unmount(again);
        // Programs of the server change one file while nobody has mounted.
        let changed = world.kept.keys().map(|(object, _)| *object).min();
        world.contents.insert(changed.expect("all are kept"), 7);
        let last = world.mount();
        world.walk(last, &mut reads(last));
        assert_eq!(world.sent_bytes as u64, size);
    }
}

#[test]
fn files_of_one_directory_that_are_read_in_any_order_come_together() {
    const FILES: u64 = 60;
    // What lies in other directories is found first, and is of no use.
    let mut world = World::new(export(3, FILES, 14_000), 1);
    let directory = world.names(0, id(2)).remove(1);
    let (directory, _) = world.find(0, id(2), directory);
    let read = |world: &mut World, number: u64| {
        let (file, attributes) = world.find(0, directory, name(&format!("f{number:05}")));
        reads(0)(world, file, attributes.size);
    };
    let waited = world.waits(|world| {
        // 37 has no divisor in common with 60, so each comes once.
        (0..FILES).for_each(|turn| read(world, (30 + turn * 37) % FILES));
    });
    assert!(waited <= 4.0, "{waited}");
}
