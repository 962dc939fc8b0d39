use super::*;
use proptest::prelude::*;

fn later(seconds: u64) -> Instant {
    // All tests share one beginning, so that their times can be told apart.
    static BEGINNING: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    *BEGINNING.get_or_init(Instant::now) + Duration::from_secs(seconds)
}

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn strings(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

#[test]
fn an_address_has_the_names_under_which_it_was_learned() {
    let mut names = Names::default();
    let (a, b) = (address("192.0.2.1"), address("2001:db8::1"));
    names.learn(later(0), &strings(&["A.Example."]), &[a, b]);
    names.learn(later(0), &strings(&["b.example", "a.example"]), &[a]);
    assert_eq!(names.names_of(later(1), a), ["b.example", "a.example"]);
    let mapped = address("::ffff:192.0.2.1");
    assert_eq!(names.names_of(later(1), mapped), ["b.example", "a.example"]);
    assert_eq!(names.names_of(later(1), b), ["a.example"]);
    assert!(names.names_of(later(1), address("192.0.2.2")).is_empty());
    assert_eq!(names.name_of(later(1), a), None);
}

#[test]
fn a_name_stays_an_hour_after_its_last_use() {
    let mut names = Names::default();
    let a = address("192.0.2.1");
    names.learn(later(0), &strings(&["a.example"]), &[a]);
    names.learn(later(3000), &strings(&["b.example"]), &[a]);
    assert_eq!(names.names_of(later(3600), a).len(), 2);
    assert_eq!(names.names_of(later(7200), a).len(), 2);
    assert!(names.names_of(later(10_801), a).is_empty());
}

#[test]
fn of_many_names_of_an_address_the_last_stay() {
    let mut names = Names::default();
    let a = address("192.0.2.1");
    for number in 0..100 {
        names.learn(later(number), &[format!("n{number}.example")], &[a]);
    }
    let known = names.names_of(later(100), a);
    assert_eq!(known.len(), NAMES_MAX);
    assert_eq!(known.last().unwrap(), "n99.example");
}

#[test]
fn of_many_addresses_the_last_used_stay() {
    let mut names = Names::default();
    let a = address("192.0.2.1");
    names.learn(later(0), &strings(&["a.example"]), &[a]);
    for number in 0..LEARNED_MAX.get() as u32 + 100 {
        let other = Ipv4Addr::from(0x0b00_0000 + number).into();
        names.learn(later(1), &strings(&["other.example"]), &[other]);
        if number == 5000 {
            assert_eq!(names.names_of(later(1), a).len(), 1);
        }
    }
    assert_eq!(names.names_of(later(1), a).len(), 1);
    assert!(names.names_of(later(1), address("11.0.0.0")).is_empty());
    assert_eq!(names.learned.len(), LEARNED_MAX.get());
}

#[test]
fn a_held_name_has_one_address_and_the_address_its_name() {
    let (mut names, mut other_run) = (Names::default(), Names::default());
    let a = names.synthetic(later(0), "a.example").unwrap();
    assert!(is_synthetic(a.into()));
    assert_eq!(names.synthetic(later(9), "A.EXAMPLE."), Some(a));
    assert_eq!(other_run.synthetic(later(0), "a.example"), Some(a));
    assert_eq!(names.name_of(later(9), a.into()).unwrap(), "a.example");
    assert_eq!(names.names_of(later(9), a.into()), ["a.example"]);
    let b = names.synthetic(later(0), "b.example").unwrap();
    assert_ne!(a, b);
}

#[test]
fn a_real_address_is_never_a_synthetic_one() {
    let mut fresh = Names::default();
    let a = fresh.synthetic(later(0), "a.example").unwrap();
    // Given out first, learned afterwards.
    fresh.learn(later(0), &strings(&["b.example"]), &[a.into()]);
    assert_eq!(fresh.names_of(later(0), a.into()), ["a.example"]);
    // Learned first.
    let mut learned = Names::default();
    learned.learn(later(0), &strings(&["b.example"]), &[a.into()]);
    let other = learned.synthetic(later(0), "a.example").unwrap();
    assert_ne!(other, a);
    assert_eq!(learned.names_of(later(0), a.into()), ["b.example"]);
}

#[test]
fn synthetic_addresses_are_used_again_only_when_their_names_are_old() {
    let mut names = Names::default();
    let name = |number: usize| format!("n{number}.example");
    let mut seen = std::collections::HashSet::new();
    for number in 0..SYNTHETIC_MAX {
        let address = names.synthetic(later(0), &name(number)).unwrap();
        assert!(!matches!(address.octets()[3], 0 | 255), "{address}");
        assert!(seen.insert(address), "{address} twice");
    }
    assert_eq!(names.synthetic(later(3600), "new.example"), None);
    let used = names.synthetic(later(3600), &name(0)).unwrap();
    assert!(names.synthetic(later(3601), "new.example").is_some());
    assert_eq!(names.synthetic(later(3601), &name(0)), Some(used));
    assert_eq!(names.by_name.len(), SYNTHETIC_MAX);
    assert!(!names.by_name.contains_key(&name(1)));
}

proptest! {
    #[test]
    fn names_and_addresses_stay_one_to_one(
        steps in proptest::collection::vec((0u64..4000, "[a-c]{1,2}"), 1..200),
    ) {
        let mut names = Names::default();
        let mut clock = 0;
        let mut given: HashMap<String, Ipv4Addr> = HashMap::new();
        for (wait, name) in steps {
            clock += wait;
            let address = names.synthetic(later(clock), &name).unwrap();
            prop_assert_eq!(*given.entry(name.clone()).or_insert(address), address);
            prop_assert_eq!(names.name_of(later(clock), address.into()), Some(name));
        }
        let different: std::collections::HashSet<_> = given.values().collect();
        prop_assert_eq!(different.len(), given.len());
    }
}
