//! The paper's examples, as clients of a server that knows nothing of speculation.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;

use surmise_grpc::{Scope, Status};

use crate::store::{Entry, Store, entry, until};

/// Figure 1: `plus(1, 2)` is predicted to be 3, and what follows adds one. Four, before the server
/// has said anything; and the caller learns it when the server has.
#[tokio::test]
async fn figure_1_a_callback_runs_with_a_predicted_sum() {
    let store = Store::with(&[("1+2", "3")]);
    let client = store.serve().await;
    store.close("1+2");
    let computed = AtomicUsize::new(0);
    let run = Scope::root()
        .call(|| client.get("1+2"))
        .predict(entry("1+2", "3"))
        .then(async |_: Scope, sum: Entry| {
            let sum: usize = sum.value.parse().expect("it is a number");
            computed.store(sum + 1, SeqCst);
            Ok::<_, Status>(sum + 1)
        });
    let server = async {
        until(|| computed.load(SeqCst) == 4).await;
        store.let_through("1+2");
    };
    let (outcome, ()) = tokio::join!(run, server);
    assert_eq!(outcome.unwrap(), 4);
}

/// Figure 3: getPI, then getAI with what it answers, then a computation. All three are under way
/// before anything is answered, and it is answered in the order that is worst: the last call first.
#[tokio::test]
async fn figure_3_a_chain_and_a_computation_overlap() {
    let store = Store::with(&[("getPI", "hats"), ("hats", "red")]);
    let client = store.serve().await;
    ["getPI", "hats"].iter().for_each(|key| store.close(key));
    let computed = AtomicUsize::new(0);
    let run = Scope::root()
        .call(|| client.get("getPI"))
        .predict(entry("getPI", "hats"))
        .then(async |scope: Scope, interests: Entry| {
            let call = scope.call(|| client.get(&interests.value)).safe();
            let call = call.predict(entry("hats", "red"));
            call.then(async |scope: Scope, information: Entry| {
                let choice = format!("{} {}", information.value, interests.value);
                computed.fetch_add(1, SeqCst);
                scope.confirmed().await?;
                Ok::<_, Status>(choice)
            })
            .await
        });
    let server = async {
        until(|| computed.load(SeqCst) == 1 && store.running.load(SeqCst) == 2).await;
        store.let_through("hats");
        until(|| store.running.load(SeqCst) == 1).await;
        store.let_through("getPI");
    };
    let (outcome, ()) = tokio::join!(run, server);
    assert_eq!(outcome.unwrap(), "red hats");
    // Nothing was computed, and nothing asked, more than once.
    assert_eq!((computed.load(SeqCst), store.gets.load(SeqCst)), (1, 2));
}
