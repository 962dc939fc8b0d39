use super::*;
use std::collections::BTreeMap;

const A: ClientId = ClientId(1);
const B: ClientId = ClientId(2);
const C: ClientId = ClientId(3);

fn object(number: u64) -> ObjectId {
    ObjectId::found(number).expect("an inode number")
}

fn ask(leases: &mut Leases, client: ClientId, request: u64, wants: &[(u64, Mode)]) -> Vec<Move> {
    let mut moves = Vec::new();
    let wants = wants.iter().map(|(number, mode)| (object(*number), *mode));
    let ask = Ask {
        client,
        request,
        wants: wants.collect(),
    };
    leases.ask(ask, &mut moves);
    moves
}

/// Answers what was recalled of the client last.
fn lower(leases: &mut Leases, client: ClientId, number: u64, to: Mode) -> Vec<Move> {
    let is_about = |one: &Move| match one {
        Move::Recall {
            recall,
            object: about,
            ..
        } if *about == object(number) => Some(*recall),
        _ => None,
    };
    let owed = leases.owed_by(client);
    let recall = owed.iter().find_map(is_about).expect("a recall");
    let mut moves = Vec::new();
    leases.lower(client, recall, object(number), to, &mut moves);
    moves
}

fn granted(moves: &[Move]) -> Vec<(ClientId, u64)> {
    let grant = |one: &Move| match one {
        Move::Grant(ask) => Some((ask.client, ask.request)),
        Move::Recall { .. } | Move::Revoked(_) => None,
    };
    moves.iter().filter_map(grant).collect()
}

fn recalled(moves: &[Move]) -> Vec<(ClientId, u64, Mode)> {
    let recall = |one: &Move| match one {
        Move::Recall {
            client, object, to, ..
        } => Some((*client, object.number(), *to)),
        Move::Grant(_) | Move::Revoked(_) => None,
    };
    moves.iter().filter_map(recall).collect()
}

/// ARCHITECTURE.md says so: a million objects take that many bytes each, and room for the table to grow.
#[test]
fn the_lease_on_an_object_with_one_holder_takes_24_bytes() {
    assert_eq!(size_of::<(ObjectId, Holders)>(), 24);
}

#[test]
fn readers_share_and_a_writer_is_alone() {
    let mut leases = Leases::default();
    assert_eq!(
        granted(&ask(&mut leases, A, 1, &[(7, Mode::Read)])),
        [(A, 1)]
    );
    assert_eq!(
        granted(&ask(&mut leases, B, 1, &[(7, Mode::Read)])),
        [(B, 1)]
    );
    let moves = ask(&mut leases, C, 1, &[(7, Mode::Write)]);
    assert_eq!(granted(&moves), []);
    assert_eq!(recalled(&moves), [(A, 7, Mode::Know), (B, 7, Mode::Know)]);
    assert_eq!(lower(&mut leases, A, 7, Mode::Know), []);
    assert_eq!(granted(&lower(&mut leases, B, 7, Mode::Know)), [(C, 1)]);
    // A reader leaves the writer the right to read.
    let moves = ask(&mut leases, A, 2, &[(7, Mode::Read)]);
    assert_eq!(recalled(&moves), [(C, 7, Mode::Read)]);
    assert_eq!(granted(&lower(&mut leases, C, 7, Mode::Read)), [(A, 2)]);
    assert_eq!(leases.mode(C, object(7)), Some(Mode::Read));
}

#[test]
fn two_that_hold_what_the_other_needs_both_go_on() {
    let mut leases = Leases::default();
    ask(&mut leases, A, 1, &[(1, Mode::Write)]);
    ask(&mut leases, B, 1, &[(2, Mode::Write)]);
    let moves = ask(&mut leases, A, 2, &[(1, Mode::Write), (2, Mode::Write)]);
    assert_eq!(recalled(&moves), [(B, 2, Mode::Know)]);
    let moves = ask(&mut leases, B, 2, &[(1, Mode::Write), (2, Mode::Write)]);
    assert_eq!(recalled(&moves), [(A, 1, Mode::Know)]);
    // Each gives back what it holds, and the first ask is the first to get all.
    assert_eq!(granted(&lower(&mut leases, A, 1, Mode::Know)), []);
    let moves = lower(&mut leases, B, 2, Mode::Know);
    assert_eq!(granted(&moves), [(A, 2)]);
    assert_eq!(recalled(&moves), [(A, 1, Mode::Know), (A, 2, Mode::Know)]);
    lower(&mut leases, A, 1, Mode::Know);
    assert_eq!(granted(&lower(&mut leases, A, 2, Mode::Know)), [(B, 2)]);
}

