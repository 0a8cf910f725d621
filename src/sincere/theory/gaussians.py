"""Two densities whose ratio and divergence are known: the target N(μ, σ²I) and the noise N(0, I)."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from sincere.errors import OptionError


@dataclass(frozen=True)
class Gaussians:
    """A target whose mean is `separation` away from the noise, and whose deviation is `scale` times the noise's."""

    dim: int
    separation: float
    scale: float = 1.0

    def __post_init__(self) -> None:
        if self.dim < 1 or not 0 < self.scale < math.inf or not math.isfinite(self.separation):
            raise OptionError(
                "dim must be at least 1, scale positive, and both it and separation finite: "
                f"got dim={self.dim}, scale={self.scale}, separation={self.separation}."
            )

    @property
    def divergence(self) -> float:
        """KL(target ‖ noise) = ½(dσ² + ‖μ‖² − d − d log σ²), in nats."""
        variance = self.scale**2
        return 0.5 * (self.dim * variance + self.separation**2 - self.dim - 2 * self.dim * math.log(self.scale))

    def target(self, *shape: int, generator: torch.Generator) -> Tensor:
        """Samples of the target, (*shape, d); the mean lies on the first axis."""
        x = self.scale * self.noise(*shape, generator=generator)
        x[..., 0] += self.separation
        return x

    def noise(self, *shape: int, generator: torch.Generator) -> Tensor:
        """Samples of the noise, (*shape, d)."""
        return torch.randn(*shape, self.dim, dtype=torch.float64, generator=generator)

    def log_ratio(self, x: Tensor) -> Tensor:
        """log p(x | target) / p(x | noise)."""
        centred = x.clone()
        centred[..., 0] -= self.separation
        of_target = -centred.square().sum(dim=-1) / (2 * self.scale**2) - self.dim * math.log(self.scale)
        return of_target + x.square().sum(dim=-1) / 2
