//! What the manager of services is told, if one has started this process (sd_notify(3)).

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Names the socket of the manager.
const SOCKET: &str = "NOTIFY_SOCKET";

/// The service can be used from now on.
///
/// # Errors
/// When a manager waits to hear that and cannot be told.
pub fn is_ready() -> io::Result<()> {
    match std::env::var_os(SOCKET) {
        Some(socket) => tell(&socket, b"READY=1"),
        None => Ok(()),
    }
}

fn tell(socket: &OsStr, what: &[u8]) -> io::Result<()> {
    // A name that begins so is in no directory (unix(7)).
    let address = match socket.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(socket)?,
    };
    UnixDatagram::unbound()?.send_to_addr(what, &address)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manager_hears_by_a_path_and_by_a_name() {
        let name = format!("surmise-notify-{}", std::process::id());
        let path = std::env::temp_dir().join(&name);
        let by_path = UnixDatagram::bind(&path).expect("bind");
        let address = SocketAddr::from_abstract_name(&name).expect("a short name");
        let by_name = UnixDatagram::bind_addr(&address).expect("bind");
        tell(path.as_os_str(), b"READY=1").expect("tell");
        tell(OsStr::new(&format!("@{name}")), b"READY=1").expect("tell");
        for socket in [by_path, by_name] {
            let mut text = [0; 32];
            let length = socket.recv(&mut text).expect("hear");
            assert_eq!(&text[..length], b"READY=1");
        }
        std::fs::remove_file(path).expect("remove");
    }
}
