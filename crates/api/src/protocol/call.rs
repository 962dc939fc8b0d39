//! What a client asks for.

use serde::{Deserialize, Serialize};

use super::params::{
    Abort, Answered, CancelParams, Commit, Decide, Diff, Hello, Input, Named, Run, SignalParams,
};

/// What a client asks for: a method and its parameters.
#[derive(Clone, Debug, PartialEq)]
pub enum Call {
    /// `hello`: which version to speak. The first request; none goes before.
    Hello(Hello),
    /// `list`: all domains.
    List,
    /// `status`: one domain.
    Status(Named),
    /// `run`: a command in a new domain, or under external synchrony.
    Run(Box<Run>),
    /// `shell`: a command in a kept domain.
    Shell(Box<Run>),
    /// `diff`: what a domain changed, and what it holds.
    Diff(Diff),
    /// `commit`: make it real.
    Commit(Commit),
    /// `undo_commit`: take back a commit that was cut short.
    UndoCommit(Named),
    /// `abort`: throw it away.
    Abort(Abort),
    /// `decide`: about held output of a running domain, whose replies it waits for.
    Decide(Decide),
    /// `watch`: what happens in a running domain.
    Watch(Named),
    /// `answer`: a question of a `run` or `shell` of this client.
    Answer(Answered),
    /// `input`: something to read for the command of a `run` or `shell` of this client.
    Input(Input),
    /// `signal`: a signal to it.
    Signal(SignalParams),
    /// `cancel`: a request of this client.
    Cancel(CancelParams),
}

/// Parameters of a method that takes none: `{}`, or nothing.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct NoParams {}

impl Call {
    /// All methods.
    pub const METHODS: [&'static str; 15] = [
        "hello",
        "list",
        "status",
        "run",
        "shell",
        "diff",
        "commit",
        "undo_commit",
        "abort",
        "decide",
        "watch",
        "answer",
        "input",
        "signal",
        "cancel",
    ];

    /// The method's name.
    pub fn method(&self) -> &'static str {
        match self {
            Self::Hello(_) => "hello",
            Self::List => "list",
            Self::Status(_) => "status",
            Self::Run(_) => "run",
            Self::Shell(_) => "shell",
            Self::Diff(_) => "diff",
            Self::Commit(_) => "commit",
            Self::UndoCommit(_) => "undo_commit",
            Self::Abort(_) => "abort",
            Self::Decide(_) => "decide",
            Self::Watch(_) => "watch",
            Self::Answer(_) => "answer",
            Self::Input(_) => "input",
            Self::Signal(_) => "signal",
            Self::Cancel(_) => "cancel",
        }
    }

    /// The call of `method` with parameters as JSON; `None` where there is no such method.
    ///
    /// # Errors
    /// When the parameters are not what the method takes.
    pub(super) fn of(method: &str, params: &str) -> Option<serde_json::Result<Self>> {
        fn parsed<'p, T: Deserialize<'p>>(
            params: &'p str,
            call: impl FnOnce(T) -> Call,
        ) -> serde_json::Result<Call> {
            serde_json::from_str(params).map(call)
        }
        Some(match method {
            "hello" => parsed(params, Self::Hello),
            "list" => parsed(params, |NoParams {}| Self::List),
            "status" => parsed(params, Self::Status),
            "run" => parsed(params, Self::Run),
            "shell" => parsed(params, Self::Shell),
            "diff" => parsed(params, Self::Diff),
            "commit" => parsed(params, Self::Commit),
            "undo_commit" => parsed(params, Self::UndoCommit),
            "abort" => parsed(params, Self::Abort),
            "decide" => parsed(params, Self::Decide),
            "watch" => parsed(params, Self::Watch),
            "answer" => parsed(params, Self::Answer),
            "input" => parsed(params, Self::Input),
            "signal" => parsed(params, Self::Signal),
            "cancel" => parsed(params, Self::Cancel),
            _ => return None,
        })
    }

    /// The parameters as JSON.
    pub(super) fn params(&self) -> serde_json::Value {
        let value = match self {
            Self::Hello(params) => serde_json::to_value(params),
            Self::List => serde_json::to_value(NoParams {}),
            Self::Status(params)
            | Self::UndoCommit(params)
            | Self::Abort(params)
            | Self::Watch(params) => serde_json::to_value(params),
            Self::Run(params) | Self::Shell(params) => serde_json::to_value(params),
            Self::Diff(params) => serde_json::to_value(params),
            Self::Commit(params) => serde_json::to_value(params),
            Self::Decide(params) => serde_json::to_value(params),
            Self::Answer(params) => serde_json::to_value(params),
            Self::Input(params) => serde_json::to_value(params),
            Self::Signal(params) => serde_json::to_value(params),
            Self::Cancel(params) => serde_json::to_value(params),
        };
        value.expect("parameters are plain data")
    }
}
