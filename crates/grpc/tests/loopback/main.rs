//! Calls to a real server that knows nothing of speculation. When each read is answered, the test
//! decides; nothing here depends on how long anything takes.

mod aware;
mod before;
mod connections;
mod faults;
mod figures;
mod granted;
mod hop;
mod many;
mod methods;
mod nginx;
mod sent;
mod sizes;
mod snapshots;
mod store;
mod tls;
mod valve;
mod waste;
mod writers;

use std::num::NonZeroUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex};

use store::{Entry, Store, entry, until};
use surmise_grpc::{Budget, Known, Limits, Order, Scope, Stamp, Status};
use surmise_predict::{Cache, User};

/// The chain a → b → c: each entry's value is the next one's key.
fn chain() -> Store {
    Store::with(&[("a", "b"), ("b", "c"), ("c", "end"), ("x", "wrong")])
}

#[tokio::test]
async fn a_dependent_call_is_under_way_before_the_first_is_answered() {
    let store = chain();
    let client = store.serve().await;
    store.close("a");
    let run = Scope::root()
        .call(|| client.get("a"))
        .predict(entry("a", "b"))
        .then(async |scope: Scope, first: Entry| {
            assert!(scope.is_speculative());
            let next = scope.call(|| client.get(&first.value)).safe();
            let next = next.value().await?;
            // Both are read; let the first answer only now.
            store.let_through("a");
            scope.confirmed().await?;
            assert!(!scope.is_speculative());
            Ok::<_, Status>(next.value)
        });
    assert_eq!(run.await.unwrap(), "c");
    assert_eq!(store.gets.load(SeqCst), 2);
}

/// The future is `Send`, so servers and spawned tasks can use it.
#[tokio::test]
async fn a_chain_runs_in_a_task_of_its_own() {
    let store = chain();
    let client = store.serve().await;
    let run = tokio::spawn(async move {
        let client = &client;
        let scope = Scope::root();
        let first = scope.call(|| client.get("a")).predict(entry("a", "b"));
        first
            .then(async |scope: Scope, first: Entry| {
                let second = scope.call(|| client.get(&first.value)).safe();
                let second = second.predict(entry("b", "wrong"));
                second
                    .then(async |scope: Scope, second: Entry| {
                        let third = scope.call(|| client.get(&second.value)).safe();
                        Ok::<_, Status>(third.value().await?.value)
                    })
                    .await
            })
            .await
    });
    assert_eq!(run.await.unwrap().unwrap(), "end");
}

#[tokio::test]
async fn a_denied_branch_is_cancelled_and_undone() {
    let store = chain();
    let client = store.serve().await;
    ["a", "b", "x"].iter().for_each(|key| store.close(key));
    let log = Arc::new(Mutex::new(Vec::new()));
    let run = Scope::root()
        .call(|| client.get("a"))
        .predict(entry("a", "x"))
        .then(async |scope: Scope, first: Entry| {
            let (undo, value) = (log.clone(), first.value.clone());
            let _dropped = Logged::new(&log, "drop", &value);
            log.lock().unwrap().push(format!("do {value}"));
            scope.on_abort(move || undo.lock().unwrap().push(format!("undo {value}")));
            let next = scope.call(|| client.get(&first.value)).safe();
            let next = next.value().await?;
            Ok::<_, Status>(next.value)
        });
    let answer = async {
        until(|| store.running.load(SeqCst) == 2).await;
        store.let_through("a");
        // The read of x is never answered. Its handler is ended while that of b runs.
        until(|| store.gets.load(SeqCst) == 3 && store.running.load(SeqCst) == 1).await;
        store.let_through("b");
    };
    let (outcome, ()) = tokio::join!(run, answer);
    assert_eq!(outcome.unwrap(), "c");
    assert_eq!(
        *log.lock().unwrap(),
        ["do x", "undo x", "drop x", "do b", "drop b"]
    );
}

/// Tells that it is dropped.
struct Logged(Arc<Mutex<Vec<String>>>, String);

impl Logged {
    fn new(log: &Arc<Mutex<Vec<String>>>, what: &str, value: &str) -> Self {
        Self(log.clone(), format!("{what} {value}"))
    }
}

