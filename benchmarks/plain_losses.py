"""The competitor, both losses as people write them (`sincere.bench.plain_losses`), and a check that they are right."""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

import sincere.functional as SF
from peer_losses import Peer
from sincere.bench.plain_losses import plain_sincere, plain_supcon
from sincere.bench.problem import Problem

# Sums over n terms in float32, in another order: the two may differ in the last digits, no more.
VALUE_TOLERANCE = 1e-5
GRADIENT_TOLERANCE = 1e-4

PAIRS: dict[str, tuple[Callable[..., Tensor], Callable[..., Tensor]]] = {
    "SINCERE": (plain_sincere, SF.sincere),
    "SupCon": (plain_supcon, SF.supcon),
}


def check_plain_losses(problem: Problem) -> str:
    """Raise unless the plain losses and ours agree in value and gradient on this batch; say how closely they do."""
    found = [f"{name} {agreement(f'plain {name}', plain, ours, problem)}" for name, (plain, ours) in PAIRS.items()]
    return f"plain losses equal ours at n = {problem.n:,} to a relative {'; '.join(found)}"


def check_peers(known: Mapping[str, Peer], problem: Problem) -> str:
    """The same of losses that others publish."""
    if not known:
        return "no peer is here: install pytorch-metric-learning, or say where the authors' code is (peer_losses.py)"
    found = [f"{name} {agreement(name, peer.loss, PAIRS[peer.equals][1], problem)}" for name, peer in known.items()]
    return f"peers equal ours at n = {problem.n:,} to a relative {'; '.join(found)}"


def agreement(name: str, theirs: Callable[..., Tensor], ours: Callable[..., Tensor], problem: Problem) -> str:
    """How closely two losses agree; raises where that is not by rounding."""
    embeddings, labels = problem.batch()
    their_value, their_gradient = value_and_gradient(theirs, embeddings, labels, problem.temperature)
    our_value, our_gradient = value_and_gradient(ours, embeddings, labels, problem.temperature)
    value_error = abs(their_value - our_value) / abs(our_value)
    gradient_error = float((their_gradient - our_gradient).norm() / our_gradient.norm())
    found = f"{value_error:.0e} in value, {gradient_error:.0e} in gradient"
    if not (value_error <= VALUE_TOLERANCE and gradient_error <= GRADIENT_TOLERANCE):
        raise RuntimeError(f"{name} and ours differ, so a comparison would prove nothing: {found}")
    return found


def value_and_gradient(
    loss: Callable[..., Tensor], embeddings: Tensor, labels: Tensor, temperature: float
) -> tuple[float, Tensor]:
    """L and ∂L/∂embeddings."""
    value = loss(embeddings, labels, temperature=temperature)
    (gradient,) = torch.autograd.grad(value, embeddings)
    return float(value.detach()), gradient
