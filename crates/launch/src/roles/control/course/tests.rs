//! Courses of domains that are not there.

mod any_order;
mod commits;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use surmise_network::Verdict;

use super::*;
use crate::consent::Wait;
use crate::message::RelayOrder;

/// What they are told who watch a domain that has stalled.
fn stalled() -> Effect<&'static str> {
    let peers = vec!["example.org:80".into()];
    Effect::TellWatchers(Notice::Stalled { peers })
}

/// A course, the time, and visitors that are names.
struct Scene {
    course: Course,
    now: Instant,
}

impl Scene {
    fn new(terminal: Option<bool>, may_trace: bool) -> Self {
        Self {
            course: Course::new(("t", true), terminal, may_trace).expect("a course"),
            now: Instant::now(),
        }
    }

    fn hear(&mut self, event: Event<&'static str>) -> Effects<&'static str> {
        let mut effects = Effects::new();
        let heard = self.course.hear(event, self.now, &mut effects);
        heard.expect("nothing is wrong");
        effects
    }

    fn pass(&mut self, time: Duration) -> Effects<&'static str> {
        self.now += time;
        let mut effects = Effects::new();
        let passed = self.course.pass(self.now, &mut effects);
        passed.expect("nothing is wrong");
        effects
    }

    fn terminal(&mut self, event: TerminalEvent) -> Effects<&'static str> {
        self.hear(Event::Terminal(event))
    }

    fn boundary(&mut self, event: BoundaryEvent) -> Effects<&'static str> {
        self.hear(Event::Boundary(event))
    }

    fn commit(&mut self, event: CommitEvent) -> Effects<&'static str> {
        self.hear(Event::Commit(event))
    }

    fn visit(&mut self, visitor: &'static str, wish: Wish) -> Effects<&'static str> {
        self.hear(Event::Visit { visitor, wish })
    }

    /// A task waits for a reply to a hold, and so do all.
    fn stall(&mut self, is_person_there: bool) -> Effects<&'static str> {
        self.boundary(BoundaryEvent::Waiting {
            hold: 1,
            peer: "example.org:80".into(),
            sender: None,
            bytes: 3,
            inode: 7,
        });
        let effects = self.pass(Duration::from_millis(200));
        assert_eq!(effects, [Effect::Sample([7].into())]);
        self.boundary(BoundaryEvent::Tasks {
            waits: BTreeMap::from([(2, Wait::Inside), (3, Wait::HeldReply)]),
            is_person_there,
        })
    }
}

fn asked(question: u64, is_person_there: bool) -> BoundaryEvent {
    BoundaryEvent::Asked {
        question,
        peer: format!("host{question}:80"),
        sender: None,
        is_person_there,
    }
}

fn reach(question: u64) -> Question {
    Question::Reach {
        peer: format!("host{question}:80"),
        sender: None,
    }
}

const COMMIT: Wish = Wish::Commit { is_strict: false };

#[test]
fn a_signal_is_passed_on_and_one_that_asks_for_the_end_wakes_those_who_are_stopped() {
    let mut scene = Scene::new(None, false);
    let order = |signal: Signal| Effect::Init(Order::Signal(signal.as_raw()));
    let effects = scene.hear(Event::Signal(Signal::INT));
    assert_eq!(effects, [order(Signal::INT)]);
    let effects = scene.hear(Event::Signal(Signal::TERM));
    assert_eq!(effects, [Effect::Wake, order(Signal::TERM)]);
}

#[test]
fn where_a_role_died_pid_1_has_a_second_to_notice_and_the_supervisor_another_to_let_go() {
    for may_trace in [false, true] {
        let mut scene = Scene::new(None, may_trace);
        let effects = scene.hear(Event::Died(Role::Supervisor));
        assert_eq!(effects, [Effect::SupervisorGone]);
        scene.hear(Event::Died(Role::Relay));
        assert_eq!(scene.pass(Duration::from_millis(999)), []);
        let effects = scene.pass(Duration::from_millis(1));
        assert_eq!(effects, [Effect::KillInit, Effect::Wake]);
        let effects = scene.pass(Duration::from_secs(1));
        let expected: &[_] = if may_trace { &[Effect::Free] } else { &[] };
        assert_eq!(effects, expected);
        assert_eq!(scene.course.due(), None);
    }
}

#[test]
fn questions_are_asked_one_after_the_other_and_the_terminal_goes_on_after_the_last() {
    let mut scene = Scene::new(Some(true), false);
    let pause = Effect::Relay(RelayOrder::PauseTerminal);
    assert_eq!(scene.boundary(asked(1, true)), [pause]);
    assert_eq!(scene.boundary(asked(2, true)), []);
    assert_eq!(
        scene.terminal(TerminalEvent::Paused),
        [Effect::Ask(reach(1))]
    );
    let answer = |question, verdict| Effect::Relay(RelayOrder::Answer { question, verdict });
    let effects = scene.hear(Event::Answered(Answer::Allow));
    let expected = [answer(1, Verdict::Allow), Effect::Ask(reach(2))];
    assert_eq!(effects, expected);
    // The command stops meanwhile: the terminal is the caller's already.
    let stop = TerminalEvent::CommandStopped(Signal::TSTP);
    assert_eq!(scene.terminal(stop), [Effect::Stop(Signal::TSTP)]);
    let went_on = TerminalEvent::WentOn {
        signal: Signal::TSTP,
        truly: true,
    };
    assert_eq!(scene.terminal(went_on), [], "the person still thinks");
    let effects = scene.hear(Event::Answered(Answer::Refuse));
    let resume = Effect::Relay(RelayOrder::ResumeTerminal { engage: false });
    assert_eq!(effects, [answer(2, Verdict::Deny), resume]);
}

