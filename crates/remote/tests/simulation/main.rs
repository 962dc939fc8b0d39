//! Several clients and a server on one clock, with connections that delay and break, and crashes of both sides. Every
//! answer that a program gets is compared with what one copy would have answered at that moment. A seed replays.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a replay prints what happens"
)]

mod answers;
mod disk;
mod effects;
mod ending;
mod keeping;
mod locking;
mod machine;
mod others;
mod programs;
mod truth;
mod what;
mod wire;
mod world;

use world::{Faults, World};

/// `SURMISE_SEED=N` runs that seed alone, and prints all that happens.
fn seeds() -> std::ops::Range<u64> {
    if let Some(seed) = world::traced() {
        return seed..seed + 1;
    }
    let many = std::env::var("SURMISE_SEEDS").map_or(60, |text| {
        text.parse()
            .expect("SURMISE_SEEDS is the number of seeds to try")
    });
    0..many
}

fn run(faults: Faults) {
    let (mut calls, mut cached, mut lost) = (0, 0, 0);
    let mut locks = [0; 3];
    let (mut others, mut collisions) = (0, 0);
    let (mut same, mut restored) = (0, 0);
    for seed in seeds() {
        let told = std::panic::catch_unwind(|| World::new(seed, faults).run())
            .unwrap_or_else(|_| panic!("SURMISE_SEED={seed} replays it"));
        calls += told.calls;
        cached += told.cached;
        lost += told.lost;
        for (sum, one) in locks.iter_mut().zip(told.locks) {
            *sum += one;
        }
        others += told.others;
        collisions += told.collisions;
        same += told.same;
        restored += told.restored;
    }
    println!(
        "{calls} calls, {cached} answered by the kernel, {lost} changes lost with their client, \
         {others} changes by others, {collisions} collisions"
    );
    let [granted, waited, blocked] = locks;
    println!("{granted} locks granted, {waited} after a wait, and {blocked} not");
    println!("{same} times a client had kept what a file has; {restored} of these were undamaged");
    // What is compared is no handful.
    let seeds = seeds().end - seeds().start;
    assert!(calls > 100 * seeds && cached > 10 * seeds);
    assert!(granted > 10 * seeds && waited > seeds && blocked > seeds);
    assert!(!faults.others || others > seeds);
    assert!(same > seeds / 8 && restored > seeds / 16);
}

#[test]
fn clients_see_one_copy() {
    run(Faults::default());
}

#[test]
fn clients_see_one_copy_over_connections_that_break() {
    run(Faults {
        cuts: true,
        ..Faults::default()
    });
}

#[test]
fn clients_see_one_copy_of_a_server_that_crashes() {
    run(Faults {
        cuts: true,
        server_crashes: true,
        ..Faults::default()
    });
}

#[test]
fn what_others_have_seen_of_a_client_that_dies_stays() {
    run(Faults {
        cuts: true,
        client_crashes: true,
        ..Faults::default()
    });
}

#[test]
fn clients_see_one_copy_whatever_fails() {
    run(Faults {
        cuts: true,
        server_crashes: true,
        client_crashes: true,
        ..Faults::default()
    });
}

#[test]
fn what_others_change_in_the_directory_is_seen() {
    run(Faults {
        others: true,
        ..Faults::default()
    });
}

#[test]
fn what_others_change_in_the_directory_is_seen_whatever_clients_do() {
    run(Faults {
        cuts: true,
        client_crashes: true,
        others: true,
        ..Faults::default()
    });
}
