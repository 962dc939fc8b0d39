//! The moments at which a kill or a loss of power may come: between any two calls that change the file system.

use rustix::io::Errno;

/// Fails where a test has the server end.
#[cfg(test)]
pub(super) fn may_end() -> Result<(), Errno> {
    tests::LEFT.with(|left| match left.get() {
        Some(0) => Err(Errno::INTR),
        Some(more) => {
            left.set(Some(more - 1));
            Ok(())
        }
        None => Ok(()),
    })
}

#[cfg(not(test))]
#[expect(clippy::unnecessary_wraps, reason = "it fails in tests")]
#[inline]
pub(super) fn may_end() -> Result<(), Errno> {
    Ok(())
}

#[cfg(test)]
pub(super) mod tests {
    use std::cell::Cell;

    thread_local! {
        /// How many more calls are made; `None` for all.
        pub(super) static LEFT: Cell<Option<u64>> = const { Cell::new(None) };
    }

    /// Lets so many calls be made, and no more.
    pub(crate) fn allow(calls: Option<u64>) {
        LEFT.with(|left| left.set(calls));
    }

    /// Whether it has come to the end.
    pub(crate) fn is_over() -> bool {
        LEFT.with(|left| left.get() == Some(0))
    }
}
