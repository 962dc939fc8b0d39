//! The form in which `surmise diff` prints: an option for each one that crate `diff` has to offer.

use std::io::{self, BufWriter, Write};

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use surmise_api::Domain;
use surmise_diff::forms::{Asked, FORMS, Form, FormError, Shown, Writer, lines, remarks};

use crate::failure::Failure;
use crate::report;

/// The form that was asked for: lines, when none was.
pub struct Choice(&'static Form);

impl Choice {
    /// Prints what is shown of `domain` on standard output, and on standard error what the form has no place
    /// for.
    pub fn print(&self, domain: &Domain, shown: &Shown<'_>) -> Result<(), Failure> {
        let Self(form) = self;
        let write = match form.writer {
            Writer::Names(write) => {
                let mut out = BufWriter::new(io::stdout().lock());
                return Ok(write(shown, &mut out).and_then(|()| out.flush())?);
            }
            Writer::Contents(write) => write,
        };
        let name = form.asked.as_ref().map_or("form", |asked| asked.name);
        let contents = domain.contents()?;
        let mut out = BufWriter::new(io::stdout().lock());
        let left = write(shown, &contents.of_form(), &mut out)
            .and_then(|left| Ok(out.flush().map(|()| left)?));
        match left {
            Ok(left) => {
                let remarks = remarks(name, &left, shown.base);
                remarks.iter().for_each(report::note);
                Ok(())
            }
            Err(FormError::Io(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
                Err(error.into())
            }
            // It may be the contents that cannot be read.
            Err(error) => Err(Failure::new(format_args!("write the {name}: {error}"))),
        }
    }
}

/// The forms that a person can ask for.
fn offered() -> impl Iterator<Item = (&'static Form, &'static Asked)> {
    let asked = |form: &&'static Form| Some((*form, form.asked.as_ref()?));
    FORMS.iter().filter_map(asked)
}

impl Args for Choice {
    fn augment_args(command: Command) -> Command {
        offered().fold(command, |command, (form, asked)| {
            let others = offered().map(|(_, other)| other.name);
            let mut option = Arg::new(asked.name)
                .long(asked.name)
                .action(ArgAction::SetTrue)
                .help(asked.help)
                .conflicts_with_all(others.filter(|other| *other != asked.name));
            if let Some(short) = asked.short {
                option = option.short(short);
            }
            // Nobody is to rely on the contents of a damaged domain.
            if let Writer::Contents(_) = form.writer {
                option = option.conflicts_with("damaged");
            }
            command.arg(option)
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Choice {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut offered = offered();
        let chosen = offered.find(|(_, asked)| matches.get_flag(asked.name));
        Ok(Self(chosen.map_or(&lines::FORM, |(form, _)| form)))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
