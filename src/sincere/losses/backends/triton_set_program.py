"""A whole set loss by kernels: a batch against itself, from embeddings and labels to the value, and back.

The general way (set_rows.py) is some ninety small operations around two launches: for batches of a few thousand these
are what a step costs. Here it is three launches forward and two back, beside torch's products of matrices.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import triton
from torch import Tensor
from torch._C._functorch import is_legacy_batchedtensor

from sincere.losses.backends import transforms, triton_set_whole
from sincere.losses.backends.row_blocks import row_blocks
from sincere.losses.backends.set_logits import refuse_forward_mode, refuse_second_derivative
from sincere.losses.backends.transforms import LastDerivative
from sincere.losses.backends.triton_fused import row_block
from sincere.losses.backends.triton_launch import Launch, interpreted, on_device_of, use_before_cublas
from sincere.losses.backends.triton_set_launch import held_rows, rows_of
from sincere.losses.options import Settings, full_precision
from sincere.losses.relation import Relation

TILE = (16, 128)  # pairs that a program of the backward pass takes; they share their anchors' numbers
MOST_PROGRAMS = 256
PROGRAMS: dict[tuple[object, ...], "Program"] = {}


@dataclass(frozen=True)
class Plan:
    """Everything about the loss that is no tensor, and for which Triton compiles different code."""

    reduction: str
    cosine: bool
    views: int
    ignore_label: int
    keep_ignored: bool
    weighted: bool
    learned: bool  # is the temperature a tensor


class Saved(NamedTuple):
    """What the forward pass leaves for the backward pass; triton_set_whole.py says what is in it."""

    rows: Tensor
    keys: Tensor
    usable: Tensor
    numbers: Tensor


@dataclass(frozen=True)
class Block:
    """Anchors whose logits are held at once, and the launches that look at them."""

    first: int
    last: int
    losses: Launch
    pairs: Launch

    def logits(self, rows: Tensor) -> Tensor:
        return torch.mm(rows_of(rows, slice(self.first, self.last)), rows.t())


class Program:
    """Everything that does not change while shapes, types and options stay the same."""

    def __init__(self, plan: Plan, shape: tuple[int, int], device: torch.device) -> None:
        self.plan = plan
        self.n, self.dim = n, dim = shape
        wide, rows = row_block(dim)
        constants = {"WIDE": wide, "BR": rows}
        kind = {"COSINE": plan.cosine, "LEARNED": plan.learned}
        grid = (triton.cdiv(n, rows), 1, 1)
        self.prepare = Launch(
            triton_set_whole.set_rows_kernel, grid, {**constants, "KEEP_IGNORED": plan.keep_ignored, **kind}
        )
        self.give_back = Launch(
            triton_set_whole.set_return_kernel, grid, {**constants, **kind, "INTERPRETED": interpreted()}
        )
        reduction = {"BLOCK": 1024, "WEIGHTED": plan.weighted, "REDUCTION": plan.reduction}
        self.reduce = Launch(triton_set_whole.set_reduction_kernel, (1, 1, 1), reduction)
        everyone = torch.empty(n, dtype=torch.bool, device=device)
        blocks = [*row_blocks(Relation("classes", everyone, everyone, everyone, everyone, 0))]
        self.blocks = [self._block(rows.start, rows.stop) for rows in blocks]

    def _block(self, first: int, last: int) -> Block:
        held, warps = held_rows(self.n)
        losses = Launch(triton_set_whole.set_losses_kernel, (last - first, 1, 1), held, warps, 1)
        grid = (triton.cdiv(last - first, TILE[0]), triton.cdiv(self.n, TILE[1]), 1)
        pairs = Launch(triton_set_whole.set_pairs_kernel, grid, {"BR": TILE[0], "BC": TILE[1]}, 8, 1)
        return Block(first, last, losses, pairs)

    def forward(self, x: Tensor, scale: Tensor | float, labels: Tensor, weights: Tensor | None) -> tuple[Tensor, Saved]:
        """The loss, and what the backward pass needs; `scale` is τ as a tensor, or τ^(−½) as a number."""
        plan, n, device = self.plan, self.n, x.device
        result = torch.empty((), dtype=torch.float32, device=device)
        rows = torch.empty((n, self.dim), dtype=torch.float32, device=device)
        keys = torch.empty(n, dtype=torch.int64, device=device)
        usable = torch.empty(2 * n, dtype=torch.uint8, device=device)
        numbers = torch.empty(9 * n + 1, dtype=torch.float32, device=device)
        self.prepare(
            x, x.stride(0), labels, plan.views, plan.ignore_label, scale, rows, keys, usable, numbers, n, self.dim
        )
        for block in self.blocks:
            block.losses(block.logits(rows), keys, usable, numbers, block.first, n)
        self.reduce(usable, labels if weights is None else weights, numbers, result, plan.views, n)
        return result, Saved(rows, keys, usable, numbers)

    def backward(
        self, grad: Tensor, dtype: torch.dtype, scale: Tensor | float, saved: Saved
    ) -> tuple[Tensor, Tensor | None]:
        """∂L/∂embeddings; and, where the temperature is a tensor, every embedding's share of the gradient of it."""
        rows, _, usable, numbers = saved
        use_before_cublas(rows.device)
        gradient = self._of_rows(grad, saved)
        result = torch.empty((self.n, self.dim), dtype=dtype, device=rows.device)
        radial = torch.empty(self.n, dtype=torch.float32, device=rows.device) if self.plan.learned else None
        room = result if radial is None else radial
        self.give_back(gradient, rows, usable, numbers, scale, result, room, self.n, self.dim)
        return result, radial

    def _of_rows(self, grad: Tensor, saved: Saved) -> Tensor:
        """∂L/∂rows."""
        if len(self.blocks) == 1:
            return torch.mm(self._of_pairs(self.blocks[0], grad, saved), saved.rows)
        gradient = torch.empty_like(saved.rows)
        for block in self.blocks:
            torch.mm(self._of_pairs(block, grad, saved), saved.rows, out=gradient[block.first : block.last])
        return gradient

    def _of_pairs(self, block: Block, grad: Tensor, saved: Saved) -> Tensor:
        rows, keys, usable, numbers = saved
        s = block.logits(rows)
        block.pairs(s, keys, usable, numbers, grad, block.first, block.last, self.n)
        return s


