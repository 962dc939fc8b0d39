//! A row in which remote calls depend on each other, compared with the same calls one after the other.

mod hops;
mod service;
pub mod trial;

use std::ffi::OsString;
use std::path::PathBuf;

use serde::Deserialize;

use crate::measure::{Sample, middle, run};
use crate::place::Place;
use crate::run::{Measured, Side};
use trial::{Found, Trial};

/// What is called, and what counts.
pub struct Calls {
    pub what: What,
    pub value: Value,
}

/// Who calls.
pub enum What {
    /// This program, a server of its own.
    Own(Trial),
    /// The example that reads a chain of so many keys from three nodes of etcd, so many ms from each other.
    Etcd { reads: u32, delay_ms: u32 },
}

/// What of it.
#[derive(Clone, Copy, PartialEq)]
pub enum Value {
    /// What the trial measures: a time, or for a rate how often.
    Main,
    /// What the servers do for it, thrown away or not: in ms of handlers, or as a number of reads.
    Work,
}

/// A row whose programs are there.
pub struct Ready<'a> {
    calls: &'a Calls,
    etcd: Option<(PathBuf, PathBuf)>,
}

impl<'a> Ready<'a> {
    /// Sees to etcd, where that is called.
    pub fn new(place: &Place, calls: &'a Calls) -> Result<Self, String> {
        let etcd = match calls.what {
            What::Own(_) => None,
            What::Etcd { .. } => Some((
                place.example("etcd")?,
                place.peer("etcd")?.join("usr/bin/etcd"),
            )),
        };
        Ok(Self { calls, etcd })
    }

    /// What one side found, and what it cost the processor.
    fn find(&self, place: &Place, side: Side) -> Result<(Found, Sample), String> {
        let line: Vec<OsString> = match (&self.calls.what, &self.etcd) {
            (What::Own(trial), _) => {
                let trial = serde_json::to_string(trial).map_err(|error| error.to_string())?;
                let side = if side == Side::Ours { "ahead" } else { "plain" };
                place.own(&["calls".into(), trial.into(), side.into()])
            }
            (What::Etcd { reads, delay_ms }, Some((example, etcd))) => {
                let (reads, delay) = (reads.to_string(), delay_ms.to_string());
                let words = [
                    "--json", "--rounds", "1", "--reads", &reads, "--delay", &delay,
                ];
                let program = [example.into(), "--etcd".into(), etcd.into()];
                program
                    .into_iter()
                    .chain(words.map(OsString::from))
                    .collect()
            }
            (What::Etcd { .. }, None) => return Err("etcd was not looked for".to_owned()),
        };
        let finished = run(&line, place, &place.work())?;
        let said = finished.output.trim();
        let wrong = |error| format!("{error} in {said:?}");
        let found = match self.calls.what {
            What::Own(_) => serde_json::from_str(said).map_err(wrong)?,
            What::Etcd { .. } => serde_json::from_str::<Etcd>(said).map_err(wrong)?.of(side),
        };
        let sample = Sample {
            value: 0.0,
            user_ms: finished.cost.user_ms,
            system_ms: finished.cost.system_ms,
        };
        Ok((found, sample))
    }
}

/// What the example prints.
#[derive(Deserialize)]
struct Etcd {
    one_by_one: Way,
    ahead: Way,
}

#[derive(Deserialize)]
struct Way {
    ms: Vec<f64>,
    reads: u32,
}

impl Etcd {
    fn of(self, side: Side) -> Found {
        let way = match side {
            Side::Ours => self.ahead,
            Side::Peer => self.one_by_one,
        };
        Found {
            value: middle(way.ms),
            work: f64::from(way.reads),
        }
    }
}

impl Measured for Ready<'_> {
    fn unit(&self) -> &'static str {
        match (&self.calls.what, self.calls.value) {
            (What::Own(trial), Value::Main) => trial.unit(),
            (What::Etcd { .. }, Value::Main) | (What::Own(_), Value::Work) => "ms",
            (What::Etcd { .. }, Value::Work) => "reads",
        }
    }

    fn peer_name(&self) -> String {
        "one after the other".to_owned()
    }

    fn sample(&mut self, place: &Place, side: Side) -> Result<Sample, String> {
        place.reset(None)?;
        let (found, sample) = self.find(place, side)?;
        let value = match self.calls.value {
            Value::Main => found.value,
            Value::Work => found.work,
        };
        Ok(Sample { value, ..sample })
    }
}
