//! Names that lead to FIFOs of the real file system: the task that opens one is not seen, so the look-up is told.

use std::ffi::OsStr;
use std::sync::Arc;

use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use surmise_twins::new_node;
use surmise_view::{FileKind, Lifetime, NodeId, View, ViewConfig};

#[test]
fn each_look_up_of_one_outside_is_told_and_of_nothing_else() {
    let (state, lower) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    mknodat(
        CWD,
        lower.path().join("outside"),
        FileType::Fifo,
        Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    std::fs::write(lower.path().join("file"), "").unwrap();
    let flags = EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC;
    let told = Arc::new(eventfd(0, flags).unwrap());
    let view = View::open(ViewConfig {
        fifos: Some(Arc::clone(&told)),
        ..ViewConfig::new(state.path(), lower.path())
    });
    let view = view.unwrap();
    let own = new_node(FileKind::Fifo);
    view.create(NodeId::ROOT, OsStr::new("own"), own).unwrap();
    for (name, times) in [("file", 0), ("own", 0), ("outside", 2)] {
        for _ in 0..2 {
            let found = view.lookup(NodeId::ROOT, OsStr::new(name)).unwrap();
            let entry = found.unwrap_or_else(|_| panic!("no {name}"));
            // What the kernel remembers it does not look up again.
            let is_forgotten = entry.name_lifetime == Lifetime::Never;
            assert_eq!(is_forgotten, times > 0, "{name}");
        }
        let mut count = [0; 8];
        let read = rustix::io::read(&told, &mut count).map_or(0, |_| u64::from_ne_bytes(count));
        assert_eq!(read, times, "{name}");
    }
}
