//! One sample: a directory as it was, mounted afresh, and what the work on it took.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::figure::Figure;
use super::files::{Kind, Mounted, Mounter, flush};
use super::host::Host;
use super::line::{Carried, Line};
use super::server;
use super::timed;
use super::work::{Inputs, Work};
use crate::measure::LIMIT;
use crate::place::{Place, remove};

/// One of the values of a sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// Until the first step has returned, in ms.
    First,
    /// The second step by itself, in ms: it finds warm caches.
    Second,
    /// From the beginning of the first step until all is unmounted and on the server's disk, in ms.
    Durable,
    /// What the client sent between its mount and its unmount, in KB (of 1000 bytes).
    Sent,
    /// What it received, likewise.
    Received,
    /// The mount and the first step, in round trips.
    RoundTrips,
    /// The same, less those of an `ssh` that runs `true`.
    RoundTripsBesidesSsh,
}

impl Value {
    /// Of the number.
    pub fn unit(self) -> &'static str {
        match self {
            Self::First | Self::Second | Self::Durable => "ms",
            Self::Sent | Self::Received => "KB",
            Self::RoundTrips | Self::RoundTripsBesidesSsh => "RTT",
        }
    }
}

/// What is needed to take samples of one row.
pub struct Trial<'a> {
    /// The directories of the run.
    pub place: &'a Place,
    /// Between the client and the server.
    pub line: &'a Line,
    /// The server.
    pub host: &'a Host,
    /// Mounts the server's directories.
    pub mounter: &'a Mounter<'a>,
    /// What is done.
    pub work: Work,
    /// What it starts from.
    pub inputs: Inputs,
    /// As it was measured.
    pub round_trip: Duration,
    /// After what time sshfs is stopped.
    pub cap: Duration,
}

/// What one sample took.
#[derive(Clone, Debug)]
pub struct Taken {
    /// The steps that were begun.
    steps: Vec<Figure>,
    durable: Figure,
    mount_ms: f64,
    ssh_ms: f64,
    /// `None` where nothing goes over the line.
    carried: Option<Carried>,
    round_trip: Duration,
}

impl Trial<'_> {
    /// Takes one.
    pub fn sample(&self, kind: Kind) -> Result<Taken, String> {
        let export = self.place.bench().join("far/export");
        self.inputs.reset(&export)?;
        // A client may keep on disk what an earlier sample has read.
        remove(&timed::caches(self.place))?;
        // What was written for this sample, or by the one before, is not written during it.
        flush(&export)?;
        let ssh_ms = match (self.work, kind) {
            (Work::List, Kind::Ours | Kind::Sshfs) => self.mounter.run(&self.host.ssh("true"))?,
            _ => 0.0,
        };
        let before = self.line.carried();
        let start = Instant::now();
        let mounts = self.mount(kind, &export)?;
        let mount_ms = ms(start.elapsed());
        let paths: Vec<_> = mounts.iter().map(|mount| mount.path().to_owned()).collect();
        let start = Instant::now();
        let mut steps = Vec::new();
        for line in self.work.steps(self.place, &self.inputs, &paths) {
            steps.push(self.step(kind, &line, &paths[0])?);
            if steps.iter().any(|step| step.is_more()) {
                break;
            }
        }
        for mount in mounts {
            mount.unmount()?;
        }
        if !kind.is_durable_unmounted() {
            flush(&export)?;
        }
        let durable = ms(start.elapsed());
        server::end(&export)?;
        let durable = if steps.iter().any(|step| step.is_more()) {
            // It would not have been durable before its steps had ended.
            Figure::of(steps.iter().map(|step| step.number()).sum(), false)
        } else {
            self.work.check(&self.inputs, &export)?;
            Figure::of(durable, true)
        };
        Ok(Taken {
            durable,
            steps,
            mount_ms,
            ssh_ms,
            carried: (kind != Kind::Local).then(|| self.line.carried().since(before)),
            round_trip: self.round_trip,
        })
    }

    fn mount(&self, kind: Kind, export: &Path) -> Result<Vec<Mounted<'_>>, String> {
        let at = |number| -> PathBuf { self.place.bench().join(format!("far/mount-{number}")) };
        let mount = |number| self.mounter.mount(kind, export, &at(number));
        (0..self.work.mounts()).map(mount).collect()
    }

    fn step(&self, kind: Kind, line: &[OsString], directory: &Path) -> Result<Figure, String> {
        let limit = match kind {
            Kind::Sshfs => self.cap,
            Kind::Ours | Kind::Local => LIMIT,
        };
        match timed::run(line, self.place, directory, limit)? {
            Some(ms) => Ok(Figure::of(ms, true)),
            None if kind == Kind::Sshfs => Ok(Figure::of(ms(limit), false)),
            None => Err(format!(
                "{}: killed: no end within {} s",
                line.join(" ".as_ref()).display(),
                limit.as_secs()
            )),
        }
    }
}

