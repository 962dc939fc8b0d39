//! `PostgreSQL`, and pgbench as its client.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The server refuses to run as root.
const USER: &str = "65534";

/// The arguments: a port, and the client's words if it is to run in here, too. While the base is filled only
/// another address answers: clients outside are not to come too early.
const SERVER: &str = "\
set -e
port=$1
shift
host=127.0.0.2
[ $# -eq 0 ] || host=127.0.0.1
initdb --no-sync --auth=trust --username=bench -D data > log
postgres -D data -k '' -h $host -p $port >> log 2>&1 & server=$!
until pg_isready -q -h $host -p $port; do sleep 0.05; done
pgbench -i -q -h $host -p $port -U bench postgres > log.init 2>&1
[ $# -eq 0 ] || \"$@\" 2>> log
kill -INT $server
wait $server
[ $# -gt 0 ] || exec postgres -D data -k '' -h 127.0.0.1 -p $port >> log 2>&1";

/// The directory of the server's programs, if it is installed.
pub fn programs() -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").ok()?.flatten();
    let mut directories: Vec<_> = versions
        .map(|version| version.path().join("bin"))
        .filter(|bin| bin.join("initdb").is_file() && bin.join("pgbench").is_file())
        .collect();
    directories.sort();
    directories.pop()
}

/// The words that start a server with a new base, as the user of [`own`]. It runs until it gets a SIGINT, or,
/// if there is a client, until that has ended.
pub fn server(port: u16, client: &[OsString]) -> Vec<OsString> {
    let path = programs().unwrap_or_default();
    let path = format!("PATH={}:/usr/bin:/bin", path.display());
    let (user, group) = (format!("--reuid={USER}"), format!("--regid={USER}"));
    let words = ["setpriv", &user, &group, "--clear-groups", "env", &path];
    let script = ["sh", "-c", SERVER, "sh", &port.to_string()].map(OsString::from);
    let words = words.map(OsString::from).into_iter();
    words.chain(script).chain(client.iter().cloned()).collect()
}

/// Gives the server's user a directory.
pub fn own(directory: &Path) -> io::Result<()> {
    let user = USER.parse().expect("a number");
    chown(directory, Some(user), Some(user))
}

/// The words that have so many clients make so many transactions each.
pub fn client(server: SocketAddr, clients: u32, each: u32) -> Vec<OsString> {
    let program = programs().unwrap_or_default().join("pgbench");
    let (host, port) = (server.ip().to_string(), server.port().to_string());
    let (clients, each) = (clients.to_string(), each.to_string());
    let options = [
        "-h", &host, "-p", &port, "-U", "bench", "-n", "-c", &clients, "-t", &each, "postgres",
    ];
    let mut words = vec![program.into_os_string()];
    words.extend(options.map(OsString::from));
    words
}

/// Whether a server answers.
pub fn is_there(server: SocketAddr) -> bool {
    let program = programs().unwrap_or_default().join("pg_isready");
    let (host, port) = (server.ip().to_string(), server.port().to_string());
    let asked = Command::new(program)
        .args(["-q", "-h", &host, "-p", &port])
        .status();
    asked.is_ok_and(|status| status.success())
}

/// Transactions a second, as pgbench says.
pub fn rate(said: &str) -> Option<f64> {
    let line = said.lines().find_map(|line| line.strip_prefix("tps = "))?;
    line.split(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_found_in_what_pgbench_says() {
        let said = "latency average = 1.2 ms\ntps = 812.345 (without initial connection time)\n";
        assert_eq!(rate(said), Some(812.345));
        assert_eq!(rate("pgbench: error"), None);
    }
}
