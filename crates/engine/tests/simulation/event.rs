//! Random histories.

use proptest::prelude::*;
use surmise_engine::{
    Access, ChannelId, CkptId, Decision, GroupId, HoldId, Id, Kind, Kinds, Node, ObjectId, On,
    Owner, PlanId, TaskId, UndoId, Volume, WaiterId,
};

/// One event of the engine's interface.
#[derive(Clone, Debug)]
pub enum Event {
    Assume(Owner, Kind),
    Depend(Node, Recent),
    Decide(Recent, Decision),
    DecideConsent(Decision),
    Spawn(Option<TaskId>, TaskId),
    Predict(TaskId, Owner, bool),
    /// Of the group of a task.
    CheckpointOf(TaskId, CkptId),
    Checkpointed(GroupId, CkptId),
    /// Of the oldest plan that is not carried out.
    RolledBackNext,
    RolledBack(PlanId),
    End(TaskId),
    Merge(TaskId, TaskId),
    Forget(ObjectId),
    Access(TaskId, ObjectId, Access),
    Open(ChannelId, Kinds),
    Close(ChannelId),
    Output(Node, ChannelId, HoldId),
    Barrier(Node, WaiterId, Kinds),
    Withdraw(WaiterId),
    Blocked(Node, On),
    Unblocked(Node),
}

/// An assumption by how many have been made since; 0 is one that has not been made yet.
#[derive(Clone, Copy, Debug)]
pub struct Recent(u64);

impl Recent {
    pub fn id(self, assumed: usize) -> Id {
        Id((assumed as u64 + 1).saturating_sub(self.0))
    }
}

/// A history of up to 200 events, over few enough names that they meet: of all kinds, or mostly of
/// those that guesses and rollbacks are made of, or syncs, or work in one directory.
pub fn history() -> impl Strategy<Value = Vec<Event>> {
    let events = prop_oneof![
        2 => prop::collection::vec(event(), 1..194),
        3 => prop::collection::vec(speculative_event(), 1..194),
        1 => prop::collection::vec(syncing_event(), 1..194),
        2 => prop::collection::vec(commuting_event(), 1..194),
    ];
    (events, any::<bool>()).prop_map(|(events, with_consent)| {
        let mut history = vec![
            Event::Spawn(None, TaskId(1)),
            Event::Spawn(None, TaskId(2)),
            Event::Spawn(None, TaskId(3)),
            Event::Spawn(None, TaskId(4)),
            Event::Open(ChannelId(1), Kinds::ALL),
            Event::Open(ChannelId(2), Kinds::ALL_BUT_CONSENT),
        ];
        if with_consent {
            history.push(Event::Assume(Owner::Person, Kind::Consent));
        }
        history.extend(events);
        history
    })
}

fn speculative_event() -> impl Strategy<Value = Event> {
    let hold = (1..60u64).prop_map(HoldId);
    let waiter = (1..8u64).prop_map(WaiterId);
    let own = |task| Event::Assume(Owner::Task(task), Kind::Prediction);
    prop_oneof![
        20 => task().prop_map(|task| Event::Predict(task, Owner::Outside, true)),
        30 => (task(), object(), access()).prop_map(|(task, object, how)| {
            Event::Access(task, object, how)
        }),
        18 => (task(), task()).prop_map(|(parent, child)| Event::Spawn(Some(parent), child)),
        3 => task().prop_map(|task| Event::Spawn(None, task)),
        9 => task().prop_map(Event::End),
        8 => (task(), task()).prop_map(|(one, other)| Event::Merge(one, other)),
        12 => (node(), channel(), hold).prop_map(|(node, channel, hold)| {
            Event::Output(node, channel, hold)
        }),
        6 => recent().prop_map(|id| Event::Decide(id, Decision::Affirm)),
        6 => recent().prop_map(|id| Event::Decide(id, Decision::Deny)),
        20 => Just(Event::RolledBackNext),
        8 => task().prop_map(own),
        6 => (node(), recent()).prop_map(|(node, id)| Event::Depend(node, id)),
        8 => (node(), waiter).prop_map(|(node, waiter)| {
            Event::Barrier(node, waiter, Kinds::PREDICTIONS)
        }),
        8 => (object(), (1..8u64).prop_map(WaiterId)).prop_map(|(object, waiter)| {
            Event::Barrier(Node::Object(object), waiter, Kinds::PREDICTIONS)
        }),
        6 => (task(), (1..9u64).prop_map(CkptId)).prop_map(|(task, ckpt)| {
            Event::CheckpointOf(task, ckpt)
        }),
        2 => Just(Event::Assume(Owner::Outside, Kind::Epoch(Volume(1)))),
        2 => object().prop_map(Event::Forget),
        10 => (task(), task()).prop_map(|(task, on)| {
            Event::Blocked(Node::Task(task), On::Node(Node::Task(on)))
        }),
        2 => task().prop_map(|task| Event::Unblocked(Node::Task(task))),
        10 => event(),
    ]
}

