//! The kinds of object that a domain has, one file each, and whose inverse record is whose.

pub(crate) mod exits;
pub(crate) mod files;
pub(crate) mod heed;
pub(crate) mod input;
pub(crate) mod pipe;
pub(crate) mod position;
pub(crate) mod sent;
pub(crate) mod shut;
pub(crate) mod stream;
pub(crate) mod wait;
pub(crate) mod zombies;

use std::collections::BTreeMap;
use std::io;

use rustix::process::Pid;
use surmise_engine::{ObjectId, UndoId};

use crate::call::Call;
use crate::error::bug;
use crate::kind::Kind;
use crate::map::Map;
use crate::meeting::Act;
use crate::member::Member;
use crate::object::{Did, ObjectKind, Obstacle};
use crate::world::{Apart, World};

use exits::Exits;
use files::{Files, ViewFiles};
use input::Inputs;
use pipe::Pipes;
use position::Positions;
use sent::SentSignals;
use shut::ShutPipes;
use stream::Streams;
use zombies::Zombies;

/// Where the numbers of each kind begin that it gives its objects for the engine. A mark of the view is an object by its
/// number, below them.
mod numbers {
    pub(super) const INPUTS: u64 = 1 << 32;
    pub(super) const PIPES: u64 = 2 << 32;
    pub(super) const EXITS: u64 = 3 << 32;
    pub(super) const SHUT_PIPES: u64 = 4 << 32;
    pub(super) const POSITIONS: u64 = 5 << 32;
    pub(super) const ZOMBIES: u64 = 6 << 32;
    pub(super) const SENT_SIGNALS: u64 = 7 << 32;
}

/// All kinds of object of a domain.
#[derive(Debug)]
pub(crate) struct Objects<W: World> {
    pub(crate) files: ViewFiles,
    pub(crate) inputs: Inputs<W>,
    pub(crate) pipes: Pipes<W>,
    pub(crate) positions: Positions<W>,
    pub(crate) streams: Streams<W>,
    pub(crate) exits: Exits,
    pub(crate) shut: ShutPipes,
    pub(crate) zombies: Zombies,
    pub(crate) sent: SentSignals,
    /// The records that the engine may have applied or let go, by the kind that made them.
    records: Map<UndoId, Kind>,
    /// How many records there have been.
    made: u64,
}

impl<W: World> Objects<W> {
    pub(crate) fn new(files: Option<Box<dyn Files>>) -> Self {
        Self {
            files: ViewFiles::new(files),
            inputs: Inputs::default(),
            pipes: Pipes::default(),
            positions: Positions::default(),
            streams: Streams::default(),
            exits: Exits::default(),
            shut: ShutPipes::default(),
            zombies: Zombies::default(),
            sent: SentSignals::default(),
            records: Map::default(),
            made: 0,
        }
    }

    /// Each kind that keeps inverse records.
    fn kinds(&mut self) -> [&mut dyn ObjectKind<W>; 8] {
        [
            &mut self.files,
            &mut self.inputs,
            &mut self.pipes,
            &mut self.positions,
            &mut self.exits,
            &mut self.shut,
            &mut self.zombies,
            &mut self.sent,
        ]
    }

    fn of(&mut self, kind: Kind) -> io::Result<&mut dyn ObjectKind<W>> {
        let mut kinds = self.kinds().into_iter();
        let found = kinds.find(|one| one.kind() == kind);
        found.ok_or_else(|| bug("a kind without records has made one"))
    }

    /// A member's call does something to an object. Returns what becomes of it, the record that it has made if
    /// it accesses one, and the kind of the object.
    pub(crate) fn meet(
        &mut self,
        world: &mut W,
        member: &Member<W>,
        call: &Call,
        act: &Act,
        apart: &Apart,
    ) -> io::Result<(Did, UndoId, Kind)> {
        let record = self.next_record();
        let mut kind = act.kind();
        let did = match act {
            Act::Change(changing) => {
                let vessels = &apart.vessels;
                let written = changing.written;
                self.files
                    .change(world, member, call, written, (record, vessels))?
            }
            Act::Put { descriptor, bytes } => {
                self.streams
                    .put(world, member, call, (*descriptor, *bytes))?
            }
            Act::Send { descriptor, bytes } => {
                let sent = (*descriptor, bytes.as_slice(), record);
                self.pipes.put(world, member, call, sent, apart)?
            }
            Act::Ask => self.pipes.ask(world, member, call, apart)?,
            Act::Take(wanted) => {
                // What was given already is still there, and comes first.
                let taken = match self.inputs.have_given(world, member, wanted)? {
                    true => None,
                    false => {
                        let wanted = (wanted, record);
                        self.pipes.take(world, member, call, wanted, apart)?
                    }
                };
                match taken {
                    Some(did) => {
                        kind = Kind::Pipe;
                        did
                    }
                    None => self.inputs.give(world, member, call, (wanted, record))?,
                }
            }
        };
        if matches!(did, Did::Accesses { .. }) {
            self.records.insert(record, kind);
        }
        Ok((did, record, kind))
    }

