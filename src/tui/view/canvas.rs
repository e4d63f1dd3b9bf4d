//! A buffer with a look: the only way text and signs get onto the screen.

use super::super::glyphs::Glyphs;
use super::super::model::Target;
use super::super::text;
use super::super::theme::Label;
use super::{Hit, Look};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

/// Draws onto one area of a buffer; what would fall outside is cut.
pub struct Canvas<'a> {
    buffer: &'a mut Buffer,
    look: &'a Look,
    area: Rect,
    hits: Vec<Hit>,
}

impl<'a> Canvas<'a> {
    pub fn new(buffer: &'a mut Buffer, look: &'a Look, area: Rect) -> Canvas<'a> {
        Canvas { buffer, look, area, hits: Vec::new() }
    }

    pub fn into_hits(self) -> Vec<Hit> {
        self.hits
    }

    /// Draws within `area` only.
    pub fn within(&mut self, area: Rect, draw: impl FnOnce(&mut Canvas<'_>)) {
        let whole = self.area;
        self.area = area.intersection(whole);
        draw(self);
        self.area = whole;
    }

    pub fn glyphs(&self) -> &'a Glyphs {
        &self.look.glyphs
    }

    /// Says that a click on `area` means `target`.
    pub fn hit(&mut self, area: Rect, target: Target) {
        self.hits.push(Hit { area: area.intersection(self.area), target });
    }

    /// Writes `text` from (`x`, `y`) in at most `width` columns; returns the columns used.
    pub fn put(&mut self, x: u16, y: u16, width: u16, text: &str, label: Label) -> u16 {
        let inside = x >= self.area.x && x < self.area.right() && y >= self.area.y && y < self.area.bottom();
        if !inside {
            return 0;
        }
        let width = width.min(self.area.right() - x);
        let safe = text::neutral(text, &self.look.glyphs);
        let cut = text::fit(&safe, usize::from(width), &self.look.glyphs);
        // What lay here must not shine through: a title on a dim rule would be dim.
        let under = Rect { x, y, width: (text::columns(&cut) as u16).min(width), height: 1 };
        self.buffer.set_style(under, Style::reset());
        let (end, _) = self.buffer.set_stringn(x, y, &cut, usize::from(width), self.look.theme.style(label));
        end - x
    }

    /// Writes `text` so that it ends at column `x + width`.
    pub fn put_right(&mut self, x: u16, y: u16, width: u16, text: &str, label: Label) {
        let safe = text::neutral(text, &self.look.glyphs);
        let used = (text::columns(&safe) as u16).min(width);
        self.put(x + width - used, y, used, &safe, label);
    }

    /// Writes pieces one after the other; returns the columns used.
    pub fn pieces(&mut self, x: u16, y: u16, width: u16, pieces: &[(&str, Label)]) -> u16 {
        let mut used = 0;
        for (text, label) in pieces {
            if used >= width {
                break;
            }
            used += self.put(x + used, y, width - used, text, *label);
        }
        used
    }

    /// A horizontal rule with a title set into it, and at its right end the first of `rights` that there is room for.
    pub fn rule(&mut self, x: u16, y: u16, width: u16, title: &str, rights: &[&str]) {
        let line = self.look.glyphs.rule.repeat(usize::from(width));
        self.put(x, y, width, &line, Label::Rule);
        if title.is_empty() || width < 8 {
            return;
        }
        let title = format!(" {title} ");
        let used = self.put(x + 1, y, width - 2, &title, Label::Title);
        let room = usize::from(width.saturating_sub(used + 4));
        if let Some(right) = rights.iter().find(|right| text::columns(right) + 2 <= room) {
            let right = format!(" {right} ");
            let needed = text::columns(&right) as u16;
            self.put(x + width - needed - 1, y, needed, &right, Label::Dim);
        }
    }

    /// How far something is: `ratio` of `width` columns.
    pub fn gauge(&mut self, x: u16, y: u16, width: u16, ratio: f64, label: Label) {
        let ratio = ratio.clamp(0.0, 1.0);
        let ratio = if self.look.reduced_motion { (ratio * 10.0).floor() / 10.0 } else { ratio };
        let full = (f64::from(width) * ratio).round() as u16;
        let glyphs = self.look.glyphs;
        self.put(x, y, full, &glyphs.gauge_full.repeat(usize::from(full)), label);
        let rest = width - full;
        self.put(x + full, y, rest, &glyphs.gauge_empty.repeat(usize::from(rest)), Label::GaugeEmpty);
    }

    /// The newest values as bars, newest at the right, scaled to the greatest of those shown; `height` rows.
    pub fn bars(&mut self, area: Rect, values: impl DoubleEndedIterator<Item = f64> + Clone, label: Label) {
        let newest = || values.clone().rev().take(usize::from(area.width));
        let top = newest().fold(0.0, f64::max);
        let height = f64::from(area.height);
        for (i, value) in newest().enumerate() {
            let x = area.right() - 1 - i as u16;
            let ratio = if top > 0.0 { value / top } else { 0.0 };
            for row in 0..area.height {
                let filled = ratio * height - f64::from(area.height - 1 - row);
                let sign = self.look.glyphs.bar(filled.clamp(0.0, 1.0));
                self.put(x, area.y + row, 1, sign, label);
            }
        }
    }

    /// An empty box with a border and a title; returns its inside.
    pub fn window(&mut self, area: Rect, title: &str) -> Rect {
        let area = area.intersection(self.area);
        if area.width < 4 || area.height < 3 {
            return Rect::default();
        }
        let glyphs = self.look.glyphs;
        let [top_left, top_right, bottom_left, bottom_right] = glyphs.corners;
        let blank = " ".repeat(usize::from(area.width));
        for y in area.y..area.bottom() {
            for x in area.x..area.right() {
                self.buffer[(x, y)].reset();
            }
            self.put(area.x, y, area.width, &blank, Label::Text);
            self.put(area.x, y, 1, glyphs.vertical, Label::Rule);
            self.put(area.right() - 1, y, 1, glyphs.vertical, Label::Rule);
        }
        let bottom = area.bottom() - 1;
        self.rule(area.x, area.y, area.width, title, &[]);
        self.rule(area.x, bottom, area.width, "", &[]);
        for (x, y, corner) in [
            (area.x, area.y, top_left),
            (area.right() - 1, area.y, top_right),
            (area.x, bottom, bottom_left),
            (area.right() - 1, bottom, bottom_right),
        ] {
            self.put(x, y, 1, corner, Label::Rule);
        }
        self.hits.retain(|hit| !hit.area.intersects(area));
        Rect { x: area.x + 2, y: area.y + 1, width: area.width - 4, height: area.height - 2 }
    }

    /// Gives everything already drawn in `area` another style.
    pub fn restyle(&mut self, area: Rect, label: Label) {
        self.buffer.set_style(area.intersection(self.area), self.look.theme.style(label));
    }
}
