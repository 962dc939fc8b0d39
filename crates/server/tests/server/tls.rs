//! Clients that come by TLS, honest ones and others.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use surmise_remote::errno::Errno;
use surmise_remote::frame::{ToClient, ToServer, Urgency, Want};
use surmise_remote::lease::Mode;
use surmise_remote::object::ObjectId;
use surmise_remote::operation::{Change, Operation};
use surmise_tls::Target;
use surmise_tls::make::{Wanted, make};

use crate::client::{Client, time};
use crate::hostile::Wire;
use crate::process::Process;
use crate::twin::Twin;

/// Whom the test's ordinary servers become.
const USER: u32 = 12_345;

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// A directory with certificates of a server and of `ann`.
fn certificates() -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    make(&Wanted {
        directory: directory.path().to_owned(),
        hosts: vec!["localhost".into()],
        users: vec!["ann".into()],
        days: 1,
    })
    .expect("make certificates");
    directory
}

/// A connection of ann's.
fn connect(certificates: &Path, port: u16) -> UnixStream {
    let own = certificates.join("ann");
    let target = Target {
        host: "localhost".into(),
        port,
        export: String::new(),
        certificate: own.join("client.crt"),
        key: own.join("client.key"),
        authorities: own.join("ca.crt"),
    };
    let (stream, copying) = target.connect().expect("connect");
    // It ends with the stream.
    std::thread::spawn(move || copying.run(Duration::ZERO));
    stream
}

pub fn what_a_client_does_by_tls_is_done_in_the_directory() {
    let certificates = certificates();
    for seed in 0..3 {
        let export = tempfile::tempdir().expect("a directory");
        let mut twin = Twin::new(seed);
        let (server, port) = Process::start_with_tls(export.path(), false, certificates.path());
        let mut client = Client::new(export.path(), 1);
        client.use_stream(connect(certificates.path(), port));
        for step in 0..200 {
            if step % 50 == 49 {
                client.cut();
                client.use_stream(connect(certificates.path(), port));
            }
            twin.step(&mut client);
        }
        client.sync().expect("sync");
        client.leave();
        server.stop();
        twin.compare(export.path());
    }
}

/// An export of an ordinary user, with what that user may not read.
struct Closed {
    export: tempfile::TempDir,
    root: ObjectId,
    of_another: ObjectId,
    closed: ObjectId,
    open_inside: ObjectId,
}

impl Closed {
    fn new() -> Self {
        let export = tempfile::tempdir().expect("a directory");
        chown(export.path(), Some(USER), Some(USER)).expect("chown");
        let write = |name: &str, mode| {
            let path = export.path().join(name);
            fs::write(&path, "secret").expect("write");
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("chmod");
            number(&path)
        };
        let closed = export.path().join("closed");
        fs::create_dir(&closed).expect("mkdir");
        let of_another = write("of_another", 0o600);
        let open_inside = write("closed/open_inside", 0o666);
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).expect("chmod");
        Self {
            root: number(export.path()),
            of_another,
            closed: number(&closed),
            open_inside,
            export,
        }
    }
}

fn number(path: &Path) -> ObjectId {
    let number = fs::metadata(path).expect("it is there").ino();
    ObjectId::found(number).expect("small")
}

impl Wire {
    fn ask(&mut self, object: ObjectId, mode: Mode, names: bool) -> Result<(), Errno> {
        self.say(&ToServer::Ask {
            request: 1,
            wants: vec![Want {
                object,
                mode,
                names,
                kept: None,
            }],
            ahead: 100,
        });
        loop {
            match self.hear().expect("an answer") {
                ToClient::Granted { .. } => break Ok(()),
                ToClient::Failed { errno, .. } => break Err(errno),
                _ => {}
            }
        }
    }
}

