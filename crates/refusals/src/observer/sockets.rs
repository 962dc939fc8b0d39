//! Unix sockets of programs outside: they have names inside, but nobody is behind them.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use surmise_linux::proc::{self, Entry};
use surmise_sys::seccomp::Notification;

use super::{Observer, Sockets};
use crate::refusal::Kind;

/// Where the C library asks for users, groups and hosts before it looks by itself. Where nobody answers it
/// goes on, and nothing has failed.
const SERVICES: [&str; 6] = [
    "/run/nscd",
    "/run/systemd/userdb",
    "/run/systemd/resolve",
    "/run/systemd/resolve.hook",
    "/run/avahi-daemon",
    "/var/lib/sss",
];

impl Observer {
    /// A socket is about to be reached by a name of a file system.
    pub(super) fn named(&self, call: &Notification, name: &Path) {
        let Sockets::Apart(allowed) = &self.boundary.sockets else {
            return;
        };
        let Some(outside) = outside(call, name) else {
            return;
        };
        let is_below = |path: &Path| outside.starts_with(path);
        let is_allowed = |path: &PathBuf| fs::canonicalize(path).is_ok_and(|path| is_below(&path));
        let is_service = SERVICES.iter().any(|path| is_below(Path::new(path)));
        if is_service || allowed.iter().any(is_allowed) || !is_served(call, &outside) {
            return;
        }
        let target = outside.to_string_lossy();
        let allow = format!("--allow-socket {target}");
        self.record(call.thread, Kind::Socket, &target, Some(allow));
    }

    /// A socket is about to be reached by a name of the network namespace.
    pub(super) fn abstract_name(&self, call: &Notification, name: &[u8]) {
        let mut listed = vec![b'@'];
        listed.extend(name.iter().map(|&byte| if byte == 0 { b'@' } else { byte }));
        let has = |task| servers(task).contains(&listed);
        // This process is in the host's network namespace.
        if has(Entry::own()) && !has(call.thread.into()) {
            self.record(
                call.thread,
                Kind::Socket,
                &String::from_utf8_lossy(&listed),
                None,
            );
        }
    }
}

/// The socket of the real file system that a task means, if there is one.
fn outside(call: &Notification, name: &Path) -> Option<PathBuf> {
    let task = Entry::from(call.thread);
    // Both are told as paths of the domain's file systems, of which the real ones are a copy.
    let start = match name.is_absolute() {
        true => fs::read_link(task.path("root")).ok()?,
        false => fs::read_link(task.path("cwd")).ok()?,
    };
    let path = start.join(name.strip_prefix("/").unwrap_or(name));
    let path = fs::canonicalize(path).ok()?;
    let is_socket = fs::metadata(&path).ok()?.file_type().is_socket();
    is_socket.then_some(path)
}

/// Whether somebody outside serves the socket, and nobody inside has one of that name.
fn is_served(call: &Notification, path: &Path) -> bool {
    let same_name = |names: Vec<Vec<u8>>| {
        let same = |name: &Vec<u8>| file_name(name) == path.file_name();
        names.into_iter().filter(same).collect::<Vec<_>>()
    };
    let inside = same_name(servers(call.thread.into()));
    let outside = same_name(servers(Entry::own()));
    let identity = |path: &Path| {
        let found = fs::metadata(path).ok()?;
        Some((found.dev(), found.ino()))
    };
    let meant = identity(path);
    let is_it = |name: &Vec<u8>| {
        let bound = Path::new(OsStr::from_bytes(name));
        // A relative one was bound by its server, wherever that worked.
        bound.is_relative() || identity(bound) == meant
    };
    inside.is_empty() && outside.iter().any(is_it)
}

/// The names of the servers in the network namespace of a task; none where they cannot be read.
fn servers(task: Entry) -> Vec<Vec<u8>> {
    let sockets = proc::unix_sockets(task).unwrap_or_default();
    let servers = sockets.into_iter().filter(|socket| socket.is_server);
    servers.map(|server| server.name).collect()
}

/// The last part of a path that is a socket's name.
fn file_name(name: &[u8]) -> Option<&OsStr> {
    (!name.starts_with(b"@"))
        .then(|| Path::new(OsStr::from_bytes(name)).file_name())
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_part_of_a_path_is_a_name_and_an_abstract_one_has_none() {
        assert_eq!(file_name(b"/run/a socket"), Some(OsStr::new("a socket")));
        assert_eq!(file_name(b"@/tmp/x"), None);
    }
}
