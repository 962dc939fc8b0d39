//! An outer network, a gated inner one, and the relay between them.

use std::cell::Cell;
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::process::Command;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};
use rustix::fs::{Mode, OFlags};
use rustix::process::Signal;
use rustix::thread::UnshareFlags;
use rustix::time::Timespec;
use surmise_linux::network;
use surmise_linux::network::gate::{Gate, Loopback, Setup, set_up};
use surmise_network::resolver::Hosts;
use surmise_network::{Config, Dial, Event, Pattern, Policy, Relay, RelayHandle, Resolver};
use surmise_network::{Released, Rule, Verdict};
use surmise_outbox::{HoldId, Outbox, Pending, Told};
use surmise_sync::Epochs;
use surmise_sys::process;
use surmise_testkit::skip;

/// A name for messages, and what is run.
pub type Scenario = (&'static str, fn());

/// How long one scenario may take.
const LIMIT: Timespec = Timespec {
    tv_sec: 120,
    tv_nsec: 0,
};

/// How long a scenario waits for anything.
pub const SOON: Duration = Duration::from_secs(20);

/// Addresses of the outer network that are no loopback ones: connections to them leave by the gate.
pub const FAR: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
pub const FAR_TOO: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2));
pub const FAR_V6: IpAddr = IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1));
pub const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Whether gates can be made here; tells why not.
pub fn is_possible() -> bool {
    let tun = fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/net/tun");
    let ip = Command::new("ip").arg("-V").output();
    match (tun, ip) {
        (Err(error), _) => skip(format!("/dev/net/tun: {error}")),
        (_, Err(error)) => skip(format!("ip: {error}")),
        (Ok(_), Ok(_)) => return true,
    }
    false
}

/// Runs a scenario in a process of its own, in a new user namespace and a new outer network.
pub fn run((name, scenario): Scenario) {
    let (uid, gid) = (rustix::process::getuid(), rustix::process::getgid());
    // Two copies: the first is in the namespace, the second may have threads.
    let child = process::clone(UnshareFlags::NEWUSER, &[], || {
        let map = |file: &str, text: String| fs::write(file, text).expect("map ids");
        map("/proc/self/setgroups", "deny".into());
        map("/proc/self/uid_map", format!("0 {uid} 1"));
        map("/proc/self/gid_map", format!("0 {gid} 1"));
        let scenario = process::fork(&[], || {
            make_outer_network();
            scenario();
            0
        });
        let scenario = scenario.expect("fork");
        let mut events = [PollFd::new(&scenario, PollFlags::IN)];
        if rustix::event::poll(&mut events, Some(&LIMIT)) != Ok(1) {
            scenario.signal(Signal::KILL).expect("kill the scenario");
        }
        let status = scenario.wait().expect("wait").exit_status();
        status.map_or(255, |status| status as u8)
    });
    let status = child.expect("clone").wait().expect("wait");
    assert_eq!(status.exit_status(), Some(0), "{name}: {status:?}");
}

fn make_outer_network() {
    network::enter_new().expect("an outer network");
    for address in [FAR, FAR_TOO, FAR_V6] {
        let bits = if address.is_ipv4() { 32 } else { 128 };
        let mut ip = Command::new("ip");
        ip.args(["address", "add", &format!("{address}/{bits}"), "dev", "lo"]);
        if address.is_ipv6() {
            ip.arg("nodad");
        }
        assert!(ip.status().expect("start ip").success(), "add {address}");
    }
    // The kernel takes packets to an IPv6 address only some time after it was added.
    surmise_testkit::watchdog::until("the IPv6 address works", SOON, || {
        let socket = UdpSocket::bind((FAR_V6, 0)).expect("bind");
        let timeout = Some(Duration::from_millis(50));
        socket.set_read_timeout(timeout).expect("bound reads");
        let own = socket.local_addr().expect("its address");
        socket.send_to(b"x", own).is_ok() && socket.recv(&mut [0]).is_ok()
    });
}

/// How a relay differs from the plainest one.
pub struct Options {
    pub policy: Policy,
    pub publish: Vec<u16>,
    pub nameserver: SocketAddr,
    pub epochs: Option<Epochs>,
}

