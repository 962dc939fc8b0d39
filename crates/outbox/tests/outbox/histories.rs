//! Random histories, against a model that keeps plain lists.

use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::path::Path;

use proptest::prelude::*;
use surmise_outbox::{Delivery, End, HeldState, HoldId, Outbox, Target, load};
use surmise_testkit::{Scratch, watchdog};

use crate::server::{Ended, Manner, Server};
use crate::{curl, directory, tcp, udp};

#[derive(Clone, Debug)]
enum Act {
    Hold(u8),
    Append(usize, Vec<u8>),
    Finish(usize, End),
    Drop(usize),
    Sending(usize),
    Sent(usize, u8),
    Failed(usize, u8),
    Reopen,
}

fn act() -> impl Strategy<Value = Act> {
    let hold = 0..12usize;
    let bytes = prop_oneof![
        8 => proptest::collection::vec(any::<u8>(), 0..40),
        1 => (65_000..200_000usize).prop_map(|length| vec![b'l'; length]),
    ];
    prop_oneof![
        4 => (0..5u8).prop_map(Act::Hold),
        12 => (hold.clone(), bytes).prop_map(|(hold, bytes)| Act::Append(hold, bytes)),
        2 => (hold.clone(), any::<bool>()).prop_map(|(hold, is_closed)| {
            Act::Finish(hold, if is_closed { End::Closed } else { End::Reset })
        }),
        1 => hold.clone().prop_map(Act::Drop),
        3 => hold.clone().prop_map(Act::Sending),
        3 => (hold.clone(), any::<u8>()).prop_map(|(hold, part)| Act::Sent(hold, part)),
        1 => (hold, any::<u8>()).prop_map(|(hold, part)| Act::Failed(hold, part)),
        1 => Just(Act::Reopen),
    ]
}

/// A hold as the model has it.
#[derive(Clone, Debug)]
struct Model {
    target: Target,
    /// All appended, with the place in the order of everything.
    appended: Vec<(usize, Vec<u8>)>,
    /// How many of them, and how many bytes, have left.
    left: usize,
    sent: u64,
    end: Option<End>,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Held,
    Sending,
    Released,
    Failed,
    Dropped,
}

impl Model {
    fn total(&self) -> u64 {
        self.appended
            .iter()
            .map(|(_, bytes)| bytes.len() as u64)
            .sum()
    }

    fn is_pending(&self) -> bool {
        let has_rest = self.left < self.appended.len();
        self.state == State::Held || self.state == State::Released && has_rest
    }

    /// What has not left: the place of each append, and its bytes.
    fn rest(&self) -> Vec<(usize, Vec<u8>)> {
        let gone: u64 = self.appended[..self.left]
            .iter()
            .map(|(_, bytes)| bytes.len() as u64)
            .sum();
        let mut rest = self.appended[self.left..].to_vec();
        if let Some((_, first)) = rest.first_mut() {
            first.drain(..(self.sent - gone) as usize);
        }
        rest
    }

    fn told(&self) -> HeldState {
        match (self.state, self.end) {
            (State::Sending, _) => HeldState::Sending,
            (State::Failed, _) => HeldState::Failed { errno: 104 },
            (State::Dropped, _) => HeldState::Dropped,
            (State::Released, _) if !self.is_pending() => HeldState::Sent,
            (_, None) => HeldState::Open,
            (_, Some(end)) => HeldState::Finished(end),
        }
    }
}

