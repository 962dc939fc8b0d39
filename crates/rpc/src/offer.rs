//! What a caller says of itself to a server that may know of speculation, and what it says later.

use crate::budget::Budget;
use crate::effect::Caller;

/// What a call's metadata say, as far as they are of this protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Whether a commit has to follow.
    pub caller: Caller,
    /// What the server may open for the caller.
    pub budget: Budget,
}

impl Offer {
    /// The value of `surmise`.
    pub fn surmise(&self) -> &'static str {
        match self.caller {
            Caller::Correct => "1",
            Caller::Speculative => "spec",
        }
    }

    /// Reads the values of `surmise`, `surmise-depth` and `surmise-budget`. None, if they are not of
    /// this version of the protocol: then the call is like any other. Whatever a caller says, its
    /// budget is no more than what the server grants to anybody; what it does not say, it has not got.
    pub fn read(
        surmise: Option<&str>,
        depth: Option<&str>,
        branches: Option<&str>,
        granted: Budget,
    ) -> Option<Self> {
        let caller = match surmise? {
            "1" => Caller::Correct,
            "spec" => Caller::Speculative,
            _ => return None,
        };
        let number = |text: Option<&str>| text.and_then(|text| text.parse().ok()).unwrap_or(0);
        let offered = Budget {
            branches: number(branches),
            depth: number(depth),
        };
        let budget = offered.clamped(granted);
        Some(Self { caller, budget })
    }
}

/// What is heard from a caller that speculates, after its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// A message of this many bytes.
    Message(usize),
    /// The end of the stream.
    End,
    /// The stream was reset, or its connection is lost.
    Lost,
}

/// What that decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The caller is confirmed.
    Commit,
    /// It has never been.
    Abort,
}

impl Heard {
    /// Only the empty message is a commit. An end is none: that of a stream which was reset can look
    /// like one that was meant.
    pub fn decision(self) -> Decision {
        match self {
            Self::Message(0) => Decision::Commit,
            Self::Message(_) | Self::End | Self::Lost => Decision::Abort,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forged_offer_is_clamped_and_a_strange_one_is_none() {
        let granted = Budget {
            branches: 8,
            depth: 3,
        };
        let forged = Offer::read(Some("spec"), Some("4000000000"), Some("9"), granted);
        let clamped = Offer {
            caller: Caller::Speculative,
            budget: granted,
        };
        assert_eq!(forged, Some(clamped));
        assert_eq!(Offer::read(None, Some("1"), Some("1"), granted), None);
        assert_eq!(Offer::read(Some("2"), None, None, granted), None);
        let silent = Offer::read(Some("1"), Some("-1"), Some("99999999999"), granted);
        assert_eq!(silent.map(|offer| offer.budget), Some(Budget::NONE));
    }

    #[test]
    fn nothing_but_the_empty_message_is_a_commit() {
        assert_eq!(Heard::Message(0).decision(), Decision::Commit);
        for heard in [Heard::Message(1), Heard::End, Heard::Lost] {
            assert_eq!(heard.decision(), Decision::Abort);
        }
    }
}
