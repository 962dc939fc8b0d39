//! What a test starts to run a domain: `caller ROOT OPTION… -- COMMAND…`.

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use surmise_kept::{Answer, Notice, Peer, Rule, StateRoot, Verdict};
use surmise_launch::{Launch, LaunchError, Outcome, Person, Question};

use surmise_supervisor::{Guessing, Right, Stats, Torture};

use crate::client;

/// Runs it, tells on standard error what a test wants to know, and exits as `surmise` would.
pub fn main(arguments: Vec<OsString>) -> ExitCode {
    let mut arguments = arguments.into_iter();
    let root = StateRoot::at(arguments.next().expect("a state root"));
    let mut launch = Launch {
        directory: std::env::current_dir().expect("a directory"),
        ..Launch::default()
    };
    let mut shell = None;
    while let Some(option) = arguments.next() {
        let mut value = || {
            let value = arguments.next().expect("a value");
            value.into_string().expect("Unicode")
        };
        match option.to_str().expect("Unicode") {
            "--name" => launch.name = Some(value()),
            "--shell" => shell = Some(value()),
            "--in" => launch.directory = value().into(),
            "--net-hold" => launch.boundary.net.default = Verdict::Hold,
            "--hold-port" => launch.boundary.net.rules.push(hold_port(&value())),
            "--commit" => return client::main(&root, &value(), None),
            "--commit-until-any" => {
                return client::main(&root, &value(), Some(client::Until::Any));
            }
            "--commit-until-apply" => {
                return client::main(&root, &value(), Some(client::Until::Apply));
            }
            "--net-allow" => launch.boundary.net.default = Verdict::Allow,
            "--speculate" => {
                // So rarely that it never guesses.
                let (seed, rate) = (0, f64::MIN_POSITIVE);
                launch.guessing = vec![Guessing::Torture(Torture { seed, rate })];
            }
            "--torture" => {
                let seed = value().parse().expect("a seed");
                launch.guessing = vec![Guessing::Torture(Torture { seed, rate: 0.3 })];
            }
            "--predict-late" => {
                let (rate, delay, wrong) = (1.0, Duration::from_secs(60), 0.0);
                launch.guessing = vec![Guessing::Right(Right { rate, delay, wrong })];
            }
            "--wait" => launch.wait = true,
            "--hold-streams" => launch.boundary.hold_streams = true,
            "--hold-terminal" => launch.boundary.hold_terminal = true,
            "--keep-fd" => {
                let number = value().parse().expect("a number");
                launch.boundary.keep_descriptors.push(number);
            }
            "--" => break,
            other => panic!("{other}: no such option"),
        }
    }
    launch.command = arguments.collect();
    let result = match shell {
        None => surmise_launch::run(&root, launch, &Nobody),
        Some(name) => root
            .open(&name)
            .map_err(LaunchError::from)
            .and_then(|domain| surmise_launch::shell(&domain, &launch, &Nobody)),
    };
    ExitCode::from(tell(result))
}

/// Holds what is sent to this port outside.
fn hold_port(port: &str) -> Rule {
    let peer: Peer = format!("127.0.0.1:{port}").parse().expect("a port");
    Rule {
        host: peer.host,
        port: peer.port,
        verdict: Verdict::Hold,
    }
}

/// Tests without a person.
struct Nobody;

impl Person for Nobody {
    fn is_there(&self) -> bool {
        false
    }

    fn ask(&self, _: &Question) -> Answer {
        Answer::Refuse
    }

    fn tell(&self, notice: &Notice) -> Option<String> {
        (!matches!(notice, Notice::Started { .. })).then(|| format!("notice: {notice:?}"))
    }
}

fn tell(result: Result<Outcome, LaunchError>) -> u8 {
    match result {
        Ok(outcome) => {
            for process in &outcome.lingering {
                eprintln!("lingering: {} {}", process.pid, process.name);
            }
            for lost in &outcome.lost {
                let error = std::io::Error::from_raw_os_error(lost.errno);
                eprintln!("lost: {}: {error}", lost.stream);
            }
            for (name, call) in outcome
                .supervision
                .iter()
                .flat_map(Stats::calls_by_frequency)
            {
                eprintln!("heard: {name} {}", call.events);
            }
            if let Some(stats) = &outcome.supervision {
                eprintln!("cascades: {}", stats.cascades);
            }
            eprintln!("kept: {}", outcome.domain.name());
            outcome.exit.code()
        }
        Err(error) => {
            eprintln!("error: {error}");
            if let Some(hint) = error.hint() {
                eprintln!("hint: {hint}");
            }
            error.code()
        }
    }
}