#[test]
fn a_recall_is_answered_once() {
    let mut leases = Leases::default();
    ask(&mut leases, A, 1, &[(7, Mode::Write)]);
    ask(&mut leases, B, 1, &[(7, Mode::Write)]);
    let Some(Move::Recall { recall, .. }) = leases.owed_by(A).pop() else {
        panic!("nothing was recalled");
    };
    let mut moves = Vec::new();
    leases.lower(A, recall, object(7), Mode::Know, &mut moves);
    assert_eq!(granted(&moves), [(B, 1)]);
    let moves = ask(&mut leases, A, 2, &[(7, Mode::Read)]);
    assert_eq!(recalled(&moves), [(B, 7, Mode::Read)]);
    assert_eq!(granted(&lower(&mut leases, B, 7, Mode::Read)), [(A, 2)]);
    // The same answer over a later connection takes nothing away.
    leases.lower(A, recall, object(7), Mode::Know, &mut Vec::new());
    assert_eq!(leases.mode(A, object(7)), Some(Mode::Read));
}

#[test]
fn nobody_overtakes_a_waiting_writer() {
    let mut leases = Leases::default();
    ask(&mut leases, A, 1, &[(7, Mode::Read)]);
    ask(&mut leases, B, 1, &[(7, Mode::Write)]);
    assert_eq!(ask(&mut leases, C, 1, &[(7, Mode::Read)]), []);
    assert!(!leases.offer(C, object(7), Mode::Read));
    let moves = lower(&mut leases, A, 7, Mode::Know);
    assert_eq!(granted(&moves), [(B, 1)]);
    assert_eq!(recalled(&moves), [(B, 7, Mode::Read)]);
    assert_eq!(granted(&lower(&mut leases, B, 7, Mode::Read)), [(C, 1)]);
}

#[test]
fn a_client_that_is_gone_is_in_nobodys_way() {
    let mut leases = Leases::default();
    ask(&mut leases, A, 1, &[(7, Mode::Write), (8, Mode::Read)]);
    ask(&mut leases, B, 1, &[(7, Mode::Read)]);
    assert_eq!(leases.owing().collect::<Vec<_>>(), [A]);
    let mut moves = Vec::new();
    leases.expire(A, &mut moves);
    assert_eq!(granted(&moves), [(B, 1)]);
    assert_eq!(leases.owing().count(), 0);
    assert!(!leases.is_known(object(8)));
}

/// Clients that ask, wait and give back at random. What each holds goes with what the others hold, an offer takes
/// nothing, and once all give back what is recalled, every ask is granted.
#[test]
fn all_that_is_asked_for_is_granted_and_never_to_two() {
    const MODES: [Mode; 2] = [Mode::Read, Mode::Write];
    for seed in 0..2_000 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut leases = Leases::default();
        let mut held: BTreeMap<(u64, ClientId), Mode> = BTreeMap::new();
        let mut owed: Vec<(ClientId, u64, Mode)> = Vec::new();
        let (mut asked, mut got) = (0, 0);
        for _ in 0..random.usize(1..60) {
            let mut moves = Vec::new();
            let client = ClientId(random.u32(0..4));
            let number = random.u64(0..3);
            match random.u8(0..3) {
                0 => {
                    asked += 1;
                    let mut wants = vec![(number, random.choice(MODES).expect("a mode"))];
                    if random.bool() {
                        wants.push(((number + 1) % 3, random.choice(MODES).expect("a mode")));
                    }
                    moves = ask(&mut leases, client, asked, &wants);
                }
                1 => {
                    let mode = random.choice(MODES).expect("a mode");
                    if leases.offer(client, object(number), mode) {
                        let slot = held.entry((number, client)).or_insert(Mode::Know);
                        *slot = mode.max(*slot);
                    }
                }
                _ if !owed.is_empty() => {
                    let (client, number, to) = owed.swap_remove(random.usize(..owed.len()));
                    if let Some(mode) = held.get_mut(&(number, client)) {
                        *mode = to.min(*mode);
                    }
                    moves = lower(&mut leases, client, number, to);
                }
                _ => {}
            }
            note(moves, &mut held, &mut owed, &mut got);
            check(&leases, &held, seed);
        }
        while let Some((client, number, to)) = owed.pop() {
            if let Some(mode) = held.get_mut(&(number, client)) {
                *mode = to.min(*mode);
            }
            let moves = lower(&mut leases, client, number, to);
            note(moves, &mut held, &mut owed, &mut got);
            check(&leases, &held, seed);
        }
        assert_eq!(got, asked, "seed {seed}");
    }
}

