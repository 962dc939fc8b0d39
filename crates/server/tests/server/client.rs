//! A client without a mount: the pure state machine over a real connection.

use std::collections::HashMap;
use std::io::{ErrorKind, Read};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use surmise_lower::Timestamp;
use surmise_remote::client::{self, Effect, Event, Intent, Lost, Request, Response, Token};
use surmise_remote::errno::Errno;
use surmise_remote::frame::{ClientKey, encode};
use surmise_remote::lost::LostChanges;
use surmise_remote::object::{Attributes, Name, ObjectId};
use surmise_remote::operation::Place;
use surmise_remote::server::Moment;
use surmise_wire::{Line, Reader, Writer};

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(60);

pub struct Client {
    pub pure: client::Client,
    export: PathBuf,
    stream: Option<UnixStream>,
    wire: (Reader, Writer),
    store: HashMap<ObjectId, Vec<u8>>,
    answers: HashMap<Token, Result<Response, Errno>>,
    next: u64,
    pub lost: Vec<(LostChanges, Lost)>,
    /// What the kernel would know.
    pub known: Vec<ObjectId>,
    has_left: bool,
}

impl Client {
    pub fn new(export: &Path, key: u8) -> Self {
        Self {
            pure: client::Client::new(ClientKey([key; 16])),
            export: export.to_owned(),
            stream: None,
            wire: wire(),
            store: HashMap::new(),
            answers: HashMap::new(),
            next: 0,
            lost: Vec::new(),
            known: Vec::new(),
            has_left: false,
        }
    }

    /// Uses a connection that somebody else has made.
    pub fn use_stream(&mut self, stream: UnixStream) {
        self.stream = Some(stream);
        self.wire = wire();
        self.event(Event::Connected);
    }

