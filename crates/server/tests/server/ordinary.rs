//! A server that runs as an ordinary user.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use surmise_remote::client::{Intent, Response};
use surmise_remote::errno::Errno;
use surmise_remote::object::ObjectId;
use surmise_remote::operation::{NewKind, NewObject, SetAttributes};

use crate::client::Client;
use crate::process::Process;

/// Whom the test's servers become.
const USER: u32 = 12_345;

fn make(client: &mut Client, path: &str, kind: NewKind, permissions: u16) -> ObjectId {
    let place = client.place(Path::new(path)).expect("a place");
    let new = NewObject {
        kind,
        permissions,
        owner: USER,
        group: USER,
    };
    let made = client.change(Intent::Create { place, new });
    made.unwrap_or_else(|errno| panic!("{path}: {errno}"));
    client.find(Path::new(path)).expect("look").expect("made").0
}

fn chmod(client: &mut Client, object: ObjectId, permissions: u16) {
    let set = SetAttributes {
        permissions: Some(permissions),
        ..SetAttributes::default()
    };
    let set = client.change(Intent::SetAttributes { object, set });
    set.expect("chmod");
}

fn write(client: &mut Client, object: ObjectId, data: &str) -> Result<Response, Errno> {
    client.change(Intent::Write {
        object,
        offset: None,
        data: data.into(),
        strip: false,
    })
}

/// The owner of a file writes it, and changes what is below its directory, whatever the bits say by then.
pub fn an_owner_goes_on_when_the_bits_are_gone() {
    if !surmise_testkit::is_root() {
        return surmise_testkit::skip("it takes root to become another user");
    }
    let export = tempfile::tempdir().expect("a directory");
    std::os::unix::fs::chown(export.path(), Some(USER), Some(USER)).expect("chown");
    fs::write(export.path().join("roots"), "x").expect("write");
    let mode = fs::Permissions::from_mode(0o600);
    fs::set_permissions(export.path().join("roots"), mode).expect("chmod");
    let mut server = Process::start_with(export.path(), 2_000, true);
    let mut client = Client::new(export.path(), 1);
    let top = make(&mut client, "top", NewKind::Directory, 0o755);
    make(&mut client, "top/in", NewKind::Directory, 0o755);
    let file = make(&mut client, "top/in/file", NewKind::Regular, 0o444);
    write(&mut client, file, "one ").expect("write");
    chmod(&mut client, file, 0);
    chmod(&mut client, top, 0);
    client.sync().expect("sync");
    // The next server has nothing open.
    server.kill();
    server = Process::start_with(export.path(), 2_000, true);
    write(&mut client, file, "two").expect("write");
    client.sync().expect("sync");
    let (roots, _) = client
        .find(Path::new("roots"))
        .expect("look")
        .expect("there");
    assert_eq!(write(&mut client, roots, "no").err(), Some(Errno::ACCES));
    client.leave();
    server.stop();
    let top = export.path().join("top");
    let found = fs::metadata(&top).expect("it is there");
    assert_eq!((found.mode() & 0o7777, found.uid()), (0, USER));
    let found = fs::metadata(top.join("in/file")).expect("it is there");
    assert_eq!((found.mode() & 0o7777, found.uid()), (0, USER));
    let data = fs::read_to_string(top.join("in/file")).expect("read");
    assert_eq!(data, "one two");
    assert_eq!(
        fs::read_to_string(export.path().join("roots")).expect("read"),
        "x"
    );
}

/// A directory that the server's user may not list is there, and its names are not told.
pub fn a_directory_of_another_user_is_shown_and_not_listed() {
    if !surmise_testkit::is_root() {
        return surmise_testkit::skip("it takes root to become another user");
    }
    let export = tempfile::tempdir().expect("a directory");
    std::os::unix::fs::chown(export.path(), Some(USER), Some(USER)).expect("chown");
    let secret = export.path().join("secret");
    fs::create_dir(&secret).expect("mkdir");
    fs::write(secret.join("file"), "x").expect("write");
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o700)).expect("chmod");
    let server = Process::start_with(export.path(), 2_000, true);
    let mut client = Client::new(export.path(), 1);
    for _ in 0..2 {
        let found = client.find(Path::new("secret")).expect("look");
        let (_, attributes) = found.expect("it is there");
        assert_eq!((attributes.permissions, attributes.owner), (0o700, 0));
        let below = client.find(Path::new("secret/file"));
        assert_eq!(below.err(), Some(Errno::ACCES));
    }
    client.leave();
    server.stop();
}
