//! Where functions begin and end.

use crate::rust_text::Line;

/// One function with a body.
#[derive(Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// The line of its `fn`, from 1.
    pub line: usize,
    /// From the line of its `fn` to that of its closing brace.
    pub length: usize,
}

/// The functions of a file, nested ones too.
pub fn functions(lines: &[Line]) -> Vec<Function> {
    let mut found = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let Some(name) = name(&line.code) else {
            continue;
        };
        if let Some(length) = length(&lines[index..]) {
            found.push(Function {
                name: name.to_owned(),
                line: index + 1,
                length,
            });
        }
    }
    found
}

/// The name in `fn name(`; a function pointer's type has none.
fn name(code: &str) -> Option<&str> {
    let at = code.match_indices("fn ").map(|(at, _)| at).find(|&at| {
        let before = code[..at].trim_end();
        before.is_empty() || code[..at].ends_with(' ') && !before.ends_with(['=', ':', '&', ','])
    })?;
    let rest = &code[at + 3..];
    let end = rest.find(|next: char| !next.is_alphanumeric() && next != '_')?;
    (end > 0).then(|| &rest[..end])
}

/// The number of lines up to the closing brace of the body; none for a declaration.
fn length(lines: &[Line]) -> Option<usize> {
    // Types such as `[u8; 4]` and generic arguments come before the body.
    let (mut brackets, mut braces) = (0, 0);
    for (index, line) in lines.iter().enumerate() {
        let start = if index == 0 {
            line.code.find("fn ").unwrap_or(0)
        } else {
            0
        };
        for character in line.code[start..].chars() {
            match character {
                '(' | '[' => brackets += 1,
                ')' | ']' => brackets -= 1,
                '{' => braces += 1,
                '}' if braces == 1 => return Some(index + 1),
                '}' => braces -= 1,
                ';' if braces == 0 && brackets == 0 => return None,
                _ => {}
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rust_text::lines;

    fn of(text: &str) -> Vec<(String, usize)> {
        functions(&lines(text))
            .into_iter()
            .map(|found| (found.name, found.length))
            .collect()
    }

    #[test]
    fn lengths_are_counted_to_the_closing_brace() {
        let text = "pub(crate) const fn one() -> [u8; 1] {\n    [b'}']\n}\nfn two() {}\n";
        assert_eq!(of(text), [("one".into(), 3), ("two".into(), 1)]);
    }

    #[test]
    fn declarations_and_types_are_no_functions() {
        assert_eq!(
            of("trait T {\n    fn f(&self);\n}\ntype F = fn (u8) -> u8;\n"),
            []
        );
    }
}
