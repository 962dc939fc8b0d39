//! A delay line: two network namespaces, near and far, and a thread that carries packets between them and holds
//! each for half of a round trip. It needs no netem, which many kernels are built without.
//!
//! Each end is a TUN device. The kernel gives TCP's data in packets of up to 64 KB, so that the thread has little to
//! do and does not limit what is measured.

use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::num::NonZeroU64;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;

use super::held::{Held, Link};
use super::namespace::Namespace;
use crate::measure::middle;

/// Addresses for documentation, which no network has.
const NEAR: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
/// The address of the far end.
pub const FAR: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);

/// More than any packet has.
const PACKET_MAX: usize = 1 << 17;

/// How many packets are read from one end before the other end has its turn.
const PACKETS_A_TURN: u32 = 64;

/// How long the thread sleeps at most, and so how long its end takes.
const SLEEP_MAX: Duration = Duration::from_millis(50);

/// How many connections the round trip is measured by.
const CONNECTIONS: u32 = 25;

/// How long a connection may take.
const CONNECT_MAX: Duration = Duration::from_secs(10);

/// A line. Both namespaces are gone when this is dropped and no process is left in them.
pub struct Line {
    /// Where clients run.
    pub near: Namespace,
    /// Where servers run.
    pub far: Namespace,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// What the thread that carries packets is told, and tells.
struct Shared {
    link: Mutex<Link>,
    ends: AtomicBool,
    to_far: AtomicU64,
    to_near: AtomicU64,
}

/// How many bytes of IP packets were carried.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Carried {
    /// From the client to the server.
    pub to_far: u64,
    /// From the server to the client.
    pub to_near: u64,
}

/// Of a few connections.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RoundTrip {
    /// The shortest.
    pub least: Duration,
    /// The one in the middle.
    pub median: Duration,
}

impl Carried {
    /// What came since then.
    pub fn since(self, then: Self) -> Self {
        Self {
            to_far: self.to_far - then.to_far,
            to_near: self.to_near - then.to_near,
        }
    }
}

impl Line {
    /// Opens a line with such a link.
    pub fn open(link: Link) -> Result<Self, String> {
        let (near, near_end) = Namespace::new("far", NEAR)?;
        let (far, far_end) = Namespace::new("near", FAR)?;
        let shared = Arc::new(Shared {
            link: Mutex::new(link),
            ends: AtomicBool::new(false),
            to_far: AtomicU64::new(0),
            to_near: AtomicU64::new(0),
        });
        let told = Arc::clone(&shared);
        let thread = thread::Builder::new()
            .name("delay line".to_owned())
            .spawn(move || carry(&near_end, &far_end, &told))
            .map_err(|error| format!("start a thread: {error}"))?;
        Ok(Self {
            near,
            far,
            shared,
            thread: Some(thread),
        })
    }

    /// What happens to packets that come from now on.
    pub fn set(&self, link: Link) {
        *self.shared.link() = link;
    }

    /// Since the line was opened.
    pub fn carried(&self) -> Carried {
        Carried {
            to_far: self.shared.to_far.load(Ordering::Relaxed),
            to_near: self.shared.to_near.load(Ordering::Relaxed),
        }
    }

    /// How long it takes to connect to a port of the far end, which is one round trip.
    pub fn round_trip(&self, port: u16) -> Result<RoundTrip, String> {
        let address = SocketAddr::from((FAR, port));
        self.near.enter(|| {
            let once = |_| {
                let start = Instant::now();
                TcpStream::connect_timeout(&address, CONNECT_MAX)
                    .map(|_| start.elapsed().as_secs_f64())
                    .map_err(|error| format!("connect to {address}: {error}"))
            };
            let taken: Vec<f64> = (0..CONNECTIONS).map(once).collect::<Result<_, _>>()?;
            let least = taken.iter().copied().fold(f64::INFINITY, f64::min);
            Ok(RoundTrip {
                least: Duration::from_secs_f64(least),
                median: Duration::from_secs_f64(middle(taken)),
            })
        })
    }

