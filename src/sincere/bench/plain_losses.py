"""The code people write: both losses in a dozen eager lines, with n×n matrices.

They are what the benchmarks compare with, and do no work that their equations do not need. The row maximum includes the
anchor itself, as in most code in use: one operation less, and harmless where cosines over τ ≥ 0.05 stay within 40 of
it.
"""

import torch
import torch.nn.functional as F
from torch import Tensor


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
