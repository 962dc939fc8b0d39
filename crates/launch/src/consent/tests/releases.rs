//! What leaves is what the engine released: once, and in its order. An outbox tells of what waits as that of a running
//! domain does; who sends is played here.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::{Receiver, channel};

use proptest::prelude::*;
use surmise_outbox::{End, Host, Outbox, Pending, Target, Told};
use surmise_testkit::Scratch;

use crate::consent::Consent;

type Hold = surmise_outbox::HoldId;

/// What happens at the boundary.
#[derive(Clone, Copy, Debug)]
enum Act {
    Open,
    /// A program sends something to a hold.
    Append(usize),
    /// The host of a hold is refused.
    Drop(usize),
    /// The host of a hold is allowed.
    Allow(usize),
    /// A program closes its side.
    Finish(usize),
    /// A commit, in which holds whose number has this remainder by 4 cannot be sent.
    Commit(u64),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        3 => Just(Act::Open),
        8 => any::<usize>().prop_map(Act::Append),
        1 => any::<usize>().prop_map(Act::Drop),
        1 => any::<usize>().prop_map(Act::Allow),
        1 => any::<usize>().prop_map(Act::Finish),
        3 => (0..8_u64).prop_map(Act::Commit),
    ]
}

/// A domain: its boundary, control's part of it, and what of each piece of output is known.
struct Domain {
    outbox: Outbox,
    told: Receiver<Told>,
    consent: Consent,
    holds: Vec<Hold>,
    /// The number of each piece that is in the outbox, by hold, in order.
    kept: BTreeMap<Hold, Vec<u32>>,
    /// Holds to which nothing more comes.
    ended: BTreeSet<Hold>,
    pieces: u32,
    left: BTreeSet<u32>,
}

impl Domain {
    fn new(scratch: &Scratch) -> Self {
        let (tell, told) = channel();
        let tell = move |what| tell.send(what).expect("somebody hears");
        Self {
            outbox: Outbox::open_told(scratch.root(), tell).expect("an outbox"),
            told,
            consent: Consent::new().expect("new"),
            holds: Vec::new(),
            kept: BTreeMap::new(),
            ended: BTreeSet::new(),
            pieces: 0,
            left: BTreeSet::new(),
        }
    }

    fn act(&mut self, act: Act) {
        match act {
            Act::Open => {
                let target = Target::Tcp(Host::Address([127, 0, 0, 1].into()), 80);
                let hold = self.outbox.hold(target, None);
                self.holds.push(hold);
                self.kept.insert(hold, Vec::new());
            }
            Act::Append(index) => self.append(index),
            Act::Drop(index) => {
                if let Some(hold) = self.pick(index) {
                    self.outbox.drop_hold(hold).expect("nothing is being sent");
                    self.kept.remove(&hold);
                    self.ended.insert(hold);
                }
            }
            Act::Allow(index) => {
                if let Some(hold) = self.pick(index) {
                    let pending = self.outbox.pending();
                    self.outbox.allow(&[hold]);
                    let sent = pending.into_iter().filter(|one| one.hold == hold);
                    let sent: Vec<_> = sent.collect();
                    self.send(&sent);
                }
            }
            Act::Finish(index) => {
                if let Some(hold) = self.pick(index) {
                    self.outbox.finish(hold, End::Closed);
                    self.ended.insert(hold);
                }
            }
            Act::Commit(failing) => self.commit(failing),
        }
    }

    fn pick(&self, index: usize) -> Option<Hold> {
        let open = self.holds.iter().filter(|hold| !self.ended.contains(hold));
        let open: Vec<_> = open.copied().collect();
        (!open.is_empty()).then(|| open[index % open.len()])
    }

    fn append(&mut self, index: usize) {
        let Some(hold) = self.pick(index) else {
            return;
        };
        let piece = self.pieces;
        self.pieces += 1;
        self.outbox.append(hold, &piece.to_le_bytes());
        self.kept.get_mut(&hold).expect("it is open").push(piece);
    }

    fn commit(&mut self, failing: u64) {
        // All that is told by then is heard by then.
        self.outbox.flush().expect("kept");
        let pending = self.outbox.pending();
        for told in self.told.try_iter() {
            match told {
                Told::Waits(hold) => self.consent.held(hold.0).expect("held"),
                Told::Gone(hold) => self.consent.gone(hold.0),
            }
        }
        let released: Vec<_> = self.consent.affirm().expect("affirm");
        let released: Vec<_> = released.into_iter().map(surmise_outbox::HoldId).collect();
        let mut by_hold: BTreeMap<_, _> = pending.into_iter().map(|one| (one.hold, one)).collect();
        let chosen: Vec<_> = released
            .iter()
            .filter_map(|hold| by_hold.remove(hold))
            .collect();
        assert_eq!(
            chosen.len(),
            released.len(),
            "nothing is released that is not there"
        );
        assert!(
            by_hold.is_empty(),
            "all that is there is released: {by_hold:?}"
        );
        self.outbox.agree(&released);
        let agreed: BTreeSet<_> = self.kept.values().flatten().copied().collect();
        let steps = self.outbox.steps_in_order(&chosen);
        let mut begun = Vec::new();
        for step in &steps {
            if !begun.contains(&step.hold) {
                begun.push(step.hold);
            }
        }
        assert_eq!(begun, released, "in the engine's order");
        // The tasks go on before anything has left.
        for index in 0..3 {
            self.append(index);
        }
        for pending in &chosen {
            let sends: u32 = self
                .outbox
                .agreed(pending.hold)
                .iter()
                .map(|piece| piece.length as u32)
                .sum();
            assert_eq!(u64::from(sends), pending.bytes, "what was agreed to");
        }
        let (unsent, sent): (Vec<Pending>, Vec<Pending>) = chosen
            .into_iter()
            .partition(|one| one.hold.0 % 4 == failing);
        self.send(&sent);
        let unsent: Vec<_> = unsent.iter().map(|one| one.hold).collect();
        self.outbox.keep(&unsent);
        assert!(
            self.left
                .is_disjoint(&self.kept.values().flatten().copied().collect())
        );
        for (hold, kept) in &self.kept {
            let stays = unsent.contains(hold);
            assert!(
                stays || kept.iter().all(|piece| !agreed.contains(piece)),
                "{hold:?}"
            );
        }
    }

    /// All of these leaves that there was when they were looked at.
    fn send(&mut self, holds: &[Pending]) {
        for pending in holds {
            let hold = pending.hold;
            let kept = self.kept.get_mut(&hold).expect("it is not dropped");
            self.outbox.mark_sending(&[hold]).expect("it is pending");
            let mut bytes = Vec::new();
            for piece in kept.drain(..pending.bytes as usize / 4) {
                bytes.extend(piece.to_le_bytes());
                assert!(self.left.insert(piece), "once");
            }
            let upto = pending.sent + bytes.len() as u64;
            self.outbox
                .mark_sent(hold, upto)
                .expect("it was being sent");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn what_leaves_is_what_the_engine_released(acts in prop::collection::vec(act(), 1..60)) {
        let scratch = Scratch::new();
        let mut domain = Domain::new(&scratch);
        for act in acts {
            domain.act(act);
        }
        domain.commit(u64::MAX);
        prop_assert!(domain.kept.values().all(|kept| kept.len() <= 3));
    }
}
