//! What the relay refuses, and to whom.

use std::collections::HashMap;

use surmise_outbox::Sender;
use surmise_refusals::Kind;

use super::interface::Event;

/// How many peers are remembered with the program that wanted them.
const PEERS_MAX: usize = 4096;

/// How often it is looked who wants a peer. Later attempts count for the last program that was found: to
/// look is a search through all processes, and a program that tries so often tries for ever.
const LOOKS_MAX: u32 = 64;

/// Who wanted which peers.
#[derive(Debug, Default)]
pub(crate) struct Refused(HashMap<String, Known>);

#[derive(Debug)]
struct Known {
    looks: u32,
    sender: Option<Sender>,
}

impl Refused {
    /// Who is known to want a peer, once that has been looked for often enough.
    pub(crate) fn known(&self, peer: &str) -> Option<Option<Sender>> {
        match self.0.get(peer) {
            Some(known) => (known.looks >= LOOKS_MAX).then(|| known.sender.clone()),
            None => (self.0.len() >= PEERS_MAX).then_some(None),
        }
    }

    /// A peer was refused to `sender`, for whom it was looked.
    pub(crate) fn learn(&mut self, peer: &str, sender: Option<&Sender>) {
        let known = self.0.entry(peer.to_owned()).or_insert(Known {
            looks: 0,
            sender: None,
        });
        known.looks = known.looks.saturating_add(1);
        known.sender = sender.cloned();
    }
}

/// One attempt that the policy denies.
#[derive(Clone, Debug)]
pub(crate) struct Attempt {
    pub(crate) kind: Kind,
    /// Host and port, as a person would write them.
    pub(crate) peer: String,
    /// The peer of the rule that would allow it; `None` where none would.
    pub(crate) allowed_as: Option<String>,
}

impl Attempt {
    pub(crate) fn told(self, sender: Option<Sender>) -> Event {
        Event::Refused {
            kind: self.kind,
            peer: self.peer,
            sender,
            allow: self.allowed_as.map(|peer| format!("--allow-net {peer}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_tries_for_ever_is_looked_for_a_bounded_number_of_times() {
        let mut refused = Refused::default();
        let sender = Sender {
            pid: 7,
            name: "curl".into(),
        };
        for _ in 0..LOOKS_MAX {
            assert_eq!(refused.known("192.0.2.1:80"), None);
            refused.learn("192.0.2.1:80", Some(&sender));
        }
        assert_eq!(refused.known("192.0.2.1:80"), Some(Some(sender)));
        for port in 0..PEERS_MAX {
            refused.learn(&port.to_string(), None);
        }
        assert_eq!(refused.known("another"), Some(None));
    }
}
