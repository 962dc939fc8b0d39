//! A row that tells what a system call costs, by who hears of it: the supervisor, the filter alone, or nobody.
//! It is one that depends on nothing and has no effect, so what is measured is the way to the supervisor and
//! back.

use std::ffi::OsString;
use std::time::Instant;

use crate::measure::{Sample, run};
use crate::place::Place;
use crate::run::{Measured, Side};
use crate::told::{self, Told};

/// One call, made in two places.
pub struct Hearing {
    /// Ours.
    pub ours: Listener,
    /// The peer's.
    pub peer: Listener,
}

/// Who hears of the call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Listener {
    /// Nobody: there is no domain.
    Nobody,
    /// The filter of a domain without predictions, which lets it pass.
    Filter,
    /// The supervisor of a domain with predictions, which answers it.
    Supervisor,
}

/// So rare that none is made while something is measured.
const PREDICTIONS: [&str; 2] = ["--torture", "1:1e-9"];

/// How many calls one sample makes: they take a tenth of a second at least.
const CALLS: u32 = 300_000;

/// A row, and what its last sample told.
pub struct Ready<'a> {
    hearing: &'a Hearing,
    told: Option<Told>,
}

impl<'a> Ready<'a> {
    /// Needs nothing.
    pub fn new(hearing: &'a Hearing) -> Self {
        Self {
            hearing,
            told: None,
        }
    }
}

/// Makes so many calls, and prints how many nanoseconds one of them took.
pub fn call(times: u32) {
    let begun = Instant::now();
    for _ in 0..times {
        // It cannot fail for the caller itself.
        let _ = rustix::process::getpgid(None);
    }
    let each_ns = begun.elapsed().as_secs_f64() * 1e9 / f64::from(times);
    println!("{each_ns}");
}

impl Listener {
    fn around(self, place: &Place, words: Vec<OsString>) -> Vec<OsString> {
        match self {
            Self::Nobody => words,
            Self::Filter => place.inside(&[], &words),
            Self::Supervisor => {
                let options: Vec<_> = PREDICTIONS.into_iter().chain(told::OPTIONS).collect();
                place.inside(&options, &words)
            }
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Nobody => "the same call outside",
            Self::Filter => "the same call in surmise run",
            Self::Supervisor => "the same call in surmise run --torture",
        }
    }
}

impl Measured for Ready<'_> {
    fn unit(&self) -> &'static str {
        "ns"
    }

    fn peer_name(&self) -> String {
        self.hearing.peer.name().to_owned()
    }

    fn sample(&mut self, place: &Place, side: Side) -> Result<Sample, String> {
        let listener = match side {
            Side::Ours => self.hearing.ours,
            Side::Peer => self.hearing.peer,
        };
        place.reset(None)?;
        let words = place.own(&["call".into(), CALLS.to_string().into()]);
        let finished = run(&listener.around(place, words), place, &place.work())?;
        if listener == Listener::Supervisor {
            let told = Told::parse(&finished.errors)?;
            // Otherwise it would be another call's cost.
            if told.events < f64::from(CALLS) {
                return Err(format!("of {CALLS} calls not all were heard: {told}"));
            }
            self.told = Some(told);
        }
        let output = finished.output.trim();
        Ok(Sample {
            value: output
                .parse()
                .map_err(|_| format!("no time was told, but {output:?}"))?,
            user_ms: finished.cost.user_ms,
            system_ms: finished.cost.system_ms,
        })
    }

    fn told(&mut self) -> Option<Told> {
        self.told.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_heard_by_whom_the_row_says() {
        let scratch = tempfile::tempdir().expect("a directory");
        let place = Place::at(scratch.path());
        let line = |listener: Listener| {
            let line = listener.around(&place, vec!["true".into()]);
            line.join(" ".as_ref()).into_string().expect("plain words")
        };
        assert_eq!(line(Listener::Nobody), "true");
        assert_eq!(line(Listener::Filter), "surmise run --dry-run -- true");
        assert_eq!(
            line(Listener::Supervisor),
            "surmise run --dry-run --torture 1:1e-9 --json --stats -- true"
        );
    }
}
