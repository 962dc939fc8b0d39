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
    /// The reader of a hold has taken all that was being sent to it.
    Taken(usize),
    /// The reader of a hold has taken half of the pieces that were being sent to it, and takes no more.
    Cut(usize),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        3 => Just(Act::Open),
        8 => any::<usize>().prop_map(Act::Append),
        1 => any::<usize>().prop_map(Act::Drop),
        1 => any::<usize>().prop_map(Act::Allow),
        1 => any::<usize>().prop_map(Act::Finish),
        3 => (0..8_u64).prop_map(Act::Commit),
        2 => any::<usize>().prop_map(Act::Taken),
        1 => any::<usize>().prop_map(Act::Cut),
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
    /// What is being sent to slow readers.
    under_way: BTreeMap<Hold, Sending>,
}

/// What a slow reader is being sent.
struct Sending {
    /// How many bytes had left before.
    sent: u64,
    pieces: Vec<u32>,
    /// How many of the kept pieces the person has agreed to since: the next release sends them.
    queued: Option<usize>,
}

/// Holds whose readers are slow: sending to these ends some acts later than it begins.
fn is_slow(hold: Hold) -> bool {
    hold.0.is_multiple_of(3)
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
            under_way: BTreeMap::new(),
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
                let hold = self.pick(index);
                if let Some(hold) = hold.filter(|hold| !self.under_way.contains_key(hold)) {
                    self.outbox.drop_hold(hold).expect("nothing is being sent");
                    self.kept.remove(&hold);
                    self.ended.insert(hold);
                }
            }
            Act::Allow(index) => {
                if let Some(hold) = self.pick(index) {
                    let pending = self.outbox.pending();
                    self.outbox.allow(&[hold]);
                    self.queue(&[hold]);
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
            Act::Taken(index) => {
                if let Some(hold) = self.pick_under_way(index) {
                    self.taken(hold);
                }
            }
            Act::Cut(index) => {
                if let Some(hold) = self.pick_under_way(index) {
                    self.cut(hold);
                }
            }
        }
    }

    fn pick_under_way(&self, index: usize) -> Option<Hold> {
        let holds: Vec<_> = self.under_way.keys().copied().collect();
        (!holds.is_empty()).then(|| holds[index % holds.len()])
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
        let (later, at_once): (Vec<_>, Vec<_>) = released
            .iter()
            .partition(|hold| self.under_way.contains_key(hold));
        assert_eq!(
            chosen.len(),
            at_once.len(),
            "nothing is released that is not there"
        );
        assert!(
            by_hold.is_empty(),
            "all that is there is released: {by_hold:?}"
        );
        self.outbox.agree(&released);
        self.queue(&later);
        let agreed: BTreeSet<_> = self.kept.values().flatten().copied().collect();
        let steps = self.outbox.steps_in_order(&chosen);
        let mut begun = Vec::new();
        for step in &steps {
            if !begun.contains(&step.hold) {
                begun.push(step.hold);
            }
        }
        assert_eq!(begun, at_once, "in the engine's order");
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
        self.assert_agreed_left(&agreed, &unsent);
    }

    /// Of what was agreed to nothing stays but what could not be sent, or has its turn later.
    fn assert_agreed_left(&self, agreed: &BTreeSet<u32>, unsent: &[Hold]) {
        assert!(
            self.left
                .is_disjoint(&self.kept.values().flatten().copied().collect())
        );
        for (hold, kept) in &self.kept {
            let stays = unsent.contains(hold);
            let sending = self.under_way.get(hold);
            // These leave when their slow reader has taken what is before them.
            let queued = sending.and_then(|sending| sending.queued).unwrap_or(0);
            assert!(
                stays || kept[queued..].iter().all(|piece| !agreed.contains(piece)),
                "{hold:?}"
            );
        }
    }

    /// The next release sends all that is kept of those of these that are being sent.
    fn queue(&mut self, holds: &[Hold]) {
        for hold in holds {
            if let Some(sending) = self.under_way.get_mut(hold) {
                sending.queued = Some(self.kept[hold].len());
            }
        }
    }

    /// All of these leaves that there was when they were looked at; to slow readers, later.
    fn send(&mut self, holds: &[Pending]) {
        for pending in holds {
            let hold = pending.hold;
            self.begin(hold, pending.sent, pending.bytes as usize / 4);
            if !is_slow(hold) {
                self.taken(hold);
            }
        }
    }

    /// The first pieces of a hold begin to leave, so many.
    fn begin(&mut self, hold: Hold, sent: u64, pieces: usize) {
        let kept = self.kept.get_mut(&hold).expect("it is not dropped");
        self.outbox.mark_sending(&[hold]).expect("it is pending");
        let pieces = kept.drain(..pieces).collect();
        let queued = None;
        let sending = Sending {
            sent,
            pieces,
            queued,
        };
        assert!(self.under_way.insert(hold, sending).is_none());
    }

    /// All that is being sent of a hold has left; what was agreed to meanwhile follows.
    fn taken(&mut self, hold: Hold) {
        let sending = self.under_way.remove(&hold).expect("it is being sent");
        let upto = self.leave(hold, sending.sent, &sending.pieces);
        let Some(queued) = sending.queued.filter(|queued| *queued > 0) else {
            return;
        };
        let agreed = self.outbox.agreed(hold);
        let bytes: usize = agreed.iter().map(|piece| piece.length).sum();
        assert_eq!(bytes, queued * 4, "what was agreed to while others left");
        self.begin(hold, upto, queued);
    }

    /// Half of what is being sent of a hold has left. Neither the rest leaves, nor what was agreed to meanwhile.
    fn cut(&mut self, hold: Hold) {
        let mut sending = self.under_way.remove(&hold).expect("it is being sent");
        let mut rest = sending.pieces.split_off(sending.pieces.len() / 2);
        self.leave(hold, sending.sent, &sending.pieces);
        self.outbox.keep(&[hold]);
        let kept = self.kept.get_mut(&hold).expect("it is not dropped");
        rest.append(kept);
        *kept = rest;
    }

    /// These pieces of a hold have left behind `sent` bytes. Returns how many bytes have left by then.
    fn leave(&mut self, hold: Hold, sent: u64, pieces: &[u32]) -> u64 {
        for piece in pieces {
            assert!(self.left.insert(*piece), "once");
        }
        let upto = sent + pieces.len() as u64 * 4;
        let marked = self.outbox.mark_sent(hold, upto);
        marked.expect("it was being sent");
        upto
    }

    /// Every reader takes all.
    fn all_taken(&mut self) {
        while let Some(hold) = self.pick_under_way(0) {
            self.taken(hold);
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
        domain.all_taken();
        domain.commit(u64::MAX);
        domain.all_taken();
        prop_assert!(domain.kept.values().all(|kept| kept.len() <= 3));
    }
}
