//! Reads, plays and prints dialogues.

use std::fmt::Write as _;

use surmise_rpc::{
    Budget, CallId, Caller, Effect, Limits, Order, Peer, Request, RollbackId, Safety, ScopeId,
    Stamp, Standing, Tree, TreeError, Verdict, WaiterId,
};

/// Plays the events of a dialogue and compares all that is said.
pub fn check(text: &str) {
    let lines: Vec<_> = text
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .collect();
    let mut tree = None;
    let mut said = String::new();
    for line in lines.iter().filter(|line| !line.starts_with(' ')) {
        let (event, _) = line.split_once(" -> ").unwrap_or((line, ""));
        let words: Vec<_> = event.split(' ').collect();
        if let ["root", caller, budget @ ..] = &words[..] {
            tree = Some(root(caller, budget));
            writeln!(said, "{event}").unwrap();
            continue;
        }
        let tree = tree.as_mut().expect("a dialogue begins with its root");
        play(tree, event, &words, &mut said);
    }
    let wanted: String = lines.iter().map(|line| format!("{line}\n")).collect();
    assert!(wanted == said, "wanted:\n{wanted}\nsaid:\n{said}");
}

fn root(caller: &str, budget: &[&str]) -> Tree {
    let caller = match caller {
        "correct" => Caller::Correct,
        "speculative" => Caller::Speculative,
        _ => panic!("no caller: {caller}"),
    };
    let mut limits = Limits::default();
    match *budget {
        [] => {}
        [branches, "branches", depth, "deep"] => {
            let (branches, depth) = (branches.parse().unwrap(), depth.parse().unwrap());
            limits.budget = Budget { branches, depth };
        }
        _ => panic!("no budget: {budget:?}"),
    }
    Tree::new(caller, limits)
}

fn play(tree: &mut Tree, event: &str, words: &[&str], said: &mut String) {
    let mut effects = Vec::new();
    match tell(tree, words, &mut effects) {
        Ok(answer) => {
            let answer = answer.map_or(String::new(), |answer| format!(" -> {answer}"));
            writeln!(said, "{event}{answer}").unwrap();
        }
        Err(error) => {
            assert_eq!(effects, [], "a refused event has effects: {event}");
            writeln!(said, "{event}\n  refused: {error}").unwrap();
        }
    }
    for effect in &effects {
        writeln!(said, "  {}", show(effect)).unwrap();
    }
}

/// Tells the tree of one event. Returns what stands behind the arrow.
fn tell(
    tree: &mut Tree,
    words: &[&str],
    effects: &mut Vec<Effect>,
) -> Result<Option<String>, TreeError> {
    match *words {
        ["call", by, ref how @ ..] => {
            let call = tree.call(scope(by), request(how), effects)?;
            return Ok(Some(format!("c{}", call.0)));
        }
        ["predict", of] => {
            let branch = tree.predict(call(of))?;
            let branch = branch.map_or("nothing".to_owned(), |branch| format!("s{}", branch.0));
            return Ok(Some(branch));
        }
        ["answer", of, ref said @ ..] => {
            let (verdict, stamp) = answer(said);
            tree.answer(call(of), verdict, stamp, effects)
        }
        ["finish", branch] => tree.finish(scope(branch), effects),
        ["barrier", by, waiter] => tree.barrier(scope(by), WaiterId(number('w', waiter)), effects),
        ["on", "abort", by, rollback] => {
            tree.on_abort(scope(by), RollbackId(number('r', rollback)), effects)
        }
        ["standing", of] => {
            let standing = match tree.standing(scope(of))? {
                Standing::CalleeSpeculative => "callee speculative",
                Standing::CallerSpeculative => "caller speculative",
                Standing::Correct => "correct",
            };
            return Ok(Some(standing.to_owned()));
        }
        ["abandon", one] => tree.abandon(call(one), effects),
        ["commit"] => tree.commit(effects),
        ["abort"] => tree.abort(effects),
        ["left"] => return Ok(Some(format!("{} branches", tree.budget().branches))),
        _ => panic!("no event: {words:?}"),
    }?;
    Ok(None)
}

fn request(how: &[&str]) -> Request {
    let mut request = Request {
        peer: Peer::Aware,
        ..Request::default()
    };
    for word in how {
        match *word {
            "safe" => request.safety = Safety::Safe,
            "aware" => request.safety = Safety::Aware,
            "unsafe" => request.safety = Safety::Unsafe,
            "plain" => request.peer = Peer::Plain,
            "stamped" => request.order = Order::Stamp,
            "snapshot" => request.order = Order::Snapshot,
            "tail" => request.is_tail = true,
            _ => panic!("no such call: {word}"),
        }
    }
    request
}

fn answer(said: &[&str]) -> (Verdict, Option<Stamp>) {
    let (verdict, stamp) = match *said {
        [ref verdict @ .., "at", at] => {
            let at = at.parse().unwrap();
            (verdict, Some(Stamp { clock: 1, at }))
        }
        ref verdict => (verdict, None),
    };
    let verdict = match *verdict {
        ["affirms", branch] => Verdict::Affirms(scope(branch)),
        ["denies", "all"] => Verdict::DeniesAll,
        ["fails"] => Verdict::Fails,
        _ => panic!("no verdict: {verdict:?}"),
    };
    (verdict, stamp)
}

fn show(effect: &Effect) -> String {
    match effect {
        Effect::Send {
            call, speculative, ..
        } => {
            let how = if *speculative { " speculatively" } else { "" };
            format!("send c{}{how}", call.0)
        }
        Effect::Commit(call) => format!("commit c{}", call.0),
        Effect::Cancel(call) => format!("cancel c{}", call.0),
        Effect::Vanish(call) => format!("vanish c{}", call.0),
        Effect::Start { call, branch } => format!("start s{} of c{}", branch.0, call.0),
        Effect::Return { call, branch, .. } => format!("return s{} to c{}", branch.0, call.0),
        Effect::Fail(call) => format!("fail c{}", call.0),
        Effect::Foresee(branch) => format!("foresee s{}", branch.0),
        Effect::Wake(waiter) => format!("wake w{}", waiter.0),
        Effect::Rollback(rollback) => format!("rollback r{}", rollback.0),
        Effect::Forget(rollback) => format!("forget r{}", rollback.0),
        Effect::Discard(branch) => format!("discard s{}", branch.0),
    }
}

fn scope(name: &str) -> ScopeId {
    ScopeId(number('s', name))
}

fn call(name: &str) -> CallId {
    CallId(number('c', name))
}

fn number(letter: char, name: &str) -> u64 {
    let digits = name.strip_prefix(letter);
    let number = digits.and_then(|digits| digits.parse().ok());
    number.unwrap_or_else(|| panic!("{name} is no {letter} and a number"))
}
