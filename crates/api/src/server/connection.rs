//! One client.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::process::Signal;
use serde_json::value::{RawValue, to_raw_value};

use super::lines::Lines;
use super::operations::{self, NotBegun};
use crate::protocol::{
    Answered, Call, Hello, Hi, Id, Incoming, Input, Problem, Rejected, SignalName, SignalParams,
    VERSION, decode, encode, encode_event,
};
use crate::results::Failed;
use crate::running::Running;
use crate::surmise::Surmise;

/// How many requests are worked on at a time.
const REQUESTS_MAX: usize = 32;

/// How much waits for a client to read it, in bytes; about. While it is more, nothing is read of it, and commands
/// wait with their output.
const WAITING_MAX: usize = 1 << 20;

/// How much is read or written at a time, in bytes. What can be written at all takes that much without waiting.
const PIECE_MAX: usize = 4096;

struct Connection {
    surmise: Surmise,
    input: OwnedFd,
    output: OwnedFd,
    lines: Lines,
    /// What the client is to read.
    waiting: VecDeque<u8>,
    requests: BTreeMap<Id, Request>,
    is_greeted: bool,
    /// Whether the client may ask for more.
    is_open: bool,
}

/// A request that is worked on.
struct Request {
    running: Running,
    /// Whether it has a command.
    has_command: bool,
    is_cancelled: bool,
}

/// Serves one client, whose requests come by `input` and who is answered by `output`, until it has gone or asks for no
/// more and has been answered. To be called by a process with one thread.
///
/// # Errors
/// When the client cannot be heard.
pub fn serve(surmise: Surmise, input: OwnedFd, output: OwnedFd) -> io::Result<()> {
    let mut connection = Connection {
        surmise,
        input,
        output,
        lines: Lines::default(),
        waiting: VecDeque::new(),
        requests: BTreeMap::new(),
        is_greeted: false,
        is_open: true,
    };
    let served = connection.run();
    // This process ends, and the kernel tells them.
    std::mem::forget(connection.requests);
    served
}

/// What is ready.
enum Ready {
    Input,
    Output,
    /// A request, perhaps.
    Request,
}

impl Connection {
    fn run(&mut self) -> io::Result<()> {
        while self.is_open || !self.requests.is_empty() || !self.waiting.is_empty() {
            for ready in self.wait()? {
                match ready {
                    None => return Ok(()),
                    Some(Ready::Input) => self.hear()?,
                    Some(Ready::Output) => {
                        if !self.write()? {
                            return Ok(());
                        }
                    }
                    Some(Ready::Request) => {}
                }
            }
            self.pass_on()?;
        }
        Ok(())
    }

    fn has_room(&self) -> bool {
        self.waiting.len() < WAITING_MAX
    }

    /// What is ready; `None` in it where the client has gone.
    fn wait(&self) -> io::Result<Vec<Option<Ready>>> {
        let listens = self.is_open && self.has_room();
        let mut sources: Vec<(BorrowedFd<'_>, PollFlags)> = Vec::new();
        let wanted = match self.waiting.is_empty() {
            true => PollFlags::empty(),
            false => PollFlags::OUT,
        };
        sources.push((self.output.as_fd(), wanted));
        if listens {
            sources.push((self.input.as_fd(), PollFlags::IN));
        }
        if self.has_room() {
            let requests = self.requests.values();
            sources.extend(requests.flat_map(|request| request.running.sources()));
        }
        let mut events: Vec<_> = sources
            .iter()
            .map(|(fd, flags)| PollFd::from_borrowed_fd(*fd, *flags))
            .collect();
        match rustix::event::poll(&mut events, None) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(Vec::new()),
            Err(errno) => return Err(errno.into()),
        }
        let revents = |at: usize| events[at].revents();
        let mut ready = Vec::new();
        if revents(0).intersects(PollFlags::HUP | PollFlags::ERR) {
            return Ok(vec![None]);
        }
        if revents(0).contains(PollFlags::OUT) {
            ready.push(Some(Ready::Output));
        }
        if listens && !revents(1).is_empty() {
            ready.push(Some(Ready::Input));
        }
        ready.push(Some(Ready::Request));
        Ok(ready)
    }

