//! Products on the matrix units.

use super::super::timeline::Span;
use super::super::unit::Unit;
use super::super::vector::{Extent, Vector};
use super::Block;
use super::held::halves_that_wait;
use super::operands::PACK;

/// What a product does with its operands.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Product {
    /// Rows of the result, columns of the left operand, columns of the result, in elements.
    pub(crate) m: usize,
    /// The contraction.
    pub(crate) k: usize,
    /// Columns of the result.
    pub(crate) n: usize,
    /// Products of bf16 that make up one of the operands' type.
    pub(crate) passes: f64,
    /// The left operand is stored transposed.
    pub(crate) transpose_lhs: bool,
    /// The right operand is stored transposed.
    pub(crate) transpose_rhs: bool,
    /// Stores are all that reads the result.
    pub(crate) stored: bool,
}

/// Rows that a product of one column of units takes one after the other, at least, for its left operand not to be in
/// the way of a softmax. Fitted to forward passes of 512 and 1024 rows; those of delta have 256.
const STREAMED_ROWS: usize = 512;

/// Where a product stands among those of its block.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Standing {
    /// No other product could take the units that it leaves free.
    pub(crate) alone: bool,
    /// The number of its turn.
    pub(crate) turn: usize,
    /// The units take its blocks in several rounds.
    pub(crate) in_rounds: bool,
}