/// Epochs of one volume follow each other, of changes of few objects.
fn syncing_event() -> impl Strategy<Value = Event> {
    let object = || (1..3u64).prop_map(|object| Node::Object(ObjectId(object)));
    let waiter = (1..8u64).prop_map(WaiterId);
    let newest = (1..4u64).prop_map(Recent);
    let older = (2..7u64).prop_map(Recent);
    prop_oneof![
        10 => Just(Event::Assume(Owner::Outside, Kind::Epoch(Volume(1)))),
        16 => (object(), newest).prop_map(|(object, id)| Event::Depend(object, id)),
        16 => (object(), waiter).prop_map(|(object, waiter)| {
            Event::Barrier(object, waiter, Kinds::EPOCHS)
        }),
        8 => older.prop_map(|id| Event::Decide(id, Decision::Affirm)),
        8 => speculative_event(),
        4 => event(),
    ]
}

/// Tasks that guess change few objects in ways that commute, and some of them share their memory.
fn commuting_event() -> impl Strategy<Value = Event> {
    let object = || (1..3u64).prop_map(ObjectId);
    let undo = || prop::option::weighted(0.3, (1..20u64).prop_map(UndoId));
    prop_oneof![
        16 => task().prop_map(|task| Event::Predict(task, Owner::Outside, true)),
        40 => (task(), object(), undo()).prop_map(|(task, object, undo)| {
            Event::Access(task, object, Access::Commute(undo))
        }),
        6 => (task(), object(), access()).prop_map(|(task, object, how)| {
            Event::Access(task, object, how)
        }),
        6 => recent().prop_map(|id| Event::Decide(id, Decision::Affirm)),
        6 => recent().prop_map(|id| Event::Decide(id, Decision::Deny)),
        12 => Just(Event::RolledBackNext),
        6 => (task(), task()).prop_map(|(one, other)| Event::Merge(one, other)),
        2 => Just(Event::Assume(Owner::Outside, Kind::Epoch(Volume(1)))),
        3 => (node(), recent()).prop_map(|(node, id)| Event::Depend(node, id)),
        2 => task().prop_map(Event::End),
        8 => speculative_event(),
    ]
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (owner(), kind()).prop_map(|(owner, kind)| Event::Assume(owner, kind)),
        4 => Just(Event::Assume(Owner::Outside, Kind::Prediction)),
        2 => Just(Event::Assume(Owner::Person, Kind::Consent)),
        8 => (node(), recent()).prop_map(|(node, id)| Event::Depend(node, id)),
        6 => recent().prop_map(|id| Event::Decide(id, Decision::Affirm)),
        3 => recent().prop_map(|id| Event::Decide(id, Decision::Deny)),
        24 => speculation(),
        20 => states(),
        20 => channels(),
        30 => waits(),
    ]
}

/// Guesses, and what takes them back.
fn speculation() -> impl Strategy<Value = Event> {
    let ckpt = (1..9u64).prop_map(CkptId);
    let plan = (0..9u64).prop_map(PlanId);
    let owner = prop_oneof![12 => Just(Owner::Outside), 1 => owner()];
    let may_share = prop::bool::weighted(0.9);
    prop_oneof![
        12 => (task(), owner, may_share).prop_map(|(task, owner, may_share)| {
            Event::Predict(task, owner, may_share)
        }),
        6 => (task(), ckpt).prop_map(|(task, ckpt)| Event::CheckpointOf(task, ckpt)),
        8 => Just(Event::RolledBackNext),
        1 => plan.prop_map(Event::RolledBack),
    ]
}

