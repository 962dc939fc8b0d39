//! Clients without a mount and a server on a real directory.

mod client;
mod collisions;
mod hostile;
mod kills;
mod noticed;
mod ordinary;
mod process;
mod tls;
mod twin;
mod waits;

use libtest_mimic::{Arguments, Trial};

use client::Client;
use process::Process;
use twin::{Twin, compare_shown};

const TESTS: &[(&str, fn())] = &[
    (
        "what_a_client_does_is_done_in_the_directory",
        what_a_client_does_is_done_in_the_directory,
    ),
    (
        "a_server_that_is_killed_loses_nothing",
        kills::a_server_that_is_killed_loses_nothing,
    ),
    (
        "a_long_log_is_replaced_by_a_short_one",
        kills::a_long_log_is_replaced_by_a_short_one,
    ),
    (
        "what_a_client_before_has_made_is_not_lost",
        kills::what_a_client_before_has_made_is_not_lost,
    ),
    (
        "a_program_is_changed_when_nobody_executes_it",
        waits::a_program_is_changed_when_nobody_executes_it,
    ),
    (
        "a_full_disk_is_waited_for",
        waits::a_full_disk_is_waited_for,
    ),
    (
        "what_is_no_message_ends_its_connection_alone",
        hostile::what_is_no_message_ends_its_connection_alone,
    ),
    (
        "a_number_that_was_never_told_is_no_object",
        hostile::a_number_that_was_never_told_is_no_object,
    ),
    (
        "the_servers_own_directory_is_shown_to_nobody",
        hostile::the_servers_own_directory_is_shown_to_nobody,
    ),
    (
        "a_link_in_the_place_of_a_directory_leads_nowhere",
        hostile::a_link_in_the_place_of_a_directory_leads_nowhere,
    ),
    (
        "a_client_that_does_not_read_is_cut",
        hostile::a_client_that_does_not_read_is_cut,
    ),
    (
        "what_a_client_does_by_tls_is_done_in_the_directory",
        tls::what_a_client_does_by_tls_is_done_in_the_directory,
    ),
    (
        "no_message_reaches_what_the_servers_user_may_not",
        tls::no_message_reaches_what_the_servers_user_may_not,
    ),
    (
        "strangers_cost_little_and_are_closed",
        tls::strangers_cost_little_and_are_closed,
    ),
    (
        "an_owner_goes_on_when_the_bits_are_gone",
        ordinary::an_owner_goes_on_when_the_bits_are_gone,
    ),
    (
        "a_directory_of_another_user_is_shown_and_not_listed",
        ordinary::a_directory_of_another_user_is_shown_and_not_listed,
    ),
    (
        "what_others_change_is_seen",
        noticed::what_others_change_is_seen,
    ),
    (
        "what_others_change_is_seen_by_an_ordinary_users_server",
        noticed::what_others_change_is_seen_by_an_ordinary_users_server,
    ),
    (
        "a_file_that_gets_the_number_of_another_one_is_another_one",
        noticed::a_file_that_gets_the_number_of_another_one_is_another_one,
    ),
    (
        "what_the_kernel_cannot_tell_any_more_is_seen_as_well",
        noticed::what_the_kernel_cannot_tell_any_more_is_seen_as_well,
    ),
    (
        "who_looks_at_a_file_that_is_always_written_gets_an_answer",
        noticed::who_looks_at_a_file_that_is_always_written_gets_an_answer,
    ),
    (
        "a_file_that_is_cut_is_read_to_its_new_end",
        noticed::a_file_that_is_cut_is_read_to_its_new_end,
    ),
    (
        "both_are_kept_and_the_server_goes_on",
        collisions::both_are_kept_and_the_server_goes_on,
    ),
    (
        "a_server_that_is_killed_takes_nothing_from_others",
        collisions::a_server_that_is_killed_takes_nothing_from_others,
    ),
    (
        "whatever_both_do_they_come_to_see_the_same",
        collisions::whatever_both_do_they_come_to_see_the_same,
    ),
    (
        "what_the_kernel_refuses_is_kept",
        collisions::what_the_kernel_refuses_is_kept,
    ),
];

fn main() {
    // Before there is a second thread.
    process::serve_if_told();
    let arguments = Arguments::from_args();
    let trial = |(name, test): &(&str, fn())| {
        let test = *test;
        Trial::test(*name, move || {
            test();
            Ok(())
        })
    };
    libtest_mimic::run(&arguments, TESTS.iter().map(trial).collect()).exit();
}

fn what_a_client_does_is_done_in_the_directory() {
    for seed in 0..10 {
        let export = tempfile::tempdir().expect("a directory");
        let mut twin = Twin::new(seed);
        let server = Process::start(export.path());
        let mut client = Client::new(export.path(), 1);
        for _ in 0..200 {
            twin.step(&mut client);
        }
        client.sync().expect("sync");
        client.leave();
        server.stop();
        twin.compare(export.path());
        // A second client meets what the first has left.
        let server = Process::start(export.path());
        let mut client = Client::new(export.path(), 2);
        compare_shown(&mut client, export.path());
        client.leave();
        server.stop();
    }
}