impl Block<'_> {
    /// A product on the matrix units.
    ///
    /// Columns of weights are pushed and the rows of the left operand streamed past them, one block of
    /// columns and contraction after the other; sums over blocks of the contraction are made by the
    /// vector unit, or by the matrix units themselves.
    pub(crate) fn product(
        &mut self,
        [lhs, rhs]: [&Vector; 2],
        p: &Product,
        standing: Standing,
    ) -> Vector {
        self.account.exact = p.passes > 1.0;
        let machine = self.machine;
        let target = machine.target;
        let dim = target.mxu_dim.value;
        let (k_tiles, n_tiles) = (p.k.div_ceil(dim), p.n.div_ceil(dim));
        let bf16 = lhs.bits == 16;
        let (rows_per_op, hold) = match bf16 {
            true => (16, target.vmatmul_bf16_cycles.value as f64),
            false => (8, target.vmatmul_f32_cycles.value as f64),
        };
        // A unit of 256 x 256 takes two groups of rows at once where half of each of its sides is free.
        let half = dim > 128 && p.k <= 128 && p.n <= 128;
        let rows_per_op = if half { 2 * rows_per_op } else { rows_per_op };
        let stream = p.m.div_ceil(rows_per_op) as f64 * hold;
        let packs = self.packs(rhs, p);
        let (push_rows, push) = match rhs.bits == 16 || packs {
            true => (16, target.matpush_bf16_cycles.value as f64),
            false => (8, target.matpush_f32_cycles.value as f64),
        };
        // Weights are pushed in squares of 128 x 128.
        let transposed = if p.transpose_rhs {
            machine.transposed_push()
        } else {
            1.0
        };
        let lane_tiles = dim / 128;
        // Two squares along the contraction share a push where the unit is twice as wide as the weights,
        // unless rows are transposed on their way.
        let wide = match p.transpose_lhs && p.n <= 128 {
            true => 1,
            false => lane_tiles,
        };
        let slow = match rhs.bits == 32 && !packs && !p.transpose_rhs {
            true => machine.unpacked_push(),
            false => 1.0,
        };
        let push = 128_usize.div_ceil(push_rows) as f64 * push * transposed * slow / wide as f64;
        let squares = p.k.div_ceil(128) as f64;
        let fetch = lhs.loads.as_ref().map(|loads| loads.borrow().fetch);
        let as_it_is = bf16 && fetch.is_some_and(|fetch| fetch.valu == 0.0);
        let streams = as_it_is && n_tiles == 1 && p.m >= STREAMED_ROWS;
        self.held = machine.held_products(streams, self.packs(rhs, p));
        let from_memory = fetch.filter(|_| !p.transpose_lhs && p.passes == 1.0);
        // A left operand that is a plain load is loaded again for other columns; one that took work
        // stays in registers. Where the units take all columns at once, there are no others.
        let parts_of_k = k_tiles as f64 * p.passes;
        let units = self.rates.slots_per_cycle[Unit::Mxu as usize];
        let columns_at_once = match machine.accumulates() {
            true => units,
            false => (units / parts_of_k).max(1.0),
        };
        let kept = from_memory.is_none_or(|fetch| fetch.valu > 0.0)
            && (n_tiles as f64 > columns_at_once || p.passes > 1.0 && (n_tiles > 1 || p.m > 128));
        // What element-wise operations made is there for all of them then, not register by register.
        let kept_whole = kept && lhs.loads.is_none() && p.passes == 1.0 && !p.transpose_lhs;
        let weight_registers = rhs.registers() as f64;
        let packed_weights = match packs && !machine.packs_as_loaded() {
            true => PACK * weight_registers,
            false => 0.0,
        };
        // The parts of exact weights do not fit the registers until their passes: they are stored and loaded.
        let reloaded =
            match p.passes > 1.0 && machine.new_units() && !p.transpose_lhs && !p.transpose_rhs {
                true => weight_registers,
                false => 0.0,
            };
        self.in_rounds = standing.in_rounds;
        if standing.turn != self.turn {
            self.turn = standing.turn;
            self.fed = [0.0, self.fed[0]];
            self.exact.next_turn();
        }
        let shares_halves = machine.shares_halves()
            && !p.transpose_rhs
            && p.m <= SHARED_ROWS
            && rhs
                .loads
                .as_ref()
                .is_some_and(|loads| loads.borrow().fetch.valu > 0.0);
        let tiles = (k_tiles * n_tiles) as f64 * p.passes;
        if machine.loads_lhs_in_time()
            && tiles >= units
            && let Some(loads) = &lhs.loads
        {
            let ready = &mut loads.borrow_mut().fetch.ready;
            *ready = ready.max(self.fed[1]);
        }
        // Half as wide, its halves along the contraction stand side by side in a unit and are summed apart.
        let narrow = lane_tiles > 1 && p.n <= 128 && p.k > 128;
        let accumulates = machine.accumulates() && !narrow && p.m <= ACCUMULATED_ROWS;
        // One unit takes all of it while others take the next products.
        let beside =
            accumulates && n_tiles == 1 && p.passes == 1.0 && tiles >= units && !standing.alone;
        let (lhs, rhs) = self.operands(lhs, rhs, p, columns_at_once as usize, beside);
        let parts = match p.passes > 1.0 {
            true => {
                let registers = [lhs.registers() as f64, weight_registers];
                self.exact_parts(registers, p, standing.alone, columns_at_once, kept)
            }
            false => Vec::new(),
        };
        let (lhs, rhs) = (&lhs, &rhs);
        let mut out = Vector::new(p.m.div_ceil(8), p.n.div_ceil(128), 32, 0.0);
        out.columns = out.columns.coarser(lane_tiles);
        out.ready = vec![0.0; out.rows.groups() * out.columns.groups()];
        // Units that have no block of weights of their own in the last round share the rows of others. Where another
        // product could take them they do so in a further round alone, or, before v6e, if there is but one block; then
        // of 128 rows to a unit at least.
        let shared = (tiles / units).ceil() * units / tiles;
        let least = match standing.alone {
            true => rows_per_op,
            false if tiles > units || tiles <= 1.0 && !machine.new_units() => 128,
            false => usize::MAX,
        };
        let copies = shared.min((p.m as f64 / least as f64).floor()).max(1.0);
        // A single column of blocks is shared by the units along the contraction if there are rows enough, and no other
        // product that the other units could take.
        let split = match n_tiles == 1 && p.m >= SPLIT_ROWS && standing.alone {
            true => units.min(parts_of_k),
            false => 1.0,
        };
        let pops = match accumulates {
            true => split,
            false if narrow => 2.0 * parts_of_k,
            false => parts_of_k,
        };
        let sums = match (accumulates, machine.accumulates()) {
            (false, false) => parts_of_k - 1.0,
            _ => pops - 1.0,
        };
        let at_once = match accumulates {
            true => copies * split,
            false => copies * parts_of_k,
        };
        // Sums over blocks of the contraction that do not fit the units at once wait for the next round.
        let rounds = (parts_of_k / units).ceil();
        // Those of the passes of a lone block are summed as they come, unless many rows fill it.
        let lone_block = machine.new_units() && k_tiles * n_tiles == 1;
        let as_they_come = lone_block && (2 * p.k <= dim || p.m <= SUMMED_ROWS);
        let waits = rounds > 1.0 && !accumulates && !as_they_come;
        // Units that have no block of the contraction left in a column, which go on to the next.
        let left = match parts_of_k < units {
            true => units % parts_of_k,
            false => 0.0,
        };
        let halves = halves_that_wait(p.k, dim, [units, left].map(|units| units as usize), rounds);
        // Before v6e a square of what is transposed comes after the other, for each of the blocks of the contraction
        // that the units take side by side: results of all but the last wait for those of the last, if other squares
        // follow. Before v6e units that have no block of the contraction left in a column go on to the next: sums of a
        // column wait for the others (probes of two columns have no more registers than of one).
        let uneven = !machine.new_units() && p.passes == 1.0 && n_tiles > 2 && left > 0.0;
        let squares_wait =
            p.transpose_lhs && bf16 && !machine.new_units() && p.m > SQUARE && p.k > dim;
        let before = (self.results.iter()).rfind(|(turn, _)| turn + AHEAD <= self.turn);
        let room = before.map_or(0.0, |(_, entries)| self.account.dead(entries));
        let pace = match 2 * p.m > ACCUMULATED_ROWS {
            true => 1.0 - LOST_BESIDE,
            false => 1.0,
        };
        let in_time =
            (beside && lhs.loads.is_some()).then_some(self.fed[1] + self.rates.load_latency);
        // Everything of the left operand was loaded, or will be in time, so the same rows are there for all columns.
        let streams: Vec<Rows> = (0..out.rows.groups())
            .map(|r| {
                let first = r * out.rows.step;
                let scale = |row: usize| row * lhs.rows.registers / out.rows.registers;
                let from = scale(first);
                let rows = [from, scale(first + out.rows.size(r)).max(from + 1)];
                let mut there =
                    |columns: usize| in_time.unwrap_or_else(|| self.ready(lhs, rows, [0, columns]));
                Rows {
                    rows,
                    there: there(1),
                    whole: there(lhs.columns.registers),
                }
            })
            .collect();
        // 128 x 128 squares of weights in a unit.
        let square = |n: usize| n.div_ceil(128).min(lane_tiles);
        let filled = square(p.k) * square(p.n);
        let own = (tiles * copies < units).then(|| {
            // Squares that share a push do so along the contraction, or along the columns if they are transposed; those
            // of f32 do not.
            let paired = if p.transpose_rhs { p.n } else { p.k };
            let packed = rhs.bits == 16 || p.transpose_rhs;
            let alone = if paired > 128 && packed { 1 } else { wide };
            let pushes = (filled * alone) as f64 * push;
            (self.units).take((tiles * copies) as usize, pushes, stream / copies)
        });
        let free = own.as_ref().map_or(0.0, |own| self.units.free_at(own));
        let first_block = match p.transpose_rhs {
            true => filled,
            false => lane_tiles * lane_tiles,
        };
        let mut done = 0.0_f64;
        let mut results = [f64::INFINITY, 0.0_f64];
        let column_groups = out.columns.groups();
        for c in 0..column_groups {
            let first = c * out.columns.step;
            let size = out.columns.size(c);
            let weights = match p.transpose_rhs {
                false => self.ready(rhs, [0, 1], [first, first + size]),
                true => {
                    let per = 8 * 32 / rhs.bits as usize;
                    let (a, b) = (first * 128 / per, (first + size) * 128 / per);
                    self.ready(rhs, [a, b], [0, 1])
                }
            };
            let part_of_n = size as f64 / out.columns.registers as f64;
            let weights = (self.timeline)
                .take(Unit::Valu, weights, packed_weights * part_of_n)
                .start;
            let stored =
                (self.timeline).take(Unit::Store, weights, EXACT_PARTS * reloaded * part_of_n);
            let weights = (self.timeline)
                .take(Unit::Load, stored.start, p.passes * reloaded * part_of_n)
                .start;
            let blocks = (size.div_ceil(lane_tiles) * k_tiles) as f64 * p.passes;
            let pushes = squares * size as f64 * p.passes * copies * push;
            let pushed = match beside {
                true => self.timeline.take_of_one(Unit::Push, weights, pushes, 1.0),
                false => self.timeline.take(Unit::Push, weights, pushes),
            };
            if shares_halves {
                self.halves(size, halves, pushed);
            }
            // Results wait in registers, so products do not run far ahead of what reads them.
            let start = (pushed.start + push * first_block as f64)
                .max(room)
                .max(free);
            if let Some(fetch) = from_memory.filter(|_| !kept && c > 0 && !machine.accumulates()) {
                let again = lhs.registers() as f64 * fetch.loads * size.div_ceil(lane_tiles) as f64;
                self.timeline.take(Unit::Load, fetch.ready, again);
            }
            let used = units.min(at_once * size.div_ceil(lane_tiles) as f64);
            let mut spans: Vec<Span> = Vec::with_capacity(streams.len());
            let mut held: Vec<Span> = Vec::with_capacity(streams.len());
            // No row passes the last block of weights before that is there.
            let mut passed = match p.passes > 1.0 {
                true => 0.0,
                false => pushed.end.max(free),
            };
            let mut next = start;
            for (r, &Rows { there, whole, .. }) in streams.iter().enumerate() {
                let part = out.rows.size(r) as f64 / out.rows.registers as f64;
                let rows_streamed = blocks * stream * part;
                let mut span = match beside {
                    true => {
                        (self.timeline).take_of_one(Unit::Mxu, next.max(there), rows_streamed, pace)
                    }
                    false => (self.timeline).take(Unit::Mxu, start.max(there), rows_streamed),
                };
                next = span.end;
                self.fed[0] = self.fed[0].max(span.end);
                passed += stream * part / copies;
                span.end = (span.start + rows_streamed / used).max(span.end).max(whole);
                // Rows that wait for weights do so where they come from.
                held.push(span);
                done = done.max(span.end);
                span.end = span.end.max(passed);
                spans.push(span);
            }
            if beside {
                self.load_in_time(lhs, &held);
            }
            if accumulates {
                summed_last(&mut spans, out.rows, split / parts_of_k);
            }
            let mut began = f64::INFINITY;
            let mut ended = 0.0_f64;
            for (r, (&Rows { rows, .. }, &span)) in streams.iter().zip(&spans).enumerate() {
                let index = r * column_groups + c;
                let height = out.rows.size(r);
                let arrives = span.end + machine.matmul_latency;
                let n = (height * size) as f64;
                let pop_rate = self.rates.slots_per_cycle[Unit::Pop as usize];
                // Results of all blocks of the contraction but the last come while rows pass those after them.
                let last = match accumulates {
                    true => n * pops,
                    false => n * pops / parts_of_k,
                };
                let first_pop = span.start + machine.matmul_latency;
                let early = n * pops - last;
                let begun = self.timeline.take(Unit::Pop, first_pop, early).start;
                let last_pop = (arrives - last / pop_rate).max(first_pop);
                let popped = self.timeline.take(Unit::Pop, last_pop, last);
                let mut ready = popped.end.max(arrives) + 1.0;
                if sums > 0.0 {
                    // All but the last sum are made as results arrive.
                    let valu_rate = self.rates.slots_per_cycle[Unit::Valu as usize];
                    let first_sum = ready - n * (sums - 1.0).max(0.0) / valu_rate;
                    let first_sum = first_sum.max(match early > 0.0 {
                        true => begun,
                        false => popped.start,
                    });
                    let summed = self.timeline.take(Unit::Valu, first_sum, n * sums);
                    ready = summed.end.max(ready) + self.rates.valu_latency;
                }
                out.ready[index] = ready;
                began = began.min(span.start);
                ended = ended.max(ready);
                if kept || c == 0 {
                    if kept_whole && c > 0 {
                        self.spread(lhs, rows, [0, lhs.columns.registers]);
                    }
                    self.streamed(lhs, rows, held[r]);
                    self.pass_parts(&parts, span.start, span.end);
                }
            }
            let summed = [began + machine.matmul_latency, ended];
            results = [results[0].min(summed[0]), results[1].max(ended)];
            if waits {
                self.wait_for_rounds(&out, size.min(lane_tiles), rounds, summed);
            }
            if p.transpose_rhs && n_tiles > 1 && bf16 && c == 0 && (3..=4).contains(&k_tiles) {
                self.account.held(machine.popped_weights(), summed);
            }
            if squares_wait && c == 0 && (!waits || n_tiles == 1) {
                let others = parts_of_k.min(units) - 1.0;
                // Those that are kept for other columns are there in any case.
                let popped = match n_tiles {
                    1 => machine.popped_squares(),
                    _ => 0.0,
                };
                let results = (SQUARE / 8) as f64 * others;
                self.account.held(results + popped, summed);
            }
        }
        if uneven {
            self.account
                .held(out.rows.registers as f64 + UNEVEN, results);
        }
        if let Some(own) = own {
            self.units.held(&own, done);
        }
        if p.passes > 1.0 && !standing.alone && k_tiles * n_tiles == 1 {
            self.pass_beside(parts, &out, p.stored, results);
        }
        self.account.exact = false;
        self.hold_from_use(&mut out, 1.0);
        // Units that have a block of the contraction left go on to the next column, which is the last of two then.
        out.by_column = columns_at_once < 2.0 && (parts_of_k >= units || n_tiles > 2);
        if machine.new_units() && p.passes == 1.0 && p.m <= POPPED_ROWS {
            self.popped = self.popped.max(out.registers() as f64);
        }
        self.results.push((self.turn, out.entries.clone()));
        out.of_product.last = self.results.len();
        out
    }

    /// Loads a left operand that is in memory while its rows enter the matrix units during `spans`: each of its columns
    /// a column ahead.
    fn load_in_time(&mut self, lhs: &Vector, spans: &[Span]) {
        let (Some(loads), Some(first), Some(last)) = (&lhs.loads, spans.first(), spans.last())
        else {
            return;
        };
        let each = (last.end - first.start) / lhs.columns.groups() as f64;
        let mut ready = self.fed[1];
        for column in 0..lhs.columns.groups() {
            let from = column * lhs.columns.step;
            loads.borrow_mut().fetch.ready = ready;
            self.ready(
                lhs,
                [0, lhs.rows.registers],
                [from, from + lhs.columns.size(column)],
            );
            ready = first.start + column as f64 * each;
        }
    }
}

