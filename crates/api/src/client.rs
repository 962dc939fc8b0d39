//! A client of the protocol, for Rust programs that have threads, or that talk to another machine's or user's
//! server.

use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde::de::DeserializeOwned;
use surmise_kept::Answer;

use crate::event::Event;
use crate::protocol::{
    Answered, Call, Commit, Diff, DiffResult, Hello, Hi, Id, Incoming, Named, Outgoing, Run,
    VERSION, encode_request,
};
use crate::results::{AbortedDomain, CommitResult, DomainSummary, Failed, RunResult};

/// A client of a server.
///
/// Requests may be sent one after the other without waiting ([`Self::send`], [`Self::heard`]); the other functions
/// wait for what they ask for, and keep what is heard meanwhile of other requests for [`Self::heard`].
pub struct Client {
    reader: BufReader<Box<dyn Read + Send>>,
    writer: Option<Box<dyn Write + Send>>,
    /// A server of this client's own.
    server: Option<Child>,
    last: i64,
    /// Heard, and not what was waited for.
    kept: VecDeque<Heard>,
}

/// What a client hears.
#[derive(Clone, Debug)]
pub enum Heard {
    /// Something happened while a request was worked on.
    Event {
        /// Which.
        request: Id,
        /// What.
        event: Event,
    },
    /// A request is done.
    Done {
        /// Which.
        request: Id,
        /// Its result as JSON, or why it has none.
        result: Result<String, Box<ClientError>>,
    },
}

/// Why a client does not get what it asked for.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ClientError {
    /// The server cannot be reached, or can no more.
    #[error("{what}: {error}")]
    Unreachable {
        /// What was tried.
        what: &'static str,
        /// Why it failed.
        error: String,
    },
    /// The server has gone.
    #[error("the server has gone")]
    Gone,
    /// The server says what this version of the protocol does not have.
    #[error("the server is not understood: {0}")]
    Strange(String),
    /// The server does not take the request.
    #[error("{message} ({code})")]
    Rejected {
        /// A code of JSON-RPC, or of this protocol.
        code: i32,
        /// Why not.
        message: String,
    },
    /// It was done, and failed.
    #[error("{}", .0.error)]
    Failed(Box<Failed>),
}

impl Client {
    /// A client of the server that listens at `path`.
    ///
    /// # Errors
    /// When there is none, or it speaks another version.
    pub fn connect(path: &Path) -> Result<Self, ClientError> {
        let stream = UnixStream::connect(path).map_err(unreachable("connect to the server"))?;
        let reader = stream
            .try_clone()
            .map_err(unreachable("connect to the server"))?;
        Self::of(Box::new(reader), Box::new(stream), None)
    }

