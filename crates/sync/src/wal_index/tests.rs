use std::fs;
use tempfile::TempDir;

use super::*;

type Change = fn(&Scene);

/// A base with a log, and an index that was just made.
struct Scene {
    place: TempDir,
    indexes: WalIndexes,
}

impl Scene {
    fn new() -> Self {
        let scene = Self {
            place: TempDir::new().expect("a directory"),
            indexes: WalIndexes::default(),
        };
        let mut base = vec![0; 4096];
        base[..16].copy_from_slice(MAGIC);
        base[18..20].copy_from_slice(&VERSIONS);
        scene.write("base", &base);
        scene.write("base-wal", b"");
        scene.write("base-shm", &[0; 32 << 10]);
        scene
    }

    fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    fn write(&self, name: &str, content: &[u8]) {
        fs::write(self.path(name), content).expect("write");
    }

    /// Changes some bytes of a file.
    fn patch(&self, name: &str, at: usize, bytes: &[u8]) {
        let mut content = fs::read(self.path(name)).expect("read");
        content[at..at + bytes.len()].copy_from_slice(bytes);
        self.write(name, &content);
    }

    fn rename(&self, from: &str, to: &str) {
        fs::rename(self.path(from), self.path(to)).expect("rename");
    }

    fn map(&self, name: &str) -> SharedMap {
        let found = rustix::fs::stat(self.path(name)).expect("a file");
        SharedMap {
            addresses: 0x10000..0x18000,
            is_writable: true,
            offset: 0,
            device: found.st_dev,
            inode: found.st_ino,
            path: self.path(name),
        }
    }

    fn takes(&mut self, map: &SharedMap) -> bool {
        self.indexes.clear();
        self.indexes
            .take(map, &["/nowhere".into(), "/".into()], map.device)
    }

    fn takes_after(change: impl FnOnce(&Self)) -> bool {
        let mut scene = Self::new();
        change(&scene);
        let map = scene.map("base-shm");
        scene.takes(&map)
    }

    fn stands_after(change: impl FnOnce(&Self)) -> bool {
        let mut scene = Self::new();
        let map = scene.map("base-shm");
        assert!(scene.takes(&map) && scene.indexes.stand());
        change(&scene);
        scene.indexes.stand()
    }
}

#[test]
fn an_index_is_taken_from_its_first_map_on() {
    assert!(Scene::takes_after(|_| {}));
    let version = INDEX_VERSION.to_ne_bytes();
    assert!(Scene::takes_after(|scene| {
        scene.patch("base-shm", 0, &version);
        scene.patch("base-shm", 48, &version);
        scene.write("base-wal", &LOG_MAGICS[0].to_be_bytes());
    }));
    // While somebody writes it.
    assert!(Scene::takes_after(
        |scene| scene.patch("base-shm", 48, &version)
    ));
}

#[test]
fn what_lacks_any_of_its_marks_is_none() {
    let wrong: [(&str, Change); 11] = [
        ("no log", |scene| {
            fs::remove_file(scene.path("base-wal")).expect("remove")
        }),
        ("no base", |scene| {
            fs::remove_file(scene.path("base")).expect("remove")
        }),
        ("another log", |scene| {
            scene.write("base-wal", b"a log of ours")
        }),
        ("another base", |scene| scene.patch("base", 0, b"sqlite")),
        ("a base without a log", |scene| {
            scene.patch("base", 18, &[1, 1])
        }),
        ("a base cut short", |scene| scene.write("base", MAGIC)),
        ("another version", |scene| {
            scene.patch("base-shm", 0, b"ours")
        }),
        ("another second version", |scene| {
            scene.patch("base-shm", 48, b"ours")
        }),
        ("one cut short", |scene| scene.write("base-shm", &[0; 40])),
        ("two names", |scene| {
            fs::hard_link(scene.path("base-shm"), scene.path("kept")).expect("link");
        }),
        ("a base behind a link", |scene| {
            scene.rename("base", "other");
            std::os::unix::fs::symlink("other", scene.path("base")).expect("link");
        }),
    ];
    for (what, change) in wrong {
        assert!(!Scene::takes_after(change), "{what}");
    }
}

#[test]
fn another_map_is_none() {
    let mut scene = Scene::new();
    scene.write("data", &[0; 32 << 10]);
    let (index, data) = (scene.map("base-shm"), scene.map("data"));
    assert!(scene.takes(&index) && !scene.takes(&data));
    // A part of a region, another file under the name, another file system, one that was removed.
    let part = SharedMap {
        addresses: 0x10000..0x11000,
        ..index.clone()
    };
    let within = SharedMap {
        offset: 0x1000,
        ..index.clone()
    };
    let other = SharedMap {
        inode: data.inode,
        ..index.clone()
    };
    let removed = SharedMap {
        path: scene.path("base-shm (deleted)"),
        ..index.clone()
    };
    for map in [part, within, other, removed] {
        assert!(!scene.takes(&map), "{map:?}");
    }
    scene.indexes.clear();
    assert!(
        !scene
            .indexes
            .take(&index, &["/nowhere".into(), "/".into()], index.device + 1)
    );
}

#[test]
fn one_whose_names_change_is_none_any_more() {
    assert!(Scene::stands_after(|_| {}));
    assert!(!Scene::stands_after(
        |scene| scene.rename("base-shm", "kept")
    ));
    assert!(!Scene::stands_after(|scene| scene.rename("base", "kept")));
    assert!(!Scene::stands_after(|scene| {
        fs::hard_link(scene.path("base-shm"), scene.path("kept")).expect("link");
    }));
    assert!(!Scene::stands_after(|scene| {
        scene.write("new", b"another");
        scene.rename("new", "base");
    }));
}

#[test]
fn one_that_somebody_wants_durable_is_none_any_more() {
    let mut scene = Scene::new();
    let (index, base) = (scene.map("base-shm"), scene.map("base"));
    assert!(scene.takes(&index));
    assert!(scene.indexes.have(index.inode) && !scene.indexes.have(base.inode));
    scene.indexes.want(base.inode);
    assert!(scene.indexes.stand());
    scene.indexes.want(index.inode);
    assert!(!scene.indexes.stand() && !scene.takes(&index));
}

#[test]
fn more_than_can_be_looked_at_each_time_are_none() {
    let mut scene = Scene::new();
    let names: Vec<_> = (0..=COUNT_MAX)
        .map(|number| format!("base{number}"))
        .collect();
    for name in &names {
        for end in ["", "-wal", "-shm"] {
            fs::copy(
                scene.path(&format!("base{end}")),
                scene.path(&format!("{name}{end}")),
            )
            .expect("copy");
        }
    }
    let maps: Vec<_> = names
        .iter()
        .map(|name| scene.map(&format!("{name}-shm")))
        .collect();
    let take = |map: &SharedMap| {
        scene
            .indexes
            .take(map, &["/nowhere".into(), "/".into()], map.device)
    };
    let taken: Vec<_> = maps.iter().map(take).collect();
    let mut wanted = vec![true; COUNT_MAX];
    wanted.push(false);
    assert_eq!(taken, wanted);
}
