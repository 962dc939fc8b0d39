//! Events in any order: what must hold of the effects whatever comes.

use proptest::prelude::*;
use rustix::process::Pid;
use surmise_kept::doorway::{ReadChanged, Reply};

use super::super::super::stopped::StoppedRole;
use super::*;
use crate::message::Delivery;
use crate::roles::committer::Outcome;

/// What carries effects out, as far as it can be asked too much.
#[derive(Debug, Default)]
struct World {
    /// Of the commit that is under way.
    standstill: Option<Standstill>,
    is_asking: bool,
    is_freed: bool,
    is_dying: bool,
}

#[derive(Debug, Default)]
struct Standstill {
    is_thawed: bool,
    is_released: bool,
    has_committer: bool,
    applied: usize,
    last_words: usize,
}

impl World {
    /// What comes of an effect at once is heard before the next one is carried out.
    fn carry_out_all(&mut self, scene: &mut Scene, effects: Effects<&'static str>, chance: bool) {
        for effect in effects {
            if let Some(event) = self.carry_out(effect, chance) {
                let effects = scene.hear(event);
                self.carry_out_all(scene, effects, chance);
            }
        }
    }

    /// Carries it out; what comes of it at once, where chance decides.
    fn carry_out(
        &mut self,
        effect: Effect<&'static str>,
        chance: bool,
    ) -> Option<Event<&'static str>> {
        match effect {
            Effect::KillInit => self.is_dying = true,
            Effect::Free => assert!(!std::mem::replace(&mut self.is_freed, true), "freed twice"),
            Effect::Ask(_) => {
                assert!(!self.is_asking, "two questions at once");
                self.is_asking = chance;
                return (!chance).then_some(Event::Answered(Answer::Refuse));
            }
            Effect::Relay(RelayOrder::ResumeTerminal { .. }) => {
                assert!(!self.is_asking, "the terminal is the person's");
            }
            Effect::Stop(signal) => {
                let truly = chance;
                return Some(Event::Terminal(TerminalEvent::WentOn { signal, truly }));
            }
            Effect::Freeze(_) => {
                assert!(self.standstill.is_none(), "two commits at once");
                self.standstill = chance.then(Standstill::default);
                return Some(Event::Commit(CommitEvent::Frozen(chance)));
            }
            Effect::Relay(RelayOrder::Release { is_last, .. }) => {
                let standstill = self.standstill.as_mut().expect("tasks that stand still");
                assert!(is_last && !standstill.is_thawed, "what is not consented to");
                assert!(
                    !std::mem::replace(&mut standstill.is_released, true),
                    "twice"
                );
            }
            Effect::Commit(CommitEffect::Over) => self.standstill = None,
            Effect::Commit(effect) => {
                let standstill = self.standstill.as_mut().expect("tasks that stand still");
                return standstill.carry_out(effect, chance);
            }
            _ => {}
        }
        None
    }
}

impl Standstill {
    fn carry_out(&mut self, effect: CommitEffect, chance: bool) -> Option<Event<&'static str>> {
        match effect {
            CommitEffect::StartCommitter { .. } => {
                assert!(!self.is_thawed && !self.has_committer);
                self.has_committer = chance;
                let started = match chance {
                    true => Ok(()),
                    false => Err(Unstarted::TooEarly),
                };
                return Some(Event::Commit(CommitEvent::Started(started)));
            }
            CommitEffect::ForgetJournal => assert!(self.has_committer && !self.is_thawed),
            CommitEffect::Reap => self.has_committer = false,
            CommitEffect::Thaw => {
                assert!(!self.has_committer, "tasks that go on under a commit");
                assert!(
                    !std::mem::replace(&mut self.is_thawed, true),
                    "thawed twice"
                );
            }
            CommitEffect::Tell(Reply::Applied(_)) => {
                self.applied += 1;
                assert!(self.applied == 1 && self.last_words == 0 && self.is_thawed);
            }
            CommitEffect::Tell(Reply::Done(_)) => {
                self.last_words += 1;
                assert!(self.applied == 1 && self.last_words == 1);
            }
            CommitEffect::Tell(Reply::Failed(_)) => {
                self.last_words += 1;
                assert!(self.applied == 0 && self.last_words == 1);
            }
            CommitEffect::Tell(Reply::Progress { .. } | Reply::Noticed(_))
            | CommitEffect::FindStopped(_)
            | CommitEffect::Over => {}
        }
        None
    }
}

