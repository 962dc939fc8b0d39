//! The relay, with real programs' system calls on one side and real servers on the other. Each scenario
//! has a process, an outer network and a gated inner one of its own; to be copied for that, this
//! program has one thread and runs its scenarios itself.
//!
//! With the argument `measure` it prints what relaying costs instead.

mod allowed;
mod datagrams;
mod epochs;
mod finish;
mod held;
mod load;
mod measure;
mod names;
mod policy;
mod publish;
mod released;
mod servers;
mod world;

use world::Scenario;

macro_rules! scenarios {
    ($($module:ident: $($name:ident)*;)*) => {
        const SCENARIOS: &[Scenario] = &[$($(
            (concat!(stringify!($module), "::", stringify!($name)), $module::$name),
        )*)*];
    };
}

scenarios! {
    allowed:
        an_allowed_connection_reaches_its_server
        the_outcome_of_a_connect_is_that_of_outside
        a_listed_loopback_port_reaches_the_host
        a_half_closed_connection_still_gets_its_reply
        a_reset_is_passed_on_both_ways
        urgent_data_keeps_its_place;
    policy:
        each_refusal_is_told_with_what_allows_it
        a_question_is_asked_once_and_its_answer_counts
        a_denied_question_refuses_the_connection
        a_late_answer_makes_one_connection
        who_has_given_up_is_not_connected
        an_answer_about_loopback_covers_one_port;
    load:
        a_slow_reader_slows_only_its_own_connection
        a_thousand_connections_at_once
        connections_wait_for_descriptors
        much_held_output_is_whole;
    held:
        nothing_leaves_before_the_release
        a_program_that_waits_is_told_of
        a_half_closed_program_waits_until_it_closes
        a_reset_is_noted
        what_was_sent_is_in_the_outbox_after_quiescing
        what_was_sent_is_in_the_outbox_after_the_end
        what_can_not_be_kept_is_reported;
    released:
        a_living_program_gets_its_reply_and_is_held_again
        a_half_closed_program_gets_its_reply
        an_allowed_host_is_relayed_from_then_on
        a_denied_host_sees_nothing
        an_unreachable_receiver_is_told_of
        an_earlier_reply_is_not_lost
        a_receiver_that_resets_is_noticed
        a_server_that_takes_one_after_the_other_gets_all_in_order;
    datagrams:
        datagrams_are_answered_by_whom_they_were_sent_to
        a_closed_port_is_reported
        refused_datagrams_are_reported
        datagrams_wait_for_an_answer
        held_datagrams_leave_in_order_and_are_answered
        a_ping_is_answered_by_its_destination
        a_ping_is_not_held;
    finish:
        a_slow_receiver_gets_everything
        replies_to_nobody_break_nothing_off
        who_takes_nothing_is_given_up
        a_stop_waits_for_nobody
        datagrams_leave_before_the_end
        what_came_before_a_reset_is_passed_on;
    epochs:
        what_follows_a_promise_leaves_with_the_commit
        an_urgent_byte_waits_in_its_place
        many_promises_stall_nothing
        packets_wait_in_their_order
        a_published_server_s_reply_waits
        what_a_person_lets_go_waits_too
        what_came_before_a_reset_waits_and_is_passed_on
        the_end_waits_for_the_commit
        after_a_stop_nothing_leaves
        an_end_after_a_stop_sends_nothing;
    names:
        an_allowed_name_opens_its_address
        a_refused_name_is_refused
        a_query_waits_for_the_answer
        a_held_name_is_resolved_at_delivery
        a_held_name_that_is_allowed_is_relayed
        names_are_served_over_tcp
        a_nameserver_behind_the_gate_is_answered_for
        a_silent_nameserver_is_reported
        queries_wait_for_promises;
    publish:
        a_server_inside_is_reached
        a_port_without_a_server_resets
        a_taken_port_is_named
        a_published_port_is_no_way_round;
}

fn main() {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument == "measure") {
        return world::run(("measure", measure::measure));
    }
    // As test harnesses do: arguments that are no options choose by a part of the name.
    let filters: Vec<_> = arguments
        .iter()
        .filter(|argument| !argument.starts_with('-'))
        .collect();
    if !world::is_possible() {
        return;
    }
    for scenario in SCENARIOS {
        let (name, _) = scenario;
        if filters.is_empty() || filters.iter().any(|filter| name.contains(*filter)) {
            world::run(*scenario);
        }
    }
}
