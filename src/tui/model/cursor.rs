//! A selection by identity: it follows its row when rows move, and stays near when the row is gone.

/// The selected row. `key` is `None` only while there are no rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cursor<K> {
    key: Option<K>,
    index: usize,
}

impl<K> Default for Cursor<K> {
    fn default() -> Self {
        Cursor { key: None, index: 0 }
    }
}

impl<K: PartialEq> Cursor<K> {
    pub fn key(&self) -> Option<&K> {
        self.key.as_ref()
    }

    /// The selected row's place, as of the last [`Cursor::settle`].
    pub fn index(&self) -> usize {
        self.index
    }

    /// Selects `key`; the next settle finds its place.
    pub fn select(&mut self, key: K) {
        self.key = Some(key);
    }

    /// Moves the selection by `by` rows of the `rows` there are, stopping at both ends.
    pub fn step(&mut self, by: isize, rows: usize, key_at: impl FnOnce(usize) -> K) {
        let Some(last) = rows.checked_sub(1) else { return };
        self.index = self.index.saturating_add_signed(by).min(last);
        self.key = Some(key_at(self.index));
    }

    /// Finds the selection again after the rows have changed: the same key wherever it is now, else the row that
    /// took its place.
    pub fn settle(&mut self, rows: usize, find: impl FnOnce(&K) -> Option<usize>, key_at: impl FnOnce(usize) -> K) {
        let Some(last) = rows.checked_sub(1) else {
            *self = Cursor::default();
            return;
        };
        match self.key.as_ref().and_then(find) {
            Some(index) => self.index = index,
            None => {
                self.index = self.index.min(last);
                self.key = Some(key_at(self.index));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settle(cursor: &mut Cursor<u32>, rows: &[u32]) {
        cursor.settle(rows.len(), |key| rows.iter().position(|row| row == key), |i| rows[i]);
    }

    #[test]
    fn it_follows_its_row_and_stays_near_when_the_row_is_gone() {
        let mut cursor = Cursor::default();
        settle(&mut cursor, &[10, 20, 30, 40]);
        assert_eq!((cursor.key(), cursor.index()), (Some(&10), 0));
        cursor.step(2, 4, |i| [10, 20, 30, 40][i]);
        settle(&mut cursor, &[30, 10, 20]);
        assert_eq!((cursor.key(), cursor.index()), (Some(&30), 0));
        cursor.step(9, 3, |i| [30, 10, 20][i]);
        settle(&mut cursor, &[5, 6]);
        assert_eq!((cursor.key(), cursor.index()), (Some(&6), 1));
        settle(&mut cursor, &[]);
        assert_eq!(cursor, Cursor::default());
    }
}
