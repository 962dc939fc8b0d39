//! The client and what surrounds it, behind one lock: what is kept of files, the calls that wait, what is to be sent, and
//! what the kernel knows.
//!
//! A call whose leases are there is answered with the lock held once, and wakes nobody.

mod effects;
mod link;
mod locks;
mod losing;
mod waiting;

use std::collections::HashMap;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use surmise_remote::client::{Client, Effect, Event, Request, Response, Token};
use surmise_remote::errno::Errno;
use surmise_remote::frame::{ClientKey, Reason, ToClient};
use surmise_remote::object::{Attributes, Name, ObjectId};
use surmise_remote::server::Moment;
use surmise_remote::tree::User;
use surmise_wire::{Line, Traffic};

use crate::cache::{Cache, News};
use crate::clock;
use crate::connection::NoConnection;
use crate::kernel::Forget;
use crate::status::{Kept, Status};
use crate::store::Store;
use link::Link;
use locks::LockCalls;
use losing::Lost;
pub use losing::{GIVEN_UP, ToKeep};
pub use waiting::Caller;
use waiting::{Outcome, Own, Waiting, Wants};

/// The client of one mount.
pub struct Shell {
    state: Mutex<State>,
    /// There is something to send, or the connection has ended.
    to_send: Condvar,
    /// Time makes a difference earlier than it did.
    earlier: Condvar,
    /// The server has welcomed the client, has said that it never will, or knows it no more.
    turned: Condvar,
    /// A call for a lock was answered, or waits.
    locks_change: Condvar,
    kernel: Sender<Forget>,
    /// After how long without a connection calls fail.
    soft: Option<Duration>,
    traffic: Arc<Traffic>,
}

struct State {
    client: Client,
    store: Store,
    /// What is kept for a later mount, if anything is.
    cache: Option<Cache>,
    sources: Sources,
    waiting: HashMap<Token, Arc<Waiting>>,
    lock_calls: LockCalls,
    /// How often the kernel was told of an object, less how often it has let go of it.
    references: HashMap<ObjectId, u64>,
    outgoing: Vec<u8>,
    link: Link,
    effects: Vec<Effect>,
    next_token: u64,
    wakes_at: Option<Moment>,
    has_left: bool,
    /// When the client was told to leave.
    ending_since: Option<Instant>,
    /// The client has ended without the server.
    is_given_up: bool,
    /// What was kept then.
    kept: Option<Kept>,
    /// Why there was never a connection.
    gave_up: Option<NoConnection>,
    /// Why the server wants nothing more of this client.
    parted: Option<Reason>,
    lost: Lost,
}

/// Where bytes of files came from.
#[derive(Default)]
struct Sources {
    /// From the server.
    fetched_bytes: u64,
    /// From the cache, when the server had said that the file has them.
    reused_bytes: u64,
}

/// Why the server has not welcomed the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unwelcome {
    /// There is no connection, for this reason.
    NoConnection(NoConnection),
    /// The server has said why.
    Refused(Reason),
}

impl Shell {
    /// A client that has no connection yet.
    pub fn new(
        key: ClientKey,
        (store, cache): (Store, Option<Cache>),
        kernel: Sender<Forget>,
        soft: Option<Duration>,
    ) -> Self {
        let state = State {
            client: Client::new(key),
            store,
            cache,
            sources: Sources::default(),
            waiting: HashMap::new(),
            lock_calls: LockCalls::default(),
            references: HashMap::new(),
            outgoing: Vec::new(),
            link: Link {
                number: 0,
                is_up: false,
                since: Instant::now(),
                breaker: None,
                line: Arc::default(),
                asked: None,
            },
            effects: Vec::new(),
            next_token: 0,
            wakes_at: None,
            has_left: false,
            ending_since: None,
            is_given_up: false,
            kept: None,
            gave_up: None,
            parted: None,
            lost: Lost::default(),
        };
        Self {
            state: Mutex::new(state),
            to_send: Condvar::new(),
            earlier: Condvar::new(),
            turned: Condvar::new(),
            locks_change: Condvar::new(),
            kernel,
            soft,
            traffic: Arc::default(),
        }
    }

    /// Waits until the server has welcomed the client, and tells the root and whose rights the server has.
    ///
    /// # Errors
    /// Why the server does not take the client.
    pub fn welcomed(&self) -> Result<(ObjectId, Option<User>), Unwelcome> {
        let mut state = self.lock();
        loop {
            if let Some(root) = state.client.root() {
                return Ok((root, state.client.user().cloned()));
            }
            if state.is_over() {
                let gave_up = state.gave_up.clone().map(Unwelcome::NoConnection);
                let parted = state.parted.map(Unwelcome::Refused);
                if let Some(why) = parted.or(gave_up) {
                    return Err(why);
                }
            }
            state = wait(&self.turned, state);
        }
    }