/// Weights stay in a unit while all `rows` pass, one block of the contraction after the other. So sums that the unit
/// makes itself are done while the last block is there, which is its `share` of the time.
fn summed_last(spans: &mut [Span], rows: Extent, share: f64) {
    let (Some(first), Some(last)) = (spans.first(), spans.last()) else {
        return;
    };
    let end = last.end;
    let of_a_row = share * (end - first.start) / rows.registers as f64;
    let mut left = rows.registers;
    for (r, span) in spans.iter_mut().enumerate() {
        left -= rows.size(r);
        span.end = span.end.max(end - left as f64 * of_a_row);
    }
}

/// Turns of products that run ahead of what reads the first of their results: each unit holds its own.
const AHEAD: usize = 4;

/// Of so many rows, sums over blocks of the contraction fit the accumulating units; of more, they are popped and added.
const ACCUMULATED_ROWS: usize = 1024;

/// Rows of a lone block, at most, whose passes are summed as they come (probes on v6e).
const SUMMED_ROWS: usize = 512;

/// Results that wait beside sums of a column, where units go on to the next one (listings of probes on v5).
const UNEVEN: f64 = 16.0;

/// Rows of a product, at most, whose results are popped ahead of the vector unit (`fit.csv`).
const POPPED_ROWS: usize = 512;

