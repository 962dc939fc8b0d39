//! How long a call may take: `grpc-timeout`, kept over the whole of a stream.
//!
//! tonic's own layers keep it until the head of the reply is there, which an aware server sends at once.
//! And they count from the first byte. A call that was sent ahead would then fail for the time that its
//! caller was undecided, where the same calls made one after the other would not. So it is counted from
//! when its caller is confirmed: no such call would have been made before.

use std::error::Error;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tonic::metadata::MetadataMap;
use tonic::{Status, TimeoutExpired};

const TIMEOUT: &str = "grpc-timeout";

/// When a call has to be answered: counted once, however often it has to be sent.
#[derive(Debug, Default)]
pub struct Deadline(Mutex<Option<Instant>>);

impl Deadline {
    /// The call is made, or made again because what it rested on has changed.
    pub fn renew(&self) {
        *self.lock() = None;
    }

    /// When it is, for a call that may take so long and whose caller is confirmed by now. None, where no
    /// clock reaches so far.
    pub fn of(&self, timeout: Duration) -> Option<Instant> {
        let mut due = self.lock();
        if due.is_none() {
            *due = Instant::now().checked_add(timeout);
        }
        *due
    }

    fn lock(&self) -> MutexGuard<'_, Option<Instant>> {
        // Nothing panics with it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits until then; for ever, where there is no deadline.
pub async fn passed(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}

pub fn exceeded() -> Status {
    Status::deadline_exceeded("the call was not answered before its deadline")
}

/// Whether tonic's client has given the call up, without the head of a reply.
pub fn is_expired(status: &Status) -> bool {
    let mut cause = status.source();
    while let Some(error) = cause {
        if error.is::<TimeoutExpired>() {
            return true;
        }
        cause = error.source();
    }
    false
}

/// How long the call may take. What cannot be read sets no limit, as in tonic.
pub fn timeout(metadata: &MetadataMap) -> Option<Duration> {
    let text = metadata.get(TIMEOUT)?.to_str().ok()?;
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let is_number = digits.len() <= 8 && digits.bytes().all(|byte| byte.is_ascii_digit());
    let count: u64 = digits.parse().ok().filter(|_| is_number)?;
    Some(match unit {
        "H" => Duration::from_secs(count * 3600),
        "M" => Duration::from_secs(count * 60),
        "S" => Duration::from_secs(count),
        "m" => Duration::from_millis(count),
        "u" => Duration::from_micros(count),
        "n" => Duration::from_nanos(count),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &'static str) -> Option<Duration> {
        let mut metadata = MetadataMap::new();
        metadata.insert(TIMEOUT, text.parse().unwrap());
        timeout(&metadata)
    }

    #[test]
    fn timeouts_are_read_as_grpc_writes_them() {
        let hours = Duration::from_secs(99_999_999 * 3600);
        assert_eq!(read("99999999H"), Some(hours));
        assert_eq!(read("2M"), Some(Duration::from_secs(120)));
        assert_eq!(read("3S"), Some(Duration::from_secs(3)));
        assert_eq!(read("4m"), Some(Duration::from_millis(4)));
        assert_eq!(read("5u"), Some(Duration::from_micros(5)));
        assert_eq!(read("6n"), Some(Duration::from_nanos(6)));
        for other in ["", "S", "1", "+1S", "123456789S", "1s", "1x"] {
            assert_eq!(read(other), None, "{other}");
        }
        assert_eq!(timeout(&MetadataMap::new()), None);
    }
}
