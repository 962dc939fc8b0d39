//! Lines that a message can carry, whatever the names in them.

/// Longest line, in bytes. (A character has at most four.)
const LINE_MAX: usize = 400;

/// Shortens long lines and leaves out those behind `count_max`, or behind `bytes_max` bytes as a message
/// has them. Returns how many it left out.
pub fn fit(lines: &mut Vec<String>, count_max: usize, bytes_max: usize) -> usize {
    let all = lines.len();
    lines.truncate(count_max);
    for line in &mut *lines {
        if line.len() > LINE_MAX {
            *line = line.chars().take(LINE_MAX / 4).chain(['…']).collect();
        }
    }
    let mut bytes = 0;
    // What is no letter may be longer in a message than in a name.
    let fitting = lines.iter().take_while(|line| {
        bytes += serde_json::to_string(line).map_or(0, |text| text.len());
        bytes <= bytes_max
    });
    let fitting = fitting.count();
    lines.truncate(fitting);
    all - fitting
}
