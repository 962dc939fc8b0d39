//! The view, which serves a domain's files, as control has to do with it.

use std::os::fd::{AsFd, OwnedFd};

use surmise_kept::{Link, Serving};
use surmise_linux::id_map::IdMap;
use surmise_sys::process::{self, Child};

use super::Job;
use super::start::pair;
use crate::error::LaunchError;
use crate::files::UndoLog;
use crate::message::ViewOrder;
use crate::roles::view::ViewProcess;

/// The view of a domain that has one.
pub(super) struct ViewRole {
    pub(super) process: Child,
    /// Closed, it tells the view to end.
    pub(super) link: Link,
}

impl ViewRole {
    /// With what pid 1 needs: the link by which the view gets its device. `undo_log`: the view's end of the link to the
    /// supervisor.
    pub(super) fn start(
        job: &Job<'_>,
        id_map: &IdMap,
        (serving, fifos): (&Serving, Option<&OwnedFd>),
        undo_log: Option<UndoLog>,
    ) -> Result<(Self, Link), LaunchError> {
        let (link, control) = pair()?;
        let (init_device, device) = pair()?;
        let view = ViewProcess {
            root: job.root,
            state: job.state,
            id_map,
            device: &device,
            control: &control,
            undo_log: undo_log.as_ref(),
            fifos,
        };
        let mut keep = vec![device.as_fd(), control.as_fd(), serving.as_fd()];
        keep.extend(fifos.iter().map(|fifos| fifos.as_fd()));
        keep.extend(undo_log.iter().flat_map(|log| log.descriptors()));
        let process = process::fork(&keep, || view.live())
            .map_err(LaunchError::step("start the view process"))?;
        Ok((Self { process, link }, init_device))
    }

    /// Has the view do something. If it has died, that is an event to come.
    pub(super) fn order(&self, order: &ViewOrder) {
        let _ = self.link.send(order);
    }

    /// Tells the view that nobody needs it any more.
    pub(super) fn end(&self) {
        let _ = rustix::net::shutdown(&self.link, rustix::net::Shutdown::Write);
    }
}