impl Drop for Logged {
    fn drop(&mut self) {
        self.0.lock().unwrap().push(self.1.clone());
    }
}

/// S39.
#[tokio::test]
async fn an_unsafe_call_is_sent_by_nobody_but_a_confirmed_scope() {
    let store = chain();
    let client = store.serve().await;
    store.close("a");
    let run = Scope::root()
        .call(|| client.get("a"))
        .predict(entry("a", "x"))
        .predict(entry("a", "b"))
        .then(async |scope: Scope, first: Entry| {
            let put = scope.call(|| client.put("seen", &first.value));
            // What follows the write runs ahead of it, too.
            let put = put.predict(entry("seen", &first.value));
            put.then(async |scope: Scope, _| {
                let read = scope.call(|| client.get(&first.value)).safe();
                Ok::<_, Status>(read.value().await?.value)
            })
            .await
        });
    let answer = async {
        until(|| store.gets.load(SeqCst) == 3).await;
        assert_eq!(store.puts.load(SeqCst), 0);
        store.let_through("a");
    };
    let (outcome, ()) = tokio::join!(run, answer);
    assert_eq!(outcome.unwrap(), "c");
    assert_eq!(store.puts.load(SeqCst), 1);
    assert_eq!(store.entries.lock().unwrap()["seen"], "b");
}

#[tokio::test]
async fn errors_are_those_of_sequential_calls() {
    let store = chain();
    let client = store.serve().await;
    let run = Scope::root()
        .call(|| client.get("missing"))
        .predict(entry("missing", "b"))
        .then(async |scope: Scope, first: Entry| {
            let next = scope.call(|| client.get(&first.value)).safe();
            next.value().await
        });
    assert_eq!(run.await.unwrap_err().code(), tonic::Code::NotFound);
}

#[tokio::test]
async fn a_predictor_may_make_a_call_of_its_own() {
    let (store, replica) = (chain(), chain());
    let (client, near) = (store.serve().await, replica.serve().await);
    store.close("a");
    let run = Scope::root()
        .call(|| client.get("a"))
        .predict_with(async move { near.get("a").await.ok() })
        .then(async |scope: Scope, first: Entry| {
            let next = scope.call(|| client.get(&first.value)).safe();
            let next = next.value().await?;
            store.let_through("a");
            Ok::<_, Status>(next.value)
        });
    assert_eq!(run.await.unwrap(), "c");
    assert_eq!((store.gets.load(SeqCst), replica.gets.load(SeqCst)), (2, 1));
}

/// S41.
#[tokio::test]
async fn what_was_learned_for_one_user_is_predicted_to_that_user_only() {
    let store = chain();
    let client = store.serve().await;
    let entries_max = NonZeroUsize::new(10).unwrap();
    let known = Known::new(Cache::new(entries_max, u64::MAX, |key: &String| {
        key.clone()
    }));
    let runs_ahead = async |user: &str| {
        let scope = Scope::root();
        let call = scope.call(|| client.get("a"));
        let call = call.predict_by(&known, User::of(user), "a".to_owned());
        let started = Mutex::new(Vec::new());
        let run = call.then(async |scope: Scope, _| {
            started.lock().unwrap().push(scope.is_speculative());
            Ok::<_, Status>(())
        });
        run.await.unwrap();
        started.into_inner().unwrap() == [true]
    };
    assert!(!runs_ahead("alice").await);
    assert!(runs_ahead("alice").await);
    assert!(!runs_ahead("bob").await);
}

