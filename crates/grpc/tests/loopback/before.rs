//! Aware methods before a service that knows nothing of speculation.

use std::sync::atomic::Ordering::SeqCst;

use surmise_grpc::{Callers, Context, Scope};
use tokio::net::TcpListener;
use tonic::Request;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;

use crate::hop::{Hop, connect};
use crate::store::{Client, Entry, Store, entry, until};

/// A generated service stays where it is, and one method of it becomes aware.
#[tokio::test]
async fn an_aware_method_stands_before_a_service_that_knows_nothing() {
    let (store, hop) = (Store::with(&[("a", "b")]), Hop::last());
    let said = hop.clone();
    let service = Callers::default().before(store.clone()).unary(
        "Put",
        move |context: Context<Entry>, request: Request<Entry>| {
            said.clone().answer(context, request.into_inner().key)
        },
    );
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = Server::builder().add_service(service);
    tokio::spawn(server.serve_with_incoming(TcpIncoming::from(listener)));
    hop.gate.add_permits(2);
    let client = Client::connect(address).await;
    assert_eq!(client.get("a").await.unwrap(), entry("a", "b"));
    // An old client, then one that speculates.
    assert_eq!(client.put("k", "v").await.unwrap(), entry("k", "end"));
    let path = PathAndQuery::from_static("/test.Store/Put");
    let server = connect(address).await;
    let scope = Scope::root();
    let put = scope.call_to::<_, Entry>(&server, path, &entry("l", ""));
    assert_eq!(put.aware().value().await.unwrap(), entry("l", "end"));
    // What another method is makes no difference.
    let path = PathAndQuery::from_static("/test.Store/Get");
    let get = scope.call_to::<_, Entry>(&server, path, &entry("a", ""));
    assert_eq!(get.value().await.unwrap(), entry("a", "b"));
    assert!(server.is_aware("/test.Store/Put") && !server.is_aware("/test.Store/Get"));
    until(|| hop.log() == ["do k", "drop k", "do l", "drop l"]).await;
    assert_eq!(store.puts.load(SeqCst), 0);
}
