"""Who takes part: ours, the code people write, that code compiled, and bare matrix products."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

import sincere.functional as SF
from sincere.bench.agreement import Loss
from sincere.bench.memory import available_bytes
from sincere.bench.plain_losses import plain_sincere, plain_supcon
from sincere.bench.problem import Problem

OURS = {"ours SINCERE": "SINCERE", "ours SupCon": "SupCon"}
EAGER = {"eager SINCERE": "SINCERE", "eager SupCon": "SupCon"}
COMPILED, PRODUCTS = "compiled dense SINCERE", "three products"
LOSS_OF: dict[str, str] = OURS | EAGER | {COMPILED: "SINCERE"}
# The plain losses held up to 9.1 n×n float32 matrices at once when we looked (benchmarks/results/cpu_memory.csv).
MATRICES_OF_EAGER = 10
SHARE_OF_MEMORY = 0.8


def our_losses(problem: Problem) -> dict[str, Loss]:
    """Our losses, by the backend that `auto` takes."""
    return {
        "ours SINCERE": partial(SF.sincere, temperature=problem.temperature),
        "ours SupCon": partial(SF.supcon, temperature=problem.temperature),
    }


def eager_losses(problem: Problem) -> dict[str, Loss]:
    """n×n code in float32, also for embeddings in half precision: their exponentials and sums need it."""

    def in_float32(loss: Callable[..., Tensor]) -> Loss:
        return lambda z, labels: loss(z.float(), labels, temperature=problem.temperature)

    return {"eager SINCERE": in_float32(plain_sincere), "eager SupCon": in_float32(plain_supcon)}


def compiled_loss(problem: Problem) -> Loss:
    """Our dense backend, which is n×n operations alone, under torch.compile."""
    return torch.compile(partial(SF.sincere, temperature=problem.temperature, backend="dense"))


def three_products(embeddings: Tensor) -> Callable[[], tuple[Tensor, Tensor]]:
    """z zᵀ, G z and Gᵀ z: 6n²d operations, what an n×n gradient costs before any exponential."""
    z = embeddings.detach()

    def step() -> tuple[Tensor, Tensor]:
        G = z @ z.T
        return G @ z, G.T @ z

    return step


def eager_fits(problem: Problem) -> bool:
    """Is there room for the n×n matrices of plain code?"""
    return MATRICES_OF_EAGER * 4 * problem.n**2 <= SHARE_OF_MEMORY * available_bytes(problem.device)


def products_fit(problem: Problem) -> bool:
    """Is there room for one n×n matrix of products?"""
    size: int = getattr(torch, problem.dtype).itemsize
    return size * problem.n**2 <= SHARE_OF_MEMORY * available_bytes(problem.device)
