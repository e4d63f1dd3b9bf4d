//! Keys and values of all sequences, laid out as attention reads them.

use super::simd::TILE;

/// f32 keys and values by layer, slot and head. Keys of a head come in tiles of 16 positions, by dimension, by
/// position; values in tiles of 16 dimensions, by position, by dimension. Memory is taken from the system page by page
/// as positions are written. Which positions are valid is the caller's book-keeping.
pub struct KvCache {
    pub(super) kv_heads: usize,
    pub(super) head_dim: usize,
    layers: usize,
    slots: usize,
    capacity: usize,
    /// Positions per head, in whole tiles.
    pub(super) positions: usize,
    keys: Vec<f32>,
    values: Vec<f32>,
}

impl KvCache {
    /// Room for `capacity` positions in each of `slots` slots of each of `layers` layers.
    pub fn new(layers: usize, slots: usize, capacity: usize, kv_heads: usize, head_dim: usize) -> KvCache {
        let positions = capacity.div_ceil(TILE) * TILE;
        let heads = layers * slots * kv_heads;
        KvCache {
            kv_heads,
            head_dim,
            layers,
            slots,
            capacity,
            positions,
            keys: vec![0.0; heads * positions * head_dim],
            values: vec![0.0; heads * positions * head_dim.div_ceil(TILE) * TILE],
        }
    }

    /// Bytes that a cache of this shape reserves.
    pub fn bytes_of(layers: usize, slots: usize, capacity: usize, kv_heads: usize, head_dim: usize) -> u64 {
        let positions = (capacity.div_ceil(TILE) * TILE) as u64;
        let heads = layers as u64 * slots as u64 * kv_heads as u64;
        4 * heads * positions * (head_dim as u64 + (head_dim.div_ceil(TILE) * TILE) as u64)
    }

    /// Bytes reserved for keys and values.
    pub fn bytes(&self) -> u64 {
        4 * (self.keys.len() + self.values.len()) as u64
    }

    fn head(&self, layer: usize, slot: usize, head: usize) -> usize {
        assert!(
            layer < self.layers && slot < self.slots && head < self.kv_heads,
            "layer {layer}, slot {slot}, head {head} of {}, {}, {}",
            self.layers,
            self.slots,
            self.kv_heads
        );
        (layer * self.slots + slot) * self.kv_heads + head
    }

    /// The keys of a head: `[positions / 16, head_dim, 16]`.
    pub(super) fn keys(&self, layer: usize, slot: usize, head: usize) -> &[f32] {
        let each = self.positions * self.head_dim;
        &self.keys[self.head(layer, slot, head) * each..][..each]
    }

    /// The values of a head: `[head_dim / 16, positions, 16]`.
    pub(super) fn values(&self, layer: usize, slot: usize, head: usize) -> &[f32] {
        let each = self.positions * self.head_dim.div_ceil(TILE) * TILE;
        &self.values[self.head(layer, slot, head) * each..][..each]
    }

    /// Copies the first `len` positions of slot `from` to slot `to`, in every layer.
    ///
    /// # Panics
    /// When a slot or a position is outside the cache.
    pub fn copy(&mut self, from: usize, to: usize, len: usize) {
        assert!(len <= self.capacity, "{len} positions of {}", self.capacity);
        let (d, tiles) = (self.head_dim, self.head_dim.div_ceil(TILE));
        for (layer, head) in (0..self.layers).flat_map(|l| (0..self.kv_heads).map(move |h| (l, h))) {
            let (from, to) = (self.head(layer, from, head), self.head(layer, to, head));
            // Whole tiles: positions beyond `len` are not valid on either side.
            let (each, part) = (self.positions * d, len.div_ceil(TILE) * TILE * d);
            self.keys.copy_within(from * each..from * each + part, to * each);
            let row = self.positions * TILE;
            for tile in 0..tiles {
                let at = |head: usize| (head * tiles + tile) * row;
                self.values.copy_within(at(from)..at(from) + len * TILE, at(to));
            }
        }
    }

    /// Stores rows of keys and values, `[rows, kv_heads · head_dim]` each, at positions from `start`.
    ///
    /// # Panics
    /// When the layer, the slot or a position is outside the cache.
    pub fn write(&mut self, layer: usize, slot: usize, start: usize, keys: &[f32], values: &[f32]) {
        let (d, width) = (self.head_dim, self.kv_heads * self.head_dim);
        let rows = keys.len() / width;
        assert!(keys.len() == values.len() && rows * width == keys.len(), "rows of {width} keys and values");
        assert!(start + rows <= self.capacity, "positions {start}..{} of {}", start + rows, self.capacity);
        for head in 0..self.kv_heads {
            let at = self.head(layer, slot, head);
            let each = self.positions * d;
            let to = &mut self.keys[at * each..][..each];
            for (i, row) in keys.chunks_exact(width).enumerate() {
                let (tile, lane) = ((start + i) / TILE, (start + i) % TILE);
                for (column, v) in to[tile * d * TILE..][..d * TILE].chunks_exact_mut(TILE).zip(&row[head * d..]) {
                    column[lane] = *v;
                }
            }
            let each = self.positions * d.div_ceil(TILE) * TILE;
            let to = &mut self.values[at * each..][..each];
            for (i, row) in values.chunks_exact(width).enumerate() {
                for (tile, part) in row[head * d..][..d].chunks(TILE).enumerate() {
                    to[(tile * self.positions + start + i) * TILE..][..part.len()].copy_from_slice(part);
                }
            }
        }
    }
}
