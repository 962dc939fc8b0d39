//! What a call touches is looked up before the call is let go.

use std::collections::{BTreeSet, HashSet};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use rustix::process::Pid;
use surmise_engine::UndoId;
use surmise_syscalls::Syscall;

use super::ViewFiles;
use super::look::{End, Look, Reach, Share, Touch, Touches};
use crate::call::Call;
use crate::world::World;

/// How often a call is looked at again since others were in its way.
const LOOKS_MAX: usize = 4;

/// What the view was asked, and where callers find something else.
type Asked = (Vec<Look>, Arc<HashSet<PathBuf>>);

/// What was found out about a call.
#[derive(Debug, Default)]
struct Found {
    /// What is touched; `None` if it may be anything.
    touches: Option<Touches>,
    /// What its paths lead to, as far as that is known.
    ends: Vec<End>,
    /// What the view was asked for that.
    asked: Option<Asked>,
}

/// What a call that is attended to was found to touch.
#[derive(Debug)]
pub(super) struct Met {
    /// The number of the call.
    call: u64,
    /// The marks whose changes it meets; `None`: it may be all.
    marks: Option<BTreeSet<u64>>,
    /// The cells; `None`: it may be any.
    cells: Option<Vec<(u64, Share)>>,
    /// What its paths lead to, in their order; none if that is not known of all.
    pub(super) ends: Vec<End>,
    /// Another call under way should have come first, and has not.
    pub(super) overtakes: bool,
}

impl ViewFiles {
    /// Looks up what a call of a process touches. `is_member`: whether the process depends on something undecided. `waiting`: the
    /// threads whose calls wait for their answers.
    pub(crate) fn look<W: World>(
        &mut self,
        world: &mut W,
        (process, is_member): (Pid, bool),
        call: &Call,
        waiting: &[Pid],
    ) -> io::Result<()> {
        self.met = None;
        let touch = world.touch(call);
        let mut marks = self.marks.values();
        let are_others = marks.any(|mark| !is_member || mark.process != process);
        let is_ordered = touch >= Touch::Changes && self.under_way.has_others(call.thread());
        let matters = are_others || is_ordered || world.depends_on_ends(call);
        if touch == Touch::Nothing || !matters {
            return Ok(());
        }
        for _ in 0..LOOKS_MAX {
            let found = self.find(world.reach(process, call)?, world.now())?;
            let (marks, cells) = match found.touches {
                Some(touches) => (
                    Some(touches.marks.into_iter().collect()),
                    Some(touches.cells),
                ),
                None => (None, None),
            };
            let first = self
                .under_way
                .ordered_with(call.thread(), touch, cells.as_deref());
            if first.is_empty() {
                if let (Some((looks, elsewhere)), Some(cells)) = (found.asked, &cells) {
                    let found = (&cells[..], &found.ends[..]);
                    self.recollection
                        .learn(&looks, &elsewhere, found, world.now());
                }
                self.met = Some(Met {
                    call: call.notification.id,
                    marks,
                    cells,
                    ends: found.ends,
                    overtakes: false,
                });
                return Ok(());
            }
            if !world.come_past(&first, waiting)? {
                break;
            }
            for thread in first {
                self.under_way.past(thread);
            }
        }
        if touch >= Touch::Changes {
            self.under_way.blur();
        }
        self.met = Some(Met {
            call: call.notification.id,
            marks: None,
            cells: None,
            ends: Vec::new(),
            overtakes: true,
        });
        Ok(())
    }

    /// What is touched by what reaches so far.
    fn find(&mut self, reach: Reach, now: Instant) -> io::Result<Found> {
        let (looks, elsewhere, in_doubt) = match reach {
            Reach::Nothing => {
                return Ok(Found {
                    touches: Some(Touches::default()),
                    ..Found::default()
                });
            }
            Reach::Everything => return Ok(Found::default()),
            Reach::At {
                looks,
                elsewhere,
                in_doubt,
            } => (looks, elsewhere, in_doubt),
        };
        if let Some((cells, ends)) = self.recollection.of(&looks, &elsewhere, now) {
            let touches = Touches {
                cells,
                ..Touches::default()
            };
            return Ok(Found {
                touches: Some(touches).filter(|_| !in_doubt),
                ends,
                asked: None,
            });
        }
        // What cannot be looked up may be anything.
        let Ok(mut touches) = self.of_mark()?.touches(&looks, &elsewhere) else {
            return Ok(Found::default());
        };
        let ends = std::mem::take(&mut touches.ends);
        Ok(Found {
            touches: Some(touches).filter(|touches| !touches.in_doubt && !in_doubt),
            ends,
            asked: Some((looks, elsewhere)),
        })
    }

    /// What calls were found to touch may be otherwise now.
    pub(crate) fn forget_looks(&mut self) {
        self.recollection.forget();
    }

    /// Whether a call that is attended to was looked at.
    pub(crate) fn have_met(&self, call: &Call) -> bool {
        self.met(call).is_some()
    }

    /// What a call was found to touch, if it was looked at.
    pub(super) fn met(&self, call: &Call) -> Option<&Met> {
        let met = self.met.as_ref();
        met.filter(|met| met.call == call.notification.id)
    }

    /// A call changes the data of a file of this inode's number. Where nothing could be in its way, it was not looked at.
    pub(super) fn note_written(&mut self, call: &Call, inode: u64) {
        use Syscall::{Fallocate, Pwrite64, Pwritev, Pwritev2, Write, Writev};
        let name = call.name();
        // They touch nothing else.
        let is_all = matches!(
            name,
            Write | Writev | Pwrite64 | Pwritev | Pwritev2 | Fallocate
        );
        if is_all && self.met(call).is_none() {
            self.met = Some(Met {
                call: call.notification.id,
                marks: Some(BTreeSet::new()),
                cells: Some(vec![(inode, Share::Changes)]),
                ends: Vec::new(),
                overtakes: false,
            });
        }
    }

    /// A thread has come past all calls that were let go.
    pub(crate) fn past(&mut self, thread: Pid) {
        self.under_way.past(thread);
    }

    /// A call is let go. `record`: of what its process changes now, if that is undecided.
    pub(crate) fn let_go(&mut self, call: &Call, touch: Touch, record: Option<UndoId>) {
        if self.files.is_none() || touch == Touch::Nothing {
            return;
        }
        let cells = match self.met(call) {
            Some(_) => self.met.take().and_then(|met| met.cells),
            None => None,
        };
        let binds = touch == Touch::Binds;
        if binds && cells.is_none() {
            // Nobody has looked which names those are.
            self.under_way.blur();
        }
        if touch >= Touch::Changes {
            let mark = record.and_then(|record| self.marks.get(&record));
            let mark = mark.map(|mark| mark.number);
            self.recollection.change(cells.as_deref(), mark, binds);
        }
        if cells.as_ref().is_none_or(|cells| !cells.is_empty()) {
            self.under_way.let_go(call.thread(), touch, cells);
        }
    }
}

impl Met {
    pub(super) fn meets(&self, mark: u64) -> bool {
        let mut marks = self.marks.iter();
        marks.all(|marks| marks.contains(&mark))
    }
}
