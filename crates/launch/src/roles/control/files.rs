//! Who serves a domain's files, the view, or commits them, the syncer: as control has to do with it.

use std::os::fd::{AsFd, OwnedFd};

use surmise_kept::{Link, Serving};
use surmise_sync::Epochs;
use surmise_sys::id_map::IdMap;
use surmise_sys::process::{self, Child};

use super::Job;
use super::start::pair;
use crate::error::LaunchError;
use crate::files::UndoLog;
use crate::refusals::Telling;
use crate::roles::init::Root;
use crate::roles::syncer::SyncerProcess;
use crate::roles::view::ViewProcess;

/// The view, or the syncer of a domain that has the real files.
pub(super) struct FilesRole {
    pub(super) process: Child,
    /// What it is called.
    pub(super) name: &'static str,
    /// Closed, it tells it to end.
    pub(super) link: Link,
    /// What the domain's output waits for, under external synchrony.
    pub(super) epochs: Option<Epochs>,
}

impl FilesRole {
    /// With what pid 1 needs: its root, and the link by which a syncer gets the listener. `undo_log`: the
    /// view's end of the link to the speculator.
    pub(super) fn start(
        job: &Job<'_>,
        id_map: &IdMap,
        (serving, telling, fifos): (&Serving, &Option<Telling>, Option<&OwnedFd>),
        undo_log: Option<UndoLog>,
    ) -> Result<(Self, Root, Option<Link>), LaunchError> {
        match job.synchrony {
            None => start_view(job, id_map, (serving, fifos), undo_log)
                .map(|(role, device)| (role, Root::View(device), None)),
            Some(options) => start_syncer(options, telling)
                .map(|(role, listener)| (role, Root::Real, Some(listener))),
        }
    }

    /// It has gone: what waits for a commit waits for none, and the domain is to end.
    pub(super) fn gone(&self) {
        if let Some(epochs) = &self.epochs {
            epochs.stop();
        }
    }

    /// Tells it that nobody needs it any more.
    pub(super) fn end(&self) {
        let _ = rustix::net::shutdown(&self.link, rustix::net::Shutdown::Write);
    }
}

fn start_view(
    job: &Job<'_>,
    id_map: &IdMap,
    (serving, fifos): (&Serving, Option<&OwnedFd>),
    undo_log: Option<UndoLog>,
) -> Result<(FilesRole, Link), LaunchError> {
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
    let role = FilesRole {
        process,
        name: "the view process",
        link,
        epochs: None,
    };
    Ok((role, init_device))
}

fn start_syncer(
    options: &surmise_sync::Options,
    telling: &Option<Telling>,
) -> Result<(FilesRole, Link), LaunchError> {
    let epochs = Epochs::shared(options.driver.device(), options.promise)
        .map_err(LaunchError::step("count promises with other domains"))?;
    let (link, control) = pair()?;
    let (init_listener, init) = pair()?;
    let owned = SyncerProcess {
        control,
        init,
        options: options.clone(),
        epochs: epochs.clone(),
        telling: telling.clone(),
    };
    let process = process::fork_with(owned, SyncerProcess::descriptors, SyncerProcess::live)
        .map_err(LaunchError::step("start the syncer"))?;
    let role = FilesRole {
        process,
        name: "the syncer",
        link,
        epochs: Some(epochs),
    };
    Ok((role, init_listener))
}
