"""The batch that every candidate gets."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Problem:
    """The batch that every candidate gets."""

    n: int
    d: int = 128
    classes: int = 100
    seed: int = 0
    dtype: str = "float32"
    temperature: float = 0.1
    device: str = "cpu"

    def batch(self) -> tuple[Tensor, Tensor]:
        """Gaussian embeddings that require a gradient, and classes of nearly equal size in random order."""
        generator = torch.Generator().manual_seed(self.seed)
        embeddings = torch.randn(self.n, self.d, generator=generator, dtype=getattr(torch, self.dtype))
        labels = torch.arange(self.n)[torch.randperm(self.n, generator=generator)] % self.classes
        return embeddings.to(self.device).requires_grad_(), labels.to(self.device)