impl Options {
    pub fn new(default: Verdict) -> Self {
        Self {
            policy: Policy {
                default,
                rules: Vec::new(),
            },
            publish: Vec::new(),
            nameserver: SocketAddr::new(HERE, 53),
            epochs: None,
        }
    }

    /// Adds a rule for an address and one of its ports.
    pub fn with(mut self, to: SocketAddr, verdict: Verdict) -> Self {
        self.policy.rules.push(Rule {
            host: Pattern::Address(to.ip()),
            port: Some(to.port()),
            verdict,
        });
        self
    }

    /// Adds a rule for a name.
    pub fn with_name(mut self, name: &str, verdict: Verdict) -> Self {
        self.policy.rules.push(Rule {
            host: Pattern::Name(name.into()),
            port: None,
            verdict,
        });
        self
    }
}

type Job = Box<dyn FnOnce() + Send>;

/// A running relay and the two networks.
pub struct World {
    pub relay: RelayHandle,
    pub outbox: Outbox,
    pub state: tempfile::TempDir,
    told: Receiver<Told>,
    /// The last hold that [`Self::held`] has given.
    seen: Cell<HoldId>,
    events: Receiver<Event>,
    jobs: Sender<Job>,
    thread: Option<thread::JoinHandle<io::Result<()>>>,
}

impl World {
    /// A relay that allows, refuses, holds or asks about everything.
    pub fn all(default: Verdict) -> Self {
        Self::new(Options::new(default))
    }

    pub fn new(options: Options) -> Self {
        Self::try_new(options).expect("a relay")
    }

    pub fn try_new(options: Options) -> io::Result<Self> {
        let state = tempfile::tempdir().expect("a directory");
        let (tell, told) = channel();
        let tell = move |what| {
            // The scenario may have seen enough.
            let _ = tell.send(what);
        };
        let outbox = Outbox::open_told(state.path(), tell).expect("an outbox");
        let (jobs, gate) = inner_network(&options);
        let (sender, events) = channel();
        let config = Config {
            gate,
            policy: options.policy,
            outbox: outbox.clone(),
            publish: options.publish,
            resolver: Resolver::with(options.nameserver, Hosts::default()),
            dial: Box::new(Inside(jobs.clone())),
            epochs: options.epochs,
            events: Box::new(move |event| {
                // The scenario may have seen enough.
                let _ = sender.send(event);
            }),
        };
        let (relay, handle) = Relay::new(config)?;
        let thread = thread::spawn(move || relay.run());
        Ok(Self {
            relay: handle,
            outbox,
            state,
            told,
            seen: Cell::new(HoldId(0)),
            events,
            jobs,
            thread: Some(thread),
        })
    }