    pub fn root(&mut self) -> ObjectId {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(root) = self.pure.root() {
                return root;
            }
            assert!(Instant::now() < deadline, "no welcome");
            self.pump();
        }
    }

    /// A call of a program, to its end.
    pub fn call(&mut self, request: Request) -> Result<Response, Errno> {
        let token = self.begin(request);
        self.finish(token)
    }

    /// Waits for the answer to a call that was begun.
    pub fn finish(&mut self, token: Token) -> Result<Response, Errno> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(answer) = self.answers.remove(&token) {
                if let Ok(Response::Entry(Some((object, _))) | Response::Object(object, _)) =
                    &answer
                {
                    self.known.push(*object);
                }
                return answer;
            }
            assert!(Instant::now() < deadline, "no answer to {token:?}");
            self.pump();
        }
    }

    pub fn change(&mut self, intent: Intent) -> Result<Response, Errno> {
        self.call(Request::Change(intent))
    }

    pub fn sync(&mut self) -> Result<Response, Errno> {
        let losses = self.pure.losses();
        self.call(Request::Sync(losses))
    }

    /// What a path below the root leads to.
    pub fn find(&mut self, path: &Path) -> Result<Option<(ObjectId, Attributes)>, Errno> {
        let root = self.root();
        let mut at = match self.call(Request::Attributes(root))? {
            Response::Object(id, attributes) => (id, attributes),
            other => panic!("{other:?}"),
        };
        for part in path {
            match self.call(Request::Lookup(at.0, name(part)))? {
                Response::Entry(Some(found)) => at = found,
                Response::Entry(None) => return Ok(None),
                other => panic!("{other:?}"),
            }
        }
        Ok(Some(at))
    }

    /// The place that a path names.
    pub fn place(&mut self, path: &Path) -> Result<Place, Errno> {
        let parent = path.parent().expect("not the root");
        let (parent, _) = self.find(parent)?.ok_or(Errno::NOENT)?;
        let name = name(path.file_name().expect("not the root"));
        Ok(Place { parent, name })
    }

    pub fn read(&mut self, object: ObjectId, offset: u64, length: u32) -> Result<Vec<u8>, Errno> {
        let request = Request::Read {
            object,
            offset,
            length,
        };
        let Response::Stored(length) = self.call(request)? else {
            panic!("not bytes");
        };
        let (offset, length) = (offset as usize, length as usize);
        let mut stored = self.store.get(&object).cloned().unwrap_or_default();
        stored.resize(stored.len().max(offset + length), 0);
        Ok(stored[offset..offset + length].to_vec())
    }

    /// The kernel forgets an object.
    pub fn forget(&mut self, object: ObjectId) {
        self.known.retain(|known| *known != object);
        self.event(Event::Forgotten(object));
    }

    /// Ends for good.
    pub fn leave(mut self) {
        self.event(Event::Leave);
        let deadline = Instant::now() + PATIENCE;
        while !self.has_left {
            assert!(Instant::now() < deadline, "it does not end");
            self.pump();
        }
    }

    pub fn begin(&mut self, request: Request) -> Token {
        self.next += 1;
        let token = Token(self.next);
        self.event(Event::Called(token, request, time()));
        token
    }

    /// Takes what comes, waiting a little for it.
    pub fn pump(&mut self) {
        if self.stream.is_none() {
            match UnixStream::connect(self.export.join(".surmise/socket")) {
                Ok(stream) => self.use_stream(stream),
                Err(_) => {
                    std::thread::sleep(Duration::from_millis(5));
                    return self.event(Event::Tick);
                }
            }
        }
        let wait = self.pure.wakes_at();
        let wait = wait.map_or(50, |at| at.0.saturating_sub(now().0).clamp(1, 50));
        let Some(stream) = &mut self.stream else {
            return;
        };
        let timeout = Some(Duration::from_millis(wait));
        stream.set_read_timeout(timeout).expect("a timeout");
        let mut chunk = vec![0; 1 << 16];
        match stream.read(&mut chunk) {
            Ok(0) => self.cut(),
            Ok(length) => {
                let mut came = &chunk[..length];
                // What is left of a connection that a message has ended is of no use to the next one.
                while self.stream.is_some()
                    && let Some(message) = self.wire.0.message(&mut came).expect("a message")
                {
                    self.event(Event::Received(message));
                }
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                self.event(Event::Tick);
            }
            Err(_) => self.cut(),
        }
    }

    pub fn cut(&mut self) {
        self.stream = None;
        self.wire = wire();
        self.event(Event::Cut);
    }

    fn event(&mut self, event: Event) {
        let mut effects = Vec::new();
        self.pure.event(now(), event, &mut effects);
        for effect in effects {
            self.effect(effect);
        }
    }

    fn effect(&mut self, effect: Effect) {
        match effect {
            Effect::Send(message) => {
                let mut bytes = Vec::new();
                encode(&message, &mut bytes).expect("a short message");
                if let Some(stream) = &mut self.stream {
                    // The end of the connection is seen by the reader.
                    let _ = self.wire.1.write(&bytes, stream, |_| {});
                }
            }
            Effect::Answer(token, answer) => {
                self.answers.insert(token, answer);
            }
            Effect::Store {
                object,
                offset,
                data,
            } => {
                let stored = self.store.entry(object).or_default();
                let (offset, end) = (offset as usize, offset as usize + data.len());
                stored.resize(stored.len().max(end), 0);
                stored[offset..end].copy_from_slice(&data);
            }
            Effect::Resize(object, size) => {
                let stored = self.store.entry(object).or_default();
                stored.resize(size as usize, 0);
            }
            Effect::Discard(object) => {
                self.store.remove(&object);
            }
            Effect::Invalidate(number, _) => self.event(Event::Invalidated(number)),
            Effect::Suspend | Effect::Parted(_) | Effect::LocksLost(_) | Effect::Keep { .. } => {}
            Effect::Restore(_, piece) => panic!("{piece:?}: nothing was kept"),
            Effect::Left => self.has_left = true,
            Effect::Reconnect => self.cut(),
            Effect::Lost(operations, why) => self.lost.push((operations, why)),
        }
    }
}

/// Both ends of a new connection, which compress as on a line to a server far away.
pub fn wire() -> (Reader, Writer) {
    let line = Arc::new(Line::default());
    line.answered_after(Duration::from_millis(30));
    (Reader::new(Arc::clone(&line)), Writer::new(line))
}

pub fn name(part: &std::ffi::OsStr) -> Name {
    use std::os::unix::ffi::OsStrExt;
    Name::try_from(part.as_bytes()).expect("a name")
}

fn now() -> Moment {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Moment(time.tv_sec as u64 * 1000 + time.tv_nsec as u64 / 1_000_000)
}

pub fn time() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let since = since.expect("after 1970");
    Timestamp {
        seconds: since.as_secs() as i64,
        nanoseconds: since.subsec_nanos(),
    }
}
