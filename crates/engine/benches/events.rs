//! What an event costs with a thousand objects and with a million, all of which depend on somebody
//! else's prediction: a denial with a small cascade looks at none of them.
//!
//! `cargo bench -p surmise-engine`

use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use surmise_engine::{
    Access, Answer, ChannelId, CkptId, Decision, Effect, Engine, GroupId, Guess, HoldId, Id, Kinds,
    Node, ObjectId, Owner, Step, TaskId, UndoId,
};

const BYSTANDER: TaskId = TaskId(1);
const GUESSER: TaskId = TaskId(2);
const OBSERVER: TaskId = TaskId(3);
const PLAIN: TaskId = TaskId(4);
const TTY: ChannelId = ChannelId(1);

/// An engine in the middle of its work.
struct Scene {
    engine: Engine,
    effects: Vec<Effect>,
    objects: u64,
    /// Numbers that have been given.
    numbers: u64,
}

impl Scene {
    /// A bystander has modified so many objects under a prediction that stays undecided.
    fn new(objects: u64) -> Self {
        let mut scene = Self {
            engine: Engine::new(),
            effects: Vec::new(),
            objects,
            numbers: 0,
        };
        for task in [BYSTANDER, GUESSER, OBSERVER, PLAIN] {
            let spawned = scene.engine.spawn(None, task, &mut scene.effects);
            spawned.expect("spawn");
        }
        scene.engine.open(TTY, Kinds::ALL).expect("open");
        scene.checkpoint(BYSTANDER);
        scene.predict(BYSTANDER);
        for object in 0..objects {
            scene.modify(BYSTANDER, object);
        }
        scene
    }

    fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    fn group(&self, task: TaskId) -> GroupId {
        self.engine.group(task).expect("alive")
    }

    fn checkpoint(&mut self, task: TaskId) {
        let (group, ckpt) = (self.group(task), CkptId(self.number()));
        let taken = self.engine.checkpointed(group, ckpt, &mut self.effects);
        taken.expect("checkpoint");
    }

    fn predict(&mut self, task: TaskId) -> Id {
        let guess = self
            .engine
            .predict(task, Owner::Outside, true, &mut self.effects);
        match guess.expect("predict") {
            Guess::Go(id) => id,
            other => panic!("{other:?}"),
        }
    }

    fn modify(&mut self, task: TaskId, object: u64) {
        let undo = Some(UndoId(self.number()));
        self.access(task, object, Access::Both(undo));
    }

    fn access(&mut self, task: TaskId, object: u64, access: Access) {
        let object = ObjectId(object);
        let answer = self.engine.access(task, object, access, &mut self.effects);
        assert_eq!(answer.expect("access"), Answer::Go);
    }

    fn output(&mut self, task: TaskId) {
        let hold = HoldId(self.number());
        let put = self
            .engine
            .output(Node::Task(task), TTY, hold, &mut self.effects);
        put.expect("output");
    }

    /// A decision, and the end of its rollback. Returns how many steps that had.
    fn decide(&mut self, id: Id, decision: Decision) -> usize {
        self.engine
            .decide(id, decision, &mut self.effects)
            .expect("decide");
        let plans = self.effects.drain(..).filter_map(|effect| match effect {
            Effect::Plan(plan) => Some(plan),
            _ => None,
        });
        let mut count = 0;
        for plan in plans.collect::<Vec<_>>() {
            count += plan.steps.len();
            assert!(!plan.steps.contains(&Step::Stop(self.group(BYSTANDER))));
            let told = self.engine.rolled_back(plan.id, &mut self.effects);
            told.expect("rolled back");
        }
        count
    }

    /// An object that nobody speculates on.
    fn plain(&self, number: u64) -> u64 {
        self.objects + number % 1000
    }

    /// A guess on which eight modifications and an output come to depend.
    fn speculate(&mut self) -> Id {
        self.checkpoint(GUESSER);
        let id = self.predict(GUESSER);
        for object in 0..8 {
            self.modify(GUESSER, self.plain(object));
        }
        self.output(GUESSER);
        id
    }
}

fn events(criterion: &mut Criterion) {
    for objects in [1_000, 1_000_000] {
        let mut scene = Scene::new(objects);
        let mut at = |name: &str, event: &mut dyn FnMut(&mut Scene, u64)| {
            let id = format!("{name}, among {objects}");
            criterion.bench_function(&id, |bencher| {
                let mut round = 0;
                bencher.iter(|| {
                    // A step that has no factor in common with the number of objects.
                    round = (round + 617) % objects;
                    event(&mut scene, round);
                    scene.effects.clear();
                });
            });
        };
        at("observe what one depends on", &mut |scene, object| {
            scene.access(BYSTANDER, object, Access::Observe);
        });
        at("modify without predictions", &mut |scene, object| {
            let object = scene.plain(object);
            scene.access(PLAIN, object, Access::Both(None));
        });
        at("checkpoint, predict, affirm", &mut |scene, _| {
            scene.checkpoint(GUESSER);
            let id = scene.predict(GUESSER);
            scene.decide(id, Decision::Affirm);
        });
        at(
            "the same with 8 modifications and an output",
            &mut |scene, _| {
                let id = scene.speculate();
                scene.decide(id, Decision::Affirm);
            },
        );
        at("the same denied", &mut |scene, _| {
            let id = scene.speculate();
            assert_eq!(scene.decide(id, Decision::Deny), 3 + 8);
        });
        at("the same denied, seen by another", &mut |scene, _| {
            let id = scene.speculate();
            scene.checkpoint(OBSERVER);
            scene.modify(OBSERVER, scene.plain(0));
            assert_eq!(scene.decide(id, Decision::Deny), 6 + 9);
        });
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_secs(1))
        .measurement_time(Duration::from_secs(2));
    targets = events
}
criterion_main!(benches);
