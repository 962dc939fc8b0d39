//! Messages, as lines.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::Call;
use crate::event::Event;
use crate::results::{ChangeRow, Failed, HeldRow};

/// The version of the protocol. A change that a client of this version could notice gives another one.
pub const VERSION: u32 = 1;

/// The longest line that is taken from a client, in bytes and without its end.
pub const LINE_MAX: usize = 4 << 20;

const JSON_RPC: &str = "2.0";

/// By what a client knows its requests.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Id {
    /// A whole number.
    Number(i64),
    /// A string.
    Text(String),
}

/// A request.
#[derive(Clone, Debug, PartialEq)]
pub struct Incoming {
    /// By what the client knows it.
    pub id: Id,
    /// What it asks for.
    pub call: Call,
}

/// A line that is no request that is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejected {
    /// Of which request, where that could be found out.
    pub id: Option<Id>,
    /// What is wrong.
    pub problem: Problem,
    /// What is wrong, for people.
    pub error: String,
}

/// What is wrong with a request, or with its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Problem {
    /// It is no JSON, or only a part.
    NoJson,
    /// It is no request.
    NoRequest,
    /// There is no such method.
    NoMethod,
    /// The parameters are not what the method takes.
    BadParams,
    /// It was done, and failed; `data` tells why.
    Failed,
    /// The first request has to be `hello`, and only the first.
    NoHello,
    /// No version is spoken by both.
    NoVersion,
    /// Too many requests are worked on, or too much input waits.
    TooMuch,
    /// There is no such request at work, or it does not take that.
    NoSuchRequest,
    /// The client is another user.
    NotAllowed,
}

impl Problem {
    /// The code of the error in a response.
    pub fn code(self) -> i32 {
        match self {
            Self::NoJson => -32700,
            Self::NoRequest => -32600,
            Self::NoMethod => -32601,
            Self::BadParams => -32602,
            Self::Failed => -32000,
            Self::NoHello => -32001,
            Self::NoVersion => -32002,
            Self::TooMuch => -32003,
            Self::NoSuchRequest => -32004,
            Self::NotAllowed => -32005,
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Envelope<'l> {
    jsonrpc: String,
    id: Id,
    method: String,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    params: Option<&'l RawValue>,
}

/// Only enough to tell of which request a line is.
#[derive(Deserialize)]
struct Identified {
    id: Id,
}

/// Decodes a line from a client, without its end.
///
/// # Errors
/// When it is no request that this version knows.
pub fn decode(line: &[u8]) -> Result<Incoming, Rejected> {
    let id = || {
        serde_json::from_slice::<Identified>(line)
            .ok()
            .map(|found| found.id)
    };
    let rejected = |problem, error: String| Rejected {
        id: id(),
        problem,
        error,
    };
    if line.len() > LINE_MAX {
        return Err(Rejected {
            id: None,
            problem: Problem::NoRequest,
            error: format!("a line of more than {LINE_MAX} bytes"),
        });
    }
    // A structure may be written as an array of its members: not here, where members are known by name.
    let is_object = line.trim_ascii_start().starts_with(b"{");
    let envelope: serde_json::Result<Envelope<'_>> = match is_object {
        true => serde_json::from_slice(line),
        false => Err(serde::de::Error::custom("a request is an object")),
    };
    let envelope = envelope.map_err(|error| {
        // What is JSON, though no request, has a code of its own.
        let is_json = serde_json::from_slice::<&RawValue>(line).is_ok();
        let problem = if is_json {
            Problem::NoRequest
        } else {
            Problem::NoJson
        };
        rejected(problem, error.to_string())
    })?;
    let Envelope {
        jsonrpc,
        id,
        method,
        params,
    } = envelope;
    let rejected = |problem, error: String| Rejected {
        id: Some(id.clone()),
        problem,
        error,
    };
    if jsonrpc != JSON_RPC {
        let error = format!("jsonrpc is {jsonrpc:?}, not {JSON_RPC:?}");
        return Err(rejected(Problem::NoRequest, error));
    }
    let params = params.map_or("{}", RawValue::get);
    match Call::of(&method, params) {
        Some(_) if !params.starts_with('{') => {
            let error = format!("{method}: parameters are an object, by name");
            Err(rejected(Problem::BadParams, error))
        }
        None => {
            let error = format!(
                "no method {method:?}; there are {}",
                Call::METHODS.join(", ")
            );
            Err(rejected(Problem::NoMethod, error))
        }
        Some(Err(error)) => Err(rejected(Problem::BadParams, format!("{method}: {error}"))),
        Some(Ok(call)) => Ok(Incoming { id, call }),
    }
}

/// A request as a line, with its end.
pub fn encode_request(request: &Incoming) -> String {
    let value = serde_json::json!({
        "jsonrpc": JSON_RPC,
        "id": request.id,
        "method": request.call.method(),
        "params": request.call.params(),
    });
    format!("{value}\n")
}

#[derive(Serialize, Deserialize)]
struct Notification {
    jsonrpc: String,
    method: String,
    params: Happened,
}

#[derive(Serialize, Deserialize)]
struct Happened {
    request: Id,
    #[serde(flatten)]
    event: Event,
}

/// An event of a request as a line, with its end.
pub fn encode_event(request: &Id, event: &Event) -> String {
    let notification = Notification {
        jsonrpc: JSON_RPC.into(),
        method: "event".into(),
        params: Happened {
            request: request.clone(),
            event: event.clone(),
        },
    };
    let line = serde_json::to_string(&notification).expect("an event is plain data");
    format!("{line}\n")
}

#[derive(Serialize, Deserialize)]
struct Response<'l> {
    jsonrpc: String,
    id: Option<Id>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    result: Option<&'l RawValue>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<ErrorObject>,
}

