//! Random histories.

use proptest::prelude::*;
use surmise_engine::{
    Access, ChannelId, Decision, HoldId, Id, Kind, Kinds, Node, ObjectId, On, Owner, TaskId,
    Volume, WaiterId,
};

/// One event of the engine's interface.
#[derive(Clone, Debug)]
pub enum Event {
    Assume(Owner, Kind),
    Depend(Node, Recent),
    Decide(Recent, Decision),
    DecideConsent(Decision),
    Spawn(Option<TaskId>, TaskId),
    End(TaskId),
    Carry(ObjectId, Kinds),
    Forget(ObjectId),
    Access(TaskId, ObjectId, Access),
    Open(ChannelId, Kinds),
    Regate(ChannelId, Kinds),
    Close(ChannelId),
    Discard(ChannelId),
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

/// A history of up to 200 events, over few enough names that they meet.
pub fn history() -> impl Strategy<Value = Vec<Event>> {
    (prop::collection::vec(event(), 1..196), any::<bool>()).prop_map(|(events, with_consent)| {
        let mut history = vec![
            Event::Spawn(None, TaskId(1)),
            Event::Spawn(None, TaskId(2)),
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

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (owner(), kind()).prop_map(|(owner, kind)| Event::Assume(owner, kind)),
        4 => Just(Event::Assume(Owner::Outside, Kind::Prediction)),
        2 => Just(Event::Assume(Owner::Person, Kind::Consent)),
        12 => (node(), recent()).prop_map(|(node, id)| Event::Depend(node, id)),
        5 => recent().prop_map(|id| Event::Decide(id, Decision::Affirm)),
        1 => recent().prop_map(|id| Event::Decide(id, Decision::Deny)),
        20 => states(),
        20 => channels(),
        30 => waits(),
    ]
}

/// Tasks and objects.
fn states() -> impl Strategy<Value = Event> {
    let access = prop::sample::select(&[Access::Observe, Access::Modify, Access::Both][..]);
    let parent = prop::option::of(task());
    prop_oneof![
        3 => (parent, task()).prop_map(|(parent, child)| Event::Spawn(parent, child)),
        1 => task().prop_map(Event::End),
        2 => (object(), carries()).prop_map(|(object, kinds)| Event::Carry(object, kinds)),
        1 => object().prop_map(Event::Forget),
        9 => (task(), object(), access).prop_map(|(task, object, how)| {
            Event::Access(task, object, how)
        }),
    ]
}

/// Output, and the decision that it mostly waits for.
fn channels() -> impl Strategy<Value = Event> {
    let hold = (1..60u64).prop_map(HoldId);
    let affirm = prop::bool::weighted(0.9);
    prop_oneof![
        2 => (channel(), gates()).prop_map(|(channel, gates)| Event::Open(channel, gates)),
        1 => (channel(), gates()).prop_map(|(channel, gates)| Event::Regate(channel, gates)),
        1 => channel().prop_map(Event::Close),
        1 => channel().prop_map(Event::Discard),
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

fn carries() -> impl Strategy<Value = Kinds> {
    (kinds(), prop::bool::weighted(0.9)).prop_map(|(kinds, consent)| Kinds { consent, ..kinds })
}

fn gates() -> impl Strategy<Value = Kinds> {
    prop_oneof![4 => Just(Kinds::ALL), 3 => Just(Kinds::ALL_BUT_CONSENT), 1 => kinds()]
}

fn recent() -> impl Strategy<Value = Recent> {
    prop_oneof![15 => 1..8u64, 2 => 8..20u64, 1 => Just(0)].prop_map(Recent)
}

fn task() -> impl Strategy<Value = TaskId> {
    (1..5u64).prop_map(TaskId)
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