    /// Reads what the client says.
    fn hear(&mut self) -> io::Result<()> {
        let mut piece = [0; 16 * PIECE_MAX];
        let length = match rustix::io::read(&self.input, &mut piece) {
            Ok(length) => length,
            Err(Errno::INTR | Errno::AGAIN) => return Ok(()),
            Err(errno) => return Err(errno.into()),
        };
        self.lines.take_in(&piece[..length]);
        loop {
            match self.lines.take_line() {
                Ok(Some(line)) => self.take(&line),
                Ok(None) if length == 0 => {
                    if let Err(rejected) = self.lines.end() {
                        self.say(&rejected.encode());
                    }
                    self.close();
                    return Ok(());
                }
                Ok(None) => return Ok(()),
                Err(rejected) => {
                    self.say(&rejected.encode());
                    self.close();
                    return Ok(());
                }
            }
        }
    }

    /// The client asks for no more. Nobody answers questions then, and commands find the end of their input.
    fn close(&mut self) {
        self.is_open = false;
        for request in self.requests.values_mut() {
            request.running.answer_no_more();
            request.running.close_input();
        }
    }

    fn say(&mut self, line: &str) {
        self.waiting.extend(line.as_bytes());
    }

    /// False where nobody reads any more.
    fn write(&mut self) -> io::Result<bool> {
        let (first, _) = self.waiting.as_slices();
        let piece = &first[..first.len().min(PIECE_MAX)];
        match rustix::io::write(&self.output, piece) {
            Ok(written) => drop(self.waiting.drain(..written)),
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(Errno::PIPE | Errno::CONNRESET) => return Ok(false),
            Err(errno) => return Err(errno.into()),
        }
        Ok(true)
    }

    /// Passes on what happens to requests, as far as there is room.
    fn pass_on(&mut self) -> io::Result<()> {
        let ids: Vec<_> = self.requests.keys().cloned().collect();
        for id in ids {
            while self.has_room() {
                let request = self.requests.get_mut(&id).expect("it is worked on");
                match request.running.try_event()? {
                    Some(event) => self.say(&encode_event(&id, &event)),
                    None if request.running.is_over() => {
                        let result = request.result()?;
                        self.requests.remove(&id);
                        self.say(&encode(&id, &result));
                        break;
                    }
                    None => break,
                }
            }
        }
        Ok(())
    }

    /// Takes a line of the client.
    fn take(&mut self, line: &[u8]) {
        let answer = match decode(line) {
            Ok(Incoming { id, call }) => self
                .begin(&id, call)
                .map(|result| result.map(|result| encode(&id, &Ok(result)))),
            Err(rejected) => Err(rejected),
        };
        match answer {
            Ok(Some(line)) => self.say(&line),
            Ok(None) => {}
            Err(rejected) => self.say(&rejected.encode()),
        }
    }

    /// The result of a request, where that is done at once.
    fn begin(&mut self, id: &Id, call: Call) -> Result<Option<Box<RawValue>>, Rejected> {
        let rejected = |problem, error: String| Rejected {
            id: Some(id.clone()),
            problem,
            error,
        };
        match call {
            Call::Hello(hello) => {
                return self
                    .greet(&hello)
                    .map(Some)
                    .map_err(|(problem, error)| rejected(problem, error));
            }
            _ if !self.is_greeted => {
                let error = "the first request is `hello`".into();
                return Err(rejected(Problem::NoHello, error));
            }
            _ if self.requests.contains_key(id) => {
                let error = "another request with this id is worked on".into();
                return Err(rejected(Problem::NoRequest, error));
            }
            Call::Answer(_) | Call::Input(_) | Call::Signal(_) | Call::Cancel(_) => {
                let done = self.steer(call);
                done.map_err(|(problem, error)| rejected(problem, error))?;
                return Ok(Some(
                    to_raw_value(&serde_json::json!({})).expect("plain data"),
                ));
            }
            _ if self.requests.len() >= REQUESTS_MAX => {
                let error = format!("{REQUESTS_MAX} requests are worked on");
                return Err(rejected(Problem::TooMuch, error));
            }
            _ => {}
        }
        let has_command = matches!(call, Call::Run(_) | Call::Shell(_));
        match operations::begin(&self.surmise, call) {
            Ok(running) => {
                let request = Request {
                    running,
                    has_command,
                    is_cancelled: false,
                };
                self.requests.insert(id.clone(), request);
                Ok(None)
            }
            Err(NotBegun::BadParams(error)) => Err(rejected(Problem::BadParams, error)),
            Err(NotBegun::Failed(failed)) => {
                self.say(&encode(id, &Err(failed)));
                Ok(None)
            }
        }
    }

