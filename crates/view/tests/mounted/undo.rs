//! Changes of a task are undone while it stands still between calls.

use std::path::Path;
use std::sync::mpsc::{Receiver, channel};

use rustix::fs::{AtFlags, Mode, OFlags, StatxFlags};
use surmise_view::Notifier;

use crate::server::{Client, Stage};
use crate::{PATIENCE, server};

pub fn run(place: &Path) {
    server::serve(place, include_str!("undo.py"), true, direct);
}

/// The play: what whoever decides does while the client stands still, or waits.
fn direct(stage: &Stage, notifier: &Notifier, mut client: Client) {
    client.hear("begins");
    client.say("begin");
    let (view, process) = (&stage.view, client.process());
    let (asks, asked) = channel();
    view.ask_for_decision_by(move || {
        // The play may be over.
        let _ = asks.send(());
    });
    for _ in 0..2 {
        client.hear("looked");
        let mark = notifier.mark(view, process, false).unwrap();
        client.say("change");
        client.hear("changed");
        notifier.undo(view, &[mark]).unwrap();
        client.say("look");
    }
    client.hear("keeps");
    let older = notifier.mark(view, process, false).unwrap();
    client.say("go on");
    client.hear("kept one");
    let newer = notifier.mark(view, process, false).unwrap();
    client.say("go on");
    client.hear("kept both");
    notifier.settle(view, &[older]).unwrap();
    notifier.undo(view, &[newer]).unwrap();
    client.say("look");
    assert!(asked.try_recv().is_err(), "nothing had to wait");

    share(stage, notifier, &mut client, &asked);
    append(stage, notifier, &mut client);
    assert!(asked.try_recv().is_err(), "nothing had to wait");

    client.hear("removes");
    let mark = notifier.mark(view, process, true).unwrap();
    assert!(notifier.conceal(view, process));
    client.say("remove");
    client.hear("removed");
    assert!(notifier.concealed(view).unwrap());
    assert!(!notifier.concealed(view).unwrap(), "it is over");
    client.say("look");
    client.hear("is shut");
    notifier.undo(view, &[mark]).unwrap();
    client.say("look");
    client.end();
}

/// Writes to a file that somebody else has open, which are checked.
fn share(stage: &Stage, notifier: &Notifier, client: &mut Client, asked: &Receiver<()>) {
    let (view, process) = (&stage.view, client.process());
    client.hear("shares");
    let mark = notifier.mark(view, process, true).unwrap();
    notifier.check_writes(view, process);
    client.say("write");
    asked.recv_timeout(PATIENCE).unwrap();
    notifier.settle(view, &[mark]).unwrap();
    client.hear("is undone");
    let mark = notifier.mark(view, process, true).unwrap();
    notifier.check_writes(view, process);
    client.say("write");
    asked.recv_timeout(PATIENCE).unwrap();
    assert!(!notifier.conceal(view, process), "a request is postponed");
    notifier.give_up(view, &[mark]).unwrap();
    client.hear("gave up");
    notifier.undo(view, &[mark]).unwrap();
    client.say("look");
}

/// Likewise, not checked.
fn append(stage: &Stage, notifier: &Notifier, client: &mut Client) {
    let (view, process) = (&stage.view, client.process());
    client.hear("appends");
    let mark = notifier.mark(view, process, true).unwrap();
    client.say("write");
    client.hear("appended");
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let file = rustix::fs::open(stage.point.join("own/file"), flags, Mode::empty()).unwrap();
    notifier.undo(view, &[mark]).unwrap();
    // The client does not ask how long the file is.
    let asks = AtFlags::EMPTY_PATH | AtFlags::STATX_FORCE_SYNC;
    let size = rustix::fs::statx(&file, c"", asks, StatxFlags::SIZE)
        .unwrap()
        .stx_size;
    assert_eq!(size, b"own data".len() as u64);
    client.say("write");
}
