//! Parameters of what a client asks for.

use std::collections::BTreeMap;

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use surmise_kept::{Answer, Native, Verdict};

use super::Id;
use crate::settle::Then;
use crate::text::Text;

/// Parameters of `hello`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hello {
    /// The versions of the protocol that the client speaks.
    pub versions: Vec<u32>,
}

/// Parameters that are a domain's name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Named {
    /// The domain.
    pub name: String,
}

/// Parameters of `run` and `shell`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// The name of the new domain; without one, it is named after the command. For `shell`, the domain to enter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Program and arguments.
    pub command: Vec<Text>,
    /// Where to start it: an absolute path.
    pub directory: Text,
    /// Variables of its environment that differ from the server's: a value, or null where it is not to be there.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, Option<Text>>,
    /// What crosses the boundary. For `shell`, without it, what the domain was made with.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "object"
    )]
    pub boundary: Option<BoundaryParams>,
    /// Whether to wait for processes that outlive the command, rather than end them.
    #[serde(default)]
    pub wait: bool,
    /// What becomes of the changes: `keep`, `commit_if_zero` or `abort`.
    #[serde(default)]
    pub then: Then,
    /// Standard input: `null`, or `client` if it comes by `input`.
    #[serde(default)]
    pub stdin: Stdin,
    /// Standard output: `client` if it comes as events, or `null`.
    #[serde(default)]
    pub stdout: Stdout,
    /// Standard error, likewise.
    #[serde(default)]
    pub stderr: Stdout,
    /// Whether the client answers questions.
    #[serde(default)]
    pub asks: bool,
    /// `undone`, or `real` with `sync`.
    #[serde(default)]
    pub files: FilesParam,
    /// A directory that is the real one, where all other files are undone: an absolute path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub through: Option<Text>,
    /// Which directories of programs and libraries are those outside, read-only, rather than served by the view.
    #[serde(default)]
    pub native: Native,
    /// Puts syncs off.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "object"
    )]
    pub sync: Option<SyncParams>,
    /// Mispredicts results of calls on purpose.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "object"
    )]
    pub torture: Option<TortureParams>,
    /// Predicts results of calls rightly, and decides that later.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "object"
    )]
    pub predict_right: Option<RightParams>,
}

/// Where standard input comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stdin {
    /// From nowhere.
    #[default]
    Null,
    /// From the client.
    Client,
}

/// Where standard output or standard error goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stdout {
    /// To the client.
    #[default]
    Client,
    /// To nowhere.
    Null,
}

/// What crosses the boundary.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BoundaryParams {
    /// What becomes of connections that no rule names: `deny`, `ask`, `hold` or `allow`.
    pub net: Net,
    /// Hosts that it reaches: `HOST`, `HOST:PORT`.
    pub allow_net: Vec<String>,
    /// Hosts for which output is held.
    pub hold_net: Vec<String>,
    /// Ports of servers inside that are reached from this machine's loopback address.
    pub publish: Vec<u16>,
    /// Unix sockets and FIFOs outside that it reaches: absolute paths.
    pub sockets: Vec<Text>,
    /// Whether what it writes to standard output and standard error waits for the commit.
    pub hold_streams: bool,
}

/// What becomes of connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Net {
    /// The client is asked, host by host.
    Ask,
    /// They are refused.
    #[default]
    Deny,
    /// What is sent waits for the commit.
    Hold,
    /// They are made.
    Allow,
}

impl From<Net> for Verdict {
    fn from(net: Net) -> Self {
        match net {
            Net::Ask => Self::Ask,
            Net::Deny => Self::Deny,
            Net::Hold => Self::Hold,
            Net::Allow => Self::Allow,
        }
    }
}

/// What becomes of files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FilesParam {
    /// Changes wait in a domain.
    #[default]
    Undone,
    /// Changes are made.
    Real,
}

/// How syncs are put off.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SyncParams {
    /// A directory on the file system whose syncs are put off; without one, that of `directory`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on: Option<Text>,
    /// What output may rely on: `fsync` or `write`.
    #[serde(default)]
    pub promise: PromiseParam,
    /// How long a change may stay in memory when nobody waits for it, in milliseconds: 1 to 3,600,000.
    #[serde(default = "SyncParams::usual_interval")]
    pub interval_ms: u64,
    /// Whether each promise is kept at once.
    #[serde(default)]
    pub eager: bool,
}

