//! The thread that has the state machine, from the first look at the directory to the last record.

use std::collections::HashMap;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};
use rustix::fs::Mode;
use rustix::process::{Resource, Signal};
use surmise_remote::frame::{Reason, ToClient};
use surmise_remote::server::{Effect, Event, Link, Moment, Server};
use surmise_sys::signals::{self, SignalFd};

use crate::budget::{Backlog, Budget};
use crate::clock::now;
use crate::connection::Connection;
use crate::disk::{Disk, Order};
use crate::error::ServeError;
use crate::input::Input;
use crate::patience::Ending;
use crate::recorder::{Entry, Recorder, bytes_of};
use crate::start::{Started, start};
use crate::state::State;
use crate::tls::Listener;
use crate::watcher;

/// How a directory is served.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// For how long a client that is not heard of keeps what others wait for.
    pub lease: Duration,
    /// Whether to end when nobody needs the server: no client is known for a minute, or none was connected for ten.
    pub ends_alone: bool,
}

/// How long the log becomes at least before a new one is begun, in bytes.
const LOG_BYTES_MAX: u64 = 64 << 20;

/// How many inputs are taken before what follows from them is sent.
const INPUTS_MAX: usize = 256;

/// How many bytes of messages may be in memory that are not dealt with.
pub(crate) const BUDGET: usize = 128 << 20;

/// How many bytes may wait for the log, before messages have to wait for it.
const BACKLOG_MAX: usize = 128 << 20;

/// The stack of the thread that walks directories, which may be nested deeply.
const DISK_STACK: usize = 32 << 20;

const UNKNOWN_MAX_MS: u64 = 60_000;
const UNCONNECTED_MAX_MS: u64 = 600_000;

/// How long clients may take to hear what was said to them last.
const LAST_WORDS_MAX: Duration = Duration::from_secs(2);

const STOPS: [Signal; 2] = [Signal::INT, Signal::TERM];

/// Serves the directory at `path` until a signal asks to stop. `ready` is called when clients can come.
///
/// From here on the process has no umask, and SIGINT and SIGTERM stay blocked.
///
/// # Errors
/// When it can't be served, or not any longer. What was promised is in the log, and the next server makes it.
///
/// # Panics
/// Never; the threads of the server may, and the server then ends with an error.
pub fn serve(path: &Path, options: Options, ready: impl FnOnce()) -> Result<(), ServeError> {
    serve_also(path, options, None, ready)
}

/// As [`serve`], also to clients that come by TLS.
///
/// # Errors
/// As [`serve`].
///
/// # Panics
/// As [`serve`].
pub fn serve_also(
    path: &Path,
    options: Options,
    tls: Option<Listener>,
    ready: impl FnOnce(),
) -> Result<(), ServeError> {
    let state = State::open(path)?;
    let _lock = state.lock()?;
    rustix::process::umask(Mode::empty());
    allow_files();
    // Every thread is to leave them to one.
    signals::block(&STOPS).map_err(ServeError::at(path))?;
    let mut started = start(&state, options)?;
    let socket = state.path().join("socket");
    let listener = state.listen().map_err(ServeError::at(&socket))?;
    let (inputs, received) = channel();
    listen(listener, inputs.clone()).map_err(ServeError::at(state.path()))?;
    let noticing = watcher::start(inputs.clone());
    started.directory.listen(noticing);
    wait_for_signals(inputs.clone()).map_err(ServeError::at(state.path()))?;
    let clients = match tls {
        Some(tls) => Some(tls.start(&inputs).map_err(ServeError::at(state.path()))?),
        None => None,
    };
    ready();
    let mut shell = Shell::start(started, inputs, &state, options)?;
    let outcome = shell.run(&received);
    state.stop_listening();
    let ended = shell.end(outcome.is_ok(), &received);
    if let Some(clients) = clients {
        // What was said to them last is with threads of their own.
        clients.wait(LAST_WORDS_MAX);
    }
    ended?;
    outcome
}

