"""Where a cell of D came from: the row of A, the column of B and all else that went into a `tcgen05.mma`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from drywell.isa.tcgen05_flow import cell_at, ctas_of
from drywell.isa.tcgen05_matmul import stored_of
from drywell.layout.accumulator import a_cols
from drywell.layout.operand import CHUNK_BYTES
from drywell.layout.scale import metadata_cells, scale_cells
from drywell.layout.tmem import PARTITION_LANES, decode
from drywell.machine.flow import Flow, Part, merged

if TYPE_CHECKING:
    from drywell.isa.tcgen05_factors import Factors
    from drywell.isa.tcgen05_matmul import Matmul
    from drywell.isa.tcgen05_tile import Tile
    from drywell.machine.warp import Warp


def product_flow(m: Warp, planned: Matmul) -> Flow:
    """Return the flow of a tcgen05.mma: from a cell of D to the row of A, the column of B, the old D, the
    scale factors and the metadata that went into it.
    """
    ctas = ctas_of(m, planned.form.cta_group)

    def flow(part: Part) -> tuple[Part, ...] | None:
        rank = next((r for r, cta in enumerate(ctas) if cta.linear == part.home), None)
        if part.space != "tmem" or rank is None:
            return None
        found = _element(planned, *decode(part.address))
        if found is None:
            return None
        row, col, split = found
        name = f"(row {rank * planned.layout.num_rows + row}, column {col} of D)"
        old = [Part("tmem", part.home, part.address, 1, part.mask, f"D {name}")] if planned.reads_d else []
        return (
            *_a_parts(planned, ctas[rank], rank, row, split),
            *_b_parts(planned, ctas, col),
            *_scale_parts(planned, part.home, row, col, split),
            *_metadata_parts(planned, part.home, row, split),
            *old,
        )

    return flow


def _element(planned: Matmul, lane: int, col: int) -> tuple[int, int, int] | None:
    """Return (row of the CTA's part, column of D, part of the columns) of a cell; None outside D."""
    layout, (first, first_col) = planned.layout, decode(planned.operands.d)
    width = layout.num_cols(planned.desc.N)
    if not first_col <= col < first_col + width:
        return None
    for split in range(layout.num_splits):
        for row, slab, length in layout.slabs:
            at = lane - first - slab - split * layout.split_lanes
            if 0 <= at < length:
                return row + at, split * width + col - first_col, split
    return None


def _a_parts(planned: Matmul, cta: Any, rank: int, row: int, split: int) -> tuple[Part, ...]:
    """Return a row of A, in shared memory or in TMEM."""
    role = f"row {rank * planned.layout.num_rows + row} of A"
    a = planned.operands.a
    if not isinstance(a, int):
        return _tile_parts(a, cta, row, role)
    if planned.is_shifted:
        row = int(planned.shifted_rows(cta.warps[0])[row])
    stored = stored_of(planned.desc, str(planned.desc.a_format))
    lane, col = decode(a)
    first = next(
        lane + slab + row - start + split * planned.layout.split_lanes
        for start, slab, length in planned.layout.slabs
        if start <= row < start + length
    )
    count = a_cols(planned.num_stored, stored.container_bits)
    return tuple(cell_at(cta.linear, first, col + k, role=role) for k in range(count))


def _b_parts(planned: Matmul, ctas: tuple[Any, ...], col: int) -> tuple[Part, ...]:
    """Return a column of B, in the shared memory of the CTA that holds it; nothing for a zero column."""
    columns, held = planned.operands.columns, planned.operands.b.num_rows
    at = col
    if columns is not None:
        if columns.is_zero[col]:
            return ()
        at = col + columns.shift
    return _tile_parts(planned.operands.b, ctas[at // held], at % held, f"column {col} of B")


def _tile_parts(tile: Tile, cta: Any, row: int, role: str) -> tuple[Part, ...]:
    """Return where a row of an operand lies in shared memory."""
    size = tile.stored.unit_bytes
    if not tile.is_mn_major:
        data = tile.stored.chunk_data_bytes
        places = [16 * int(k) for k in tile.chunks[row]]
        return merged([Part("shared", cta.linear, at, data, role=role) for at in places])
    chunk, within = divmod(row, CHUNK_BYTES // size)
    places = [16 * int(k) + within * size for k in tile.chunks[chunk]]
    return tuple(Part("shared", cta.linear, at, size, role=role) for at in places)


def _scale_parts(planned: Matmul, home: int, row: int, col: int, split: int) -> list[Part]:
    """Return the scale factors of a row of A and a column of B, in the partition that D's row is in."""
    sfa, sfb = planned.operands.sfa, planned.operands.sfb
    if sfa is None or sfb is None:
        return []
    first = split * planned.layout.split_lanes // PARTITION_LANES
    partition = first + row // PARTITION_LANES
    scales = (
        (sfa, row, f"scale factors of row {row} of A"),
        (sfb, col, f"scale factors of column {col} of B"),
    )
    return [cell for sf, at, role in scales for cell in _factor_cells(sf, home, partition, at, role)]


def _factor_cells(factors: Factors, home: int, partition: int, row: int, role: str) -> list[Part]:
    where = scale_cells(factors.num_rows, factors.num_blocks, factors.scale_id)
    lane, col = decode(factors.taddr)
    masks: dict[tuple[int, int], int] = {}
    for block in range(factors.num_blocks):
        at = lane + int(where.lane[partition, row, block]), col + int(where.col[row, block])
        masks[at] = masks.get(at, 0) | 255 << 8 * int(where.byte[row, block])
    return [cell_at(home, at[0], at[1], mask, role) for at, mask in masks.items()]


def _metadata_parts(planned: Matmul, home: int, row: int, split: int) -> list[Part]:
    """Return the cells that say which elements of K a row of A has."""
    if planned.operands.sp_meta is None:
        return []
    where = metadata_cells(planned.layout.name, planned.desc.kind, planned.desc.sparsity_selector)
    lane, col = decode(planned.operands.sp_meta)
    lanes = lane + where.cells.lane[split, row]
    cols = col + where.cells.col[split, row]
    role = f"sparsity metadata of row {row} of A"
    masks: dict[tuple[int, int], int] = {}
    for first, second, nibble in zip(lanes.tolist(), cols.tolist(), where.nibble[row].tolist(), strict=True):
        masks[first, second] = masks.get((first, second), 0) | 15 << 4 * nibble
    return [cell_at(home, at[0], at[1], mask, role) for at, mask in masks.items()]