/// Does `act` in both; whether an outbox must refuse it is the model's to say.
fn act_in_both(
    outbox: &mut Outbox,
    directory: &Path,
    models: &mut Vec<Model>,
    place: usize,
    act: Act,
) {
    let id = |index: usize| HoldId(index as u64 + 1);
    let part = |model: &Model, part: u8| {
        let rest = model.total() - model.sent;
        // Of datagrams, all or none.
        let part = if model.target.is_datagrams() {
            part / 128 * 255
        } else {
            part
        };
        model.sent + rest * u64::from(part) / 255
    };
    match act {
        Act::Hold(kind) => {
            let target = match kind {
                0 => tcp(80),
                1 => udp(53),
                2 => Target::Output,
                3 => Target::Error,
                _ => Target::Terminal,
            };
            let hold = outbox.hold(target.clone(), curl().filter(|_| kind < 2));
            assert_eq!(hold, id(models.len()));
            models.push(Model {
                target,
                appended: Vec::new(),
                left: 0,
                sent: 0,
                end: None,
                state: State::Held,
            });
        }
        Act::Append(index, mut bytes) => {
            let Some(model) = models.get_mut(index) else {
                return;
            };
            if model.target.is_datagrams() {
                bytes.truncate(65_507);
            }
            outbox.append(id(index), &bytes);
            let goes_on = !matches!(model.state, State::Failed | State::Dropped);
            let counts = !bytes.is_empty() || model.target.is_datagrams();
            if goes_on && counts && model.end.is_none() {
                // Streams are compared byte by byte, so how they are cut does not matter here.
                model.appended.push((place, bytes));
            }
        }
        Act::Finish(index, end) => {
            outbox.finish(id(index), end);
            if let Some(model) = models.get_mut(index) {
                model.end.get_or_insert(end);
            }
        }
        Act::Drop(index) => {
            let dropped = outbox.drop_hold(id(index)).is_ok();
            let model = models.get_mut(index);
            let model = model.filter(|model| matches!(model.state, State::Held | State::Released));
            assert_eq!(dropped, model.is_some());
            if let Some(model) = model {
                model.state = State::Dropped;
            }
        }
        Act::Sending(index) => {
            let marked = outbox.mark_sending(&[id(index)]).is_ok();
            let model = models.get_mut(index).filter(|model| model.is_pending());
            assert_eq!(marked, model.is_some());
            if let Some(model) = model {
                model.state = State::Sending;
            }
        }
        Act::Sent(index, of) => {
            let Some(model) = models.get_mut(index) else {
                return;
            };
            let upto = part(model, of);
            let marked = outbox.mark_sent(id(index), upto).is_ok();
            assert_eq!(marked, model.state == State::Sending);
            if marked {
                leave(model, upto, State::Released);
            }
        }
        Act::Failed(index, of) => {
            let Some(model) = models.get_mut(index) else {
                return;
            };
            let upto = part(model, of);
            let error = io::Error::from_raw_os_error(104);
            let marked = outbox.mark_failed(id(index), upto, &error).is_ok();
            assert_eq!(
                marked,
                matches!(model.state, State::Sending | State::Released)
            );
            if marked {
                leave(model, upto, State::Failed);
            }
        }
        // The new one must find what the old one was still to write.
        Act::Reopen => reopen(outbox, directory),
    }
}

fn reopen(outbox: &mut Outbox, directory: &Path) {
    // An outbox elsewhere stands in, so that the last handle is gone before the file is opened.
    let elsewhere = directory.join("elsewhere");
    let stand_in = Outbox::open(&elsewhere).expect("open");
    drop(std::mem::replace(outbox, stand_in));
    *outbox = Outbox::open(directory).expect("open again");
}

fn leave(model: &mut Model, upto: u64, state: State) {
    model.state = state;
    model.sent = upto;
    let mut end = 0;
    let gone = model.appended.iter().take_while(|(_, bytes)| {
        end += bytes.len() as u64;
        end <= upto
    });
    model.left = gone.count();
}

fn check(outbox: &Outbox, directory: &Path, models: &[Model]) {
    outbox.flush().expect("flush");
    let held = load(directory).expect("load");
    assert_eq!(held.channels.len(), models.len());
    for (channel, model) in held.channels.iter().zip(models) {
        assert_eq!(channel.target, model.target);
        assert_eq!(channel.state, model.told(), "{channel:?}");
        assert_eq!(
            (channel.sent, channel.bytes),
            (model.sent, model.total() - model.sent)
        );
    }
    // All that is pending, in causal order, neighbours of one stream joined.
    let mut wanted: Vec<(usize, HoldId, Vec<u8>)> = Vec::new();
    for (index, model) in models
        .iter()
        .enumerate()
        .filter(|(_, model)| model.is_pending())
    {
        let rest = model.rest().into_iter();
        wanted.extend(rest.map(|(place, bytes)| (place, HoldId(index as u64 + 1), bytes)));
    }
    wanted.sort();
    let mut pieces = Vec::new();
    let mut buffer = Vec::new();
    for piece in outbox.pieces() {
        outbox.read(&piece, &mut buffer).expect("read");
        pieces.push((piece.hold, buffer.clone()));
    }
    let is_stream = |hold: HoldId| !models[hold.0 as usize - 1].target.is_datagrams();
    let joined = |pieces: Vec<(HoldId, Vec<u8>)>| {
        let mut joined: Vec<(HoldId, Vec<u8>)> = Vec::new();
        for (hold, bytes) in pieces {
            match joined.last_mut() {
                Some((last, all)) if *last == hold && is_stream(hold) => all.extend(bytes),
                _ => joined.push((hold, bytes)),
            }
        }
        joined
    };
    let wanted = wanted.into_iter().map(|(_, hold, bytes)| (hold, bytes));
    assert!(joined(pieces) == joined(wanted.collect()));
}

