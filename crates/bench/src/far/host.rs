//! The far host: an ssh server at the far end of the line, with keys and configurations of its own. It reads and
//! changes nothing of this machine's own ssh.

use std::ffi::OsString;
use std::fs::{self, DirBuilder};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::line::{FAR, Line};
use crate::place::{Place, about, remove, succeed};

/// The namespace is its own, so no other server has it.
pub const PORT: u16 = 22;

/// How long the server may take to be there.
const START_MAX: Duration = Duration::from_secs(20);

/// Where a distribution has the server.
const INSTALLED: &str = "/usr/sbin/sshd";

/// Gives the server the files of its directory in the place of the machine's, where only it sees them: it wants a
/// user `sshd`, and a directory in /run, which the package would make.
const START: &str = r#"at=$1 program=$2
mount -t tmpfs tmpfs /run && mkdir -m 755 /run/sshd &&
mount --bind "$at/passwd" /etc/passwd && mount --bind "$at/shadow" /etc/shadow &&
exec "$program" -D -f "$at/sshd_config" -E "$at/log""#;

/// Programs that are parts of the server since OpenSSH 9.8 and 10.0, and the options that tell where they are.
const PARTS: [(&str, &str); 2] = [
    ("SshdSessionPath", "sshd-session"),
    ("SshdAuthPath", "sshd-auth"),
];

/// A server that runs; killed when this is dropped.
pub struct Host {
    at: PathBuf,
    server: Child,
}

impl Host {
    /// Starts it, and waits until it accepts connections.
    pub fn start(place: &Place, line: &Line) -> Result<Self, String> {
        let installation = Installation::find(place)?;
        let at = place.bench().join("far/ssh");
        write_files(&at, &installation)?;
        let words = [
            OsString::from("--mount"),
            "--".into(),
            "sh".into(),
            "-c".into(),
            START.into(),
            "sh".into(),
            at.clone().into(),
            installation.sshd().into(),
        ];
        let server = line.far.enter(|| {
            let mut server = Command::new("unshare");
            if let Some(libraries) = installation.libraries() {
                server.env("LD_LIBRARY_PATH", libraries);
            }
            server
                .args(words)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .spawn()
                .map_err(|error| format!("start unshare: {error}"))
        })?;
        let mut host = Self { at, server };
        line.near.enter(|| host.wait())?;
        Ok(host)
    }

