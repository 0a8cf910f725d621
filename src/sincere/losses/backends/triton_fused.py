"""The launches of a fused loss: rows into class order; statistics and loss; gradient, back to the caller's rows.

For embeddings of up to 256 dimensions that is three launches a step, with one array of working memory.
"""

from functools import lru_cache
from typing import Any

import torch
import triton
from torch import Tensor

from sincere.losses.backends import triton_launch as launch
from sincere.losses.backends import triton_order, triton_rows
from sincere.losses.backends.fused import Plan
from sincere.losses.backends.triton_launch import LN2, PRECISIONS, FusedLoss, Launch, Precision
from sincere.losses.backends.triton_wide import WideGradient
from sincere.losses.relation import exchanged
from sincere.losses.tf32 import allows_tf32

# A row's place in class order: up to here by counting, n² comparisons in one launch; up to there by sorting chunks and
# searching in every chunk, two launches; beyond by torch.sort, whose dozen launches no longer matter.
COUNTING, CHUNKS = 2048, 32768
NAMES = {torch.bfloat16: "bfloat16", torch.float16: "float16", torch.float32: "float32"}
MOST_PROGRAMS = 256
PLACES, NUMBERS, COEFFICIENTS, FACTOR = 5, 10, 7, 9  # triton_rows.py says what they are


