//! A row that tells how long a command takes.

use std::ffi::OsString;

use crate::measure::{Cost, Sample, run};
use crate::place::Place;
use crate::run::{Measured, Side};

/// A command under Surmise, and what it is compared with.
pub struct Command {
    /// Options of `surmise run`, besides `--dry-run`.
    pub options: &'static [&'static str],
    /// What runs under it, in the directory `work`.
    pub inside: &'static [&'static str],
    /// What it is compared with.
    pub peer: Peer,
    /// How often the command runs for one sample: more than once for what takes milliseconds.
    pub repeat: u32,
    /// A source package of the distribution; `work` is a fresh copy of it for every sample.
    pub source: Option<&'static str>,
}

/// What a command is compared with.
pub enum Peer {
    /// The same command by itself.
    Plain,
    /// The same command under Surmise, with other options.
    Options(&'static [&'static str]),
    /// Another command.
    Command(&'static [&'static str]),
}

impl Measured for &Command {
    fn unit(&self) -> &'static str {
        "ms"
    }

    fn peer_name(&self) -> String {
        match self.peer {
            Peer::Plain => "plain".to_owned(),
            Peer::Options(words) | Peer::Command(words) => words.join(" "),
        }
    }

    fn sample(&mut self, place: &Place, side: Side) -> Result<Sample, String> {
        let source = self
            .source
            .map(|package| place.source(package))
            .transpose()?;
        place.reset(source.as_deref())?;
        let line = self.line(place, side);
        let mut total = Cost::default();
        for _ in 0..self.repeat {
            total = total + run(&line, place)?.cost;
        }
        let each = f64::from(self.repeat);
        Ok(Sample {
            value: total.wall_ms / each,
            user_ms: total.user_ms / each,
            system_ms: total.system_ms / each,
        })
    }
}

impl Command {
    fn line(&self, place: &Place, side: Side) -> Vec<OsString> {
        match (side, &self.peer) {
            (Side::Ours, _) => place.inside(self.options, self.inside),
            (Side::Peer, Peer::Plain) => self.inside.iter().map(OsString::from).collect(),
            (Side::Peer, Peer::Options(options)) => place.inside(options, self.inside),
            (Side::Peer, Peer::Command(words)) => words.iter().map(OsString::from).collect(),
        }
    }
}
