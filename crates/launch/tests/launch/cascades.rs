//! S11, S31: processes that share files and pipes are rolled back together again and again, and in the midst of that one process
//! of the domain is killed. What is left is what a plain run could have left at some moment.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

use rustix::process::{Signal, kill_process};
use surmise_testkit::{Outcome, tell};

use crate::Test;
use crate::commits::commit;
use crate::setting::Setting;
use crate::strike::{Dice, Victim, any_task, rounds, state, strike};

pub const TESTS: &[Test] = &[
    ("processes_that_share_much_end_as_plainly", unharmed),
    ("control_killed_in_a_cascade_at_random", |setting| {
        role(setting, Victim::Control);
    }),
    ("the_view_killed_in_a_cascade_at_random", |setting| {
        role(setting, Victim::View);
    }),
    (
        "the_relay_process_killed_in_a_cascade_at_random",
        |setting| role(setting, Victim::Relay),
    ),
    ("the_supervisor_killed_in_a_cascade_at_random", |setting| {
        role(setting, Victim::Supervisor);
    }),
    ("pid_1_killed_in_a_cascade_at_random", |setting| {
        role(setting, Victim::Init);
    }),
    ("a_task_killed_in_a_cascade_at_random", |setting| {
        task(setting, |state| state != 't');
    }),
    ("an_image_killed_in_a_cascade_at_random", |setting| {
        task(setting, |state| state == 't');
    }),
];