/// Lets the process have as many open files as it may. Each connection takes three, and one by TLS two more.
fn allow_files() {
    let mut limit = rustix::process::getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // With fewer it goes, too.
    let _ = rustix::process::setrlimit(Resource::Nofile, limit);
}

fn listen(listener: UnixListener, inputs: Sender<Input>) -> std::io::Result<()> {
    let accept = move || {
        for stream in listener.incoming() {
            let sent = match stream {
                Ok(stream) => inputs.send(Input::Connected(stream)),
                // Too many files are open; one may be closed.
                Err(_) => {
                    thread::sleep(Duration::from_millis(50));
                    Ok(())
                }
            };
            if sent.is_err() {
                return;
            }
        }
    };
    thread::Builder::new().name("listen".into()).spawn(accept)?;
    Ok(())
}

fn wait_for_signals(inputs: Sender<Input>) -> std::io::Result<()> {
    let signals = SignalFd::new(&STOPS)?;
    let wait = move || {
        loop {
            let mut events = [PollFd::new(&signals, PollFlags::IN)];
            let polled = rustix::event::poll(&mut events, None);
            if polled.is_ok() && matches!(signals.next(), Ok(Some(_))) {
                let _ = inputs.send(Input::Stop);
                return;
            }
        }
    };
    thread::Builder::new().name("signals".into()).spawn(wait)?;
    Ok(())
}

/// The state machine, and the ways to carry out its effects.
struct Shell {
    server: Server,
    connections: HashMap<Link, Connection>,
    next_link: u64,
    inputs: Sender<Input>,
    entries: Option<Sender<Entry>>,
    orders: Option<Sender<Order>>,
    threads: Vec<JoinHandle<()>>,
    budget: Arc<Budget>,
    backlog: Arc<Backlog>,
    /// What is to be given back of the budget when the backlog is short again.
    owed: usize,
    /// A new log has been asked for and not begun.
    is_condensing: bool,
    /// How long the log becomes before a new one is begun.
    log_bytes_max: u64,
    ending: Ending,
    path: std::path::PathBuf,
    options: Options,
    /// Since when no client is known, or none is connected.
    unknown_since: Option<Moment>,
    unconnected_since: Option<Moment>,
}

impl Shell {
    fn start(
        started: Started,
        inputs: Sender<Input>,
        state: &State,
        options: Options,
    ) -> Result<Self, ServeError> {
        let (entries, recorded) = channel();
        let (orders, ordered) = channel();
        let (backlog, ending) = (Arc::new(Backlog::default()), Ending::default());
        let log_bytes = started.log.length();
        let recorder = Recorder {
            log: started.log,
            begins: started.begins,
            entries: recorded,
            inputs: inputs.clone(),
            disk: orders.clone(),
            backlog: backlog.clone(),
            ending: ending.clone(),
        };
        let (directory, answers) = (started.directory, inputs.clone());
        let disk = Disk::new(directory, ordered, answers, ending.clone());
        let failed = ServeError::at(state.path());
        let threads = || {
            let making = thread::Builder::new()
                .name("disk".into())
                .stack_size(DISK_STACK);
            let log = thread::Builder::new().name("log".into());
            Ok(vec![
                log.spawn(move || recorder.run())?,
                making.spawn(move || disk.run())?,
            ])
        };
        Ok(Self {
            server: started.server,
            connections: HashMap::new(),
            next_link: 0,
            inputs,
            entries: Some(entries),
            orders: Some(orders),
            threads: threads().map_err(failed)?,
            budget: Arc::new(Budget::new(BUDGET)),
            backlog,
            owed: 0,
            is_condensing: false,
            log_bytes_max: LOG_BYTES_MAX.max(log_bytes.saturating_mul(2)),
            ending,
            path: state.path().to_owned(),
            options,
            unknown_since: None,
            unconnected_since: None,
        })
    }