    /// What `work`, done in the inner network, gives.
    #[track_caller]
    pub fn inside<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        let result = self.begin_inside(work);
        result.recv_timeout(SOON).expect("the work inside ends")
    }

    /// Begins `work` in the inner network, on a thread of its own; its result comes later.
    pub fn begin_inside<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Receiver<T> {
        let (sender, receiver) = channel();
        self.jobs
            .send(Box::new(move || {
                // Threads have the network of who starts them.
                thread::spawn(move || {
                    let _ = sender.send(work());
                });
            }))
            .expect("the inner network lives");
        receiver
    }

    /// A connection from inside.
    pub fn connect(&self, to: SocketAddr) -> io::Result<TcpStream> {
        self.inside(move || connect(to))
    }

    /// The next event that is of interest.
    #[track_caller]
    pub fn event(&self) -> Event {
        self.events.recv_timeout(SOON).expect("an event")
    }

    /// The next event that `pick` picks; others are passed over.
    #[track_caller]
    pub fn event_of<T>(&self, mut pick: impl FnMut(Event) -> Option<T>) -> T {
        loop {
            if let Some(picked) = pick(self.event()) {
                return picked;
            }
        }
    }

    /// The next hold, as it is pending.
    #[track_caller]
    pub fn held(&self) -> Pending {
        loop {
            match self.told.recv_timeout(SOON).expect("a hold") {
                Told::Waits(hold) if hold > self.seen.get() => {
                    self.seen.set(hold);
                    let mut pending = self.outbox.pending().into_iter();
                    return pending.find(|one| one.hold == hold).expect("pending");
                }
                _ => {}
            }
        }
    }

    /// Whether something waits that was not given by [`Self::held`].
    pub fn has_more_held(&self) -> bool {
        let seen = self.seen.get();
        let is_new = |told: Told| matches!(told, Told::Waits(hold) if hold > seen);
        self.told.try_iter().any(is_new)
    }

    /// Has all that is held sent, but not at once.
    pub fn order_release(&self) {
        let holds = self
            .outbox
            .pending()
            .iter()
            .map(|one| one.hold)
            .collect::<Vec<_>>();
        self.outbox.agree(&holds);
        self.relay.release(holds);
    }

    /// Has all that is held sent.
    #[track_caller]
    pub fn release(&self) -> Released {
        self.order_release();
        self.event_of(|event| match event {
            Event::Released(released) => Some(released),
            _ => None,
        })
    }

    /// Has all that was sent put into the outbox.
    #[track_caller]
    pub fn quiesce(&self) {
        self.relay.quiesce();
        let failed = self.event_of(|event| match event {
            Event::Quiesced { failed } => Some(failed),
            _ => None,
        });
        assert_eq!(failed, None);
    }

    /// Fails if an event that `pick` picks has come.
    #[track_caller]
    pub fn none_of(&self, mut pick: impl FnMut(&Event) -> bool) {
        if let Some(event) = self.events.try_iter().find(|event| pick(event)) {
            panic!("an event that must not come: {event:?}");
        }
    }

    /// Ends the relay and waits for its end.
    pub fn stop(&mut self) {
        self.relay.stop();
        self.wait();
    }

    /// Waits for the end of the relay, which was told to end.
    pub fn wait(&mut self) {
        if let Some(thread) = self.thread.take() {
            thread.join().expect("no panic").expect("the relay ran");
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if !thread::panicking() {
            self.stop();
        }
    }
}

/// A connection within a bounded time.
pub fn connect(to: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&to, SOON)?;
    stream.set_read_timeout(Some(SOON))?;
    stream.set_write_timeout(Some(SOON))?;
    Ok(stream)
}

/// A thread in a new network with a gate, which does what it is sent.
fn inner_network(options: &Options) -> (Sender<Job>, Gate) {
    let (jobs, receiver) = channel::<Job>();
    let (gate_sender, gate) = channel();
    let loopback = options.policy.loopback();
    let nameserver = options.nameserver.ip();
    thread::spawn(move || {
        network::enter_new().expect("an inner network");
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory: OwnedFd =
            rustix::fs::open("/dev/net", flags, Mode::empty()).expect("open /dev/net");
        let setup = Setup {
            tun_directory: directory.as_fd(),
            settings: None,
            loopback: match &loopback {
                surmise_network::Loopback::None => Loopback::None,
                surmise_network::Loopback::Ports(ports) => Loopback::Ports(ports),
                surmise_network::Loopback::All => Loopback::All,
            },
            names: nameserver.is_loopback().then_some(nameserver),
            ipv6: true,
        };
        gate_sender
            .send(set_up(&setup).expect("a gate"))
            .expect("somebody waits");
        for job in receiver {
            job();
        }
    });
    let gate = gate.recv_timeout(SOON).expect("a gate");
    (jobs, gate)
}

/// Dials servers inside.
struct Inside(Sender<Job>);

impl Dial for Inside {
    fn dial(&self, port: u16) -> io::Result<OwnedFd> {
        let (sender, receiver) = channel();
        let job = move || {
            let _ = sender.send(TcpStream::connect((HERE, port)));
        };
        let gone = |_| io::Error::from(io::ErrorKind::BrokenPipe);
        self.0
            .send(Box::new(job))
            .map_err(|_| io::ErrorKind::BrokenPipe)?;
        Ok(receiver.recv().map_err(gone)??.into())
    }
}
