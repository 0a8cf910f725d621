"""Embeddings of all processes, with the gradient that DDP's averaging turns into the one-process gradient.

Every process contrasts its own anchors with everybody's embeddings. Process r returns the global loss
L = Σ_q S_q, S_q = the part of process q's anchors, and sends each gradient to the process that owns
the embedding. The objective that all processes together differentiate is world · L; DDP divides by world.

Built on `all_gather` and `all_reduce` alone: the differentiable collectives of torch.distributed.nn are
deprecated in torch 2.13, and what replaces them is missing in 2.11.
"""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


def world_size() -> int:
    """Number of processes; 1 where torch.distributed was not set up, so one script serves both."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def rank() -> int:
    return dist.get_rank() if world_size() > 1 else 0


def numbers_of_all(numbers: list[int], device: torch.device) -> list[list[int]]:
    """The lists of all processes, equally long, in order of rank; takes one collective and one wait."""
    own = torch.tensor(numbers, dtype=torch.int64, device=device)
    found = [torch.empty_like(own) for _ in range(world_size())]
    dist.all_gather(found, own)
    return [[int(number) for number in row] for row in torch.stack(found).tolist()]


def gather_rows(rows: Tensor, counts: list[int]) -> Tensor:
    """The rows of all processes, in order of rank; differentiable."""
    if len(counts) == 1:
        return rows
    gathered: Tensor = _GatherRows.apply(rows, counts)  # type: ignore[no-untyped-call]
    return gathered


def sum_over_processes(value: Tensor) -> Tensor:
    """The sum of everybody's `value`; differentiable."""
    if world_size() == 1:
        return value
    total: Tensor = _SumOverProcesses.apply(value)  # type: ignore[no-untyped-call]
    return total


def largest_of_all(values: Tensor) -> int:
    """The largest of all processes' non-negative numbers; takes one collective and one wait."""
    largest = values.max() if values.numel() else values.new_zeros(())
    dist.all_reduce(largest, op=dist.ReduceOp.MAX)
    return int(largest)


class _GatherRows(torch.autograd.Function):
    @staticmethod
    def forward(rows: Tensor, counts: list[int]) -> Tensor:
        # all_gather wants equal shapes, so short blocks travel padded.
        padded = rows.new_zeros((max(counts), *rows.shape[1:]))
        padded[: rows.shape[0]] = rows
        blocks = [torch.empty_like(padded) for _ in counts]
        dist.all_gather(blocks, padded)
        return torch.cat([block[:count] for block, count in zip(blocks, counts, strict=True)])

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.counts = inputs[1]

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        # By a differentiable function, so that a second derivative goes through the processes too.
        return torch.split(sum_over_processes(grads[0]), ctx.counts)[rank()], None


class _SumOverProcesses(torch.autograd.Function):
    """This sum is its own derivative: the value of every process is part of the sum of every process."""

    @staticmethod
    def forward(value: Tensor) -> Tensor:
        total = value.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(total)
        return total

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        """The derivative needs nothing."""

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return sum_over_processes(grads[0])
