//! Text in columns.

use std::io::{self, Write};

use clap::builder::styling::Style;

/// Rows of cells, each column as wide as its widest cell, two spaces between them.
pub struct Table<const COLUMNS: usize> {
    header: [&'static str; COLUMNS],
    rows: Vec<[String; COLUMNS]>,
}

impl<const COLUMNS: usize> Table<COLUMNS> {
    /// An empty table under `header`.
    pub fn new(header: [&'static str; COLUMNS]) -> Self {
        Self {
            header,
            rows: Vec::new(),
        }
    }

    /// Adds a row.
    pub fn push(&mut self, row: [String; COLUMNS]) {
        self.rows.push(row);
    }

    /// Prints the header and the rows.
    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let mut widths = self.header.map(width);
        for row in &self.rows {
            for (widest, cell) in widths.iter_mut().zip(row) {
                *widest = width(cell).max(*widest);
            }
        }
        let style = Style::new().bold();
        writeln!(out, "{style}{}{style:#}", line(&self.header, &widths))?;
        self.rows
            .iter()
            .try_for_each(|row| writeln!(out, "{}", line(row, &widths)))
    }
}

fn line<S: AsRef<str>>(cells: &[S], widths: &[usize]) -> String {
    let mut line = String::new();
    for (cell, widest) in cells.iter().zip(widths) {
        let cell = cell.as_ref();
        line.push_str(cell);
        line.extend(std::iter::repeat_n(' ', widest - width(cell) + 2));
    }
    line.truncate(line.trim_end().len());
    line
}

/// Columns of a terminal, by its commonest approximation: a character is one wide.
fn width(cell: impl AsRef<str>) -> usize {
    cell.as_ref().chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_fit_their_widest_cell_and_lines_end_without_spaces() {
        let mut table = Table::new(["NAME", "N", "COMMAND"]);
        table.push(["lua".into(), "12345".into(), "make".into()]);
        table.push(["ärger".into(), "1".into(), String::new()]);
        let mut out = anstream::StripStream::new(Vec::new());
        table.write(&mut out).unwrap();
        assert_eq!(
            String::from_utf8(out.into_inner()).unwrap(),
            "NAME   N      COMMAND\nlua    12345  make\närger  1\n"
        );
    }
}
