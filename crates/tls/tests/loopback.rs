//! Both sides on this machine, with certificates that are made here: what is let in, and what is said of what is not.

use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection, StreamOwned,
};
use surmise_remote::opening::{APPLICATION_PROTOCOL, Refusal};
use surmise_tls::{Accepted, ConnectError, FileError, Files, NotAccepted, Target, Terms, Users};

const DAY: Duration = Duration::from_secs(86_400);

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(60);

struct Authority(Issuer<'static, KeyPair>);

/// What differs from a certificate that is as it should be.
#[derive(Clone, Copy)]
enum Odd {
    Nothing,
    Expired,
    NotYet,
    Nameless,
    OtherHost,
}

/// A directory with certificates: `ca.crt`, `server.crt`, `server.key`, and `ann.crt`, `ann.key`.
struct Made(tempfile::TempDir);

impl Authority {
    fn new(certificate: &Path) -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let made = params.self_signed(&key).expect("a certificate");
        fs::write(certificate, made.pem()).expect("write");
        Self(Issuer::new(params, key))
    }

    fn sign(&self, path: &Path, name: &str, odd: Odd) {
        let now = SystemTime::now();
        let host = if matches!(odd, Odd::OtherHost) {
            "elsewhere"
        } else {
            "localhost"
        };
        let mut params = CertificateParams::new([host.to_owned()]).expect("a name");
        params.distinguished_name = DistinguishedName::new();
        if !matches!(odd, Odd::Nameless) {
            params.distinguished_name.push(DnType::CommonName, name);
        }
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        let (from, until) = match odd {
            Odd::Expired => (now - 2 * DAY, now - DAY),
            Odd::NotYet => (now + DAY, now + 2 * DAY),
            _ => (now - DAY, now + DAY),
        };
        (params.not_before, params.not_after) = (from.into(), until.into());
        let key = KeyPair::generate().expect("a key");
        let made = params.signed_by(&key, &self.0).expect("a certificate");
        fs::write(path.with_extension("crt"), made.pem()).expect("write");
        let path = path.with_extension("key");
        fs::write(&path, key.serialize_pem()).expect("write");
        fs::set_permissions(&path, Permissions::from_mode(0o600)).expect("chmod");
    }
}

impl Made {
    fn new(server: Odd, ann: Odd) -> Self {
        let files = Self(tempfile::tempdir().expect("a directory"));
        let authority = Authority::new(&files.path("ca.crt"));
        authority.sign(&files.path("server.crt"), "server", server);
        authority.sign(&files.path("ann.crt"), "ann", ann);
        files
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn terms(&self) -> Terms {
        let files = Files {
            certificate: self.path("server.crt"),
            key: self.path("server.key"),
            clients: self.path("ca.crt"),
        };
        let users = Users {
            runs_as: "ann".into(),
            names: ["ann".to_owned()].into(),
        };
        Terms::new(files, "src".into(), users).expect("good files")
    }

    fn target(&self, port: u16) -> Target {
        Target {
            host: "localhost".into(),
            port,
            export: "src".into(),
            certificate: self.path("ann.crt"),
            key: self.path("ann.key"),
            authorities: self.path("ca.crt"),
        }
    }
}

/// A server that takes one client.
struct Server {
    port: u16,
    outcome: JoinHandle<Result<Accepted, NotAccepted>>,
}

impl Server {
    fn start(terms: Terms, is_full: bool) -> Self {
        let (socket, port) = listen();
        let outcome = thread::spawn(move || {
            let (stream, _) = socket.accept().expect("somebody comes");
            terms.accept(stream, is_full)
        });
        Self { port, outcome }
    }

