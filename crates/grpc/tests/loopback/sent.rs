//! What applications send along with their calls: metadata, interceptors, deadlines and limits of sizes.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use prost::Message;
use surmise_grpc::{CallTo, Scope, Server, Status};
use tonic::codegen::http::uri::PathAndQuery;
use tonic::{Code, Request};

use crate::hop::{Hop, connect};
use crate::store::{Client, Entry, Store, entry, until};
use crate::valve::Valve;

/// Within which a test on a busy machine gets a reply that nobody holds back.
const SOON: Duration = Duration::from_millis(500);

/// Within which a test ends that has not failed.
const ENDS: Duration = Duration::from_secs(20);

fn make(scope: &Scope, server: &Server, request: Request<&Entry>) -> CallTo<Entry> {
    let path = PathAndQuery::from_static("/test.Hop/Do");
    scope.call_to(server, path, request).aware()
}

#[tokio::test]
async fn metadata_and_interceptors_reach_the_handler_and_leave_the_protocol_alone() {
    let hop = Hop::last();
    let server = hop
        .serve()
        .await
        .with_interceptor(|mut request: Request<()>| {
            let metadata = request.metadata_mut();
            if metadata.get("tenant").is_none() {
                metadata.insert("tenant", "intercepted".parse().unwrap());
            }
            metadata.insert("surmise", "nonsense".parse().unwrap());
            Ok(request)
        });
    hop.gate.add_permits(2);
    let message = entry("k", "");
    let mut request = Request::new(&message);
    request
        .metadata_mut()
        .insert("tenant", "own".parse().unwrap());
    let scope = Scope::root();
    for request in [request, Request::new(&message)] {
        let reply = make(&scope, &server, request).value().await;
        assert_eq!(reply.unwrap(), entry("k", "end"));
    }
    assert!(server.is_aware("/test.Hop/Do"));
    until(|| hop.running.load(SeqCst) == 0).await;
    let log = hop.log();
    let tenants: Vec<_> = log
        .iter()
        .filter(|line| line.starts_with("tenant"))
        .collect();
    assert_eq!(tenants, ["tenant own", "tenant intercepted"]);
}

#[tokio::test]
async fn what_an_interceptor_refuses_is_not_sent() {
    let hop = Hop::last();
    let refuse = |_: Request<()>| Err(Status::unauthenticated("no token"));
    let server = hop.serve().await.with_interceptor(refuse);
    let scope = Scope::root();
    let reply = make(&scope, &server, Request::new(&entry("k", "")));
    assert_eq!(
        reply.value().await.unwrap_err().code(),
        Code::Unauthenticated
    );
    scope.settled().await.unwrap();
    assert!(hop.log().is_empty());
}

#[tokio::test]
async fn a_reply_larger_than_the_limit_is_an_error() {
    let hop = Hop::last();
    let server = hop.serve().await.max_decoding_message_size(4);
    hop.gate.add_permits(1);
    let reply = make(&Scope::root(), &server, Request::new(&entry("k", "")));
    assert_eq!(reply.value().await.unwrap_err().code(), Code::OutOfRange);
}

/// Nothing comes through any more, of a server that has begun to answer.
#[tokio::test]
async fn a_deadline_counts_after_the_first_of_the_reply() {
    let mut hop = Hop::last();
    hop.predicts = Some("end");
    let (valve, address) = Valve::before(hop.listen().await).await;
    let server = connect(address).await;
    let message = entry("k", "");
    let mut request = Request::new(&message);
    request.set_timeout(SOON);
    let run = make(&Scope::root(), &server, request).then(async |scope: Scope, _| {
        valve.close();
        scope.confirmed().await
    });
    let outcome = tokio::time::timeout(ENDS, run).await;
    assert_eq!(
        outcome.expect("it ends").unwrap_err().code(),
        Code::DeadlineExceeded
    );
}

/// tonic's own client would say that the call was cancelled.
#[tokio::test]
async fn a_deadline_is_exceeded_at_a_server_that_is_not_aware() {
    let store = Store::with(&[("a", "b")]);
    let server = connect(store.listen().await).await;
    store.close("a");
    let path = PathAndQuery::from_static("/test.Store/Get");
    let message = entry("a", "");
    let mut request = Request::new(&message);
    request.set_timeout(Duration::from_millis(20));
    let call = Scope::root().call_to::<_, Entry>(&server, path, request);
    assert_eq!(
        call.value().await.unwrap_err().code(),
        Code::DeadlineExceeded
    );
}