#[derive(Serialize, Deserialize)]
struct ErrorObject {
    code: i32,
    message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    data: Option<Failed>,
}

/// A response as a line, with its end.
pub fn encode(id: &Id, result: &Result<Box<RawValue>, Box<Failed>>) -> String {
    let response = Response {
        jsonrpc: JSON_RPC.into(),
        id: Some(id.clone()),
        result: result.as_deref().ok(),
        error: result.as_ref().err().map(|failed| ErrorObject {
            code: Problem::Failed.code(),
            message: failed.error.clone(),
            data: Some(failed.as_ref().clone()),
        }),
    };
    let line = serde_json::to_string(&response).expect("a response is plain data");
    format!("{line}\n")
}

impl Rejected {
    /// It as a line of a response, with its end.
    pub fn encode(&self) -> String {
        let response = Response {
            jsonrpc: JSON_RPC.into(),
            id: self.id.clone(),
            result: None,
            error: Some(ErrorObject {
                code: self.problem.code(),
                message: self.error.clone(),
                data: None,
            }),
        };
        let line = serde_json::to_string(&response).expect("a response is plain data");
        format!("{line}\n")
    }
}

/// What a client hears.
#[derive(Clone, Debug)]
pub enum Outgoing {
    /// Something happened while a request was worked on.
    Event {
        /// Which request.
        request: Id,
        /// What.
        event: Event,
    },
    /// A request is done.
    Done {
        /// Which.
        id: Id,
        /// Its result, as JSON.
        result: String,
    },
    /// A request failed.
    Failed {
        /// Which, where that could be found out.
        id: Option<Id>,
        /// The code.
        code: i32,
        /// What is wrong, for people.
        message: String,
        /// Why it failed, if it was done.
        failed: Option<Box<Failed>>,
    },
}

impl Outgoing {
    /// Decodes a line of a server.
    ///
    /// # Errors
    /// When it is none that this version of the protocol has.
    pub fn decode(line: &[u8]) -> serde_json::Result<Self> {
        if let Ok(Notification { params, .. }) = serde_json::from_slice(line) {
            let Happened { request, event } = params;
            return Ok(Self::Event { request, event });
        }
        let Response {
            id, result, error, ..
        } = serde_json::from_slice(line)?;
        match (id, result, error) {
            (Some(id), Some(result), None) => Ok(Self::Done {
                id,
                result: result.get().to_owned(),
            }),
            (id, None, Some(error)) => Ok(Self::Failed {
                id,
                code: error.code,
                message: error.message,
                failed: error.data.map(Box::new),
            }),
            _ => Err(serde::de::Error::custom("neither a result nor an error")),
        }
    }
}

/// The result of `hello`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hi {
    /// The version that is spoken from now on.
    pub version: u32,
    /// Surmise's own version.
    pub surmise: String,
    /// The methods that there are.
    pub methods: Vec<String>,
}