/// Nothing that is known is predicted, but what comes is learned.
#[tokio::test]
async fn a_scope_without_a_budget_is_the_sequential_program() {
    let store = chain();
    let client = store.serve().await;
    let entries_max = NonZeroUsize::new(10).unwrap();
    let known = Known::new(Cache::new(entries_max, u64::MAX, |key: &String| {
        key.clone()
    }));
    let run = async |scope: Scope, key: &str| {
        let call = scope.call(|| client.get(key));
        let call = call.predict_by(&known, User::of("alice"), key.to_owned());
        let run = call.then(async |scope: Scope, first: Entry| {
            let is_ahead = scope.is_speculative();
            scope.on_abort(|| panic!("nothing is taken back"));
            let put = scope.call(|| client.put("seen", &first.value));
            put.value().await.map(|_| is_ahead)
        });
        run.await
    };
    let limits = Limits {
        budget: Budget::NONE,
        ..Limits::default()
    };
    for _ in 0..2 {
        assert!(!run(Scope::root_with(limits), "a").await.unwrap());
    }
    assert_eq!((store.gets.load(SeqCst), store.puts.load(SeqCst)), (2, 2));
    let missing = run(Scope::root_with(limits), "missing").await;
    assert_eq!(missing.unwrap_err().code(), tonic::Code::NotFound);
    // What was learned, a scope with a budget runs ahead with.
    store.close("a");
    let call = Scope::root().call(|| client.get("a"));
    let call = call.predict_by(&known, User::of("alice"), "a".to_owned());
    let run = call.then(async |scope: Scope, first: Entry| {
        store.let_through("a");
        scope.confirmed().await?;
        Ok::<_, Status>(first)
    });
    assert_eq!(run.await.unwrap().value, "b");
}

/// S42: the prediction is right by value, but what followed it was read before another wrote.
#[tokio::test]
async fn what_was_read_too_early_is_read_again() {
    let store = chain();
    let client = store.serve().await;
    store.close("a");
    let same = |one: &Entry, other: &Entry| one.value == other.value;
    let stamp = |entry: &Entry| {
        let at = entry.revision;
        Some(Stamp { clock: 1, at })
    };
    let run = Scope::root()
        .call(|| client.get("a"))
        .compared_by(same)
        .ordered(Order::Stamp, stamp)
        .predict(entry("a", "b"))
        .then(async |scope: Scope, first: Entry| {
            let next = scope.call(|| client.get(&first.value)).safe();
            let next = next.ordered(Order::Stamp, stamp).value().await?;
            Ok::<_, Status>((next.value, next.revision))
        });
    let writer = async {
        until(|| store.gets.load(SeqCst) == 2 && store.running.load(SeqCst) == 1).await;
        client.put("b", "changed").await.unwrap();
        store.let_through("a");
    };
    let (outcome, ()) = tokio::join!(run, writer);
    assert_eq!(outcome.unwrap(), ("changed".to_owned(), 1));
    assert_eq!(store.gets.load(SeqCst), 3);
}

/// S44.
#[tokio::test]
async fn to_drop_a_call_is_to_end_what_follows_it() {
    let store = chain();
    let client = store.serve().await;
    store.close("a");
    store.close("b");
    let undone = Arc::new(Mutex::new(0));
    let run = Scope::root()
        .call(|| client.get("a"))
        .predict(entry("a", "b"))
        .then(async |scope: Scope, first: Entry| {
            let count = undone.clone();
            scope.on_abort(move || *count.lock().unwrap() += 1);
            let next = scope.call(|| client.get(&first.value)).safe();
            next.value().await
        });
    tokio::select! {
        outcome = run => panic!("nobody answers: {outcome:?}"),
        () = until(|| store.running.load(SeqCst) == 2) => {}
    }
    assert_eq!(*undone.lock().unwrap(), 1);
    until(|| store.running.load(SeqCst) == 0).await;
}

/// Calls of one scope leave nothing behind, whether they were predicted right, wrong or not at all.
#[tokio::test]
async fn a_scope_stays_as_small_as_what_is_open_in_it() {
    let store = chain();
    let client = store.serve().await;
    let scope = Scope::root();
    let empty = format!("{:?}", Scope::root());
    for turn in 0..300 {
        let mut call = scope.call(|| client.get("a"));
        if turn % 3 > 0 {
            call = call.predict(entry("a", ["", "b", "x"][turn % 3]));
        }
        let run = call.then(async |scope: Scope, first: Entry| {
            scope.on_abort(|| {});
            let next = scope.call(|| client.get(&first.value)).safe();
            let next = next.value().await?;
            scope.confirmed().await?;
            Ok::<_, Status>(next.value)
        });
        assert_eq!(run.await.unwrap(), "c");
    }
    until(|| store.running.load(SeqCst) == 0).await;
    // But for how many there have been.
    let without_counts = |shown: &str| {
        let made = shown.find("scopes_made").expect("it is shown");
        shown[..made].to_owned()
    };
    assert_eq!(
        without_counts(&format!("{scope:?}")),
        without_counts(&empty)
    );
}
