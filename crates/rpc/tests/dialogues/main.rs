//! Dialogues with a tree: a line is an event, the indented lines under it are its effects.
//!
//! ```text
//! root correct                            or `root speculative`; `root correct 8 branches 2 deep`
//! call s0 safe -> c1                      `aware` or `unsafe`; then `plain`, `stamped` or `snapshot`, `tail`
//!   send c1                               `send c1 speculatively`
//! predict c1 -> s1                        or `-> nothing`
//! answer c1 affirms s1 at 7               the stamp's place in the one history there is
//! answer c1 denies all
//!   discard s1
//!   start s2 of c1
//! answer c1 fails
//!   fail c1
//! finish s2
//!   return s2 to c1                       or `foresee s2`
//! standing s1 -> callee speculative       `caller speculative` or `correct`
//! barrier s1 w1
//!   wake w1
//! on abort s1 r1
//!   rollback r1                           or `forget r1`
//! abandon c1
//!   cancel c1
//! commit
//!   commit c1
//! abort
//! left -> 8 branches
//! ```
//!
//! Scopes and calls are numbered as they come; s0 is the root.

mod script;

surmise_testkit::dialogues! {
    script::check:
    figure_3_three_calls_overlap
    figure_5_a_call_is_as_correct_as_its_caller
    figure_5_a_branch_changes_its_standing
    figure_6_every_prediction_is_wrong
    one_of_several_predictions_is_right
    unsafe_calls_wait_for_confirmation
    aware_calls_are_committed_in_order
    what_is_denied_is_undone_newest_first
    what_is_left_open_belongs_to_the_calls_scope
    barriers_wait_for_every_ancestor
    an_error_denies_every_prediction
    results_travel_ahead
    stamps_show_what_was_read_too_early
    an_aware_call_is_not_committed_twice
    a_snapshot_has_one_stamp
    limits_make_calls_wait
    abandoned_calls_are_cancelled
    a_lost_caller_aborts_everything
    events_that_are_refused
}
