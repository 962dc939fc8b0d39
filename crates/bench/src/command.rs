//! A row that tells how long a command takes.

use std::ffi::OsString;
use std::fs::File;
use std::path::Path;

use rustix::fs::Advice;
use surmise_testkit::is_installed;

use crate::inputs::Input;
use crate::measure::{Finished, Sample, middle, run};
use crate::messages::{self, Messages};
use crate::place::{Place, about};
use crate::repeat;
use crate::rival::{Rival, Rivals};
use crate::run::{Measured, Side};
use crate::told::{self, Told};

/// A command under Surmise, and what it is compared with.
pub struct Command {
    /// Options of `surmise run`, besides `--dry-run`.
    pub options: &'static [&'static str],
    /// What runs under it, in the directory of the input.
    pub inside: &'static [&'static str],
    /// What it is compared with.
    pub peer: Peer,
    /// Which time of it.
    pub timing: Timing,
    /// What it works on; the same for every sample.
    pub input: Input,
    /// A file of the input that is not in memory when the command starts; all others are.
    pub cold: Option<&'static str>,
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

/// Which time of a command is its value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Timing {
    /// From outside, with all that comes before and after the command. It runs so often for one
    /// sample: more than once for what takes milliseconds.
    Whole(u32),
    /// From where it runs, when nothing has run there before.
    First,
    /// From where it runs, when it has run there once before: the median of so many.
    Later(u32),
}

/// A command whose rivals are known.
pub struct Ready<'a> {
    command: &'a Command,
    rivals: &'a Rivals,
    /// By the last sample of ours.
    told: Option<Told>,
}

impl<'a> Ready<'a> {
    /// To be compared with `rivals` besides.
    pub fn new(command: &'a Command, rivals: &'a Rivals) -> Self {
        Self {
            command,
            rivals,
            told: None,
        }
    }
}

impl Measured for Ready<'_> {
    fn unit(&self) -> &'static str {
        "ms"
    }

    fn peer_name(&self) -> String {
        match self.command.peer {
            Peer::Plain => "plain".to_owned(),
            Peer::Options([]) => "surmise run".to_owned(),
            Peer::Options(words) | Peer::Command(words) => words.join(" "),
        }
    }

    fn sample(&mut self, place: &Place, side: Side) -> Result<Sample, String> {
        let command = self.command;
        let directory = command.prepare(place)?;
        let line = command.line(place, side);
        let (sample, last) = command.timing.of(&line, place, &directory)?;
        if side == Side::Ours && command.tells() {
            self.told = Some(Told::parse(&last.errors)?);
        }
        Ok(sample)
    }

    fn messages(&mut self, place: &Place) -> Result<Option<Messages>, String> {
        let command = self.command;
        if matches!(command.timing, Timing::Later(_)) {
            // The messages of a first run and of later ones are not told apart.
            return Ok(None);
        }
        let directory = command.prepare(place)?;
        let mut options = command.options.to_vec();
        if !options.contains(&messages::OPTION) {
            options.push(messages::OPTION);
        }
        let words = Timing::Whole(1).words(place, command.inside);
        let finished = run(&place.inside(&options, &words), place, &directory)?;
        Messages::parse(&finished.errors).map(Some)
    }

    fn told(&mut self) -> Option<Told> {
        self.told.take()
    }

    fn rivals(&self) -> Vec<Rival> {
        if matches!(self.command.peer, Peer::Options(_)) {
            return Vec::new();
        }
        self.rivals.runnable().collect()
    }

    fn rival_sample(&mut self, place: &Place, rival: Rival) -> Result<Sample, String> {
        let command = self.command;
        let directory = command.prepare(place)?;
        let words = command.timing.words(place, command.inside);
        let line = self.rivals.around(rival, place, &directory, words)?;
        let (sample, _) = command.timing.of(&line, place, &directory)?;
        Ok(sample)
    }
}

