//! Commits of running domains, step by step.

use rustix::process::Pid;
use surmise_kept::doorway::{Done, ReadChanged, Reply};

use super::super::super::stopped::StoppedRole;
use super::*;
use crate::message::Delivery;
use crate::roles::committer::Outcome;

type Told = Effects<&'static str>;

fn of_commit(effect: CommitEffect) -> Effect<&'static str> {
    Effect::Commit(effect)
}

fn applied() -> Outcome {
    Outcome::Applied {
        changes: 3,
        left: Vec::new(),
        read_changed: ReadChanged::default(),
    }
}

fn delivery() -> Delivery {
    Delivery {
        sent: vec![("example.org:80".into(), 5)],
        unsent: Vec::new(),
    }
}

fn done() -> Done {
    Done {
        changes: 3,
        ..Done::default()
    }
}

/// What is heard from the moment that the tasks stand still, and what is done then.
fn steps() -> Vec<(CommitEvent, Told)> {
    let done_with = Done {
        sent: delivery().sent,
        ..done()
    };
    vec![
        (
            CommitEvent::Frozen(true),
            vec![Effect::Relay(RelayOrder::Quiesce)],
        ),
        (CommitEvent::Finished, vec![Effect::Init(Order::Flush)]),
        (
            CommitEvent::Finished,
            vec![Effect::View(ViewOrder::Prepare)],
        ),
        (
            CommitEvent::Finished,
            vec![of_commit(CommitEffect::StartCommitter { is_strict: false })],
        ),
        (CommitEvent::Started(Ok(())), vec![]),
        (
            CommitEvent::Committer(Some(applied())),
            vec![Effect::View(ViewOrder::Rebase)],
        ),
        (
            CommitEvent::Finished,
            vec![of_commit(CommitEffect::ForgetJournal)],
        ),
        (
            CommitEvent::Committer(Some(Outcome::Forgotten)),
            vec![
                of_commit(CommitEffect::Reap),
                Effect::Relay(RelayOrder::Release {
                    holds: Vec::new(),
                    is_last: true,
                }),
            ],
        ),
        (CommitEvent::Releasing, vec![Effect::View(ViewOrder::GoOn)]),
        (
            CommitEvent::Finished,
            vec![
                of_commit(CommitEffect::Thaw),
                of_commit(CommitEffect::Tell(Reply::Applied(done()))),
                Effect::TellWatchers(Notice::Committed { changes: 3 }),
                Effect::Note(Notice::Committed { changes: 3 }),
            ],
        ),
        (
            CommitEvent::Released(delivery()),
            vec![
                of_commit(CommitEffect::Tell(Reply::Done(done_with))),
                of_commit(CommitEffect::Over),
            ],
        ),
    ]
}

/// The step at which the committer starts.
const START: usize = 4;

/// A scene in which so many steps have been taken.
fn after(count: usize) -> Scene {
    let mut scene = Scene::new(None, false);
    let begun = scene.visit("client", COMMIT);
    assert_eq!(begun, [Effect::SettleGuesses, Effect::Freeze("client")]);
    for (event, expected) in steps().into_iter().take(count) {
        assert_eq!(scene.commit(event), expected);
    }
    scene
}

/// Takes the steps by which the tasks go on; the last effects.
fn given_up(scene: &mut Scene, mut effects: Told) -> Told {
    if effects.last() == Some(&Effect::View(ViewOrder::GoOn)) {
        effects = scene.commit(CommitEvent::Finished);
    }
    effects
}

fn is_refused(effects: &Told) -> bool {
    let (thaw, over) = (of_commit(CommitEffect::Thaw), of_commit(CommitEffect::Over));
    matches!(
        &effects[..],
        [first, Effect::Commit(CommitEffect::Tell(Reply::Failed(_))), last]
            if *first == thaw && *last == over
    )
}

fn has_ended(effects: &Told) -> bool {
    let end = [
        Effect::KillInit,
        Effect::Wake,
        Effect::View(ViewOrder::End),
        of_commit(CommitEffect::Over),
    ];
    effects.ends_with(&end)
}

#[test]
fn a_commit_goes_through_its_steps_and_another_may_follow() {
    let mut scene = after(steps().len());
    let begun = scene.visit("next", COMMIT);
    assert_eq!(begun, [Effect::SettleGuesses, Effect::Freeze("next")]);
}

#[test]
fn what_goes_out_is_what_waits_in_its_order_told_part_by_part() {
    let mut scene = after(7);
    // The first and the last wait again, and one has gone.
    for hold in (0..4_500).chain([0, 4_499]) {
        scene.boundary(BoundaryEvent::Held { hold });
    }
    scene.boundary(BoundaryEvent::Gone { hold: 7 });
    let mut effects = scene.commit(CommitEvent::Committer(Some(Outcome::Forgotten)));
    assert_eq!(effects.remove(0), of_commit(CommitEffect::Reap));
    let mut released = Vec::new();
    let mut parts = 0;
    while let [Effect::Relay(RelayOrder::Release { holds, is_last })] = &effects[..] {
        assert!(!holds.is_empty());
        released.extend_from_slice(holds);
        parts += 1;
        effects = match is_last {
            false => scene.commit(CommitEvent::Noted),
            true => break,
        };
    }
    let expected = (1..4_499).filter(|hold| *hold != 7).chain([0, 4_499]);
    assert_eq!(released, expected.collect::<Vec<_>>());
    assert_eq!(parts, 3);
    let effects = scene.commit(CommitEvent::Releasing);
    assert_eq!(effects, [Effect::View(ViewOrder::GoOn)]);
}

