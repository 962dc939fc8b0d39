//! The gate of a domain's network, with a small relay behind it. Each test has a process and a network
//! of its own; to be copied for that, this program has one thread and runs its tests itself.

mod packet;
mod relay;
mod scenarios;
mod world;

use scenarios::SCENARIOS;
use world::World;

fn main() {
    for world in World::all() {
        for (name, loopback, scenario) in SCENARIOS {
            world.run(name, *loopback, *scenario);
        }
    }
}
