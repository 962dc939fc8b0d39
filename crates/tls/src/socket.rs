//! What the sockets of both sides are set to.

use std::io;
use std::net::TcpStream;
use std::time::Duration;

use rustix::net::sockopt;

/// A peer that is silent for so long is asked, and after so many questions taken for gone, as ssh does.
const SILENT_MAX: Duration = Duration::from_secs(10);
const QUESTIONS: u32 = 3;

/// For how long what was sent may stay unacknowledged.
const UNACKNOWLEDGED_MS_MAX: u32 = 30_000;

/// Small messages leave at once, and a peer that is gone is noticed.
pub(crate) fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, SILENT_MAX)?;
    sockopt::set_tcp_keepintvl(stream, SILENT_MAX)?;
    sockopt::set_tcp_keepcnt(stream, QUESTIONS)?;
    sockopt::set_tcp_user_timeout(stream, UNACKNOWLEDGED_MS_MAX)?;
    Ok(())
}