/// The result of `diff`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiffResult {
    /// The domain's name.
    pub name: String,
    /// What changed, in the order in which it happened.
    pub changes: Vec<ChangeRow>,
    /// What is held until the commit. Output is below no path: with `paths`, it is empty.
    pub held: Vec<HeldRow>,
    /// Changes that no patch holds, where there is one.
    pub left_out: Vec<LeftOutRow>,
}

/// A change that no patch holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOutRow {
    /// Its path, for people.
    pub path: String,
    /// Why, for people.
    pub reason: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_comes_back_as_it_was() {
        let calls = [
            Call::List,
            Call::Hello(super::super::Hello { versions: vec![1] }),
            Call::Run(Box::new(super::super::Run {
                command: vec!["true".into(), crate::Text(vec![0xff])],
                directory: "/".into(),
                ..super::super::Run::default()
            })),
        ];
        for (number, call) in calls.into_iter().enumerate() {
            let id = Id::Number(number as i64);
            let request = Incoming { id, call };
            let line = encode_request(&request);
            assert_eq!(decode(line.trim_end().as_bytes()), Ok(request));
        }
    }

    const ENVELOPES: [(&str, Problem, Option<i64>); 11] = [
        ("", Problem::NoJson, None),
        ("{", Problem::NoJson, None),
        (
            r#"{"jsonrpc": "2.0", "id": 1, "meth"#,
            Problem::NoJson,
            None,
        ),
        ("[]", Problem::NoRequest, None),
        ("7", Problem::NoRequest, None),
        (r#"["2.0", 1, "list"]"#, Problem::NoRequest, None),
        (
            r#"[{"jsonrpc": "2.0", "id": 1, "method": "list"}]"#,
            Problem::NoRequest,
            None,
        ),
        (
            r#"{"jsonrpc": "2.0", "method": "list"}"#,
            Problem::NoRequest,
            None,
        ),
        (
            r#"{"jsonrpc": "2.0", "id": 1.5, "method": "list"}"#,
            Problem::NoRequest,
            None,
        ),
        (
            r#"{"jsonrpc": "1.0", "id": 1, "method": "list"}"#,
            Problem::NoRequest,
            Some(1),
        ),
        (
            r#"{"jsonrpc": "2.0", "id": 1, "method": "list", "x": 1}"#,
            Problem::NoRequest,
            Some(1),
        ),
    ];

    const PARAMS: [(&str, &str, Problem); 8] = [
        ("lisst", "{}", Problem::NoMethod),
        ("list", "[]", Problem::BadParams),
        ("status", "{}", Problem::BadParams),
        ("status", r#"["t"]"#, Problem::BadParams),
        ("status", r#"{"name": "t", "x": 1}"#, Problem::BadParams),
        (
            "status",
            r#"{"name": "t", "name": "u"}"#,
            Problem::BadParams,
        ),
        (
            "decide",
            r#"{"name": "t", "answer": "Allow"}"#,
            Problem::BadParams,
        ),
        (
            "run",
            r#"{"command": ["true"], "directory": "/", "torture": [1, 0.5]}"#,
            Problem::BadParams,
        ),
    ];

    #[test]
    fn what_is_not_known_is_refused_with_its_code_and_its_request() {
        let refused = |line: &str| {
            let rejected = decode(line.as_bytes()).expect_err(line);
            (rejected.problem, rejected.id)
        };
        for (line, problem, id) in ENVELOPES {
            assert_eq!(refused(line), (problem, id.map(Id::Number)), "{line}");
        }
        for (method, params, problem) in PARAMS {
            let line = format!(
                r#"{{"jsonrpc": "2.0", "id": 1, "method": "{method}", "params": {params}}}"#
            );
            assert_eq!(refused(&line), (problem, Some(Id::Number(1))), "{line}");
        }
        let long = " ".repeat(LINE_MAX + 1);
        assert_eq!(refused(&long), (Problem::NoRequest, None));
    }

    #[test]
    fn an_event_names_its_request() {
        let event = Event::Committed { changes: 2 };
        let line = encode_event(&Id::Text("a".into()), &event);
        let wanted = r#"{"jsonrpc":"2.0","method":"event","params":{"request":"a","event":"committed","changes":2}}"#;
        assert_eq!(line.trim_end(), wanted);
        let Ok(Outgoing::Event {
            request,
            event: told,
        }) = Outgoing::decode(line.as_bytes())
        else {
            panic!("{line}");
        };
        assert_eq!((request, told), (Id::Text("a".into()), event));
    }
}