    /// No connection comes to be, for this reason.
    pub fn give_up(&self, why: NoConnection) {
        self.lock().gave_up = Some(why);
        self.turned.notify_all();
    }

    /// Calls, and waits for the answer.
    pub fn call(&self, request: Request, caller: Caller) -> Result<Response, Errno> {
        self.ask(request, Wants::Answer, caller)
    }

    /// Calls for an object that the kernel is then told of.
    pub fn call_for_entry(&self, request: Request, caller: Caller) -> Result<Response, Errno> {
        self.ask(request, Wants::Reference, caller)
    }

    /// Reads bytes of a file, and returns how many: fewer at its end alone.
    pub fn read(
        &self,
        object: ObjectId,
        offset: u64,
        buffer: &mut [u8],
        caller: Caller,
    ) -> Result<usize, Errno> {
        let request = Request::Read {
            object,
            offset,
            length: u32::try_from(buffer.len()).unwrap_or(u32::MAX),
        };
        match self.ask(request, Wants::Bytes(buffer), caller)? {
            Response::Stored(length) => Ok(length as usize),
            _ => Err(Errno::IO),
        }
    }

    fn ask(&self, request: Request, wants: Wants<'_>, caller: Caller) -> Result<Response, Errno> {
        let mut state = self.lock();
        let mut own = self.begin(&mut state, request, wants);
        let token = own.token;
        if let Some(answer) = own.answer.take() {
            return answer;
        }
        let waiting = Arc::new(Waiting::new(&own, caller));
        state.waiting.insert(token, Arc::clone(&waiting));
        drop(state);
        let Outcome { response, data } = self.wait_for(token, &waiting)?;
        if let Wants::Bytes(buffer) = &mut own.wants {
            buffer[..data.len()].copy_from_slice(&data);
        }
        Ok(response)
    }

