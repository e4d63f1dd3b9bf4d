//! Cards: one per line, in one column or two, the selected one always among them.

use super::super::model::lines::lines_of;
use super::super::model::{Line, Seen, State, Target};
use super::super::theme::Label;
use super::{Canvas, words};
use ratatui::layout::Rect;

/// From this width on, cards stand in two columns.
const WIDE: u16 = 200;

/// Draws as many cards of the view as fit. `height` and `card` are told whether the card is the selected one.
pub fn draw(
    state: &State,
    seen: &Seen,
    canvas: &mut Canvas<'_>,
    body: Rect,
    height: impl Fn(&Line<'_>, bool) -> u16,
    card: impl Fn(&Line<'_>, bool, &mut Canvas<'_>, Rect),
) {
    let lines = lines_of(state.view, &seen.snapshot);
    let selected = state.line.index();
    let heights: Vec<u16> = lines.iter().enumerate().map(|(i, line)| height(line, i == selected)).collect();
    let columns = if body.width >= WIDE { 2 } else { 1 };
    let width = (body.width + 1) / columns - 1;
    for (index, column, y) in arrange(&heights, selected, columns, body.height) {
        let area = Rect { x: body.x + column * (width + 1), y: body.y + y, width, height: heights[index] };
        let area = area.intersection(body);
        canvas.within(area, |canvas| card(&lines[index], index == selected, canvas, area));
        canvas.hit(area, Target::Line(lines[index].key()));
    }
}

/// Draws a card's title: which line it is and the model's state, and the first of `rights` that there is room for.
/// Returns the inside.
pub fn frame(line: &Line<'_>, selected: bool, rights: &[String], canvas: &mut Canvas<'_>, area: Rect) -> Rect {
    let glyphs = canvas.glyphs();
    let (sign, word, _) = words::model(line.model, glyphs);
    let op = line.op().map_or("", |op| op.name());
    let title = format!("{} {}  {sign} {word}", line.model.id, op);
    let rights: Vec<&str> = rights.iter().map(String::as_str).collect();
    canvas.rule(area.x, area.y, area.width, &title, &rights);
    if selected {
        canvas.put(area.x, area.y, 1, glyphs.pointer, Label::Key);
    }
    Rect { x: area.x + 2, y: area.y + 1, width: area.width.saturating_sub(3), height: area.height.saturating_sub(1) }
}

/// Columns that the head of a card's row takes.
pub const HEAD: u16 = 9;

/// Draws one row of a card: its head, and pieces beside it.
pub fn row(head: &str, pieces: &[(&str, Label)], canvas: &mut Canvas<'_>, area: Rect, y: u16) {
    canvas.put(area.x, y, HEAD, head, Label::Head);
    canvas.pieces(area.x + HEAD, y, area.width.saturating_sub(HEAD), pieces);
}

/// Where cards go, column after column: (card, column, row). Starts with the first card from which the selected one
/// is still seen whole; a card that is higher than the screen is cut.
fn arrange(heights: &[u16], selected: usize, columns: u16, room: u16) -> Vec<(usize, u16, u16)> {
    let from = |first: usize| {
        let (mut column, mut y) = (0, 0);
        let mut placed = Vec::new();
        for (index, &height) in heights.iter().enumerate().skip(first) {
            if y > 0 && y + height > room && column + 1 < columns {
                (column, y) = (column + 1, 0);
            }
            if y >= room {
                break;
            }
            placed.push((index, column, y));
            y += height + 1;
        }
        placed
    };
    let whole = |placed: &[(usize, u16, u16)]| {
        placed.iter().any(|&(index, _, y)| index == selected && (y == 0 || y + heights[index] <= room))
    };
    (0..=selected).map(from).find(|placed| whole(placed)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_selected_card_is_seen_whole_wherever_it_is() {
        let heights = [8, 5, 9, 2, 8, 30, 8];
        for selected in 0..heights.len() {
            for (columns, room) in [(1, 9), (1, 21), (2, 12), (2, 40)] {
                let placed = arrange(&heights, selected, columns, room);
                let found = placed.iter().find(|(index, ..)| *index == selected);
                let &(_, column, y) = found.unwrap_or_else(|| panic!("card {selected} in {columns} columns of {room}"));
                assert!(column < columns && (y == 0 || y + heights[selected] <= room));
            }
        }
    }
}
