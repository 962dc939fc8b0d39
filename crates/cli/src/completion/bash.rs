//! The script for bash, 4.2 or later. Works without the package bash-completion, and better with it:
//! then the command behind `surmise run` is completed as it is without `surmise run`.

use std::io::{self, Write};

use super::{Flag, Subcommand, Value};

pub fn write(commands: &[Subcommand], out: &mut dyn Write) -> io::Result<()> {
    let names: Vec<_> = commands
        .iter()
        .map(|command| command.name.as_str())
        .collect();
    let mut tables = String::new();
    let mut values = String::new();
    for command in commands {
        let options: Vec<_> = command.options.iter().flat_map(Flag::spellings).collect();
        let places = command.places().map(|place| {
            let several = if place.repeats { "*" } else { "" };
            format!("'{}{several}'", place_kind(&place.value))
        });
        let places: Vec<_> = places.collect();
        tables += &format!(
            "        {})\n            options='{}'\n            valued='{}'\n            \
             places=({})\n            ends_in_command={} ;;\n",
            command.name,
            options.join(" "),
            command.valued().join(" "),
            places.join(" "),
            u8::from(command.ends_in_command()),
        );
        for flag in &command.options {
            if let Some(complete) = flag.value.as_ref().and_then(complete) {
                let pattern = flag
                    .spellings()
                    .iter()
                    .map(|spelling| format!("'{} {spelling}'", command.name))
                    .collect::<Vec<_>>();
                values += &format!("        {}) {complete} ;;\n", pattern.join(" | "));
            }
        }
    }
    let script = SCRIPT
        .replace("@commands@", &names.join(" "))
        .replace("@tables@", &tables)
        .replace("@values@", &values);
    out.write_all(script.as_bytes())
}

fn place_kind(value: &Value) -> String {
    match value {
        Value::Domain => "domain".into(),
        Value::Command => "command".into(),
        Value::Path => "path".into(),
        Value::Directory => "directory".into(),
        // Choices are shown by their names, which are words.
        Value::OneOf(choices) => {
            let names: Vec<_> = choices.iter().map(|choice| choice.name.as_str()).collect();
            format!("one-of:{}", names.join(","))
        }
        Value::Host | Value::Free => "free".into(),
    }
}

/// The line that completes an option's value.
fn complete(value: &Value) -> Option<String> {
    Some(match value {
        Value::Domain => "_surmise_words \"$(_surmise_domains)\"".into(),
        Value::Path => "_surmise_paths -f".into(),
        Value::Directory => "_surmise_paths -d".into(),
        Value::Host => "_surmise_hosts".into(),
        Value::OneOf(choices) => {
            let names: Vec<_> = choices.iter().map(|choice| choice.name.as_str()).collect();
            format!("_surmise_words '{}'", names.join(" "))
        }
        Value::Command | Value::Free => return None,
    })
}

const SCRIPT: &str = r#"# Completion of surmise in bash, made by `surmise completions bash`.

_surmise_domains() {
    surmise list --names 2>/dev/null
}

# The helpers below see the variables of _surmise, as bash has it.
_surmise_words() {
    mapfile -t COMPREPLY < <(compgen -W "$1" -- "$cur")
}

_surmise_paths() {
    compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(compgen "$1" -- "$cur")
}

_surmise_hosts() {
    mapfile -t COMPREPLY < <(compgen -A hostname -- "$cur")
}

# The words from number $1 on are a command line of their own.
_surmise_command() {
    if declare -F _comp_command_offset >/dev/null; then
        _comp_command_offset "$1"
    elif declare -F _command_offset >/dev/null; then
        _command_offset "$1"
    elif (($1 == COMP_CWORD)); then
        mapfile -t COMPREPLY < <(compgen -c -- "$cur")
    else
        _surmise_paths -f
    fi
}

_surmise_place() {
    case $1 in
        domain*) _surmise_words "$(_surmise_domains)" ;;
        path*) _surmise_paths -f ;;
        directory*) _surmise_paths -d ;;
        one-of:*)
            local words=${1#one-of:}
            _surmise_words "${words//,/ }" ;;
        '') _surmise_words "$options" ;;
    esac
}

_surmise_value() {
    case $1 in
@values@    esac
}

_surmise() {
    local cur=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]}
    local options='' valued='' ends_in_command=0 of='' place=0 i word
    local -a places=()
    COMPREPLY=()
    if ((COMP_CWORD == 1)); then
        _surmise_words '@commands@ help --help --version'
        return
    fi
    case $command in
@tables@        help)
            places=('one-of:@commands@') ;;
        *) return ;;
    esac
    places=("${places[@]// /,}")
    for ((i = 2; i < COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        # Readline takes `--option=value` and `host:port` for three words each.
        if [[ $word == : ]]; then
            i=$((i + 1))
        elif [[ -n $of ]]; then
            [[ $word == = ]] || of=''
        elif [[ $word == -- && $ends_in_command == 1 ]]; then
            _surmise_command $((i + 1))
            return
        elif [[ " $valued " == *" $word "* ]]; then
            of=$word
        elif [[ $word != -* && ${places[place]} == command* ]]; then
            _surmise_command "$i"
            return
        elif [[ $word != -* && ${places[place]} != *\* ]]; then
            place=$((place + 1))
        fi
    done
    if [[ ${COMP_WORDS[COMP_CWORD - 1]} == : || $cur == : ]]; then
        return
    fi
    [[ $cur == = ]] && cur=''
    if [[ -n $of ]]; then
        _surmise_value "$command $of"
    elif [[ $cur == -* ]]; then
        _surmise_words "$options"
    elif [[ ${places[place]} == command* ]]; then
        _surmise_command "$COMP_CWORD"
    else
        _surmise_place "${places[place]}"
    fi
}

complete -F _surmise surmise
"#;
