//! Reads, plays and prints dialogues.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use surmise_engine::{
    Access, Answer, ChannelId, Decision, Deps, Effect, Engine, EngineError, HoldId, Id, Kind,
    Kinds, Node, ObjectId, On, Owner, TaskId, Volume, WaiterId,
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
                self.engine.depend(node(on), id, effects)
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
            ["carry", object, ref names @ ..] => self
                .engine
                .carry(ObjectId(number('o', object)), kinds(names)),
            ["forget", object] => {
                self.engine.forget(ObjectId(number('o', object)), effects);
                Ok(())
            }
            ["access", who, object, access] => {
                return self.access(who, object, access, effects).map(Some);
            }
            ["deps", of] => {
                let deps = self.engine.deps(node(of))?;
                return Ok(Some(self.deps(&deps)));
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
            ["regate", name, ref ahead @ ..] => {
                let channel = self.channel(name);
                self.engine.regate(channel, gates(ahead), effects)
            }
            ["close", name] => {
                let channel = self.channel(name);
                self.engine.close(channel)
            }
            ["discard", name] => {
                let channel = self.channel(name);
                self.engine.discard(channel, effects)
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
            _ => panic!("no event: {words:?}"),
        }
    }

    fn assume(&mut self, line: &str, owner: &str, kind: &[&str]) -> Result<String, EngineError> {
        let owner = match owner {
            "person" => Owner::Person,
            "outside" => Owner::Outside,
            other => Owner::Task(task(other)),
        };
        let kind = match *kind {
            ["consent"] => Kind::Consent,
            ["prediction"] => Kind::Prediction,
            ["epoch", volume] => Kind::Epoch(Volume(number('v', volume))),
            _ => panic!("no kind: {line}"),
        };
        let id = self.engine.assume(owner, kind)?;
        let name = line.split_once(" -> ").map_or("unnamed", |(_, name)| name);
        self.names.insert(id, name.to_owned());
        Ok(name.to_owned())
    }

    fn access(
        &mut self,
        who: &str,
        object: &str,
        access: &str,
        effects: &mut Vec<Effect>,
    ) -> Result<String, EngineError> {
        let access = match access {
            "observe" => Access::Observe,
            "modify" => Access::Modify,
            "both" => Access::Both,
            _ => panic!("no access: {access}"),
        };
        let object = ObjectId(number('o', object));
        match self.engine.access(task(who), object, access, effects)? {
            Answer::Go => Ok("go".to_owned()),
            Answer::Wait(deps) => Ok(format!("wait {}", self.deps(&deps))),
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
        ["ahead", "of", names @ ..] => kinds(names).others(),
        _ => panic!("no gates: {ahead:?}"),
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
