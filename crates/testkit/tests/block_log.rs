//! The recording disk keeps what was flushed and may lose what was not.

use std::fs::{self, File};
use std::time::Duration;

use surmise_testkit::{BlockLog, PowerLoss};

const LIMIT: Duration = Duration::from_secs(60);

#[test]
fn a_loss_of_power_leaves_what_was_flushed() {
    let test = "a_loss_of_power_leaves_what_was_flushed";
    BlockLog::with(test, 32 << 20, LIMIT, |disk| {
        disk.make_ext4();
        let mounted = disk.mount();
        let path = |name: &str| mounted.path().join(name);
        fs::write(path("before"), "before").unwrap();
        rustix::fs::syncfs(File::open(mounted.path()).unwrap()).unwrap();
        disk.record();
        fs::write(path("flushed"), "flushed").unwrap();
        File::open(path("flushed")).unwrap().sync_all().unwrap();
        fs::write(path("not flushed"), "not flushed").unwrap();
        let flushes = disk.stop().len() - 1;
        drop(mounted);
        assert!(flushes > 0, "the fsync brought no flush");

        let found = |loss| {
            disk.lose_power(loss);
            let mounted = disk.mount();
            let read = |name| fs::read_to_string(mounted.path().join(name)).ok();
            let names = ["before", "flushed", "not flushed"].map(read);
            names.map(|text| text.unwrap_or_default())
        };
        let last = found(PowerLoss {
            flushes,
            seed: None,
        });
        assert_eq!(last, ["before", "flushed", ""]);
        let first = found(PowerLoss {
            flushes: 0,
            seed: None,
        });
        assert_eq!(first, ["before", "", ""]);
        for seed in 0..8 {
            let [before, flushed, later] = found(PowerLoss {
                flushes: 0,
                seed: Some(seed),
            });
            assert_eq!(before, "before");
            assert!(["", "flushed"].contains(&flushed.as_str()), "{flushed:?}");
            assert_eq!(later, "");
        }
    });
}
