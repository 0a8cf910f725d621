"""The competitor: both losses as people write them, with n×n matrices, and a check that they are right.

Each is the equation in a dozen eager lines, with no work that the equation does not need. The row maximum includes the
anchor itself, as in most code in use: one operation less, and harmless here, where cosines over τ = 0.1 stay within 20
of it.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

import sincere.functional as SF
from timing import Problem

# Sums over n terms in float32, in another order: the two may differ in the last digits, no more.
VALUE_TOLERANCE = 1e-5
GRADIENT_TOLERANCE = 1e-4


def plain_sincere(embeddings: Tensor, labels: Tensor, temperature: float = 0.1) -> Tensor:
    """mean_t mean_{p∈P} [ log(e^{s_tp} + Σ_N e^{s_tj}) − s_tp ] (Feeney and Hughes, Eq. 12)."""
    logits, positive, negative = logits_and_masks(embeddings, labels, temperature)
    exponentials = torch.exp(logits)
    negative_sum = (exponentials * negative).sum(dim=1, keepdim=True)
    log_probability = logits - torch.log(exponentials + negative_sum)
    return mean_over_positives(-log_probability, positive)


def plain_supcon(embeddings: Tensor, labels: Tensor, temperature: float = 0.1) -> Tensor:
    """mean_t mean_{p∈P} [ log Σ_A e^{s_ta} − s_tp ] (Khosla et al., Eq. 2)."""
    logits, positive, negative = logits_and_masks(embeddings, labels, temperature)
    exponentials = torch.exp(logits) * (positive + negative)
    log_probability = logits - torch.log(exponentials.sum(dim=1, keepdim=True))
    return mean_over_positives(-log_probability, positive)


def logits_and_masks(embeddings: Tensor, labels: Tensor, temperature: float) -> tuple[Tensor, Tensor, Tensor]:
    """s minus its row maximum, and the masks of positives and negatives as numbers."""
    z = F.normalize(embeddings, dim=1)
    logits = z @ z.T / temperature
    logits = logits - logits.max(dim=1, keepdim=True).values.detach()
    same = (labels.unsqueeze(1) == labels.unsqueeze(0)).to(logits.dtype)
    return logits, same - torch.eye(len(labels), dtype=logits.dtype, device=logits.device), 1 - same


def mean_over_positives(per_pair: Tensor, positive: Tensor) -> Tensor:
    """Mean over each anchor's positives, then over the anchors that have one."""
    count = positive.sum(dim=1)
    per_anchor = (per_pair * positive).sum(dim=1) / count.clamp(min=1)
    return per_anchor[count > 0].mean()


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