    /// Tells the client of a call, which may be answered by that.
    fn begin<'b>(&self, state: &mut State, request: Request, wants: Wants<'b>) -> Own<'b> {
        state.next_token += 1;
        let token = Token(state.next_token);
        let mut own = Own::new(token, &request, wants);
        let event = Event::Called(token, request, clock::time_of_day());
        self.tell(state, event, Some(&mut own));
        own
    }

    fn wait_for(&self, token: Token, waiting: &Waiting) -> Result<Outcome, Errno> {
        loop {
            if let Some(answer) = waiting.wait() {
                return answer;
            }
            let callers_end = waiting.callers_end();
            let mut state = self.lock();
            let errno = if callers_end {
                Errno::INTR
            } else if self.gives_up(&state) {
                Errno::IO
            } else {
                continue;
            };
            if state.waiting.remove(&token).is_some() {
                self.tell(&mut state, Event::Withdrawn(token), None);
                return Err(errno);
            }
        }
    }

    fn gives_up(&self, state: &State) -> bool {
        let away = (!state.link.is_up).then(|| state.link.since.elapsed());
        self.soft.is_some_and(|soft| away >= Some(soft)) || state.is_over()
    }

    /// A signal has come for the caller of this request. Whether its call waits.
    pub fn interrupted(&self, request: u64) -> bool {
        let mut state = self.lock();
        let mut waiting = state.waiting.values();
        waiting.any(|waiting| waiting.interrupted(request))
            || self.lock_interrupted(&mut state, request)
    }

    /// What a name in a directory leads to, if that is known without asking, and whether the kernel did not know the object. Then
    /// the kernel is told of it.
    pub fn glance(&self, directory: ObjectId, name: &Name) -> Option<(ObjectId, Attributes, bool)> {
        let mut state = self.lock();
        let (object, attributes) = state.client.glance(clock::now(), directory, name)?;
        let is_new = !state.references.contains_key(&object);
        if is_new {
            state.references.insert(object, 1);
        }
        Some((object, attributes, is_new))
    }

    /// As a call that looks a name up, but only if that leads to something and the answer is there.
    pub fn look_up_known(
        &self,
        directory: ObjectId,
        name: &Name,
    ) -> Option<(ObjectId, Attributes)> {
        let mut state = self.lock();
        let found = state.client.glance(clock::now(), directory, name)?;
        *state.references.entry(found.0).or_default() += 1;
        Some(found)
    }

    /// The kernel has let go of references to an object.
    pub fn forget(&self, object: ObjectId, references: u64) {
        let mut state = self.lock();
        let Some(count) = state.references.get_mut(&object) else {
            return;
        };
        *count = count.saturating_sub(references);
        if *count == 0 {
            state.references.remove(&object);
            self.tell(&mut state, Event::Forgotten(object), None);
        }
    }

    /// Whether the kernel was told of an object, and has not let go of it. It has let go of all when the mount has ended.
    pub fn has_told(&self, object: ObjectId) -> bool {
        let state = self.lock();
        state.ending_since.is_none() && state.references.contains_key(&object)
    }

    /// How often changes were lost so far.
    pub fn losses(&self) -> u64 {
        self.lock().client.losses()
    }

    /// The kernel has forgotten what it was told to.
    pub fn invalidated(&self, numbers: impl IntoIterator<Item = u64>) {
        let mut state = self.lock();
        for number in numbers {
            self.tell(&mut state, Event::Invalidated(number), None);
        }
    }

    /// There is a new connection, which `breaker` ends. Returns its number and its line.
    pub fn connected(&self, breaker: Box<dyn FnMut() + Send>) -> (u64, Arc<Line>) {
        let mut state = self.lock();
        state.link.number += 1;
        state.link.breaker = Some(breaker);
        state.link.line = Arc::new(Line::new(Arc::clone(&self.traffic)));
        state.link.asked = None;
        state.outgoing.clear();
        if state.is_given_up {
            state.break_connection();
        }
        self.tell(&mut state, Event::Connected, None);
        (state.link.number, Arc::clone(&state.link.line))
    }

    /// Messages came.
    pub fn received(&self, messages: impl IntoIterator<Item = ToClient>) {
        let mut state = self.lock();
        for message in messages {
            if matches!(message, ToClient::Welcome(_)) {
                state.link.is_up = true;
                state.link.since = Instant::now();
                state.parted = None;
                self.turned.notify_all();
            }
            state.link.answers(&message);
            if let ToClient::Data { data, .. } = &message {
                state.sources.fetched_bytes += data.len() as u64;
            }
            self.tell(&mut state, Event::Received(message), None);
        }
    }

    /// Pieces of files were put into the cache, or have gone from there.
    pub fn cache_has(&self, news: News) {
        let event = match news {
            News::Kept(pieces) => Event::Kept(pieces),
            News::Unkept(pieces) => Event::Unkept(pieces),
        };
        self.tell(&mut self.lock(), event, None);
    }

    /// The connection is gone.
    pub fn cut(&self) {
        let mut state = self.lock();
        state.link.breaker = None;
        if std::mem::take(&mut state.link.is_up) {
            state.link.since = Instant::now();
        }
        state.link.number += 1;
        state.outgoing.clear();
        self.tell(&mut state, Event::Cut, None);
        self.to_send.notify_all();
        self.turned.notify_all();
    }

    /// Waits for bytes that are to go over the connection of this number; `None` when that one has ended.
    pub fn to_send(&self, link: u64) -> Option<Vec<u8>> {
        let mut state = self.lock();
        loop {
            if state.link.number != link {
                return None;
            }
            if !state.outgoing.is_empty() {
                return Some(std::mem::take(&mut state.outgoing));
            }
            if state.has_left {
                return None;
            }
            state = wait(&self.to_send, state);
        }
    }

    /// Tells the client when time alone makes a difference, until it has left.
    pub fn keep_time(&self) {
        let mut state = self.lock();
        while !state.has_left {
            let now = clock::now();
            match state.wakes_at {
                None => state = wait(&self.earlier, state),
                Some(at) if at <= now => self.tell(&mut state, Event::Tick, None),
                Some(at) => {
                    let until = Duration::from_millis(at.0 - now.0);
                    let waited = self.earlier.wait_timeout(state, until);
                    state = waited.unwrap_or_else(PoisonError::into_inner).0;
                }
            }
        }
    }

    /// Ends the client once all its changes are decided, and waits for that.
    pub fn leave(&self) {
        let mut state = self.lock();
        state.ending_since.get_or_insert_with(Instant::now);
        self.interrupt_locks(&mut state);
        self.tell(&mut state, Event::Leave, None);
        while !state.is_over() {
            state = wait(&self.turned, state);
        }
    }

    /// Whether the client has left, or the server wants nothing of it.
    pub fn is_over(&self) -> bool {
        self.lock().is_over()
    }

    /// How the mount is.
    pub fn status(&self) -> Status {
        let state = self.lock();
        Status {
            is_connected: state.link.is_up,
            for_seconds: state.link.since.elapsed().as_secs(),
            undecided_groups: state.client.undecided(),
            undecided_bytes: state.client.undecided_bytes(),
            waiting_calls: state.waiting.len(),
            is_ending: state.ending_since.is_some(),
            lost: state.lost.lines().to_vec(),
            sent: self.traffic.sent(),
            received: self.traffic.received(),
            fetched_bytes: state.sources.fetched_bytes,
            reused_bytes: state.sources.reused_bytes,
            cache_bytes: state.cache.as_ref().map(Cache::bytes),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn is_over(&self) -> bool {
        self.has_left || self.gave_up.is_some() || self.parted.is_some_and(is_final)
    }
}

/// Another connection would come to the same.
fn is_final(reason: Reason) -> bool {
    matches!(reason, Reason::Protocol(_))
}

fn wait<'s>(condition: &Condvar, state: MutexGuard<'s, State>) -> MutexGuard<'s, State> {
    let waited = condition.wait(state);
    waited.unwrap_or_else(PoisonError::into_inner)
}