impl Taken {
    /// One step that took so long.
    #[cfg(test)]
    pub fn one(step: Figure) -> Self {
        Self {
            steps: vec![step],
            durable: step,
            mount_ms: 0.0,
            ssh_ms: 0.0,
            carried: None,
            round_trip: Duration::from_millis(1),
        }
    }

    /// One of its values; `None` where there is none, or where it was not reached.
    pub fn value(&self, value: Value) -> Option<Figure> {
        let is_whole = !self.steps.iter().any(|step| step.is_more());
        let carried = |bytes: fn(Carried) -> u64| {
            #[expect(clippy::cast_precision_loss, reason = "some megabytes")]
            let kb = |carried| bytes(carried) as f64 / 1e3;
            self.carried
                .map(|carried| Figure::of(kb(carried), is_whole))
        };
        let round_trips = |less_ms: f64| {
            let first = self.steps.first()?;
            let taken = self.mount_ms + first.number() - less_ms;
            self.carried?;
            Some(Figure::of(taken / ms(self.round_trip), is_whole))
        };
        match value {
            Value::First => self.steps.first().copied(),
            Value::Second => self.steps.get(1).copied(),
            Value::Durable => Some(self.durable),
            Value::Sent => carried(|carried| carried.to_far),
            Value::Received => carried(|carried| carried.to_near),
            Value::RoundTrips => round_trips(0.0),
            Value::RoundTripsBesidesSsh => round_trips(self.ssh_ms),
        }
    }
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(steps: Vec<Figure>, carried: Option<Carried>) -> Taken {
        Taken {
            steps,
            durable: Figure::of(0.0, true),
            mount_ms: 200.0,
            ssh_ms: 150.0,
            carried,
            round_trip: Duration::from_millis(10),
        }
    }

    const CARRIED: Carried = Carried {
        to_far: 3000,
        to_near: 1500,
    };

    #[test]
    fn a_sample_has_the_values_of_its_steps_and_of_the_line() {
        let exact = |number| Some(Figure::of(number, true));
        let steps = [10.0, 2.0].map(|number| Figure::of(number, true));
        let whole = taken(steps.to_vec(), Some(CARRIED));
        for (value, wanted) in [
            (Value::First, 10.0),
            (Value::Second, 2.0),
            (Value::Sent, 3.0),
            (Value::Received, 1.5),
            (Value::RoundTrips, 21.0),
            (Value::RoundTripsBesidesSsh, 6.0),
        ] {
            assert_eq!(whole.value(value), exact(wanted), "{value:?}");
        }
        let local = taken(steps.to_vec(), None);
        for value in [Value::Sent, Value::Received, Value::RoundTrips] {
            assert_eq!(local.value(value), None, "{value:?}");
        }
    }

    #[test]
    fn what_was_stopped_gives_bounds_and_no_later_step() {
        let stopped = taken(vec![Figure::of(60.0, false)], Some(CARRIED));
        for (value, wanted) in [(Value::First, 60.0), (Value::Sent, 3.0)] {
            let bound = Some(Figure::of(wanted, false));
            assert_eq!(stopped.value(value), bound, "{value:?}");
        }
        assert_eq!(stopped.value(Value::Second), None);
    }
}
