//! The thread that waits for changes which others make in the directory.
//!
//! The thread that has the directory reads of them, so that it knows of each before it makes or looks at anything later.
//! This one only wakes it.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};
use surmise_sys::fanotify::Listener;

use crate::input::Input;
use crate::notice::notice;

/// How long changes gather, so that many of them, or many of the server's own, cost no more than a few.
const GATHER: Duration = Duration::from_millis(2);

/// Begins to listen; `None` where that cannot be done, which is said.
pub(crate) fn start(inputs: Sender<Input>) -> Option<Arc<Listener>> {
    match try_start(inputs) {
        Ok(listener) => Some(listener),
        Err(error) => {
            notice(format_args!(
                "what is changed here and not through a mount is not noticed: {error} (fanotify(7))"
            ));
            None
        }
    }
}

fn try_start(inputs: Sender<Input>) -> io::Result<Arc<Listener>> {
    let listener = Arc::new(Listener::new()?);
    let waited = listener.clone();
    let watch = move || {
        loop {
            let mut events = [PollFd::new(&*waited, PollFlags::IN)];
            if rustix::event::poll(&mut events, None).is_err() {
                continue;
            }
            let (done, looked) = channel();
            // Without an answer the server ends.
            if inputs.send(Input::Look(done)).is_err() || looked.recv().is_err() {
                return;
            }
            thread::sleep(GATHER);
        }
    };
    thread::Builder::new().name("watch".into()).spawn(watch)?;
    Ok(listener)
}
