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

/// A column: its head, on which side its text stands, and when it is shown. `-o wide` shows all.
#[derive(Debug, Clone, Copy)]
pub struct Column {
    head: &'static str,
    right: bool,
    show: Show,
    /// Longer texts than this push the rest of their own line along, not that of every line.
    most: usize,
}

/// When a column is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Show {
    Always,
    /// Where the terminal has room; lower numbers first.
    Spare(u8),
    /// With `-o wide`.
    Wide,
}

impl Column {
    pub const fn left(head: &'static str) -> Column {
        Column { head, right: false, show: Show::Always, most: usize::MAX }
    }

    /// For numbers.
    pub const fn right(head: &'static str) -> Column {
        Column { head, right: true, show: Show::Always, most: usize::MAX }
    }

    /// Only with `-o wide`.
    pub const fn wide(mut self) -> Column {
        self.show = Show::Wide;
        self
    }

    /// Only where the terminal has room for it; of two such columns the one of the lower number goes first. What reads a
    /// pipe may count columns, so there it is never shown.
    pub const fn spare(mut self, rank: u8) -> Column {
        self.show = Show::Spare(rank);
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
    /// Columns of the terminal; absent where it is none.
    pub room: Option<usize>,
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
        let heads: Vec<Cell> = self.columns.iter().map(|c| Cell::new(c.head).tone(Tone::Dim)).collect();
        let lines = || std::iter::once(&heads).chain(&self.rows);
        let widest = |c: usize| lines().map(|l| width(&l[c].text)).filter(|w| *w <= self.columns[c].most).max();
        let widths: Vec<usize> = (0..self.columns.len()).map(|c| widest(c).unwrap_or(0)).collect();
        let shown = self.shown(&widths, style);
        for line in lines() {
            let mut blanks = 0;
            for &c in &shown {
                let (cell, w) = (&line[c], widths[c]);
                let pad = w.saturating_sub(width(&cell.text));
                let (before, after) = if self.columns[c].right { (pad, 0) } else { (0, pad) };
                if !cell.text.is_empty() {
                    write!(out, "{:1$}{2}", "", blanks + before, cell.tone.paint(&cell.text, style.colour))?;
                    blanks = after + GAP;
                } else {
                    blanks += w + GAP;
                }
            }
            writeln!(out)?;
        }
        Ok(())
    }

    /// The columns that are shown, by their places: as many of the spare ones as the terminal has room for.
    fn shown(&self, widths: &[usize], style: TableStyle) -> Vec<usize> {
        let of = |c: &usize| self.columns[*c].show;
        let mut shown: Vec<usize> = (0..self.columns.len()).filter(|c| style.wide || of(c) == Show::Always).collect();
        let Some(room) = style.room.filter(|_| !style.wide) else { return shown };
        let mut left = room.saturating_sub(shown.iter().map(|&c| widths[c] + GAP).sum::<usize>().saturating_sub(GAP));
        let rank = |c: &usize| if let Show::Spare(rank) = of(c) { Some(rank) } else { None };
        let mut spare: Vec<usize> = (0..self.columns.len()).filter(|c| rank(c).is_some()).collect();
        spare.sort_by_key(rank);
        for c in spare {
            if widths[c] + GAP <= left {
                left -= widths[c] + GAP;
                shown.push(c);
            }
        }
        shown.sort_unstable();
        shown
    }
}

/// Blanks between two columns.
const GAP: usize = 2;

/// Columns that `text` takes on a terminal, by the same measure as the console's.
fn width(text: &str) -> usize {
    ratatui::text::Span::raw(text).width()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(table: &Table, wide: bool, colour: bool) -> String {
        let mut out = Vec::new();
        table.write(&mut out, TableStyle { wide, colour, room: None }).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn spare_columns_come_as_the_terminal_has_room_and_never_into_a_pipe() {
        let columns =
            [Column::left("A"), Column::left("BBBB").spare(2), Column::left("CC").spare(1), Column::left("D")];
        let mut table = Table::new([&columns[..], &[Column::left("E").wide()]].concat());
        table.row([1, 2, 3, 4, 5].map(Cell::from));
        let head = |wide, room| {
            let mut out = Vec::new();
            table.write(&mut out, TableStyle { wide, colour: false, room }).unwrap();
            String::from_utf8(out).unwrap().lines().next().unwrap().to_string()
        };
        let heads = [(None, "A  D"), (Some(7), "A  D"), (Some(8), "A  CC  D"), (Some(13), "A  CC  D")];
        for (room, expected) in heads.into_iter().chain([(Some(14), "A  BBBB  CC  D"), (Some(1), "A  D")]) {
            assert_eq!(head(false, room), expected, "{room:?}");
            assert_eq!(head(true, room), "A  BBBB  CC  D  E", "{room:?}");
        }
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