impl SyncParams {
    /// The longest interval, in milliseconds.
    pub const INTERVAL_MS_MAX: u64 = 3_600_000;

    fn usual_interval() -> u64 {
        5000
    }
}

/// What output may rely on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PromiseParam {
    /// What the command asked to be durable before is durable.
    #[default]
    Fsync,
    /// Whatever it wrote before is durable.
    Write,
}

/// How calls are mispredicted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TortureParams {
    /// What the random choices are made from.
    pub seed: u64,
    /// How probable it is for a call: above 0, at most 1.
    pub rate: f64,
}

/// How calls are predicted rightly.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RightParams {
    /// How probable it is for a call: above 0, at most 1.
    pub rate: f64,
    /// How long it takes until a prediction is decided, in milliseconds: 1 to 60,000.
    pub delay_ms: u64,
    /// How probable it is for a prediction to be wrong all the same: from 0 to 1.
    #[serde(default)]
    pub wrong: f64,
}

impl RightParams {
    /// The longest delay, in milliseconds.
    pub const DELAY_MS_MAX: u64 = 60_000;
}

/// Parameters of `diff`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Diff {
    /// The domain.
    pub name: String,
    /// Only changes at or below these absolute paths.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<Text>,
    /// Also a patch, in events `patch`, for `git apply` in this directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patch_base: Option<Text>,
}

/// Parameters of `commit`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Commit {
    /// The domain.
    pub name: String,
    /// Whether it is a conflict, too, when something that was merely read has changed outside.
    #[serde(default)]
    pub strict: bool,
    /// In conflicts at these absolute paths and below, the domain's version wins.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ours: Vec<Text>,
    /// In conflicts at these absolute paths and below, what is outside stays.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub theirs: Vec<Text>,
    /// Commits without knowing what was read, where the record of that is damaged.
    #[serde(default)]
    pub forget_reads: bool,
    /// What is sent of output that an earlier commit could not send as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unsent: Option<Unsent>,
}

/// What is sent of an output that was not sent as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Unsent {
    /// What is not known to have left.
    Rest,
    /// All of it, once more.
    Whole,
}

/// Parameters of `abort`.
pub type Abort = Named;

/// Parameters of `decide`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Decide {
    /// The domain.
    pub name: String,
    /// `Allow`, `Hold` or `Refuse`, in lower case.
    #[serde(with = "answers")]
    pub answer: Answer,
}

/// Parameters of `answer`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Answered {
    /// The request that asked.
    pub request: Id,
    /// The question's number.
    pub question: u64,
    /// `allow`, `hold` or `refuse`.
    #[serde(with = "answers")]
    pub answer: Answer,
}

/// Parameters of `input`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// The request whose command reads it.
    pub request: Id,
    /// What.
    #[serde(default)]
    pub data: Text,
    /// Whether nothing more comes.
    #[serde(default)]
    pub end: bool,
}

/// Parameters of `signal`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SignalParams {
    /// The request whose command gets it.
    pub request: Id,
    /// Which.
    pub signal: SignalName,
}

/// A signal that is passed on to a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum SignalName {
    /// `SIGHUP`.
    Hup,
    /// `SIGINT`.
    Int,
    /// `SIGQUIT`.
    Quit,
    /// `SIGTERM`.
    Term,
}

/// Parameters of `cancel`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CancelParams {
    /// The request.
    pub request: Id,
}

/// A structure that is no array of its members, or null.
fn object<'de, D: Deserializer<'de>, T: DeserializeOwned>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    let Some(raw) = Option::<Box<RawValue>>::deserialize(deserializer)? else {
        return Ok(None);
    };
    if !raw.get().starts_with('{') {
        return Err(D::Error::custom("expected an object"));
    }
    serde_json::from_str(raw.get())
        .map(Some)
        .map_err(D::Error::custom)
}

/// Answers in lower case.
mod answers {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use surmise_kept::Answer;

    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "lowercase", remote = "Answer")]
    enum Lower {
        Allow,
        Hold,
        Refuse,
    }

    pub fn serialize<S: Serializer>(answer: &Answer, serializer: S) -> Result<S::Ok, S::Error> {
        Lower::serialize(answer, serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Answer, D::Error> {
        Lower::deserialize(deserializer)
    }
}
