//! Held output.

use serde::{Deserialize, Serialize};
use surmise_kept::HeldChannel;

use super::ProcessRow;

/// What a domain holds for one destination.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldRow {
    /// Where it goes.
    pub to: String,
    /// How much it is.
    pub bytes: u64,
    /// How many bytes an earlier commit has sent, where that could not send the rest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unsent_after: Option<u64>,
    /// Its first line, where that is text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_line: Option<String>,
    /// Who sent it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<ProcessRow>,
}

impl From<&HeldChannel> for HeldRow {
    fn from(channel: &HeldChannel) -> Self {
        Self {
            to: channel.target.to_string(),
            bytes: channel.bytes,
            unsent_after: None,
            first_line: channel.first_line.clone(),
            process: channel.sender.as_ref().map(ProcessRow::from),
        }
    }
}
