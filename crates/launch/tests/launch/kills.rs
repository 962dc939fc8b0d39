//! S11: a domain with a network gate and held output, under load, with and without a terminal, one of
//! whose processes is killed at any moment of its life.

use std::cell::RefCell;
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Signal, kill_process};
use surmise_kept::Status;
use surmise_testkit::Act::Do;
use surmise_testkit::watchdog;

use crate::Test;
use crate::commits::commit;
use crate::setting::{Setting, children};
use crate::strike::{Census, Dice, Victim, any_task, rounds, state, strike};

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
    ("the_supervisor_killed_at_random", |setting| {
        at_random(setting, Victim::Supervisor);
    }),
    ("what_is_undecided_at_a_kill_never_was", undecided),
    ("who_waits_for_a_decision_at_a_kill_ends", waiting),
    ("a_task_killed_at_random", |setting| {
        task(setting, |state| state != 't');
    }),
    ("an_image_killed_at_random", |setting| {
        task(setting, |state| state == 't');
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
        let mut words = vec!["--name", "t", "--net-hold", "--", "bash", "-c", &script];
        if victim == Victim::Supervisor {
            words.insert(0, "--speculate");
        }
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

/// Writes a line after each look at a file, and elsewhere if it is told that the file is not there. After three lines
/// it sends itself a signal that is none, which waits until all is decided: so some lines are, however soon the kill comes.
const DECEIVED: &str = r#"
    for (my $step = 1; ; $step++) {
        my $name = -e '/etc/passwd' ? 'right' : 'wrong';
        open my $log, '>>', $name;
        syswrite $log, "$step\n";
        close $log;
        rename 'wrong', "wrong.$step" if $step % 3 == 0;
        kill 0, $$ if $step % 3 == 0;
    }"#;

/// S31: what was done past a guess that nobody has decided is not in what a kill leaves behind.
fn undecided(setting: &Setting) {
    let mut dice = Dice(0xdece + u64::from(setting.user()));
    let work = setting.scratch.work();
    let mut lines = 0;
    for round in 0..rounds(12) {
        let victims = [
            Victim::Supervisor,
            Victim::View,
            Victim::Control,
            Victim::Init,
        ];
        // The start alone may take as long as a few guesses are undecided.
        let pause = 3 * LATEST + dice.up_to(LATEST);
        let seed = round.to_string();
        let words = [
            "--name",
            "t",
            "--torture",
            &seed,
            "--",
            "perl",
            "-e",
            DECEIVED,
        ];
        on_streams(setting, &words, victims[round % victims.len()], pause);
        commit(setting).assert_code(0);
        let mut left: Vec<_> = fs::read_dir(&work)
            .expect("list")
            .map(|entry| entry.expect("list").file_name())
            .collect();
        left.retain(|name| name != "right");
        assert!(left.is_empty(), "{left:?}");
        // Each line once, though the program was rolled back again and again.
        let text = fs::read_to_string(work.join("right")).unwrap_or_default();
        let steps: Vec<usize> = text
            .lines()
            .map(|line| {
                line.parse()
                    .unwrap_or_else(|_| panic!("round {round}: {text:?}"))
            })
            .collect();
        assert_eq!(steps, Vec::from_iter(1..=steps.len()));
        lines += steps.len();
        let _ = fs::remove_file(work.join("right"));
    }
    assert!(lines > 0, "nothing was ever decided");
    eprintln!("{lines} lines of user {} were decided", setting.user());
}

/// A file is cut that others have open: they would see it change.
pub const WAITS_IN_VIEW: &str =
    "test -e /usr; echo one >f; exec 3<f; sleep 600 & echo two >f; true";
/// How often a process is seen to wait there until it waits for a decision: any request takes a moment.
pub const LOOKS_IN_VIEW: usize = 100;

/// A thread that waits in the view is deaf even to `SIGKILL`, and nobody decides any more.
fn waiting(setting: &Setting) {
    let words = [
        "--name",
        "t",
        "--predict-late",
        "--",
        "sh",
        "-c",
        WAITS_IN_VIEW,
    ];
    thread::scope(|scope| {
        let running = scope.spawn(|| setting.run_by(&[], &words).seconds(30).outcome());
        let deadline = Instant::now() + watchdog::LIMIT;
        let mut looks = 0;
        while looks < LOOKS_IN_VIEW {
            let init = Victim::Init.find(setting);
            let mut commands = init.map_or(Vec::new(), children).into_iter();
            looks = match commands.any(waits_in_view) {
                true => looks + 1,
                false => 0,
            };
            assert!(Instant::now() < deadline, "nobody waits");
            thread::sleep(Duration::from_millis(1));
        }
        let (census, _) = killed(setting, Victim::Supervisor, Duration::ZERO);
        running.join().expect("an outcome");
        is_usable(setting, &census);
    });
}

/// Processes that depend on each other by files, pipes, births and ends, for a second or more.
const TANGLED: &str = "
    for n in 1 2 3; do
        echo one $n >f; cat f | tr a-z A-Z >g; x=$(cat g); echo $x >>all
        (sleep 0.01; echo two >>f) & cp f h; mv h k; ls >list; wait
    done; echo end";

/// S31: the domain goes on without a task that somebody has killed, whatever was undecided and whatever is taken back. A killed
/// image is the end of its task, if the task would have to go back to it. `is_victim`: by a task's state (proc_pid_stat(5)).
fn task(setting: &Setting, is_victim: fn(char) -> bool) {
    let mut dice = Dice(0x7a5c + u64::from(setting.user()));
    let mut kills = 0;
    for round in 0..rounds(4) {
        let seed = round.to_string();
        let words = ["--name", "t", "--torture", &seed, "--", "sh", "-c", TANGLED];
        let pause = dice.up_to(2 * LATEST);
        let outcome = thread::scope(|scope| {
            let running = scope.spawn(|| setting.run_by(&[], &words).seconds(60).outcome());
            thread::sleep(LATEST / 2 + pause);
            let victim = any_task(setting, &mut dice, |task| {
                state(task).is_some_and(is_victim)
            });
            if let Some(victim) = victim {
                kills += usize::from(kill_process(victim, Signal::KILL).is_ok());
            }
            running.join().expect("an outcome")
        });
        let is_killed = outcome.code == 128 + 9;
        assert!(
            is_killed || outcome.stdout == "end\n",
            "round {round}: {outcome:?}"
        );
        assert!(!setting.has_processes(), "round {round}: somebody is left");
        for domain in setting.root().list().expect("list") {
            domain.abort().expect("abort");
        }
    }
    eprintln!("{kills} kills as user {}", setting.user());
    assert!(kills > 0, "nobody was there to be killed");
}

/// Whether a process waits for an answer of the view: no signal ends that.
pub fn waits_in_view(process: i32) -> bool {
    let wait = fs::read_to_string(format!("/proc/{process}/wchan"));
    wait.is_ok_and(|wait| wait == "request_wait_answer")
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