/// As many cases as are asked for, or a share of them: each of these takes long.
fn config(in_256: u32) -> ProptestConfig {
    let mut config = ProptestConfig::default();
    config.cases = (config.cases * in_256).div_ceil(256);
    config.failure_persistence = None;
    config
}

proptest! {
    #![proptest_config(config(96))]

    #[test]
    fn the_outbox_is_what_a_plain_list_says(acts in proptest::collection::vec(act(), 1..60)) {
        let scratch = Scratch::new();
        let directory = directory(&scratch);
        let mut outbox = Outbox::open(&directory).expect("open");
        let mut models = Vec::new();
        for (place, act) in acts.into_iter().enumerate() {
            act_in_both(&mut outbox, &directory, &mut models, place, act);
            if place % 8 == 0 {
                check(&outbox, &directory, &models);
            }
        }
        check(&outbox, &directory, &models);
    }
}

proptest! {
    #![proptest_config(config(12))]

    #[test]
    fn what_arrives_is_what_was_appended(
        kinds in proptest::collection::vec(0..4u8, 1..10),
        appends in proptest::collection::vec((0..10usize, 0..3_000usize), 0..60),
        resets in proptest::collection::vec(any::<bool>(), 10),
    ) {
        let scratch = Scratch::new();
        let directory = directory(&scratch);
        let server = Server::start(Manner::Answer);
        let receiver = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("bind");
        receiver.set_read_timeout(Some(watchdog::LIMIT)).expect("set a limit");
        let datagrams = receiver.local_addr().expect("an address").port();
        let outbox = Outbox::open(&directory).expect("open");
        let targets: Vec<_> = kinds.iter().map(|kind| match kind {
            0 | 1 => tcp(server.port),
            2 => udp(datagrams),
            _ => Target::Output,
        }).collect();
        let holds: Vec<_> = targets.iter().map(|target| outbox.hold(target.clone(), None)).collect();
        // Nothing but what a piece says tells where it came from.
        let mut arriving = vec![Vec::new(); holds.len()];
        let (mut shown_wanted, mut datagrams_wanted) = (Vec::new(), Vec::new());
        for (place, (index, length)) in appends.into_iter().enumerate() {
            let index = index % holds.len();
            let bytes = [vec![index as u8, place as u8], vec![place as u8; length]].concat();
            outbox.append(holds[index], &bytes);
            match targets[index] {
                Target::Udp(..) => datagrams_wanted.push(bytes),
                Target::Output => shown_wanted.push(bytes),
                _ => arriving[index].extend(bytes),
            }
        }
        for (hold, is_reset) in holds.iter().zip(&resets) {
            outbox.finish(*hold, if *is_reset { End::Reset } else { End::Closed });
        }
        drop(outbox);
        let mut shown = Vec::new();
        let delivery = Delivery::prepare(&directory, &mut |_| unreachable!()).expect("reached");
        let delivered = delivery.deliver(&mut |_, bytes| {
            shown.push(bytes.to_vec());
            Ok(())
        });
        prop_assert!(delivered.failed.is_empty(), "{:?}", delivered.failed);
        prop_assert!(shown == shown_wanted);
        let mut buffer = vec![0; 1 << 16];
        for wanted in datagrams_wanted {
            let length = receiver.recv(&mut buffer).expect("a datagram");
            prop_assert!(buffer[..length] == *wanted);
        }
        let mut wanted: Vec<_> = (0..holds.len())
            .filter(|index| matches!(targets[*index], Target::Tcp(..)))
            .map(|index| (arriving[index].clone(), if resets[index] { Ended::Reset } else { Ended::Closed }))
            .collect();
        watchdog::until("all connections end", watchdog::LIMIT, || {
            server.seen().len() == wanted.len() && server.is_quiet()
        });
        let mut seen: Vec<_> = server.seen().into_iter()
            .map(|seen| (seen.bytes, seen.end.expect("quiet")))
            .collect();
        wanted.sort();
        seen.sort();
        prop_assert!(seen == wanted);
        let again = Delivery::prepare(&directory, &mut |_| unreachable!()).expect("nothing to reach");
        prop_assert!(again.is_empty());
    }
}
