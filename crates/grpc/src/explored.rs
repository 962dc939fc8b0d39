//! Scopes and contexts that several threads use, in many orders of what these do.
//!
//! The tree has no threads, and a simulation of its own. What is explored here is the shell around it: that it is told
//! each event whole, that nobody who waits is forgotten, and that what undoes or commits something is run once. Shuttle
//! runs the threads one at a time, and finds those that wait for ever.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use prost::Message;
use shuttle::future::{block_on, spawn};
use shuttle::thread;
use surmise_rpc::{
    CallId, Caller, Limits, Offer, Order, Peer, Received, Reply, Request, Safety, Waste,
};
use tokio::sync::oneshot::error::TryRecvError;
use tokio::sync::{mpsc, oneshot};
use tonic::{Code, Status};

use crate::client::conversation::Control;
use crate::scope::Scope;
use crate::scope::allowance::Allowance;
use crate::scope::names::Name;
use crate::scope::shared::{Instruction, Shared};
use crate::server;
use crate::server::context::{Frames, Replies, Sizes};
use crate::wire::decode;

/// Orders of each scenario, at random and by another strategy: one that changes its mind seldom, which finds what
/// takes few unlucky moments.
const ORDERS: usize = 3000;
const CHANGES: usize = 3;

/// A call that is sent ahead, and waits for its commit.
const AWARE: Request = Request {
    safety: Safety::Aware,
    peer: Peer::Aware,
    order: Order::None,
    is_tail: false,
};

fn explore(scenario: impl Fn() + Clone + Send + Sync + 'static) {
    shuttle::check_random(scenario.clone(), ORDERS);
    shuttle::check_pct(scenario, ORDERS, CHANGES);
}

/// A value that comes from another thread, as late as that likes.
fn late(value: u32) -> oneshot::Receiver<u32> {
    let (send, receive) = oneshot::channel();
    thread::spawn(move || {
        thread::yield_now();
        let _ = send.send(value);
    });
    receive
}

/// A call that is answered by that.
fn once(
    reply: oneshot::Receiver<u32>,
) -> impl FnMut() -> Pin<Box<dyn Future<Output = Result<u32, Status>> + Send>> {
    let mut reply = Some(reply);
    move || {
        let reply = reply.take().expect("it is sent once");
        let gone = |_| Status::unavailable("nobody answers");
        Box::pin(async move { reply.await.map_err(gone) })
    }
}

/// A handler's root, whose caller speculates.
fn root() -> (Arc<Shared>, Scope) {
    let (caller, limits) = (Caller::Speculative, Limits::default());
    let shared = Arc::new(Shared::new(caller, limits, Allowance::default()));
    (shared.clone(), Scope::root_of(shared))
}

/// Commits or aborts it.
fn decide(shared: &Shared, is_commit: bool) {
    let decided = shared.tell(|tree, effects| match is_commit {
        true => tree.commit(effects),
        false => tree.abort(effects),
    });
    decided.expect("it is decided once");
}

/// A scope that is used by a task of its own, which its code leaves behind.
#[test]
fn what_a_scope_did_is_confirmed_or_undone_and_never_both() {
    for predicted in [1, 2] {
        explore(move || block_on(moved(predicted)));
    }
}

async fn moved(predicted: u32) {
    let undone = Arc::new(AtomicUsize::new(0));
    let tasks = Mutex::new(Vec::new());
    let leave_behind = |scope: Scope, value| {
        let undone = undone.clone();
        let task = spawn(async move {
            scope.on_abort(move || {
                undone.fetch_add(1, SeqCst);
            });
            (value, scope.confirmed().await)
        });
        tasks.lock().unwrap().push(task);
    };
    let scope = Scope::root();
    let call = scope.call(once(late(1))).predict(predicted);
    let run = call.then(async |scope: Scope, value: u32| {
        leave_behind(scope.clone(), value);
        let next = scope.call(once(late(5))).safe().predict(5);
        next.then(async |scope: Scope, _| {
            leave_behind(scope, value);
            Ok::<_, Status>(value)
        })
        .await
    });
    assert_eq!(run.await.unwrap(), 1);
    // What is wrong may be known before it has begun.
    let mut wrong = 0;
    for task in tasks.into_inner().unwrap() {
        let (value, confirmed) = task.await.expect("it has not panicked");
        assert_eq!(confirmed.is_ok(), value == 1);
        wrong += usize::from(value != 1);
    }
    assert_eq!(undone.load(SeqCst), wrong);
}

