//! Numbers of things, in words.

/// `1 change`, `2 changes`, `2 processes`.
pub fn count(number: usize, noun: &str) -> String {
    match number {
        1 => format!("1 {noun}"),
        _ if noun.ends_with('s') => format!("{number} {noun}es"),
        _ => format!("{number} {noun}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_singular() {
        assert_eq!(count(1, "change"), "1 change");
        assert_eq!(count(0, "change"), "0 changes");
        assert_eq!(count(2, "process"), "2 processes");
    }
}