    /// Serves until a signal asks to stop, or until nobody needs the server.
    fn run(&mut self, received: &Receiver<Input>) -> Result<(), ServeError> {
        self.tell(Event::Tick);
        self.flush();
        loop {
            let input = match self.wakes_at() {
                None => received.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(at) => {
                    let wait = at.0.saturating_sub(now().0).max(1);
                    received.recv_timeout(Duration::from_millis(wait))
                }
            };
            match input {
                Ok(Input::Stop) => return Ok(()),
                Ok(input) => {
                    self.take(input)?;
                    if self.take_more(received)? {
                        return Ok(());
                    }
                }
                Err(RecvTimeoutError::Timeout) => {
                    self.tell(Event::Tick);
                    self.flush();
                }
                // The shell itself can send.
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
            if self.is_needless() {
                return Ok(());
            }
        }
    }

    /// Takes what else has come, and then sends what is to be sent; whether a signal asks to stop. To wake a writer for each
    /// message takes longer than to write it.
    fn take_more(&mut self, received: &Receiver<Input>) -> Result<bool, ServeError> {
        let mut stops = false;
        for input in received.try_iter().take(INPUTS_MAX) {
            stops |= matches!(input, Input::Stop);
            self.take(input)?;
        }
        self.flush();
        Ok(stops)
    }

    /// Hands on what was to be sent.
    fn flush(&mut self) {
        for connection in self.connections.values_mut() {
            connection.flush();
        }
    }

    fn take(&mut self, input: Input) -> Result<(), ServeError> {
        match input {
            Input::Connected(stream) => self.connected(stream),
            Input::Message(link, message, bytes) => {
                if self.connections.contains_key(&link) {
                    self.tell(Event::Received(link, message));
                }
                self.owed += bytes;
            }
            Input::Garbled(link) => {
                if let Some(mut connection) = self.connections.remove(&link) {
                    connection.send(&ToClient::Farewell(Reason::Breach));
                    connection.finish();
                    self.tell(Event::Closed(link));
                }
            }
            Input::Closed(link) => {
                if let Some(connection) = self.connections.remove(&link) {
                    connection.cut();
                    self.tell(Event::Closed(link));
                }
            }
            Input::Event(event) => self.tell(event),
            Input::Answers(events) => events.into_iter().for_each(|event| self.tell(event)),
            Input::Look(done) => self.order(Order::Look(done)),
            Input::LogIs(bytes) => {
                if bytes >= self.log_bytes_max && !self.is_condensing {
                    self.is_condensing = true;
                    self.condense();
                }
            }
            Input::LogBegun(bytes) => {
                self.is_condensing = false;
                // What it begins with can be long by itself.
                self.log_bytes_max = LOG_BYTES_MAX.max(bytes.saturating_mul(2));
            }
            Input::Stuck(source) => {
                self.tell(Event::Broken);
                let path = self.path.clone();
                return Err(ServeError::Stuck { path, source });
            }
            Input::LogFailed(error) => {
                self.tell(Event::Broken);
                return Err(ServeError::log(self.path.join("log"), error));
            }
            Input::Stop => {}
        }
        if self.backlog.bytes() < BACKLOG_MAX && self.owed > 0 {
            self.budget.give(std::mem::take(&mut self.owed));
        }
        Ok(())
    }

    fn connected(&mut self, stream: std::os::unix::net::UnixStream) {
        self.next_link += 1;
        let link = Link(self.next_link);
        let started = Connection::start(link, stream, self.inputs.clone(), self.budget.clone());
        // A client that finds its connection closed makes another one.
        if let Ok(connection) = started {
            self.connections.insert(link, connection);
        }
    }

    fn tell(&mut self, event: Event) {
        let mut effects = Vec::new();
        self.server.event(now(), event, &mut effects);
        for effect in effects {
            self.carry_out(effect);
        }
    }

    fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::Send(link, message) => {
                let connection = self.connections.get_mut(&link);
                if connection.is_some_and(|connection| !connection.send(&message))
                    && let Some(connection) = self.connections.remove(&link)
                {
                    connection.cut();
                    // Not at once: the effects that are left are to be carried out first.
                    let _ = self.inputs.send(Input::Event(Event::Closed(link)));
                }
            }
            Effect::Close(link) => {
                if let Some(connection) = self.connections.remove(&link) {
                    connection.finish();
                }
            }
            Effect::Record(number, record) => {
                self.backlog.more(bytes_of(&record));
                self.record(Entry::Record(number, record));
            }
            Effect::Load(object, urgency) => self.order(Order::Load(object, urgency)),
            Effect::Hurry(object) => self.order(Order::Hurry(object)),
            Effect::Read {
                client,
                request,
                object,
                offset,
                length,
                urgency,
                kept,
            } => self.order(Order::Read {
                client,
                request,
                object,
                offset,
                length,
                urgency,
                kept,
            }),
            Effect::Space { client, request } => self.order(Order::Space { client, request }),
            Effect::Drop(object) => self.order(Order::Drop(object)),
        }
    }

    // A thread that does not take what it is sent has said why, and the server ends.
    fn record(&self, entry: Entry) {
        if let Some(entries) = &self.entries {
            let _ = entries.send(entry);
        }
    }

    fn order(&self, order: Order) {
        if let Some(orders) = &self.orders {
            let _ = orders.send(order);
        }
    }

    fn condense(&self) {
        self.record(Entry::Condensed {
            records: self.server.condensed(),
            has_clients: self.server.knows_clients(),
        });
    }

    fn wakes_at(&self) -> Option<Moment> {
        let alone = [
            self.unknown_since.map(|since| since.0 + UNKNOWN_MAX_MS),
            self.unconnected_since
                .map(|since| since.0 + UNCONNECTED_MAX_MS),
        ];
        let alone = alone.into_iter().flatten().map(Moment);
        self.server.wakes_at().into_iter().chain(alone).min()
    }

    fn is_needless(&mut self) -> bool {
        if !self.options.ends_alone {
            return false;
        }
        let now = now();
        let since = |before: Option<Moment>, holds: bool| holds.then(|| before.unwrap_or(now));
        self.unknown_since = since(self.unknown_since, !self.server.knows_clients());
        self.unconnected_since = since(self.unconnected_since, self.connections.is_empty());
        let for_ms = |since: Option<Moment>| since.map_or(0, |since| now.0 - since.0);
        for_ms(self.unknown_since) >= UNKNOWN_MAX_MS
            || for_ms(self.unconnected_since) >= UNCONNECTED_MAX_MS
    }

    /// Ends all threads, and leaves a short log if all went well.
    fn end(&mut self, is_well: bool, received: &Receiver<Input>) -> Result<(), ServeError> {
        self.ending.begin();
        for (_, connection) in self.connections.drain() {
            connection.finish();
        }
        if is_well {
            self.condense();
        }
        self.entries = None;
        let mut threads = std::mem::take(&mut self.threads).into_iter();
        let recorder = threads.next();
        let mut is_whole = recorder.is_none_or(|thread| thread.join().is_ok());
        self.orders = None;
        is_whole &= threads.all(|thread| thread.join().is_ok());
        if !is_whole {
            return Err(ServeError::at(&self.path)(std::io::Error::other(
                "a thread of the server has panicked",
            )));
        }
        for input in received.try_iter() {
            match input {
                Input::Stuck(source) if is_well => {
                    let path = self.path.clone();
                    return Err(ServeError::Stuck { path, source });
                }
                Input::LogFailed(error) if is_well => {
                    return Err(ServeError::log(self.path.join("log"), error));
                }
                _ => {}
            }
        }
        Ok(())
    }
}
