//! The question after a run: what shall become of the changes?

/// What the user wants done with a kept domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Make the changes real.
    Commit,
    /// Throw them away.
    Abort,
    /// Show them in full, then ask again.
    Diff,
    /// Start a shell that sees them, then ask again.
    Shell,
    /// Decide later.
    Keep,
}

/// The question, with the letters to answer by.
pub const QUESTION: &str = "Commit? [y]es [n]o [d]iff [s]hell [k]eep, then Enter: ";

/// The question before several domains are thrown away.
pub const ABORT_ALL: &str = "Throw them away? [y]es [n]o, then Enter: ";

/// What a line typed at a question of yes or no means; none if it is no answer. The end of input agrees to
/// nothing.
pub fn yes_or_no(line: Option<&str>) -> Option<bool> {
    let Some(line) = line else {
        return Some(false);
    };
    match line.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" => Some(true),
        "n" | "no" => Some(false),
        _ => None,
    }
}

/// What a line typed at the question means; none if it is no answer. The end of input keeps: closing
/// a terminal decides nothing.
pub fn answer(line: Option<&str>) -> Option<Answer> {
    let Some(line) = line else {
        return Some(Answer::Keep);
    };
    Some(match line.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" => Answer::Commit,
        "n" | "no" => Answer::Abort,
        "d" | "diff" => Answer::Diff,
        "s" | "shell" => Answer::Shell,
        "k" | "keep" => Answer::Keep,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_letter_or_its_word_answers() {
        for (answers, meaning) in [
            (["y", "yes", "Y\n"], Answer::Commit),
            (["n", "no", " no \n"], Answer::Abort),
            (["d", "diff", "DIFF"], Answer::Diff),
            (["s", "shell", "s\r\n"], Answer::Shell),
            (["k", "keep", "Keep"], Answer::Keep),
        ] {
            for line in answers {
                assert_eq!(answer(Some(line)), Some(meaning), "{line:?}");
            }
        }
    }

    #[test]
    fn anything_else_is_asked_again() {
        for line in ["", "\n", "yy", "commit", "ye", "y n", "\u{1b}"] {
            assert_eq!(answer(Some(line)), None, "{line:?}");
        }
    }

    #[test]
    fn the_end_of_input_keeps_and_agrees_to_nothing() {
        assert_eq!(answer(None), Some(Answer::Keep));
        assert_eq!(yes_or_no(None), Some(false));
        assert_eq!(yes_or_no(Some("Y\n")), Some(true));
        assert_eq!(yes_or_no(Some("\n")), None);
    }

    #[test]
    fn the_question_names_every_letter() {
        for letter in ["y", "n", "d", "s", "k"] {
            assert!(QUESTION.contains(&format!("[{letter}]")));
            assert!(answer(Some(letter)).is_some());
        }
    }
}