/// A caller that does not look at the clock itself.
#[tokio::test]
async fn a_server_ends_its_handler_at_the_deadline() {
    let hop = Hop::last();
    let client = Client::connect(hop.listen().await).await;
    let metadata = [("surmise", "1"), ("grpc-timeout", "500m")];
    let frames = client.frames("/test.Hop/Do", entry("k", "").encode_to_vec(), &metadata);
    let outcome = tokio::time::timeout(ENDS, frames).await;
    assert_eq!(
        outcome.expect("it ends").unwrap_err().code(),
        Code::DeadlineExceeded
    );
    until(|| hop.running.load(SeqCst) == 0).await;
}

/// A handler that ends ends what it has asked of others.
#[tokio::test]
async fn a_deadline_aborts_what_the_handler_has_called() {
    let last = Hop::last();
    let first = Hop::before(last.serve().await);
    let client = Client::connect(first.listen().await).await;
    let metadata = [("surmise", "1"), ("grpc-timeout", "500m")];
    let frames = client.frames("/test.Hop/Do", entry("k", "").encode_to_vec(), &metadata);
    let frames = tokio::time::timeout(ENDS, frames);
    let begun = until(|| last.log().contains(&"do k".to_owned()));
    let (outcome, ()) = tokio::join!(frames, begun);
    assert_eq!(
        outcome.expect("it ends").unwrap_err().code(),
        Code::DeadlineExceeded
    );
    until(|| last.running.load(SeqCst) + first.running.load(SeqCst) == 0).await;
}

/// One after the other, the second call would only have been made when the first was answered.
#[tokio::test]
async fn what_is_undecided_takes_nothing_off_a_deadline() {
    let hop = Hop::last();
    let server = hop.serve().await;
    let store = Store::with(&[("a", "b")]);
    let client = store.serve().await;
    store.close("a");
    let is_answered = AtomicBool::new(false);
    let scope = Scope::root();
    let message = entry("k", "");
    let first = scope.call(|| client.get("a")).predict(entry("a", "b"));
    let run = first.then(async |scope: Scope, _| {
        let mut request = Request::new(&message);
        request.set_timeout(SOON);
        let reply = make(&scope, &server, request).value().await;
        is_answered.store(true, SeqCst);
        reply
    });
    let steps = async {
        until(|| hop.log() == ["do k"]).await;
        tokio::time::sleep(SOON + SOON).await;
        hop.gate.add_permits(1);
        until(|| is_answered.load(SeqCst)).await;
        store.let_through("a");
    };
    let (outcome, ()) = tokio::join!(run, steps);
    assert_eq!(outcome.unwrap(), entry("k", "end"));
    scope.settled().await.unwrap();
}

/// S39: of two safe calls with predicted arguments, the server may see one ahead.
#[tokio::test]
async fn predicted_arguments_are_shown_only_where_they_may_be() {
    let store = Store::with(&[("a", "b"), ("b", "c")]);
    let client = store.serve().await;
    let open = connect(store.listen().await).await;
    let path = PathAndQuery::from_static("/test.Store/Get");
    let listed = open
        .clone()
        .ahead_only([path.path().trim_start_matches('/')]);
    let closed = open.clone().ahead_only(["/test.Store/Put"]);
    store.close("a");
    let scope = Scope::root();
    let first = scope.call(|| client.get("a")).predict(entry("a", "b"));
    let run = first.then(async |scope: Scope, first: Entry| {
        let message = entry(&first.value, "");
        let read = |server: &Server| {
            let read = scope.call_to::<_, Entry>(server, path.clone(), &message);
            read.safe().value()
        };
        let others = async {
            assert_eq!(read(&listed).await?.value, "c");
            assert_eq!(read(&open).await?.value, "c");
            // That of `a` and these two, on one connection, behind which the third would have come.
            assert_eq!(store.gets.load(SeqCst), 3);
            store.let_through("a");
            Ok::<_, Status>(())
        };
        let (value, others) = tokio::join!(read(&closed), others);
        others?;
        let value = value?.value;
        assert!(!scope.is_speculative());
        Ok::<_, Status>(value)
    });
    let outcome = tokio::time::timeout(ENDS, run).await;
    assert_eq!(outcome.expect("it ends").unwrap(), "c");
}