/// The producer writes each number to `made` and to a pipe; every `BEARS`th number is also written to `borne` by a child, of
/// whose end `collected` tells. The consumer reads the numbers from the pipe, writes each to `taken`, and has `state` hold it.
/// The observer writes to `seen` what `state` holds. A process that is told that a file is not there writes elsewhere.
const PROGRAM: &str = r#"
    my ($steps, $bears) = @ARGV;
    sub note {
        my ($file, $line) = @_;
        $file = "wrong.$file" if grep { !-e } ('/etc/passwd') x 4;
        open my $log, '>>', $file or die;
        syswrite $log, "$line\n";
    }
    pipe my $in, my $out or die;
    sub produce {
        close $in;
        for my $step (1 .. $steps) {
            note('made', $step);
            syswrite $out, sprintf('%07d ', $step) or die;
            next if $step % $bears;
            my $child = fork // die;
            if (!$child) {
                note('borne', $step);
                exit $step % 100;
            }
            waitpid($child, 0) == $child or die;
            exit 4 if $? & 127;
            note('collected', "$step " . ($? >> 8));
        }
    }
    sub consume {
        close $out;
        while (sysread $in, my $step, 8) {
            $step += 0;
            note('taken', $step);
            open my $new, '>', 'state.new' or die;
            syswrite $new, "$step\n";
            close $new;
            rename 'state.new', 'state' or die;
        }
    }
    sub observe {
        my $last = 0;
        while ($last < $steps) {
            open my $state, '<', 'state' or next;
            sysread $state, my $text, 100;
            note('seen', $text + 0) if $text > $last;
            $last = $text;
        }
    }
    for my $part (\&produce, \&consume, \&observe) {
        if (!(fork // die)) {
            $part->();
            exit 0;
        }
    }
    close $in;
    close $out;
    for (1 .. 3) {
        wait;
        exit 3 if $?;
    }
    syswrite STDOUT, "end\n";"#;

/// How many numbers the producer makes, where it comes to an end.
const STEPS: usize = 24;
const ENDLESS: usize = 1_000_000;
const BEARS: usize = 4;
/// By then the command has mostly begun.
const BEGUN: Duration = Duration::from_millis(500);
const LATEST: Duration = Duration::from_millis(1500);
/// For a run that comes to an end, on a busy machine.
const SECONDS: u64 = 90;

fn unharmed(setting: &Setting) {
    let outcome = run(setting, 1, STEPS);
    outcome.assert_code(0).assert_stdout("end\n");
    let cascades = outcome
        .stderr
        .lines()
        .find_map(|line| line.strip_prefix("cascades: "));
    let cascades: u64 = cascades.expect("told").parse().expect("a number");
    tell(format_args!(
        "{cascades} cascades of user {}",
        setting.user()
    ));
    assert!(cascades > 0, "nothing was rolled back together");
    let left = left(setting);
    assert_eq!((left.made, left.taken), (STEPS, STEPS));
}

/// The domain ends.
fn role(setting: &Setting, victim: Victim) {
    let mut dice = Dice(0xca5c + u64::from(setting.user()));
    let (mut longest, mut decided) = (Duration::ZERO, 0);
    let rounds = rounds(3);
    for round in 0..rounds {
        let pause = BEGUN + dice.up_to(LATEST);
        let end = thread::scope(|scope| {
            let running = scope.spawn(|| run(setting, round, ENDLESS));
            let census = strike(setting, victim, pause, &mut || true);
            let end = census.expect("it goes on for ever").end(setting);
            running.join().expect("an outcome");
            end
        });
        longest = longest.max(end);
        decided += left(setting).made;
    }
    tell(format_args!(
        "{rounds} kills of {victim:?} in a cascade as user {}: longest end {longest:?}, {decided} steps decided",
        setting.user()
    ));
    // After few kills none need have come late enough.
    assert!(rounds < 10 || decided > 0, "nothing was ever decided");
}

/// The domain goes on without it. If the task was one of the command's parts, the command ends the others.
fn task(setting: &Setting, is_victim: fn(char) -> bool) {
    let mut dice = Dice(0x7a5d + u64::from(setting.user()));
    let (mut kills, mut decided) = (0, 0);
    let rounds = rounds(3);
    for round in 0..rounds {
        let pause = BEGUN + dice.up_to(LATEST);
        let outcome = thread::scope(|scope| {
            let running = scope.spawn(|| run(setting, round, STEPS));
            thread::sleep(pause);
            let victim = any_task(setting, &mut dice, |task| {
                state(task).is_some_and(is_victim)
            });
            if let Some(victim) = victim {
                kills += usize::from(kill_process(victim, Signal::KILL).is_ok());
            }
            running.join().expect("an outcome")
        });
        assert!(!setting.has_processes(), "round {round}: somebody is left");
        let left = left(setting);
        match outcome.code {
            0 => assert_eq!((left.made, left.taken), (STEPS, STEPS), "{outcome:?}"),
            // One of the parts, or the command itself.
            3 | 137 => {}
            _ => panic!("round {round}: {outcome:?}"),
        }
        decided += left.made;
    }
    tell(format_args!(
        "{kills} kills in a cascade as user {}: {decided} steps decided",
        setting.user()
    ));
    assert!(kills > 0, "nobody was there to be killed");
    assert!(rounds < 10 || decided > 0, "nothing was ever decided");
}

fn run(setting: &Setting, seed: usize, steps: usize) -> Outcome {
    let (seed, steps, bears) = (seed.to_string(), steps.to_string(), BEARS.to_string());
    let words = ["--name", "t", "--torture", &seed, "--", "perl", "-e"];
    let words = [&words[..], &[PROGRAM, &steps, &bears]].concat();
    setting.run_by(&[], &words).seconds(SECONDS).outcome()
}

/// How far the producer and the consumer have come.
struct Left {
    made: usize,
    taken: usize,
}

/// Makes real what the domain has changed, checks that there was such a moment, and takes it away.
fn left(setting: &Setting) -> Left {
    let work = setting.scratch.work();
    if setting.root().list().expect("list").is_empty() {
        return Left { made: 0, taken: 0 };
    }
    commit(setting).assert_code(0);
    let left = at_a_moment(&work);
    for entry in fs::read_dir(&work).expect("list") {
        fs::remove_file(entry.expect("an entry").path()).expect("remove");
    }
    for domain in setting.root().list().expect("list") {
        domain.abort().expect("abort");
    }
    left
}

fn at_a_moment(work: &Path) -> Left {
    const NAMES: [&str; 7] = [
        "made",
        "taken",
        "seen",
        "state",
        "state.new",
        "borne",
        "collected",
    ];
    for entry in fs::read_dir(work).expect("list") {
        let name = entry.expect("an entry").file_name();
        let name = name.to_str().expect("Unicode");
        assert!(NAMES.contains(&name), "{name} was never made");
    }
    let read = |name: &str| fs::read_to_string(work.join(name)).unwrap_or_default();
    let lines = |name: &str| read(name).lines().map(str::to_owned).collect::<Vec<_>>();
    let numbers = |name: &str| -> Vec<usize> {
        let lines = lines(name).into_iter();
        lines.map(|line| line.parse().expect("a number")).collect()
    };
    // Each line once, though its writer was rolled back again and again.
    let (made, taken) = (numbers("made").len(), numbers("taken").len());
    assert_eq!(numbers("made"), Vec::from_iter(1..=made));
    assert_eq!(numbers("taken"), Vec::from_iter(1..=taken));
    assert!(taken <= made, "{taken} were taken of {made}");
    // What depends on something is there only if that is.
    let state = numbers("state").pop().unwrap_or(0);
    assert!(
        state == taken || state + 1 == taken,
        "{state} after {taken}"
    );
    let new = read("state.new");
    let is_new = state < taken && new == format!("{taken}\n");
    assert!(new.is_empty() || is_new, "{new:?} after {taken}");
    let seen = numbers("seen");
    assert!(seen.is_sorted_by(|one, next| one < next), "{seen:?}");
    let last = seen.last().copied().unwrap_or(0);
    assert!(last <= state, "{last} was seen of {state}");
    let borne = numbers("borne");
    assert_eq!(
        borne,
        Vec::from_iter((1..=borne.len()).map(|child| child * BEARS))
    );
    assert!(borne.len() * BEARS <= made, "{borne:?} of {made}");
    let collected = lines("collected");
    let wanted = borne.iter().map(|child| format!("{child} {}", child % 100));
    let wanted: Vec<_> = wanted.take(collected.len()).collect();
    assert_eq!(collected, wanted);
    let ahead = borne.len() - collected.len();
    assert!(ahead <= 1 && made <= (collected.len() + 1) * BEARS);
    Left { made, taken }
}
