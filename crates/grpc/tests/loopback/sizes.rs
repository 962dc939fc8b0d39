//! How large messages may be, and how they are compressed, at aware servers.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;

use surmise_grpc::{Callers, Scope, Server, Status};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tonic::Code;
use tonic::codec::CompressionEncoding::Gzip;

use crate::hop::{Hop, connect, make};
use crate::store::{Client, Entry, Store, entry, until};

/// Of 100 kB, which is little when it is compressed.
fn long() -> String {
    "abc".repeat(33_000)
}

/// Calls the hop with this key in a branch that is right, and undecided until this has happened.
async fn ahead(server: &Server, key: &str, happened: impl Fn() -> bool) -> Result<Entry, Status> {
    let store = Store::with(&[("a", "b")]);
    let client = store.serve().await;
    store.close("a");
    let scope = Scope::root();
    let first = scope.call(|| client.get("a")).predict(entry("a", "b"));
    let run = first.then(async |scope: Scope, _| make(&scope, server, key).value().await);
    let steps = async {
        until(happened).await;
        store.let_through("a");
    };
    let (outcome, ()) = tokio::join!(run, steps);
    // An error is the call's own, and told by that.
    scope.settled().await.unwrap();
    outcome
}

/// A way to a server, and how many bytes have passed it in both directions.
async fn metered(server: SocketAddr) -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let passed = Arc::new(AtomicUsize::new(0));
    let count = passed.clone();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let (from_client, to_client) = client.into_split();
            let server = TcpStream::connect(server).await.unwrap();
            let (from_server, to_server) = server.into_split();
            tokio::spawn(pass(from_client, to_server, count.clone()));
            tokio::spawn(pass(from_server, to_client, count.clone()));
        }
    });
    (address, passed)
}

async fn pass(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, passed: Arc<AtomicUsize>) {
    let mut piece = [0; 4096];
    while let Ok(length) = from.read(&mut piece).await {
        passed.fetch_add(length, SeqCst);
        if length == 0 || to.write_all(&piece[..length]).await.is_err() {
            return;
        }
    }
}

#[tokio::test]
async fn requests_predictions_replies_and_commits_are_compressed() {
    let key = long();
    let mut bytes = Vec::new();
    for is_compressed in [false, true] {
        let mut hop = Hop::last();
        hop.predicts = Some("guess");
        if is_compressed {
            let callers = Callers::default().accept_compressed(Gzip);
            hop.callers = callers.send_compressed(Gzip);
        }
        let (address, passed) = metered(hop.listen().await).await;
        let mut server = connect(address).await;
        if is_compressed {
            server = server.send_compressed(Gzip).accept_compressed(Gzip);
        }
        hop.gate.add_permits(2);
        let reply = make(&Scope::root(), &server, &key).value().await;
        assert_eq!(reply.unwrap(), entry(&key, "end"));
        let is_ahead = || hop.ahead.lock().unwrap().len() == 1;
        let reply = ahead(&server, &key, is_ahead).await;
        assert_eq!(reply.unwrap(), entry(&key, "end"));
        assert_eq!(*hop.ahead.lock().unwrap(), [key.as_str()]);
        let log = hop.log();
        assert!(!log.iter().any(|line| line.starts_with("undo")));
        bytes.push(passed.load(SeqCst));
    }
    // Of two calls, each with a request, a prediction and a reply.
    let [plain, compressed] = bytes[..] else {
        unreachable!()
    };
    assert!(plain > 6 * key.len() && compressed < key.len(), "{bytes:?}");
}

/// A caller that knows nothing of speculation, either.
#[tokio::test]
async fn plain_replies_are_compressed_for_who_takes_that() {
    let mut hop = Hop::last();
    hop.callers = Callers::default().send_compressed(Gzip);
    hop.gate.add_permits(2);
    let (address, passed) = metered(hop.listen().await).await;
    let key = long();
    let client = Client::connect(address).await;
    let reply = client.call("/test.Hop/Do", entry(&key, ""));
    assert_eq!(reply.await.unwrap(), entry(&key, "end"));
    let plain = passed.swap(0, SeqCst);
    assert!(plain > 2 * key.len(), "{plain} bytes");
    let reply = client.compressed("/test.Hop/Do", entry(&key, ""));
    assert_eq!(reply.await.unwrap(), entry(&key, "end"));
    let compressed = passed.load(SeqCst);
    assert!(
        (key.len()..key.len() + 20_000).contains(&compressed),
        "{compressed} bytes"
    );
}

/// A hop whose `callers` refuse a call with a long key: an old client's, and a confirmed one.
async fn refusing(callers: Callers) -> (Hop, Server, String) {
    let mut hop = Hop::last();
    hop.callers = callers;
    let server = hop.serve().await;
    hop.gate.add_permits(3);
    let key = long();
    let plain = Client::connect(hop.listen().await).await;
    let refused = plain.call("/test.Hop/Do", entry(&key, "")).await;
    assert_eq!(refused.unwrap_err().code(), Code::OutOfRange);
    let refused = make(&Scope::root(), &server, &key).value().await;
    assert_eq!(refused.unwrap_err().code(), Code::OutOfRange);
    (hop, server, key)
}

#[tokio::test]
async fn a_request_that_is_too_large_never_reaches_the_handler() {
    let (hop, server, key) = refusing(Callers::default().max_decoding_message_size(1000)).await;
    // What cannot be read was not said by an aware caller, as far as the server can tell, and it answers so.
    let refused = ahead(&server, &key, || !server.is_aware("/test.Hop/Do")).await;
    assert_eq!(refused.unwrap_err().code(), Code::OutOfRange);
    assert!(hop.log().is_empty());
}

/// The handler has had its effects by then; they stay, as at any server, also where the caller was undecided.
#[tokio::test]
async fn a_reply_that_is_too_large_is_an_error_and_undoes_nothing() {
    let (hop, server, key) = refusing(Callers::default().max_encoding_message_size(1000)).await;
    let has_ended = || {
        hop.log()
            .iter()
            .filter(|line| line.starts_with("drop"))
            .count()
            == 3
    };
    let refused = ahead(&server, &key, has_ended).await;
    assert_eq!(refused.unwrap_err().code(), Code::OutOfRange);
    until(|| hop.running.load(SeqCst) == 0).await;
    let log = hop.log();
    let count = |what: &str| log.iter().filter(|line| line.starts_with(what)).count();
    assert_eq!((count("do"), count("undo"), count("drop")), (3, 0, 3));
    assert_eq!(hop.ahead.lock().unwrap().len(), 1);
}

/// What is only guessed must not fail a call whose reply is small enough.
#[tokio::test]
async fn a_prediction_that_is_too_large_is_not_sent() {
    for is_own_limit in [true, false] {
        let mut hop = Hop::last();
        hop.predicts = Some(Box::leak(long().into_boxed_str()));
        if is_own_limit {
            hop.callers = Callers::default().max_encoding_message_size(1000);
        }
        let mut server = hop.serve().await;
        if !is_own_limit {
            server = server.max_decoding_message_size(1000);
        }
        hop.gate.add_permits(1);
        let reply = make(&Scope::root(), &server, "k").value().await;
        assert_eq!(reply.unwrap(), entry("k", "end"));
    }
}
