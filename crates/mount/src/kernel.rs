//! What the kernel is to forget, told to it by threads that serve none of its requests.
//!
//! Names and attributes are forgotten without any lock of the kernel, so that a recall never waits for a call that
//! waits for the server itself: attributes one by one, names all at once (`FUSE_NOTIFY_INC_EPOCH`). Before Linux 6.16 the kernel
//! remembers no names. Before it reads from a file, the kernel asks for the file's attributes; when time or size are others, it
//! drops what it has of the data. Pages that are mapped are asked for by nobody, so they are dropped here; that waits for reads
//! under way, and nothing waits for that.
//!
//! A call that looks a name up takes the answer up when it runs again. Until then the kernel does not know an object that is new to
//! it, and has nothing to forget; afterwards it would remember attributes that are out of date. So the object is told until the
//! kernel knows it. For names the kernel sees to that itself.

use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use surmise_fuse::Notifier;
use surmise_remote::object::ObjectId;

use crate::nodes::Nodes;
use crate::shell::Shell;

/// How long a lease waits for the kernel to know an object that it was told of. Longer takes an object that the kernel has let go of, where
/// no thread is free to read that: what these threads wait for may need the lease that is to go back.
const TAKES_UP_MAX: Duration = Duration::from_secs(1);

/// After which the kernel is told again.
const MOMENT: Duration = Duration::from_micros(50);

/// And after which, when the lease has gone back.
const LATE_EVERY: Duration = Duration::from_millis(10);

/// What is to be forgotten.
#[derive(Debug)]
pub enum Forget {
    /// An object; the client is told of that by this number.
    Object(u64, ObjectId),
    /// All that the kernel was told of.
    All(Vec<ObjectId>),
}

/// For how long the kernel may remember what it was told.
#[derive(Debug, Clone, Copy)]
pub struct Lifetimes {
    /// That a name leads somewhere, or nowhere.
    pub names: Duration,
    /// Attributes.
    pub attributes: Duration,
}

impl Lifetimes {
    /// For a kernel of which all names can be made to expire at once, or not.
    pub fn new(has_epochs: bool) -> Self {
        let names = if has_epochs {
            Duration::MAX
        } else {
            Duration::ZERO
        };
        Self {
            names,
            attributes: Duration::MAX,
        }
    }
}

/// The kernel that serves a mount, and whether all names can be made to expire at once.
pub type Begun = (Notifier, bool);

/// Has the kernel forget what comes, once it has begun and until the senders are gone.
pub fn forget_all(
    begun: &Receiver<Begun>,
    wanted: &Receiver<Forget>,
    (shell, nodes): (&Shell, Nodes),
) {
    let Ok((kernel, has_epochs)) = begun.recv() else {
        return;
    };
    let (drops, dropped) = channel();
    let dropper = kernel.clone();
    let dropping = move || drop_data(&dropped, &dropper, nodes);
    // Without the thread, mappings keep what they show until they are made anew.
    let _ = thread::Builder::new()
        .name("drop data".to_owned())
        .spawn(dropping);
    // Objects that the kernel has not taken up so far.
    let mut late = Vec::new();
    loop {
        let first = match late.is_empty() {
            true => wanted.recv().map_err(RecvTimeoutError::from),
            false => wanted.recv_timeout(LATE_EVERY),
        };
        let first = match first {
            Ok(first) => first,
            Err(RecvTimeoutError::Timeout) => {
                late.retain(|object| is_to_be_told(*object, &kernel, (shell, nodes)));
                continue;
            }
            Err(RecvTimeoutError::Disconnected) => return,
        };
        let (mut numbers, mut objects) = (Vec::new(), Vec::new());
        for forget in std::iter::once(first).chain(wanted.try_iter()) {
            match forget {
                Forget::Object(number, object) => {
                    numbers.push(number);
                    objects.push(object);
                }
                Forget::All(all) => objects.extend(all),
            }
        }
        late.extend(forget_attributes(&objects, &kernel, (shell, nodes)));
        for object in objects {
            let _ = drops.send(object);
        }
        if has_epochs {
            // It fails where the mount has ended; then nothing is remembered.
            let _ = kernel.expire_all_entries();
        }
        shell.invalidated(numbers);
    }
}

/// Returns the objects that the kernel has still not taken up.
fn forget_attributes(
    objects: &[ObjectId],
    kernel: &Notifier,
    shell: (&Shell, Nodes),
) -> Vec<ObjectId> {
    let is_to_be_told = |object: &ObjectId| is_to_be_told(*object, kernel, shell);
    let mut unknown: Vec<_> = objects.iter().copied().filter(is_to_be_told).collect();
    let begun = Instant::now();
    while !unknown.is_empty() && begun.elapsed() <= TAKES_UP_MAX {
        thread::sleep(MOMENT);
        unknown.retain(is_to_be_told);
    }
    unknown
}

/// Tells the kernel to forget an object's attributes. Whether the kernel does not know the object, and may take it up later.
fn is_to_be_told(object: ObjectId, kernel: &Notifier, (shell, nodes): (&Shell, Nodes)) -> bool {
    let known = kernel.expire_attributes(nodes.node(object));
    matches!(known, Ok(false)) && shell.has_told(object)
}

fn drop_data(objects: &Receiver<ObjectId>, kernel: &Notifier, nodes: Nodes) {
    for object in objects {
        let _ = kernel.drop_data(nodes.node(object));
    }
}
