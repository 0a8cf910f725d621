"""The gradient of rows too wide for a program to hold: ∂L/∂s by a kernel, times the columns by a plain product.

A program that held a part of a wide row would compute the logits of its pairs once for every part. Here they are
computed once: a kernel writes ∂L/∂s of a few rows against all columns, and a matrix product takes it from there. What
is written at a time has a bound, so memory stays linear in n.
"""

from typing import Any

import torch
from torch import Tensor

from sincere.losses.backends.triton_launch import PAD, Forces, Launch, Precision, Tile, padded_width
from sincere.losses.backends.triton_pairs import pair_gradient_kernel

CHUNK_BYTES = 1 << 26  # of ∂L/∂s at a time


class WideGradient:
    """Σ_j ∂L/∂s_ij · column_j of every row, for rows and columns in class order."""

    def __init__(self, size: int, others: int, dim: int, forces: Forces) -> None:
        self.size, self.others, self.dtype = size, others, forces.how.dtype
        (self.width, taken, _), tile = padded_width(dim, forces.how), pair_tile(forces.how)
        self.chunk = min(size, max(1, CHUNK_BYTES // (others * self.dtype.itemsize * PAD)) * PAD)
        constants = forces.constants(self.width, taken, tile)
        self.launches = {
            rows: Launch(
                pair_gradient_kernel,
                (rows // tile.BM, others // tile.BN, 1),
                constants,
                tile.num_warps,
                tile.num_stages,
            )
            for rows in {self.chunk, size % self.chunk} - {0}
        }

    def __call__(
        self,
        rows: Tensor,
        columns: Tensor,
        places: Any,
        counts: Any,
        row_table: Any,
        column_table: Any,
        out: Tensor,
        count_at: int,
    ) -> None:
        """Fill `out` (size, width). Rows and columns are matrices, the rest is what `gradient_kernel` takes."""
        rows, columns = rows.view(-1, self.width), columns.view(-1, self.width)
        pairs = torch.empty((self.chunk, self.others), dtype=self.dtype, device=out.device)
        for first in range(0, self.size, self.chunk):
            height = min(self.chunk, self.size - first)
            self.launches[height](
                rows, columns, places, counts, row_table, column_table, pairs,
                first, self.size, self.others, count_at,
            )  # fmt: skip
            multiply(pairs[:height], columns, out[first : first + height])


def pair_tile(how: Precision) -> Tile:
    """Of a sweep on an H200 (n = 16,384, d = 512): 1.28 ms for the gradient; 64×128 took 1.25, the others from 1.37."""
    return Tile(64, 64, 4, 2) if how.dtype == torch.float32 else Tile(128, 128, 8, 3)


def multiply(left: Tensor, right: Tensor, out: Tensor) -> None:
    """left · right in float32, whatever the precision of the factors."""
    if left.dtype == torch.float32:
        torch.mm(left, right, out=out)
    elif left.is_cuda:
        torch.mm(left, right, out_dtype=torch.float32, out=out)
    else:  # Triton's interpreter works on the CPU, which has no such product
        torch.mm(left.float(), right.float(), out=out)
