//! Clients that come by TLS: each has a thread that lets it in, and then copies between it and a connection like any other.

use std::collections::BTreeSet;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use surmise_linux::users::{name_of, number_of};
use surmise_tls::{NotAccepted, PORT, Terms, Users};

use crate::input::Input;

/// How many clients there may be, with those on their way in, and how many of these: they have shown nothing yet.
const CLIENTS_MAX: usize = 512;
const COMING_MAX: usize = 64;

/// How long a client may take to hear what was said to it last.
const LINGER: Duration = Duration::from_secs(10);

const PAUSE: Duration = Duration::from_millis(50);

/// Where clients come by TLS, and which are let in.
pub struct Listener {
    sockets: Vec<TcpListener>,
    terms: Arc<Terms>,
    tell: Arc<Tell>,
}

/// Told of each client that is not let in, a line each.
type Tell = dyn Fn(String) + Send + Sync;

/// Why no client can come.
#[derive(Debug, thiserror::Error)]
#[error("listen on {address}: {source}")]
pub struct ListenError {
    address: String,
    source: io::Error,
}

impl ListenError {
    /// The fix.
    pub fn hint(&self) -> Option<String> {
        match self.source.kind() {
            io::ErrorKind::AddrInUse => Some("--listen ADDRESS:PORT names another port".into()),
            io::ErrorKind::AddrNotAvailable => {
                Some("an address of this machine is expected, or [::] for all of them".into())
            }
            io::ErrorKind::PermissionDenied => Some("ports below 1024 are root's".into()),
            _ => None,
        }
    }
}

impl Listener {
    /// Listens on these addresses, each with or without a port. `tell` is told of each client that is not let in.
    ///
    /// # Errors
    /// [`ListenError`].
    pub fn bind(
        addresses: &[String],
        terms: Terms,
        tell: impl Fn(String) + Send + Sync + 'static,
    ) -> Result<Self, ListenError> {
        let bound = addresses.iter().map(|address| {
            bind(address).map_err(|source| ListenError {
                address: address.clone(),
                source,
            })
        });
        Ok(Self {
            sockets: bound.collect::<Result<_, _>>()?,
            terms: Arc::new(terms),
            tell: Arc::new(tell),
        })
    }

    /// Where clients come.
    ///
    /// # Errors
    /// When the sockets do not tell.
    pub fn addresses(&self) -> io::Result<Vec<SocketAddr>> {
        self.sockets.iter().map(TcpListener::local_addr).collect()
    }

    /// Brings clients to the server from now on.
    pub(crate) fn start(self, inputs: &Sender<Input>) -> io::Result<Arc<Clients>> {
        let clients = Arc::new(Clients::default());
        for socket in self.sockets {
            let door = Door {
                terms: Arc::clone(&self.terms),
                tell: Arc::clone(&self.tell),
                clients: Arc::clone(&clients),
                inputs: inputs.clone(),
            };
            let accept = move || door.accept_all(&socket);
            thread::Builder::new().name("listen".into()).spawn(accept)?;
        }
        Ok(clients)
    }
}

fn bind(address: &str) -> io::Result<TcpListener> {
    let with_port = format!("{address}:{PORT}");
    let found = address
        .to_socket_addrs()
        .or_else(|_| with_port.to_socket_addrs())?;
    TcpListener::bind(&found.collect::<Vec<_>>()[..])
}

/// One socket, and what is needed to let somebody in by it.
#[derive(Clone)]
struct Door {
    terms: Arc<Terms>,
    tell: Arc<Tell>,
    clients: Arc<Clients>,
    inputs: Sender<Input>,
}

impl Door {
    fn accept_all(&self, socket: &TcpListener) {
        for stream in socket.incoming() {
            match stream {
                Ok(stream) => self.accept(stream),
                // Too many files are open; one may be closed.
                Err(_) => thread::sleep(PAUSE),
            }
        }
    }

    fn accept(&self, stream: TcpStream) {
        // One more would wait no better. It finds its connection closed, and may come again.
        let Some(coming) = self.clients.come() else {
            return;
        };
        let door = self.clone();
        let serve = move || door.serve(stream, coming);
        // Without a thread it is closed, too.
        let _ = thread::Builder::new().name("tls".into()).spawn(serve);
    }

    fn serve(&self, stream: TcpStream, coming: Coming) {
        let peer = stream.peer_addr();
        let there = self.clients.enter();
        let accepted = self.terms.accept(stream, there.is_none());
        drop(coming);
        if let Some(error) = self.terms.unfit() {
            (self.tell)(format!(
                "the certificates have changed and cannot be used, so those of before hold: {error}"
            ));
        }
        match (accepted, there) {
            (Ok(accepted), Some(_there)) => {
                // Without a server the other end is closed, and the copying ends.
                let _ = self.inputs.send(Input::Connected(accepted.plain));
                // A connection that breaks is one that ends.
                let _ = accepted.copying.run(LINGER);
            }
            // Ports are looked at all the time.
            (Err(NotAccepted::Silent | NotAccepted::Io(_)) | Ok(_), _) => {}
            (Err(why), _) => {
                let peer = peer.map_or_else(|_| "a client".into(), |peer| peer.to_string());
                (self.tell)(format!("{peer} is not let in: {why}"));
            }
        }
    }
}

