//! How many predictions may be undecided.

use surmise_engine::{CkptId, Decision, Engine, EngineError, Guess, Owner, TaskId};

#[test]
fn with_2000_undecided_predictions_the_next_waits_for_the_oldest() -> Result<(), EngineError> {
    let (mut engine, mut effects) = (Engine::new(), Vec::new());
    let (task, other) = (TaskId(1), TaskId(2));
    engine.spawn(None, task, &mut effects)?;
    engine.spawn(None, other, &mut effects)?;
    engine.checkpointed(engine.group(task)?, CkptId(1), &mut effects)?;
    let mut predict = |engine: &mut Engine, task| {
        let may_share = true;
        engine.predict(task, Owner::Outside, may_share, &mut effects)
    };
    let mut oldest = None;
    for _ in 0..2000 {
        let Guess::Go(id) = predict(&mut engine, task)? else {
            panic!("a guess waits too early");
        };
        oldest.get_or_insert(id);
    }
    let oldest = oldest.expect("the first");
    // Whoever asks, and before a checkpoint is taken for nothing.
    for task in [task, other] {
        let Guess::Wait(deps) = predict(&mut engine, task)? else {
            panic!("there are too many guesses");
        };
        let first = deps.predictions.iter().next().map(|extent| extent.first);
        assert_eq!(first, Some(oldest));
        assert!(deps.predictions.contains(oldest));
    }
    engine.decide(oldest, Decision::Affirm, &mut Vec::new())?;
    assert!(matches!(predict(&mut engine, task)?, Guess::Go(_)));
    assert!(matches!(predict(&mut engine, task)?, Guess::Wait(_)));
    Ok(())
}
