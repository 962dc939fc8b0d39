//! Calls over servers that are aware, and between those that are and those that are not.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use prost::Message;
use surmise_grpc::{Scope, Status};
use tonic::codegen::http::uri::PathAndQuery;

use crate::hop::{Hop, connect, make};
use crate::store::{Client, Entry, Store, entry, until};
use crate::valve::Valve;

/// Three servers of which one asks the next, with the first's clients' end.
async fn chain(predicts: &'static str) -> ([Hop; 3], surmise_grpc::Server) {
    let mut last = Hop::last();
    last.predicts = Some(predicts);
    let middle = Hop::before(last.serve().await);
    last.gate.add_permits(1);
    let first = Hop::before(middle.serve().await);
    last.gate.add_permits(1);
    let server = first.serve().await;
    for hop in [&last, &middle] {
        until(|| hop.running.load(SeqCst) == 0).await;
        hop.log.lock().unwrap().clear();
    }
    ([first, middle, last], server)
}

/// What the last of three servers predicts travels up by itself; what follows at the client runs ahead,
/// up to the commit of an effect.
#[tokio::test]
async fn three_hops_with_right_predictions_overlap() {
    let ([_, _, last], server) = chain("end").await;
    let effects = Hop::last();
    let effects_server = effects.serve().await;
    let scope = Scope::root();
    let run = make(&scope, &server, "k").then(async |scope: Scope, reply: Entry| {
        assert!(scope.is_speculative());
        effects.gate.add_permits(1);
        let effect = make(&scope, &effects_server, &reply.value).value().await?;
        // It has replied, and the last of the three has not.
        assert!(scope.is_speculative());
        last.gate.add_permits(1);
        scope.confirmed().await?;
        Ok::<_, Status>((reply.value, effect.value))
    });
    let (reply, effect) = run.await.unwrap();
    assert_eq!((&*reply, &*effect), ("end<<", "end"));
    scope.settled().await.unwrap();
    assert_eq!(effects.log(), ["do end<<", "drop end<<"]);
    until(|| last.running.load(SeqCst) == 0).await;
    assert_eq!(last.log(), ["do k", "drop k"]);
}

#[tokio::test]
async fn three_hops_with_wrong_predictions_are_as_if_there_were_none() {
    let ([_, _, last], server) = chain("wrong").await;
    let effects = Hop::last();
    let effects_server = effects.serve().await;
    let scope = Scope::root();
    let run = make(&scope, &server, "k").then(async |scope: Scope, reply: Entry| {
        let effect = make(&scope, &effects_server, &reply.value);
        Ok::<_, Status>((reply.value.clone(), effect.value().await?.value))
    });
    let steps = async {
        until(|| effects.log() == ["do wrong<<"]).await;
        last.gate.add_permits(1);
        // The rollback comes before what the handler owns is dropped.
        until(|| effects.log().len() == 4).await;
        effects.gate.add_permits(1);
    };
    let (outcome, ()) = tokio::join!(run, steps);
    let (reply, effect) = outcome.unwrap();
    assert_eq!((&*reply, &*effect), ("end<<", "end"));
    scope.settled().await.unwrap();
    let log = effects.log();
    let of = |word: &str| -> Vec<_> { log.iter().filter(|line| line.ends_with(word)).collect() };
    assert_eq!(
        of("wrong<<"),
        ["do wrong<<", "undo wrong<<", "drop wrong<<"]
    );
    until(|| effects.log().len() == 5).await;
    assert_eq!(of("end<<")[0], "do end<<");
}

#[tokio::test]
async fn an_abort_reaches_the_leaf() {
    let (hops, server) = chain("end").await;
    let store = Store::with(&[("a", "b")]);
    let client = store.serve().await;
    store.close("a");
    let run = Scope::root()
        .call(|| client.get("a"))
        .predict(entry("a", "x"))
        .then(async |scope: Scope, first: Entry| match &*first.value {
            "x" => make(&scope, &server, "k").value().await,
            _ => Ok::<_, Status>(first),
        });
    let steps = async {
        until(|| hops[2].running.load(SeqCst) == 1).await;
        store.let_through("a");
    };
    let (outcome, ()) = tokio::join!(run, steps);
    assert_eq!(outcome.unwrap().value, "b");
    for hop in &hops {
        until(|| hop.log().len() == 3).await;
        assert_eq!(hop.log(), ["do k", "undo k", "drop k"]);
    }
}

