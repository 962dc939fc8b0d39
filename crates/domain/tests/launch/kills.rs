//! S11: a domain with a network gate and held output, under load, with and without a terminal, one of
//! whose processes is killed at any moment of its life.

use std::cell::RefCell;
use std::thread;
use std::time::Duration;

use surmise_domain::Status;
use surmise_testkit::Act::Do;

use crate::Test;
use crate::setting::Setting;
use crate::strike::{Census, Dice, Victim, rounds, strike};

pub const TESTS: &[Test] = &[
    ("control_killed_at_random", |setting| {
        at_random(setting, Victim::Control);
    }),
    ("the_view_killed_at_random", |setting| {
        at_random(setting, Victim::View);
    }),
    ("the_relay_process_killed_at_random", |setting| {
        at_random(setting, Victim::Relay);
    }),
    ("pid_1_killed_at_random", |setting| {
        at_random(setting, Victim::Init);
    }),
];

/// From when the victim is there.
const LATEST: Duration = Duration::from_millis(400);

/// Something for the outbox, and somebody who waits for a reply to it.
const HELD: &str = "exec 5<>/dev/tcp/192.0.2.1/80; echo held >&5; cat <&5 > replies & echo x > f; ";

/// Keeps the view and the streams busy, with processes that wait for both.
const BUSY: &str = "while :; do echo x > f; ls -R /usr/lib; rm f; done & \
    while :; do cat /usr/bin/* > g; rm g; done & \
    while :; do (exec 6<>/dev/tcp/192.0.2.2/80; head -c 5000 /dev/zero >&6); done & ";

fn at_random(setting: &Setting, victim: Victim) {
    let mut dice = Dice(0x5eed + u64::from(setting.user()));
    let (mut longest, mut kept) = (Duration::ZERO, 0);
    let rounds = rounds(10);
    for round in 0..rounds {
        let load = if round % 2 == 0 { "" } else { BUSY };
        let script = format!("{HELD}{load}sleep 600; true");
        let words = ["--name", "t", "--net-hold", "--", "bash", "-c", &script];
        let pause = dice.up_to(LATEST);
        let (census, end) = match round / 2 % 2 {
            0 => on_streams(setting, &words, victim, pause),
            _ => on_terminal(setting, &words, victim, pause),
        };
        longest = longest.max(end);
        kept += usize::from(is_usable(setting, &census));
    }
    eprintln!(
        "{rounds} kills of {victim:?} as user {}: longest end {longest:?}, {kept} domains kept",
        setting.user()
    );
    assert!(rounds < 10 || kept > 0, "no domain lived long enough");
}

/// Who was there, and how long it took until nobody was.
type End = (Census, Duration);

fn on_streams(setting: &Setting, words: &[&str], victim: Victim, pause: Duration) -> End {
    thread::scope(|scope| {
        let running = scope.spawn(|| setting.run_by(&[], words).seconds(30).outcome());
        let end = killed(setting, victim, pause);
        running.join().expect("an outcome");
        end
    })
}

fn on_terminal(setting: &Setting, words: &[&str], victim: Victim, pause: Duration) -> End {
    let end = RefCell::new(None);
    let act = || *end.borrow_mut() = Some(killed(setting, victim, pause));
    let run = setting.run_by(&[], words).seconds(30);
    run.at_terminal(&[("", Do(&act))]);
    end.into_inner().expect("done above")
}

fn killed(setting: &Setting, victim: Victim, pause: Duration) -> End {
    let census = strike(setting, victim, pause, &mut || true).expect("it lives for minutes");
    let end = census.end(setting);
    (census, end)
}

/// What was done until then is listed, readable, and can be thrown away. Returns whether there was
/// anything.
fn is_usable(setting: &Setting, census: &Census) -> bool {
    let all = setting.root().list().expect("list");
    assert!(!census.runs || all.len() == 1, "a domain is lost");
    let any = !all.is_empty();
    for domain in all {
        let status = domain.status();
        assert!(
            matches!(status, Status::Interrupted | Status::Ended { .. }),
            "{status:?}"
        );
        domain.changes().expect("changes");
        domain.held().expect("held output");
        domain.abort().expect("abort");
    }
    assert!(setting.root().list().expect("list").is_empty());
    any
}
