//! What `surmise run --json` tells of the messages that the kernel sent to the view: counts that do not depend on the
//! machine, but for what is installed on it.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// The word that has it told.
pub const OPTION: &str = "--json";

/// How many kinds are named in the table.
const KINDS_SHOWN: usize = 4;

/// How many messages one run took, by the kernel's names of what they asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Messages(BTreeMap<String, u64>);

/// The object that the command prints, as far as it is of use here.
#[derive(Deserialize)]
struct Line {
    messages: BTreeMap<String, u64>,
}

impl Messages {
    /// From what a run printed on standard error; the object is its last line.
    pub fn parse(printed: &str) -> Result<Self, String> {
        let line = printed.lines().last().unwrap_or_default();
        let told: Result<Line, _> = serde_json::from_str(line);
        let told = told.map_err(|error| format!("no messages were told, but {line:?}: {error}"))?;
        Ok(Self(told.messages))
    }
}

impl fmt::Display for Messages {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} messages", self.0.values().sum::<u64>())?;
        let mut kinds: Vec<_> = self.0.iter().collect();
        kinds.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        for (number, (kind, count)) in kinds.into_iter().take(KINDS_SHOWN).enumerate() {
            let before = if number == 0 { ": " } else { ", " };
            write!(formatter, "{before}{count} {kind}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_summed_and_the_most_frequent_are_named() {
        let printed = "a note\n{\"name\": \"t\", \"messages\": {\"INIT\": 1, \"LOOKUP\": 20, \"OPEN\": 3, \
                       \"READ\": 7, \"RELEASE\": 2}}\n";
        let messages = Messages::parse(printed).expect("messages");
        assert_eq!(
            messages.to_string(),
            "33 messages: 20 LOOKUP, 7 READ, 3 OPEN, 2 RELEASE"
        );
        assert!(Messages::parse("a note\n").is_err());
    }
}