/// Tasks that make calls in a branch, while it is denied or affirmed, or has come to its end.
#[test]
fn calls_of_several_tasks_leave_nothing_behind() {
    for predicted in [1, 2] {
        explore(move || block_on(crowded(predicted)));
    }
}

async fn crowded(predicted: u32) {
    let tasks = Mutex::new(Vec::new());
    let scope = Scope::root();
    let call = scope.call(once(late(1)));
    let run = call
        .predict(predicted)
        .then(async |scope: Scope, value: u32| {
            for _ in 0..2 {
                let scope = scope.clone();
                let call = once(late(value));
                let task = spawn(async move { scope.call(call).safe().value().await });
                tasks.lock().unwrap().push((value, task));
            }
            scope.confirmed().await?;
            Ok::<_, Status>(value)
        });
    assert_eq!(run.await.unwrap(), 1);
    for (value, task) in tasks.into_inner().unwrap() {
        let came = task.await.expect("it has not panicked");
        match value {
            1 => assert_eq!(came.unwrap(), 1),
            // It was answered before it was denied, or is ended.
            _ => assert!(
                came.map_or_else(|gone| gone.code() == Code::Cancelled, |came| came == value)
            ),
        }
    }
    let shown = |scope: &Scope| {
        let shown = format!("{scope:?}");
        let made = shown.find("scopes_made").expect("it is shown");
        shown[..made].to_owned()
    };
    assert_eq!(shown(&scope), shown(&Scope::root()));
}

/// A handler's caller decides, while the handler says how to undo what it does, and waits.
#[test]
fn a_decision_reaches_everybody_once() {
    for is_commit in [true, false] {
        explore(move || {
            let (shared, scope) = root();
            let undone = Arc::new(AtomicUsize::new(0));
            let waiting: Vec<_> = (0..2)
                .map(|_| {
                    let (scope, undone) = (scope.clone(), undone.clone());
                    thread::spawn(move || {
                        scope.on_abort(move || {
                            undone.fetch_add(1, SeqCst);
                        });
                        block_on(scope.confirmed()).is_ok()
                    })
                })
                .collect();
            decide(&shared, is_commit);
            for confirmed in waiting {
                assert_eq!(confirmed.join().unwrap(), is_commit);
            }
            assert_eq!(undone.load(SeqCst), if is_commit { 0 } else { 2 });
        });
    }
}

/// A call's stream is opened, while its caller is decided.
#[test]
fn no_stream_misses_its_commit_and_none_outlives_an_abort() {
    for is_commit in [true, false] {
        explore(move || {
            let (shared, _) = root();
            let call = shared.call(&Name::root(), AWARE).unwrap();
            let opener = {
                let shared = shared.clone();
                thread::spawn(move || open(&shared, call))
            };
            decide(&shared, is_commit);
            let opened = opener.join().unwrap();
            let heard = opened.map(|(offer, mut committed)| match offer.caller {
                Caller::Correct => Ok(()),
                Caller::Speculative => committed.try_recv(),
            });
            match is_commit {
                true => assert_eq!(heard, Some(Ok(()))),
                // To drop it is the abort.
                false => assert!(matches!(heard, None | Some(Err(TryRecvError::Closed)))),
            }
        });
    }
}

/// A call of a scope that is undecided, whose stream ends as it is told.
fn undecided(shared: &Shared) -> oneshot::Sender<Result<(), Status>> {
    let call = shared.call(&Name::root(), AWARE).unwrap();
    let (end, ended) = oneshot::channel();
    shared.open_stream(call, |_| Control {
        commit: oneshot::channel().0,
        ended,
    });
    end
}

/// As the future of a call does, until it is told nothing more for now.
fn open(shared: &Shared, call: CallId) -> Option<(Offer, oneshot::Receiver<()>)> {
    let mut opened = None;
    let context = Context::from_waker(Waker::noop());
    while let Poll::Ready(said) = shared.poll_instruction(call, &context) {
        match said {
            Instruction::Send => shared.open_stream(call, |offer| {
                let (commit, committed) = oneshot::channel();
                let (_, ended) = oneshot::channel();
                opened = Some((offer, committed));
                Control { commit, ended }
            }),
            Instruction::Cancel | Instruction::Vanish => opened = None,
            other => panic!("{other:?}"),
        }
    }
    opened
}

