//! Changes from when they are made until the server has decided on them.

use std::collections::VecDeque;

use super::Token;
use crate::frame::ToServer;
use crate::lost::Undecided;
use crate::operation::Operation;
use crate::server::Moment;

/// Changes on their way.
#[derive(Debug, Default)]
pub(super) struct Groups {
    /// Changes that have not been sent, their bytes, and when the first of them was made.
    pub(super) open: Vec<Undecided>,
    pub(super) open_bytes: usize,
    pub(super) since: Option<Moment>,
    /// Sent, and undecided, by sequence number.
    pub(super) sent: VecDeque<(u64, Sent)>,
    pub(super) sent_bytes: usize,
    pub(super) sequence: u64,
    pub(super) decided: u64,
}

/// What was sent with a sequence number.
#[derive(Debug, Clone)]
pub(super) enum Sent {
    Made(Vec<Undecided>),
    /// The server tells the call whether it was made. The tree has it then, too, unless the tree was forgotten meanwhile.
    Asked {
        token: Token,
        operation: Operation,
        is_tree_forgotten: bool,
    },
}

impl Groups {
    /// The bytes of all changes that are not decided.
    pub(super) fn bytes(&self) -> usize {
        self.open_bytes + self.sent_bytes
    }

    pub(super) fn is_performing(&self) -> bool {
        let mut sent = self.sent.iter();
        sent.any(|(_, sent)| matches!(sent, Sent::Asked { .. }))
    }

    /// The number that the group will have, or had, with the last change in it.
    pub(super) fn last(&self) -> u64 {
        self.sequence + u64::from(!self.open.is_empty())
    }

    pub(super) fn decided(&self) -> u64 {
        self.decided
    }

    /// All changes of which no verdict has come, in their order.
    pub(super) fn undecided(&self) -> impl DoubleEndedIterator<Item = &Operation> {
        let sent = self.sent.iter().flat_map(|(_, sent)| match sent {
            Sent::Made(made) => made.as_slice(),
            Sent::Asked { .. } => &[],
        });
        sent.chain(&self.open).map(|undecided| &undecided.operation)
    }
}

impl Sent {
    pub(super) fn message(&self, sequence: u64) -> ToServer {
        match self {
            Sent::Made(made) => ToServer::Group {
                sequence,
                operations: made.iter().map(|one| one.operation.clone()).collect(),
            },
            Sent::Asked { operation, .. } => ToServer::Perform {
                sequence,
                operation: operation.clone(),
            },
        }
    }
}
