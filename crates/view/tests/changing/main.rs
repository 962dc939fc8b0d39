//! A view of a tree that somebody else changes meanwhile and that fails now and then, against a simple
//! model: every call has the effect that it has in the model, or fails and has none.

mod model;
mod world;

use proptest::prelude::*;

use world::{Step, World};

fn name() -> impl Strategy<Value = &'static str> {
    prop::sample::select(&["a", "b", "c"][..])
}

fn path() -> impl Strategy<Value = String> {
    prop::collection::vec(name(), 1..4).prop_map(|names| names.join("/"))
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..12)
}

fn step() -> impl Strategy<Value = Step> {
    let permissions = || 0..0o1000u16;
    prop_oneof![
        2 => path().prop_map(Step::Create),
        2 => path().prop_map(Step::MakeDirectory),
        3 => path().prop_map(Step::Unlink),
        1 => path().prop_map(Step::RemoveDirectory),
        4 => (path(), path()).prop_map(|(from, to)| Step::Rename(from, to)),
        3 => (path(), 0..20u64, bytes()).prop_map(|(path, at, data)| Step::Write(path, at, data)),
        1 => (path(), 0..20u64).prop_map(|(path, size)| Step::Cut(path, size)),
        1 => (path(), permissions()).prop_map(|(path, mode)| Step::Permit(path, mode)),
        3 => (path(), bytes()).prop_map(|(path, data)| Step::WriteOutside(path, data)),
        1 => path().prop_map(Step::MakeDirectoryOutside),
        2 => path().prop_map(Step::RemoveOutside),
        1 => (path(), permissions()).prop_map(|(path, mode)| Step::PermitOutside(path, mode)),
        4 => (0..8u64).prop_map(Step::FailNext),
        1 => Just(Step::Forget),
        1 => Just(Step::Reopen),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn a_view_is_what_the_domain_changed_over_what_others_change(
        steps in prop::collection::vec(step(), 1..40),
    ) {
        let mut world = World::new();
        for step in &steps {
            world.take(step);
        }
        world.take(&Step::Reopen);
        world.compare();
    }
}
