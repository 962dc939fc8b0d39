//! Everything that can go wrong between a client and a server, at every frame: what it may cost is an
//! error, never an effect that nobody committed, and never a wrong value.

mod proxy;

use std::fmt::Write;
use std::future::Future;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use proxy::{Fault, KINDS, Proxy, Seen, Toward};
use surmise_grpc::{Scope, Server, Status};
use tokio::sync::{Notify, Semaphore};

use crate::hop::{Hop, connect, make};
use crate::store::{Client, Entry, Store, entry, until};

/// What became of a program's calls.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    frames: usize,
    /// All calls came to the sequential program's values.
    same: usize,
    /// Some failed.
    failed: usize,
    committed: usize,
    undone: usize,
}

/// S40: an aware server is called by a scope that speculates: once rightly, once in vain.
#[test]
fn an_aware_server_commits_nothing_without_the_commits_message() {
    strike_everywhere("an aware server", async |fault| aware(fault, false).await);
}

/// The same where it is the server's own call of the next one that goes wrong.
#[test]
fn nor_does_one_that_another_server_calls() {
    strike_everywhere("between servers", async |fault| aware(fault, true).await);
}

/// S39: a server that knows of nothing gets what is unsafe from confirmed scopes only.
#[test]
fn no_unsafe_handler_is_entered_for_a_denied_branch() {
    strike_everywhere("a plain server", plain);
}

/// Each fault at each frame, until the program has no more of them. In the end no more tasks are left than
/// without a fault.
fn strike_everywhere(what: &str, program: impl AsyncFn(Option<Fault>) -> Outcome) {
    let whole = run(program(None), usize::MAX);
    let mut table = format!(
        "{what:<28} {:>7} {:>10} {:>7} {:>10} {:>7}\n",
        "frames", "as without", "errors", "committed", "undone"
    );
    let directions = [Toward::Server, Toward::Client];
    for (kind, toward) in KINDS
        .into_iter()
        .flat_map(|kind| directions.map(|toward| (kind, toward)))
    {
        let mut tally = Tally::default();
        for at in 0.. {
            let outcome = run(program(Some(Fault { kind, toward, at })), whole.tasks);
            if !outcome.was_struck {
                break;
            }
            tally.frames += 1;
            tally.same += usize::from(!outcome.has_failed);
            tally.failed += usize::from(outcome.has_failed);
            tally.committed += outcome.committed;
            tally.undone += outcome.undone;
        }
        assert!(tally.frames > 3, "{kind:?} {toward:?}: {tally:?}");
        let Tally {
            frames,
            same,
            failed,
            committed,
            undone,
        } = tally;
        let what = format!("{kind:?} toward the {toward:?}");
        writeln!(
            table,
            "{what:<28} {frames:>7} {same:>10} {failed:>7} {committed:>10} {undone:>7}"
        )
        .unwrap();
    }
    #[expect(clippy::print_stdout, reason = "the table is a result")]
    {
        println!("{table}");
    }
}

#[derive(Default)]
struct Outcome {
    was_struck: bool,
    has_failed: bool,
    committed: usize,
    undone: usize,
    /// That are left.
    tasks: usize,
}

/// In a runtime of its own, in the end of which no more tasks may be left than these.
fn run(program: impl Future<Output = Outcome>, tasks_max: usize) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let metrics = runtime.metrics();
    runtime.block_on(async {
        let limit = Duration::from_secs(30);
        let outcome = tokio::time::timeout(limit, program)
            .await
            .expect("it comes to its end");
        if tasks_max == usize::MAX {
            // Until what has ended is gone.
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        until(|| metrics.num_alive_tasks() <= tasks_max).await;
        Outcome {
            tasks: metrics.num_alive_tasks(),
            ..outcome
        }
    })
}

async fn aware(fault: Option<Fault>, is_between_servers: bool) -> Outcome {
    let last = Hop {
        gate: Semaphore::new(Semaphore::MAX_PERMITS).into(),
        ..Hop::last()
    };
    let proxy = Proxy::before(last.listen().await, fault).await;
    let near = connect(proxy.address).await;
    let (hops, server) = match is_between_servers {
        true => {
            let first = Hop::before(near);
            let server = connect(first.listen().await).await;
            (vec![first, last], server)
        }
        false => (vec![last], near),
    };
    let store = Store::with(&[("a", "b")]);
    let client = store.serve().await;

    let warm = make(&Scope::root(), &server, "warm").value().await;
    let scope = Scope::root();
    let right = speculative(&scope, &server, &store, &client, ["b", "right", "never"]).await;
    let wrong = speculative(&scope, &server, &store, &client, ["x", "wrong", "after"]).await;
    let settled = scope.settled().await;
    drop((scope, server, client));
    for hop in &hops {
        until(|| hop.running.load(SeqCst) == 0 && hop.has_undone("wrong")).await;
    }

    let end = if is_between_servers { "end<" } else { "end" };
    let mut has_failed = settled.is_err();
    for (result, key) in [(warm, "warm"), (right, "right"), (wrong, "after")] {
        match result {
            Ok(value) => assert_eq!(value, entry(key, end), "{fault:?}"),
            Err(_) => has_failed = true,
        }
    }
    let logs: Vec<_> = hops.iter().map(Hop::log).collect();
    let seen = proxy.seen.lock().unwrap();
    check(
        &hops,
        &seen,
        !has_failed,
        &format!("{fault:?}: {logs:?}, {seen:?}"),
    );
    let all = logs.concat();
    let undone = count(&all, "undo ");
    Outcome {
        was_struck: seen.has_struck,
        has_failed,
        committed: count(&all, "do ") - undone,
        undone,
        tasks: 0,
    }
}

