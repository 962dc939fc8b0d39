//! What calls touch, in the view's words and in the supervisor's.

use surmise_supervisor::{End, Look, Manner, Share, Target, Touches};

/// So many marks and cells fit in one message.
const FOUND_MAX: usize = 1000;

pub(super) fn to_view(look: Look) -> surmise_view::Look {
    surmise_view::Look {
        target: match look.target {
            Target::Path {
                base,
                path,
                follows,
            } => surmise_view::Target::Path {
                base,
                path,
                follows,
            },
            Target::Inode(number) => surmise_view::Target::Inode(number),
        },
        manner: match look.manner {
            Manner::Passes => surmise_view::Manner::Passes,
            Manner::Looks => surmise_view::Manner::Looks,
            Manner::Links => surmise_view::Manner::Links,
            Manner::Opens { creates, changes } => surmise_view::Manner::Opens { creates, changes },
            Manner::Lists => surmise_view::Manner::Lists,
            Manner::Changes => surmise_view::Manner::Changes,
            Manner::Binds => surmise_view::Manner::Binds,
            Manner::Executes => surmise_view::Manner::Executes,
        },
    }
}

pub(super) fn from_view(found: surmise_view::Touches) -> Touches {
    let ends = found.ends.iter().map(|end| match end {
        surmise_view::End::Unknown => End::Unknown,
        surmise_view::End::Nothing => End::Nothing,
        surmise_view::End::Directory => End::Directory,
        surmise_view::End::File => End::File,
        surmise_view::End::Link => End::Link,
        surmise_view::End::Other => End::Other,
    });
    let ends = ends.collect();
    if found.marks.len() + found.cells.len() > FOUND_MAX {
        return Touches {
            in_doubt: true,
            ends,
            ..Touches::default()
        };
    }
    let share = |share| match share {
        surmise_view::Share::Passes => Share::Passes,
        surmise_view::Share::Commutes => Share::Commutes,
        surmise_view::Share::Looks => Share::Looks,
        surmise_view::Share::Changes => Share::Changes,
    };
    let cells = found.cells.into_iter();
    Touches {
        marks: found.marks.into_iter().map(|mark| mark.0).collect(),
        cells: cells.map(|(cell, one)| (cell, share(one))).collect(),
        in_doubt: found.in_doubt,
        ends,
    }
}
