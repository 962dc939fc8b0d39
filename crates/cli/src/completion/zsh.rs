//! The script for zsh: a function of the completion system, to be found in `$fpath` or sourced.

use std::io::{self, Write};

use super::{Flag, Place, Subcommand, Value};

pub fn write(commands: &[Subcommand], out: &mut dyn Write) -> io::Result<()> {
    let mut names = String::new();
    let mut cases = String::new();
    for command in commands {
        let entry = format!("{}:{}", command.name, command.about);
        names += &format!("                {}\n", quoted(&entry));
        cases += &format!(
            "                {})\n                    _arguments -s -S",
            command.name
        );
        let specs = command.options.iter().flat_map(option);
        let mut position = 0;
        let places = command.places.iter().flat_map(|place| {
            position += 1;
            positional(place, position)
        });
        for spec in specs.chain(places) {
            cases += &format!(" \\\n                        {}", quoted(&spec));
        }
        cases += " ;;\n";
    }
    let script = SCRIPT.replace("@names@", &names).replace("@cases@", &cases);
    out.write_all(script.as_bytes())
}

/// The specifications of an option for `_arguments`, one a spelling.
fn option(flag: &Flag) -> Vec<String> {
    let spellings = flag.spellings();
    let before = match flag.repeats {
        true => "*".to_owned(),
        false if spellings.len() > 1 => format!("({})", spellings.join(" ")),
        false => String::new(),
    };
    let about = escaped(&flag.about);
    spellings
        .iter()
        .map(|spelling| match &flag.value {
            None => format!("{before}{spelling}[{about}]"),
            Some(value) => {
                let glue = if spelling.starts_with("--") { "=" } else { "+" };
                format!("{before}{spelling}{glue}[{about}]:{}", action(value))
            }
        })
        .collect()
}

fn positional(place: &Place, position: usize) -> Vec<String> {
    match place.value {
        Value::Command => {
            let own = position - 1;
            let rest = format!("*::arguments: _surmise_command_line {own}");
            match place.last {
                true => vec![rest],
                // No option of ours behind it; what follows is the command's.
                false => vec![format!("(-){position}:{}", action(&place.value)), rest],
            }
        }
        _ if place.repeats => vec![format!("*:{}", action(&place.value))],
        _ => vec![format!("{position}:{}", action(&place.value))],
    }
}

/// The message and the action.
fn action(value: &Value) -> String {
    match value {
        Value::Domain => "domain:_surmise_domains".into(),
        Value::Command => "command:_command_names -e".into(),
        Value::Path => "path:_files".into(),
        Value::Directory => "directory:_files -/".into(),
        Value::Host => "host:_hosts".into(),
        Value::OneOf(choices) => {
            let choice = |choice: &super::Choice| {
                format!(
                    "{}\\:\"{}\"",
                    choice.name,
                    with_backslashes(&choice.about, "\\\"`$")
                )
            };
            let choices: Vec<_> = choices.iter().map(choice).collect();
            format!("value:(({}))", choices.join(" "))
        }
        Value::Free => "value:".into(),
    }
}

/// As `_arguments` reads a description: brackets and colons mean something there.
fn escaped(text: &str) -> String {
    with_backslashes(text, "\\[]:")
}

fn with_backslashes(text: &str, special: &str) -> String {
    text.chars()
        .flat_map(|c| special.contains(c).then_some('\\').into_iter().chain([c]))
        .collect()
}

/// In single quotes.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

const SCRIPT: &str = r#"#compdef surmise
# Completion of surmise in zsh, made by `surmise completions zsh`.

_surmise_domains() {
    local -a names
    names=(${(f)"$(_call_program domains surmise list --names 2>/dev/null)"})
    _describe -t domains domain names
}

_surmise_commands() {
    local -a commands=(
@names@                'help:Print help'
    )
    _describe -t commands 'surmise command' commands
}

# Of the positional arguments, $1 are surmise's own; then there may be `--`, and must be if there are.
_surmise_command_line() {
    local own=$1
    if [[ $words[own+1] == -- ]]; then
        ((own += 1))
    elif ((own)); then
        return 1
    fi
    shift $own words
    ((CURRENT -= own))
    _normal
}

_surmise() {
    local curcontext=$curcontext state
    local -a line
    _arguments -C \
        '(- *)'{-h,--help}'[Print help]' \
        '(- *)'{-V,--version}'[Print version]' \
        '1: :_surmise_commands' \
        '*:: :->arguments'
    case $state in
        arguments)
            curcontext=${curcontext%:*:*}:surmise-$words[1]:
            case $words[1] in
@cases@                help)
                    _arguments '1: :_surmise_commands' ;;
            esac ;;
    esac
}

if [[ $funcstack[1] == _surmise ]]; then
    _surmise "$@"
else
    compdef _surmise surmise
fi
"#;