impl Hop {
    /// Whether all that was done with this key is undone.
    fn has_undone(&self, key: &str) -> bool {
        effects(&self.log(), key) == 0
    }
}

/// How many times something was done, and not undone.
fn effects(log: &[String], key: &str) -> usize {
    let [done, undone] = ["do", "undo"].map(|what| count(log, &format!("{what} {key}")));
    done.checked_sub(undone).expect("what is undone was done")
}

fn count(log: &[String], what: &str) -> usize {
    log.iter().filter(|line| line.starts_with(what)).count()
}

/// A call that is made while another is undecided, with what that was predicted to be; and one made with what
/// it is. The other is decided when the first has come to something; or after a while, for who does not know
/// that a server is aware calls nobody before.
async fn speculative(
    scope: &Scope,
    server: &Server,
    store: &Store,
    client: &Client,
    [predicted, ahead, otherwise]: [&str; 3],
) -> Result<Entry, Status> {
    store.close("a");
    let replied = Notify::new();
    let call = scope
        .call(|| client.get("a"))
        .predict(entry("a", predicted));
    let run = call.then(async |scope: Scope, value: Entry| {
        let key = if value.value == predicted {
            ahead
        } else {
            otherwise
        };
        let reply = make(&scope, server, key).value().await;
        replied.notify_one();
        reply
    });
    let decide = async {
        let _ = tokio::time::timeout(Duration::from_millis(50), replied.notified()).await;
        store.let_through("a");
    };
    tokio::join!(run, decide).0
}

/// `is_whole`: all calls came to their values, and to their ends.
fn check(hops: &[Hop], seen: &Seen, is_whole: bool, context: &str) {
    for log in hops.iter().map(Hop::log) {
        for key in ["right", "after", "warm"] {
            let effects = effects(&log, key);
            assert!(effects <= 1, "twice: {key}: {context}");
            assert!(effects == 1 || !is_whole, "never: {key}: {context}");
        }
        assert_eq!(effects(&log, "never"), 0, "{context}");
    }
    let last = hops.last().expect("one at least");
    let commits: usize = seen.of("right").map(|call| call.commits).sum();
    let ahead = last.ahead.lock().unwrap();
    let ahead = ahead.iter().filter(|key| *key == "right").count();
    // Those that were begun for a confirmed caller need no commit.
    let confirmed = count(&last.log(), "do right") - ahead;
    assert!(
        effects(&last.log(), "right") <= commits + confirmed,
        "{context}"
    );
}

async fn plain(fault: Option<Fault>) -> Outcome {
    let store = Store::with(&[("a", "b"), ("b", "c"), ("x", "wrong")]);
    let proxy = Proxy::before(store.listen().await, fault).await;
    let client = Client::connect(proxy.address).await;
    let result = Scope::root()
        .call(|| client.get("a"))
        .predict(entry("a", "x"))
        .predict(entry("a", "b"))
        .then(async |scope: Scope, first: Entry| {
            let put = scope.call(|| client.put("seen", &first.value));
            let put = put.predict(entry("seen", &first.value));
            put.then(async |scope: Scope, _| {
                let read = scope.call(|| client.get(&first.value)).safe();
                read.value().await
            })
            .await
        })
        .await;
    drop(client);
    until(|| store.running.load(SeqCst) == 0).await;
    let (puts, written) = (
        store.puts.load(SeqCst),
        store.entries.lock().unwrap().get("seen").cloned(),
    );
    let context = format!("{fault:?}: {puts} writes, {written:?}, {result:?}");
    assert!(puts <= 1, "{context}");
    assert_eq!(written.as_deref(), (puts == 1).then_some("b"), "{context}");
    if let Ok(value) = &result {
        assert_eq!((&*value.value, puts), ("c", 1), "{context}");
    }
    Outcome {
        was_struck: proxy.seen.lock().unwrap().has_struck,
        has_failed: result.is_err(),
        committed: puts,
        ..Outcome::default()
    }
}
