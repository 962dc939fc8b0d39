//! How fast a server takes changes; run with `--ignored`, in an optimized build.

use std::path::Path;
use std::time::Instant;

use surmise_remote::client::{Intent, Response};
use surmise_remote::operation::{NewKind, NewObject, Place};
use surmise_testkit::tell;

use crate::client::{Client, name};
use crate::process::Process;

const FILES: u32 = 20_000;

/// Files of 4 KiB in one directory.
pub fn files_a_second() {
    let export = tempfile::tempdir().expect("a directory");
    let server = Process::start_with(export.path(), 30_000, false);
    let mut client = Client::new(export.path(), 1);
    let parent = client.root();
    let start = Instant::now();
    for number in 0..FILES {
        let name = name(Path::new(&format!("file-{number}")).as_os_str());
        let new = NewObject {
            kind: NewKind::Regular,
            permissions: 0o644,
            owner: 0,
            group: 0,
        };
        let place = Place { parent, name };
        let made = client.change(Intent::Create { place, new });
        let Ok(Response::Object(object, _)) = made else {
            panic!("{made:?}");
        };
        let write = Intent::Write {
            object,
            offset: Some(0),
            data: vec![7; 4096],
            strip: false,
        };
        client.change(write).expect("write");
    }
    let returned = start.elapsed();
    client.sync().expect("sync");
    let durable = start.elapsed();
    client.cut();
    server.stop();
    let made = start.elapsed();
    tell(format_args!(
        "{FILES} files of 4 KiB: returned {returned:?}, durable {durable:?}, made and flushed {made:?}"
    ));
}
