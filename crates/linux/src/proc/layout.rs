//! Where a process has what its program was given (proc_pid_stat(5)).

use std::io;

use super::Entry;

/// The first of the fields that stand after the name: the state.
const AFTER_NAME: usize = 3;

/// Addresses, as the kernel remembers them: nothing else of a process follows from them but what /proc tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Its code: from where to where.
    pub code: [u64; 2],
    /// Its data.
    pub data: [u64; 2],
    /// Where the break began.
    pub start_break: u64,
    /// Where the stack began.
    pub start_stack: u64,
    /// Its arguments.
    pub arguments: [u64; 2],
    /// Its environment.
    pub environment: [u64; 2],
}

/// Those of a process that the caller may trace.
///
/// # Errors
/// As for reading /proc; `InvalidData` where the kernel does not tell.
pub fn layout(entry: impl Into<Entry>) -> io::Result<Layout> {
    let told = parse(&entry.into().text("stat")?);
    told.ok_or_else(|| io::ErrorKind::InvalidData.into())
}

fn parse(stat: &str) -> Option<Layout> {
    let (_, fields) = stat.rsplit_once(") ")?;
    let fields: Vec<_> = fields.split_ascii_whitespace().collect();
    // As the manual numbers them.
    let field = |number: usize| fields.get(number - AFTER_NAME)?.parse::<u64>().ok();
    Some(Layout {
        code: [field(26)?, field(27)?],
        data: [field(45)?, field(46)?],
        start_break: field(47)?,
        start_stack: field(28)?,
        arguments: [field(48)?, field(49)?],
        environment: [field(50)?, field(51)?],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_are_those_of_the_manual() {
        let fields: Vec<_> = (4..=52).map(|number| number.to_string()).collect();
        let layout = parse(&format!("7 (a) b) S {}", fields.join(" "))).expect("all fields");
        assert_eq!((layout.code, layout.data), ([26, 27], [45, 46]));
        assert_eq!((layout.start_break, layout.start_stack), (47, 28));
        let told = (layout.arguments, layout.environment);
        assert_eq!(told, ([48, 49], [50, 51]));
        assert_eq!(parse("7 (a) S 4 5"), None);
        assert_eq!(parse(""), None);
    }

    #[test]
    fn own_code_is_where_it_says() {
        let own = layout(Entry::own()).expect("own stat");
        let here = own_code_is_where_it_says as fn() as usize as u64;
        assert!((own.code[0]..own.code[1]).contains(&here));
        assert!(own.arguments[0] < own.arguments[1]);
    }
}
