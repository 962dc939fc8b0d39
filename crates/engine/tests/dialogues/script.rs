//! Reads, plays and prints dialogues.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use surmise_engine::{
    Access, Answer, ChannelId, CkptId, Decision, Deps, Effect, Engine, EngineError, GroupId, Guess,
    HoldId, Id, Kind, Kinds, Merged, Node, ObjectId, On, Owner, PlanId, Step, TaskId, UndoId,
    Volume, WaiterId,
};

/// Plays the events of a dialogue and compares all that is said.
pub fn check(text: &str) {
    let lines: Vec<_> = text
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .collect();
    let mut play = Play::default();
    for event in lines.iter().filter(|line| !line.starts_with(' ')) {
        play.event(event);
    }
    let wanted: String = lines.iter().map(|line| format!("{line}\n")).collect();
    assert!(
        wanted == play.said,
        "wanted:\n{wanted}\nsaid:\n{}",
        play.said
    );
}

#[derive(Default)]
struct Play {
    engine: Engine,
    /// What the assumptions are called.
    names: BTreeMap<Id, String>,
    channels: Vec<String>,
    said: String,
}

impl Play {
    fn event(&mut self, line: &str) {
        let (event, _) = line.split_once(" -> ").unwrap_or((line, ""));
        let words: Vec<_> = event.split(' ').collect();
        let mut effects = Vec::new();
        let (answer, refused) = match self.tell(line, &words, &mut effects) {
            Ok(None) => (String::new(), None),
            Ok(Some(answer)) => (format!(" -> {answer}"), None),
            Err(error) => (String::new(), Some(error)),
        };
        writeln!(self.said, "{event}{answer}").unwrap();
        for effect in &effects {
            let effect = self.show(effect);
            writeln!(self.said, "  {effect}").unwrap();
        }
        if let Some(error) = refused {
            assert_eq!(effects, [], "a refused event has effects: {line}");
            writeln!(self.said, "  refused: {error}").unwrap();
        }
    }

    /// Tells the engine of one event. Returns what stands behind the arrow.
    fn tell(
        &mut self,
        line: &str,
        words: &[&str],
        effects: &mut Vec<Effect>,
    ) -> Result<Option<String>, EngineError> {
        match *words {
            ["assume", owner, ref kind @ ..] => return self.assume(line, owner, kind).map(Some),
            ["depend", on, id] => {
                let id = self.assumption(id);
                let answer = self.engine.depend(node(on), id, effects)?;
                return Ok((answer != Answer::Go).then(|| self.answer(&answer)));
            }
            ["predict", who, "by", owner, ref sharing @ ..] => {
                return self.predict(line, who, owner, sharing, effects).map(Some);
            }
            ["decide", id, decision] => {
                let decision = match decision {
                    "affirm" => Decision::Affirm,
                    "deny" => Decision::Deny,
                    _ => panic!("no decision: {decision}"),
                };
                let id = self.assumption(id);
                self.engine.decide(id, decision, effects)
            }
            ["spawn", child] => self.engine.spawn(None, task(child), effects),
            ["spawn", child, "of", parent] => {
                self.engine.spawn(Some(task(parent)), task(child), effects)
            }
            ["end", ended] => self.engine.end(task(ended), effects),
            ["forget", object] => {
                self.engine.forget(ObjectId(number('o', object)), effects);
                Ok(())
            }
            ["access", who, object, ref access @ ..] => {
                let object = ObjectId(number('o', object));
                let answer = self
                    .engine
                    .access(task(who), object, how(access), effects)?;
                return Ok(Some(self.answer(&answer)));
            }
            ["merge", one, other] => {
                let merged = self.engine.merge(task(one), task(other), effects)?;
                return Ok(Some(match merged {
                    Merged::Go(group) => format!("g{}", group.0),
                    Merged::WaitFirst(task) => format!("wait for t{} first", task.0),
                }));
            }
            ["deps", of] => {
                let deps = self.engine.deps(node(of))?;
                return Ok(Some(self.deps(&deps)));
            }
            ["behind", who, ckpt] => {
                let ckpt = CkptId(number('k', ckpt));
                let found = self.engine.prediction_behind(task(who), ckpt)?;
                return Ok(Some(
                    found.map_or("nothing".to_owned(), |id| self.names[&id].clone()),
                ));
            }
            _ => self.tell_more(words, effects),
        }?;
        Ok(None)
    }

