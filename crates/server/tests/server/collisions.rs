//! A client and others change the same at once.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use surmise_remote::client::{Intent, Lost};
use surmise_remote::errno::Errno;
use surmise_remote::object::ObjectId;
use surmise_remote::operation::{NewKind, NewObject};

use crate::client::Client;
use crate::kills::create;
use crate::noticed::until_shown;
use crate::process::Process;
use crate::waits::until;

fn write(client: &mut Client, object: ObjectId, text: &str) {
    let written = client.change(Intent::Write {
        object,
        offset: Some(0),
        data: text.into(),
        strip: false,
    });
    written.expect("write");
}

fn text(path: PathBuf) -> String {
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// What is kept of a file that had this name, as the server shows nobody.
fn lost(export: &Path, name: &str) -> Vec<String> {
    let all = fs::read_dir(export.join(".surmise/lost")).expect("list");
    let all = all.map(|entry| entry.expect("an entry").path());
    let is_of = |path: &PathBuf| {
        let kept = path.file_name().expect("a name").to_string_lossy();
        kept.starts_with(&format!("{name}.lost-"))
    };
    all.filter(is_of).map(text).collect()
}

/// What a client has changed and not sent, when others change the same.
pub fn both_are_kept_and_the_server_goes_on() {
    let export = tempfile::tempdir().expect("a directory");
    let path = export.path();
    fs::write(path.join("gone"), "before").expect("write");
    fs::write(path.join("both"), "before").expect("write");
    fs::create_dir(path.join("d")).expect("mkdir");
    let server = Process::start(path);
    let mut client = Client::new(path, 1);
    until_shown("at first", &mut client, path);
    // All of it is still with the client when others make theirs.
    let find = |client: &mut Client, name: &str| {
        let found = client.find(Path::new(name)).expect("look");
        found.expect("it is there").0
    };
    let (gone, both) = (find(&mut client, "gone"), find(&mut client, "both"));
    write(&mut client, gone, "client");
    write(&mut client, both, "client");
    let name = create(&mut client, "name");
    write(&mut client, name, "client");
    let inside = create(&mut client, "d/inside");
    write(&mut client, inside, "client");
    fs::remove_file(path.join("gone")).expect("remove");
    fs::write(path.join("both"), "others").expect("write");
    fs::write(path.join("name"), "others").expect("write");
    fs::remove_dir(path.join("d")).expect("remove");
    // It is in the log, or the client has learned by then that it could not be made.
    let _ = client.sync();
    until("the client is not told", || {
        client.pump();
        !client.lost.is_empty()
    });
    assert!(client.lost.iter().all(|(_, why)| *why == Lost::Overtaken));
    assert_eq!(
        client.call(surmise_remote::client::Request::Sync(0)),
        Err(Errno::IO)
    );
    until_shown("afterwards", &mut client, path);
    assert_eq!(text(path.join("name")), "client");
    assert_eq!(text(path.join("name.conflict-1")), "others");
    assert_eq!(text(path.join("both")), "client");
    assert_eq!(text(path.join("both.conflict-1")), "others");
    assert!(!path.join("gone").exists() && !path.join("d").exists());
    assert_eq!(lost(path, "gone"), ["client"]);
    assert_eq!(lost(path, "inside"), ["client"]);
    // It goes on, and so does the next one.
    let more = create(&mut client, "more");
    write(&mut client, more, "client");
    client.sync().expect("sync");
    server.kill();
    let server = Process::start(path);
    until_shown("the next server", &mut client, path);
    assert_eq!(text(path.join("more")), "client");
    client.leave();
    server.stop();
}

/// What others have written since a client did is not overwritten by the next server, which makes the log once more.
pub fn a_server_that_is_killed_takes_nothing_from_others() {
    let export = tempfile::tempdir().expect("a directory");
    let path = export.path();
    for round in 0..3 {
        let server = Process::start(path);
        let mut client = Client::new(path, round);
        let name = format!("file{round}");
        let object = create(&mut client, &name);
        write(&mut client, object, "client");
        client.sync().expect("sync");
        until("it is not made", || {
            fs::read_to_string(path.join(&name)).is_ok_and(|text| text == "client")
        });
        let edit = || fs::write(path.join(&name), "others, later").expect("write");
        if round == 0 {
            edit();
            until_shown("the edit", &mut client, path);
            server.kill();
        } else {
            // The times of files are settled before the server says that all is made.
            client.leave();
            if round == 1 {
                edit();
            }
            server.kill();
            if round == 2 {
                edit();
            }
            client = Client::new(path, 10 + round);
        }
        let server = Process::start(path);
        until_shown("the next server", &mut client, path);
        assert_eq!(text(path.join(&name)), "others, later", "{round}");
        client.leave();
        server.stop();
    }
}

/// The kernel refuses what the tree allows.
pub fn what_the_kernel_refuses_is_kept() {
    let export = tempfile::tempdir().expect("a directory");
    let path = export.path();
    fs::write(path.join("fixed"), "before").expect("write");
    fs::create_dir(path.join("d")).expect("mkdir");
    let chattr = |flag: &str| {
        let mut chattr = Command::new("chattr");
        let status = chattr
            .arg(flag)
            .arg(path.join("fixed"))
            .arg(path.join("d"))
            .status();
        status.is_ok_and(|status| status.success())
    };
    if !chattr("+i") {
        return surmise_testkit::skip("no file can be made immutable here");
    }
    let server = Process::start(path);
    let mut client = Client::new(path, 1);
    let fixed = client
        .find(Path::new("fixed"))
        .expect("look")
        .expect("there")
        .0;
    write(&mut client, fixed, "client");
    let inside = create(&mut client, "d/inside");
    write(&mut client, inside, "client");
    // It is in the log, or the client has learned by then that it could not be made.
    let _ = client.sync();
    until("the client is not told", || {
        client.pump();
        !client.lost.is_empty()
    });
    until_shown("afterwards", &mut client, path);
    let other = create(&mut client, "other");
    write(&mut client, other, "client");
    client.leave();
    server.stop();
    assert!(chattr("-i"));
    assert_eq!(text(path.join("fixed")), "before");
    assert_eq!(text(path.join("other")), "client");
    assert_eq!(lost(path, "fixed"), ["client"]);
    assert_eq!(lost(path, "inside"), ["client"]);
    let mode = fs::metadata(path.join(".surmise")).expect("look");
    assert_eq!(mode.permissions().mode() & 0o777, 0o700);
}

/// Some path; most of them are met again.
fn some_path(random: &mut fastrand::Rng) -> PathBuf {
    let mut path = PathBuf::new();
    for _ in 0..random.usize(1..4) {
        path.push(char::from(b'a' + random.u8(0..3)).to_string());
    }
    path
}

/// Something that a client does, whatever becomes of it.
fn client_does(client: &mut Client, random: &mut fastrand::Rng) -> Result<(), Errno> {
    let path = some_path(random);
    let intent = match random.u8(0..10) {
        0..=3 => Intent::Create {
            place: client.place(&path)?,
            new: NewObject {
                kind: match random.bool() {
                    true => NewKind::Regular,
                    false => NewKind::Directory,
                },
                permissions: 0o755,
                owner: rustix::process::geteuid().as_raw(),
                group: rustix::process::getegid().as_raw(),
            },
        },
        4 => Intent::Remove {
            place: client.place(&path)?,
            directory: random.bool(),
        },
        5 | 6 => Intent::Rename {
            from: client.place(&path)?,
            to: client.place(&some_path(random))?,
            no_replace: false,
            exchange: random.u8(0..4) == 0,
        },
        7 => Intent::Link {
            object: client.find(&path)?.ok_or(Errno::NOENT)?.0,
            place: client.place(&some_path(random))?,
        },
        _ => Intent::Write {
            object: client.find(&path)?.ok_or(Errno::NOENT)?.0,
            offset: None,
            data: vec![b'c'; random.usize(1..100)],
            strip: false,
        },
    };
    client.change(intent).map(drop)
}

fn others_do(export: &Path, random: &mut fastrand::Rng) -> std::io::Result<()> {
    let path = export.join(some_path(random));
    match random.u8(0..9) {
        0 | 1 => fs::write(path, vec![b'o'; random.usize(1..100)]),
        2 | 3 => fs::create_dir(path),
        4 => fs::remove_file(path),
        5 => fs::remove_dir_all(path),
        6 => fs::hard_link(path, export.join(some_path(random))),
        _ => fs::rename(path, export.join(some_path(random))),
    }
}

/// How many seeds are tried unless `SURMISE_SEEDS` says another number.
const SEEDS: u64 = 10;

/// Both do anything anywhere: the server goes on, and afterwards the client shows what is there.
pub fn whatever_both_do_they_come_to_see_the_same() {
    let seeds =
        std::env::var("SURMISE_SEEDS").map_or(SEEDS, |seeds| seeds.parse().expect("a number"));
    for seed in 0..seeds {
        let mut random = fastrand::Rng::with_seed(seed);
        let export = tempfile::tempdir().expect("a directory");
        let path = export.path();
        let mut server = Process::start(path);
        let mut client = Client::new(path, 1);
        for step in 0..200 {
            for _ in 0..random.usize(0..4) {
                // What others change meanwhile is seen while it comes to be, and may fail.
                let _ = client_does(&mut client, &mut random);
            }
            for _ in 0..random.usize(0..4) {
                let _ = others_do(path, &mut random);
            }
            if seed % 3 == 2 && step == 100 {
                server.kill();
                server = Process::start(path);
            }
        }
        // It fails where a change was not made.
        let _ = client.sync();
        until_shown(&format!("seed {seed}"), &mut client, path);
        client.leave();
        server.stop();
    }
}
