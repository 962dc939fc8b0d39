//! What a domain waits for, and what leaves with its consent.

mod releases;

use super::*;

fn look(consent: &mut Consent, tasks: &[(u64, Wait)]) -> bool {
    let tasks = tasks.iter().copied().collect();
    consent.look(&tasks).expect("a living domain")
}

#[test]
fn a_domain_is_stalled_when_nobody_but_the_person_can_end_a_wait() {
    let mut consent = Consent::new().expect("new");
    let (shell, curl) = ((1, Wait::Inside), (2, Wait::HeldReply));
    assert!(!look(&mut consent, &[shell]), "waits for its child");
    assert!(!look(&mut consent, &[shell, (2, Wait::Nothing)]));
    assert!(look(&mut consent, &[shell, curl]));
    assert!(!look(&mut consent, &[shell, curl]), "told once");
    let sleeper = (3, Wait::Time);
    assert!(!look(&mut consent, &[shell, curl, sleeper]));
    assert!(!consent.stalled, "time goes on");
    assert!(look(&mut consent, &[shell, curl]), "stalled again");
    consent.affirm().expect("affirm");
    assert!(!look(&mut consent, &[shell, (2, Wait::Nothing)]));
}

#[test]
fn a_task_that_waits_for_the_next_reply_has_stalled_again() {
    let mut consent = Consent::new().expect("new");
    let tasks = [(1, Wait::Inside), (2, Wait::HeldReply)];
    assert!(look(&mut consent, &tasks));
    consent.look_afresh().expect("answered");
    assert!(look(&mut consent, &tasks));
    assert!(!look(&mut consent, &tasks), "told once");
}

#[test]
fn what_waits_leaves_in_order_with_the_consent_and_what_follows_with_the_next() {
    let mut consent = Consent::new().expect("new");
    for hold in [3, 5, 4] {
        consent.held(hold).expect("held");
    }
    assert_eq!(consent.affirm().expect("affirm"), [3, 5, 4]);
    consent.held(3).expect("held again");
    assert_eq!(consent.affirm().expect("affirm"), [3]);
    assert!(consent.affirm().expect("affirm").is_empty());
}

#[test]
fn the_place_of_what_waits_again_is_its_last_and_what_has_gone_has_none() {
    let mut consent = Consent::new().expect("new");
    for hold in [3, 5, 4, 3, 6] {
        consent.held(hold).expect("held");
    }
    consent.gone(5);
    consent.gone(5);
    assert_eq!(consent.affirm().expect("affirm"), [4, 3, 6]);
    consent.gone(3);
    consent.held(5).expect("held again");
    consent.gone(4);
    assert_eq!(consent.affirm().expect("affirm"), [5]);
}
