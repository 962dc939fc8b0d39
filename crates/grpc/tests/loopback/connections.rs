//! What becomes of a connection on which many calls are cancelled, and of calls whose connection is lost.

use std::sync::atomic::Ordering::SeqCst;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use surmise_grpc::{Budget, Gate, Limits, Scope, Status, Waste};
use tokio::runtime::Builder;
use tokio::task::JoinSet;
use tonic::transport::Server;

use crate::store::{Client, Entry, Store, entry, until};
use crate::valve::Valve;

/// The replies to 1500 calls of denied branches are under way when the calls are cancelled. The
/// connection stays, and so does the call that was on it before all of them. The client's HTTP/2 would
/// have closed it after 1024 frames.
#[tokio::test]
async fn late_replies_to_cancelled_calls_do_not_close_the_connection() {
    let (store, first) = (Store::with(&[("x", "late")]), Store::with(&[("a", "b")]));
    let (valve, address) = Valve::before(store.listen().await).await;
    let client = Client::connect(address).await;
    let first_client = first.serve().await;
    store.close("old");
    store
        .entries
        .lock()
        .unwrap()
        .insert("old".into(), "kept".into());
    let old = client.clone();
    let old = tokio::spawn(async move { old.get("old").await });
    until(|| store.running.load(SeqCst) == 1).await;
    for round in 1..=10 {
        valve.close();
        first.close("a");
        let mut runs = JoinSet::new();
        for _ in 0..150 {
            let (client, first_client) = (client.clone(), first_client.clone());
            runs.spawn(async move {
                let (client, first_client) = (&client, &first_client);
                Scope::root()
                    .call(|| first_client.get("a"))
                    .predict(entry("a", "x"))
                    .then(async |scope: Scope, first: Entry| match &*first.value {
                        "x" => scope.call(|| client.get("x")).safe().value().await,
                        _ => Ok::<_, Status>(first),
                    })
                    .await
            });
        }
        // All are answered but the one call from before; and the answers are on their way.
        until(|| store.gets.load(SeqCst) == 1 + 150 * round).await;
        until(|| store.running.load(SeqCst) == 1).await;
        until(|| first.running.load(SeqCst) == 150).await;
        (0..150).for_each(|_| first.let_through("a"));
        while let Some(run) = runs.join_next().await {
            assert_eq!(run.unwrap().unwrap().value, "b");
        }
        valve.open();
        // A round trip, behind everything that was late.
        assert_eq!(client.get("x").await.unwrap().value, "late");
        store.gets.fetch_sub(1, SeqCst);
    }
    store.let_through("old");
    assert_eq!(old.await.unwrap().unwrap().value, "kept");
}

/// Calls with effects that wait for their turn on a connection when that is lost: none of them has left. Whether
/// anything is run ahead makes no difference.
#[tokio::test]
async fn calls_that_were_never_sent_are_sent_again() {
    let sequential = Limits {
        budget: Budget::NONE,
        ..Limits::default()
    };
    for limits in [Limits::default(), sequential] {
        let store = Store::with(&[("held", "")]);
        let one_at_a_time = Server::builder().max_concurrent_streams(1);
        let server = store.listen_as(one_at_a_time).await;
        let (valve, address) = Valve::before(server).await;
        let client = Client::connect(address).await;
        // The client has heard how many calls may be under way.
        client.put("first", "").await.unwrap();
        store.close("held");
        let mut calls = JoinSet::new();
        let held = client.clone();
        calls.spawn(async move { held.get("held").await });
        until(|| store.running.load(SeqCst) == 1).await;
        for number in 0..10 {
            let client = client.clone();
            calls.spawn(async move {
                let key = number.to_string();
                let scope = Scope::root_with(limits);
                scope.call(|| client.put(&key, "")).value().await
            });
        }
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        valve.cut();
        let answered = calls.join_all().await.into_iter().flatten().count();
        // The one that is held has left, and one may be on its way.
        assert!(answered >= 9, "{answered} of 10, {limits:?}");
        assert_eq!(store.puts.load(SeqCst), 1 + answered);
    }
}

/// A server that stands still closes a connection on which more than 20 calls were cancelled before it looked at them.
/// No more are ahead where that is what may be wasted.
#[tokio::test]
async fn a_server_that_stands_still_keeps_the_connection_of_a_client_with_a_budget() {
    let (store, first) = (Store::with(&[("x", "y")]), Store::with(&[("a", "b")]));
    let (stand_still, standing_still) = mpsc::channel::<()>();
    let (listening, listens) = mpsc::channel();
    let served = store.clone();
    thread::spawn(move || {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            listening.send(served.listen().await).unwrap();
            until(|| served.gets.load(SeqCst) > 0).await;
            // Nothing else runs there until the test lets it.
            standing_still.recv().unwrap();
            std::future::pending::<()>().await;
        });
    });
    let client = Client::connect(listens.recv().unwrap()).await;
    assert_eq!(client.get("x").await.unwrap(), entry("x", "y"));
    let first_client = first.serve().await;
    first.close("a");
    let gate = Gate::new(Limits::default());
    let gate = gate.wasting_at_most(Waste {
        percent: 0,
        burst: 20,
    });
    let mut runs = JoinSet::new();
    for _ in 0..100 {
        let (client, first_client, scope) = (client.clone(), first_client.clone(), gate.root());
        runs.spawn(async move {
            let (client, first_client) = (&client, &first_client);
            let call = scope.call(|| first_client.get("a"));
            let run = call.predict(entry("a", "x"));
            run.then(async |scope: Scope, first: Entry| match &*first.value {
                "x" => scope.call(|| client.get("x")).safe().value().await,
                _ => Ok::<_, Status>(first),
            })
            .await
        });
    }
    until(|| first.running.load(SeqCst) == 100).await;
    // What is ahead is on the wire.
    tokio::time::sleep(Duration::from_millis(50)).await;
    (0..100).for_each(|_| first.let_through("a"));
    for run in runs.join_all().await {
        assert_eq!(run.unwrap(), entry("a", "b"));
    }
    let last = tokio::spawn(async move { client.get("x").await });
    tokio::time::sleep(Duration::from_millis(50)).await;
    stand_still.send(()).unwrap();
    assert_eq!(last.await.unwrap().unwrap(), entry("x", "y"));
}