    /// Output and waiting.
    fn tell_more(&mut self, words: &[&str], effects: &mut Vec<Effect>) -> Result<(), EngineError> {
        match *words {
            ["open", name, ref ahead @ ..] => {
                let channel = self.channel(name);
                self.engine.open(channel, gates(ahead))
            }
            ["close", name] => {
                let channel = self.channel(name);
                self.engine.close(channel)
            }
            ["output", who, name, hold] => {
                let (channel, hold) = (self.channel(name), HoldId(number('h', hold)));
                self.engine.output(node(who), channel, hold, effects)
            }
            ["barrier", who, waiter, ref names @ ..] => {
                let waiter = WaiterId(number('w', waiter));
                self.engine
                    .barrier(node(who), waiter, kinds(names), effects)
            }
            ["withdraw", waiter] => self.engine.withdraw(WaiterId(number('w', waiter)), effects),
            ["blocked", who, "on", on] => {
                let on = match on {
                    "consent" => On::Consent,
                    "time" => On::Time,
                    "person" => On::Person,
                    "input" => On::Input,
                    other => On::Node(node(other)),
                };
                self.engine.blocked(node(who), on, effects)
            }
            ["unblocked", who] => self.engine.unblocked(node(who), effects),
            ["checkpointed", group, ckpt] => {
                let (group, ckpt) = (GroupId(number('g', group)), CkptId(number('k', ckpt)));
                self.engine.checkpointed(group, ckpt, effects)
            }
            ["rolled", "back", plan] => {
                let plan = plan.parse().unwrap_or_else(|_| panic!("no plan: {plan}"));
                self.engine.rolled_back(PlanId(plan), effects)
            }
            _ => panic!("no event: {words:?}"),
        }
    }

    fn assume(&mut self, line: &str, by: &str, kind: &[&str]) -> Result<String, EngineError> {
        let kind = match *kind {
            ["consent"] => Kind::Consent,
            ["prediction"] => Kind::Prediction,
            ["epoch", volume] => Kind::Epoch(Volume(number('v', volume))),
            _ => panic!("no kind: {line}"),
        };
        let id = self.engine.assume(owner(by), kind)?;
        Ok(self.call(line, id))
    }

    /// Gives an assumption the name that stands behind the arrow.
    fn call(&mut self, line: &str, id: Id) -> String {
        let name = line.split_once(" -> ").map_or("unnamed", |(_, name)| name);
        self.names.insert(id, name.to_owned());
        name.to_owned()
    }

    fn predict(
        &mut self,
        line: &str,
        who: &str,
        by: &str,
        sharing: &[&str],
        effects: &mut Vec<Effect>,
    ) -> Result<String, EngineError> {
        let may_share = match sharing {
            [] => false,
            ["sharing"] => true,
            _ => panic!("no prediction: {line}"),
        };
        let guess = self
            .engine
            .predict(task(who), owner(by), may_share, effects)?;
        Ok(match guess {
            Guess::Go(id) => self.call(line, id),
            Guess::CheckpointFirst(group) => format!("checkpoint g{} first", group.0),
            Guess::Wait(deps) => format!("wait {}", self.deps(&deps)),
        })
    }

    fn answer(&self, answer: &Answer) -> String {
        match answer {
            Answer::Go => "go".to_owned(),
            Answer::CheckpointFirst(group) => format!("checkpoint g{} first", group.0),
            Answer::UndoFirst => "undo record first".to_owned(),
        }
    }

