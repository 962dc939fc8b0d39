//! The list of a crate's dialogues, each a test of its own.

/// Makes a test of each text in `tests/dialogues` of the calling crate, whose `main.rs` it is called in:
/// `dialogues! { script::check: name… }` gives `name.txt` to `script::check` in the test `name`. One more
/// test finds texts that are not in the list.
#[macro_export]
macro_rules! dialogues {
    ($check:path: $($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                $check(include_str!(concat!(stringify!($name), ".txt")));
            }
        )*

        #[test]
        fn every_dialogue_is_held() {
            let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/dialogues");
            $crate::assert_held(directory, &[$(concat!(stringify!($name), ".txt")),*]);
        }
    };
}

/// Fails for a text in this directory that is not among those held.
pub fn assert_held(directory: &str, held: &[&str]) {
    for entry in std::fs::read_dir(directory).expect("read the dialogues") {
        let name = entry.expect("read the dialogues").file_name();
        let name = name.to_str().expect("a dialogue's name is UTF-8");
        assert!(
            !name.ends_with(".txt") || held.contains(&name),
            "{name} is not in the list of dialogues"
        );
    }
}
