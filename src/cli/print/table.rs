//! Tables: aligned columns two blanks apart, no boxes. Pure.

use super::text::neutral;
use std::io::{self, Write};

/// How loud a cell is. The words in a cell carry its meaning; a tone only repeats it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Tone {
    #[default]
    Plain,
    Strong,
    Dim,
    Good,
    Warn,
    Bad,
}

impl Tone {
    /// `text` with this tone's escape codes around it, where colour is on.
    pub fn paint(self, text: &str, colour: bool) -> String {
        let code = match self {
            Tone::Plain => return text.to_string(),
            Tone::Strong => "1",
            Tone::Dim => "2",
            Tone::Good => "32",
            Tone::Warn => "33",
            Tone::Bad => "31",
        };
        if colour { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_string() }
    }
}

/// A cell: its text, neutralised when it is made, and its tone.
#[derive(Debug, Clone, Default)]
pub struct Cell {
    text: String,
    tone: Tone,
}

impl Cell {
    pub fn new(text: impl AsRef<str>) -> Cell {
        Cell { text: neutral(text.as_ref()).into_owned(), tone: Tone::Plain }
    }

    pub fn tone(mut self, tone: Tone) -> Cell {
        self.tone = tone;
        self
    }
}

impl<T: std::fmt::Display> From<T> for Cell {
    fn from(value: T) -> Cell {
        Cell::new(value.to_string())
    }
}

/// A column: its head, on which side its text stands, and whether only `-o wide` shows it.
#[derive(Debug, Clone, Copy)]
pub struct Column {
    head: &'static str,
    right: bool,
    wide: bool,
    /// Longer texts than this push the rest of their own line along, not that of every line.
    most: usize,
}

impl Column {
    pub const fn left(head: &'static str) -> Column {
        Column { head, right: false, wide: false, most: usize::MAX }
    }

    /// For numbers.
    pub const fn right(head: &'static str) -> Column {
        Column { head, right: true, wide: false, most: usize::MAX }
    }

    pub const fn wide(mut self) -> Column {
        self.wide = true;
        self
    }

    /// For texts of which a few are much longer than most.
    pub const fn at_most(mut self, columns: usize) -> Column {
        self.most = columns;
        self
    }
}

/// How tables are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TableStyle {
    pub wide: bool,
    pub colour: bool,
}

/// A table in the making.
#[derive(Debug)]
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    pub fn new(columns: impl Into<Vec<Column>>) -> Table {
        Table { columns: columns.into(), rows: Vec::new() }
    }

    /// Adds a row with a cell for every column, the wide ones included.
    pub fn row(&mut self, cells: impl Into<Vec<Cell>>) {
        let cells = cells.into();
        debug_assert_eq!(cells.len(), self.columns.len(), "a row has a cell for every column");
        self.rows.push(cells);
    }

    /// Writes heads and rows. No line ends in blanks.
    pub fn write(&self, out: &mut dyn Write, style: TableStyle) -> io::Result<()> {
        let shown: Vec<usize> = (0..self.columns.len()).filter(|&c| style.wide || !self.columns[c].wide).collect();
        let heads: Vec<Cell> = self.columns.iter().map(|c| Cell::new(c.head).tone(Tone::Dim)).collect();
        let lines = || std::iter::once(&heads).chain(&self.rows);
        let widest = |c: usize| lines().map(|l| width(&l[c].text)).filter(|w| *w <= self.columns[c].most).max();
        let widths: Vec<usize> = shown.iter().map(|&c| widest(c).unwrap_or(0)).collect();
        for line in lines() {
            let mut blanks = 0;
            for (&c, &w) in shown.iter().zip(&widths) {
                let cell = &line[c];
                let pad = w.saturating_sub(width(&cell.text));
                let (before, after) = if self.columns[c].right { (pad, 0) } else { (0, pad) };
                if !cell.text.is_empty() {
                    write!(out, "{:1$}{2}", "", blanks + before, cell.tone.paint(&cell.text, style.colour))?;
                    blanks = after + 2;
                } else {
                    blanks += w + 2;
                }
            }
            writeln!(out)?;
        }
        Ok(())
    }
}

/// Columns that `text` takes on a terminal, by the same measure as the console's.
fn width(text: &str) -> usize {
    ratatui::text::Span::raw(text).width()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(table: &Table, wide: bool, colour: bool) -> String {
        let mut out = Vec::new();
        table.write(&mut out, TableStyle { wide, colour }).unwrap();
        String::from_utf8(out).unwrap()
    }

    fn sample() -> Table {
        let mut t =
            Table::new([Column::left("MODEL"), Column::right("N"), Column::left("WHY").wide(), Column::left("")]);
        t.row(["a".into(), 12.into(), "x".into(), Cell::from("")]);
        t.row([Cell::new("日本\u{1b}").tone(Tone::Bad), 3.into(), "".into(), Cell::from("end")]);
        t
    }

    #[test]
    fn columns_align_and_no_line_ends_in_blanks() {
        assert_eq!(written(&sample(), false, false), "MODEL   N\na      12\n日本\u{fffd}   3  end\n");
        assert_eq!(written(&sample(), true, false), "MODEL   N  WHY\na      12  x\n日本\u{fffd}   3       end\n");
    }

    #[test]
    fn one_long_text_does_not_push_every_line() {
        let mut t = Table::new([Column::left("K"), Column::left("VALUE").at_most(8), Column::left("ORIGIN")]);
        t.row(["a".into(), "short".into(), Cell::from("x")]);
        t.row(["b".into(), "as long as it is".into(), Cell::from("y")]);
        assert_eq!(written(&t, false, false), "K  VALUE  ORIGIN\na  short  x\nb  as long as it is  y\n");
    }

    #[test]
    fn colour_wraps_words_only() {
        let text = written(&sample(), false, true);
        assert!(text.contains("\u{1b}[31m日本\u{fffd}\u{1b}[0m   3  end"), "{text:?}");
    }
}
