//! Dialogues with the engine: a line is an event, the indented lines under it are its effects.
//!
//! ```text
//! assume person consent -> c1           the consent is called c1 from here on
//! assume t1 prediction -> p1            an owner is `person`, `outside` or a task
//! assume outside epoch v1 -> e1
//! depend t1 p1
//! spawn t1          spawn t2 of t1      their groups are numbered as they come
//! open net          open tty ahead of consent
//! output t1 net h1
//!   release h1                          `drop h1` likewise
//! access t1 o1 both -> go               `observe`, `modify`, `both` or `commute`; or
//!                                       `-> checkpoint g1 first`, `-> undo record first`
//! access t1 o1 both u1 -> go            with an undo record
//! barrier t1 w1 predictions epochs
//!   wake w1 ok                          or `wake w1 not ok`
//! blocked t1 on consent                 `time`, `person`, `input`, a task or an object
//!   stalled t1 t2 on c1                 and later `unstalled`
//! deps t1 -> c1 p1 e1                   or `-> nothing`
//! behind t1 k1 -> p1                    likewise
//! predict t1 by outside -> p1           `by outside sharing`: with the newest checkpoint
//! checkpointed g1 k1
//! decide p1 deny
//!   plan 1: stop g1, undo u1, restore g1 to k1, resume g1
//!                                       `destroy g2` likewise
//! rolled back 1
//! merge t1 t2 -> g1                     or `-> wait for t1 first`
//! end t9
//!   refused: there is no task 9
//! ```
//!
//! Names of tasks, objects, holds, waiters and volumes are a letter and their number. Channels and
//! assumptions are numbered as they come.

mod script;

surmise_testkit::dialogues! {
    script::check:
    output_waits_for_consent
    denied_consent_drops
    running_commit_goes_on_under_a_new_consent
    tasks_have_channels_of_their_own
    terminal_runs_ahead_of_consent_only
    output_stays_behind_a_held_one
    channels_release_in_causal_order
    dependencies_spread_by_access
    children_inherit
    epochs_are_watermarks
    output_waits_for_its_own_dependencies_only
    barriers_wait_for_their_kinds
    barriers_see_new_dependencies
    waits_end_with_their_task
    nobody_inside_waits_for_consent
    a_domain_stalls_on_consent
    what_can_still_move_is_no_stall
    a_stall_is_seen_through_pipes_and_barriers
    unknown_ids_are_refused
    decisions_are_made_once
    a_guess_is_affirmed
    a_guess_is_denied
    checkpoints_are_shared
    what_nobody_else_has_met_is_shared
    an_older_checkpoint_takes_the_newer_along
    a_checkpoint_that_is_lost_is_gone_behind
    cycles_deny_predictions
    an_owner_that_speculates_waits
    a_group_ends_with_its_task
    rollback_cascades_over_objects
    an_exit_that_the_parent_saw
    rollbacks_overlap
    objects_rely_on_guesses
    a_merged_segment_stays_spent
    what_an_object_was_given_outlives_rollbacks
    a_forgotten_object_was_seen
    waits_end_with_what_is_undone
    bystanders_wait_for_objects
    a_sync_waits_for_an_epoch
    dependencies_propagate_as_in_figure_3
    creates_in_one_directory_commute
    merged_tasks_are_denied_together
    a_parent_saw_an_exit
    a_control_is_withdrawn_with_its_maker
}