impl Command {
    /// The program that it needs and that is not installed.
    pub fn missing_program(&self) -> Option<&'static str> {
        let mut needed = [self.inside[0]].into_iter().chain(self.input.maker());
        // One in the directory itself comes with the input.
        needed.find(|program| !program.starts_with("./") && !is_installed(program))
    }

    /// Whether ours tells of its speculation.
    fn tells(&self) -> bool {
        let is_asked = |word| self.options.contains(word);
        told::OPTIONS.iter().all(is_asked)
    }

    /// Sees to the input, and returns the directory to start in.
    fn prepare(&self, place: &Place) -> Result<std::path::PathBuf, String> {
        let directory = self.input.directory(place)?;
        if let Some(file) = self.cold {
            drop_from_memory(&directory.join(file))?;
        }
        // What was written for this sample, or by the one before, is not written during it.
        flush(place.bench())?;
        Ok(directory)
    }

    fn line(&self, place: &Place, side: Side) -> Vec<OsString> {
        let words = |words: &[&str]| self.timing.words(place, words);
        match (side, &self.peer) {
            (Side::Ours, _) => place.inside(self.options, &words(self.inside)),
            (Side::Peer, Peer::Plain) => words(self.inside),
            (Side::Peer, Peer::Options(options)) => place.inside(options, &words(self.inside)),
            (Side::Peer, Peer::Command(other)) => words(other),
        }
    }
}

impl Timing {
    /// The words that run a command so that its time is told.
    fn words(self, place: &Place, command: &[&str]) -> Vec<OsString> {
        let times = match self {
            Self::Whole(_) => return command.iter().map(OsString::from).collect(),
            Self::First => 1,
            Self::Later(times) => 1 + times,
        };
        let mut line = place.own(&["repeat".into(), times.to_string().into(), "--".into()]);
        line.extend(command.iter().map(OsString::from));
        line
    }

    /// The sample, and the last run of those that it is made of.
    fn of(
        self,
        line: &[OsString],
        place: &Place,
        directory: &Path,
    ) -> Result<(Sample, Finished), String> {
        let runs = if let Self::Whole(runs) = self {
            runs
        } else {
            1
        };
        let mut last = run(line, place, directory)?;
        let mut total = last.cost;
        for _ in 1..runs {
            last = run(line, place, directory)?;
            total = total + last.cost;
        }
        let each = f64::from(runs);
        let value = match self {
            Self::Whole(_) => total.wall_ms / each,
            Self::First | Self::Later(_) => self.inner(&last.output)?,
        };
        let sample = Sample {
            value,
            user_ms: total.user_ms / each,
            system_ms: total.system_ms / each,
        };
        Ok((sample, last))
    }

    /// The time that was told from where the command ran.
    fn inner(self, said: &str) -> Result<f64, String> {
        match repeat::parse(said).as_deref() {
            Some([first]) if self == Self::First => Ok(*first),
            Some([_, later @ ..]) if self != Self::First && !later.is_empty() => {
                Ok(middle(later.to_vec()))
            }
            _ => Err(format!("no times were told, but {said:?}")),
        }
    }
}

fn flush(directory: &Path) -> Result<(), String> {
    let flushed = File::open(directory)
        .map_err(|error| about("open", directory, &error))
        .map(|opened| rustix::fs::syncfs(&opened));
    flushed?.map_err(|errno| about("flush", directory, &errno))
}

/// Needs no rights, and leaves the rest of the machine alone.
fn drop_from_memory(file: &Path) -> Result<(), String> {
    let opened = File::open(file).map_err(|error| about("open", file, &error))?;
    rustix::fs::fadvise(&opened, 0, None, Advice::DontNeed)
        .map_err(|errno| about("drop from memory", file, &errno))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_time_and_the_later_ones_are_told_apart() {
        assert_eq!(Timing::First.inner("[7.0]"), Ok(7.0));
        assert_eq!(Timing::Later(3).inner("[7.0,1.0,3.0,2.0]"), Ok(2.0));
        assert!(Timing::Later(3).inner("[7.0]").is_err());
        assert!(Timing::First.inner("nothing").is_err());
    }

    #[test]
    fn a_program_in_the_directory_comes_with_the_input() {
        let of = |inside| Command {
            options: &[],
            inside,
            peer: Peer::Plain,
            timing: Timing::Whole(1),
            input: Input::Package("anything"),
            cold: None,
        };
        assert_eq!(of(&["./configure"]).missing_program(), None);
        let nowhere = of(&["no-such-program"]).missing_program();
        assert_eq!(nowhere, Some("no-such-program"));
    }
}
