//! Completion in shells: one model of the command line, made from its definition, and a script made
//! from it for each shell.
//!
//! Besides subcommands and options, a script completes the names of domains, which it asks `surmise
//! list --names` for, and the command behind `surmise run`, with whatever the shell knows of that
//! command.

mod bash;
mod fish;
mod zsh;

use std::io::{self, Write};

use clap::{Arg, ArgAction};

/// A shell that there is a script for.
#[derive(Clone, Copy, clap::ValueEnum)]
pub enum Shell {
    /// Below ~/.local/share/bash-completion/completions, as `surmise`
    Bash,
    /// In a directory of $fpath, as `_surmise`
    Zsh,
    /// Below ~/.config/fish/completions, as `surmise.fish`
    Fish,
}

/// Writes the script for `shell` to complete `command`.
pub fn write(shell: Shell, command: &clap::Command, out: &mut dyn Write) -> io::Result<()> {
    let commands: Vec<_> = command.get_subcommands().map(Subcommand::of).collect();
    match shell {
        Shell::Bash => bash::write(&commands, out),
        Shell::Zsh => zsh::write(&commands, out),
        Shell::Fish => fish::write(&commands, out),
    }
}

/// What of a subcommand can be completed.
struct Subcommand {
    name: String,
    about: String,
    options: Vec<Flag>,
    places: Vec<Place>,
}

/// An option.
struct Flag {
    short: Option<char>,
    long: String,
    about: String,
    /// What its value is; none where it takes none.
    value: Option<Value>,
    repeats: bool,
}

/// A positional argument.
struct Place {
    value: Value,
    repeats: bool,
    /// Whether it stands behind `--` only.
    last: bool,
}

/// What a value is, as far as a shell can complete it.
enum Value {
    /// The name of a domain that exists.
    Domain,
    /// A program and its arguments, to the end of the line.
    Command,
    Path,
    Directory,
    Host,
    OneOf(Vec<Choice>),
    /// Nothing that anybody else knows.
    Free,
}

struct Choice {
    name: String,
    about: String,
}

impl Subcommand {
    fn of(command: &clap::Command) -> Self {
        // clap adds `--help` to its own copy only when it parses.
        let help = Flag {
            short: Some('h'),
            long: "help".into(),
            about: "Print help".into(),
            value: None,
            repeats: false,
        };
        let options = command.get_arguments().filter(|arg| !arg.is_positional());
        Self {
            name: command.get_name().to_owned(),
            about: first_line(command.get_about()),
            options: options.filter_map(Flag::of).chain([help]).collect(),
            places: command.get_positionals().map(Place::of).collect(),
        }
    }

    /// The positional arguments before any `--`.
    fn places(&self) -> impl Iterator<Item = &Place> {
        self.places.iter().filter(|place| !place.last)
    }

    /// Whether a program and its arguments end the line.
    fn ends_in_command(&self) -> bool {
        self.places
            .last()
            .is_some_and(|place| matches!(place.value, Value::Command))
    }

    /// The options that take a value, as they are typed.
    fn valued(&self) -> Vec<String> {
        let valued = self.options.iter().filter(|flag| flag.value.is_some());
        valued.flat_map(Flag::spellings).collect()
    }
}

impl Flag {
    fn of(arg: &Arg) -> Option<Self> {
        let long = arg.get_long().filter(|_| !arg.is_hide_set())?;
        Some(Self {
            short: arg.get_short(),
            long: long.to_owned(),
            about: first_line(arg.get_help()),
            value: arg.get_action().takes_values().then(|| Value::of(arg)),
            repeats: matches!(arg.get_action(), ArgAction::Append),
        })
    }

    /// `--long` and, where there is one, `-s`.
    fn spellings(&self) -> Vec<String> {
        let short = self.short.map(|short| format!("-{short}"));
        [format!("--{}", self.long)]
            .into_iter()
            .chain(short)
            .collect()
    }
}

impl Place {
    fn of(arg: &Arg) -> Self {
        let value = Value::of(arg);
        Self {
            repeats: matches!(arg.get_action(), ArgAction::Append),
            last: arg.is_last_set(),
            value: match value {
                // The name for a new domain is an option's value; a place takes one that exists.
                Value::Free if name(arg) == "NAME" => Value::Domain,
                value => value,
            },
        }
    }
}

impl Value {
    fn of(arg: &Arg) -> Self {
        let choices = arg.get_possible_values();
        if !choices.is_empty() {
            let choice = |value: &clap::builder::PossibleValue| Choice {
                name: value.get_name().to_owned(),
                about: first_line(value.get_help()),
            };
            return Self::OneOf(choices.iter().map(choice).collect());
        }
        match name(arg).as_str() {
            "CMD" => Self::Command,
            "PATH" | "FILE" | "FILE:DIR" => Self::Path,
            "DIR" => Self::Directory,
            "HOST" | "HOST[:PORT]" => Self::Host,
            _ => Self::Free,
        }
    }
}

fn name(arg: &Arg) -> String {
    match arg.get_value_names() {
        Some([name, ..]) => name.to_string(),
        _ => arg.get_id().as_str().to_uppercase(),
    }
}

fn first_line(text: Option<&clap::builder::StyledStr>) -> String {
    let text = text.map(ToString::to_string).unwrap_or_default();
    text.lines().next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn a_value_of_every_name_was_thought_about() {
        let free = [
            "NAME",
            "POLICY",
            "WHEN",
            "PORT",
            "N",
            "SHELL",
            "SEED[:RATE]",
            "RATE:DELAY[:WRONG]",
            "TIME",
            "SECONDS",
            "DAYS",
            "ADDRESS[:PORT]",
            "NAME=USER",
            "USER",
            "SIZE",
            "HOST:DIR",
            "COMMAND",
            "PROGRAM",
        ];
        let command = crate::Arguments::command();
        for subcommand in command.get_subcommands() {
            for arg in subcommand.get_arguments() {
                let name = name(arg);
                assert!(
                    !arg.get_action().takes_values()
                        || free.contains(&name.as_str())
                        || !matches!(Value::of(arg), Value::Free),
                    "surmise {}: what does a shell complete for `{name}`?",
                    subcommand.get_name()
                );
            }
        }
    }

    #[test]
    fn run_ends_in_a_command_and_abort_takes_domains() {
        let command = crate::Arguments::command();
        let commands: Vec<_> = command.get_subcommands().map(Subcommand::of).collect();
        let find = |name: &str| {
            commands
                .iter()
                .find(|command| command.name == name)
                .unwrap()
        };
        assert!(find("run").ends_in_command());
        assert!(find("run").valued().contains(&"--allow-net".to_owned()));
        assert_eq!(find("shell").places().count(), 1);
        let place = &find("abort").places[0];
        assert!(matches!(place.value, Value::Domain) && place.repeats);
    }
}