    /// A member is about to move the position of what a descriptor leads to. Returns what becomes of that, and the record.
    pub(crate) fn moves(
        &mut self,
        world: &mut W,
        caller: (&Member<W>, &Call),
        descriptor: u64,
        waiting: &[Pid],
    ) -> io::Result<(Did, UndoId)> {
        let record = self.next_record();
        let did = self
            .positions
            .moves(world, caller, (descriptor, record), waiting)?;
        if matches!(did, Did::Accesses { .. }) {
            self.records.insert(record, Kind::Position);
        }
        Ok((did, record))
    }

    fn next_record(&mut self) -> UndoId {
        self.made += 1;
        UndoId(self.made)
    }

    /// A record of what the caller is about to do to an object of a kind.
    pub(crate) fn record(&mut self, kind: Kind) -> UndoId {
        let record = self.next_record();
        self.records.insert(record, kind);
        record
    }

    /// Takes back what records have done, all at once. The newest comes first. Returns their kinds.
    pub(crate) fn undo(&mut self, world: &mut W, records: &[UndoId]) -> io::Result<Vec<Kind>> {
        let of_kinds = self.take(records)?;
        for (kind, records) in &of_kinds {
            self.of(*kind)?.undo(world, records)?;
        }
        let kinds = of_kinds.into_iter();
        Ok(kinds
            .flat_map(|(kind, records)| std::iter::repeat_n(kind, records.len()))
            .collect())
    }

    /// What records have done stays. The oldest comes first.
    pub(crate) fn release(&mut self, world: &mut W, records: &[UndoId]) -> io::Result<()> {
        for (kind, records) in self.take(records)? {
            self.of(kind)?.release(world, &records)?;
        }
        Ok(())
    }

    fn take(&mut self, records: &[UndoId]) -> io::Result<BTreeMap<Kind, Vec<UndoId>>> {
        let of_kinds = self.by_kind(records);
        for record in records {
            let kind = self.records.remove(record);
            kind.ok_or_else(|| bug("the engine names a record that nobody has made"))?;
        }
        Ok(of_kinds)
    }

    fn by_kind(&self, records: &[UndoId]) -> BTreeMap<Kind, Vec<UndoId>> {
        let mut of_kinds: BTreeMap<Kind, Vec<UndoId>> = BTreeMap::new();
        for record in records {
            if let Some(kind) = self.records.get(record) {
                of_kinds.entry(*kind).or_default().push(*record);
            }
        }
        of_kinds
    }

    /// Before a rollback that applies these records.
    pub(crate) fn give_way(&mut self, records: &[UndoId]) -> io::Result<()> {
        for (kind, records) in self.by_kind(records) {
            self.of(kind)?.give_way(&records)?;
        }
        Ok(())
    }

    /// Whether nothing that a task has done to any object is undecided.
    pub(crate) fn are_quiet(&mut self) -> bool {
        self.kinds().iter().all(|kind| kind.is_quiet())
    }

    /// Whether a process has a part in an exit that is held, or has to reap a child.
    pub(crate) fn need(&self, process: Pid) -> bool {
        self.exits.need(process) || self.zombies.need(process)
    }

    /// What stands in the way of a call, with its kind.
    pub(crate) fn obstacles(
        &mut self,
        world: &W,
        caller: Option<Pid>,
        call: &Call,
    ) -> Vec<(Obstacle, Kind)> {
        let mut found = Vec::new();
        for one in self.kinds().into_iter().filter(|one| !one.is_quiet()) {
            let kind = one.kind();
            let obstacles = one.obstacles(world, caller, call);
            found.extend(obstacles.into_iter().map(|obstacle| (obstacle, kind)));
        }
        found
    }

    /// Objects that nothing depends on any more.
    pub(crate) fn take_idle(&mut self) -> Vec<ObjectId> {
        let mut idle = Vec::new();
        for kind in self.kinds() {
            idle.extend(kind.take_idle());
        }
        idle
    }
}
