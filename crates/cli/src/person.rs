//! What a person is told and asked while a command runs.

use surmise_api::{Answer, Notice, Person, Question, Sender};

use crate::summary::count;
use crate::terminal;
use surmise_api::quote::command_line;

/// Whoever sits at the terminal, if there is one.
pub struct AtTerminal;

impl Person for AtTerminal {
    fn is_there(&self) -> bool {
        terminal::can_ask()
    }

    fn ask(&self, question: &Question) -> Answer {
        let text = asked(question);
        loop {
            match terminal::ask(&text) {
                Ok(Some(line)) => {
                    if let Some(answer) = answer(&line) {
                        return answer;
                    }
                }
                // Nobody is there to agree.
                Ok(None) | Err(_) => return Answer::Refuse,
            }
        }
    }

    fn tell(&self, notice: &Notice) -> Option<String> {
        told(notice).map(|text| format!("surmise: {text}"))
    }
}

const ANSWERS: &str = "[a]llow this host [h]old [n]o, then Enter: ";

fn asked(question: &Question) -> String {
    match question {
        Question::Reach { peer, sender } => {
            let who = named(sender.as_ref());
            format!("surmise: {who} wants to reach {peer}: {ANSWERS}")
        }
        Question::Stalled { peers } => format!(
            "surmise: everything waits for replies to held output, of {}: {ANSWERS}",
            peers.join(", ")
        ),
    }
}

fn answer(line: &str) -> Option<Answer> {
    match line.trim().to_ascii_lowercase().as_str() {
        "a" | "allow" => Some(Answer::Allow),
        "h" | "hold" => Some(Answer::Hold),
        "n" | "no" => Some(Answer::Refuse),
        _ => None,
    }
}

/// What a person is told of; none of what they see anyway.
fn told(notice: &Notice) -> Option<String> {
    Some(match notice {
        Notice::Waiting {
            bytes,
            peer,
            sender,
        } => {
            let bytes = count(usize::try_from(*bytes).unwrap_or(usize::MAX), "byte");
            let who = in_brackets(sender.as_ref());
            format!("held {bytes} for {peer}{who}; waiting for commit")
        }
        Notice::NotKept { peer, error } => {
            format!("output for {peer} could not be kept, and the connection was reset: {error}")
        }
        Notice::WaitsForCommit { name } => {
            format!("everything waits; `surmise commit {name}` from another terminal lets it go on")
        }
        Notice::Committed { changes } => {
            format!(
                "{} committed; the command goes on",
                count(*changes, "change")
            )
        }
        Notice::Started { .. } | Notice::Stalled { .. } => return None,
    })
}

fn named(sender: Option<&Sender>) -> String {
    match sender {
        Some(Sender { pid, name }) => format!("{} (pid {pid})", command_line(&[name])),
        None => "the command".into(),
    }
}

fn in_brackets(sender: Option<&Sender>) -> String {
    match sender {
        Some(Sender { pid, name }) => format!(" ({}, pid {pid})", command_line(&[name])),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notices_name_the_peer_the_process_and_the_bytes() {
        let sender = Some(Sender {
            pid: 41,
            name: "curl".into(),
        });
        let peer = String::from("127.0.0.1:8080");
        let waiting = Notice::Waiting {
            bytes: 312,
            peer: peer.clone(),
            sender: sender.clone(),
        };
        assert_eq!(
            AtTerminal.tell(&waiting).as_deref(),
            Some("surmise: held 312 bytes for 127.0.0.1:8080 (curl, pid 41); waiting for commit")
        );
    }

    #[test]
    fn the_question_names_every_answer() {
        for (letter, meaning) in [
            ("a", Answer::Allow),
            ("h", Answer::Hold),
            ("n", Answer::Refuse),
        ] {
            assert!(ANSWERS.contains(&format!("[{letter}]")));
            assert_eq!(answer(&format!(" {letter}\n")), Some(meaning));
        }
        for line in ["", "\n", "y", "al"] {
            assert_eq!(answer(line), None, "{line:?}");
        }
    }
}
