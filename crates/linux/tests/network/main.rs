//! The gate of a domain's network, with a small relay behind it. Each test has a process and a network
//! of its own; to be copied for that, this program has one thread and runs its tests itself.

mod loopback;
mod namespace;
mod outside;
mod packet;
mod relay;
mod steps;
mod world;

use loopback::*;
use namespace::*;
use outside::*;
use steps::LISTED;
use surmise_linux::network::gate::Loopback;

use world::{Network, World};

type Scenario = (&'static str, Loopback<'static>, fn(&mut Network));

const PORTS: Loopback<'static> = Loopback::Ports(&[LISTED, 7003]);

macro_rules! scenarios {
    ($($loopback:expr => $($name:ident)*;)*) => {
        const SCENARIOS: &[Scenario] = &[$($((stringify!($name), $loopback, $name),)*)*];
    };
}

scenarios! {
    Loopback::None =>
        a_connection_that_is_let_through_reaches_the_listener
        a_refused_connection_is_refused
        a_connection_waits_for_the_decision
        a_non_blocking_connect_is_in_progress
        a_bound_source_is_kept
        the_listener_is_closed_to_programs_inside
        loopback_servers_work_untouched
        a_burst_of_connections_is_not_lost
        the_owner_of_a_socket_is_found
        servers_are_found
        datagrams_come_out_whole
        names_are_served
        the_namespace_has_its_settings
        a_failure_names_its_step;
    PORTS =>
        a_listed_port_without_a_server_is_gated
        a_server_inside_wins_its_port
        a_listed_port_can_be_refused
        loopback_servers_work_untouched
        a_connection_that_is_let_through_reaches_the_listener
        the_listener_is_closed_to_programs_inside;
    Loopback::All =>
        a_listed_port_without_a_server_is_gated
        a_server_inside_wins_its_port
        a_listed_port_can_be_refused
        the_listener_is_closed_to_programs_inside
        a_connection_that_is_let_through_reaches_the_listener
        names_are_served
        descriptors_never_block_and_are_closed_on_exec;
}

fn main() {
    for world in World::all() {
        for (name, loopback, scenario) in SCENARIOS {
            world.run(name, *loopback, *scenario);
        }
    }
}
