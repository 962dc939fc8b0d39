//! What others than the server change in its directory. To the server, this test's own process is one of those.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use surmise_remote::client::{Request, Response};
use surmise_remote::errno::Errno;

use crate::client::Client;
use crate::process::Process;
use crate::twin::try_paths_below;
use crate::waits::until;

/// How long a change may take to be seen.
const PATIENCE: Duration = Duration::from_secs(30);

/// The bits of a mode that tell the kind of the file.
const KIND: u32 = 0o170_000;

/// How many bytes of a file are compared.
const DATA_MAX: usize = 1 << 20;

/// Mode, number of names, size and data of each path.
type Picture = BTreeMap<PathBuf, (u32, u64, u64, Vec<u8>)>;

/// What is in the directory; an error where the server has changed it meanwhile.
fn real(export: &Path) -> io::Result<Picture> {
    let picture = |path: PathBuf| {
        let full = export.join(&path);
        let found = fs::symlink_metadata(&full)?;
        let data = match found.is_file() {
            true => {
                let mut data = fs::read(&full)?;
                data.truncate(DATA_MAX);
                data
            }
            false => Vec::new(),
        };
        let size = if found.is_dir() { 0 } else { found.size() };
        Ok((path, (found.mode(), found.nlink(), size, data)))
    };
    try_paths_below(export)?.into_iter().map(picture).collect()
}

/// What a client shows below its root; an error where it met what went meanwhile.
fn shown(client: &mut Client) -> Result<Picture, Errno> {
    let mut picture = Picture::new();
    let mut left = vec![(PathBuf::new(), client.root())];
    while let Some((at, directory)) = left.pop() {
        let Response::Names(names) = client.call(Request::Names(directory))? else {
            panic!("no names");
        };
        for name in names.into_keys() {
            let path = at.join(std::ffi::OsStr::from_bytes(name.as_bytes()));
            let Response::Entry(Some((object, known))) =
                client.call(Request::Lookup(directory, name))?
            else {
                return Err(Errno::NOENT);
            };
            let mode = known.kind.mode_bits() | u32::from(known.permissions);
            let is = |kind| mode & KIND == kind;
            let data = match is(0o100_000) {
                true => client.read(object, 0, DATA_MAX as u32)?,
                false => Vec::new(),
            };
            let size = if is(0o040_000) { 0 } else { known.size };
            if is(0o040_000) {
                left.push((path.clone(), object));
            }
            picture.insert(path, (mode, known.links.into(), size, data));
        }
    }
    Ok(picture)
}

/// Waits until a client shows what is in the directory.
#[track_caller]
pub fn until_shown(what: &str, client: &mut Client, export: &Path) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let (ours, real) = (shown(client), real(export));
        if real.is_ok() && ours.as_ref().ok() == real.as_ref().ok() {
            return;
        }
        let real = real.unwrap_or_default();
        let differs =
            |path: &&PathBuf| ours.as_ref().ok().and_then(|all| all.get(*path)) != real.get(*path);
        assert!(
            Instant::now() < deadline,
            "{what}: {:?}, {:?}",
            ours.as_ref().err(),
            real.keys().filter(differs).collect::<Vec<_>>()
        );
        client.pump();
    }
}

fn sh(export: &Path, script: &str) {
    let status = Command::new("sh")
        .args(["-ec", script])
        .current_dir(export)
        .status();
    assert!(status.expect("start a shell").success(), "{script}");
}

const SCRIPTS: &[&str] = &[
    "echo changed > file",
    "echo more >> d/file",
    // As long as before, and of the same time.
    "touch -r file stamp; echo CHANGED > file; touch -r stamp file; rm stamp",
    "echo new > d/new && mv d/new d/file",
    "ln file linked",
    "echo linked >> linked",
    "rm file",
    "mkdir -p made/in/there && echo text > made/in/there/file",
    "mv made d/moved",
    "echo more >> d/moved/in/there/file",
    "mv d/moved/in back && rmdir d/moved",
    "chmod 644 linked && chmod 755 back",
    "truncate -s 100 d/file",
    "rm -r back d && mkdir d && echo again > d/file",
    "ln -s d/file link && ln -sfn d link",
    "for i in 1 2 3 4 5 6 7 8; do echo $i > a$i; done; rm a1 a3; mv a2 a4",
];

fn what_others_change_is_seen_by(is_ordinary: bool) {
    let export = tempfile::tempdir().expect("a directory");
    let path = export.path();
    fs::create_dir(path.join("d")).expect("mkdir");
    fs::write(path.join("file"), "text").expect("write");
    fs::write(path.join("d/file"), "text").expect("write");
    // Others have all rights, and the server need not.
    fs::set_permissions(path, fs::Permissions::from_mode(0o777)).expect("chmod");
    let server = Process::start_with(path, 2_000, is_ordinary);
    let mut clients = [Client::new(path, 1), Client::new(path, 2)];
    for client in &mut clients {
        until_shown("at first", client, path);
    }
    for script in SCRIPTS {
        // Both know all of it.
        sh(path, script);
        for client in &mut clients {
            until_shown(script, client, path);
        }
    }
    for client in clients {
        assert!(client.lost.is_empty(), "{:?}", client.lost);
        client.leave();
    }
    server.stop();
}

