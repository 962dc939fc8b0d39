//! What happened, and the state that follows from all of it that is not undone.

use std::collections::{BTreeMap, BTreeSet};

use surmise_engine::{Access, GroupId, Id, Kind, Node, ObjectId, Owner, TaskId, UndoId};

/// Something that happened.
#[derive(Clone, Debug)]
pub struct Entry {
    pub what: What,
    /// Whose act it is: what a rollback of that group may take back.
    pub by: Option<GroupId>,
    /// Earlier modifications by the group of objects that nobody else has met. They come to rest on what the group gains
    /// now.
    pub unseen: Vec<(usize, ObjectId)>,
    pub undone: bool,
}

#[derive(Clone, Debug)]
pub enum What {
    Born {
        group: GroupId,
        task: TaskId,
    },
    /// A task of the group, for good.
    Ended(TaskId),
    /// The other group's tasks are this one's from then on.
    Merged {
        into: GroupId,
        from: GroupId,
    },
    Checkpointed,
    Assumed(Id),
    /// A guess that the group was given.
    Guessed(Id),
    /// A decision of one of its tasks.
    Decided,
    Depended(Node, Id),
    Accessed {
        object: ObjectId,
        access: Access,
        /// Which modifications of the object it could tell, or rests on.
        saw: BTreeSet<usize>,
    },
    Forgot(ObjectId),
    PutOut,
}

impl What {
    /// Whether others can see it.
    pub fn is_visible(&self) -> bool {
        match self {
            Self::Born { .. } | Self::Assumed(_) | Self::Decided | Self::PutOut => true,
            Self::Accessed { access, .. } => *access != Access::Observe,
            _ => false,
        }
    }

    pub fn undo(&self) -> Option<UndoId> {
        match *self {
            Self::Accessed {
                access: Access::Modify(undo) | Access::Both(undo) | Access::Commute(undo),
                ..
            } => undo,
            _ => None,
        }
    }
}

/// All that was assumed, and when it was decided: before the entry of that number.
#[derive(Default)]
pub struct Assumed {
    pub all: Vec<(Owner, Kind)>,
    pub decided_at: BTreeMap<Id, usize>,
}

impl Assumed {
    pub fn kind(&self, id: Id) -> Kind {
        self.all[id.0 as usize - 1].1
    }

    pub fn ids(&self) -> impl Iterator<Item = Id> + use<> {
        (1..=self.all.len() as u64).map(Id)
    }

    pub fn with_older_epochs(&self, id: Id) -> BTreeSet<Id> {
        let kind = self.kind(id);
        let is_older = |&other: &Id| {
            other == id || other < id && matches!(kind, Kind::Epoch(_)) && self.kind(other) == kind
        };
        self.ids().filter(is_older).collect()
    }

    fn was_undecided(&self, id: Id, at: usize) -> bool {
        self.decided_at.get(&id).is_none_or(|&decided| at < decided)
    }
}

#[derive(Clone, Debug, Default)]
pub struct Group {
    /// None once they have ended.
    pub tasks: BTreeSet<TaskId>,
    pub relies: BTreeSet<Id>,
    /// When it came to depend on what.
    pub gained: Vec<(usize, Id)>,
}

#[derive(Clone, Debug, Default)]
pub struct Object {
    pub relies: BTreeSet<Id>,
    /// What was relied on by the last modification that does not commute, and what the object was given since.
    pub ordered: BTreeSet<Id>,
    pub value: Value,
}

/// The entries that made an object what it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Value {
    /// The last that does not commute.
    pub modified: Option<usize>,
    /// Those since.
    pub commuted: BTreeSet<usize>,
}

impl Value {
    /// What an access rests on.
    pub fn seen_by(&self, access: Access) -> BTreeSet<usize> {
        let modified = self.modified.into_iter();
        match access {
            Access::Commute(_) => modified.collect(),
            _ => modified.chain(self.commuted.iter().copied()).collect(),
        }
    }

    /// A modification happens, as the entry of this number.
    pub fn modify(&mut self, access: Access, at: usize) {
        match access {
            Access::Observe => {}
            Access::Commute(_) => drop(self.commuted.insert(at)),
            Access::Modify(_) | Access::Both(_) => {
                *self = Self {
                    modified: Some(at),
                    commuted: BTreeSet::new(),
                }
            }
        }
    }
}

