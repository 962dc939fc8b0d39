//! The unified format.

use std::io::{self, Write};
use std::ops::Range;

use imara_diff::{Algorithm, Diff, InternedInput};

/// Unchanged lines around a change.
const CONTEXT_LINES: u32 = 3;

/// Writes the hunks that make `new` of `old`.
pub(super) fn write(old: &[u8], new: &[u8], out: &mut dyn Write) -> io::Result<()> {
    let mut input = InternedInput::default();
    input.update_before(lines(old));
    input.update_after(lines(new));
    let mut diff = Diff::compute(Algorithm::Histogram, &input);
    diff.postprocess_lines(&input);
    let hunks: Vec<_> = diff.hunks().collect();
    let old_lines: Vec<&[u8]> = lines(old).collect();
    let new_lines: Vec<&[u8]> = lines(new).collect();
    let mut rest = &hunks[..];
    while let Some(first) = rest.first() {
        // Changes whose contexts touch are one hunk.
        let joined = rest
            .windows(2)
            .take_while(|pair| pair[1].before.start <= pair[0].before.end + 2 * CONTEXT_LINES)
            .count();
        let (group, later) = rest.split_at(joined + 1);
        rest = later;
        let last = &group[joined];
        let lead = first.before.start.min(CONTEXT_LINES);
        let trail = (old_lines.len() as u32 - last.before.end).min(CONTEXT_LINES);
        let before = first.before.start - lead..last.before.end + trail;
        let after = first.after.start - lead..last.after.end + trail;
        writeln!(out, "@@ -{} +{} @@", range(&before), range(&after))?;
        let mut at = before.start;
        for hunk in group {
            write_lines(b" ", &old_lines, at..hunk.before.start, out)?;
            write_lines(b"-", &old_lines, hunk.before.clone(), out)?;
            write_lines(b"+", &new_lines, hunk.after.clone(), out)?;
            at = hunk.before.end;
        }
        write_lines(b" ", &old_lines, at..before.end, out)?;
    }
    Ok(())
}

fn lines(data: &[u8]) -> impl Iterator<Item = &[u8]> {
    data.split_inclusive(|byte| *byte == b'\n')
}

/// First line, counted from 1, and number of lines; an empty range is named by the line before it.
fn range(lines: &Range<u32>) -> String {
    let first = lines.start + u32::from(!lines.is_empty());
    format!("{first},{}", lines.len())
}

fn write_lines(
    mark: &[u8],
    lines: &[&[u8]],
    range: Range<u32>,
    out: &mut dyn Write,
) -> io::Result<()> {
    for line in &lines[range.start as usize..range.end as usize] {
        out.write_all(mark)?;
        out.write_all(line)?;
        if !line.ends_with(b"\n") {
            out.write_all(b"\n\\ No newline at end of file\n")?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patch(old: &str, new: &str) -> String {
        let mut out = Vec::new();
        write(old.as_bytes(), new.as_bytes(), &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn changes_are_shown_with_three_lines_around() {
        let old = "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n13\n14\n15\n16\n";
        let new = old.replace("5\n", "five\n").replace("16\n", "16");
        let new = new.replace("1five\n", "15\n");
        assert_eq!(
            patch(old, &new),
            "@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n\
             @@ -13,4 +13,4 @@\n 13\n 14\n 15\n-16\n+16\n\\ No newline at end of file\n"
        );
    }

    #[test]
    fn a_new_file_begins_at_line_zero() {
        assert_eq!(patch("", "a\n"), "@@ -0,0 +1,1 @@\n+a\n");
        assert_eq!(
            patch("a", ""),
            "@@ -1,1 +0,0 @@\n-a\n\\ No newline at end of file\n"
        );
    }
}
