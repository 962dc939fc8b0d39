//! What relaying costs, beside the same without it. Started by hand; a release build tells more.

use std::env;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use surmise_network::Verdict;

use crate::servers::echo;
use crate::world::{FAR, World};

/// How many clients ask at once, as redis-benchmark's.
const CLIENTS: usize = 50;

/// Also of programs: where `RELAY_SERVER` and `RELAY_CLIENT` are set, these are command lines. The
/// server is started outside, and the client outside and inside.
pub fn measure() {
    if let (Ok(server), Ok(client)) = (env::var("RELAY_SERVER"), env::var("RELAY_CLIENT")) {
        return measure_programs(&server, client);
    }
    let world = World::all(Verdict::Allow);
    let server = echo(FAR);
    let rate_server = answering_in_one_thread();
    let sink = sink();
    let all = move || {
        (
            ping_pong(server),
            connects(server),
            rate(rate_server),
            throughput(sink),
        )
    };
    for round in 1..=3 {
        let direct = all();
        let (sender, receiver) = std::sync::mpsc::channel();
        world.begin_inside(move || sender.send(all()).expect("somebody waits"));
        let relayed = receiver
            .recv_timeout(Duration::from_secs(100))
            .expect("an end");
        show(round, "direct", direct);
        show(round, "relayed", relayed);
    }
}

fn measure_programs(server: &str, client: String) {
    let world = World::all(Verdict::Allow);
    let mut server = shell(server).spawn().expect("start the server");
    // A moment for it to listen.
    thread::sleep(Duration::from_secs(1));
    for _ in 0..3 {
        shell(&client).status().expect("run the client outside");
        let client = client.clone();
        world.inside(move || shell(&client).status().expect("run the client inside"));
    }
    server.kill().expect("end the server");
    server.wait().expect("reap the server");
}

fn shell(line: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("exec {line}")]);
    command
}

fn show(round: u32, what: &str, (ping, connect, rate, throughput): (f64, f64, f64, f64)) {
    let line = format!(
        "{round} {what:8} ping-pong {ping:6.1} us  connect+byte+close {connect:6.1} us  \
         {rate:8.0} requests/s  {throughput:6.2} Gbit/s\n"
    );
    std::io::stdout().write_all(line.as_bytes()).expect("write");
}

/// Microseconds of one byte there and back.
fn ping_pong(to: SocketAddr) -> f64 {
    const TIMES: u32 = 20_000;
    let mut stream = TcpStream::connect(to).expect("connect");
    stream.set_nodelay(true).expect("set");
    let start = Instant::now();
    for _ in 0..TIMES {
        stream.write_all(b"x").expect("write");
        stream.read_exact(&mut [0]).expect("read");
    }
    start.elapsed().as_secs_f64() * 1e6 / f64::from(TIMES)
}

/// Microseconds of a connection with one byte there and back.
fn connects(to: SocketAddr) -> f64 {
    const TIMES: u32 = 2000;
    let start = Instant::now();
    for _ in 0..TIMES {
        let mut stream = TcpStream::connect(to).expect("connect");
        stream.write_all(b"x").expect("write");
        stream.read_exact(&mut [0]).expect("read");
    }
    start.elapsed().as_secs_f64() * 1e6 / f64::from(TIMES)
}

/// Requests a second of many clients in one thread, to a server of one thread, as redis and its
/// benchmark are.
fn rate(to: SocketAddr) -> f64 {
    const REQUESTS: u32 = 100_000;
    let mut clients: Vec<_> = (0..CLIENTS)
        .map(|_| TcpStream::connect(to).expect("connect"))
        .collect();
    let start = Instant::now();
    for client in &mut clients {
        client.set_nodelay(true).expect("set");
        client.set_nonblocking(true).expect("set");
        client.write_all(REQUEST).expect("write");
    }
    let mut done = 0;
    let mut open = CLIENTS as u32;
    let poller = Poller::new(clients.iter());
    while done < REQUESTS {
        for index in poller.ready() {
            let mut buffer = [0; 256];
            if let Ok(length) = clients[index].read(&mut buffer) {
                assert_eq!(&buffer[..length], REPLY);
                done += 1;
                if open + done <= REQUESTS {
                    clients[index].write_all(REQUEST).expect("write");
                } else {
                    open -= 1;
                }
            }
        }
    }
    f64::from(REQUESTS) / start.elapsed().as_secs_f64()
}

