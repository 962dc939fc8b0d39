//! The syncer's process: hears the calls that ask for durability, and commits.
//!
//! It stays outside the domain, as the user that owns the domain's user namespace: so an ordinary user has
//! the right to look at tasks, too.

use std::os::fd::{AsFd, BorrowedFd};

use surmise_kept::Link;
use surmise_refusals::Tally;
use surmise_sync::{Epochs, Options, Syncer, SyncerError};

use crate::message::{Failure, ReceiveListener, Report};
use crate::refusals::{Telling, in_messages, observer};

/// What the syncer's process is given. It keeps these descriptors and no other.
pub(crate) struct SyncerProcess {
    /// To control; control's end is closed when the domain has ended, or control.
    pub(crate) control: Link,
    /// From pid 1: the listener.
    pub(crate) init: Link,
    pub(crate) options: Options,
    /// Shared with the relay process and with control.
    pub(crate) epochs: Epochs,
    /// How what is refused is told, if it is.
    pub(crate) telling: Option<Telling>,
}

impl SyncerProcess {
    pub(crate) fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        vec![
            self.control.as_fd(),
            self.init.as_fd(),
            self.epochs.as_fd(),
            self.options.driver.descriptor(),
        ]
    }

    /// The process' whole life; returns its exit status.
    pub(crate) fn live(self) -> u8 {
        let Self {
            control,
            init,
            options,
            epochs,
            telling,
        } = self;
        let tally = Tally::default();
        let synced = detach().and_then(|()| match init.receive_listener()? {
            Some((listened, listener, diagnostics)) => {
                let observer = observer(telling.as_ref(), listened, (&tally, diagnostics))?;
                let syncer = Syncer::new(listener, options, epochs.clone(), observer);
                syncer.run(control.as_fd()).map_err(failure)
            }
            None => Ok(Vec::new()),
        });
        let (report, status) = match synced {
            Ok(reasons) => (Report::MadeAtOnce(reasons), 0),
            Err(failure) => {
                epochs.stop();
                (Report::Failed(failure), 1)
            }
        };
        // Control may be dead; then nobody is left to be told.
        let _ = control.send(&report);
        for part in in_messages(tally.refusals()) {
            // Control reads when this process has ended: what finds no room until then is not told.
            let _ = control.try_send(&Report::RefusedInside(part));
        }
        status
    }
}

fn failure(error: SyncerError) -> Failure {
    let what = match error {
        SyncerError::Commit(_) => "make durable what was promised",
        SyncerError::Hear(_) => "hear calls",
    };
    let (SyncerError::Commit(source) | SyncerError::Hear(source)) = error;
    Failure::at(what)(source)
}

/// Away from the caller's name, terminal, directory and streams.
fn detach() -> Result<(), Failure> {
    rustix::thread::set_name(c"surmise-sync").map_err(Failure::at("name the syncer"))?;
    // No key on the terminal stops it, or the whole domain would wait.
    rustix::process::setsid().map_err(Failure::at("make a session"))?;
    rustix::process::chdir("/").map_err(Failure::at("leave the directory"))?;
    surmise_stdio::let_go().map_err(Failure::at("let go of the caller's streams"))
}