def loss(embeddings: Tensor, labels: Tensor, settings: Settings) -> Tensor:
    """The reduced loss; `set_nce.py` has looked at the input."""
    temperature, weights = settings.temperature, settings.weights
    learned = isinstance(temperature, Tensor)
    scale = temperature.reshape(()).to(embeddings.device) if isinstance(temperature, Tensor) else temperature**-0.5
    plan = Plan(
        settings.reduction,
        settings.similarity == "cosine",
        embeddings.shape[1] if embeddings.ndim == 3 else 1,
        settings.ignore_label,
        settings.ignored_as_negatives,
        weights is not None,
        learned,
    )
    rows = embeddings.reshape(-1, embeddings.shape[-1]) if embeddings.ndim == 3 else embeddings
    if rows.stride(1) != 1:
        rows = rows.contiguous()
    constant = None if weights is None else weights.contiguous()
    result: Tensor = SetLoss.apply(rows, scale, labels.contiguous(), constant, plan)  # type: ignore[no-untyped-call]
    return result


def program_of(x: Tensor, scale: Tensor | float, labels: Tensor, weights: Tensor | None, plan: Plan) -> Program:
    """The one for such a batch, found by everything for which Triton compiles different code."""
    key = (
        plan, x.shape, x.dtype, x.device, x.stride(0), x.data_ptr() % 16, labels.dtype, labels.data_ptr() % 16,
        scale.dtype if isinstance(scale, Tensor) else None,
        None if weights is None else (weights.dtype, weights.data_ptr() % 16),
    )  # fmt: skip
    program = PROGRAMS.get(key)
    if program is None:
        if len(PROGRAMS) >= MOST_PROGRAMS:  # batches that are never alike must not fill the memory
            PROGRAMS.clear()
        program = PROGRAMS[key] = Program(plan, (x.shape[0], x.shape[1]), x.device)
    return program


class SetLoss(torch.autograd.Function):
    """The loss for eager code; torch.compile and torch.func go the general way."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, scale: Tensor | float, labels: Tensor, weights: Tensor | None, plan: Plan
    ) -> Tensor:
        program = program_of(x, scale, labels, weights, plan)
        with on_device_of(x):
            result, saved = program.forward(x, scale, labels, weights)
        ctx.program = program
        ctx.number = None if isinstance(scale, Tensor) else scale
        ctx.save_for_backward(x, scale if isinstance(scale, Tensor) else None, *saved)
        return result

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad,) = grads
        x, temperature, *saved = ctx.saved_tensors
        scale = ctx.number if temperature is None else temperature
        if is_legacy_batchedtensor(grad):  # by is_grads_batched=True: the gradient is linear in it
            program, single = Program(ctx.program.plan, tuple(x.shape), x.device), x.float()
            one = torch.ones((), device=x.device)
            of_x, of_temperature = SetGradient.apply(one, single, scale, program, *saved)  # type: ignore[no-untyped-call]
            of_x, of_temperature = (of_x * grad).to(x.dtype), of_temperature * grad
        elif torch.is_grad_enabled() or transforms.are_active():
            of_x, of_temperature = SetGradient.apply(grad, x, scale, ctx.program, *saved)  # type: ignore[no-untyped-call]
        else:
            of_x, of_temperature = gradients(grad, x, scale, ctx.program, *saved)
        return of_x, of_temperature if ctx.needs_input_grad[1] else None, None, None, None

    jvp = staticmethod(refuse_forward_mode)


class SetGradient(LastDerivative):
    """The backward pass where a second derivative might be asked for: it has none, and says so."""

    @staticmethod
    def forward(*inputs: Any) -> Any:
        of_x, of_temperature = gradients(*inputs)
        return of_x, of_x.new_zeros(()) if of_temperature is None else of_temperature

    backward = staticmethod(refuse_second_derivative)
    jvp = staticmethod(refuse_forward_mode)


def gradients(
    grad: Tensor, x: Tensor, scale: Tensor | float, program: Program, *saved: Tensor
) -> tuple[Tensor, Tensor | None]:
    """∂L/∂embeddings, and ∂L/∂τ where that is a tensor."""
    with on_device_of(x), full_precision(x):
        of_x, radial = program.backward(grad, x.dtype, scale, Saved(*saved))
    if radial is None or not isinstance(scale, Tensor):
        return of_x, None
    # Σ_i z_i·∂L/∂z_i counts every pair from both of its ends, and s = sim/τ.
    return of_x, (radial.sum() / (-2 * scale)).to(scale.dtype)
