//! Sums start at 0, and most of what is added first replaces that: scratch that a kernel makes 0 is not written until
//! it is read, and a product that is added to it overwrites it.

use tilecast_core::spec::Buffer;
use tilecast_core::view::{BufferId, Tile};

use crate::buffers::Part;
use crate::tiles::{CpuTiles, Slot};

impl CpuTiles<'_, '_> {
    /// Makes a tile 0 if it is the whole of a scratch tile, and says whether it is.
    pub(crate) fn clear(&self, tile: &Tile<i64>) -> bool {
        let whole = self.scratch_shape(tile.buffer);
        let is_whole = whole == Some([tile.rows.len, tile.columns.len]);
        if is_whole && let Slot::Local(local) = &mut *self.slot(tile.buffer) {
            local.is_zero = true;
        }
        is_whole
    }

    /// Makes sure that a product can be written to a part of a tile. Says whether what it would be added to is 0, and
    /// need not be read, nor be written before.
    pub(crate) fn settle_for_product(&self, buffer: BufferId, part: &Part) -> bool {
        let shape = self.scratch_shape(buffer);
        match &mut *self.slot(buffer) {
            Slot::Local(local) if shape.is_some_and(|[_, columns]| columns == part.columns) => {
                local.settle_around(part.row..part.row + part.rows)
            }
            _ => false,
        }
    }

    /// Rows and columns of a scratch tile.
    fn scratch_shape(&self, buffer: BufferId) -> Option<[usize; 2]> {
        match &self.spec.buffers()[buffer.index()].buffer {
            Buffer::Scratch { shape, .. } => shape[..].try_into().ok(),
            _ => None,
        }
    }
}
