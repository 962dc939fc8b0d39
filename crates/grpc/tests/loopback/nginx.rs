//! Calls through nginx, the proxy that stands before many a gRPC server: it knows HTTP/2 and nothing of this.

use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use surmise_grpc::{Scope, Status};
use tempfile::TempDir;

use crate::hop::{Hop, connect, make};
use crate::store::{Client, Entry, Store, entry, until};

struct Nginx {
    address: SocketAddr,
    child: Child,
    _directory: TempDir,
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Nginx {
    /// Before a server; None, where it is not installed.
    async fn before(server: SocketAddr) -> Option<Self> {
        let directory = tempfile::tempdir().unwrap();
        // Free now, and hardly taken by somebody else before it is used.
        let address = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap();
        let paths = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
        let paths = paths.map(|name| format!("{name}_temp_path {name};"));
        let configuration = format!(
            "daemon off; master_process off; pid pid; error_log error.log;
            events {{ }}
            http {{
                access_log off; {}
                server {{
                    listen {address} http2;
                    location / {{ grpc_pass grpc://{server}; }}
                }}
            }}",
            paths.concat()
        );
        std::fs::write(directory.path().join("nginx.conf"), configuration).unwrap();
        let mut nginx = Command::new("nginx");
        let path = std::env::var("PATH").unwrap_or_default();
        nginx.env("PATH", format!("{path}:/usr/sbin"));
        nginx
            .arg("-p")
            .arg(directory.path())
            .args(["-e", "error.log", "-c", "nginx.conf"]);
        let Ok(child) = nginx.stderr(Stdio::null()).spawn() else {
            let _ = writeln!(
                std::io::stderr(),
                "SKIP calls through nginx: it is not installed"
            );
            return None;
        };
        let begun = Self {
            address,
            child,
            _directory: directory,
        };
        until(|| std::net::TcpStream::connect(address).is_ok()).await;
        Some(begun)
    }
}

/// An aware server's effects wait for the commit, which comes through; an abort does, too.
#[tokio::test]
async fn a_new_client_speculates_with_a_new_server() {
    let hop = Hop::last();
    let Some(nginx) = Nginx::before(hop.listen().await).await else {
        return;
    };
    let server = connect(nginx.address).await;
    hop.gate.add_permits(100);
    let first = make(&Scope::root(), &server, "first").value().await;
    assert_eq!(first.unwrap(), entry("first", "end"));
    assert!(server.is_aware("/test.Hop/Do"));
    let store = Store::with(&[("a", "b")]);
    let client = store.serve().await;
    for (predicted, key) in [("b", "right"), ("x", "wrong")] {
        store.close("a");
        let is_ahead = AtomicBool::new(false);
        let scope = Scope::root();
        let run = scope
            .call(|| client.get("a"))
            .predict(entry("a", predicted));
        let run = run.then(async |scope: Scope, value: Entry| {
            let key = if value.value == predicted {
                key
            } else {
                "after"
            };
            let reply = make(&scope, &server, key).value().await;
            is_ahead.fetch_or(scope.is_speculative(), SeqCst);
            store.let_through("a");
            reply
        });
        let limit = tokio::time::timeout(Duration::from_secs(20), run).await;
        let reply = limit.expect("it does not wait for ever");
        assert_eq!(reply.unwrap().value, "end");
        assert!(is_ahead.into_inner(), "{key} was not run ahead");
        scope.settled().await.unwrap();
    }
    until(|| hop.log().contains(&"undo wrong".to_owned())).await;
    let undone: Vec<_> = hop
        .log()
        .into_iter()
        .filter(|line| line.starts_with("undo"))
        .collect();
    assert_eq!(undone, ["undo wrong"]);
}

#[tokio::test]
async fn old_and_new_understand_each_other() {
    let hop = Hop::last();
    hop.gate.add_permits(100);
    let Some(nginx) = Nginx::before(hop.listen().await).await else {
        return;
    };
    let old = Client::connect(nginx.address).await;
    let reply = old.call("/test.Hop/Do", entry("k", "")).await;
    assert_eq!(reply.unwrap(), entry("k", "end"));

    let store = Store::with(&[("a", "b"), ("b", "c")]);
    let nginx = Nginx::before(store.listen().await)
        .await
        .expect("as before");
    let client = Client::connect(nginx.address).await;
    let run = Scope::root()
        .call(|| client.get("a"))
        .predict(entry("a", "b"));
    let run = run.then(async |scope: Scope, first: Entry| {
        let read = scope.call(|| client.get(&first.value)).safe();
        Ok::<_, Status>(read.value().await?.value)
    });
    assert_eq!(run.await.unwrap(), "c");
    // What is said to be aware of a server that is not waits, and comes to its value.
    let server = connect(nginx.address).await;
    hop.is_old.store(true, SeqCst);
    let get = tonic::codegen::http::uri::PathAndQuery::from_static("/test.Store/Get");

    let call = Scope::root()
        .call_to::<_, Entry>(&server, get, &entry("b", ""))
        .aware();
    assert_eq!(call.value().await.unwrap().value, "c");
    assert!(!server.is_aware("/test.Store/Get"));
}
