//! What a server grants: how many undecided calls, for how long, and with how much ahead of their own.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use prost::Message;
use surmise_grpc::{Callers, Gate, Granted, Limits, Scope};

use crate::hop::{Hop, make};
use crate::store::{Client, Store, entry, until};

/// S43: whatever a caller says that it may, a server that grants it nothing runs nothing ahead for it.
#[tokio::test]
async fn a_forged_budget_is_clamped() {
    let mut last = Hop::last();
    last.predicts = Some("end");
    let mut granted = Granted::default();
    granted.limits.budget.depth = 0;
    let strict = Hop {
        callers: Callers::new(granted),
        ..Hop::before(last.serve().await)
    };
    let client = Client::connect(strict.listen().await).await;
    let forged = [
        ("surmise", "1"),
        ("surmise-depth", "4000000000"),
        ("surmise-budget", "4000000000"),
    ];
    let frames = client.frames("/test.Hop/Do", entry("k", "").encode_to_vec(), &forged);
    let steps = async {
        until(|| last.running.load(SeqCst) == 1).await;
        last.gate.add_permits(1);
    };
    let (frames, ()) = tokio::join!(frames, steps);
    // The actual reply (field 2) alone: nothing was run ahead with what the last one predicted.
    let frames = frames.unwrap();
    let kinds: Vec<u8> = frames.iter().map(|frame| frame[1] >> 3).collect();
    assert_eq!(kinds, [2]);
}

/// Beyond the limit of undecided calls, a call is not begun before its commit; it does not fail.
#[tokio::test]
async fn too_many_undecided_calls_wait_for_their_commit() {
    let granted = Granted {
        undecided_max: 0,
        ..Granted::default()
    };
    assert_eq!(called_ahead(granted, &[]).await, ["do k", "drop k"]);
}

/// A call that nobody decides in time is undone, and made again by its caller once that is confirmed.
#[tokio::test]
async fn a_call_that_is_undecided_for_too_long_is_made_again() {
    let granted = Granted {
        undecided_for: Duration::from_millis(20),
        ..Granted::default()
    };
    let undone = ["do k", "undo k", "drop k"];
    let log = called_ahead(granted, &undone).await;
    assert_eq!(log[..3], undone);
    assert_eq!(log[3..], ["do k", "drop k"]);
}

/// What was answered is not asked again, lest the answer be another one than somebody went on with: that it is
/// undone is told.
#[tokio::test]
async fn an_answered_call_that_is_undecided_for_too_long_is_lost() {
    let granted = Granted {
        undecided_for: Duration::from_millis(20),
        ..Granted::default()
    };
    let hop = Hop {
        callers: Callers::new(granted),
        ..Hop::last()
    };
    let server = hop.serve().await;
    hop.gate.add_permits(1);
    let store = Store::with(&[("a", "b")]);
    let client = store.serve().await;
    store.close("a");
    let scope = Scope::root();
    let call = scope.call(|| client.get("a")).predict(entry("a", "b"));
    let run = call.then(async |scope: Scope, _| make(&scope, &server, "k").value().await);
    let steps = async {
        until(|| hop.log().contains(&"undo k".to_owned())).await;
        store.let_through("a");
    };
    let (outcome, ()) = tokio::join!(run, steps);
    assert_eq!(outcome.unwrap().value, "end");
    let settled = tokio::time::timeout(Duration::from_secs(10), scope.settled());
    let told = settled.await.expect("nothing is asked again").unwrap_err();
    assert_eq!(told.code(), tonic::Code::Aborted);
    assert_eq!(hop.log(), ["do k", "drop k", "undo k"]);
}

/// What a server does that grants this, when it is called by a scope that speculates, and that is
/// confirmed when the server has come `ahead` as far as this.
async fn called_ahead(granted: Granted, ahead: &[&str]) -> Vec<String> {
    let hop = Hop {
        callers: Callers::new(granted),
        ..Hop::last()
    };
    let server = hop.serve().await;
    hop.log.lock().unwrap().clear();
    let store = Store::with(&[("a", "b")]);
    let client = store.serve().await;
    store.close("a");
    let is_asked = AtomicBool::new(false);
    let scope = Scope::root();
    let run = scope
        .call(|| client.get("a"))
        .predict(entry("a", "b"))
        .then(async |scope: Scope, _| {
            is_asked.store(true, SeqCst);
            make(&scope, &server, "k").value().await
        });
    let steps = async {
        until(|| is_asked.load(SeqCst) && store.running.load(SeqCst) == 1).await;
        until(|| hop.log() == ahead).await;
        hop.gate.add_permits(1);
        store.let_through("a");
    };
    let (outcome, ()) = tokio::join!(run, steps);
    assert_eq!(outcome.unwrap().value, "end");
    scope.settled().await.unwrap();
    until(|| hop.running.load(SeqCst) == 0).await;
    hop.log()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_busy_server_begins_undecided_calls_when_they_are_committed() {
    let gate = Arc::new(Gate::new(Limits::default()));
    let hop = Hop {
        callers: Callers::default().shedding_by(gate.clone()),
        ..Hop::last()
    };
    let server = hop.serve().await;
    let store = Store::with(&[("a", "b")]);
    let client = store.serve().await;
    let run = async |behind: &str| {
        store.close("a");
        let call = Scope::root()
            .call(|| client.get("a"))
            .predict(entry("a", "b"));
        let run = call.then(async |scope: Scope, _| make(&scope, &server, "k").value().await);
        let steps = async {
            until(|| store.running.load(SeqCst) == 1).await;
            // What is sent behind the undecided call is answered, so that is there.
            hop.gate.add_permits(2);
            make(&Scope::root(), &server, behind).value().await.unwrap();
            let has_begun = hop.log().contains(&"do k".to_owned());
            store.let_through("a");
            has_begun
        };
        let (outcome, has_begun) = tokio::join!(run, steps);
        assert_eq!(outcome.unwrap(), entry("k", "end"));
        hop.log.lock().unwrap().clear();
        has_begun
    };
    // On a machine that is busy itself, the workers may seem so for a while.
    let has_begun = async { while !run("first").await {} };
    let has_begun = tokio::time::timeout(Duration::from_secs(20), has_begun).await;
    has_begun.expect("the workers have room");
    let spinning = [(); 4].map(|()| {
        tokio::spawn(async {
            loop {
                tokio::task::yield_now().await
            }
        })
    });
    until(|| !gate.has_room()).await;
    // As above: they may seem to have room while the machine leaves them no time.
    let waits = async { while run("second").await {} };
    let waits = tokio::time::timeout(Duration::from_secs(20), waits).await;
    waits.expect("the workers are busy");
    spinning.iter().for_each(tokio::task::JoinHandle::abort);
}
