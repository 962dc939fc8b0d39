//! The command line, and what is said of one that is wrong.

use std::env;
use std::ffi::OsString;
use std::process;

use clap::Parser;

use crate::Arguments;
use crate::failure::Failure;
use crate::json::Json;

/// Exit status for wrong usage.
const WRONG_USAGE: u8 = 2;

/// The arguments of this process. Ends it where they are wrong, or ask for help.
pub fn parsed() -> Arguments {
    let words: Vec<OsString> = env::args_os().collect();
    Arguments::try_parse_from(&words).unwrap_or_else(|error| {
        if let Some(json) = json(&words)
            && error.use_stderr()
        {
            // Should it fail, the status has to do.
            let _ = error.print();
            let text = error.to_string();
            let first = text.lines().next().unwrap_or_default();
            let failure = Failure::usage(first.trim_start_matches("error: "));
            let failure = failure.hint("--help tells the usage");
            failure.show_json(WRONG_USAGE, json);
            process::exit(WRONG_USAGE.into());
        }
        error.exit()
    })
}

/// Where the caller that gave `words` expects JSON, if it does. The words have no better meaning: they are wrong.
fn json(words: &[OsString]) -> Option<Json> {
    let mut options = words.iter().skip(1).take_while(|word| *word != "--");
    let subcommand = options.next()?;
    options
        .any(|word| word == "--json")
        .then(|| match subcommand.to_str() {
            Some("run" | "sync") => Json::Err,
            _ => Json::Out,
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_expected_where_the_subcommand_prints_it() {
        for (words, expected) in [
            ("surmise run --json --bad", Some(Json::Err)),
            ("surmise sync --stats --json", Some(Json::Err)),
            ("surmise commit --json", Some(Json::Out)),
            ("surmise run --bad -- x --json", None),
            ("surmise commit --bad", None),
            ("surmise", None),
        ] {
            let split: Vec<OsString> = words.split(' ').map(Into::into).collect();
            assert_eq!(json(&split), expected, "{words}");
        }
    }
}
