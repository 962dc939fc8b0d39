//! A real file that changes outside while an object borrows from it.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;

use rustix::io::Errno;

use crate::world::{Call, Opened, SIZE, World, read_view};

fn is_refused(opened: &Opened<'_>, at: u64) -> bool {
    match read_view(&opened.view, opened.node, at, 10) {
        Ok(_) => false,
        Err(error) => {
            assert_eq!(error.raw_os_error(), Some(Errno::IO.raw_os_error()));
            true
        }
    }
}

/// What somebody does to a real file.
type Outside = fn(&World);

/// A block of the view's own, and all others borrowed.
fn borrowing(world: &World) -> Opened<'_> {
    let mut opened = world.open();
    opened.call(&Call::Write {
        at: 1 << 16,
        length: 1 << 16,
        fill: 9,
    });
    opened.call(&Call::Write {
        at: SIZE,
        length: 4,
        fill: 8,
    });
    opened
}

#[test]
fn versions_of_a_real_file_are_not_mixed() {
    let replaced = |world: &World| {
        fs::copy(world.real(), world.lower.path().join("new")).unwrap();
        fs::rename(world.lower.path().join("new"), world.real()).unwrap();
    };
    let written = |world: &World| {
        let file = File::options().write(true).open(world.real()).unwrap();
        file.write_all_at(b"changed", 0).unwrap();
    };
    let removed = |world: &World| fs::remove_file(world.real()).unwrap();
    // Another inode under the name is another file to a view that is opened anew.
    let changes: [(Outside, usize); 3] = [(replaced, 1), (removed, 1), (written, 2)];
    for (change, times) in changes {
        let world = World::new();
        let mut opened = borrowing(&world);
        assert!(!is_refused(&opened, 0));
        // A later tick of the clock that stamps inodes, where that is a coarse one.
        std::thread::sleep(std::time::Duration::from_millis(20));
        change(&world);
        for time in 0..times {
            assert!(is_refused(&opened, 0), "borrowed bytes");
            assert!(is_refused(&opened, (1 << 16) - 5), "partly borrowed");
            assert!(!is_refused(&opened, 1 << 16), "own bytes");
            assert!(!is_refused(&opened, SIZE), "bytes behind the limit");
            let half = opened.view.write(opened.node, 5, b"x", false);
            assert!(half.is_err(), "the rest of the block is gone");
            let block = vec![3; 1 << 16];
            opened
                .view
                .write(opened.node, 2 << 16, &block, false)
                .unwrap();
            assert!(
                !is_refused(&opened, 2 << 16),
                "a block that was overwritten"
            );
            if time + 1 < times {
                opened.call(&Call::Reopen);
            }
        }
    }
}