/// The event of this number, if the world is such that it may come.
fn event(number: u8, world: &mut World) -> Option<Event<&'static str>> {
    let has_committer = world
        .standstill
        .as_ref()
        .is_some_and(|standstill| standstill.has_committer);
    let (terminal, boundary) = (Event::Terminal, Event::Boundary);
    Some(match number {
        0 => Event::Signal(Signal::TERM),
        1 => Event::Died(Role::View),
        44 => Event::Died(Role::Supervisor),
        // Mostly a commit gets on.
        2..=7 => Event::Done(Ok(())),
        8 => Event::Done(Err("no".into())),
        9 => {
            let was_asking = std::mem::take(&mut world.is_asking);
            return was_asking.then_some(Event::Answered(Answer::Allow));
        }
        10..=12 => Event::Visit {
            visitor: "commit",
            wish: COMMIT,
        },
        13 => Event::Visit {
            visitor: "abort",
            wish: Wish::Abort,
        },
        14 => terminal(TerminalEvent::CommandStopped(Signal::TSTP)),
        15 => terminal(TerminalEvent::CommandStopped(Signal::TTIN)),
        16 => terminal(TerminalEvent::Continued),
        17 | 18 => terminal(TerminalEvent::Paused),
        19 => terminal(TerminalEvent::Resumed { engaged: true }),
        20 => terminal(TerminalEvent::Engaged),
        21 => boundary(asked(number.into(), true)),
        22 => boundary(BoundaryEvent::Held { hold: 1 }),
        23 => boundary(BoundaryEvent::Waiting {
            hold: 1,
            peer: "example.org:80".into(),
            sender: None,
            bytes: 3,
            inode: 7,
        }),
        24 => boundary(BoundaryEvent::Settled { hold: 1 }),
        25 => boundary(BoundaryEvent::Tasks {
            waits: BTreeMap::from([(3, Wait::HeldReply)]),
            is_person_there: true,
        }),
        26..=33 => return has_committer.then(|| committer(number)),
        34..=36 => Event::Commit(CommitEvent::Releasing),
        37..=39 => Event::Commit(CommitEvent::Released(Delivery::default())),
        42 => boundary(BoundaryEvent::Gone { hold: 1 }),
        43 => Event::Commit(CommitEvent::Noted),
        40 => Event::Visit {
            visitor: "decide",
            wish: Wish::Decide(Answer::Allow),
        },
        _ => {
            let pid = Pid::from_raw(7).expect("a number");
            let name = "pid 1";
            Event::Commit(CommitEvent::RoleStopped(StoppedRole { name, pid }))
        }
    })
}

/// What the committer says.
fn committer(number: u8) -> Event<&'static str> {
    let outcome = match number {
        26..=28 => Some(Outcome::Applied {
            changes: 1,
            left: Vec::new(),
            read_changed: ReadChanged::default(),
        }),
        29 => Some(Outcome::Refused(Refusal::new("no", "no"))),
        30..=32 => Some(Outcome::Forgotten),
        _ => None,
    };
    Event::Commit(CommitEvent::Committer(outcome))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn effects_are_never_at_odds(
        schedule in prop::collection::vec((0..45_u8, 0..3_000_u64, any::<bool>()), 1..120),
    ) {
        let mut scene = Scene::new(Some(true), true);
        let mut world = World::default();
        for (number, milliseconds, chance) in schedule {
            let passed = scene.pass(Duration::from_millis(milliseconds / 10));
            world.carry_out_all(&mut scene, passed, chance);
            if let Some(event) = event(number, &mut world) {
                let effects = scene.hear(event);
                world.carry_out_all(&mut scene, effects, chance);
            }
            prop_assert!(scene.course.due().is_none_or(|at| at > scene.now));
            prop_assert!(!scene.course.is_aborted() || world.is_dying);
        }
    }
}
