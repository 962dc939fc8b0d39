//! What the boundary refused, as a person and a program are told of it.

use surmise_api::{RefusalKind, Refusals, RefusedInside};

use crate::report;
use surmise_api::quote::command_line;

/// How many lines a person is told.
const LINES_MAX: usize = 20;

/// What is told beside errors, conflicts, output that was lost, and what waits.
#[derive(Clone, Copy, clap::Args)]
pub struct Telling {
    /// Do not tell what was refused inside, which processes outlived the command, and how to go on
    ///
    /// Errors are told, and so are conflicts, output that was lost, and programs that wait for held output.
    /// Without --json nobody hears the command's calls then, so that it can hear those of others itself
    /// (SECCOMP_FILTER_FLAG_NEW_LISTENER).
    #[arg(long)]
    quiet: bool,
}

impl Telling {
    /// Whether a person is told.
    pub fn tells(self) -> bool {
        !self.quiet
    }

    /// Whether it is to be found out what is refused.
    pub fn hears(self, json: bool) -> bool {
        !self.quiet || json
    }
}

/// Tells what was refused, a line each.
pub fn tell(refusals: &Refusals) {
    for line in lines(refusals) {
        report::note(line);
    }
}

fn lines(Refusals { list, more }: &Refusals) -> Vec<String> {
    let told = list.iter().take(LINES_MAX);
    let mut lines: Vec<_> = told
        .map(|one| format!("refused inside: {}", line(one)))
        .collect();
    let rest = list.iter().skip(LINES_MAX).map(|one| one.count);
    let more = more + rest.sum::<u64>();
    if more > 0 {
        lines.push(format!("refused inside: and {more} more"));
    }
    lines
}

fn line(one: &RefusedInside) -> String {
    let RefusedInside {
        kind,
        target,
        program,
        count,
        allow,
    } = one;
    let (each, several, what) = match kind {
        RefusalKind::Connection => ("connection to", "connections to", ""),
        RefusalKind::Datagram => ("datagram to", "datagrams to", ""),
        RefusalKind::Name => ("look-up of", "look-ups of", ""),
        RefusalKind::Socket => ("connection to", "connections to", "the socket "),
        RefusalKind::Fifo => ("open of", "opens of", "the FIFO "),
        RefusalKind::Process => ("trace of", "traces of", "the process outside "),
        RefusalKind::Call => ("call of", "calls of", ""),
    };
    let tries = if *count == 1 { each } else { several };
    let by = program.as_ref().map_or_else(String::new, |program| {
        format!(" by {}", command_line(&[program]))
    });
    let hint = allow.as_ref().map_or_else(String::new, |allow| {
        format!(" (allow with {})", option(allow))
    });
    let target = match kind {
        // It may be a call with an argument.
        RefusalKind::Call => target.clone(),
        _ => command_line(&[target]),
    };
    format!("{count} {tries} {what}{target}{by}{hint}")
}

/// An option and its value, as they are typed.
fn option(allow: &str) -> String {
    match allow.split_once(' ') {
        Some((option, value)) => format!("{option} {}", command_line(&[value])),
        None => allow.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(kind: RefusalKind, target: &str, count: u64, allow: Option<&str>) -> RefusedInside {
        RefusedInside {
            kind,
            target: target.into(),
            program: Some("curl".into()),
            count,
            allow: allow.map(str::to_owned),
        }
    }

    #[test]
    fn each_line_says_what_how_often_by_whom_and_what_allows_it() {
        let rows = [
            (
                refusal(
                    RefusalKind::Connection,
                    "192.0.2.1:80",
                    3,
                    Some("--allow-net 192.0.2.1:80"),
                ),
                "3 connections to 192.0.2.1:80 by curl (allow with --allow-net 192.0.2.1:80)",
            ),
            (
                refusal(
                    RefusalKind::Name,
                    "a.example",
                    1,
                    Some("--allow-net a.example"),
                ),
                "1 look-up of a.example by curl (allow with --allow-net a.example)",
            ),
            (
                refusal(RefusalKind::Call, "ioctl TIOCSTI", 2, None),
                "2 calls of ioctl TIOCSTI by curl",
            ),
            (
                refusal(
                    RefusalKind::Socket,
                    "/run/a b\u{1b}",
                    1,
                    Some("--allow-socket /run/a b\u{1b}"),
                ),
                "1 connection to the socket '/run/a b?' by curl (allow with --allow-socket '/run/a b?')",
            ),
            (
                refusal(RefusalKind::Process, "7", 1, None),
                "1 trace of the process outside 7 by curl",
            ),
        ];
        for (one, wanted) in rows {
            assert_eq!(line(&one), wanted);
        }
        let nobody = RefusedInside {
            program: None,
            ..refusal(RefusalKind::Datagram, "192.0.2.1", 2, None)
        };
        assert_eq!(line(&nobody), "2 datagrams to 192.0.2.1");
    }

    #[test]
    fn many_lines_are_cut_and_the_rest_is_counted() {
        let list = (0..30).map(|port| refusal(RefusalKind::Connection, &port.to_string(), 2, None));
        let refusals = Refusals {
            list: list.collect(),
            more: 5,
        };
        let lines = lines(&refusals);
        assert_eq!(lines.len(), LINES_MAX + 1);
        assert_eq!(lines[LINES_MAX], "refused inside: and 25 more");
        assert!(super::lines(&Refusals::default()).is_empty());
    }
}