    /// How many bits a second a program sends to the far end, measured by so many bytes. That is less than the link
    /// carries: headers are not counted, and TCP begins slowly.
    pub fn rate(&self, bytes: usize) -> Result<f64, String> {
        let failed = |error: io::Error| format!("send {bytes} bytes: {error}");
        let listener = self
            .far
            .enter(|| TcpListener::bind((FAR, 0)).map_err(failed))?;
        let address = listener.local_addr().map_err(failed)?;
        let receive = move || -> io::Result<(u64, Instant)> {
            let (mut stream, _) = listener.accept()?;
            let received = io::copy(&mut stream, &mut io::sink())?;
            Ok((received, Instant::now()))
        };
        let receiver = thread::spawn(receive);
        let start = self.near.enter(|| {
            let mut stream = TcpStream::connect_timeout(&address, CONNECT_MAX).map_err(failed)?;
            let start = Instant::now();
            stream.write_all(&vec![0; bytes]).map_err(failed)?;
            Ok(start)
        })?;
        let (received, end) = receiver
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            .map_err(failed)?;
        #[expect(clippy::cast_precision_loss, reason = "a few megabytes")]
        let bits = 8.0 * received as f64;
        Ok(bits / (end - start).as_secs_f64())
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.shared.ends.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // It fails only if the thread has panicked, which was told then.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn link(&self) -> std::sync::MutexGuard<'_, Link> {
        self.link.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Until the line is dropped.
fn carry(near: &OwnedFd, far: &OwnedFd, shared: &Shared) {
    // A network does not wait for a processor either. Without these the line works, and the round trip that is
    // measured shows how late it is.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
    let _ = surmise_sys::scheduling::run_at_once();
    let mut to_far = Direction::new(near, far);
    let mut to_near = Direction::new(far, near);
    let mut buffer = vec![0; PACKET_MAX];
    while !shared.ends.load(Ordering::Relaxed) {
        let link = *shared.link();
        let mut is_busy = false;
        for (direction, carried) in [
            (&mut to_far, &shared.to_far),
            (&mut to_near, &shared.to_near),
        ] {
            let bytes = direction.read(link, &mut buffer);
            is_busy |= bytes > 0;
            carried.fetch_add(bytes, Ordering::Relaxed);
            direction.write();
        }
        if !is_busy {
            let due = [to_far.held.next_due(), to_near.held.next_due()];
            sleep(near, far, due.into_iter().flatten().min());
        }
    }
}

struct Direction<'a> {
    from: &'a OwnedFd,
    to: &'a OwnedFd,
    held: Held,
}

impl<'a> Direction<'a> {
    fn new(from: &'a OwnedFd, to: &'a OwnedFd) -> Self {
        Self {
            from,
            to,
            held: Held::default(),
        }
    }

    /// Takes what has come, and returns how many bytes that is on the wire.
    fn read(&mut self, link: Link, buffer: &mut [u8]) -> u64 {
        let mut bytes = 0;
        for _ in 0..PACKETS_A_TURN {
            // It fails when there is no packet.
            let Ok(length) = rustix::io::read(self.from, &mut *buffer) else {
                break;
            };
            bytes += self
                .held
                .put(Instant::now(), link, buffer[..length].to_vec());
        }
        bytes
    }

    /// Gives the other end what has arrived there. What it does not take is lost, as on any network.
    fn write(&mut self) {
        while let Some(packet) = self.held.take_due(Instant::now()) {
            while rustix::io::write(self.to, &packet) == Err(Errno::INTR) {}
        }
    }
}

/// Until a packet comes, or one is due.
fn sleep(near: &OwnedFd, far: &OwnedFd, due: Option<Instant>) {
    let left = due.map_or(SLEEP_MAX, |due| {
        due.saturating_duration_since(Instant::now()).min(SLEEP_MAX)
    });
    let left = Timespec::try_from(left).unwrap_or_default();
    let mut ends = [near, far].map(|end| PollFd::from_borrowed_fd(end.as_fd(), PollFlags::IN));
    // A signal that comes meanwhile ends the sleep, and the loop goes on.
    let _ = rustix::event::poll(&mut ends, Some(&left));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Why no line can be made here.
    fn missing() -> Option<&'static str> {
        if !surmise_testkit::is_root() {
            Some("only root can make network namespaces")
        } else if !surmise_testkit::is_installed("ip") {
            Some("there is no program ip here")
        } else if !std::path::Path::new("/dev/net/tun").exists() {
            Some("there is no /dev/net/tun here")
        } else {
            None
        }
    }

    #[test]
    fn no_more_is_carried_than_the_link_has_room_for() {
        if let Some(reason) = missing() {
            surmise_testkit::skip(reason);
            return;
        }
        let line = Line::open(Link {
            round_trip: Duration::from_millis(2),
            bits_per_s: Some(20_000_000),
        })
        .expect("a line");
        let rate = line.rate(500_000).expect("a rate");
        // How much less it is, a machine that is busy decides.
        assert!(rate > 0.0 && rate <= 20_000_000.0, "{rate}");
    }

    #[test]
    fn a_connection_takes_a_round_trip_and_its_bytes_are_counted() {
        if let Some(reason) = missing() {
            surmise_testkit::skip(reason);
            return;
        }
        let wanted = Duration::from_millis(20);
        let link = Link {
            round_trip: wanted,
            bits_per_s: None,
        };
        let line = Line::open(link).expect("a line");
        let bind = || TcpListener::bind((FAR, 0)).map_err(|error| error.to_string());
        let listener = line.far.enter(bind).expect("a listener");
        let port = listener.local_addr().expect("an address").port();
        let before = line.carried();
        let taken = line.round_trip(port).expect("a round trip");
        // How much longer it may take, a machine that is busy decides.
        assert!(taken.least >= wanted, "{taken:?}");
        let carried = line.carried().since(before);
        // A SYN of 60 bytes and an ACK of 52 for each connection; back comes a SYN with an ACK.
        let connections = u64::from(CONNECTIONS);
        assert!(carried.to_far >= connections * (60 + 52), "{carried:?}");
        assert!(carried.to_near >= connections * 60, "{carried:?}");
    }
}