/// S61: a client with a good certificate, by messages that no kernel has checked.
pub fn no_message_reaches_what_the_servers_user_may_not() {
    if !surmise_testkit::is_root() {
        return surmise_testkit::skip("it takes root to become another user");
    }
    let certificates = certificates();
    for path in ["", "server.key"] {
        let path = certificates.path().join(path);
        chown(path, Some(USER), Some(USER)).expect("chown");
    }
    let closed = Closed::new();
    let (server, port) = Process::start_with_tls(closed.export.path(), true, certificates.path());
    let mut wire = Wire::new(connect(certificates.path(), port));
    wire.introduce();
    assert_eq!(wire.ask(closed.root, Mode::Read, true), Ok(()));
    assert_eq!(wire.ask(closed.of_another, Mode::Write, false), Ok(()));
    assert_eq!(wire.ask(closed.closed, Mode::Read, false), Ok(()));
    // What is in it is told by no number.
    let listed = wire.ask(closed.closed, Mode::Read, true);
    assert_eq!(listed, Err(Errno::ACCES));
    let inside = wire.ask(closed.open_inside, Mode::Read, false);
    assert_eq!(inside, Err(Errno::STALE));
    for (object, errno) in [
        (closed.of_another, Errno::ACCES),
        (closed.open_inside, Errno::STALE),
    ] {
        let request = 2;
        wire.say(&ToServer::Fetch {
            request,
            object,
            offset: 0,
            length: 6,
            urgency: Urgency::Awaited,
            kept: None,
        });
        let failed = ToClient::Failed {
            request,
            object,
            errno,
        };
        assert_eq!(wire.hear(), Some(failed));
    }
    for (sequence, object, errno) in [
        (1, closed.of_another, Errno::ACCES),
        (2, closed.open_inside, Errno::STALE),
    ] {
        wire.say(&ToServer::Group {
            sequence,
            operations: vec![overwrite(object)],
        });
        let refused = ToClient::Refused {
            sequence,
            index: 0,
            errno,
        };
        assert_eq!(wire.hear(), Some(refused));
        assert_eq!(wire.hear(), Some(ToClient::Decided { upto: sequence }));
    }
    drop(wire);
    server.stop();
    for name in ["of_another", "closed/open_inside"] {
        let text = fs::read_to_string(closed.export.path().join(name)).expect("read");
        assert_eq!(text, "secret");
    }
}

fn overwrite(object: ObjectId) -> Operation {
    Operation {
        at: time(),
        change: Change::Write {
            object,
            offset: 0,
            data: b"taken".into(),
            strip: false,
        },
    }
}

/// The `VmRSS` and `Threads` of a process (proc_pid_status(5)).
fn usage(process: u32) -> (u64, u64) {
    let status = fs::read_to_string(format!("/proc/{process}/status")).expect("it runs");
    let number = |name: &str| {
        let mut lines = status.lines();
        let line = lines
            .find_map(|line| line.strip_prefix(name))
            .expect("told");
        let number = line.split_whitespace().next().expect("a number");
        number.parse().expect("a number")
    };
    (number("VmRSS:"), number("Threads:"))
}

/// S61: who shows no certificate takes little, is closed, and keeps nobody else out for good.
pub fn strangers_cost_little_and_are_closed() {
    let certificates = certificates();
    let export = tempfile::tempdir().expect("a directory");
    let (server, port) = Process::start_with_tls(export.path(), false, certificates.path());
    // One that is there already stays.
    let mut wire = Wire::new(connect(certificates.path(), port));
    wire.introduce();
    let (memory_before, threads_before) = usage(server.number());
    let mut random = fastrand::Rng::with_seed(1);
    let mut strangers: Vec<_> = (0..300)
        .map(|number| {
            let mut stream = TcpStream::connect(("localhost", port)).expect("connect");
            if number % 3 == 0 {
                let bytes: Vec<u8> = (0..5000).map(|_| random.u8(..)).collect();
                // It may be closed by then.
                let _ = stream.write_all(&bytes);
            }
            stream
        })
        .collect();
    let (memory, threads) = usage(server.number());
    assert!(threads <= threads_before + 64, "{threads}");
    assert!(memory < memory_before + (32 << 10), "{memory} KiB");
    for stream in &mut strangers {
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        // An alert, or nothing, and then the end.
        let mut answer = Vec::new();
        match stream.read_to_end(&mut answer) {
            Ok(_) => assert!(answer.len() < 100, "{answer:?}"),
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset),
        }
    }
    let mut another = Wire::new(connect(certificates.path(), port));
    another.say(&ToServer::Bye);
    assert!(matches!(another.hear(), Some(ToClient::Farewell(_))));
    wire.say(&ToServer::Ping {
        number: 7,
        decided: 0,
    });
    assert_eq!(wire.hear(), Some(ToClient::Pong(7)));
    drop(wire);
    server.stop();
}
