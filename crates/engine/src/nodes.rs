//! Tasks and objects, and how dependencies spread among them.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, HashMap};
use std::hash::BuildHasherDefault;

use crate::assumptions::Assumptions;
use crate::deps::{Deps, Tracked};
use crate::effect::{Access, Answer};
use crate::error::EngineError;
use crate::id::{Id, Node, ObjectId, TaskId};
use crate::kind::{Kind, Kinds};

/// The live tasks, and the objects that have something to remember.
#[derive(Debug, Default)]
pub(crate) struct Nodes {
    tasks: BTreeMap<TaskId, Tracked>,
    /// There may be a million; their order is never looked at.
    objects: HashMap<ObjectId, Object, BuildHasherDefault<DefaultHasher>>,
}

/// An object; one that equals the default is as good as absent.
#[derive(Debug)]
struct Object {
    tracked: Tracked,
    carries: Kinds,
}

impl Default for Object {
    fn default() -> Self {
        Self {
            tracked: Tracked::default(),
            carries: Kinds::ALL,
        }
    }
}

impl Nodes {
    pub fn spawn(
        &mut self,
        parent: Option<TaskId>,
        child: TaskId,
        assumptions: &Assumptions,
    ) -> Result<(), EngineError> {
        let mut tracked = Tracked::default();
        if let Some(parent) = parent {
            tracked.take(self.task(parent)?, assumptions);
        }
        if self.tasks.contains_key(&child) {
            return Err(EngineError::TaskExists(child));
        }
        self.tasks.insert(child, tracked);
        Ok(())
    }

    pub fn end(&mut self, task: TaskId) -> Result<(), EngineError> {
        let ended = self.tasks.remove(&task);
        ended.map(drop).ok_or(EngineError::UnknownTask(task))
    }

    pub fn forget(&mut self, object: ObjectId) {
        self.objects.remove(&object);
    }

    /// Says what an object can carry.
    pub fn carry(
        &mut self,
        object: ObjectId,
        carries: Kinds,
        assumptions: &Assumptions,
    ) -> Result<(), EngineError> {
        let node = Node::Object(object);
        if !carries.consent {
            return Err(EngineError::WaitsForConsent(node));
        }
        let tracked = self.tracked(node)?;
        if let Some(id) = tracked.and_then(|own| own.newest(None, carries.others(), assumptions)) {
            return Err(EngineError::CannotCarry { object, id });
        }
        self.objects.entry(object).or_default().carries = carries;
        self.tidy(object);
        Ok(())
    }

    /// Makes a node depend on an undecided assumption.
    pub fn depend(
        &mut self,
        node: Node,
        id: Id,
        kind: Kind,
        assumptions: &Assumptions,
    ) -> Result<(), EngineError> {
        match node {
            Node::Task(task) => self.task_mut(task)?.add(id, kind, assumptions),
            Node::Object(object) => {
                if !self.carries(object).has(kind) {
                    return Err(EngineError::CannotCarry { object, id });
                }
                let own = self.objects.entry(object).or_default();
                own.tracked.add(id, kind, assumptions);
                self.tidy(object);
            }
        }
        Ok(())
    }

    pub fn access(
        &mut self,
        task: TaskId,
        object: ObjectId,
        access: Access,
        assumptions: &Assumptions,
    ) -> Result<Answer, EngineError> {
        let own = self.task(task)?;
        if access != Access::Observe {
            let wait = own.exact(self.carries(object).others(), assumptions);
            if !wait.is_empty() {
                return Ok(Answer::Wait(wait));
            }
        }
        if access != Access::Modify
            && let Some(observed) = self.objects.get(&object)
            && let Some(own) = self.tasks.get_mut(&task)
        {
            own.take(&observed.tracked, assumptions);
        }
        if access != Access::Observe
            && let Some(own) = self.tasks.get(&task)
            && !own.is_empty()
        {
            let modified = self.objects.entry(object).or_default();
            modified.tracked.take(own, assumptions);
        }
        self.tidy(object);
        Ok(Answer::Go)
    }

    /// What a node depends on of these kinds.
    pub fn deps(
        &self,
        node: Node,
        kinds: Kinds,
        assumptions: &Assumptions,
    ) -> Result<Deps, EngineError> {
        let tracked = self.tracked(node)?;
        let none = Tracked::default();
        Ok(tracked.unwrap_or(&none).exact(kinds, assumptions))
    }

    /// What is remembered of a node: nothing for most objects.
    pub fn tracked(&self, node: Node) -> Result<Option<&Tracked>, EngineError> {
        match node {
            Node::Task(task) => self.task(task).map(Some),
            Node::Object(object) => Ok(self.objects.get(&object).map(|found| &found.tracked)),
        }
    }

    /// The live tasks, rising.
    pub fn tasks(&self) -> impl ExactSizeIterator<Item = TaskId> + '_ {
        self.tasks.keys().copied()
    }

    fn task(&self, task: TaskId) -> Result<&Tracked, EngineError> {
        self.tasks.get(&task).ok_or(EngineError::UnknownTask(task))
    }

    fn task_mut(&mut self, task: TaskId) -> Result<&mut Tracked, EngineError> {
        let found = self.tasks.get_mut(&task);
        found.ok_or(EngineError::UnknownTask(task))
    }

    fn carries(&self, object: ObjectId) -> Kinds {
        let found = self.objects.get(&object);
        found.map_or(Kinds::ALL, |found| found.carries)
    }

    /// Forgets an object that has nothing to remember.
    fn tidy(&mut self, object: ObjectId) {
        let found = self.objects.get(&object);
        if found.is_some_and(|found| found.tracked.is_empty() && found.carries == Kinds::ALL) {
            self.objects.remove(&object);
        }
    }
}
