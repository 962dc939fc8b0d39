//! Whatever users ask and are answered, in whatever order, no user is predicted another's answer.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use proptest::collection::vec;
use proptest::prelude::*;
use surmise_predict::{Asked, Cache, LastValue, Predictor, Switched, Thresholds, User};

/// A user's name, what they ask, how long after the call before, and whether they are answered.
type Call = (Vec<u8>, Vec<u8>, u64, bool);

/// Names and requests are short and of two letters, so that most calls share one with another call,
/// and that many a name and request together are as another name and request together.
fn calls() -> impl Strategy<Value = Vec<Call>> {
    let letters = || vec(b'a'..=b'b', 0..3);
    vec((letters(), letters(), 0..20_u64, any::<bool>()), 1..200)
}

fn cache(entries_max: NonZeroUsize) -> Cache<Vec<u8>, Vec<u8>, usize> {
    Cache::new(entries_max, 100, Vec::clone)
}

/// No two answers are equal, so a guess tells whose answer it was. The number of guesses.
fn guesses_are_the_users_own(
    mut predictor: impl Predictor<Vec<u8>, usize>,
    calls: &[Call],
) -> usize {
    let mut whose = BTreeMap::new();
    let (mut now_ms, mut guesses) = (0, 0);
    for (answer, (name, request, later_ms, answered)) in calls.iter().enumerate() {
        now_ms += later_ms;
        let user = &User::of(name);
        let asked = Asked {
            user,
            request,
            now_ms,
        };
        for guess in predictor.predict(&asked) {
            assert_eq!(whose.get(&guess.value), Some(&name), "guessed for {name:?}");
            guesses += 1;
        }
        if *answered {
            predictor.learn(&asked, &answer);
            whose.insert(answer, name);
        }
    }
    guesses
}

proptest! {
    #[test]
    fn no_user_is_predicted_what_another_was_answered(calls in calls(), entries_max in 1..40_usize) {
        let entries_max = NonZeroUsize::new(entries_max).expect("the range begins at 1");
        guesses_are_the_users_own(cache(entries_max), &calls);
        guesses_are_the_users_own(LastValue::new(entries_max), &calls);
        guesses_are_the_users_own(Switched::new(cache(entries_max), Thresholds::default()), &calls);
    }
}

/// Predictors that never guess would prove nothing.
#[test]
fn users_are_predicted_their_own_answers() {
    let calls: Vec<Call> = (0..40)
        .map(|call| (vec![b'a' + call % 2], Vec::new(), 0, true))
        .collect();
    let entries_max = NonZeroUsize::new(2).expect("it is not zero");
    assert_eq!(guesses_are_the_users_own(cache(entries_max), &calls), 38);
    assert_eq!(
        guesses_are_the_users_own(LastValue::new(entries_max), &calls),
        38
    );
}
