//! S31: namespaces that a program makes are its own and its children's: nothing else is ever there.

use super::undone::prints;

/// The first process in a pid namespace is its pid 1; when that has ended, nobody is born there any more.
#[test]
fn the_first_process_of_a_pid_namespace_is_the_programs_child() {
    prints("spaces", "./spaces parent", "spaces ok\n");
}

/// Once a process is in a time namespace its clocks can't be set any more.
#[test]
fn the_clock_of_children_can_be_set_before_the_first_is_born() {
    prints("spaces", "./spaces clock", "spaces ok\n");
}

/// It has ended when all others of the namespace were reaped, by their tracers as well.
#[test]
fn the_first_process_of_a_pid_namespace_can_be_killed() {
    prints("spaces", "./spaces killed", "spaces ok\n");
}

/// The vessels of a process that is killed are nobody's children.
#[test]
fn who_adopts_orphans_finds_none_but_those_that_were_borne() {
    prints("spaces", "./spaces orphans", "spaces ok\n");
    prints("spaces", "./spaces init", "spaces ok\n");
}