    fn outcome(self) -> Result<Accepted, NotAccepted> {
        self.outcome.join().expect("it does not panic")
    }
}

fn listen() -> (TcpListener, u16) {
    let socket = TcpListener::bind("localhost:0").expect("listen");
    let port = socket.local_addr().expect("an address").port();
    (socket, port)
}

/// What the client is told, and what the server is.
fn refused(
    server: &Made,
    client: &Made,
    change: impl FnOnce(&mut Target),
) -> (ConnectError, NotAccepted) {
    let running = Server::start(server.terms(), false);
    let mut target = client.target(running.port);
    change(&mut target);
    let error = target.connect().expect_err("it is not let in");
    let not_accepted = running.outcome().expect_err("it is not let in");
    assert!(error.hint().is_some(), "{error}");
    (error, not_accepted)
}

#[test]
fn what_is_said_arrives_on_either_side() {
    let files = Made::new(Odd::Nothing, Odd::Nothing);
    for export in ["src", ""] {
        let server = Server::start(files.terms(), false);
        let mut target = files.target(server.port);
        target.export = export.into();
        let (mut near, copying) = target.connect().expect("connect");
        let near_copies = thread::spawn(move || copying.run(Duration::ZERO));
        let accepted = server.outcome().expect("it is let in");
        assert_eq!(accepted.name, "ann");
        let mut far = accepted.plain;
        let far_copies = thread::spawn(move || accepted.copying.run(PATIENCE));
        for socket in [&near, &far] {
            socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        }
        // More than all buffers hold, both ways at once.
        let sent: Vec<u8> = (0..3_000_000_u32)
            .map(|number| (number % 251) as u8)
            .collect();
        let says = |mut socket: std::os::unix::net::UnixStream| {
            let sent = sent.clone();
            thread::spawn(move || socket.write_all(&sent).expect("say"))
        };
        let both = [&near, &far].map(|socket| says(socket.try_clone().expect("a clone")));
        for socket in [&mut near, &mut far] {
            let mut heard = vec![0; sent.len()];
            socket.read_exact(&mut heard).expect("hear");
            assert!(heard == sent);
        }
        for says in both {
            says.join().expect("it was said");
        }
        // What is said last arrives, too.
        far.write_all(b"bye").expect("say");
        drop(far);
        let mut last = String::new();
        near.read_to_string(&mut last).expect("hear");
        assert_eq!(last, "bye");
        drop(near);
        near_copies
            .join()
            .expect("no panic")
            .expect("it ended well");
        far_copies.join().expect("no panic").expect("it ended well");
    }
}

#[test]
fn a_server_without_a_good_certificate_is_not_spoken_to() {
    let good = Made::new(Odd::Nothing, Odd::Nothing);
    for (odd, text) in [
        (Odd::Expired, "it has expired"),
        (Odd::NotYet, "it is not valid yet"),
        (Odd::OtherHost, "elsewhere"),
    ] {
        let files = Made::new(odd, Odd::Nothing);
        let (error, _) = refused(&files, &files, |_| {});
        assert!(matches!(error, ConnectError::Untrusted { .. }), "{error:?}");
        assert!(error.to_string().contains(text), "{error}");
    }
    // Signed by another authority.
    let other = Made::new(Odd::Nothing, Odd::Nothing);
    let (error, _) = refused(&other, &good, |_| {});
    assert!(matches!(error, ConnectError::Untrusted { .. }), "{error:?}");
}

#[test]
fn a_client_without_a_good_certificate_is_not_let_in() {
    for (odd, text) in [(Odd::Expired, "expired"), (Odd::NotYet, "not valid yet")] {
        let files = Made::new(Odd::Nothing, odd);
        let (error, not_accepted) = refused(&files, &files, |_| {});
        assert!(matches!(error, ConnectError::NotTaken { .. }), "{error:?}");
        assert!(error.to_string().contains(text), "{error}");
        assert!(
            matches!(not_accepted, NotAccepted::Handshake(_)),
            "{not_accepted:?}"
        );
    }
    let good = Made::new(Odd::Nothing, Odd::Nothing);
    let other = Made::new(Odd::Nothing, Odd::Nothing);
    let (error, _) = refused(&good, &other, |target| {
        target.authorities = good.path("ca.crt")
    });
    assert!(matches!(error, ConnectError::NotTaken { .. }), "{error:?}");
}

#[test]
fn what_a_good_certificate_does_not_give_is_refused_by_name() {
    let files = Made::new(Odd::Nothing, Odd::Nothing);
    let (error, _) = refused(&files, &files, |target| target.export = "other".into());
    assert!(error.hint().expect("a hint").contains("/src"), "{error}");
    let (error, _) = refused(&files, &files, |target| {
        target.certificate = files.path("server.crt");
        target.key = files.path("server.key");
    });
    let ConnectError::Refused { why, .. } = &error else {
        panic!("{error:?}");
    };
    let expected = Refusal::User {
        name: "server".into(),
        runs_as: "ann".into(),
    };
    assert_eq!(*why, expected);
    let nameless = Made::new(Odd::Nothing, Odd::Nameless);
    let (error, _) = refused(&nameless, &nameless, |_| {});
    assert!(error.to_string().contains("common name"), "{error}");
    let full = Server::start(files.terms(), true);
    let error = files.target(full.port).connect().expect_err("it is full");
    let ConnectError::Refused { why, .. } = error else {
        panic!("{error:?}");
    };
    assert_eq!(why, Refusal::Full);
}

#[test]
fn what_is_no_server_is_told_apart() {
    let files = Made::new(Odd::Nothing, Odd::Nothing);
    let connect = |port| files.target(port).connect().expect_err("it is none");
    let (socket, port) = listen();
    drop(socket);
    assert!(matches!(connect(port), ConnectError::NothingListens { .. }));
    // A server of something else, which speaks first.
    let (socket, port) = listen();
    let speaks = thread::spawn(move || {
        let (mut stream, _) = socket.accept().expect("somebody comes");
        stream.write_all(b"SSH-2.0-OpenSSH_9.6\r\n").expect("say");
        let mut waste = Vec::new();
        // It may end by a reset.
        let _ = stream.read_to_end(&mut waste);
    });
    assert!(matches!(connect(port), ConnectError::NoServer { .. }));
    speaks.join().expect("it ends");
    // One that closes.
    let (socket, port) = listen();
    let closes = thread::spawn(move || drop(socket.accept()));
    assert!(matches!(connect(port), ConnectError::NoServer { .. }));
    closes.join().expect("it ends");
    let mut nowhere = files.target(port);
    nowhere.host = "nowhere.invalid".into();
    let error = nowhere.connect().expect_err("it is no host");
    assert!(matches!(error, ConnectError::Unknown { .. }), "{error:?}");
}

/// As a web server does it, or another version of this one.
#[test]
fn what_speaks_tls_and_another_protocol_is_told_apart() {
    let files = Made::new(Odd::Nothing, Odd::Nothing);
    let read = |name: &str| fs::read(files.path(name)).expect("read");
    for protocols in [vec![], vec![b"http/1.1".to_vec()]] {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .expect("a version")
            .with_no_client_auth()
            .with_single_cert(
                vec![CertificateDer::from_pem_slice(&read("server.crt")).expect("one")],
                PrivateKeyDer::from_pem_slice(&read("server.key")).expect("a key"),
            )
            .expect("a pair");
        config.alpn_protocols = protocols;
        let (socket, port) = listen();
        let serves = thread::spawn(move || {
            let (stream, _) = socket.accept().expect("somebody comes");
            let tls = ServerConnection::new(Arc::new(config)).expect("a server");
            let mut waste = Vec::new();
            // The client breaks it off.
            let _ = StreamOwned::new(tls, stream).read_to_end(&mut waste);
            assert!(waste.is_empty());
        });
        let error = files.target(port).connect().expect_err("it is none");
        assert!(matches!(error, ConnectError::NoServer { .. }), "{error:?}");
        assert!(error.to_string().contains("another protocol"), "{error}");
        serves.join().expect("it ends");
    }
}

#[test]
fn keys_that_others_may_read_are_not_used() {
    let files = Made::new(Odd::Nothing, Odd::Nothing);
    let broken = |expected: fn(&FileError) -> bool| {
        // Nothing is connected to by then.
        let error = files.target(1).connect().expect_err("a bad file");
        let ConnectError::File(error) = error else {
            panic!("{error:?}");
        };
        assert!(expected(&error), "{error:?}");
    };
    let key = files.path("ann.key");
    for mode in [0o604, 0o602, 0o660] {
        fs::set_permissions(&key, Permissions::from_mode(mode)).expect("chmod");
        broken(|error| matches!(error, FileError::TooOpen { .. }));
    }
    fs::set_permissions(&key, Permissions::from_mode(0o600)).expect("chmod");
    fs::copy(files.path("server.key"), &key).expect("copy");
    broken(|error| matches!(error, FileError::Mismatch { .. }));
    fs::write(&key, "no PEM").expect("write");
    broken(|error| matches!(error, FileError::Content { .. }));
    fs::remove_file(&key).expect("remove");
    broken(FileError::is_missing);
    fs::write(files.path("ca.crt"), "").expect("write");
    broken(|error| matches!(error, FileError::Content { .. }));
}

#[test]
fn certificates_are_read_again_when_they_change() {
    let files = Made::new(Odd::Nothing, Odd::Nothing);
    let terms = Arc::new(files.terms());
    let (socket, port) = listen();
    let (to_serve, rounds) = (Arc::clone(&terms), 3);
    let serves = thread::spawn(move || {
        for _ in 0..rounds {
            let (stream, _) = socket.accept().expect("somebody comes");
            let _ = to_serve.accept(stream, false);
        }
    });
    let connect = || files.target(port).connect();
    connect().expect("connect");
    // As long as the new one is not whole, the old one holds.
    fs::write(files.path("server.crt"), "").expect("write");
    connect().expect("connect");
    let authority = Authority::new(&files.path("ca.crt"));
    authority.sign(&files.path("server.crt"), "server", Odd::Nothing);
    authority.sign(&files.path("ann.crt"), "ann", Odd::Nothing);
    connect().expect("connect");
    serves.join().expect("it ends");
}

/// A client that speaks TLS as it should, and then says what no client says.
fn stranger(files: &Made, port: u16) -> StreamOwned<ClientConnection, TcpStream> {
    let read = |name: &str| fs::read(files.path(name)).expect("read");
    let certificate = |name| CertificateDer::from_pem_slice(&read(name)).expect("a certificate");
    let mut roots = RootCertStore::empty();
    roots.add(certificate("ca.crt")).expect("an authority");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("a version")
        .with_root_certificates(roots)
        .with_client_auth_cert(
            vec![certificate("ann.crt")],
            PrivateKeyDer::from_pem_slice(&read("ann.key")).expect("a key"),
        )
        .expect("a pair");
    config.alpn_protocols = vec![APPLICATION_PROTOCOL.to_vec()];
    let name = ServerName::try_from("localhost").expect("a name");
    let tls = ClientConnection::new(Arc::new(config), name).expect("a client");
    StreamOwned::new(
        tls,
        TcpStream::connect(("localhost", port)).expect("connect"),
    )
}

#[test]
fn an_opening_that_no_client_sends_is_refused() {
    let files = Made::new(Odd::Nothing, Odd::Nothing);
    for bytes in [
        // Above what an opening takes, though not above what a message does.
        [&(1_u32 << 20).to_le_bytes()[..], &[0; 8192]].concat(),
        u32::MAX.to_le_bytes().to_vec(),
        [3, 0, 0, 0, 0xff, 0xff, 0xff].to_vec(),
        // Something behind it.
        [4, 0, 0, 0, 3, b's', b'r', b'c', 0].to_vec(),
    ] {
        let server = Server::start(files.terms(), false);
        let mut stream = stranger(&files, server.port);
        // It may be closed by then.
        let _ = stream.write_all(&bytes);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert!(answer.is_empty(), "{answer:?}");
        drop(stream);
        let outcome = server.outcome();
        assert!(
            matches!(outcome, Err(NotAccepted::Handshake(_))),
            "{outcome:?}"
        );
    }
}

#[test]
fn a_client_that_says_too_little_in_time_is_closed() {
    let files = Made::new(Odd::Nothing, Odd::Nothing);
    let silent = Server::start(files.terms(), false);
    let slow = Server::start(files.terms(), false);
    let half = Server::start(files.terms(), false);
    let port = |server: &Server| ("localhost", server.port);
    let mut says_nothing = TcpStream::connect(port(&silent)).expect("connect");
    let mut drips = TcpStream::connect(port(&slow)).expect("connect");
    // A record of 16 KB, a byte now and then.
    drips.write_all(&[22, 3, 1, 0x40, 0]).expect("say");
    let drip = thread::spawn(move || {
        while drips.write_all(&[1]).is_ok() {
            thread::sleep(Duration::from_millis(50));
        }
    });
    // One that goes no further than the handshake.
    let mut stream = stranger(&files, half.port);
    stream.flush().expect("shake hands");
    let mut end = Vec::new();
    says_nothing
        .set_read_timeout(Some(PATIENCE))
        .expect("a timeout");
    says_nothing.read_to_end(&mut end).expect("it is closed");
    let _ = stream.read_to_end(&mut end);
    drop((says_nothing, stream));
    drip.join().expect("it is closed");
    for server in [silent, slow, half] {
        let outcome = server.outcome();
        assert!(matches!(outcome, Err(NotAccepted::Silent)), "{outcome:?}");
    }
}