/// How things are.
#[derive(Clone, Debug, Default)]
pub struct State {
    pub groups: BTreeMap<GroupId, Group>,
    pub objects: BTreeMap<ObjectId, Object>,
    /// What the actor of each entry depended on then, of what was undecided.
    pub relied: BTreeMap<usize, BTreeSet<Id>>,
}

impl State {
    pub fn of(&self, task: TaskId) -> Option<GroupId> {
        let mut groups = self.groups.iter();
        groups.find_map(|(&id, group)| group.tasks.contains(&task).then_some(id))
    }
}

/// Plays a history again, without what is undone.
pub fn replay(history: &[Entry], assumed: &Assumed) -> State {
    let mut state = State::default();
    for (at, entry) in history
        .iter()
        .enumerate()
        .filter(|(_, entry)| !entry.undone)
    {
        play(at, entry, assumed, &mut state);
    }
    state
}

/// Plays one entry on top of those before it.
pub fn play(at: usize, entry: &Entry, assumed: &Assumed, state: &mut State) {
    let relied_before = entry.by.and_then(|by| state.groups.get(&by));
    let relied_before = relied_before.map(|group| group.relies.clone());
    happen(at, entry, assumed, state);
    if let Some(by) = entry.by {
        let mut gained = state.groups.entry(by).or_default().relies.clone();
        gained.retain(|id| {
            let known = relied_before.as_ref();
            assumed.kind(*id) == Kind::Prediction && known.is_none_or(|known| !known.contains(id))
        });
        for (earlier, object) in &entry.unseen {
            state.relied.entry(*earlier).or_default().extend(&gained);
            let modified = state.objects.entry(*object).or_default();
            modified.relies.extend(&gained);
            modified.ordered.extend(&gained);
        }
        let mut relied = state.groups.entry(by).or_default().relies.clone();
        relied.retain(|&id| assumed.was_undecided(id, at));
        state.relied.insert(at, relied);
    }
}

fn happen(at: usize, entry: &Entry, assumed: &Assumed, state: &mut State) {
    let gain = |group: &mut Group, ids: BTreeSet<Id>| {
        for id in ids.into_iter().filter(|&id| assumed.was_undecided(id, at)) {
            if group.relies.insert(id) {
                group.gained.push((at, id));
            }
        }
    };
    match entry.what {
        What::Born { group, task } => {
            let parent = entry.by.and_then(|parent| state.groups.get(&parent));
            let inherited = parent.map(|parent| parent.relies.clone());
            let born = state.groups.entry(group).or_default();
            gain(born, inherited.unwrap_or_default());
            born.tasks.insert(task);
        }
        What::Merged { into, from } => {
            let from = state.groups.remove(&from).expect("a live group");
            let into = state.groups.entry(into).or_default();
            into.tasks.extend(from.tasks);
            gain(into, from.relies);
        }
        What::Forgot(object) => {
            state.objects.remove(&object);
        }
        What::Depended(Node::Object(object), id) => {
            let mut all = assumed.with_older_epochs(id);
            all.retain(|&id| assumed.was_undecided(id, at));
            let given = state.objects.entry(object).or_default();
            given.ordered.extend(&all);
            given.relies.extend(all);
        }
        What::Checkpointed | What::Assumed(_) | What::Decided | What::PutOut => {}
        What::Ended(_) | What::Guessed(_) | What::Depended(..) | What::Accessed { .. } => {
            let by = entry.by.expect("a group's act");
            let own = state.groups.entry(by).or_default();
            match entry.what {
                What::Ended(task) => drop(own.tasks.remove(&task)),
                What::Guessed(id) => gain(own, BTreeSet::from([id])),
                What::Depended(_, id) => gain(own, assumed.with_older_epochs(id)),
                What::Accessed { object, access, .. } => {
                    let mut observed = state.objects.get(&object).cloned().unwrap_or_default();
                    if let Access::Commute(_) = access {
                        observed.relies = observed.ordered;
                    }
                    if let Access::Modify(_) | Access::Commute(_) = access {
                        let is_prediction = |id: &Id| assumed.kind(*id) == Kind::Prediction;
                        observed.relies.retain(is_prediction);
                    }
                    gain(own, observed.relies);
                    if access != Access::Observe {
                        let modified = state.objects.entry(object).or_default();
                        let given = own.relies.iter().copied();
                        modified
                            .relies
                            .extend(given.filter(|&id| assumed.was_undecided(id, at)));
                        if !matches!(access, Access::Commute(_)) {
                            modified.ordered = modified.relies.clone();
                        }
                        modified.value.modify(access, at);
                    }
                }
                _ => unreachable!(),
            }
        }
    }
}
