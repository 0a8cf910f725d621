"""The competitor, both losses as people write them (`sincere.bench.plain_losses`), and a check that they are right."""

from collections.abc import Callable

import torch
from torch import Tensor

import sincere.functional as SF
from sincere.bench.plain_losses import plain_sincere, plain_supcon
from timing import Problem

# Sums over n terms in float32, in another order: the two may differ in the last digits, no more.
VALUE_TOLERANCE = 1e-5
GRADIENT_TOLERANCE = 1e-4

PAIRS: dict[str, tuple[Callable[..., Tensor], Callable[..., Tensor]]] = {
    "SINCERE": (plain_sincere, SF.sincere),
    "SupCon": (plain_supcon, SF.supcon),
}


def check_plain_losses(problem: Problem) -> str:
    """Raise unless the plain losses and ours agree in value and gradient on this batch; say how closely they do."""
    found = []
    for name, (plain, ours) in PAIRS.items():
        embeddings, labels = problem.batch()
        plain_value, plain_gradient = value_and_gradient(plain, embeddings, labels, problem.temperature)
        our_value, our_gradient = value_and_gradient(ours, embeddings, labels, problem.temperature)
        value_error = abs(plain_value - our_value) / abs(our_value)
        gradient_error = float((plain_gradient - our_gradient).norm() / our_gradient.norm())
        found.append(f"{name} {value_error:.0e} in value, {gradient_error:.0e} in gradient")
        if not (value_error <= VALUE_TOLERANCE and gradient_error <= GRADIENT_TOLERANCE):
            raise RuntimeError(f"plain and our {name} differ, so a comparison would prove nothing: {found[-1]}")
    return f"plain losses equal ours at n = {problem.n:,} to a relative {'; '.join(found)}"


def value_and_gradient(
    loss: Callable[..., Tensor], embeddings: Tensor, labels: Tensor, temperature: float
) -> tuple[float, Tensor]:
    """L and ∂L/∂embeddings."""
    value = loss(embeddings, labels, temperature=temperature)
    (gradient,) = torch.autograd.grad(value, embeddings)
    return float(value.detach()), gradient
