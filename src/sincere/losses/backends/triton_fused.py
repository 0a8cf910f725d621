"""The launches of a fused loss: rows into class order, statistics, loss; gradient, and back to the caller's rows."""

from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache

import torch
import triton
from torch import Tensor

from sincere.losses.backends import triton_backend as backend
from sincere.losses.backends import triton_rows as kernels
from sincere.losses.backends.fused import Plan
from sincere.losses.backends.triton_backend import LN2, Launch, Precision

# Up to here a row's place is found by counting, n² comparisons in one launch; beyond, by sorting.
COUNTING = 8192
LAST = torch.iinfo(torch.int64).max
ANCHOR_BLOCK = 128  # anchors of one program; divides every padded size
NAMES = {torch.bfloat16: "bfloat16", torch.float16: "float16", torch.float32: "float32"}
# Numbers per anchor, one below the other in one array: seven coefficients of the gradient, five sums over pairs, the
# inverse norm, the anchor's loss, the programs' shares of the total, and the total itself.
SUMS, INVERSE, VALUES, SHARES, TOTAL, NUMBERS = 7, 12, 13, 14, 15, 16
Results = tuple[Tensor, Tensor, Tensor, Tensor]


class Program:
    """Everything about a fused loss that does not change while shapes, types and options stay the same."""

    def __init__(self, plan: Plan, n: int, dim: int, dtype: torch.dtype, learned: bool, weighted: bool) -> None:
        self.plan, self.n, self.dim, self.dtype = plan, n, dim, dtype
        how = Precision.named(NAMES[dtype], plan.cosine)
        self.size, self.width = padded_shape(n, dim, how)
        self.counts = n <= COUNTING
        combination = plan.combination
        pulls = bool(combination.mean_softplus)
        pushes = any((combination.lse_all, combination.lse_pos, combination.mean_pos))
        self.margin = combination.margin / LN2
        self.arrange = self._arrange(learned)
        self.statistics = backend.statistics_launch(self.size, dim, plan.bounded, combination.wanted, how)
        self.anchors = self._anchors(weighted)
        self.total = Launch(kernels.total_kernel, (1, 1, 1), {"DIVIDE": plan.reduction != "sum", "BLOCK": 512})
        self.gradient = backend.gradient_launch(self.size, dim, plan.bounded, "both", how, pushes, pulls)
        self.give_back = self._give_back(learned)

    def _arrange(self, learned: bool) -> Launch:
        plan, (wide, block) = self.plan, row_block(self.width)
        constants = {"D": self.width, "WIDE": wide, "BR": block}
        if self.counts:
            constants |= {"BK": 256, "COSINE": plan.cosine, "KEEP_IGNORED": plan.keep_ignored}
        else:
            constants |= {"COSINE": plan.cosine}
        constants |= {"LEARNED": learned, "INTERPRETED": backend.interpreted()}
        kernel = kernels.place_kernel if self.counts else kernels.sorted_kernel
        return Launch(kernel, (self.size // block, 1, 1), constants)

    def _anchors(self, weighted: bool) -> Launch:
        plan, combination = self.plan, self.plan.combination
        constants = {
            "ALL": combination.lse_all, "NEG": combination.lse_neg, "POS": combination.lse_pos,
            "MEAN": combination.mean_pos, "SOFT": combination.mean_softplus, "LOG_COUNT": combination.log_positives,
            "CONSTANT": combination.constant, "NEEDS_NEGATIVES": combination.needs_negatives, "WEIGHTED": weighted,
            "COUNT_ALL": plan.reduction == "mean_all", "BOUNDED": plan.bounded, "BLOCK": ANCHOR_BLOCK,
        }  # fmt: skip
        return Launch(kernels.anchor_kernel, (self.size // ANCHOR_BLOCK, 1, 1), constants)

    def _give_back(self, learned: bool) -> Launch:
        wide, block = row_block(self.width)
        constants = {"D": self.width, "WIDE": wide, "BR": block, "COSINE": self.plan.cosine, "LEARNED": learned}
        constants |= {"INTERPRETED": backend.interpreted()}
        return Launch(kernels.return_kernel, (self.size // block, 1, 1), constants)

    def forward(self, rows: Tensor, temperature: Tensor | None, labels: Tensor, weights: Tensor | None) -> Results:
        plan, n, size = self.plan, self.n, self.size
        results = result, ordered, places, numbers = empty_results(plan, n, self.dim, self.dtype, rows.device)
        given = plan.temperature if temperature is None else temperature
        if self.counts:
            self.arrange(
                rows, rows.stride(0), labels, plan.views, plan.ignore_label, given,
                ordered, numbers[INVERSE], places, size, n, self.dim,
            )  # fmt: skip
        else:
            keys, order = sorted_keys(labels, plan)
            self.arrange(
                rows, rows.stride(0), keys, order, given,
                ordered, numbers[INVERSE], places, size, n, n.bit_length() + 1, self.dim,
            )  # fmt: skip
        sums, shares = numbers[SUMS], numbers[SHARES]
        self.statistics(ordered, ordered, places, size, places[4], sums, self.margin)
        self.anchors(
            sums, size, places, labels, labels if weights is None else weights, plan.views, plan.ignore_label,
            self.margin, n, result if plan.reduction == "none" else numbers[VALUES], numbers, shares,
        )  # fmt: skip
        if plan.reduction != "none":
            self.total(shares, result, numbers[TOTAL], size // ANCHOR_BLOCK)
        return results

    def backward(
        self, grad: Tensor, rows: Tensor, temperature: Tensor | None, ordered: Tensor, places: Tensor, numbers: Tensor
    ) -> tuple[Tensor, Tensor | None]:
        n, size = self.n, self.size
        table, factor = numbers, numbers[TOTAL, 1:]
        if self.plan.reduction == "none":
            table, factor, grad = with_own_gradients(numbers[:SUMS], places[0, :n], grad.reshape(-1))
        gradient = torch.empty((size, self.width), dtype=torch.float32, device=rows.device)
        self.gradient(ordered, ordered, places, size, places[4], table, table, size, gradient)
        result = torch.empty((n, self.dim), dtype=rows.dtype, device=rows.device)
        radial = result if temperature is None else numbers.new_empty(n)
        self.give_back(
            gradient, rows, rows.stride(0), places, size, numbers[INVERSE], factor, grad,
            self.plan.temperature if temperature is None else temperature, result, radial, n, self.dim,
        )  # fmt: skip
        if temperature is None:
            return result, None
        # Σ_i z_i·∂L/∂z_i counts every pair from both of its ends, and s = sim/τ.
        return result, (radial.sum() / (-2 * temperature)).to(temperature.dtype)


@lru_cache(maxsize=256)
def program_for(
    plan: Plan, shape: tuple[int, int], dtype: torch.dtype, learned: bool, weighted: bool, *_: object
) -> Program:
    """The program; what follows `weighted` only tells apart calls for which Triton compiles different code."""
    return Program(plan, *shape, dtype, learned=learned, weighted=weighted)


def forward(
    rows: Tensor, temperature: Tensor | None, labels: Tensor, weights: Tensor | None, plan: Plan
) -> tuple[Program, Results]:
    """The loss (or one value per anchor), and what the backward pass needs."""
    program = program_for(
        plan, rows.shape, rows.dtype, temperature is not None, weights is not None,
        rows.device, rows.stride(0), rows.data_ptr() % 16, labels.dtype, labels.data_ptr() % 16,
        torch.get_float32_matmul_precision(),
        None if temperature is None else temperature.dtype,
        None if weights is None else (weights.dtype, weights.data_ptr() % 16),
    )  # fmt: skip
    with on_device_of(rows):
        return program, program.forward(rows, temperature, labels, weights)


def on_device_of(rows: Tensor) -> AbstractContextManager[None]:
    """Kernels are launched on the current device, which need not be the rows'."""
    if rows.is_cuda and rows.device.index != torch.cuda.current_device():
        return torch.cuda.device(rows.device)
    return nullcontext()


def backward_program(rows: Tensor, temperature: Tensor | None, plan: Plan) -> Program:
    """A program for the backward pass alone, where the one of the forward pass is not at hand."""
    return program_for(
        plan, rows.shape, rows.dtype, temperature is not None, False, rows.device, rows.stride(0),
        rows.data_ptr() % 16, torch.get_float32_matmul_precision(), None if temperature is None else temperature.dtype,
    )  # fmt: skip


def padded_shape(n: int, dim: int, how: Precision) -> tuple[int, int]:
    """Rows and columns of the matrix that holds n rows in class order."""
    return max(1, -(-n // backend.PAD)) * backend.PAD, backend.padded_width(dim, how)[0]


def empty_results(plan: Plan, n: int, dim: int, dtype: torch.dtype, device: torch.device) -> Results:
    """Room for the result, the rows in class order, their places, and the numbers per anchor."""
    how = Precision.named(NAMES[dtype], plan.cosine)
    size, width = padded_shape(n, dim, how)
    return (
        torch.empty(n if plan.reduction == "none" else (), dtype=torch.float32, device=device),
        torch.empty((size, width), dtype=how.dtype, device=device),
        torch.empty((5, size), dtype=torch.int32, device=device),
        torch.empty((NUMBERS, size), dtype=torch.float32, device=device),
    )


def sorted_keys(labels: Tensor, plan: Plan) -> tuple[Tensor, Tensor]:
    """Labels in order, one per row, and the rows they come from; unlabelled rows last unless they are negatives."""
    keys = labels.long() if plan.views == 1 else labels.long().repeat_interleave(plan.views)
    if not plan.keep_ignored:
        keys = keys.masked_fill(keys == plan.ignore_label, LAST)
    ordered = keys.sort(stable=True)
    return ordered.values, ordered.indices


@lru_cache
def row_block(width: int) -> tuple[int, int]:
    """A power of two that holds a row, and how many rows a program takes: some thousand numbers."""
    wide = triton.next_power_of_2(width)
    return wide, max(1, min(16, 2048 // wide))


def with_own_gradients(table: Tensor, order: Tensor, grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The coefficients where every anchor has a gradient of its own, relative to the largest; that, and one."""
    largest = grad.abs().amax().float()
    largest = torch.where(largest > 0, largest, 1)
    table = table.clone()
    table[[0, 2, 4, 6], : order.shape[0]] *= (grad.float() / largest)[order.long()]
    return table, largest.reshape(1), torch.ones_like(largest)