/// Tasks and objects.
fn states() -> impl Strategy<Value = Event> {
    let parent = prop::option::of(task());
    prop_oneof![
        3 => (parent, task()).prop_map(|(parent, child)| Event::Spawn(parent, child)),
        2 => task().prop_map(Event::End),
        1 => (task(), task()).prop_map(|(one, other)| Event::Merge(one, other)),
        1 => object().prop_map(Event::Forget),
        14 => (task(), object(), access()).prop_map(|(task, object, how)| {
            Event::Access(task, object, how)
        }),
    ]
}

fn access() -> impl Strategy<Value = Access> {
    let undo = || prop::option::weighted(0.3, (1..20u64).prop_map(UndoId));
    prop_oneof![
        Just(Access::Observe),
        undo().prop_map(Access::Modify),
        undo().prop_map(Access::Both),
        undo().prop_map(Access::Commute),
    ]
}

/// Output, and the decision that it mostly waits for.
fn channels() -> impl Strategy<Value = Event> {
    let hold = (1..60u64).prop_map(HoldId);
    let affirm = prop::bool::weighted(0.9);
    prop_oneof![
        2 => (channel(), gates()).prop_map(|(channel, gates)| Event::Open(channel, gates)),
        1 => channel().prop_map(Event::Close),
        14 => (node(), channel(), hold).prop_map(|(node, channel, hold)| {
            Event::Output(node, channel, hold)
        }),
        1 => affirm.prop_map(|affirm| {
            Event::DecideConsent(if affirm { Decision::Affirm } else { Decision::Deny })
        }),
    ]
}

fn waits() -> impl Strategy<Value = Event> {
    let waiter = || (1..8u64).prop_map(WaiterId);
    let on = prop_oneof![
        12 => Just(On::Consent),
        6 => node().prop_map(On::Node),
        1 => prop::sample::select(&[On::Time, On::Person, On::Input][..]),
    ];
    prop_oneof![
        4 => (node(), waiter(), kinds()).prop_map(|(node, waiter, kinds)| {
            Event::Barrier(node, waiter, kinds)
        }),
        1 => waiter().prop_map(Event::Withdraw),
        16 => (node(), on).prop_map(|(node, on)| Event::Blocked(node, on)),
        3 => node().prop_map(Event::Unblocked),
    ]
}

fn owner() -> impl Strategy<Value = Owner> {
    prop_oneof![
        1 => Just(Owner::Person),
        3 => Just(Owner::Outside),
        3 => task().prop_map(Owner::Task),
    ]
}

fn kind() -> impl Strategy<Value = Kind> {
    prop_oneof![
        1 => Just(Kind::Consent),
        4 => Just(Kind::Prediction),
        3 => (1..3u64).prop_map(|volume| Kind::Epoch(Volume(volume))),
    ]
}

/// Mostly what is allowed somewhere.
fn kinds() -> impl Strategy<Value = Kinds> {
    (prop::bool::weighted(0.2), any::<bool>(), any::<bool>()).prop_map(
        |(consent, predictions, epochs)| Kinds {
            consent,
            predictions,
            epochs,
        },
    )
}

fn gates() -> impl Strategy<Value = Kinds> {
    prop_oneof![4 => Just(Kinds::ALL), 3 => Just(Kinds::ALL_BUT_CONSENT), 1 => kinds()]
}

fn recent() -> impl Strategy<Value = Recent> {
    prop_oneof![15 => 1..8u64, 2 => 8..20u64, 1 => Just(0)].prop_map(Recent)
}

fn task() -> impl Strategy<Value = TaskId> {
    (1..7u64).prop_map(TaskId)
}

fn object() -> impl Strategy<Value = ObjectId> {
    (1..5u64).prop_map(ObjectId)
}

fn channel() -> impl Strategy<Value = ChannelId> {
    (1..4u64).prop_map(ChannelId)
}

fn node() -> impl Strategy<Value = Node> {
    prop_oneof![3 => task().prop_map(Node::Task), 1 => object().prop_map(Node::Object)]
}
