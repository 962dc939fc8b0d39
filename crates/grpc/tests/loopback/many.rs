//! Many calls: nothing of them stays, and nobody gets more than its share by holding some open.

use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use prost::Message;
use surmise_grpc::{Callers, Granted, Scope, Status};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::hop::{Hop, connect, make};
use crate::store::{Client, Entry, Store, entry, until};

/// A number from the environment, or the usual one.
fn number(variable: &str, usual: usize) -> usize {
    let told = std::env::var(variable).ok();
    told.map_or(usual, |told| told.parse().expect("a number"))
}

/// S44: of a server that knows of nothing, and of two that are aware, half of them predicted wrongly: all come to
/// their values, and no task, handler or entry of a scope is left.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_left_of_many_calls() {
    let calls = number("SURMISE_CALLS", 1500);
    let open = || Hop {
        gate: Semaphore::new(Semaphore::MAX_PERMITS).into(),
        predicts: Some("end"),
        ..Hop::last()
    };
    let last = open();
    let first = Hop {
        gate: last.gate.clone(),
        ..Hop::before(connect(last.listen().await).await)
    };
    let server = connect(first.listen().await).await;
    let store = Store::with(&[("a", "b")]);
    let client = store.serve().await;
    let one = async |turn: usize| {
        let scope = Scope::root();
        let predicted = ["b", "x"][turn % 2];
        let reply = scope
            .call(|| client.get("a"))
            .predict(entry("a", predicted))
            .then(async |scope: Scope, first: Entry| {
                scope.on_abort(|| {});
                make(&scope, &server, &first.value).value().await
            });
        assert_eq!(reply.await.unwrap(), entry("b", "end<"));
        scope.settled().await.unwrap();
        format!("{scope:?}")
    };
    // From the first answer it is known who is aware.
    one(0).await;
    let (metrics, made) = (Handle::current().metrics(), one(1).await);
    until(|| first.running.load(SeqCst) + last.running.load(SeqCst) == 0).await;
    let before = metrics.num_alive_tasks();
    // Four calls each.
    for turn in 0..calls / 4 {
        let shown = one(turn).await;
        assert_eq!(of_open(&shown), of_open(&made));
        for log in [&first.log, &last.log] {
            log.lock().unwrap().clear();
        }
    }
    until(|| first.running.load(SeqCst) + last.running.load(SeqCst) == 0).await;
    until(|| store.running.load(SeqCst) == 0).await;
    until(|| metrics.num_alive_tasks() <= before).await;
}

/// What is shown of a scope, but for how many there have been.
fn of_open(shown: &str) -> &str {
    &shown[..shown.find("scopes_made").expect("it is shown")]
}

/// S43: one address holds calls open that it never decides. No more of them begin than it is granted; another is
/// served meanwhile; and in the end all of them are undone.
#[tokio::test]
async fn one_peer_gets_its_share_and_no_more() {
    /// Of one connection, which is what servers allow at least (RFC 9113, section 6.5.2).
    const STREAMS: usize = 100;
    let held = number("SURMISE_HELD", 600).next_multiple_of(STREAMS);
    let granted = Granted {
        undecided_for: Duration::from_secs(20),
        ..Granted::default()
    };
    let hop = Hop {
        callers: Callers::new(granted),
        gate: Semaphore::new(Semaphore::MAX_PERMITS).into(),
        ..Hop::last()
    };
    let address = hop.listen().await;
    let mut held_open = JoinSet::new();
    for _ in 0..held / STREAMS {
        let client = Client::connect(address).await;
        for _ in 0..STREAMS {
            let client = client.clone();
            let request = [&[7], &*entry("held", "").encode_to_vec()].concat();
            held_open.spawn(async move { client.hold("/test.Hop/Do", request).await });
        }
    }
    until(|| hop.entered("held") == granted.undecided_max).await;
    let honest = connect_from("127.0.0.2", address).await;
    let store = Store::with(&[("a", "b")]);
    let client = store.serve().await;
    // It speculates as well.
    make(&Scope::root(), &honest, "first")
        .value()
        .await
        .unwrap();
    let run = Scope::root()
        .call(|| client.get("a"))
        .predict(entry("a", "b"));
    let run = run.then(async |scope: Scope, _| make(&scope, &honest, "honest").value().await);
    assert_eq!(run.await.unwrap().value, "end");
    assert_eq!(hop.entered("held"), granted.undecided_max);
    held_open.shutdown().await;
    until(|| hop.undone("held") == granted.undecided_max).await;
}

/// What nobody decides is ended by the server, whoever holds it open.
#[tokio::test]
async fn what_is_held_open_for_too_long_is_ended() {
    let granted = Granted {
        undecided_for: Duration::from_millis(50),
        undecided_max: 1,
        ..Granted::default()
    };
    let hop = Hop {
        callers: Callers::new(granted),
        ..Hop::last()
    };
    let client = Client::connect(hop.listen().await).await;
    let mut held_open = JoinSet::new();
    for _ in 0..3 {
        let client = client.clone();
        let request = [&[7], &*entry("held", "").encode_to_vec()].concat();
        held_open.spawn(async move { client.hold("/test.Hop/Do", request).await });
    }
    while let Some(ended) = held_open.join_next().await {
        let status: Result<_, Status> = ended.unwrap();
        assert_eq!(status.unwrap_err().code(), tonic::Code::Aborted);
    }
    until(|| hop.undone("held") == hop.entered("held")).await;
}

async fn connect_from(local: &str, address: std::net::SocketAddr) -> surmise_grpc::Server {
    let endpoint = tonic::transport::Channel::from_shared(format!("http://{address}")).unwrap();
    let endpoint = endpoint
        .tcp_nodelay(true)
        .local_address(Some(local.parse().unwrap()));
    surmise_grpc::Server::new(endpoint.connect().await.unwrap())
}

impl Hop {
    fn entered(&self, key: &str) -> usize {
        self.count(&format!("do {key}"))
    }

    fn undone(&self, key: &str) -> usize {
        self.count(&format!("undo {key}"))
    }

    fn count(&self, line: &str) -> usize {
        self.log
            .lock()
            .unwrap()
            .iter()
            .filter(|logged| *logged == line)
            .count()
    }
}