    fn show(&self, effect: &Effect) -> String {
        match effect {
            Effect::Release(hold) => format!("release h{}", hold.0),
            Effect::Drop(hold) => format!("drop h{}", hold.0),
            Effect::Wake { waiter, ok: true } => format!("wake w{} ok", waiter.0),
            Effect::Wake { waiter, ok: false } => format!("wake w{} not ok", waiter.0),
            Effect::Stalled { tasks, on } => {
                let tasks: Vec<_> = tasks.iter().map(|task| format!("t{}", task.0)).collect();
                format!("stalled {} on {}", tasks.join(" "), self.names[on])
            }
            Effect::Unstalled => "unstalled".to_owned(),
            Effect::Plan(plan) => {
                let steps: Vec<_> = plan.steps.iter().map(step).collect();
                format!("plan {}: {}", plan.id.0, steps.join(", "))
            }
            Effect::Withdrawn(id) => format!("withdrawn {}", self.names[id]),
            Effect::DeniedForCycle(id) => format!("denied for a cycle {}", self.names[id]),
            Effect::DiscardCheckpoint(ckpt) => format!("discard k{}", ckpt.0),
            Effect::DiscardUndo(undo) => format!("discard u{}", undo.0),
        }
    }

    fn deps(&self, deps: &Deps) -> String {
        let is_meant = |id: Id| {
            deps.consent == Some(id)
                || deps.predictions.contains(id)
                || deps.epochs.values().any(|&epoch| epoch == id)
        };
        let named = self.names.iter().filter(|&(&id, _)| is_meant(id));
        let names: Vec<_> = named.map(|(_, name)| name.as_str()).collect();
        if names.is_empty() {
            assert!(deps.is_empty());
            return "nothing".to_owned();
        }
        names.join(" ")
    }

    fn assumption(&self, name: &str) -> Id {
        let found = self.names.iter().find(|(_, known)| *known == name);
        // A name that nothing was given is a number that the engine never gave.
        found.map_or(Id(999), |(&id, _)| id)
    }

    fn channel(&mut self, name: &str) -> ChannelId {
        let known = self.channels.iter().position(|known| known == name);
        let index = known.unwrap_or_else(|| {
            self.channels.push(name.to_owned());
            self.channels.len() - 1
        });
        ChannelId(index as u64 + 1)
    }
}

/// `ahead of consent`, or nothing.
fn gates(ahead: &[&str]) -> Kinds {
    match ahead {
        [] => Kinds::ALL,
        ["ahead", "of", names @ ..] => {
            let ahead = kinds(names);
            Kinds {
                consent: !ahead.consent,
                predictions: !ahead.predictions,
                epochs: !ahead.epochs,
            }
        }
        _ => panic!("no gates: {ahead:?}"),
    }
}

fn owner(name: &str) -> Owner {
    match name {
        "person" => Owner::Person,
        "outside" => Owner::Outside,
        other => Owner::Task(task(other)),
    }
}

fn how(access: &[&str]) -> Access {
    let undo = |undo: &[&str]| match undo {
        [] => None,
        [undo] => Some(UndoId(number('u', undo))),
        _ => panic!("no access: {access:?}"),
    };
    match access {
        ["observe"] => Access::Observe,
        ["modify", rest @ ..] => Access::Modify(undo(rest)),
        ["both", rest @ ..] => Access::Both(undo(rest)),
        ["commute", rest @ ..] => Access::Commute(undo(rest)),
        _ => panic!("no access: {access:?}"),
    }
}

fn step(step: &Step) -> String {
    match step {
        Step::Destroy(group) => format!("destroy g{}", group.0),
        Step::Stop(group) => format!("stop g{}", group.0),
        Step::Restore { group, to } => format!("restore g{} to k{}", group.0, to.0),
        Step::Undo(undo) => format!("undo u{}", undo.0),
        Step::Resume(group) => format!("resume g{}", group.0),
    }
}

fn kinds(names: &[&str]) -> Kinds {
    let mut kinds = Kinds::default();
    for &name in names {
        match name {
            "consent" => kinds.consent = true,
            "predictions" => kinds.predictions = true,
            "epochs" => kinds.epochs = true,
            _ => panic!("no kind: {name}"),
        }
    }
    kinds
}

fn node(name: &str) -> Node {
    if name.starts_with('o') {
        Node::Object(ObjectId(number('o', name)))
    } else {
        Node::Task(task(name))
    }
}

fn task(name: &str) -> TaskId {
    TaskId(number('t', name))
}

fn number(letter: char, name: &str) -> u64 {
    let digits = name.strip_prefix(letter).and_then(|rest| rest.parse().ok());
    digits.unwrap_or_else(|| panic!("not {letter} and a number: {name}"))
}