pub fn what_others_change_is_seen() {
    what_others_change_is_seen_by(false);
}

pub fn what_others_change_is_seen_by_an_ordinary_users_server() {
    if !surmise_testkit::is_root() {
        return surmise_testkit::skip("it takes root to become another user");
    }
    what_others_change_is_seen_by(true);
}

/// A client has a file open that others remove. A new file gets its inode number, and is another file.
pub fn a_file_that_gets_the_number_of_another_one_is_another_one() {
    let export = tempfile::tempdir().expect("a directory");
    let path = export.path();
    fs::write(path.join("old"), "old").expect("write");
    let server = Process::start(path);
    let mut client = Client::new(path, 1);
    let (old, _) = client.find(Path::new("old")).expect("look").expect("there");
    let inode = fs::metadata(path.join("old")).expect("look").ino();
    fs::remove_file(path.join("old")).expect("remove");
    // The next file need not be the one.
    let mut names = (0..10_000).map(|number| format!("new{number}"));
    let new = names.find(|name| {
        let file = File::create(path.join(name)).expect("create");
        file.metadata().expect("look").ino() == inode
    });
    let Some(new) = new else {
        return surmise_testkit::skip("this file system gives no number again");
    };
    fs::write(path.join(&new), "new").expect("write");
    until_shown("the new one", &mut client, path);
    let (object, _) = client.find(Path::new(&new)).expect("look").expect("there");
    assert_ne!(object, old);
    assert_eq!(client.read(object, 0, 100).expect("read"), b"new");
    assert_eq!(client.read(old, 0, 100), Err(Errno::STALE));
    client.leave();
    server.stop();
}

/// More happens than the kernel keeps in mind while the server stands still.
pub fn what_the_kernel_cannot_tell_any_more_is_seen_as_well() {
    let export = tempfile::tempdir().expect("a directory");
    let path = export.path();
    fs::create_dir(path.join("many")).expect("mkdir");
    fs::write(path.join("file"), "text").expect("write");
    let server = Process::start(path);
    let mut client = Client::new(path, 1);
    until_shown("at first", &mut client, path);
    let most = fs::read_to_string("/proc/sys/fs/fanotify/max_queued_events");
    let most: usize = most.map_or(16_384, |text| text.trim().parse().expect("a number"));
    server.pause(true);
    for number in 0..=most {
        let name = path.join(format!("many/{}", number % 1000));
        // Events that are alike would be told as one.
        match number % 2000 < 1000 {
            true => drop(File::create(name).expect("create")),
            false => fs::remove_file(name).expect("remove"),
        }
    }
    fs::write(path.join("file"), "changed at last").expect("write");
    server.pause(false);
    until_shown("afterwards", &mut client, path);
    client.leave();
    server.stop();
}

/// A file that others write all the time can be looked at, and its writers are not held up.
pub fn who_looks_at_a_file_that_is_always_written_gets_an_answer() {
    let export = tempfile::tempdir().expect("a directory");
    let path = export.path();
    fs::write(path.join("log"), "").expect("write");
    let server = Process::start(path);
    let mut client = Client::new(path, 1);
    let mut writer = Command::new("sh")
        .args(["-c", "while :; do echo line; done >> log"])
        .current_dir(path)
        .spawn()
        .expect("start a shell");
    let mut last = 0;
    until("it does not grow", || {
        let found = client.find(Path::new("log")).expect("look");
        let (object, known) = found.expect("it is there");
        let data = client.read(object, 0, 1 << 20).expect("read it");
        assert!(data.len() as u64 >= last.min(1 << 20));
        last = known.size;
        last > 300_000
    });
    writer.kill().expect("kill it");
    writer.wait().expect("wait for it");
    until_shown("at last", &mut client, path);
    client.leave();
    server.stop();
}

/// The file is cut while a client reads it.
pub fn a_file_that_is_cut_is_read_to_its_new_end() {
    let export = tempfile::tempdir().expect("a directory");
    let path = export.path();
    let server = Process::start(path);
    let mut client = Client::new(path, 1);
    for round in 0..200 {
        let mut file = File::create(path.join("file")).expect("create");
        file.write_all(&vec![b'x'; 200_000]).expect("write");
        let found = client.find(Path::new("file")).expect("look");
        let Some((object, _)) = found else {
            continue;
        };
        let cut = round * 900;
        file.set_len(cut).expect("cut");
        let read = client.read(object, 0, 1 << 20).expect("read it");
        assert!(
            read.len() as u64 >= cut || read.is_empty(),
            "{}",
            read.len()
        );
    }
    until_shown("at last", &mut client, path);
    client.leave();
    server.stop();
}