class Program:
    """Everything about a fused loss that does not change while shapes, types and options stay the same."""

    def __init__(
        self, plan: Plan, n: int, dim: int, dtype: torch.dtype, learned: bool, how: Precision | None = None
    ) -> None:
        self.plan, self.n, self.dim, self.dtype = plan, n, dim, dtype
        how = self.how = how or precision_of(plan, dtype)
        self.size, self.width = padded_shape(n, dim, how)
        combination = plan.combination
        *coefficients, margin, needs_negatives = combination.numbers()
        self.margin = margin / LN2
        loss = FusedLoss((*coefficients, bool(needs_negatives)), plan.reduction, plan.weighted, plan.cosine, learned)
        self.ends = piece_ends(self.size, self.width, how)
        self.way = "counting" if n <= COUNTING else "chunks" if n <= CHUNKS else "sorting"
        self.arrange = self._arrange(learned)
        self.sort_chunks = self._sort_chunks()
        self.statistics = launch.statistics_launch(self.size, dim, plan.bounded, combination.wanted, how, loss)
        pulls = bool(combination.mean_softplus)
        pushes = any((combination.lse_all, combination.lse_pos, combination.mean_pos))
        # Where a program's gradient holds whole rows, it takes them back to the caller's itself.
        self.in_one = self.width == launch.padded_width(dim, how)[2]
        size, forces = self.size, launch.Forces(plan.bounded, "both", how, pushes, pulls)
        self.gradient: Launch | WideGradient = (
            launch.gradient_launch(size, dim, forces, loss) if self.in_one else WideGradient(size, size, dim, forces)
        )
        self.give_back = self._give_back(learned)

    def _arrange(self, learned: bool) -> Launch:
        plan, (wide, block) = self.plan, row_block(self.width)
        constants = {"D": self.width, "WIDE": wide, "BR": block}
        kernel = triton_order.sorted_kernel
        if self.way == "counting":
            constants |= {"BK": 256}
            kernel = triton_order.place_kernel
        elif self.way == "chunks":
            constants |= {"CHUNK": launch.PAD, "BC": 64}
            kernel = triton_order.merge_kernel
        constants |= {"KEEP_IGNORED": plan.keep_ignored, "COSINE": plan.cosine, "LEARNED": learned}
        constants |= {"TF32": self.how.input_precision == "tf32", "INTERPRETED": launch.interpreted()}
        return Launch(kernel, (self.size // block, 1, 1), constants)

    def _sort_chunks(self) -> Launch:
        constants = {"CHUNK": launch.PAD, "KEEP_IGNORED": self.plan.keep_ignored}
        return Launch(triton_order.chunk_kernel, (self.size // launch.PAD, 1, 1), constants)

    def _give_back(self, learned: bool) -> Launch:
        wide, block = row_block(self.width)
        constants = {"D": self.width, "WIDE": wide, "BR": block, "COSINE": self.plan.cosine, "LEARNED": learned}
        constants |= {"INTERPRETED": launch.interpreted()}
        return Launch(triton_rows.return_kernel, (self.size // block, 1, 1), constants)

    def pieces(self, workspace: Tensor, as_addresses: bool) -> tuple[Any, Any, Any]:
        """Rows in class order, their places, the numbers per anchor: as tensors, or as addresses once that will do."""
        first, second, _ = self.ends
        if as_addresses:
            start = workspace.data_ptr()
            return start, start + first, start + second
        return (
            workspace[:first].view(self.how.dtype),
            workspace[first:second].view(torch.int32),
            workspace[second:].view(torch.float32),
        )

    def forward(
        self, rows: Tensor, temperature: Tensor | float, labels: Tensor, weights: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """The loss, or one value per anchor; and what the backward pass needs."""
        plan, n, size = self.plan, self.n, self.size
        result, workspace = results = empty_results(plan, n, self.dim, self.dtype, rows.device)
        ordered, places, numbers = self.pieces(workspace, self.statistics.compiled is not None)
        if self.way == "counting":
            self.arrange(
                rows, rows.stride(0), labels, plan.views, plan.ignore_label, temperature,
                ordered, numbers, places, size, n, self.dim,
            )  # fmt: skip
        elif self.way == "chunks":
            keys, order = self._sorted_chunks(labels, workspace)
            self.arrange(
                rows, rows.stride(0), keys, order, temperature,
                ordered, numbers, places, size, n, size // launch.PAD, self.dim,
            )  # fmt: skip
        else:
            keys, order = sorted_keys(labels, plan)
            self.arrange(
                rows, rows.stride(0), keys, order, temperature,
                ordered, numbers, places, size, n, n.bit_length() + 1, self.dim,
            )  # fmt: skip
        self.statistics(
            ordered, ordered, places, places, numbers, labels, labels if weights is None else weights, result,
            labels, size, 4 * size, self.margin, plan.views, plan.ignore_label, n,
        )  # fmt: skip
        return results

    def _sorted_chunks(self, labels: Tensor, workspace: Tensor) -> tuple[Any, Any]:
        """Labels and rows, every chunk in order; they lie where the statistics will put their numbers later."""
        first = self.ends[1]
        second = first + 8 * self.size
        keys: Any
        order: Any
        if self.sort_chunks.compiled is not None:
            keys, order = workspace.data_ptr() + first, workspace.data_ptr() + second
        else:
            keys = workspace[first:second].view(torch.int64)
            order = workspace[second : second + 4 * self.size].view(torch.int32)
        self.sort_chunks(labels, keys, order, self.plan.views, self.plan.ignore_label, self.n)
        return keys, order

    def backward(
        self, grad: Tensor, rows: Tensor, temperature: Tensor | float, workspace: Tensor
    ) -> tuple[Tensor, Tensor | None]:
        """∂L/∂embeddings and, where it is a tensor, ∂L/∂temperature."""
        n, size = self.n, self.size
        as_addresses = isinstance(self.gradient, Launch) and self.gradient.compiled is not None
        ordered, places, numbers = self.pieces(workspace, as_addresses)
        table, factor = numbers, numbers + 4 * FACTOR * size if as_addresses else numbers[FACTOR * size :]
        if self.plan.reduction == "none":
            table, factor, grad = self._with_own_gradients(workspace, grad.reshape(-1))
        result = torch.empty((n, self.dim), dtype=rows.dtype, device=rows.device)
        radial = result if isinstance(temperature, float) else torch.empty(n, dtype=torch.float32, device=rows.device)
        if isinstance(self.gradient, Launch):
            self.gradient(
                ordered, ordered, places, places, table, table, result, rows, factor, grad, radial, numbers,
                size, size, 4 * size, temperature, rows.stride(0), n, self.dim,
            )  # fmt: skip
        else:
            out = torch.empty((size, self.width), dtype=torch.float32, device=rows.device)
            self.gradient(ordered, ordered, places, places, table, table, out, 4 * size)
            self.give_back(
                out, rows, rows.stride(0), places, numbers, factor, grad, temperature, result, radial, size, n, self.dim
            )
        if isinstance(temperature, float):
            return result, None
        # Σ_i z_i·∂L/∂z_i counts every pair from both of its ends, and s = sim/τ.
        return result, (radial.sum() / (-2 * temperature)).to(temperature.dtype)

    def _with_own_gradients(self, workspace: Tensor, grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The coefficients where every anchor has a gradient of its own, relative to the largest; that, and one."""
        first, second, _ = self.ends
        order = workspace[first:second].view(torch.int32)[: self.n].long()
        table = workspace[second:].view(torch.float32).view(NUMBERS, self.size)[:COEFFICIENTS].clone()
        largest = grad.abs().amax().float()
        largest = torch.where(largest > 0, largest, 1)
        table[::2, : self.n] *= (grad.float() / largest)[order]
        return table, largest.reshape(1), torch.ones_like(largest)


def forward(
    rows: Tensor, temperature: Tensor | float, labels: Tensor, weights: Tensor | None, plan: Plan
) -> tuple[Program, tuple[Tensor, Tensor]]:
    """The loss (or one value per anchor), and what the backward pass needs."""
    # Everything for which Triton compiles different code.
    key = (
        rows.shape, rows.dtype, rows.device, rows.stride(0), rows.data_ptr() % 16, labels.dtype, labels.data_ptr() % 16,
        allows_tf32(),
        None if isinstance(temperature, float) else temperature.dtype,
        None if weights is None else (weights.dtype, weights.data_ptr() % 16),
    )  # fmt: skip
    program = plan.programs.get(key)
    if program is None:
        n, dim = rows.shape
        program = Program(plan, n, dim, rows.dtype, learned=isinstance(temperature, Tensor))
        remember(plan, key, program)
    with launch.on_device_of(rows):
        return program, program.forward(rows, temperature, labels, weights)


def remember(plan: Plan, key: tuple[object, ...], program: Program) -> None:
    """Batches that are never alike must not fill the memory."""
    if len(plan.programs) >= MOST_PROGRAMS:
        plan.programs.clear()
    plan.programs[key] = program


def backward_program(rows: Tensor, temperature: Tensor | float, plan: Plan, workspace: Tensor) -> Program:
    """The program for a backward pass that was not handed the one of its forward pass."""
    n, dim = rows.shape
    how = precision_that_filled(workspace, plan, n, dim, rows.dtype)
    key = (
        "backward", rows.shape, rows.dtype, rows.device, rows.stride(0), rows.data_ptr() % 16,
        how, None if isinstance(temperature, float) else temperature.dtype,
    )  # fmt: skip
    if key not in plan.programs:
        learned = isinstance(temperature, Tensor)
        remember(plan, key, Program(plan, n, dim, rows.dtype, learned, how))
    program: Program = plan.programs[key]
    return program


def precision_of(plan: Plan, dtype: torch.dtype) -> Precision:
    """Float16 stands in for TF32 where nothing can leave its range: unit rows, and anchors that weigh alike."""
    return Precision.named(NAMES[dtype], plan.cosine and not plan.weighted)


def precision_that_filled(workspace: Tensor, plan: Plan, n: int, dim: int, dtype: torch.dtype) -> Precision:
    """The forward pass's: torch's setting may be another by now, and rows in half as many bytes would be misread."""
    choices = (precision_of(plan, dtype), PRECISIONS["float16"], PRECISIONS["float32"])
    return next(how for how in choices if piece_ends(*padded_shape(n, dim, how), how)[2] == workspace.numel())


def padded_shape(n: int, dim: int, how: Precision) -> tuple[int, int]:
    """Rows and columns of the matrix that holds n rows in class order."""
    return max(1, -(-n // launch.PAD)) * launch.PAD, launch.padded_width(dim, how)[0]


def piece_ends(size: int, width: int, how: Precision) -> tuple[int, int, int]:
    """Where in the workspace, in bytes, the rows end, the places, and the numbers."""
    rows = size * width * how.dtype.itemsize
    return rows, rows + PLACES * size * 4, rows + (PLACES + NUMBERS) * size * 4


def empty_results(plan: Plan, n: int, dim: int, dtype: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor]:
    """Room for the result, and for what is worked with."""
    how = precision_of(plan, dtype)
    _, _, bytes_needed = piece_ends(*padded_shape(n, dim, how), how)
    return (
        torch.empty(n if plan.reduction == "none" else (), dtype=torch.float32, device=device),
        torch.empty(bytes_needed, dtype=torch.uint8, device=device),
    )


def sorted_keys(labels: Tensor, plan: Plan) -> tuple[Tensor, Tensor]:
    """Labels in order, one per row, and the rows they come from; unlabelled rows last unless they are negatives."""
    keys = labels.long() if plan.views == 1 else labels.long().repeat_interleave(plan.views)
    if not plan.keep_ignored:
        keys = exchanged(keys, plan.ignore_label)
    ordered = keys.sort(stable=True)
    return ordered.values, ordered.indices


@lru_cache
def row_block(width: int) -> tuple[int, int]:
    """A power of two that holds a row, and how many rows a program takes: some thousand numbers."""
    wide = triton.next_power_of_2(width)
    return wide, max(1, min(16, 2048 // wide))
