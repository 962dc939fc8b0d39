//! S31: signals are taken once, by whom they were sent to, in order, with all that is told of them.

use super::undone::{prints, prints_at};

#[test]
fn signals_that_wait_come_in_the_order_in_which_they_were_sent() {
    prints("queues", "./queues blocked", "queues ok\n");
}

/// While their threads are given guesses.
#[test]
fn signals_to_threads_and_to_their_process_come_to_whom_they_were_sent() {
    prints("queues", "./queues sent", "queues ok\n");
}

#[test]
fn signals_that_are_awaited_are_received_once() {
    prints("queues", "./queues taken", "queues ok\n");
}

#[test]
fn a_job_is_stopped_and_continued_as_often_as_somebody_does() {
    // At higher rates one run of ten hangs, by a known defect: where one thread is about to take the stop and another one the
    // SIGCONT that comes right behind, the process is stopped all the same (docs/semantics.md, S31).
    prints_at(&["0.05"], "queues", "./queues jobs", "queues ok\n");
}

#[test]
fn signals_wait_through_the_execution_of_another_program() {
    prints("queues", "./queues executed", "queues ok\n");
}