#[test]
fn where_nobody_is_there_a_host_is_refused_and_a_stalled_domain_leaves_its_caller() {
    let mut scene = Scene::new(None, false);
    let refused = RelayOrder::Answer {
        question: 1,
        verdict: Verdict::Deny,
    };
    assert_eq!(scene.boundary(asked(1, false)), [Effect::Relay(refused)]);
    let detach = Effect::Relay(RelayOrder::Detach);
    assert_eq!(scene.stall(false), [stalled(), detach]);
    let refused = scene.visit("early", COMMIT);
    assert!(matches!(refused[..], [Effect::Refuse("early", _)]));
    let effects = scene.boundary(BoundaryEvent::Detached);
    assert_eq!(effects, [Effect::View(ViewOrder::LetGo)]);
    let effects = scene.hear(Event::Done(Ok(())));
    assert_eq!(effects, [Effect::Init(Order::Adopt)]);
    assert!(!scene.course.is_detached());
    assert_eq!(scene.hear(Event::Done(Ok(()))), []);
    assert!(scene.course.is_detached());
    let begun = scene.visit("late", COMMIT);
    assert_eq!(begun, [Effect::SettleGuesses, Effect::Freeze("late")]);
    let not_kept = BoundaryEvent::NotKept {
        peer: "example.org:80".into(),
        error: "no space".into(),
    };
    let told = scene.boundary(not_kept);
    assert!(
        matches!(told[..], [Effect::TellWatchers(_)]),
        "nobody else is there: {told:?}"
    );
}

#[test]
fn a_role_that_cannot_let_go_of_the_caller_is_told() {
    let mut scene = Scene::new(None, false);
    scene.stall(false);
    scene.boundary(BoundaryEvent::Detached);
    let mut effects = Effects::<&str>::new();
    let done = Event::Done(Err("let go: no".into()));
    let error = scene.course.hear(done, scene.now, &mut effects);
    let error = error.expect_err("it cannot go on alone");
    assert_eq!(error.to_string(), "let go: no");
    assert!(!scene.course.is_detached());
}

#[test]
fn a_person_decides_what_all_wait_for_and_is_asked_again_when_all_wait_again() {
    for (answer, verdict) in [
        (Answer::Allow, Some(Verdict::Allow)),
        (Answer::Refuse, Some(Verdict::Deny)),
        (Answer::Hold, None),
    ] {
        let mut scene = Scene::new(Some(true), false);
        let pause = Effect::Relay(RelayOrder::PauseTerminal);
        assert_eq!(scene.stall(true), [stalled(), pause]);
        let peers = vec!["example.org:80".into()];
        let question = Effect::Ask(Question::Stalled { peers });
        assert_eq!(scene.terminal(TerminalEvent::Paused), [question]);
        let effects = scene.hear(Event::Answered(answer));
        let resume = Effect::Relay(RelayOrder::ResumeTerminal { engage: false });
        let notice = Notice::WaitsForCommit { name: "t".into() };
        let (watchers, note) = (Effect::TellWatchers(notice.clone()), Effect::Note(notice));
        let expected = match verdict {
            None => vec![watchers, note, resume],
            Some(verdict) => {
                let decide = RelayOrder::Decide { hold: 1, verdict };
                vec![Effect::Relay(decide), Effect::ForgetSample, resume]
            }
        };
        assert_eq!(effects, expected);
        scene.pass(Duration::from_millis(200));
        let again = scene.boundary(BoundaryEvent::Tasks {
            waits: BTreeMap::from([(3, Wait::HeldReply)]),
            is_person_there: true,
        });
        assert_eq!(again.is_empty(), answer == Answer::Hold, "{again:?}");
    }
}

#[test]
fn an_abort_ends_the_domain_at_once_and_waits_for_its_end() {
    let mut scene = Scene::new(None, false);
    let end = [Effect::AwaitEnd("a"), Effect::KillInit, Effect::Wake];
    assert_eq!(scene.visit("a", Wish::Abort), end);
    assert!(scene.course.is_aborted());
}

#[test]
fn those_who_watch_and_the_person_hear_of_the_start() {
    for is_kept in [true, false] {
        let mut scene = Scene::new(None, false);
        scene.course = Course::new(("t", is_kept), None, false).expect("a course");
        let effects = scene.visit("watcher", Wish::Watch);
        assert_eq!(effects, [Effect::Watch("watcher")]);
        let name = is_kept.then(|| "t".into());
        let started = Notice::Started { name };
        let expected = [Effect::TellWatchers(started.clone()), Effect::Note(started)];
        assert_eq!(scene.hear(Event::Started), expected);
    }
}

#[test]
fn another_command_decides_what_nobody_is_being_asked() {
    let mut scene = Scene::new(Some(true), false);
    let allow = Wish::Decide(Answer::Allow);
    let refused = scene.visit("early", allow);
    assert!(matches!(refused[..], [Effect::Refuse("early", _)]));
    scene.stall(true);
    let refused = scene.visit("asked", allow);
    assert!(matches!(refused[..], [Effect::Refuse("asked", _)]));
    scene.terminal(TerminalEvent::Paused);
    scene.hear(Event::Answered(Answer::Hold));
    let decide = RelayOrder::Decide {
        hold: 1,
        verdict: Verdict::Allow,
    };
    let expected = [
        Effect::Relay(decide),
        Effect::ForgetSample,
        Effect::Grant("late"),
    ];
    assert_eq!(scene.visit("late", allow), expected);
}
