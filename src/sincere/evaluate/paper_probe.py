"""The linear classifier of the SINCERE paper, by its schedule, on cached features.

Source: SINCERE Section 4.3, with the hyper-parameters of Khosla et al. 2020: cross-entropy, 100 epochs, SGD with
momentum 0.9, batches of 512, no weight decay, 10 epochs of warm-up from 0.05 to 5, then a cosine back to 0.05.
Differs from: the paper runs the encoder on newly augmented images in every epoch. Cached features are those of the
plain images, so this probe sees no augmentation. It starts from zero weights, where theirs start at random.
"""

from dataclasses import dataclass
from math import cos, pi

import torch
from torch import Tensor

from sincere.errors import InputError, OptionError
from sincere.evaluate.linear import LinearClassifier
from sincere.nearest.precision import full_precision


@dataclass(frozen=True)
class PaperSchedule:
    """SINCERE Section 4.3."""

    epochs: int = 100
    batch: int = 512
    peak: float = 5.0
    ends: float = 0.05
    warmup_epochs: int = 10
    momentum: float = 0.9

    def __post_init__(self) -> None:
        if self.batch < 1 or not 0 <= self.warmup_epochs < self.epochs or not 0 < self.ends <= self.peak:
            raise OptionError(
                "a schedule needs batch ≥ 1, 0 ≤ warmup_epochs < epochs and 0 < ends ≤ peak: got "
                f"batch={self.batch}, warmup_epochs={self.warmup_epochs}, epochs={self.epochs}, "
                f"ends={self.ends}, peak={self.peak}."
            )

    def rate(self, progress: float) -> float:
        """The learning rate at `progress`, in epochs from the start."""
        if progress < self.warmup_epochs:
            return self.ends + (self.peak - self.ends) * progress / self.warmup_epochs
        share = (progress - self.warmup_epochs) / (self.epochs - self.warmup_epochs)
        return self.ends + (self.peak - self.ends) * (1 + cos(pi * min(share, 1.0))) / 2


@full_precision()
def fit_paper_probe(
    vectors: Tensor, labels: Tensor, *, classes: int, seed: int = 0, schedule: PaperSchedule | None = None
) -> LinearClassifier:
    """Train by the schedule. Nothing is chosen: the weights of the last step are the result."""
    schedule = schedule or PaperSchedule()
    n, device = vectors.shape[0], vectors.device
    generator = torch.Generator().manual_seed(seed)  # on the CPU, so that every device sees the same batches
    weight, bias = vectors.new_zeros(classes, vectors.shape[1]), vectors.new_zeros(classes)
    velocity_w, velocity_b = torch.zeros_like(weight), torch.zeros_like(bias)
    for epoch in range(schedule.epochs):
        order = torch.randperm(n, generator=generator, device="cpu").to(device)
        for start in range(0, n, schedule.batch):
            chosen = order[start : start + schedule.batch]
            rows, own = vectors.index_select(0, chosen), labels.index_select(0, chosen).unsqueeze(1)
            residual = (rows @ weight.T + bias).softmax(dim=1)
            residual.scatter_add_(1, own, torch.full_like(own, -1, dtype=residual.dtype))
            residual /= rows.shape[0]  # the gradient of the mean cross-entropy by the logits
            rate = schedule.rate(epoch + start / n)
            velocity_w.mul_(schedule.momentum).addmm_(residual.T, rows)
            velocity_b.mul_(schedule.momentum).add_(residual.sum(dim=0))
            weight.sub_(velocity_w, alpha=rate)
            bias.sub_(velocity_b, alpha=rate)
    if not bool(torch.isfinite(weight).all()):
        raise InputError(
            f"the paper's learning rate, {schedule.peak}, diverged on these features. It was chosen for those of a "
            "ResNet: scale yours down, or use the fast probe, which standardises them."
        )
    none, one = vectors.new_zeros(vectors.shape[1]), vectors.new_ones(vectors.shape[1])
    return LinearClassifier(weight, bias, none, one)