    fn wait(&mut self) -> Result<(), String> {
        let address = SocketAddr::from((FAR, PORT));
        let end = Instant::now() + START_MAX;
        while TcpStream::connect_timeout(&address, START_MAX).is_err() {
            let ended = self.server.try_wait().ok().flatten();
            if ended.is_some() || Instant::now() > end {
                let log = fs::read_to_string(self.at.join("log")).unwrap_or_default();
                return Err(format!("no ssh server is there: {}", log.trim()));
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// The configuration of a client that may log in.
    pub fn client_configuration(&self) -> PathBuf {
        self.at.join("ssh_config")
    }

    /// A directory of the host, as clients name it.
    pub fn name_of(&self, directory: &Path) -> OsString {
        let mut name = OsString::from(format!("root@{FAR}:"));
        name.push(directory);
        name
    }

    /// The words that run a command there.
    pub fn ssh(&self, command: &str) -> Vec<OsString> {
        let configuration = self.client_configuration();
        vec![
            "ssh".into(),
            "-F".into(),
            configuration.into(),
            format!("root@{FAR}").into(),
            command.into(),
        ]
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // Both fail only if it has ended.
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// Where the files of OpenSSH's server are.
enum Installation {
    /// Where the machine's package manager has put them.
    Machine,
    /// Unpacked, with their libraries, in a directory of ours.
    Unpacked(PathBuf),
}

impl Installation {
    /// To install the package would start a server on the machine, so it is only unpacked.
    fn find(place: &Place) -> Result<Self, String> {
        if Path::new(INSTALLED).exists() {
            return Ok(Self::Machine);
        }
        place.peer("openssh-server").map(Self::Unpacked)
    }

    fn sshd(&self) -> PathBuf {
        match self {
            Self::Machine => INSTALLED.into(),
            Self::Unpacked(root) => root.join("usr/sbin/sshd"),
        }
    }

    /// Directories of libraries that only the server uses.
    fn libraries(&self) -> Option<OsString> {
        let Self::Unpacked(root) = self else {
            return None;
        };
        let below = |directory: &str| fs::read_dir(root.join(directory)).into_iter().flatten();
        let found = ["lib", "usr/lib"].into_iter().flat_map(below);
        let triplets = found.flatten().map(|entry| entry.path());
        std::env::join_paths(triplets.filter(|path| path.is_dir())).ok()
    }

    /// Options for parts that are not where the server looks for them.
    fn parts(&self) -> String {
        let Self::Unpacked(root) = self else {
            return String::new();
        };
        let there = |(option, part): &(&str, &str)| {
            let path = root.join("usr/lib/openssh").join(part);
            path.exists()
                .then(|| format!("{option} {}\n", path.display()))
        };
        PARTS.iter().filter_map(there).collect()
    }
}

fn write_files(at: &Path, installation: &Installation) -> Result<(), String> {
    remove(at)?;
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(at)
        .and_then(|()| fs::create_dir(at.join("home")))
        .map_err(|error| about("create", at, &error))?;
    for key in ["host_key", "user_key"] {
        let mut keygen = Command::new("ssh-keygen");
        keygen.args(["-q", "-t", "ed25519", "-N", "", "-C", key, "-f"]);
        succeed(keygen.arg(at.join(key)))?;
    }
    let read = |path: &Path| fs::read_to_string(path).map_err(|error| about("read", path, &error));
    let host_key = read(&at.join("host_key.pub"))?;
    let user_key = read(&at.join("user_key.pub"))?;
    let users = read(Path::new("/etc/passwd"))?;
    let directory = at.display();
    for (name, text) in [
        ("known_hosts", format!("{FAR} {host_key}")),
        ("authorized_keys", user_key),
        ("passwd", passwd(&users, &at.join("home"))),
        // A password that nothing equals; an account with "!" could not log in by its key either.
        ("shadow", "root:*:1::::::\n".to_owned()),
        (
            "ssh_config",
            format!(
                "Host *\nIdentityFile {directory}/user_key\nIdentitiesOnly yes\n\
                 UserKnownHostsFile {directory}/known_hosts\nGlobalKnownHostsFile /dev/null\n\
                 StrictHostKeyChecking yes\nBatchMode yes\nLogLevel ERROR\n"
            ),
        ),
        (
            "sshd_config",
            format!(
                "ListenAddress {FAR}\nPort {PORT}\nHostKey {directory}/host_key\n\
                 AuthorizedKeysFile {directory}/authorized_keys\nStrictModes no\n\
                 PermitRootLogin prohibit-password\nPasswordAuthentication no\n\
                 KbdInteractiveAuthentication no\nUsePAM no\nUseDNS no\nPrintMotd no\n\
                 PidFile none\nLogLevel ERROR\nSubsystem sftp internal-sftp\n{}",
                installation.parts()
            ),
        ),
    ] {
        let path = at.join(name);
        fs::write(&path, text).map_err(|error| about("write", &path, &error))?;
    }
    Ok(())
}

/// The machine's users, but with a root whose shell reads no file, and with the user that the server has for what
/// it does before it knows the client.
fn passwd(users: &str, home: &Path) -> String {
    let others = users
        .lines()
        .filter(|line| !line.starts_with("root:") && !line.starts_with("sshd:"));
    let own = [
        format!("root:x:0:0:root:{}:/bin/sh", home.display()),
        "sshd:x:65533:65534::/run/sshd:/usr/sbin/nologin".to_owned(),
    ];
    own.into_iter()
        .chain(others.map(str::to_owned))
        .map(|line| line + "\n")
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_root_and_the_servers_own_user_are_changed() {
        let users =
            "root:x:0:0:root:/root:/bin/bash\nbin:x:2:2::/bin:/bin/false\nsshd:x:9:9::/:/x\n";
        assert_eq!(
            passwd(users, Path::new("/home")),
            "root:x:0:0:root:/home:/bin/sh\n\
             sshd:x:65533:65534::/run/sshd:/usr/sbin/nologin\n\
             bin:x:2:2::/bin:/bin/false\n"
        );
    }
}