#[test]
fn one_at_a_time() {
    for count in 0..steps().len() {
        let refused = after(count).visit("second", COMMIT);
        assert!(
            matches!(refused[..], [Effect::Refuse("second", _)]),
            "{count}"
        );
    }
}

#[test]
fn what_fails_before_the_committer_works_changes_nothing_and_the_tasks_go_on() {
    for count in 1..START {
        let mut scene = after(count);
        let effects = scene.commit(CommitEvent::Failed("no space".into()));
        let effects = given_up(&mut scene, effects);
        assert!(is_refused(&effects), "{count}: {effects:?}");
    }
    for unstarted in [Unstarted::TooEarly, Unstarted::Failed("no process".into())] {
        let mut scene = after(START);
        let effects = scene.commit(CommitEvent::Started(Err(unstarted)));
        let effects = given_up(&mut scene, effects);
        assert!(is_refused(&effects), "{effects:?}");
    }
    let mut scene = after(START + 1);
    let refusal = Refusal::new("a conflict", "look");
    let effects = scene.commit(CommitEvent::Committer(Some(Outcome::Refused(refusal))));
    assert_eq!(effects[0], of_commit(CommitEffect::Reap));
    let effects = given_up(&mut scene, effects);
    assert!(is_refused(&effects), "{effects:?}");
}

#[test]
fn tasks_that_cannot_stand_still_make_no_commit() {
    let mut scene = after(0);
    let effects = scene.commit(CommitEvent::Frozen(false));
    assert_eq!(effects, [of_commit(CommitEffect::Over)]);
    let begun = scene.visit("next", COMMIT);
    assert_eq!(begun, [Effect::SettleGuesses, Effect::Freeze("next")]);
}

#[test]
fn a_domain_that_does_not_come_to_rest_in_a_minute_goes_on_without_a_commit() {
    let minute = Duration::from_secs(60);
    for count in 1..START {
        let mut scene = after(count);
        let early = scene.pass(minute - Duration::from_millis(1));
        let look = of_commit(CommitEffect::FindStopped(Suspects::Roles));
        assert_eq!(early, [look]);
        let effects = scene.pass(Duration::from_millis(1));
        let effects = given_up(&mut scene, effects);
        assert!(is_refused(&effects), "{count}: {effects:?}");
    }
    // The committer may take its time.
    let effects = after(START + 1).pass(minute);
    let look = of_commit(CommitEffect::FindStopped(Suspects::Committer));
    assert_eq!(effects, [look]);
}

#[test]
fn a_committer_that_dies_ends_the_domain_while_all_stands_still() {
    for count in [START + 1, START + 3] {
        let effects = after(count).commit(CommitEvent::Committer(None));
        assert!(has_ended(&effects), "{count}: {effects:?}");
        let told = matches!(
            effects[0],
            Effect::Commit(CommitEffect::Tell(Reply::Failed(_)))
        );
        assert!(told, "{count}: {effects:?}");
    }
}

#[test]
fn a_view_that_cannot_follow_the_real_tree_ends_the_domain() {
    for count in [6, 9] {
        let effects = after(count).commit(CommitEvent::Failed("no".into()));
        assert!(has_ended(&effects), "{count}: {effects:?}");
    }
}

#[test]
fn an_abort_in_the_midst_lets_no_view_wait() {
    for count in 0..steps().len() {
        let effects = after(count).visit("abort", Wish::Abort);
        let expected = [
            Effect::AwaitEnd("abort"),
            Effect::KillInit,
            Effect::Wake,
            Effect::View(ViewOrder::End),
        ];
        assert_eq!(effects, expected, "{count}");
    }
}

#[test]
fn output_that_is_out_before_the_tasks_go_on_is_told_with_the_rest() {
    let mut scene = after(9);
    assert_eq!(scene.commit(CommitEvent::Released(delivery())), []);
    let effects = scene.commit(CommitEvent::Finished);
    let replies = effects.iter().filter_map(|effect| match effect {
        Effect::Commit(CommitEffect::Tell(reply)) => Some(reply),
        _ => None,
    });
    let replies: Vec<_> = replies.collect();
    assert!(matches!(replies[..], [Reply::Applied(_), Reply::Done(_)]));
    assert_eq!(effects.last(), Some(&of_commit(CommitEffect::Over)));
}

#[test]
fn a_role_that_is_stopped_is_told_once_and_the_commit_is_given_up_or_finished() {
    let role = StoppedRole {
        name: "the view process",
        pid: Pid::from_raw(7).expect("a number"),
    };
    for count in 1..steps().len() {
        if count == START {
            // Nothing is waited for.
            continue;
        }
        let mut scene = after(count);
        let told = scene.commit(CommitEvent::RoleStopped(role));
        let is_told = matches!(told[..], [Effect::Commit(CommitEffect::Tell(_))]);
        assert!(is_told, "{count}: {told:?}");
        assert_eq!(scene.commit(CommitEvent::RoleStopped(role)), []);
        // It goes on.
        let mut all = Vec::new();
        for (event, _) in steps().into_iter().skip(count) {
            all.extend(scene.commit(event));
        }
        let tells = |effect: &Effect<_>| matches!(effect, Effect::Commit(CommitEffect::Tell(_)));
        assert!(!all.iter().any(tells), "{count}: {all:?}");
        let is_applied = all.contains(&Effect::Note(Notice::Committed { changes: 3 }));
        let was_committing = count > START;
        assert_eq!(is_applied, was_committing && count < 10, "{count}: {all:?}");
        let is_over = all.contains(&of_commit(CommitEffect::Over));
        assert!(is_over || count < START, "{count}: {all:?}");
    }
}
