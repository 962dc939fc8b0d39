//! A server, and a client that says any bytes.

use std::io::{BufRead, BufReader, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use surmise_api::Client;
use surmise_testkit::{Scratch, surmise_binary, watchdog};

/// How long a machine that is busy may take.
pub const LIMIT: Duration = Duration::from_secs(60);

/// A server for a scratch tree. It ends with this.
pub struct Server {
    process: Child,
    pub socket: PathBuf,
}

impl Server {
    pub fn start(scratch: &Scratch) -> Self {
        Self::start_by(scratch, &mut Command::new(surmise_binary()))
    }

    /// One that `command` becomes; it appends what follows the program's name.
    pub fn start_by(scratch: &Scratch, command: &mut Command) -> Self {
        let socket = scratch.root().join("api.sock");
        let process = command
            .arg("api")
            .arg("--socket")
            .arg(&socket)
            .env("HOME", scratch.home())
            .env("XDG_STATE_HOME", scratch.state())
            .stderr(Stdio::null())
            .spawn()
            .expect("start a server");
        let server = Self { process, socket };
        watchdog::until("the server listens", LIMIT, || {
            UnixStream::connect(&server.socket).is_ok()
        });
        server
    }

    pub fn client(&self) -> Client {
        Client::connect(&self.socket).expect("a client")
    }

    pub fn speaker(&self) -> Speaker {
        Speaker::new(UnixStream::connect(&self.socket).expect("connect"))
    }

    /// Sends it a signal and waits for its end.
    pub fn end(mut self, signal: rustix::process::Signal) -> i32 {
        let pid = rustix::process::Pid::from_child(&self.process);
        rustix::process::kill_process(pid, signal).expect("kill");
        let status = self.process.wait().expect("wait");
        status.code().unwrap_or(-1)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Fails only if it has ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A client that says any bytes.
pub struct Speaker {
    stream: UnixStream,
    lines: BufReader<UnixStream>,
}

impl Speaker {
    pub fn new(stream: UnixStream) -> Self {
        stream.set_read_timeout(Some(LIMIT)).expect("a limit");
        let lines = BufReader::new(stream.try_clone().expect("a copy"));
        Self { stream, lines }
    }

    /// One that has said hello.
    pub fn greeted(server: &Server) -> Self {
        let mut speaker = server.speaker();
        let hello = speaker.ask(0, "hello", json!({"versions": [1]}));
        assert_eq!(hello["result"]["version"], 1);
        speaker
    }

    pub fn say(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("write");
    }

    pub fn request(&mut self, id: i64, method: &str, params: Value) {
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.say(format!("{request}\n").as_bytes());
    }

    /// The next message; `None` at the end.
    pub fn hear(&mut self) -> Option<Value> {
        let mut line = String::new();
        match self.lines.read_line(&mut line).expect("read") {
            0 => None,
            _ => Some(serde_json::from_str(&line).expect("JSON")),
        }
    }

    /// The next message that `wanted` wants.
    pub fn until(&mut self, wanted: impl Fn(&Value) -> bool) -> Value {
        loop {
            let message = self.hear().expect("the server has gone");
            if wanted(&message) {
                return message;
            }
        }
    }

    /// The response to a request.
    pub fn response(&mut self, id: i64) -> Value {
        self.until(|message| message["id"] == id)
    }

    /// The next event of this name.
    pub fn event(&mut self, name: &str) -> Value {
        self.until(|message| message["params"]["event"] == name)["params"].clone()
    }

    pub fn ask(&mut self, id: i64, method: &str, params: Value) -> Value {
        self.request(id, method, params);
        self.response(id)
    }

    /// Says no more.
    pub fn finish(&mut self) {
        self.stream.shutdown(Shutdown::Write).expect("shutdown");
    }
}
