//! Clients that say what no client says, and others on the server's machine.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, symlink};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use surmise_remote::client::{Intent, Request, Response};
use surmise_remote::errno::Errno;
use surmise_remote::frame::{
    ClientKey, PROTOCOL, Reason, ToClient, ToServer, Urgency, Want, encode,
};
use surmise_remote::lease::Mode;
use surmise_remote::object::{ObjectId, Prefix};
use surmise_remote::operation::{NewKind, NewObject};
use surmise_wire::{Reader, Writer};

use crate::client::{Client, wire};
use crate::process::Process;

/// One end of a connection, without a client behind it.
pub struct Wire {
    stream: UnixStream,
    reader: Reader,
    writer: Writer,
    /// What has come and was not taken.
    came: Vec<u8>,
}

impl Wire {
    fn connect(export: &Path) -> Self {
        crate::kills::wait_for(export);
        let stream = UnixStream::connect(export.join(".surmise/socket")).expect("connect");
        Self::new(stream)
    }

    pub fn new(stream: UnixStream) -> Self {
        let patience = Some(Duration::from_secs(20));
        stream.set_read_timeout(patience).expect("a timeout");
        let (reader, writer) = wire();
        Self {
            stream,
            reader,
            writer,
            came: Vec::new(),
        }
    }

    pub fn say(&mut self, message: &ToServer) {
        let mut bytes = Vec::new();
        encode(message, &mut bytes).expect("a short message");
        self.send(&bytes).expect("send");
    }

    fn send(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.writer.write(bytes, &mut self.stream, |_| {})
    }

    /// The next message; `None` at the end.
    pub fn hear(&mut self) -> Option<ToClient> {
        loop {
            let mut left = &self.came[..];
            let message = self.reader.message(&mut left).expect("a message");
            self.came.drain(..self.came.len() - left.len());
            if message.is_some() {
                return message;
            }
            let mut chunk = [0; 4096];
            match self.stream.read(&mut chunk) {
                Ok(0) => return None,
                Ok(length) => self.came.extend(&chunk[..length]),
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("{error}"),
            }
        }
    }

    pub fn introduce(&mut self) {
        self.say(&ToServer::Hello {
            protocol: PROTOCOL,
            client: ClientKey([9; 16]),
            prefix: None,
            decided: 0,
        });
        let welcome = self.hear();
        assert!(matches!(welcome, Some(ToClient::Welcome(_))), "{welcome:?}");
    }
}

pub fn what_is_no_message_ends_its_connection_alone() {
    let export = tempfile::tempdir().expect("a directory");
    fs::write(export.path().join("a"), "x").expect("write");
    let server = Process::start(export.path());
    let mut honest = Client::new(export.path(), 1);
    honest
        .find(Path::new("a"))
        .expect("look")
        .expect("it is there");
    let mut random = fastrand::Rng::with_seed(3);
    for round in 0..30 {
        let mut wire = Wire::connect(export.path());
        if round % 2 == 0 {
            wire.introduce();
        }
        let bytes: Vec<u8> = match round % 3 {
            0 => u32::MAX.to_le_bytes().to_vec(),
            1 => [&[3, 0, 0, 0][..], &[0xff; 3]].concat(),
            _ => (0..200).map(|_| random.u8(..)).collect(),
        };
        // The server may have ended the connection by then.
        let _ = match round % 4 {
            0 | 1 => wire.stream.write_all(&bytes),
            _ => wire.send(&bytes),
        };
        let _ = wire.stream.shutdown(std::net::Shutdown::Write);
        while let Some(message) = wire.hear() {
            assert!(
                matches!(message, ToClient::Farewell(Reason::Breach)),
                "{message:?}"
            );
        }
    }
    let there = honest.find(Path::new("a")).expect("look");
    assert!(there.is_some());
    honest.leave();
    server.stop();
}

/// Numbers of objects that were never told lead nowhere, and the server's own directory is none.
pub fn a_number_that_was_never_told_is_no_object() {
    let export = tempfile::tempdir().expect("a directory");
    let server = Process::start(export.path());
    let mut wire = Wire::connect(export.path());
    wire.introduce();
    let own = fs::metadata(export.path().join(".surmise/log")).expect("it is there");
    let outside = fs::metadata("/etc/passwd").expect("it is there");
    let ids = [
        ObjectId::found(own.ino()),
        ObjectId::found(outside.ino()),
        ObjectId::found(0),
        ObjectId::found(1 << 62),
        ObjectId::made(Prefix(1), 77),
    ];
    for (request, object) in ids.into_iter().flatten().enumerate() {
        let request = request as u64;
        wire.say(&ToServer::Ask {
            request,
            wants: vec![Want {
                object,
                mode: Mode::Read,
                names: false,
                kept: None,
            }],
            ahead: 0,
        });
        let errno = Errno::STALE;
        let answer = ToClient::Failed {
            request,
            object,
            errno,
        };
        assert_eq!(wire.hear(), Some(answer));
    }
    drop(wire);
    server.stop();
}

