//! The messages that the kernel sent to the view, as `--stats` shows them: each is a call that could not be answered from
//! what the kernel remembers.

use std::collections::BTreeMap;
use std::io::{self, Write};

use surmise_api::Messages;

use crate::report;
use crate::summary::counted;
use crate::table::Table;

/// Prints how many there were, and of which kinds.
pub fn show(messages: &Messages) {
    if messages.by_kind.is_empty() {
        return;
    }
    let mut text = Vec::new();
    // Memory takes all; and a remark that can't be written must not change what a run does.
    let _ = write(&messages.by_kind, &mut text);
    let all = messages.by_kind.values().sum();
    let beside = match messages.beside {
        0 => String::new(),
        beside => format!(", {beside} of them answered on the processor of their caller"),
    };
    let all = counted(all, "message");
    report::note(format!("{all} to the view{beside}"));
    let _ = anstream::stderr().lock().write_all(&text);
}

/// The most frequent first.
fn write(messages: &BTreeMap<String, u64>, out: &mut impl Write) -> io::Result<()> {
    let mut rows: Vec<_> = messages.iter().collect();
    rows.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    let mut table = Table::new(["MESSAGE", "TIMES"]);
    for (name, count) in rows {
        table.push([name.clone(), count.to_string()]);
    }
    table.write(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_frequent_message_comes_first() {
        let messages = [("GETATTR", 3), ("LOOKUP", 20), ("OPEN", 3)];
        let messages = messages.map(|(name, count)| (name.into(), count)).into();
        let mut out = anstream::StripStream::new(Vec::new());
        write(&messages, &mut out).expect("written");
        assert_eq!(
            String::from_utf8(out.into_inner()).expect("text"),
            "MESSAGE  TIMES\nLOOKUP   20\nGETATTR  3\nOPEN     3\n"
        );
    }
}