fn note(
    moves: Vec<Move>,
    held: &mut BTreeMap<(u64, ClientId), Mode>,
    owed: &mut Vec<(ClientId, u64, Mode)>,
    got: &mut u64,
) {
    for one in moves {
        match one {
            Move::Grant(ask) => {
                *got += 1;
                for (object, mode) in ask.wants {
                    let slot = held
                        .entry((object.number(), ask.client))
                        .or_insert(Mode::Know);
                    *slot = mode.max(*slot);
                }
            }
            Move::Recall {
                client, object, to, ..
            } => {
                owed.retain(|(one, number, _)| (*one, *number) != (client, object.number()));
                owed.push((client, object.number(), to));
            }
            Move::Revoked(object) => panic!("{object} was not revoked"),
        }
    }
}

fn check(leases: &Leases, held: &BTreeMap<(u64, ClientId), Mode>, seed: u64) {
    for (&(number, client), &mode) in held {
        assert_eq!(
            leases.mode(client, object(number)),
            Some(mode),
            "seed {seed}"
        );
        for (&(other_number, other), &other_mode) in held {
            if number == other_number && client != other {
                assert!(mode.goes_with(other_mode), "seed {seed}: object {number}");
            }
        }
    }
}

#[test]
fn what_is_revoked_is_given_to_nobody_until_it_is_renewed() {
    let mut leases = Leases::default();
    ask(&mut leases, A, 1, &[(7, Mode::Read)]);
    ask(&mut leases, B, 1, &[(7, Mode::Read)]);
    let mut moves = Vec::new();
    leases.revoke(object(7), &mut moves);
    assert_eq!(recalled(&moves), [(A, 7, Mode::Know), (B, 7, Mode::Know)]);
    assert!(!moves.contains(&Move::Revoked(object(7))));
    assert_eq!(granted(&ask(&mut leases, C, 1, &[(7, Mode::Read)])), []);
    assert!(!leases.offer(C, object(7), Mode::Read));
    assert_eq!(lower(&mut leases, A, 7, Mode::Know), []);
    assert_eq!(
        lower(&mut leases, B, 7, Mode::Know),
        [Move::Revoked(object(7))]
    );
    assert_eq!(granted(&ask(&mut leases, A, 2, &[(7, Mode::Write)])), []);
    let mut moves = Vec::new();
    leases.renewed(object(7), &mut moves);
    assert_eq!(granted(&moves), [(C, 1)]);
    assert_eq!(granted(&lower(&mut leases, C, 7, Mode::Know)), [(A, 2)]);
}

#[test]
fn a_client_that_is_given_up_holds_no_renewal_up() {
    let mut leases = Leases::default();
    ask(&mut leases, A, 1, &[(7, Mode::Write)]);
    let mut moves = Vec::new();
    leases.revoke(object(7), &mut moves);
    assert_eq!(recalled(&moves), [(A, 7, Mode::Know)]);
    assert_eq!(leases.owing().collect::<Vec<_>>(), [A]);
    moves.clear();
    leases.expire(A, &mut moves);
    assert_eq!(moves, [Move::Revoked(object(7))]);
}