/// The call has been answered, and its caller is gone before it is confirmed.
#[tokio::test]
async fn a_lost_connection_without_a_commit_is_an_abort() {
    let hop = Hop::last();
    let (valve, address) = Valve::before(hop.listen().await).await;
    let server = connect(address).await;
    hop.gate.add_permits(2);
    make(&Scope::root(), &server, "first")
        .value()
        .await
        .unwrap();
    let store = Store::with(&[("a", "b")]);
    let client = store.serve().await;
    store.close("a");
    let is_answered = AtomicBool::new(false);
    let scope = Scope::root();
    let run = scope
        .call(|| client.get("a"))
        .predict(entry("a", "b"))
        .then(async |scope: Scope, _| {
            let reply = make(&scope, &server, "k").value().await;
            is_answered.store(true, SeqCst);
            reply
        });
    let steps = async {
        until(|| is_answered.load(SeqCst)).await;
        valve.cut();
        until(|| hop.log().contains(&"undo k".to_owned())).await;
        store.let_through("a");
    };
    let (outcome, ()) = tokio::join!(run, steps);
    assert_eq!(hop.log()[2..], ["do k", "drop k", "undo k"]);
    // The client has had its answer. That the commit was not heard is known where it is asked.
    assert_eq!(outcome.unwrap(), entry("k", "end"));
    assert!(scope.settled().await.is_err());
}

/// A server that has been called by a scope that does not speculate, and has called another ahead itself.
struct FurtherOn {
    scope: Scope,
    effects: Hop,
    /// Between it and the other.
    valve: Valve,
}

impl FurtherOn {
    /// What the scope's call comes to. `meanwhile` comes after the other server's reply, and before the commit to it.
    async fn call(meanwhile: impl AsyncFnOnce(&Self)) -> Self {
        let (mut last, effects) = (Hop::last(), Hop::last());
        last.predicts = Some("end");
        let (valve, address) = Valve::before(effects.listen().await).await;
        effects.gate.add_permits(3);
        let behind = connect(address).await;
        let first = make(&Scope::root(), &behind, "first").value();
        assert_eq!(first.await.unwrap(), entry("first", "end"));
        let mut middle = Hop::before(last.serve().await);
        middle.then = Some(behind);
        last.gate.add_permits(1);
        let server = middle.serve().await;

        let called = Self {
            scope: Scope::root(),
            effects,
            valve,
        };
        let steps = async {
            until(|| middle.log().contains(&"then k".to_owned())).await;
            meanwhile(&called).await;
            last.gate.add_permits(1);
        };
        let call = make(&called.scope, &server, "k").value();
        let (reply, ()) = tokio::join!(call, steps);
        assert_eq!(reply.unwrap(), entry("k", "end<"));
        called
    }
}

#[tokio::test]
async fn whoever_asks_waits_for_what_is_committed_further_on() {
    let FurtherOn { scope, valve, .. } = FurtherOn::call(async |called| called.valve.close()).await;
    let soon = Duration::from_millis(50);
    let settled = tokio::time::timeout(soon, scope.settled()).await;
    assert!(settled.is_err(), "the end of no stream has come");
    valve.open();
    scope.settled().await.unwrap();
}