    fn greet(&mut self, hello: &Hello) -> Result<Box<RawValue>, (Problem, String)> {
        if self.is_greeted {
            return Err((Problem::NoHello, "`hello` was said already".into()));
        }
        if !hello.versions.contains(&VERSION) {
            let error = format!("this is version {VERSION} of the protocol, and no other");
            return Err((Problem::NoVersion, error));
        }
        self.is_greeted = true;
        let hi = Hi {
            version: VERSION,
            surmise: env!("CARGO_PKG_VERSION").into(),
            methods: Call::METHODS.map(String::from).to_vec(),
        };
        Ok(to_raw_value(&hi).expect("plain data"))
    }

    /// What is done to another request.
    fn steer(&mut self, call: Call) -> Result<(), (Problem, String)> {
        let (of, needs_command) = match &call {
            Call::Answer(Answered { request, .. })
            | Call::Input(Input { request, .. })
            | Call::Signal(SignalParams { request, .. }) => (request, true),
            Call::Cancel(cancel) => (&cancel.request, false),
            call => unreachable!("{} is done by a process of its own", call.method()),
        };
        let nobody = |error: &str| (Problem::NoSuchRequest, error.to_owned());
        let request = self.requests.get_mut(of);
        let request = request.ok_or_else(|| nobody("no such request is worked on"))?;
        if needs_command && !request.has_command {
            return Err(nobody("that request has no command"));
        }
        match call {
            Call::Answer(Answered {
                question, answer, ..
            }) => request
                .running
                .answer(question, answer)
                .map_err(|_| nobody("nobody waits for the answer")),
            Call::Input(input) => request.read(&input),
            Call::Signal(SignalParams { signal, .. }) => {
                request.running.signal(match signal {
                    SignalName::Hup => Signal::HUP,
                    SignalName::Int => Signal::INT,
                    SignalName::Quit => Signal::QUIT,
                    SignalName::Term => Signal::TERM,
                });
                Ok(())
            }
            _ => {
                request.is_cancelled = true;
                request.running.signal(Signal::HUP);
                Ok(())
            }
        }
    }
}

impl Request {
    fn read(&mut self, Input { data, end, .. }: &Input) -> Result<(), (Problem, String)> {
        if !data.as_bytes().is_empty() {
            self.running
                .write(data.as_bytes())
                .map_err(|error| match error.kind() {
                    io::ErrorKind::WouldBlock => (
                        Problem::TooMuch,
                        "the command has not read what waits".into(),
                    ),
                    _ => (
                        Problem::NoSuchRequest,
                        "the command reads nothing from the client".into(),
                    ),
                })?;
        }
        if *end {
            self.running.close_input();
        }
        Ok(())
    }

    fn result(&mut self) -> io::Result<Result<Box<RawValue>, Box<Failed>>> {
        let result = self.running.take_result()?;
        Ok(match result {
            // It had no signal taken over, and ended by that.
            Err(failed) if self.is_cancelled && failed.code == "process_killed" => {
                Err(Box::new(Failed {
                    code: "cancelled".into(),
                    error: "it was cancelled".into(),
                    ..*failed
                }))
            }
            result => result,
        })
    }
}