const REQUEST: &[u8] = b"*2\r\n$3\r\nGET\r\n$16\r\nkey:__rand_int__\r\n";
const REPLY: &[u8] = b"$3\r\nxxx\r\n";

fn answering_in_one_thread() -> SocketAddr {
    let listener = TcpListener::bind((FAR, 0)).expect("listen");
    let address = listener.local_addr().expect("its address");
    thread::spawn(move || {
        loop {
            // One benchmark's clients after the other's.
            let mut clients: Vec<_> = (0..CLIENTS)
                .map(|_| {
                    let (stream, _) = listener.accept().expect("accept");
                    stream.set_nodelay(true).expect("set");
                    stream.set_nonblocking(true).expect("set");
                    stream
                })
                .collect();
            let poller = Poller::new(clients.iter());
            let mut open = CLIENTS;
            while open > 0 {
                for index in poller.ready() {
                    let mut buffer = [0; 256];
                    match clients[index].read(&mut buffer) {
                        Ok(0) | Err(_) => {
                            poller.remove(&clients[index]);
                            open -= 1;
                        }
                        Ok(_) => clients[index].write_all(REPLY).expect("write"),
                    }
                }
            }
        }
    });
    address
}

struct Poller(rustix::fd::OwnedFd);

impl Poller {
    fn new<'a>(streams: impl Iterator<Item = &'a TcpStream>) -> Self {
        use rustix::event::epoll::{CreateFlags, EventData, EventFlags, add, create};
        let epoll = create(CreateFlags::CLOEXEC).expect("epoll");
        for (index, stream) in streams.enumerate() {
            let data = EventData::new_u64(index as u64);
            add(&epoll, stream, data, EventFlags::IN).expect("add");
        }
        Self(epoll)
    }

    fn ready(&self) -> Vec<usize> {
        let mut events = Vec::with_capacity(CLIENTS);
        let spare = rustix::buffer::spare_capacity(&mut events);
        rustix::event::epoll::wait(&self.0, spare, None).expect("wait");
        events
            .iter()
            .map(|event: &rustix::event::epoll::Event| {
                let data = event.data;
                data.u64() as usize
            })
            .collect()
    }

    fn remove(&self, stream: &TcpStream) {
        rustix::event::epoll::delete(&self.0, stream).expect("remove");
    }
}

/// Gigabits a second of one connection.
fn throughput(to: SocketAddr) -> f64 {
    const SIZE: usize = 2 << 30;
    let mut stream = TcpStream::connect(to).expect("connect");
    let block = vec![7; 128 << 10];
    let start = Instant::now();
    let mut sent = 0;
    while sent < SIZE {
        stream.write_all(&block).expect("write");
        sent += block.len();
    }
    stream
        .shutdown(std::net::Shutdown::Write)
        .expect("shut down");
    // The server closes when it has read all.
    assert_eq!(stream.read(&mut [0]).expect("read"), 0);
    sent as f64 * 8.0 / 1e9 / start.elapsed().as_secs_f64()
}

fn sink() -> SocketAddr {
    let listener = TcpListener::bind((FAR, 0)).expect("listen");
    let address = listener.local_addr().expect("its address");
    thread::spawn(move || {
        let mut buffer = vec![0; 128 << 10];
        for mut stream in listener.incoming().flatten() {
            while let Ok(1..) = stream.read(&mut buffer) {}
        }
    });
    address
}