    /// A client of a server of its own: `program` is the `surmise` command. It ends with this client.
    ///
    /// # Errors
    /// When the program cannot be started, or speaks another version.
    pub fn spawn(program: &Path) -> Result<Self, ClientError> {
        let mut server = Command::new(program)
            .args(["api", "--stdio"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(unreachable("start the server"))?;
        let reader = server.stdout.take().expect("it is piped");
        let writer = server.stdin.take().expect("it is piped");
        Self::of(Box::new(reader), Box::new(writer), Some(server))
    }

    fn of(
        reader: Box<dyn Read + Send>,
        writer: Box<dyn Write + Send>,
        server: Option<Child>,
    ) -> Result<Self, ClientError> {
        let mut client = Self {
            reader: BufReader::new(reader),
            writer: Some(writer),
            server,
            last: 0,
            kept: VecDeque::new(),
        };
        let versions = vec![VERSION];
        client.call::<Hi>(Call::Hello(Hello { versions }), &mut |_| None)?;
        Ok(client)
    }

    /// Sends a request. What comes of it is [heard](Self::heard).
    ///
    /// # Errors
    /// When the server has gone.
    pub fn send(&mut self, call: Call) -> Result<Id, ClientError> {
        self.last += 1;
        let id = Id::Number(self.last);
        let line = encode_request(&Incoming {
            id: id.clone(),
            call,
        });
        let writer = self.writer.as_mut().ok_or(ClientError::Gone)?;
        writer
            .write_all(line.as_bytes())
            .and_then(|()| writer.flush())
            .map_err(unreachable("send a request"))?;
        Ok(id)
    }

    /// What is heard next; waits for it.
    ///
    /// # Errors
    /// When the server has gone, or is not understood.
    pub fn heard(&mut self) -> Result<Heard, ClientError> {
        match self.kept.pop_front() {
            Some(heard) => Ok(heard),
            None => self.hear(),
        }
    }

    fn hear(&mut self) -> Result<Heard, ClientError> {
        let mut line = Vec::new();
        let length = self.reader.read_until(b'\n', &mut line);
        if length.map_err(unreachable("hear from the server"))? == 0 {
            return Err(ClientError::Gone);
        }
        let outgoing = Outgoing::decode(&line);
        match outgoing.map_err(|error| ClientError::Strange(error.to_string()))? {
            Outgoing::Event { request, event } => Ok(Heard::Event { request, event }),
            Outgoing::Done { id, result } => Ok(Heard::Done {
                request: id,
                result: Ok(result),
            }),
            Outgoing::Failed {
                id,
                code,
                message,
                failed,
            } => {
                let error = match failed {
                    Some(failed) => ClientError::Failed(failed),
                    None => ClientError::Rejected { code, message },
                };
                match id {
                    Some(request) => Ok(Heard::Done {
                        request,
                        result: Err(Box::new(error)),
                    }),
                    None => Err(error),
                }
            }
        }
    }

    /// Sends a request and waits for its result. `on_event` hears what happens meanwhile; to a question it returns
    /// the answer.
    ///
    /// # Errors
    /// As [`ClientError`] says.
    pub fn call<T: DeserializeOwned>(
        &mut self,
        call: Call,
        on_event: &mut dyn FnMut(&Event) -> Option<Answer>,
    ) -> Result<T, ClientError> {
        let id = self.send(call)?;
        let mut answers = Vec::new();
        loop {
            match self.hear()? {
                Heard::Event { request, event } if request == id => {
                    let answer = on_event(&event);
                    if let (Some(answer), Some(question)) = (answer, event.question()) {
                        answers.push(self.send(Call::Answer(Answered {
                            request,
                            question,
                            answer,
                        }))?);
                    }
                }
                Heard::Done { request, result } if request == id => {
                    let result = result.map_err(|error| *error)?;
                    return serde_json::from_str(&result)
                        .map_err(|error| ClientError::Strange(error.to_string()));
                }
                Heard::Done { request, .. } if answers.contains(&request) => {}
                heard => self.kept.push_back(heard),
            }
        }
    }

    /// All domains.
    ///
    /// # Errors
    /// As [`ClientError`] says.
    pub fn list(&mut self) -> Result<Vec<DomainSummary>, ClientError> {
        self.call(Call::List, &mut |_| None)
    }

    /// One domain.
    ///
    /// # Errors
    /// As [`ClientError`] says.
    pub fn status(&mut self, name: &str) -> Result<DomainSummary, ClientError> {
        self.call(Call::Status(named(name)), &mut |_| None)
    }

    /// Runs a command to its end.
    ///
    /// # Errors
    /// As [`ClientError`] says.
    pub fn run(
        &mut self,
        run: Run,
        on_event: &mut dyn FnMut(&Event) -> Option<Answer>,
    ) -> Result<RunResult, ClientError> {
        self.call(Call::Run(Box::new(run)), on_event)
    }

    /// What a domain changed, and what it holds.
    ///
    /// # Errors
    /// As [`ClientError`] says.
    pub fn diff(&mut self, name: &str) -> Result<DiffResult, ClientError> {
        let diff = Diff {
            name: name.into(),
            ..Diff::default()
        };
        self.call(Call::Diff(diff), &mut |_| None)
    }

    /// Makes real what a domain did.
    ///
    /// # Errors
    /// As [`ClientError`] says.
    pub fn commit(&mut self, commit: Commit) -> Result<CommitResult, ClientError> {
        self.call(Call::Commit(commit), &mut |_| None)
    }

    /// Throws a domain away.
    ///
    /// # Errors
    /// As [`ClientError`] says.
    pub fn abort(&mut self, name: &str) -> Result<AbortedDomain, ClientError> {
        self.call(Call::Abort(named(name)), &mut |_| None)
    }
}

fn named(name: &str) -> Named {
    Named { name: name.into() }
}

fn unreachable(what: &'static str) -> impl FnOnce(io::Error) -> ClientError {
    move |error| ClientError::Unreachable {
        what,
        error: error.to_string(),
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // The server sees that its client has gone when both ends are closed.
        self.writer = None;
        self.reader = BufReader::new(Box::new(io::empty()));
        if let Some(server) = &mut self.server {
            let _ = server.wait();
        }
    }
}