/// Share of their rate that products lose while the vector unit is full, of so many rows that those of the next
/// turn have no accumulators of their own: results come in the last pass of all rows alone, and to work them off
/// goes before what the next rows need. In listings of eight forward passes of v7x, both types, H from 512 to 4096,
/// it is 0.17 to 0.48 from the first result of a turn to the last exponential made of it. A fifth to a quarter is
/// nearest to their cycles; to `fit.csv` they are alike, and 0 a little worse.
const LOST_BESIDE: f64 = 0.2;

/// Rows of a product between two columns of weights, at most, for which a register that has both is not loaded again:
/// probes of 256 rows share it, those of 512 do not.
const SHARED_ROWS: usize = 256;

/// Rows and columns of what is transposed at once.
const SQUARE: usize = 128;

/// Rows from which the accumulating units share a single column of blocks.
const SPLIT_ROWS: usize = 128;

/// Parts of an f32 register in an exact product.
const EXACT_PARTS: f64 = 3.0;

/// Rows of registers of the left operand that enter the matrix units together.
struct Rows {
    /// First, and behind the last.
    rows: [usize; 2],
    /// When their first columns are there, and all of them.
    there: f64,
    whole: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_done_while_the_last_block_of_the_contraction_is_there() {
        let mut spans = [0.0, 8.0, 16.0, 24.0].map(|start| Span {
            start,
            end: start + 8.0,
        });
        summed_last(&mut spans, Extent::new(4), 0.25);
        assert_eq!(spans.map(|span| span.end), [26.0, 28.0, 30.0, 32.0]);
        assert_eq!(spans.map(|span| span.start), [0.0, 8.0, 16.0, 24.0]);
    }
}
