//! S43: a budget for wasted work: what is run ahead for nothing is bounded, and a bound that is reached costs time only.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use surmise_grpc::{Callers, Gate, Granted, Limits, Scope, Status, Waste};
use tokio::task::JoinSet;

use crate::hop::{Hop, make};
use crate::store::{Client, Entry, Store, entry, until};

/// Programs that run at once, and how many chains each reads.
const PROGRAMS: usize = 4;
const CHAINS: usize = 100;

/// Reads a, and what it names. Returns what that is and whether it was read ahead. `sent` counts reads.
async fn read(gate: &Gate, client: &Client, predicted: &str, sent: &AtomicUsize) -> (String, bool) {
    let ahead = AtomicUsize::new(0);
    let get = async |key: String| {
        sent.fetch_add(1, SeqCst);
        client.get(&key).await
    };
    let call = gate.root().call(|| get("a".to_owned()));
    let call = call.predict(entry("a", predicted));
    let read = call.then(async |scope: Scope, first: Entry| {
        let next = scope.call(|| {
            ahead.fetch_add(usize::from(scope.is_speculative()), SeqCst);
            get(first.value.clone())
        });
        next.safe().value().await
    });
    (read.await.unwrap().value, ahead.load(SeqCst) > 0)
}

/// With so many workers that the gate takes some of them to be idle.
#[tokio::test(flavor = "multi_thread", worker_threads = 12)]
async fn wrong_predictions_cost_no_more_calls_than_are_allowed() {
    let store = Store::with(&[("a", "b"), ("b", "end"), ("x", "wrong")]);
    let client = store.serve().await;
    let waste = Waste {
        percent: 10,
        burst: 6,
    };
    let gate = Arc::new(Gate::new(Limits::default()).wasting_at_most(waste));
    let sent = Arc::new(AtomicUsize::new(0));
    let mut programs = JoinSet::new();
    for _ in 0..PROGRAMS {
        let (gate, client, sent) = (gate.clone(), client.clone(), sent.clone());
        programs.spawn(async move {
            for _ in 0..CHAINS {
                assert_eq!(read(&gate, &client, "x", &sent).await.0, "end");
            }
        });
    }
    programs.join_all().await;
    let of_use = 2 * PROGRAMS * CHAINS;
    let wasted = sent.load(SeqCst) - of_use;
    assert!(
        (1..=6 + of_use / 10).contains(&wasted),
        "{wasted} of {of_use}"
    );
    // What is right is run ahead again, once there is something left, and the workers have time.
    for _ in 0..10_000 {
        let (found, is_ahead) = read(&gate, &client, "b", &sent).await;
        assert_eq!(found, "end");
        if is_ahead {
            return;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("nothing is run ahead any more");
}

/// The same for what handlers call.
#[tokio::test]
async fn handlers_whose_callers_are_denied_waste_no_more_than_is_granted() {
    let store = Store::with(&[("a", "right")]);
    let client = store.serve().await;
    let last = Hop::last();
    let granted = Granted {
        waste: Some(Waste {
            percent: 0,
            burst: 2,
        }),
        ..Granted::default()
    };
    let first = Hop {
        callers: Callers::new(granted),
        ..Hop::before(last.serve().await)
    };
    last.gate.add_permits(100);
    let server = first.serve().await;
    last.log.lock().unwrap().clear();
    let run = async |predicted: &'static str| {
        store.close("a");
        let call = Scope::root().call(|| client.get("a"));
        let call = call.predict(entry("a", predicted));
        let run = call.then(async |scope: Scope, first: Entry| {
            Ok::<_, Status>(make(&scope, &server, &first.value).value().await?.value)
        });
        let answer = async {
            until(|| {
                first
                    .ahead
                    .lock()
                    .unwrap()
                    .iter()
                    .any(|key| key == predicted)
            })
            .await;
            if ["w0", "w1"].contains(&predicted) {
                until(|| {
                    last.ahead
                        .lock()
                        .unwrap()
                        .iter()
                        .any(|key| key == predicted)
                })
                .await;
            }
            store.let_through("a");
        };
        let (outcome, ()) = tokio::join!(run, answer);
        assert_eq!(outcome.unwrap(), "end<");
    };
    for predicted in ["w0", "w1", "w2", "w3", "right"] {
        run(predicted).await;
        until(|| last.running.load(SeqCst) + first.running.load(SeqCst) == 0).await;
    }
    assert_eq!(*last.ahead.lock().unwrap(), ["w0", "w1"]);
}