/// How many clients are there and on their way.
#[derive(Debug, Default)]
pub(crate) struct Clients {
    counts: Mutex<Counts>,
    fewer: Condvar,
}

#[derive(Debug, Default)]
struct Counts {
    coming: usize,
    there: usize,
}

impl Clients {
    fn come(self: &Arc<Self>) -> Option<Coming> {
        self.count(|counts| {
            let may = counts.coming < COMING_MAX;
            counts.coming += usize::from(may);
            may
        })
        .then(|| Coming(Arc::clone(self)))
    }

    fn enter(self: &Arc<Self>) -> Option<There> {
        self.count(|counts| {
            let may = counts.there < CLIENTS_MAX;
            counts.there += usize::from(may);
            may
        })
        .then(|| There(Arc::clone(self)))
    }

    /// Waits until all have gone, at most for so long.
    pub(crate) fn wait(&self, at_most: Duration) {
        let until = Instant::now() + at_most;
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        while counts.there > 0 {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let waited = self.fewer.wait_timeout(counts, left);
            counts = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    // Numbers are whole whatever their last holder did.
    fn count<T>(&self, change: impl FnOnce(&mut Counts) -> T) -> T {
        change(&mut self.counts.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// One that is on its way in, counted until this is dropped.
struct Coming(Arc<Clients>);

impl Drop for Coming {
    fn drop(&mut self) {
        self.0.count(|counts| counts.coming -= 1);
    }
}

/// One that is there, counted likewise.
struct There(Arc<Clients>);

impl Drop for There {
    fn drop(&mut self) {
        self.0.count(|counts| counts.there -= 1);
        self.0.fewer.notify_all();
    }
}

/// A user that this server does not act for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadUser {
    /// It is another one.
    #[error("this server runs as {runs_as}, and cannot act for {user}")]
    Other {
        /// As whom the server runs.
        runs_as: String,
        /// For whom it was to act.
        user: String,
    },
    /// Root is not given away by a name alone.
    #[error("this server runs as root, and no certificate is named that stands for root")]
    Root,
}

impl BadUser {
    /// The fix.
    pub fn hint(&self) -> String {
        match self {
            Self::Other { user, .. } => {
                format!("a server acts for one user: start another one as {user}, on another port")
            }
            Self::Root => "start it as the user whose files it serves; or name the certificates that may do everything: --user NAME=root".into(),
        }
    }
}

/// Which certificates stand for the user that this process runs as: those of that user's name, and of these pairs of a certificate's
/// name and a user the first, where the second is this one. For root only such pairs do.
///
/// # Errors
/// [`BadUser`].
pub fn users(pairs: &[(String, String)]) -> Result<Users, BadUser> {
    let own = rustix::process::geteuid();
    let name = name_of(own.as_raw());
    let runs_as = name.clone().unwrap_or_else(|| own.as_raw().to_string());
    let own_name = name.filter(|_| !own.is_root());
    let mut names: BTreeSet<_> = own_name.into_iter().collect();
    for (certificate, user) in pairs {
        let number = number_of(user).or_else(|| user.parse().ok());
        if number != Some(own.as_raw()) {
            let user = user.clone();
            return Err(BadUser::Other { runs_as, user });
        }
        names.insert(certificate.clone());
    }
    match names.is_empty() && own.is_root() {
        true => Err(BadUser::Root),
        false => Ok(Users { runs_as, names }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_acts_for_its_own_user_alone() {
        let own = rustix::process::geteuid();
        let pair = |name: &str, user: &str| (name.to_owned(), user.to_owned());
        let number = own.as_raw().to_string();
        let named = users(&[pair("ann", &number)]).expect("its own user");
        assert!(named.names.contains("ann"));
        let other = if own.is_root() { "1" } else { "root" };
        let refused = users(&[pair("ann", &number), pair("bob", other)]);
        assert!(matches!(refused, Err(BadUser::Other { .. })), "{refused:?}");
        if own.is_root() {
            assert!(!named.names.contains("root"));
            assert_eq!(users(&[]).expect_err("root"), BadUser::Root);
        } else if let Some(name) = name_of(own.as_raw()) {
            assert!(users(&[]).expect("its own name").names.contains(&name));
        }
    }

    #[test]
    fn no_more_come_than_there_is_room_for() {
        let clients = Arc::new(Clients::default());
        let mut all: Vec<_> = (0..COMING_MAX).map(|_| clients.come()).collect();
        assert!(all.iter().all(Option::is_some) && clients.come().is_none());
        all.pop();
        assert!(clients.come().is_some());
        let there: Vec<_> = (0..CLIENTS_MAX).map(|_| clients.enter()).collect();
        assert!(there.iter().all(Option::is_some) && clients.enter().is_none());
        drop(there);
        clients.wait(Duration::from_secs(60));
        assert!(clients.enter().is_some());
    }
}