#[tokio::test]
async fn nobody_waits_for_what_is_committed_further_on_when_nobody_asks() {
    let runtime = tokio::runtime::Handle::current();
    let tasks = || runtime.metrics().num_alive_tasks();
    let called = FurtherOn::call(async |called| called.valve.close()).await;
    // What comes to its end by itself has had its time.
    let mut with_root = usize::MAX;
    while with_root != tasks() {
        with_root = tasks();
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    drop(called.scope);
    until(|| tasks() < with_root).await;
}

/// S40: the client's own call waits for no commit; one that its server has made ahead does, and is lost.
#[tokio::test]
async fn what_is_lost_further_on_is_told_to_whoever_asks() {
    let cut = async |called: &FurtherOn| {
        called.valve.cut();
        until(|| called.effects.log().contains(&"undo k".to_owned())).await;
    };
    let called = FurtherOn::call(cut).await;
    assert!(called.scope.settled().await.is_err());
}

#[tokio::test]
async fn an_old_client_gets_a_plain_reply_from_a_new_server() {
    let hop = Hop::last();
    let client = Client::connect(hop.listen().await).await;
    hop.gate.add_permits(1);
    let reply = client.call("/test.Hop/Do", entry("k", "")).await.unwrap();
    assert_eq!(reply, entry("k", "end"));
    until(|| hop.log() == ["do k", "drop k"]).await;
}

/// Safe methods are called ahead, as before; what is said to be aware is not, since nobody there would
/// wait for a commit.
#[tokio::test]
async fn an_old_server_runs_nothing_unsafe_for_a_new_client_that_speculates() {
    let store = Store::with(&[("a", "b"), ("b", "c")]);
    let server = connect(store.listen().await).await;
    store.close("a");
    let get = PathAndQuery::from_static("/test.Store/Get");
    let put = PathAndQuery::from_static("/test.Store/Put");
    let scope = Scope::root();
    let call = scope.call_to::<_, Entry>(&server, get.clone(), &entry("a", ""));
    let run = call.predict(entry("a", "x")).predict(entry("a", "b")).then(
        async |scope: Scope, first: Entry| {
            let written = entry("seen", &first.value);
            let write = scope.call_to::<_, Entry>(&server, put.clone(), &written);
            let write = write.aware().predict(written);
            write
                .then(async |scope: Scope, _| {
                    let read = scope.call_to::<_, Entry>(&server, get.clone(), &first);
                    read.safe().value().await
                })
                .await?;
            let read = scope.call_to::<_, Entry>(&server, get.clone(), &entry("b", ""));
            Ok::<_, Status>(read.safe().value().await?.value)
        },
    );
    let steps = async {
        until(|| store.gets.load(SeqCst) == 3).await;
        assert_eq!(store.puts.load(SeqCst), 0);
        store.let_through("a");
        store.let_through("a");
        store.let_through("a");
    };
    let (outcome, ()) = tokio::join!(run, steps);
    assert_eq!(outcome.unwrap(), "c");
    assert!(!server.is_aware("/test.Store/Put") && !server.is_aware("/test.Store/Get"));
    assert_eq!(store.puts.load(SeqCst), 1);
    assert_eq!(store.entries.lock().unwrap()["seen"], "b");
}

/// What was known of a server may be of the one that was there before. It cannot read what it would not know to
/// undo, and is asked again by a confirmed scope.
#[tokio::test]
async fn an_older_server_in_the_place_of_a_newer_one_runs_nothing_ahead() {
    let hop = Hop::last();
    let server = hop.serve().await;
    hop.is_old.store(true, SeqCst);
    let store = Store::with(&[("a", "b")]);
    let client = store.serve().await;
    for key in ["k", "later"] {
        store.close("a");
        let run = Scope::root()
            .call(|| client.get("a"))
            .predict(entry("a", "x"))
            .predict(entry("a", "b"))
            .then(async |scope: Scope, first: Entry| {
                let key = format!("{key} {}", first.value);
                make(&scope, &server, &key).value().await
            });
        let steps = async {
            // The second time it is known from the beginning.
            until(|| !server.is_aware("/test.Hop/Do") && store.running.load(SeqCst) == 1).await;
            assert!(
                hop.log().iter().all(|line| !line.contains(key)),
                "{:?}",
                hop.log()
            );
            store.let_through("a");
        };
        let (outcome, ()) = tokio::join!(run, steps);
        assert_eq!(outcome.unwrap().value, "old");
    }
    assert_eq!(hop.log(), ["do k b", "do later b"]);
}

/// The caller ends its stream as it should, but has said nothing of a commit.
#[tokio::test]
async fn an_end_without_a_commit_is_an_abort() {
    let hop = Hop::last();
    let client = Client::connect(hop.listen().await).await;
    hop.gate.add_permits(1);
    let speculative = [("surmise", "spec")];
    let request = entry("k", "").encode_to_vec();
    let marked = [&[7], &*request].concat();
    let frames = client.frames("/test.Hop/Do", marked, &speculative);
    assert_eq!(frames.await.unwrap_err().code(), tonic::Code::Cancelled);
    // One that is not marked could be anybody's who knows of no commits.
    let frames = client.frames("/test.Hop/Do", request, &speculative);
    assert_eq!(
        frames.await.unwrap_err().code(),
        tonic::Code::InvalidArgument
    );
    // Whether the handler had begun, or had come to its end, is left to chance.
    until(|| hop.running.load(SeqCst) == 0).await;
    let count = |what: &str| hop.log().iter().filter(|line| *line == what).count();
    assert_eq!(count("undo k"), count("do k"));
}

/// A task that a handler leaves behind goes on, with what it has called; or is told that it has never been.
#[tokio::test]
async fn what_a_handler_leaves_behind_shares_the_callers_fate() {
    let last = Hop::last();
    let first = Hop {
        leaves: true,
        ..Hop::before(last.serve().await)
    };
    let server = connect(first.listen().await).await;
    last.gate.add_permits(1);
    let reply = make(&Scope::root(), &server, "first").value().await;
    assert_eq!(reply.unwrap(), entry("first", "left"));
    until(|| last.log().contains(&"drop first".to_owned())).await;
    let (store, fates) = (Store::with(&[("a", "b")]), ["b", "x"]);
    let client = store.serve().await;
    store.close("a");
    let scope = Scope::root();
    let call = scope.call(|| client.get("a")).predict(entry("a", "x"));
    let run = call.predict(entry("a", "b"));
    let run = run
        .then(async |scope: Scope, first: Entry| make(&scope, &server, &first.value).value().await);
    let steps = async {
        // Both have answered, and what they left behind waits.
        let began = |fate: &&str| last.log().contains(&format!("do {fate}"));
        until(|| fates.iter().all(began)).await;
        until(|| first.running.load(SeqCst) == 0).await;
        store.let_through("a");
        until(|| last.log().contains(&"undo x".to_owned())).await;
        last.gate.add_permits(1);
    };
    let (outcome, ()) = tokio::join!(run, steps);
    assert_eq!(outcome.unwrap(), entry("b", "left"));
    let left = |key: &str| {
        let log = first.log();
        let said = log
            .into_iter()
            .filter(|line| line.starts_with("left behind"));
        said.filter(|line| line.contains(key)).count()
    };
    until(|| left("value: \"end\"") == 2 && left("Cancelled") == 1).await;
    assert!(!last.log().contains(&"undo b".to_owned()));
}
