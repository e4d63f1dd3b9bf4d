//! Which columns fit, and where: tables that collapse by priority.

use ratatui::layout::Rect;

/// A column of a table.
#[derive(Debug, Clone, Copy)]
pub struct Column<Id> {
    pub id: Id,
    pub head: &'static str,
    pub min: u16,
    /// What it may grow to when there is room.
    pub max: u16,
    pub right: bool,
    /// The highest rank is dropped first; rank 0 stays.
    pub rank: u8,
}

impl<Id> Column<Id> {
    pub const fn left(id: Id, head: &'static str, min: u16, max: u16, rank: u8) -> Column<Id> {
        Column { id, head, min, max, right: false, rank }
    }

    pub const fn right(id: Id, head: &'static str, width: u16, rank: u8) -> Column<Id> {
        Column { id, head, min: width, max: width, right: true, rank }
    }
}

/// A column that has found its place.
#[derive(Debug, Clone, Copy)]
pub struct Slot<Id> {
    pub id: Id,
    pub head: &'static str,
    pub x: u16,
    pub width: u16,
    pub right: bool,
}

const GAP: u16 = 2;

/// Places the columns that fit into `width` columns from `x`.
pub fn place<Id: Copy>(columns: &[Column<Id>], x: u16, width: u16) -> Vec<Slot<Id>> {
    let needed = |kept: &[Column<Id>]| kept.iter().map(|column| column.min + GAP).sum::<u16>().saturating_sub(GAP);
    let mut kept: Vec<Column<Id>> = columns.to_vec();
    while needed(&kept) > width {
        let Some(rank) = kept.iter().map(|column| column.rank).max().filter(|&rank| rank > 0) else { break };
        kept.retain(|column| column.rank < rank);
    }
    let mut spare = width.saturating_sub(needed(&kept));
    let mut at = x;
    // The first columns grow first: names in full are worth more than long bars.
    let place = |column: &Column<Id>| {
        let grown = spare.min(column.max.saturating_sub(column.min));
        spare -= grown;
        let width = column.min + grown;
        let slot = Slot { id: column.id, head: column.head, x: at, width, right: column.right };
        at += width + GAP;
        slot
    };
    kept.iter().map(place).collect()
}

/// The first of `rows` rows to show in `height` lines so that `selected` is seen: it stays in the middle, so that it
/// does not move under the eye while others come and go.
pub fn first_row(selected: usize, rows: usize, height: usize) -> usize {
    selected.saturating_sub(height / 2).min(rows.saturating_sub(height))
}

/// A box of `width` by `height` in the middle of `area`, as much of it as fits.
pub fn centred(area: Rect, width: u16, height: u16) -> Rect {
    let (width, height) = (width.min(area.width), height.min(area.height));
    Rect { x: area.x + (area.width - width) / 2, y: area.y + (area.height - height) / 2, width, height }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [Column<char>; 3] =
        [Column::left('a', "A", 10, 20, 0), Column::right('b', "B", 5, 2), Column::left('c', "C", 4, 8, 1)];

    #[test]
    fn columns_are_dropped_by_rank_and_grow_into_spare_room() {
        let ids = |width| place(&COLUMNS, 0, width).iter().map(|slot| (slot.id, slot.width)).collect::<Vec<_>>();
        assert_eq!(ids(60), [('a', 20), ('b', 5), ('c', 8)]);
        assert_eq!(ids(25), [('a', 12), ('b', 5), ('c', 4)]);
        assert_eq!(ids(22), [('a', 16), ('c', 4)]);
        assert_eq!(ids(12), [('a', 12)]);
        assert_eq!(ids(3), [('a', 10)]);
    }

    #[test]
    fn the_selected_row_is_always_seen() {
        for rows in 1..40 {
            for height in 1..20 {
                for selected in 0..rows {
                    let first = first_row(selected, rows, height);
                    assert!(first <= selected && selected < first + height, "{selected} of {rows} in {height}");
                }
            }
        }
    }
}
