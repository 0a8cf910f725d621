"""A memory of past embeddings with their labels, to contrast a batch with."""

from numbers import Integral
from typing import Any

import torch
from torch import Tensor, nn

from sincere.checks import check_embeddings, check_labels
from sincere.errors import InputError, OptionError
from sincere.losses.pairs import fold_views


class LabelQueue(nn.Module):
    """The last `size` embeddings and their labels: keys of a momentum encoder, or past batches.

    >>> from sincere import SINCERELoss
    >>> queue, loss = LabelQueue(size=4096, dim=16), SINCERELoss(include_batch=True)
    >>> embeddings, labels = torch.randn(8, 16), torch.arange(8) // 2
    >>> value = loss(embeddings, labels, *queue.contrasts())
    >>> queue.enqueue(embeddings, labels)
    >>> len(queue)
    8

    Everything, the write position and the fill included, is in `state_dict`, so a resumed run continues with the same
    memory. With `gather=True` each process keeps a queue of its own samples, and a loss sees the queues of all.

    Args:
        size: how many embeddings to keep; the oldest go first.
        dim: dimension of an embedding.
        classes: number of classes of multi-hot labels; leave it out for integer labels.
    """

    embeddings: Tensor
    labels: Tensor
    position: Tensor

    def __init__(self, size: int, dim: int, *, classes: int | None = None) -> None:
        super().__init__()
        if not all(_is_whole(number) and number >= 1 for number in (size, dim)):
            raise OptionError(f"size and dim must be integers, at least 1: got size={size!r}, dim={dim!r}.")
        if classes is not None and (not _is_whole(classes) or classes < 2):
            raise OptionError(
                "classes must be the number of columns of multi-hot labels, an integer, at least 2: "
                f"got {classes!r}. Leave it out for one class number per sample."
            )
        self.register_buffer("embeddings", torch.zeros(size, dim))
        self.register_buffer("labels", torch.zeros((size,) if classes is None else (size, classes), dtype=torch.int64))
        self.register_buffer("position", torch.zeros(2, dtype=torch.int64))
        self._next, self._filled = 0, 0  # `position` again, as integers: reading it from a GPU every step would wait

    def __len__(self) -> int:
        return self._filled

    def __bool__(self) -> bool:
        """Always true, as of any module: `if queue:` asks whether there is one, not whether it holds anything."""
        return True

    @torch.no_grad()
    def enqueue(self, embeddings: Tensor, labels: Tensor) -> None:
        """Remember embeddings, (n, d) or (b, v, d), without their graph; of a batch too large, the last rows."""
        check_embeddings("embeddings", embeddings, labels)
        stacked = embeddings.shape[1] if embeddings.ndim == 3 else None
        check_labels("labels", labels, embeddings.shape[0], "embeddings", embeddings.device, views=stacked)
        rows, views = fold_views(embeddings.detach())
        if rows.shape[1] != self.embeddings.shape[1]:
            raise InputError(
                f"embeddings must be as long as the queue's, (n, {self.embeddings.shape[1]}): got "
                f"{tuple(rows.shape)}. Make the queue with dim={rows.shape[1]}."
            )
        if labels.shape[1:] != self.labels.shape[1:]:
            holds = "(n,)" if self.labels.ndim == 1 else f"(n, {self.labels.shape[1]})"
            wanted = "without classes" if labels.ndim == 1 else f"with classes={labels.shape[1]}"
            raise InputError(
                f"labels must be of the queue's kind, {holds}: got {tuple(labels.shape)}. Make the queue {wanted}."
            )
        size = self.embeddings.shape[0]
        rows, labels = rows[-size:], labels.repeat_interleave(views, dim=0)[-size:]
        places = (self._next + torch.arange(rows.shape[0], device=self.embeddings.device)) % size
        self.embeddings[places] = rows.to(self.embeddings)
        self.labels[places] = labels.to(self.labels)
        self._next = (self._next + rows.shape[0]) % size
        self._filled = min(self._filled + rows.shape[0], size)
        self.position.copy_(torch.tensor([self._next, self._filled], device="cpu"))

    def contrasts(self) -> tuple[Tensor, Tensor]:
        """What is remembered, as `contrast_embeddings` and `contrast_labels`: a copy that later writes do not reach."""
        return self.embeddings[: self._filled].clone(), self.labels[: self._filled].clone()

    @torch.no_grad()
    def clear(self) -> None:
        """Forget everything, as at the start of a new data set."""
        self._next, self._filled = 0, 0
        self.position.zero_()

    def _load_from_state_dict(self, *args: Any, **kwargs: Any) -> None:
        errors: list[str] = args[-1]
        already, before = len(errors), self.position.clone()
        super()._load_from_state_dict(*args, **kwargs)
        if len(errors) > already:  # a queue of another size: its rows are not here, so its position is not either
            self.position.copy_(before)
        self._next, self._filled = (int(value) for value in self.position.tolist())

    def extra_repr(self) -> str:
        return f"size={self.embeddings.shape[0]}, dim={self.embeddings.shape[1]}, filled={self._filled}"


def _is_whole(number: object) -> bool:
    return isinstance(number, Integral) and not isinstance(number, bool)