pub fn the_servers_own_directory_is_shown_to_nobody() {
    let export = tempfile::tempdir().expect("a directory");
    let server = Process::start(export.path());
    let mut client = Client::new(export.path(), 1);
    let root = client.root();
    let names = client.call(Request::Names(root)).expect("list it");
    assert_eq!(names, Response::Names(Default::default()));
    let own = Path::new(".surmise");
    assert_eq!(client.find(own), Ok(None));
    let new = NewObject {
        kind: NewKind::Directory,
        permissions: 0o755,
        owner: 0,
        group: 0,
    };
    let place = client.place(own).expect("a place");
    let made = client.change(Intent::Create { place, new });
    assert_eq!(made, Err(Errno::PERM));
    client.leave();
    server.stop();
}

/// Another program puts a symbolic link in the place of a directory that a client knows.
pub fn a_link_in_the_place_of_a_directory_leads_nowhere() {
    let export = tempfile::tempdir().expect("a directory");
    let outside = tempfile::tempdir().expect("a directory");
    fs::create_dir(export.path().join("d")).expect("mkdir");
    fs::create_dir(export.path().join("d/below")).expect("mkdir");
    fs::create_dir(outside.path().join("below")).expect("mkdir");
    fs::write(outside.path().join("below/secret"), "secret").expect("write");
    let server = Process::start(export.path());
    let mut client = Client::new(export.path(), 1);
    // The names are told, and what is below is not looked at.
    let mut wire = Wire::connect(export.path());
    wire.introduce();
    let (d, _) = client
        .find(Path::new("d"))
        .expect("look")
        .expect("it is there");
    fs::rename(export.path().join("d"), outside.path().join("d")).expect("move");
    symlink(outside.path(), export.path().join("d")).expect("link");
    let below = fs::metadata(outside.path().join("below")).expect("it is there");
    wire.say(&ToServer::Ask {
        request: 1,
        wants: vec![Want {
            object: ObjectId::found(below.ino()).expect("small"),
            mode: Mode::Read,
            names: true,
            kept: None,
        }],
        ahead: 0,
    });
    let failed = wire.hear();
    assert!(
        matches!(failed, Some(ToClient::Failed { .. })),
        "{failed:?}"
    );
    let _ = client.call(Request::Names(d));
    drop(wire);
    client.leave();
    server.stop();
    let names = fs::read_dir(outside.path().join("below")).expect("list it");
    assert_eq!(names.count(), 1);
}

/// A client that does not read what it asked for is cut before it takes much memory.
pub fn a_client_that_does_not_read_is_cut() {
    let export = tempfile::tempdir().expect("a directory");
    fs::write(export.path().join("a"), vec![7; 1 << 20]).expect("write");
    let server = Process::start(export.path());
    let mut wire = Wire::connect(export.path());
    wire.introduce();
    let file = fs::metadata(export.path().join("a")).expect("it is there");
    let root = fs::metadata(export.path()).expect("it is there");
    let (file, root) = (ObjectId::found(file.ino()), ObjectId::found(root.ino()));
    let (file, root) = (file.expect("small"), root.expect("small"));
    for (request, object) in [(1, root), (2, file)] {
        wire.say(&ToServer::Ask {
            request,
            wants: vec![Want {
                object,
                mode: Mode::Read,
                names: true,
                kept: None,
            }],
            ahead: 0,
        });
    }
    let deadline = Instant::now() + Duration::from_secs(60);
    for request in 3.. {
        let mut bytes = Vec::new();
        let fetch = ToServer::Fetch {
            request,
            object: file,
            offset: 0,
            length: 1 << 20,
            urgency: Urgency::Awaited,
            kept: None,
        };
        encode(&fetch, &mut bytes).expect("a short message");
        if wire.send(&bytes).is_err() {
            break;
        }
        assert!(Instant::now() < deadline, "{request} megabytes wait");
        std::thread::sleep(Duration::from_millis(20));
    }
    let mut client = Client::new(export.path(), 1);
    client
        .find(Path::new("a"))
        .expect("look")
        .expect("it is there");
    client.leave();
    server.stop();
}