/// Roots that share a budget for wasted work, all of whose predictions are wrong.
#[test]
fn several_roots_waste_no_more_than_is_left() {
    explore(|| {
        let waste = Waste {
            percent: 0,
            burst: 2,
        };
        let allowance = Allowance::of(Some(waste));
        let ahead = Arc::new(AtomicUsize::new(0));
        let programs: Vec<_> = (0..3)
            .map(|_| {
                let (allowance, ahead) = (allowance.clone(), ahead.clone());
                thread::spawn(move || block_on(wrong(allowance, &ahead)))
            })
            .collect();
        for program in programs {
            program.join().unwrap();
        }
        assert!(ahead.load(SeqCst) <= 2);
        assert_eq!(allowance.has_left(), ahead.load(SeqCst) < 2);
    });
}

async fn wrong(allowance: Allowance, ahead: &AtomicUsize) {
    let scope = Scope::root_within(Limits::default(), allowance);
    let call = scope.call(once(late(1)));
    let run = call.predict(2).then(async |scope: Scope, value: u32| {
        let next = scope.call(|| {
            ahead.fetch_add(usize::from(scope.is_speculative()), SeqCst);
            async move { Ok::<_, Status>(value + 1) }
        });
        next.safe().value().await
    });
    assert_eq!(run.await.unwrap(), 2);
}

/// S40: several wait for what was committed, of whom some give up.
#[test]
fn nobody_is_told_that_all_is_heard_before_it_is() {
    for end in [Ok(()), Err(Code::Unavailable)] {
        explore(move || {
            let is_ended = Arc::new(AtomicBool::new(false));
            let (shared, scope) = root();
            let ends = [(); 2].map(|()| undecided(&shared));
            decide(&shared, true);
            let waiting: Vec<_> = [true, false, false]
                .map(|gives_up| {
                    let (scope, is_ended) = (scope.clone(), is_ended.clone());
                    thread::spawn(move || {
                        let settled = async {
                            let settled = scope.settled().await.map_err(|lost| lost.code());
                            assert!(is_ended.load(SeqCst) || settled.is_err());
                            Some(settled)
                        };
                        let no_longer = async {
                            late(0).await.ok();
                            None
                        };
                        block_on(async {
                            tokio::select! {
                                biased;
                                settled = settled => settled,
                                gone = no_longer, if gives_up => gone,
                            }
                        })
                    })
                })
                .into();
            for (last, ended) in ends.into_iter().enumerate() {
                is_ended.store(last == 1, SeqCst);
                let end = if last == 0 { end } else { Ok(()) };
                ended
                    .send(end.map_err(|code| Status::new(code, "")))
                    .unwrap();
            }
            for settled in waiting {
                assert!(settled.join().unwrap().is_none_or(|settled| settled == end));
            }
            // Also whoever asks later is told.
            let later = block_on(scope.settled()).map_err(|lost| lost.code());
            assert_eq!(later, end);
        });
    }
}

/// Several predict a handler's reply, and the handler replies.
#[test]
fn what_is_predicted_after_the_reply_is_not_sent() {
    explore(|| {
        let (send, mut frames) = mpsc::unbounded_channel();
        let sizes = Sizes {
            sent: 100,
            taken: 100,
        };
        let replies = Arc::new(Replies::new(Some(Frames { send, sizes })));
        let context = server::Context::<String>::new(root().1, replies.clone());
        let predicting: Vec<_> = ["a", "b"]
            .map(|value| {
                let context = context.clone();
                thread::spawn(move || context.predict(&value.to_owned()))
            })
            .into();
        let actual = "b".to_owned().encode_to_vec();
        replies.actual(actual.clone().into()).unwrap();
        predicting.into_iter().for_each(|one| one.join().unwrap());
        let mut received = Received::new();
        let mut last = None;
        while let Ok(frame) = frames.try_recv() {
            let heard = received.receive(decode(frame.unwrap()).unwrap());
            last = Some(heard.expect("the server keeps to the protocol"));
        }
        assert_eq!(last, Some(Reply::Actual(actual.into(), None)));
    });
}
