"""From a network's outputs to the number that is minimised, over all processes together."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sincere.checks import shape_of
from sincere.errors import InputError
from sincere.losses.gather import sum_over_processes
from sincere.train.train_config import TrainConfig


class ObjectiveLoss(nn.Module):
    """The configured objective of outputs (b, v, width) and labels (b,).

    Every process returns the loss of the whole batch, with a gradient that DDP's averaging turns into the gradient of
    one process (`sincere.losses.gather`).
    """

    def __init__(self, config: TrainConfig, *, dim: int, gather: bool) -> None:
        super().__init__()
        self.objective, self.weight, self.dim = config.objective, config.cross_entropy_weight, dim
        self.without_labels = config.loss.name == "infonce"
        self.own = config.loss.name if ":" in config.loss.name else None
        own_queue = config.memory.queue > 0 and config.memory.momentum is None
        self.loss = config.loss.build(gather=gather, include_batch=own_queue) if config.contrastive else None

    @property
    def temperature(self) -> float | Tensor | None:
        """The temperature of the contrastive loss, if there is one."""
        return None if self.loss is None else getattr(self.loss, "temperature", None)  # a user's may have none

    def forward(self, outputs: Tensor, labels: Tensor, *contrasts: Tensor) -> Tensor:
        """`contrasts`: further embeddings and their labels, of a queue or a momentum encoder."""
        if self.loss is None:
            return mean_cross_entropy(outputs, labels)
        embeddings = outputs[..., : self.dim]
        value: Tensor = self.loss(embeddings) if self.without_labels else self.loss(embeddings, labels, *contrasts)
        if self.own is not None:
            _check_number(self.own, value)
        if self.objective == "joint":
            value = value + self.weight * mean_cross_entropy(outputs[..., self.dim :], labels)
        return value


def _check_number(name: str, value: object) -> None:
    """Refuse what a loss of the user's own returned and no gradient could be taken of."""
    if not isinstance(value, Tensor) or value.ndim or (torch.is_grad_enabled() and not value.requires_grad):
        came = f"{shape_of(value)}, {value.dtype}" if isinstance(value, Tensor) else type(value).__name__
        without = " without a gradient" if isinstance(value, Tensor) and not value.requires_grad else ""
        raise InputError(
            f"the loss {name} must return one number, a tensor of shape () that depends on the embeddings: got "
            f"{came}{without}. Reduce it with .mean(), and detach nothing on the way."
        )


def mean_cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Over all views of all samples of all processes; logits (b, v, classes)."""
    rows = logits.flatten(0, 1).float()
    total = F.cross_entropy(rows, labels.repeat_interleave(logits.shape[1]), reduction="sum")
    # Filled in on the device: a copy from the CPU could not be recorded in a CUDA graph.
    count = sum_over_processes(torch.full((), float(rows.shape[0]), device=rows.device))
    return sum_over_processes(total) / count
