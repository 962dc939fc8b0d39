//! What may block, on threads of its own.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use super::deliver::Plan;
use super::interface::Message;
use super::slab::Key;
use crate::resolver::Resolver;

/// How many threads resolve names and ask nameservers at once.
const THREADS_MAX: usize = 32;

/// How long a nameserver has for each step over TCP.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);

/// The asker for the addresses of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Asker {
    /// A SYN.
    Connection(Key),
    /// Datagrams.
    Datagrams(String),
}

/// Starts helper threads; their results come as messages.
#[derive(Debug)]
pub(crate) struct Jobs {
    mailer: mailbox::Sender<Message>,
    pub(crate) resolver: Resolver,
    running: Arc<AtomicUsize>,
}

impl Jobs {
    pub(crate) fn new(mailer: mailbox::Sender<Message>, resolver: Resolver) -> Self {
        Self {
            mailer,
            resolver,
            running: Arc::new(AtomicUsize::new(0)),
        }
    }

    /// Resolves a name as the host does.
    pub(crate) fn resolve(&self, name: &str, asker: Asker) {
        let (name, resolver) = (name.to_owned(), self.resolver.clone());
        self.start(move |free| {
            let result = if free {
                resolver.lookup(&name)
            } else {
                Err(busy())
            };
            Message::Resolved { asker, result }
        });
    }

    /// Asks a nameserver over TCP.
    pub(crate) fn query(&self, server: SocketAddr, query: Vec<u8>, key: Key) {
        self.start(move |free| {
            let result = if free {
                exchange(server, &query)
            } else {
                Err(busy())
            };
            Message::Answered { key, result }
        });
    }

    /// Sends what is held. There is one such thread at a time: the loop sees to that.
    pub(crate) fn deliver(&self, plan: Plan) -> io::Result<()> {
        let mailer = self.mailer.clone();
        let thread = thread::Builder::new().name("surmise-send".into());
        thread.spawn(move || plan.carry_out(&mailer)).map(drop)
    }

    /// Runs `work` on a thread; tells it when there are too many, and then does it here.
    fn start(&self, work: impl FnOnce(bool) -> Message + Send + 'static) {
        let running = Arc::clone(&self.running);
        let mailer = self.mailer.clone();
        if running.fetch_add(1, Ordering::Relaxed) >= THREADS_MAX {
            running.fetch_sub(1, Ordering::Relaxed);
            mailer.send(work(false));
            return;
        }
        thread::spawn(move || {
            let message = work(true);
            running.fetch_sub(1, Ordering::Relaxed);
            mailer.send(message);
        });
    }
}

fn busy() -> io::Error {
    io::ErrorKind::ResourceBusy.into()
}

fn exchange(server: SocketAddr, query: &[u8]) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect_timeout(&server, ANSWER_LIMIT)?;
    stream.set_read_timeout(Some(ANSWER_LIMIT))?;
    stream.set_write_timeout(Some(ANSWER_LIMIT))?;
    let length = u16::try_from(query.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    stream.write_all(&[&length.to_be_bytes()[..], query].concat())?;
    let mut length = [0; 2];
    stream.read_exact(&mut length)?;
    let mut answer = vec![0; u16::from_be_bytes(length).into()];
    stream.read_exact(&mut answer)?;
    Ok(answer)
}
use surmise_linux::mailbox;
