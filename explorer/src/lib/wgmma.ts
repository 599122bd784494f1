/** Where the accumulators of a tile lie in the registers of Hopper's warpgroups: the fragment of wgmma's D, 64 rows to
 *  a warpgroup. Each of its warps has 16 rows, as mma.m16n8 has them; `golden.json` holds this file to that. */

export interface Tile {
  M: number;
  N: number;
  accumulators: number;
  warpgroups: number;
}

export interface TileElement {
  accumulator: number;
  m: number;
  n: number;
}

/** Thread 0-127 of a warpgroup, and one of its registers. */
export interface TileRegister {
  warpgroup: number;
  thread: number;
  register: number;
}

const BLOCK_ROWS = 64;

/** Returns the blocks of 64 rows that each warpgroup has. */
function blocksEach({ M, accumulators, warpgroups }: Tile): number {
  return (accumulators * M) / BLOCK_ROWS / warpgroups;
}

export function elementOf(tile: Tile, { warpgroup, thread, register }: TileRegister): TileElement {
  const perBlock = tile.N / 2;
  const block = warpgroup * blocksEach(tile) + Math.floor(register / perBlock);
  const inAccumulator = tile.M / BLOCK_ROWS;
  const r = register % perBlock;
  const lane = thread % 32;
  return {
    accumulator: Math.floor(block / inAccumulator),
    m: BLOCK_ROWS * (block % inAccumulator) + 16 * Math.floor(thread / 32) + (lane >> 2) + 8 * ((r >> 1) & 1),
    n: 8 * (r >> 2) + 2 * (lane & 3) + (r & 1),
  };
}

export function registerOf(tile: Tile, { accumulator, m, n }: TileElement): TileRegister {
  const block = accumulator * (tile.M / BLOCK_ROWS) + Math.floor(m / BLOCK_ROWS);
  const each = blocksEach(tile);
  const row = m % 16;
  return {
    warpgroup: Math.floor(block / each),
    thread: 32 * Math.floor((m % BLOCK_ROWS) / 16) + 4 * (row % 8) + ((n % 8) >> 1),
    register: (block % each) * (tile.N / 2) + 4 * Math.floor(n / 8) + 2 * Math.floor(row / 8) + (n & 1),
  };
}
