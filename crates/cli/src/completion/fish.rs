//! The script for fish, 3.4 or later.

use std::io::{self, Write};

use super::{Choice, Flag, Subcommand, Value};

pub fn write(commands: &[Subcommand], out: &mut dyn Write) -> io::Result<()> {
    let mut lines = String::new();
    let mut valued: Vec<_> = commands.iter().flat_map(Subcommand::valued).collect();
    valued.sort();
    valued.dedup();
    for command in commands {
        lines += &format!(
            "complete -c surmise -n __surmise_needs_command -a {} -d {}\n",
            command.name,
            quoted(&command.about)
        );
    }
    for command in commands {
        let Subcommand { name, .. } = command;
        lines += "\n";
        for flag in &command.options {
            lines += &format!(
                "complete -c surmise -n '__surmise_in {name}'{}\n",
                option(flag)
            );
        }
        for (index, place) in command.places().enumerate() {
            if let Some(arguments) = arguments(&place.value) {
                let or_later = if place.repeats { " or-later" } else { "" };
                lines += &format!(
                    "complete -c surmise -n '__surmise_in {name} {index}{or_later}' {arguments}\n"
                );
            }
        }
    }
    let names = |wanted: fn(&Subcommand) -> bool| {
        let wanted = commands.iter().filter(|command| wanted(command));
        let names: Vec<_> = wanted.map(|command| command.name.as_str()).collect();
        names.join(" ")
    };
    let at_once = |command: &Subcommand| {
        let first = command.places().next();
        first.is_some_and(|place| matches!(place.value, Value::Command))
    };
    let script = SCRIPT
        .replace("@valued@", &valued.join(" "))
        .replace("@ends_in_command@", &names(Subcommand::ends_in_command))
        .replace("@commands@", &names(|_| true))
        .replace("@at_once@", &names(at_once))
        .replace("@lines@", &lines);
    out.write_all(script.as_bytes())
}

fn option(flag: &Flag) -> String {
    let short = flag.short.map(|short| format!(" -s {short}"));
    let value = match &flag.value {
        None => String::new(),
        Some(value) => match arguments(value) {
            Some(arguments) => format!(" -r {arguments}"),
            None => " -x".into(),
        },
    };
    format!(
        "{} -l {}{value} -d {}",
        short.unwrap_or_default(),
        flag.long,
        quoted(&flag.about)
    )
}

/// What `complete` offers for a value.
fn arguments(value: &Value) -> Option<String> {
    Some(match value {
        Value::Domain => "-f -a '(__surmise_domains)'".into(),
        Value::Path => "-F".into(),
        Value::Directory => "-f -a '(__fish_complete_directories)'".into(),
        Value::Host => "-f -a '(__fish_print_hostnames)'".into(),
        Value::OneOf(choices) => {
            let choice = |Choice { name, about }: &Choice| {
                format!("{name}\\t\"{}\"", about.replace(['\\', '"', '$'], ""))
            };
            let choices: Vec<_> = choices.iter().map(choice).collect();
            format!("-f -a {}", quoted(&choices.join(" ")))
        }
        Value::Command | Value::Free => return None,
    })
}

/// In single quotes, in which fish knows two escapes.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\\', r"\\").replace('\'', r"\'"))
}

const SCRIPT: &str = r#"# Completion of surmise in fish, made by `surmise completions fish`.

function __surmise_domains
    surmise list --names 2>/dev/null
end

function __surmise_needs_command
    test (count (commandline -opc)) -eq 1
end

# Prints words as a command line; the last, still being typed, as it stands.
function __surmise_join
    for word in $argv[1..-2]
        echo -n (string escape -- $word)' '
    end
    echo -- $argv[-1]
end

# Prints the command line that surmise is to run; fails where none has begun.
function __surmise_command_line
    set -l words (commandline -opc)
    set -l current "$(commandline -ct)"
    set -l name $words[2]
    contains -- "$name" @ends_in_command@; or return 1
    set -e words[1..2]
    while set -q words[1]
        set -l word $words[1]
        if test "$word" = --
            set -e words[1]
            __surmise_join $words "$current"
            return
        else if contains -- "$word" @valued@
            set -e words[1]
            # What is typed is the option's value.
            set -q words[1]; or return 1
        else if not string match -q -- '-*' $word; and contains -- $name @at_once@
            __surmise_join $words "$current"
            return
        end
        set -e words[1]
    end
    contains -- $name @at_once@; and not string match -q -- '-*' $current; and echo -- $current
end

# Whether the line is that of surmise's command $argv[1] and, if $argv[2] is given, as many positional
# arguments are there already; `or-later`: at least as many.
function __surmise_in
    set -l words (commandline -opc)
    test "$words[2]" = $argv[1]; and not __surmise_command_line >/dev/null; or return 1
    set -q argv[2]; or return 0
    set -e words[1..2]
    set -l count 0
    while set -q words[1]
        if contains -- "$words[1]" @valued@
            set -e words[1]
        else if not string match -q -- '-*' $words[1]
            set count (math $count + 1)
        end
        set -q words[1]; and set -e words[1]
    end
    test $count -eq $argv[2]; or test "$argv[3]" = or-later -a $count -gt $argv[2]
end

complete -c surmise -f
complete -c surmise -n __surmise_needs_command -s h -l help -d 'Print help'
complete -c surmise -n __surmise_needs_command -s V -l version -d 'Print version'
complete -c surmise -n '__surmise_command_line >/dev/null' -a '(complete -C "$(__surmise_command_line)")'
complete -c surmise -n '__surmise_in help 0' -a '@commands@'
@lines@"#;
