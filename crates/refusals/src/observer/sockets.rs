//! Unix sockets of programs outside: they have names inside, but nobody is behind them.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use surmise_sys::seccomp::Notification;

use super::{OUTSIDE, Observer, Sockets};
use crate::listed;
use crate::refusal::Kind;
use crate::task;

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
        let has = |task: &Path| listed::unix_names(task).contains(&listed);
        if has(Path::new(OUTSIDE)) && !has(&task::place(call.thread)) {
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
    let place = task::place(call.thread);
    // Both are told as paths of the domain's file systems, of which the real ones are a copy.
    let start = match name.is_absolute() {
        true => fs::read_link(place.join("root")).ok()?,
        false => fs::read_link(place.join("cwd")).ok()?,
    };
    let path = start.join(name.strip_prefix("/").unwrap_or(name));
    let path = fs::canonicalize(path).ok()?;
    let is_socket = fs::metadata(&path).ok()?.file_type().is_socket();
    is_socket.then_some(path)
}

/// Whether somebody outside serves the socket, and nobody inside has one of that name.
fn is_served(call: &Notification, path: &Path) -> bool {
    let same_name = |names: Vec<Vec<u8>>| {
        let same = |name: &Vec<u8>| listed::file_name(name) == path.file_name();
        names.into_iter().filter(same).collect::<Vec<_>>()
    };
    let inside = same_name(listed::unix_names(&task::place(call.thread)));
    let outside = same_name(listed::unix_names(Path::new(OUTSIDE)));
    let identity = |path: &Path| {
        let found = fs::metadata(path).ok()?;
        Some((found.dev(), found.ino()))
    };
    let meant = identity(path);
    let is_it = |name: &Vec<u8>| {
        let bound = Path::new(std::ffi::OsStr::from_bytes(name));
        // A relative one was bound by its server, wherever that worked.
        bound.is_relative() || identity(bound) == meant
    };
    inside.is_empty() && outside.iter().any(is_it)
}
