//! Aware servers over TLS, and clients that they know by certificates.

use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use surmise_grpc::{Callers, Granted, Scope, Server, Status};
use tokio::net::TcpListener;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{self, Certificate, Channel, ClientTlsConfig, Identity, ServerTlsConfig};

use crate::hop::{Hop, make};
use crate::store::{Entry, Store, entry, until};

/// Within which a test ends that has not failed.
const ENDS: Duration = Duration::from_secs(20);

/// Signs what servers and clients show each other.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        Self(CertifiedIssuer::self_signed(params, key).unwrap())
    }

    fn root(&self) -> Certificate {
        Certificate::from_pem(self.0.pem())
    }

    fn identity(&self, name: &str) -> Identity {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new([name.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        Identity::from_pem(certificate.pem(), key.serialize_pem())
    }

    /// Serves to clients that have a certificate, and returns its port.
    async fn serve(&self, hop: &Hop) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
        let own = self.identity("localhost");
        let tls = ServerTlsConfig::new()
            .identity(own)
            .client_ca_root(self.root());
        let mut server = transport::Server::builder().tls_config(tls).unwrap();
        tokio::spawn(
            server
                .add_service(hop.clone())
                .serve_with_incoming(incoming),
        );
        port
    }

    /// A client's end, which knows that the server is aware.
    async fn connect(&self, client: &Identity, hop: &Hop, port: u16) -> Server {
        let endpoint = Channel::from_shared(format!("https://127.0.0.1:{port}")).unwrap();
        let tls = ClientTlsConfig::new().domain_name("localhost");
        let tls = tls.ca_certificate(self.root()).identity(client.clone());
        let endpoint = endpoint.tls_config(tls).unwrap().tcp_nodelay(true);
        let server = Server::new(endpoint.connect().await.unwrap());
        hop.gate.add_permits(1);
        let first = make(&Scope::root(), &server, "first").value();
        assert_eq!(first.await.unwrap(), entry("first", "end"));
        assert!(server.is_aware("/test.Hop/Do"));
        until(|| hop.running.load(SeqCst) == 0).await;
        hop.log.lock().unwrap().clear();
        server
    }
}

#[tokio::test]
async fn commits_and_aborts_are_heard_over_tls() {
    let authority = Authority::new();
    let hop = Hop::last();
    let port = authority.serve(&hop).await;
    let server = authority
        .connect(&authority.identity("client"), &hop, port)
        .await;
    let store = Store::with(&[("a", "b")]);
    let client = store.serve().await;
    store.close("a");
    let scope = Scope::root();
    let first = scope.call(|| client.get("a"));
    let run = first.predict(entry("a", "x")).predict(entry("a", "b"));
    let run = run.then(async |scope: Scope, first: Entry| {
        Ok::<_, Status>(make(&scope, &server, &first.value).value().await?.value)
    });
    let steps = async {
        until(|| hop.running.load(SeqCst) == 2).await;
        store.let_through("a");
        until(|| hop.log().contains(&"drop x".to_owned())).await;
        hop.gate.add_permits(1);
    };
    let (outcome, ()) = tokio::join!(run, steps);
    assert_eq!(outcome.unwrap(), "end");
    scope.settled().await.unwrap();
    until(|| hop.running.load(SeqCst) == 0).await;
    let log = hop.log();
    let of = |word: &str| -> Vec<_> { log.iter().filter(|line| line.ends_with(word)).collect() };
    assert_eq!(of(" x"), ["do x", "undo x", "drop x"]);
    assert_eq!(of(" b"), ["do b", "drop b"]);
}

/// Of which each caller may have one undecided call.
fn strict() -> Hop {
    let granted = Granted {
        undecided_max: 1,
        ..Granted::default()
    };
    Hop {
        callers: Callers::new(granted),
        ..Hop::last()
    }
}

/// Two clients of one address.
#[tokio::test]
async fn clients_are_told_apart_by_their_certificates() {
    let (authority, hop) = (Authority::new(), strict());
    let port = authority.serve(&hop).await;
    let identities = ["one", "other"].map(|name| authority.identity(name));
    let one = authority.connect(&identities[0], &hop, port).await;
    let other = authority.connect(&identities[1], &hop, port).await;
    let store = Store::with(&[("a", "b")]);
    let client = store.serve().await;
    store.close("a");
    let first = Scope::root().call(|| client.get("a"));
    let run = first
        .predict(entry("a", "b"))
        .then(async |scope: Scope, _| {
            let both = (make(&scope, &one, "1"), make(&scope, &other, "2"));
            let (first, second) = tokio::join!(both.0.value(), both.1.value());
            first.and(second)
        });
    let steps = async {
        let begun = until(|| hop.running.load(SeqCst) == 2);
        let begun = tokio::time::timeout(ENDS, begun).await;
        hop.gate.add_permits(2);
        store.let_through("a");
        begun.expect("neither waits for the other's commit");
    };
    let (outcome, ()) = tokio::join!(run, steps);
    assert_eq!(outcome.unwrap(), entry("2", "end"));
}

#[tokio::test]
async fn connections_of_one_certificate_are_one_caller() {
    let (authority, hop) = (Authority::new(), strict());
    let port = authority.serve(&hop).await;
    let identity = authority.identity("one");
    let first = authority.connect(&identity, &hop, port).await;
    let second = authority.connect(&identity, &hop, port).await;
    let store = Store::with(&[("a", "b")]);
    let client = store.serve().await;
    store.close("a");
    let call = Scope::root().call(|| client.get("a"));
    let run = call.predict(entry("a", "b")).then(async |scope: Scope, _| {
        let one = make(&scope, &first, "1").value();
        let two = async {
            until(|| hop.log() == ["do 1"]).await;
            make(&scope, &second, "2").value().await
        };
        let (one, two) = tokio::join!(one, two);
        one.and(two)
    });
    let steps = async {
        until(|| hop.log() == ["do 1"]).await;
        // What is sent behind the second call, over its connection, is answered. So it is there, and waits.
        hop.gate.add_permits(2);
        let behind = make(&Scope::root(), &second, "3").value().await;
        assert_eq!(behind.unwrap(), entry("3", "end"));
        assert!(!hop.log().contains(&"do 2".to_owned()));
        hop.gate.add_permits(1);
        store.let_through("a");
    };
    let both = async { tokio::join!(run, steps) };
    let (outcome, ()) = tokio::time::timeout(ENDS, both).await.expect("it ends");
    assert_eq!(outcome.unwrap(), entry("2", "end"));
    assert_eq!(*hop.ahead.lock().unwrap(), ["1"]);
}
