"""Every loss with the oracle that it must equal: the one list that the property tests run over."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

import oracles
import sincere.functional as SF

EPSILON, ALPHA = 0.3, 0.4


@dataclass(frozen=True)
class LossCase:
    """`call` takes embeddings (b, 2, d) or (n, d), labels, contrasts and options; `truth` the oracle's batch."""

    name: str
    call: Callable[..., Tensor]
    truth: Callable[[oracles.Batch, int], oracles.Values]
    gradient: Callable[[oracles.Batch, Any, int], np.ndarray]
    needs_views: bool = False
    never_repels: bool = False  # the gradient of every same-class pair is ≤ 0
    margin_at_one_class: float = 0.0

    def __repr__(self) -> str:
        return self.name


def _own_views(batch: oracles.Batch, views: int) -> list[list[int]]:
    return oracles.other_views(batch.s.shape[0] // views, views)


def _case(name: str, call: Callable[..., Tensor], oracle: str, **kw: Any) -> LossCase:
    own = {key: kw.pop(key) for key in ("epsilon",) if key in kw}
    return LossCase(
        name,
        call,
        lambda batch, views: getattr(oracles, oracle)(batch, **own),
        lambda batch, coefficients, views: oracles.logit_gradient(batch, oracle, coefficients, **own),
        **kw,
    )


def supcon_in(*args: Any, **options: Any) -> Tensor:
    return SF.supcon(*args, form="in", **options)


def eps(*args: Any, **options: Any) -> Tensor:
    return SF.eps_supinfonce(*args, epsilon=EPSILON, **options)


def spread(*args: Any, **options: Any) -> Tensor:
    return SF.spread(*args, alpha=ALPHA, **options)


def set_exact(*args: Any, **options: Any) -> Tensor:
    return SF.set_nce(*args, method="exact", **options)


LOSSES = [
    _case("sincere", SF.sincere, "sincere", never_repels=True),
    _case("supcon", SF.supcon, "supcon_out"),
    _case("supcon_in", supcon_in, "supcon_in", never_repels=True),
    _case("eps_supinfonce", eps, "eps_supinfonce", epsilon=EPSILON, never_repels=True, margin_at_one_class=-EPSILON),
    _case("decoupled", SF.decoupled, "decoupled", never_repels=True),
    _case("set_nce", set_exact, "set_nce_by_recurrence", never_repels=True),
    LossCase(
        "spread",
        spread,
        lambda batch, views: oracles.spread(batch, ALPHA, _own_views(batch, views)),
        lambda batch, coefficients, views: oracles.logit_gradient(
            batch, "spread", coefficients, alpha=ALPHA, own_views=_own_views(batch, views)
        ),
        needs_views=True,
    ),
]
BACKENDS = ["dense", "tiled"]
REDUCTIONS = ["mean", "mean_all", "class_mean", "sum", "none"]


def rows_of(case: LossCase, rows: Tensor, labels: Tensor) -> tuple[Tensor, Tensor, int]:
    """A batch (n, d) in the shape that the loss takes: pairs of neighbours become views where it needs them."""
    if not case.needs_views:
        return rows, labels, 1
    even = rows.shape[0] // 2 * 2
    return rows[:even].view(-1, 2, rows.shape[1]), labels[:even:2], 2


def flat(embeddings: Tensor, labels: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Rows and labels as the oracle wants them."""
    if embeddings.ndim == 2:
        return embeddings.detach().double().numpy(), labels.numpy()
    return oracles.fold_views(embeddings.detach().double().numpy(), labels.numpy())
