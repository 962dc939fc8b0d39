//! The reference: one call after the other, and no predictions.

use crate::program::{Body, Outcome, Stays, Step, answer, join, mix};
use surmise_rpc::Safety;

/// What a body comes to when it begins knowing something. Appends its effects.
pub fn run(body: &Body, known: u64, stays: &mut Vec<Stays>) -> Outcome {
    let mut known = known;
    for step in &body.steps {
        match step {
            Step::Local(what) => stays.push(Stays::Local(*what, known)),
            Step::Output(what) => stays.push(Stays::Output(*what, known)),
            Step::Calls(calls) => {
                let mut outcomes = Vec::new();
                for call in calls {
                    if call.safety != Safety::Safe {
                        stays.push(Stays::Called(call.method, known));
                    }
                    let outcome = match answer(call.method, known) {
                        Ok(value) => run(&call.then, mix(known, value), stays),
                        Err(error) => Err(error),
                    };
                    outcomes.push(outcome);
                }
                known = join(known, calls, &outcomes)?;
            }
        }
    }
    Ok(known)
}
